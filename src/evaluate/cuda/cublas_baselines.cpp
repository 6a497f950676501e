// cublasGemmEx, and the choice among what cuBLASLt's heuristic offers.
#include "evaluate/cuda/cublas_baselines.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "evaluate/cuda/cublaslt_matmul.h"
#include "evaluate/timing.h"

namespace warpsmith::cuda {

namespace {

constexpr int kCandidates = 100;  // asked of the heuristic for auto-tuning
// A choice that changes from process to process changes every ratio to it: many stay in, for many rounds.
constexpr std::size_t kFinalists = 8;
constexpr double kFinalistMargin = 1.10;  // of the fastest one's time
constexpr int kFinalRounds = 7;

class GemmEx final : public Baseline {
 public:
  GemmEx(const Problem& problem, Layout layout, cublasHandle_t cublas)
      : problem_(problem), layout_(layout), cublas_(cublas) {}

  std::string name() const override { return fmt::format("cublas-{}", to_string(layout_)); }
  std::string detail() const override { return "CUBLAS_GEMM_DEFAULT"; }
  Layout layout() const override { return layout_; }

  void launch(const OperandSet& operands, cudaStream_t /*the handle has it*/) override {
    const float one = 1, zero = 0;
    const cudaDataType_t type = data_type(problem_.element);
    check(cublasGemmEx_64(cublas_, b_operation(layout_), CUBLAS_OP_N, problem_.n, problem_.m, problem_.k, &one,
                          operands.b, type, b_leading(problem_, layout_), operands.a, type, problem_.k, &zero,
                          operands.c, type, problem_.n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
          "cublasGemmEx");
  }

 private:
  Problem problem_;
  Layout layout_;
  cublasHandle_t cublas_;
};

// The fastest right one of all that the heuristic offers. Those near the fastest are timed again, in turns, so that one
// lucky replay does not choose.
std::unique_ptr<Baseline> auto_tuned(const std::shared_ptr<const LtProblem>& problem, cublasLtHandle_t cublaslt,
                                     const DeviceBuffer& workspace, const TimeBaseline& time) {
  std::vector<std::pair<double, std::unique_ptr<Baseline>>> timed;
  for (const auto& choice : problem->ask(cublaslt, kCandidates)) {
    auto candidate = std::make_unique<LtMatmul>("auto", problem, choice.algo, cublaslt, workspace);
    if (const std::optional<double> time_us = time(*candidate)) timed.emplace_back(*time_us, std::move(candidate));
  }
  return fastest_of_finalists(std::move(timed), time);
}

}  // namespace

std::unique_ptr<Baseline> fastest_of_finalists(std::vector<std::pair<double, std::unique_ptr<Baseline>>> timed,
                                               const TimeBaseline& time) {
  if (timed.empty()) return nullptr;
  std::sort(timed.begin(), timed.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
  std::size_t finalists = 1;
  while (finalists < timed.size() && finalists < kFinalists &&
         timed[finalists].first <= kFinalistMargin * timed.front().first) {
    ++finalists;
  }
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
                                                             const TimeBaseline& time) {
  std::vector<std::unique_ptr<Baseline>> baselines;
  const auto keep = [&](std::unique_ptr<Baseline> baseline) {
    if (baseline && time(*baseline)) baselines.push_back(std::move(baseline));
  };
  for (const Layout layout : {Layout::nn, Layout::tn}) {
    keep(std::make_unique<GemmEx>(problem, layout, cublas));
    const auto described = std::make_shared<const LtProblem>(problem, layout);
    if (const auto first = described->ask(cublaslt, 1); !first.empty()) {
      keep(std::make_unique<LtMatmul>("heuristic", described, first.front().algo, cublaslt, workspace));
    }
    if (auto best = auto_tuned(described, cublaslt, workspace, time)) baselines.push_back(std::move(best));
  }
  return baselines;
}

}  // namespace warpsmith::cuda
