// The worked examples of docs/candidates.md: they load, say which problems they are for, and compile cleanly.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "candidates.h"
#include "codegen/descriptor.h"
#include "compile/compile.h"
#include "compile/cubin.h"
#include "test_directory.h"

namespace warpsmith {
namespace {

namespace fs = std::filesystem;

Machine h200() {
  Machine machine;
  machine.kind = "cuda";
  machine.compute_capability = 90;
  machine.units = 132;
  machine.smem_bytes_per_block = 232448;
  return machine;
}

class Examples : public testing::TestWithParam<std::string> {
 protected:
  Examples() {
    options_.cache = scratch_.path() / "cache";
    options_.nvrtc_helper = WARPSMITH_NVRTC_HELPER;
  }
  TestDirectory scratch_;
  CompilerOptions options_;
};

TEST_P(Examples, CompileForTheirProblems) {
  const auto form = load_candidate(fs::path(WARPSMITH_EXAMPLES) / (GetParam() + ".cu"));
  ASSERT_TRUE(form.ok()) << form.error().message;
  const Compiler compiler(options_);
  int applicable = 0;
  for (const char* text : {"64x64x64 nn", "64x64x64 tn bf16", "1x1x1 nn", "201x141x77 nn", "201x141x72 tn",
                           "1000x904x800 tn", "4096x4096x16384 nn", "8192x8192x8192 tn"}) {
    const Problem problem = parse_problem(text).value();
    const auto reason = inapplicable(*form, problem, h200());
    ASSERT_TRUE(reason.ok()) << reason.error().message;
    if (*reason) continue;
    ++applicable;
    const auto candidate = instantiate(*form, problem, h200());
    ASSERT_TRUE(candidate.ok()) << candidate.error().message;
    const auto artifact = compiler.compile(*candidate);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    EXPECT_TRUE(artifact->resources.clean()) << artifact->log;
    EXPECT_TRUE(artifact->resources.warnings.empty()) << artifact->log;
  }
  EXPECT_GE(applicable, 2);
}

// Every example of the folder is in the list below, and the other way round.
TEST(ExamplesFolder, IsCovered) {
  std::set<std::string> found;
  for (const auto& entry : fs::directory_iterator(WARPSMITH_EXAMPLES)) found.insert(entry.path().stem().string());
  EXPECT_EQ(found, (std::set<std::string>{"mma_64x64", "split_k", "wgmma_tma"}));
}

INSTANTIATE_TEST_SUITE_P(All, Examples, testing::Values("mma_64x64", "split_k", "wgmma_tma"));

// A message of the compiler names the line of the author's file, though macros stand before it.
TEST_F(Examples, MessagesNameTheAuthorsLines) {
  const auto form = parse_candidate(
      R"({"warpsmith_candidate": 1, "defines": {"TILE": 4},
          "kernels": [{"entry": "f", "grid": [1], "block": [1], "arguments": [{"pointer": "c"}]}]})",
      "// TILE WARPSMITH_BF16\nextern \"C\" __global__ void f(int* c) {\n  undeclared = TILE;\n}\n", "mine.json");
  ASSERT_TRUE(form.ok()) << form.error().message;
  const auto made = Compiler(options_).compile(instantiate(*form, parse_problem("8x8x8").value(), h200()).value());
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().message.find("mine.cu(3)"), std::string::npos) << made.error().message;
}

}  // namespace
}  // namespace warpsmith
