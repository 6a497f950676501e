// The host compiler by itself, on texts that the source guard refuses: what it says holds nothing of a file outside its
// own. And compilers in odd places: confinement never looks like a candidate's fault.
#include "compile/confinement.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>

#include "base/landlock.h"
#include "candidates.h"
#include "compile/compile.h"
#include "compile/source_guard.h"
#include "test_directory.h"

namespace warpsmith {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSecret = "opensesame";

class Confinement : public testing::Test {
 protected:
  void SetUp() override {
    if (!Landlock::create({}).ok()) GTEST_SKIP() << "this kernel has no Landlock";
    options_.cache = scratch_.path() / "cache";
    for (const char* name : {"cache", "work", "tools", "elsewhere"}) fs::create_directories(scratch_.path() / name);
    std::ofstream(secret()) << kSecret << " is the word\n";
  }
  void TearDown() override { unsetenv("WARPSMITH_CXX_FILES"); }

  std::string secret() const { return (scratch_.path() / "secret.txt").string(); }

  // As the cache would run it, but for the guard; `confined` false shows that the text does read the file.
  ProcessOutput compile(const std::string& source, bool confined) {
    std::ofstream(scratch_.path() / "work" / "kernel.cpp") << source;
    ProcessRequest request = limited_request(options_, scratch_.path() / "work");
    request.argv = {"/usr/bin/g++", "-std=c++20", "-O1", "-fPIC", "-shared", "-o", "kernel.so", "kernel.cpp"};
    const Result<ProcessOutput> output = confined ? run_confined(request, options_) : run_process(request);
    EXPECT_TRUE(output.ok()) << output.error().message;
    return output.ok() ? *output : ProcessOutput{};
  }

  std::string wrapper(const char* folder, const std::string& text) {
    const fs::path path = scratch_.path() / folder / "wrapper";
    std::ofstream(path) << "#!/bin/sh\n" << text;
    fs::permissions(path, fs::perms::owner_all);
    return path.string();
  }

  TestDirectory scratch_;
  CompilerOptions options_;
};

TEST_F(Confinement, TheCompilersWordsHoldNothingOfAForeignFile) {
  if (access("/usr/bin/g++", X_OK) != 0) GTEST_SKIP() << "no g++";
  const std::string quoted = "\\\"" + secret() + "\\\"";
  const std::vector<std::string> hostile = {
      "#define P(x, y) x%:%:y\nP(as, m)(\".include " + quoted + "\");\n",
      "#line 1 \"" + secret() + "\"\nint a = undeclared;\n",
      "# 1 \"" + secret() + "\"\nint a = undeclared;\n",
      "__attribute__((section(\"x\\n.include " + quoted + "\\n#\"))) int a = 1;\n",
      "#include \"" + secret() + "\"\n",
      "#include <sys/cdefs.h>\n__CONCAT(as, m)(\".include " + quoted + "\");\n",
      "#ident \"x\\\"\\n.include " + quoted + "\\n#\"\n",
  };
  for (const std::string& source : hostile) {
    EXPECT_NE(compile(source, false).err.find(kSecret), std::string::npos) << "this text reads no file: " << source;
    const ProcessOutput output = compile(source, true);
    EXPECT_EQ((output.err + output.out).find(kSecret), std::string::npos) << source << output.err;
    EXPECT_FALSE(check_self_contained(source, Includes::system).ok()) << source;
  }
  const std::string embeds = "asm(\".globl all\\nall: .incbin " + quoted + "\");\n";
  EXPECT_TRUE(compile(embeds, false).status.success());
  EXPECT_FALSE(compile(embeds, true).status.success());
  EXPECT_FALSE(compile("asm(\".incbin \\\"/proc/self/environ\\\"\");\n", true).status.success());
}

TEST_F(Confinement, NothingIsWrittenElsewhereAndNoSocketOpened) {
  ProcessRequest request = limited_request(options_, scratch_.path() / "work");
  const auto runs = [&](const std::string& command) {
    request.argv = {"/bin/sh", "-c", command};
    const Result<ProcessOutput> output = run_confined(request, options_);
    return output.ok() && output->status.success();
  };
  EXPECT_TRUE(runs("echo x > here && cat here"));
  EXPECT_FALSE(runs("echo x > ../elsewhere/there"));
  EXPECT_FALSE(fs::exists(scratch_.path() / "elsewhere" / "there"));
  EXPECT_FALSE(runs("cat ../secret.txt"));
  if (access("/usr/bin/python3", X_OK) == 0) {
    EXPECT_TRUE(runs("/usr/bin/python3 -c pass"));
    EXPECT_FALSE(runs("/usr/bin/python3 -c 'import socket; socket.socket()'"));
  }
}

TEST_F(Confinement, ACompilerInAnyFolderWorks) {
  options_.host_compiler = wrapper("tools", "exec c++ \"$@\"\n");
  const Result<Artifact> made = Compiler(options_).compile(cpp_candidate("int entry;\n"));
  EXPECT_TRUE(made.ok()) << made.error().message;
  // This folder holds the cache as well, and stays closed but for the compiler.
  options_.host_compiler = wrapper(".", "exec c++ \"$@\"\n");
  const Result<Artifact> again = Compiler(options_).compile(cpp_candidate("int entry;\n"));
  EXPECT_TRUE(again.ok()) << again.error().message;
}

TEST_F(Confinement, ACompilerThatNeedsMoreIsNoFaultOfTheCandidate) {
  const std::string needed = (scratch_.path() / "elsewhere").string();
  std::ofstream(needed + "/settings") << "x\n";
  options_.host_compiler = wrapper("tools", "cat " + needed + "/settings > /dev/null && exec c++ \"$@\"\n");
  const Result<Artifact> made = Compiler(options_).compile(cpp_candidate("int entry;\n"));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, ErrorKind::environment);
  EXPECT_NE(made.error().message.find("WARPSMITH_CXX_FILES"), std::string::npos) << made.error().message;
  EXPECT_NE(made.error().message.find("settings"), std::string::npos) << made.error().message;
  setenv("WARPSMITH_CXX_FILES", ("/nowhere:" + needed).c_str(), 1);
  const Result<Artifact> helped = Compiler(options_).compile(cpp_candidate("int entry;\n"));
  EXPECT_TRUE(helped.ok()) << helped.error().message;
}

TEST_F(Confinement, AnErrorOfTheCandidateStaysOne) {
  const Result<Artifact> made = Compiler(options_).compile(cpp_candidate("#error Permission denied\n"));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, ErrorKind::failed) << made.error().message;
}

TEST_F(Confinement, CostsNextToNothing) {
  ProcessRequest request = limited_request(options_, scratch_.path() / "work");
  request.argv = {"/bin/true"};
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(run_confined(request, options_).ok());
  const auto confined = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(run_process(request).ok());
  const auto end = std::chrono::steady_clock::now();
  const double more_ms = std::chrono::duration<double, std::milli>((confined - start) - (end - confined)).count() / 20;
  EXPECT_LT(more_ms, 20) << "about 1 ms on an idle machine";
  RecordProperty("more_ms", std::to_string(more_ms));
}

}  // namespace
}  // namespace warpsmith
