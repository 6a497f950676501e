// What the tests of generated CUDA kernels share: machines, broken rules by name, and compiling with NVRTC.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "codegen/generate.h"
#include "compile/compile.h"

namespace warpsmith {

inline Machine gpu(int compute_capability) {
  Machine machine;
  machine.name = compute_capability == 90 ? "NVIDIA H200" : "NVIDIA A100";
  machine.kind = "cuda";
  machine.compute_capability = compute_capability;
  machine.units = compute_capability == 90 ? 132 : 108;
  machine.smem_bytes_per_block = compute_capability == 90 ? 232448 : 166912;
  machine.registers_per_unit = 65536;
  return machine;
}

inline Problem problem(const std::string& text) { return parse_problem(text).value(); }
inline Recipe recipe(const std::string& text) { return parse_recipe(text).value(); }

inline std::string broken_rule(const std::string& recipe_text, const std::string& problem_text,
                               int compute_capability = 90) {
  const Problem p = problem(problem_text);
  const auto violation = find_violation(recipe(recipe_text), &p, gpu(compute_capability));
  return violation ? violation->rule : "";
}

class KernelCompile : public testing::Test {
 protected:
  KernelCompile()
      : cache_(std::filesystem::temp_directory_path() / ("warpsmith-kernels-" + std::to_string(::getpid()))) {
    options_.cache = cache_;
    options_.nvrtc_helper = WARPSMITH_NVRTC_HELPER;
  }
  ~KernelCompile() override { std::filesystem::remove_all(cache_); }

  Result<Artifact> compile(const Candidate& candidate) const { return Compiler(options_).compile(candidate); }

  void expect_clean(const Recipe& r, const std::string& shape, int compute_capability = 90) {
    const Result<Candidate> candidate = generate(r, problem(shape), gpu(compute_capability));
    ASSERT_TRUE(candidate.ok()) << to_string(r) << " " << candidate.error().message;
    const Result<Artifact> artifact = Compiler(options_).compile(*candidate);
    ASSERT_TRUE(artifact.ok()) << to_string(r) << "\n" << artifact.error().message;
    EXPECT_TRUE(artifact->resources.clean()) << shape << " " << to_string(r) << "\n" << artifact->log;
    EXPECT_TRUE(artifact->resources.warnings.empty()) << shape << " " << to_string(r) << "\n" << artifact->log;
  }

  // Spills are allowed: they are the resource gate's to judge.
  void expect_compiles(const Recipe& r, const std::string& shape) {
    const Result<Candidate> candidate = generate(r, problem(shape), gpu(90));
    ASSERT_TRUE(candidate.ok()) << to_string(r) << " " << candidate.error().message;
    const Result<Artifact> artifact = Compiler(options_).compile(*candidate);
    EXPECT_TRUE(artifact.ok()) << shape << " " << to_string(r) << "\n" << artifact.error().message;
  }

  // Generated past the legality check.
  void expect_refused(const Recipe& r, const Problem& p,
                      Candidate (*generator)(const Recipe&, const Problem&, const Machine&)) {
    ASSERT_TRUE(find_violation(r, nullptr, gpu(90)).has_value()) << to_string(r);
    const Result<Artifact> artifact = Compiler(options_).compile(generator(r, p, gpu(90)));
    ASSERT_FALSE(artifact.ok()) << to_string(r);
    EXPECT_EQ(artifact.error().kind, ErrorKind::failed);
    EXPECT_NE(artifact.error().message.find("static assertion"), std::string::npos) << artifact.error().message;
  }

 private:
  std::filesystem::path cache_;
  CompilerOptions options_;
};

}  // namespace warpsmith
