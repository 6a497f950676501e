// oneDNN's matmul through the module: the FP32 form, which every CPU has, shows that the plumbing is right; the 16-bit
// forms are right wherever the library offers them, and are baselines of the worker then.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "base/paths.h"
#include "evaluate/cpu/onednn_matmul.h"
#include "evaluate/cpu/reference.h"
#include "evaluate/evaluator.h"
#include "evaluate/inputs.h"

#if defined(__SANITIZE_ADDRESS__)
// The leak checker itself crashes on threads that oneDNN 2's OpenMP runtime has started; errors are still found.
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }
#endif

namespace warpsmith {
namespace {

struct Shape {
  std::int64_t m, n, k;
};
constexpr Shape kShapes[] = {{1, 1, 1}, {1, 65, 130}, {67, 1, 33}, {5, 7, 3}, {64, 64, 64}, {129, 95, 257}};

struct Case {
  Shape shape;
  Layout layout;
  int threads;
};

std::vector<Case> cases() {
  std::vector<Case> result;
  for (const Shape& shape : kShapes) {
    for (const Layout layout : {Layout::nn, Layout::tn}) {
      for (const int threads : {1, 2}) result.push_back({shape, layout, threads});
    }
  }
  return result;
}

std::string describe(const Case& one) {
  return std::to_string(one.shape.m) + "x" + std::to_string(one.shape.n) + "x" + std::to_string(one.shape.k) + " " +
         std::string(to_string(one.layout)) + ", threads " + std::to_string(one.threads);
}

OneDnnMatmulSpec spec_of(const Case& one, OneDnnType type) {
  return {one.shape.m, one.shape.n, one.shape.k, one.layout == Layout::tn, type, one.threads};
}

std::size_t area(std::int64_t rows, std::int64_t columns) { return static_cast<std::size_t>(rows * columns); }

// Numbers that need all of FP32's mantissa.
float fine_value(std::int64_t index) {
  const auto bits = static_cast<std::int64_t>(inputs::mix(static_cast<std::uint64_t>(index) + 1) >> 40);
  return static_cast<float>(static_cast<double>(bits - (1 << 23)) * power_of_two(-23));
}

TEST(OneDnn, MultipliesInFp32) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(describe(one));
    const auto [m, n, k] = one.shape;
    const bool transposed = one.layout == Layout::tn;
    std::vector<float> a(area(m, k)), b(area(k, n)), c(area(m, n), std::numeric_limits<float>::quiet_NaN());
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = fine_value(static_cast<std::int64_t>(i));
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = fine_value(static_cast<std::int64_t>(i) + 1000003);
    const auto matmul = OneDnnMatmul::create(spec_of(one, OneDnnType::f32));
    ASSERT_TRUE(matmul.ok()) << matmul.error().message;
    EXPECT_EQ((*matmul)->version().rfind("oneDNN ", 0), 0u);
    EXPECT_FALSE((*matmul)->implementation().empty());
    (*matmul)->run(a.data(), b.data(), c.data());
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0, magnitude = 0;
        for (std::int64_t x = 0; x < k; ++x) {
          const std::size_t at =
              transposed ? area(j, k) + static_cast<std::size_t>(x) : area(x, n) + static_cast<std::size_t>(j);
          const double product = static_cast<double>(a[area(i, k) + static_cast<std::size_t>(x)]) * b[at];
          sum += product;
          magnitude += std::abs(product);
        }
        const double error = std::abs(static_cast<double>(c[area(i, n) + static_cast<std::size_t>(j)]) - sum);
        ASSERT_TRUE(error <= error_gamma(k) * magnitude) << i << ", " << j << ": off by " << error;
      }
    }
  }
}

// Either the library says that it has none, or what it has is right, also on sums that FP16 would lose.
void expect_right_or_unimplemented(OneDnnType type, ElementType element) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(describe(one));
    const auto matmul = OneDnnMatmul::create(spec_of(one, type));
    if (!matmul) {
      EXPECT_EQ(matmul.error().kind, ErrorKind::environment);
      EXPECT_NE(matmul.error().message.find("unimplemented"), std::string::npos) << matmul.error().message;
      continue;
    }
    Problem problem;
    problem.m = one.shape.m;
    problem.n = one.shape.n;
    problem.k = one.shape.k;
    problem.layout = one.layout;
    problem.element = element;
    for (const InputKind kind : {InputKind::normal, InputKind::accumulator}) {
      const InputSpec input{kind, 7, problem.m, problem.n, problem.k, element};
      std::vector<std::uint16_t> a(area(problem.m, problem.k)), b(area(problem.k, problem.n));
      std::vector<std::uint16_t> c(area(problem.m, problem.n), quiet_nan_bits(element));
      generate_a(input, problem.a_is_k_major(), a.data());
      generate_b(input, problem.b_is_k_major(), b.data());
      (*matmul)->run(a.data(), b.data(), c.data());
      const Reference reference(problem, reference_rows(problem, 7), a.data(), b.data());
      const auto criterion = kind == InputKind::accumulator ? Criterion::exact : Criterion::bound;
      const CheckReport report = reference.check(criterion, c.data());
      EXPECT_TRUE(report.passed) << to_string(kind) << ": " << report.detail;
    }
  }
}

TEST(OneDnn, MultipliesF16OrSaysUnimplemented) { expect_right_or_unimplemented(OneDnnType::f16, ElementType::f16); }

TEST(OneDnn, MultipliesBf16OrSaysUnimplemented) { expect_right_or_unimplemented(OneDnnType::bf16, ElementType::bf16); }

TEST(OneDnn, IsABaselineOfTheWorkerWhereItWorks) {
  const auto cache = std::filesystem::temp_directory_path() / ("warpsmith_onednn_" + std::to_string(getpid()));
  setenv("WARPSMITH_CACHE", cache.c_str(), 1);
  EvaluatorOptions options;
  options.threads = 2;
  const auto evaluator = Evaluator::start(options);
  ASSERT_TRUE(evaluator.ok()) << evaluator.error().message;
  TimingEffort effort;
  effort.seconds = 0.02;
  effort.min_samples = 3;
  for (const auto& [element, type] :
       {std::pair(ElementType::f16, OneDnnType::f16), {ElementType::bf16, OneDnnType::bf16}}) {
    Problem problem;
    problem.m = problem.n = problem.k = 64;
    problem.element = element;
    const auto measured = (*evaluator)->baselines(problem, effort);
    ASSERT_TRUE(measured.ok()) << measured.error().message;
    std::set<std::string> names;
    for (const Measurement& one : *measured) {
      if (one.subject.rfind("onednn-matmul-", 0) == 0) names.insert(one.subject);
    }
    const std::string version =
        (*evaluator)->machine().versions.at("onednn-" + std::string(to_string(element)) + "-matmul");
    if (OneDnnMatmul::create({64, 64, 64, false, type, 1}).ok()) {
      EXPECT_EQ(names, (std::set<std::string>{"onednn-matmul-nn-1t", "onednn-matmul-nn-2t", "onednn-matmul-tn-1t",
                                              "onednn-matmul-tn-2t"}));
      EXPECT_EQ(version.rfind("oneDNN ", 0), 0u) << version;
    } else {
      EXPECT_TRUE(names.empty());
      EXPECT_EQ(version.rfind("unavailable: oneDNN ", 0), 0u) << version;
    }
  }
  std::filesystem::remove_all(cache);
}

}  // namespace
}  // namespace warpsmith
