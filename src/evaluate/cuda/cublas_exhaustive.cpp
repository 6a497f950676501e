// Enumeration by the algorithms' own capabilities, checked by the library, timed until the time is up.
#include "evaluate/cuda/cublas_exhaustive.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "evaluate/cuda/cublaslt_matmul.h"

namespace warpsmith::cuda {

namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

constexpr double kListingShare = 0.25;         // of the time, for asking the library what is possible
constexpr std::uint64_t kMostBases = 400'000;  // of one algorithm; more are sampled
constexpr double kProgressSeconds = 0.25;
constexpr std::size_t kKeptFinalists = 8;
constexpr int kMostAlgorithms = 1000;
constexpr int kHeuristicRequest = 100;
constexpr std::array<std::int32_t, 9> kSplits = {2, 3, 4, 5, 6, 8, 12, 16, 32};

// What one algorithm can be set to.
struct Choices {
  std::vector<std::uint32_t> tiles, stages;
  std::vector<std::uint16_t> clusters, inner_shapes;
  std::uint32_t customs = 1;  // 0 up to, not including
  bool split_k = false, swizzle = false, fp32_reduction = false;

  std::uint64_t bases() const {
    return static_cast<std::uint64_t>(tiles.size()) * stages.size() * clusters.size() * inner_shapes.size() * customs;
  }
};

template <class T>
T capability(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoCapAttributes_t which) {
  T value{};
  std::size_t written = 0;
  const auto status = cublasLtMatmulAlgoCapGetAttribute(&algorithm, which, &value, sizeof value, &written);
  return status == CUBLAS_STATUS_SUCCESS ? value : T{};
}

std::vector<std::uint32_t> capability_list(const cublasLtMatmulAlgo_t& algorithm,
                                           cublasLtMatmulAlgoCapAttributes_t which) {
  std::size_t bytes = 0;
  if (cublasLtMatmulAlgoCapGetAttribute(&algorithm, which, nullptr, 0, &bytes) != CUBLAS_STATUS_SUCCESS) bytes = 0;
  std::vector<std::uint32_t> values(bytes / sizeof(std::uint32_t));
  if (!values.empty()) {
    check(cublasLtMatmulAlgoCapGetAttribute(&algorithm, which, values.data(), bytes, &bytes),
          "cublasLtMatmulAlgoCapGetAttribute");
  }
  if (values.empty()) values = {0};  // "undefined": the algorithm has no such choice
  return values;
}

Choices choices_of(const cublasLtMatmulAlgo_t& algorithm) {
  Choices choices;
  choices.tiles = capability_list(algorithm, CUBLASLT_ALGO_CAP_TILE_IDS);
  choices.stages = capability_list(algorithm, CUBLASLT_ALGO_CAP_STAGES_IDS);
  choices.customs = 1 + static_cast<std::uint32_t>(
                            std::max(0, capability<std::int32_t>(algorithm, CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX)));
  choices.split_k = capability<std::int32_t>(algorithm, CUBLASLT_ALGO_CAP_SPLITK_SUPPORT) != 0;
  choices.swizzle = capability<std::uint32_t>(algorithm, CUBLASLT_ALGO_CAP_CTA_SWIZZLING_SUPPORT) != 0;
  choices.fp32_reduction = (capability<std::uint32_t>(algorithm, CUBLASLT_ALGO_CAP_REDUCTION_SCHEME_MASK) &
                            CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) != 0;
  // The library lists neither clusters nor inner shapes: it is asked about each value.
  choices.clusters = {CUBLASLT_CLUSTER_SHAPE_AUTO};
  for (int shape = CUBLASLT_CLUSTER_SHAPE_1x1x1; shape < CUBLASLT_CLUSTER_SHAPE_END; ++shape) {
    choices.clusters.push_back(static_cast<std::uint16_t>(shape));
  }
  for (int shape = 0; shape < CUBLASLT_MATMUL_INNER_SHAPE_END; ++shape) {
    choices.inner_shapes.push_back(static_cast<std::uint16_t>(shape));
  }
  return choices;
}

class Search {
 public:
  Search(const Problem& problem, Layout layout, cublasLtHandle_t cublaslt, const DeviceBuffer& workspace,
         double seconds, const WorkProgress& progress)
      : problem_(std::make_shared<const LtProblem>(problem, layout)),
        cublaslt_(cublaslt),
        workspace_(workspace),
        seconds_(seconds),
        progress_(progress) {}

  std::unique_ptr<Baseline> run(const TimeBaseline& time);

 private:
  void list();
  void list_algorithm(cublasLtMatmulAlgo_t algorithm, double until);
  void expand(const cublasLtMatmulAlgo_t& base, const Choices& choices);
  bool possible(const cublasLtMatmulAlgo_t& algorithm);
  void say(const std::string& text);

  template <class T>
  static bool set(cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t which, T value) {
    return cublasLtMatmulAlgoConfigSetAttribute(&algorithm, which, &value, sizeof value) == CUBLAS_STATUS_SUCCESS;
  }

  std::shared_ptr<const LtProblem> problem_;
  cublasLtHandle_t cublaslt_;
  const DeviceBuffer& workspace_;
  double seconds_;
  const WorkProgress& progress_;
  Clock::time_point start_ = Clock::now(), last_said_{};
  std::mt19937_64 generator_{1};
  std::uint64_t checked_ = 0, bases_ = 0, bases_seen_ = 0;
  std::vector<cublasLtMatmulAlgo_t> possible_;
  std::size_t offered_ = 0;  // of these, the heuristic's, which come first
};

void Search::say(const std::string& text) {
  if (!progress_ || seconds_since(last_said_) < kProgressSeconds) return;
  last_said_ = Clock::now();
  progress_(std::min(1.0, seconds_since(start_) / seconds_), text);
}

bool Search::possible(const cublasLtMatmulAlgo_t& algorithm) {
  ++checked_;
  cublasLtMatmulHeuristicResult_t result{};
  const auto status = cublasLtMatmulAlgoCheck(cublaslt_, problem_->matmul.get(), problem_->b.get(), problem_->a.get(),
                                              problem_->c.get(), problem_->c.get(), &algorithm, &result);
  return status == CUBLAS_STATUS_SUCCESS && result.state == CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= workspace_.bytes();
}

// Variants of a possible base: swizzling, and split-K with FP32 partial sums.
void Search::expand(const cublasLtMatmulAlgo_t& base, const Choices& choices) {
  for (std::uint32_t swizzle = 0; swizzle <= (choices.swizzle ? 1u : 0u); ++swizzle) {
    cublasLtMatmulAlgo_t algorithm = base;
    if (!set(algorithm, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, swizzle)) continue;
    if (swizzle == 0 || possible(algorithm)) possible_.push_back(algorithm);
    if (!choices.split_k || !choices.fp32_reduction) continue;
    for (const std::int32_t split : kSplits) {
      cublasLtMatmulAlgo_t divided = algorithm;
      const bool is_set =
          set(divided, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, split) &&
          set(divided, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
      if (is_set && possible(divided)) possible_.push_back(divided);
    }
  }
}

void Search::list_algorithm(cublasLtMatmulAlgo_t algorithm, double until) {
  const Choices choices = choices_of(algorithm);
  const std::uint64_t total = choices.bases();
  bases_ += total;
  const std::uint64_t count = std::min(total, kMostBases);
  std::uniform_int_distribution<std::uint64_t> any(0, total - 1);
  for (std::uint64_t i = 0; i < count && seconds_since(start_) < until; ++i) {
    ++bases_seen_;
    std::uint64_t rest = total <= kMostBases ? i : any(generator_);
    const auto take = [&rest](std::uint64_t size) {
      const std::uint64_t index = rest % size;
      rest /= size;
      return static_cast<std::size_t>(index);
    };
    cublasLtMatmulAlgo_t base = algorithm;
    const bool is_set =
        set(base, CUBLASLT_ALGO_CONFIG_TILE_ID, choices.tiles[take(choices.tiles.size())]) &&
        set(base, CUBLASLT_ALGO_CONFIG_STAGES_ID, choices.stages[take(choices.stages.size())]) &&
        set(base, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, choices.clusters[take(choices.clusters.size())]) &&
        set(base, CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, choices.inner_shapes[take(choices.inner_shapes.size())]) &&
        set(base, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, static_cast<std::uint32_t>(take(choices.customs)));
    if (is_set && possible(base)) expand(base, choices);
    say(fmt::format("{} configurations asked for, {} possible", checked_, possible_.size()));
  }
}

void Search::list() {
  std::vector<int> ids(kMostAlgorithms);
  int count = 0;
  check(cublasLtMatmulAlgoGetIds(cublaslt_, CUBLAS_COMPUTE_32F, CUDA_R_32F, problem_->type, problem_->type,
                                 problem_->type, problem_->type, kMostAlgorithms, ids.data(), &count),
        "cublasLtMatmulAlgoGetIds");
  ids.resize(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    cublasLtMatmulAlgo_t algorithm{};
    const auto status = cublasLtMatmulAlgoInit(cublaslt_, CUBLAS_COMPUTE_32F, CUDA_R_32F, problem_->type,
                                               problem_->type, problem_->type, problem_->type, ids[i], &algorithm);
    if (status != CUBLAS_STATUS_SUCCESS) continue;
    // The listing's time is divided over the algorithms that are left: a rich one does not starve the rest.
    const double limit = kListingShare * seconds_, now = seconds_since(start_);
    list_algorithm(algorithm, now + std::max(0.0, limit - now) / static_cast<double>(ids.size() - i));
  }
  std::shuffle(possible_.begin(), possible_.end(), generator_);
  // First what the heuristic offers: a search cut short is no weaker a bar than the one that it is to strengthen.
  std::vector<cublasLtMatmulAlgo_t> offered;
  for (const auto& result : problem_->ask(cublaslt_, kHeuristicRequest)) offered.push_back(result.algo);
  possible_.insert(possible_.begin(), offered.begin(), offered.end());
  offered_ = offered.size();
}

std::unique_ptr<Baseline> Search::run(const TimeBaseline& time) {
  list();
  std::vector<std::pair<double, cublasLtMatmulAlgo_t>> right;
  std::size_t timed = 0;
  for (; timed < possible_.size() && (seconds_since(start_) < seconds_ || timed < offered_); ++timed) {
    LtMatmul candidate("exhaustive", problem_, possible_[timed], cublaslt_, workspace_);
    if (const auto time_us = time(candidate)) right.emplace_back(*time_us, possible_[timed]);
    say(fmt::format("{} of {} configurations timed", timed + 1, possible_.size()));
  }
  std::sort(right.begin(), right.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
  const std::string note =
      fmt::format("; fastest of {} right ones, {} of {} possible ones timed, {} of {} bases looked at", right.size(),
                  timed, possible_.size(), bases_seen_, bases_);
  std::vector<std::pair<double, std::unique_ptr<Baseline>>> finalists;
  for (std::size_t i = 0; i < std::min(right.size(), kKeptFinalists); ++i) {
    finalists.emplace_back(right[i].first, std::make_unique<LtMatmul>("exhaustive", problem_, right[i].second,
                                                                      cublaslt_, workspace_, note));
  }
  return fastest_of_finalists(std::move(finalists), time);
}

}  // namespace

std::unique_ptr<Baseline> search_cublaslt(const Problem& problem, Layout layout, cublasLtHandle_t cublaslt,
                                          const DeviceBuffer& workspace, double seconds, const TimeBaseline& time,
                                          const WorkProgress& progress) {
  return Search(problem, layout, cublaslt, workspace, seconds, progress).run(time);
}

}  // namespace warpsmith::cuda
