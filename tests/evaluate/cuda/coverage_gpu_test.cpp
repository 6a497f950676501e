// Coverage: random ragged problems (any sizes, layouts, element types, leading dimensions, some scaled, some with FP16
// sums), each through all gates with a random legal recipe of every family that accepts it. Seeded: always the same
// problems. Sources compile on all cores while a few worker processes judge what is ready.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "codegen/generate.h"
#include "gpu_fixture.h"

namespace warpsmith {
namespace {

constexpr int kProblems = 200;
constexpr int kWorkers = 4;  // processes that judge; the device is shared, the hosts' waits overlap
constexpr std::int64_t kLargestSize = 5000;
constexpr double kWallSeconds = 200;

struct Case {
  Problem problem;
  Recipe recipe;
  Candidate candidate;
};

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}

  std::int64_t below(std::int64_t end) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(end));
  }
  bool one_in(std::int64_t n) { return below(n) == 0; }

  // Log-uniform from 1 to kLargestSize.
  std::int64_t size() {
    const double share = static_cast<double>(below(1 << 30)) / (1 << 30);
    return static_cast<std::int64_t>(std::exp(share * std::log(static_cast<double>(kLargestSize) + 1)));
  }

  Problem problem() {
    Problem p;
    p.m = std::clamp<std::int64_t>(size(), 1, kLargestSize);
    p.n = std::clamp<std::int64_t>(size(), 1, kLargestSize);
    p.k = std::clamp<std::int64_t>(size(), 1, kLargestSize);
    p.layout = static_cast<Layout>(below(4));
    p.element = one_in(2) ? ElementType::bf16 : ElementType::f16;
    if (p.element == ElementType::f16 && one_in(6)) p.accumulator = AccumulatorType::f16;
    if (one_in(4)) p.scaling = Scaling::alpha_beta;
    // Packed rows, rows that are whole 16-byte units apart (what tensor maps take), or any distance.
    const std::int64_t kind = below(4);
    const auto ld = [&](std::int64_t columns) {
      if (kind == 0) return columns;
      if (kind == 1) return columns + below(40);
      return (columns + 7) / 8 * 8 + 8 * below(5);
    };
    p.lda = ld(p.a_cols());
    p.ldb = ld(p.b_cols());
    p.ldc = ld(p.n);
    return p;
  }

  // A starting point with a few fields changed at random, or a random recipe where there is none; legal, if one is
  // found.
  std::optional<Recipe> recipe(const Family& family, const Problem& problem, const Machine& machine) {
    const std::vector<Recipe> points = family.starting_points(problem, machine);
    const auto fields = family.fields();
    const auto change = [&](Recipe& recipe, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) {
        const auto field = static_cast<std::size_t>(below(static_cast<std::int64_t>(fields.size())));
        recipe.set_choice(field, static_cast<int>(below(static_cast<std::int64_t>(fields[field]->values.size()))));
      }
    };
    std::optional<Recipe> found;
    for (int attempt = 0; attempt < 60; ++attempt) {
      Recipe one = points.empty() ? Recipe(family)
                                  : points[static_cast<std::size_t>(below(static_cast<std::int64_t>(points.size())))];
      change(one, points.empty() ? 2 * static_cast<std::int64_t>(fields.size()) : 1 + below(4));
      if (is_legal(one, problem, machine)) return one;
    }
    if (!points.empty()) found = points.front();
    return found;
  }

 private:
  std::mt19937_64 random_;
};

std::vector<Case> draw_cases(const Machine& machine) {
  Draw draw(20261130);
  std::vector<Case> cases;
  for (int i = 0; i < kProblems; ++i) {
    const Problem problem = draw.problem();
    for (const Family* family : families_for(Target::sm90)) {
      const auto recipe = draw.recipe(*family, problem, machine);
      if (!recipe) continue;
      Result<Candidate> candidate = generate(*recipe, problem, machine);
      if (!candidate.ok()) {
        ADD_FAILURE() << to_string(problem) << " " << to_string(*recipe) << ": " << candidate.error().message;
        continue;
      }
      cases.push_back({problem, *recipe, std::move(*candidate)});
    }
  }
  return cases;
}

struct Count {
  int passed = 0, failed = 0, scaled = 0, padded = 0, f16_sums = 0;
};

// Compiles all cases in order on all cores; what is ready is had from the futures.
class CompileAll {
 public:
  explicit CompileAll(const std::vector<Case>& cases) : promises_(cases.size()) {
    for (auto& promise : promises_) futures_.push_back(promise.get_future());
    for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) {
      threads_.emplace_back([&] {
        for (std::size_t at = next_++; at < cases.size(); at = next_++) {
          promises_[at].set_value(test_compiler().compile(cases[at].candidate));
        }
      });
    }
  }
  ~CompileAll() {
    for (std::thread& thread : threads_) thread.join();
  }
  Result<Artifact> take(std::size_t index) { return futures_[index].get(); }

 private:
  std::vector<std::promise<Result<Artifact>>> promises_;
  std::vector<std::future<Result<Artifact>>> futures_;
  std::atomic<std::size_t> next_{0};
  std::vector<std::thread> threads_;
};

// Runs of cases of one problem: a worker prepares each once.
std::vector<std::pair<std::size_t, std::size_t>> by_problem(const std::vector<Case>& cases) {
  std::vector<std::pair<std::size_t, std::size_t>> runs;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (runs.empty() || !(cases[runs.back().first].problem == cases[i].problem)) runs.emplace_back(i, i);
    runs.back().second = i + 1;
  }
  return runs;
}

TEST(Coverage, RandomProblemsPassAllGatesInEveryFamily) {
  const auto start = std::chrono::steady_clock::now();
  EvaluatorOptions options;
  options.target = Target::sm80;
  std::vector<std::unique_ptr<Evaluator>> evaluators;
  for (int i = 0; i < kWorkers; ++i) {
    auto evaluator = Evaluator::start(options);
    WARPSMITH_NEED_GPU(evaluator);
    evaluators.push_back(std::move(*evaluator));
  }
  const std::vector<Case> cases = draw_cases(evaluators.front()->machine());
  ASSERT_GE(cases.size(), 300u);
  CompileAll compiled(cases);
  const auto runs = by_problem(cases);

  std::mutex mutex;
  std::map<std::string, Count> counts;
  std::atomic<std::size_t> next{0};
  const auto judge = [&](Evaluator& evaluator) {
    for (std::size_t run = next++; run < runs.size(); run = next++) {
      for (std::size_t at = runs[run].first; at < runs[run].second; ++at) {
        const Case& one = cases[at];
        const Result<Artifact> artifact = compiled.take(at);
        const std::string verdict =
            artifact.ok()
                ? [&] {
                    const Verdict v = evaluator.evaluate(one.problem, one.candidate, *artifact, 0, {0, 1});
                    return v.accepted() != nullptr ? std::string() : v.describe();
                  }()
                : artifact.error().message;
        const std::lock_guard<std::mutex> lock(mutex);
        Count& count = counts[one.recipe.family().name];
        ++(verdict.empty() ? count.passed : count.failed);
        count.scaled += one.problem.scaled() ? 1 : 0;
        count.padded += one.problem.packed() ? 0 : 1;
        count.f16_sums += one.problem.accumulator == AccumulatorType::f16 ? 1 : 0;
        if (!verdict.empty()) {
          ADD_FAILURE() << to_string(one.problem) << " " << to_short_string(one.recipe) << ": " << verdict;
        }
      }
    }
  };
  std::vector<std::thread> threads;
  for (const auto& evaluator : evaluators) threads.emplace_back(judge, std::ref(*evaluator));
  for (std::thread& thread : threads) thread.join();

  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print("{} problems, {} recipes, {:.0f} s\n", kProblems, cases.size(), seconds);
  for (const auto& [family, count] : counts) {
    fmt::print("  {:<7} {} passed, {} failed; {} scaled, {} with leading dimensions, {} with FP16 sums\n", family,
               count.passed, count.failed, count.scaled, count.padded, count.f16_sums);
    EXPECT_GE(count.passed, 15) << family << " is hardly covered";
  }
  EXPECT_EQ(counts.size(), families_for(Target::sm90).size()) << "a family accepted no problem";
  EXPECT_LE(seconds, kWallSeconds);
}

}  // namespace
}  // namespace warpsmith
