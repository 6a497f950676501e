// The host compiler under limits: its errors, its absence, bombs, and what it produces.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

#include "candidates.h"
#include "compile/compile.h"
#include "test_directory.h"

namespace warpsmith {
namespace {

class HostCompile : public testing::Test {
 protected:
  HostCompile() { options_.cache = scratch_.path() / "cache"; }

  TestDirectory scratch_;
  CompilerOptions options_;
};

TEST_F(HostCompile, MakesALoadableSharedObject) {
  const Result<Artifact> made = Compiler(options_).compile(
      cpp_candidate("#include <cstdint>\nextern \"C\" std::int64_t entry(std::int64_t x) { return 3 * x; }\n"));
  ASSERT_TRUE(made.ok()) << made.error().message;
  void* library = dlopen(made->binary.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto entry = reinterpret_cast<std::int64_t (*)(std::int64_t)>(dlsym(library, "entry"));
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry(14), 42);
  dlclose(library);
}

TEST_F(HostCompile, ErrorsAreTheCompilersOwnWords) {
  const Result<Artifact> made = Compiler(options_).compile(cpp_candidate("int entry = undeclared_name;\n"));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, ErrorKind::failed);
  EXPECT_NE(made.error().message.find("undeclared_name"), std::string::npos) << made.error().message;
  EXPECT_LT(made.error().message.size(), 4200u);
}

TEST_F(HostCompile, ATemplateBombIsStopped) {
  options_.timeout_seconds = 2;
  options_.memory_bytes = 1ULL << 30;
  const auto start = std::chrono::steady_clock::now();
  const Result<Artifact> made = Compiler(options_).compile(cpp_candidate(kTemplateBomb));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, ErrorKind::failed);
  EXPECT_LT(took.count(), 20);
}

TEST_F(HostCompile, FilesAreNotRead) {
  for (const char* source : {"#include \"/etc/passwd\"\n", "#include </etc/passwd>\n"}) {
    const Result<Artifact> made = Compiler(options_).compile(cpp_candidate(source));
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().kind, ErrorKind::failed);
    EXPECT_NE(made.error().message.find("#include"), std::string::npos);
    EXPECT_EQ(made.error().message.find("root:"), std::string::npos);
  }
}

TEST_F(HostCompile, AMissingCompilerSaysWhatToInstall) {
  options_.host_compiler = "/nowhere/c++";
  const Compiler compiler(options_);
  const Result<Artifact> made = compiler.compile(cpp_candidate("int entry;\n"));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, ErrorKind::environment);
  EXPECT_NE(made.error().message.find("install g++"), std::string::npos) << made.error().message;
  EXPECT_EQ(compiler.versions().count("c++"), 0u);
}

TEST_F(HostCompile, AnArchitectureCannotSmuggleOptions) {
  Candidate candidate = cpp_candidate("int entry;\n");
  candidate.arch = "x86-64-v3 -include/etc/passwd";
  const Result<Artifact> made = Compiler(options_).compile(candidate);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, ErrorKind::failed);
}

TEST_F(HostCompile, VersionsAreShort) {
  const std::string version = Compiler(options_).versions()["c++"];
  EXPECT_TRUE(version.starts_with("g++ ") || version.starts_with("clang++ ")) << version;
}

}  // namespace
}  // namespace warpsmith
