// nvcc in its sandbox: a kernel is built and inspected, errors are one line, files of the user stay private, and a
// compile that takes too long is ended.
#include "audit/build_candidate.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "audit/elf_inspect.h"
#include "audit/findings.h"

namespace warpsmith::audit {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEntry =
    "#include <cuda_runtime.h>\n"
    "__global__ void nothing() {}\n"
    "extern \"C\" int warpsmith_candidate(const void*, const void*, void*, int, int, int, int, void*, size_t,\n"
    "                                   cudaStream_t stream) {\n"
    "  nothing<<<1, 1, 0, stream>>>();\n"
    "  return 0;\n"
    "}\n";

class BuildCandidate : public ::testing::Test {
 protected:
  void SetUp() override {
    if (find_nvcc().empty()) GTEST_SKIP() << "no nvcc";
    std::string pattern = (fs::temp_directory_path() / "warpsmith-build-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    home_ = pattern;
    for (const char* name : {"source", "scratch", "private"}) fs::create_directories(home_ / name);
    std::ofstream(home_ / "private" / "secret.h") << "#define SECRET 1\n";
  }
  void TearDown() override {
    if (!home_.empty()) fs::remove_all(home_);
  }

  Result<BuiltCandidate> build(const std::string& text, double wall_seconds = 120) {
    const fs::path source = home_ / "source" / "kernel.cu";
    std::ofstream(source) << text;
    BuildOptions options;
    options.launcher = WARPSMITH_SANDBOX;
    options.scratch = home_ / "scratch";
    options.wall_seconds = wall_seconds;
    return build_candidate(source, options);
  }

  fs::path home_;
};

TEST_F(BuildCandidate, MakesAnObjectWhoseReferencesAreItsOwn) {
  const auto built = build(kEntry);
  ASSERT_TRUE(built.ok()) << built.error().message;
  EXPECT_NE(built->command.find("nvcc"), std::string::npos);
  const auto facts = inspect_elf_file(built->object);
  ASSERT_TRUE(facts.ok()) << facts.error().message;
  EXPECT_TRUE(facts->gives("warpsmith_candidate"));
  EXPECT_FALSE(facts->runtime_is_static());
  EXPECT_FALSE(facts->needs("libcublas"));
  EXPECT_TRUE(judge_elf(*facts).empty());
}

TEST_F(BuildCandidate, SaysInOneLineWhatIsWrong) {
  const auto built = build("this is no CUDA\n");
  ASSERT_FALSE(built.ok());
  EXPECT_EQ(built.error().kind, ErrorKind::failed);
  EXPECT_NE(built.error().message.find("does not compile: "), std::string::npos);
  EXPECT_EQ(built.error().message.find('\n'), std::string::npos);
}

TEST_F(BuildCandidate, KeepsPrivateFilesOutOfTheBuild) {
  if (syscall(SYS_landlock_create_ruleset, nullptr, 0, 1) < 1) GTEST_SKIP() << "this kernel has no Landlock";
  const std::string secret = (home_ / "private" / "secret.h").string();
  EXPECT_FALSE(build("#include \"" + secret + "\"\n" + kEntry).ok());
  EXPECT_FALSE(build("asm(\".incbin \\\"" + secret + "\\\"\");\n" + std::string(kEntry)).ok());
  EXPECT_FALSE(build("#include \"/etc/passwd\"\n" + std::string(kEntry)).ok());
  // Nor does the preprocessor find it there.
  EXPECT_FALSE(build("#if !__has_include(\"" + secret + "\")\n#error not found\n#endif\n" + kEntry).ok());
}

TEST_F(BuildCandidate, EndsEndlessCompiles) {
  const auto built = build(
      "template <int N> struct Bomb { Bomb<N * 2> a; Bomb<N * 2 + 1> b; };\n"
      "template <> struct Bomb<1 << 26> {};\n"
      "constexpr long spin() { long x = 0; for (long i = 0; i < 1000000000; ++i) x += i; return x; }\n"
      "static_assert(spin() != 0);\n" +
          std::string(kEntry),
      3);
  ASSERT_FALSE(built.ok());
  EXPECT_EQ(built.error().kind, ErrorKind::failed);
}

}  // namespace
}  // namespace warpsmith::audit
