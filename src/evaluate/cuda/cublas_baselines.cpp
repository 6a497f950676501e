// cublasGemmEx, and the choice among what cuBLASLt's heuristic offers.
#include "evaluate/cuda/cublas_baselines.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "evaluate/cuda/cublaslt_matmul.h"
#include "evaluate/timing.h"

namespace warpsmith::cuda {

namespace {

constexpr int kCandidates = 100;  // asked of the heuristic for auto-tuning
// A choice that changes from process to process changes every ratio to it: many stay in, for many rounds.
constexpr std::size_t kFinalists = 8;
constexpr double kFinalistMargin = 1.10;               // of the fastest one's time
constexpr int kFinalRounds = 7, kLongFinalRounds = 3;  // the latter of replays that are long, each as good as several
constexpr int kTuningReplays = 3;
constexpr double kHopeless = 1.5;       // times the fastest one's time
constexpr std::size_t kRemembered = 3;  // of a layout's candidates, for the next time

class GemmEx final : public Baseline {
 public:
  GemmEx(const Problem& problem, Layout layout, cublasHandle_t cublas)
      : problem_(stored_as(problem, layout)), layout_(layout), cublas_(cublas) {}

  std::string name() const override { return fmt::format("cublas-{}", to_string(layout_)); }
  std::string detail() const override { return "CUBLAS_GEMM_DEFAULT"; }
  Layout layout() const override { return layout_; }

  void launch(const OperandSet& operands, cudaStream_t /*the handle has it*/) override {
    const cudaDataType_t type = data_type(problem_.element);
    check(cublasGemmEx_64(cublas_, b_operation(layout_), CUBLAS_OP_N, problem_.n, problem_.m, problem_.k,
                          &operands.alpha, operands.b, type, problem_.b_ld(), operands.a, type, problem_.a_ld(),
                          &operands.beta, operands.c, type, problem_.c_ld(), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
          "cublasGemmEx");
  }

 private:
  Problem problem_;
  Layout layout_;
  cublasHandle_t cublas_;
};

// How many of them, fastest first, are near enough to the fastest to be timed again. Precondition: sorted, not empty.
template <class Entries>
std::size_t count_finalists(const Entries& timed) {
  std::size_t finalists = 1;
  while (finalists < timed.size() && finalists < kFinalists &&
         timed[finalists].first <= kFinalistMargin * timed.front().first) {
    ++finalists;
  }
  return finalists;
}

struct Tried {
  double first = 0;  // time, us
  std::unique_ptr<Baseline> baseline;
  std::unique_ptr<BaselineTrial> trial;
};

// fastest_us: of those before it; one far behind needs no second look.
double shortest_us(BaselineTrial& trial, double fastest_us) {
  double best_us = trial.time_us();
  for (int i = 1; i < kTuningReplays && !trial.is_long(best_us) && best_us <= kHopeless * fastest_us; ++i) {
    best_us = std::min(best_us, trial.time_us());
  }
  return best_us;
}

// The right ones of those that the heuristic offers, fastest first; only the known ones where there are any.
std::vector<Tried> try_all(const std::shared_ptr<const LtProblem>& problem, cublasLtHandle_t cublaslt,
                           const DeviceBuffer& workspace, const TryBaseline& try_out, std::vector<std::string>& known) {
  std::vector<std::unique_ptr<LtMatmul>> offered, familiar;
  for (const auto& choice : problem->ask(cublaslt, kCandidates)) {
    auto candidate = std::make_unique<LtMatmul>("auto", problem, choice.algo, cublaslt, workspace);
    const bool is_known = std::find(known.begin(), known.end(), candidate->detail()) != known.end();
    (is_known ? familiar : offered).push_back(std::move(candidate));
  }
  if (familiar.empty()) known.clear();
  std::vector<Tried> tried;
  double fastest_us = std::numeric_limits<double>::infinity();
  for (auto& candidate : familiar.empty() ? offered : familiar) {
    auto trial = try_out(*candidate, TrialLength::screening);
    if (!trial) continue;
    const double time_us = shortest_us(*trial, fastest_us);
    fastest_us = std::min(fastest_us, time_us);
    tried.push_back({time_us, std::move(candidate), std::move(trial)});
  }
  std::sort(tried.begin(), tried.end(), [](const Tried& x, const Tried& y) { return x.first < y.first; });
  return tried;
}

// The fastest right one. Those near the fastest are timed again, in turns, so that one lucky replay does not choose.
std::unique_ptr<Baseline> auto_tuned(const std::shared_ptr<const LtProblem>& problem, cublasLtHandle_t cublaslt,
                                     const DeviceBuffer& workspace, const TryBaseline& try_out,
                                     std::vector<std::string>& known) {
  std::vector<Tried> tried = try_all(problem, cublaslt, workspace, try_out, known);
  if (tried.empty()) return nullptr;
  const std::size_t finalists = count_finalists(tried);
  std::vector<std::vector<double>> rounds(finalists);
  for (std::size_t i = 0; finalists > 1 && i < finalists; ++i) {
    if (auto full = try_out(*tried[i].baseline, TrialLength::full)) tried[i].trial = std::move(full);
  }
  const int wanted = tried.front().trial->is_long(tried.front().first) ? kLongFinalRounds : kFinalRounds;
  for (int round = 0; finalists > 1 && round < wanted; ++round) {
    for (std::size_t i = 0; i < finalists; ++i) rounds[i].push_back(tried[i].trial->time_us());
  }
  // The median: the fastest of several replays would choose the luckiest.
  for (std::size_t i = 0; i < finalists; ++i) {
    if (!rounds[i].empty()) tried[i].first = summarize(std::move(rounds[i]), 1).median_us;
  }
  std::stable_sort(tried.begin(), tried.begin() + static_cast<std::ptrdiff_t>(finalists),
                   [](const Tried& x, const Tried& y) { return x.first < y.first; });
  if (known.empty()) {
    for (std::size_t i = 0; i < std::min(tried.size(), kRemembered); ++i) known.push_back(tried[i].baseline->detail());
  }
  return std::move(tried.front().baseline);
}

}  // namespace

std::unique_ptr<Baseline> fastest_of_finalists(std::vector<std::pair<double, std::unique_ptr<Baseline>>> timed,
                                               const TimeBaseline& time) {
  if (timed.empty()) return nullptr;
  std::sort(timed.begin(), timed.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
  const std::size_t finalists = count_finalists(timed);
  timed.resize(finalists);
  if (finalists == 1) return std::move(timed.front().second);
  std::vector<std::vector<double>> rounds(finalists);
  for (int round = 0; round < kFinalRounds; ++round) {
    for (std::size_t i = 0; i < finalists; ++i) {
      if (const std::optional<double> again_us = time(*timed[i].second)) rounds[i].push_back(*again_us);
    }
  }
  // The median: the fastest of several replays would choose the luckiest.
  for (std::size_t i = 0; i < finalists; ++i) {
    if (!rounds[i].empty()) timed[i].first = summarize(std::move(rounds[i]), 1).median_us;
  }
  return std::move(std::min_element(timed.begin(), timed.end(), [](const auto& x, const auto& y) {
                     return x.first < y.first;
                   })->second);
}

std::vector<std::unique_ptr<Baseline>> make_cublas_baselines(const Problem& problem, cublasHandle_t cublas,
                                                             cublasLtHandle_t cublaslt, const DeviceBuffer& workspace,
                                                             const TryBaseline& try_out, BaselineChoices& choices) {
  std::vector<std::unique_ptr<Baseline>> baselines;
  const auto keep = [&](std::unique_ptr<Baseline> baseline) {
    if (baseline && try_out(*baseline, TrialLength::screening)) baselines.push_back(std::move(baseline));
  };
  for (const Layout layout : {Layout::nn, Layout::tn}) {
    keep(std::make_unique<GemmEx>(problem, layout, cublas));
    const auto described = std::make_shared<const LtProblem>(problem, layout);
    if (const auto first = described->ask(cublaslt, 1); !first.empty()) {
      keep(std::make_unique<LtMatmul>("heuristic", described, first.front().algo, cublaslt, workspace));
    }
    auto best = auto_tuned(described, cublaslt, workspace, try_out, choices[std::string(to_string(layout))]);
    if (best) baselines.push_back(std::move(best));
  }
  return baselines;
}

}  // namespace warpsmith::cuda
