// Row-major operands in column-major libraries: C^T[n,m] = B^T[n,k] A^T[k,m], so B comes first, and a K-major B (stored
// n x k) is the transposed one. FP32 compute and scale type throughout.
#include "evaluate/cuda/cublas_baselines.h"

#include <fmt/format.h>

#include <array>
#include <optional>

namespace warpsmith::cuda {

namespace {

constexpr int kCandidates = 100;  // asked of the heuristic for auto-tuning

cudaDataType_t data_type(ElementType element) { return element == ElementType::f16 ? CUDA_R_16F : CUDA_R_16BF; }
cublasOperation_t b_operation(Layout layout) { return layout == Layout::tn ? CUBLAS_OP_T : CUBLAS_OP_N; }
std::int64_t b_leading(const Problem& problem, Layout layout) { return layout == Layout::tn ? problem.k : problem.n; }

class GemmEx final : public Baseline {
 public:
  GemmEx(const Problem& problem, Layout layout, cublasHandle_t cublas, const DeviceBuffer& workspace)
      : problem_(problem), layout_(layout), cublas_(cublas), workspace_(workspace) {}

  std::string name() const override { return fmt::format("cublas-{}", to_string(layout_)); }
  std::string detail() const override { return "CUBLAS_GEMM_DEFAULT"; }
  Layout layout() const override { return layout_; }

  void launch(const OperandSet& operands, cudaStream_t stream) override {
    check(cublasSetStream(cublas_, stream), "cublasSetStream");
    check(cublasSetWorkspace(cublas_, workspace_.data(), workspace_.bytes()), "cublasSetWorkspace");
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
  const DeviceBuffer& workspace_;
};

// The descriptors of one layout, shared by all algorithms for it.
struct LtProblem {
  LtProblem(const Problem& problem, Layout stored) : layout(stored) {
    const cudaDataType_t type = data_type(problem.element);
    check(cublasLtMatmulDescCreate(matmul.out(), CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    const cublasOperation_t operation = b_operation(stored);
    check(cublasLtMatmulDescSetAttribute(matmul.get(), CUBLASLT_MATMUL_DESC_TRANSA, &operation, sizeof operation),
          "cublasLtMatmulDescSetAttribute");
    const bool k_major = stored == Layout::tn;
    const auto m = static_cast<std::uint64_t>(problem.m), n = static_cast<std::uint64_t>(problem.n),
               k = static_cast<std::uint64_t>(problem.k);
    check(cublasLtMatrixLayoutCreate(b.out(), type, k_major ? k : n, k_major ? n : k, b_leading(problem, stored)),
          "cublasLtMatrixLayoutCreate");
    check(cublasLtMatrixLayoutCreate(a.out(), type, k, m, problem.k), "cublasLtMatrixLayoutCreate");
    check(cublasLtMatrixLayoutCreate(c.out(), type, n, m, problem.n), "cublasLtMatrixLayoutCreate");
  }

  std::vector<cublasLtMatmulHeuristicResult_t> ask(cublasLtHandle_t cublaslt, int count) const {
    MatmulPreference preference;
    check(cublasLtMatmulPreferenceCreate(preference.out()), "cublasLtMatmulPreferenceCreate");
    const std::size_t bytes = kBaselineWorkspaceBytes;
    check(cublasLtMatmulPreferenceSetAttribute(preference.get(), CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                               sizeof bytes),
          "cublasLtMatmulPreferenceSetAttribute");
    std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(count));
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        cublaslt, matmul.get(), b.get(), a.get(), c.get(), c.get(), preference.get(), count, results.data(), &found);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED)
      found = 0;
    else
      check(status, "cublasLtMatmulAlgoGetHeuristic");
    results.resize(static_cast<std::size_t>(found));
    std::erase_if(results, [](const auto& result) { return result.state != CUBLAS_STATUS_SUCCESS; });
    return results;
  }

  Layout layout;
  MatmulDescriptor matmul;
  MatrixLayout a, b, c;
};

template <class T>
T algorithm_value(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t which) {
  T value{};
  std::size_t written = 0;
  cublasLtMatmulAlgoConfigGetAttribute(&algorithm, which, &value, sizeof value, &written);
  return value;
}

class LtMatmul final : public Baseline {
 public:
  LtMatmul(std::string kind, std::shared_ptr<const LtProblem> problem, const cublasLtMatmulAlgo_t& algorithm,
           cublasLtHandle_t cublaslt, const DeviceBuffer& workspace)
      : kind_(std::move(kind)),
        problem_(std::move(problem)),
        algorithm_(algorithm),
        cublaslt_(cublaslt),
        workspace_(workspace) {}

  std::string name() const override { return fmt::format("cublaslt-{}-{}", kind_, to_string(problem_->layout)); }
  Layout layout() const override { return problem_->layout; }

  std::string detail() const override {
    return fmt::format("algo {} tile {} stages {} splitk {} reduction {} cluster {} swizzle {}",
                       algorithm_value<int>(algorithm_, CUBLASLT_ALGO_CONFIG_ID),
                       algorithm_value<std::uint32_t>(algorithm_, CUBLASLT_ALGO_CONFIG_TILE_ID),
                       algorithm_value<std::uint32_t>(algorithm_, CUBLASLT_ALGO_CONFIG_STAGES_ID),
                       algorithm_value<std::int32_t>(algorithm_, CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
                       algorithm_value<std::uint32_t>(algorithm_, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME),
                       algorithm_value<std::uint16_t>(algorithm_, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID),
                       algorithm_value<std::uint32_t>(algorithm_, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING));
  }

  void launch(const OperandSet& operands, cudaStream_t stream) override {
    const float one = 1, zero = 0;
    check(cublasLtMatmul(cublaslt_, problem_->matmul.get(), &one, operands.b, problem_->b.get(), operands.a,
                         problem_->a.get(), &zero, operands.c, problem_->c.get(), operands.c, problem_->c.get(),
                         &algorithm_, workspace_.data(), workspace_.bytes(), stream),
          "cublasLtMatmul");
  }

 private:
  std::string kind_;
  std::shared_ptr<const LtProblem> problem_;
  cublasLtMatmulAlgo_t algorithm_;
  cublasLtHandle_t cublaslt_;
  const DeviceBuffer& workspace_;
};

// The fastest right one of all that the heuristic offers.
std::unique_ptr<Baseline> auto_tuned(const std::shared_ptr<const LtProblem>& problem, cublasLtHandle_t cublaslt,
                                     const DeviceBuffer& workspace, const TimeBaseline& time) {
  std::unique_ptr<Baseline> best;
  double best_us = 0;
  for (const auto& choice : problem->ask(cublaslt, kCandidates)) {
    auto candidate = std::make_unique<LtMatmul>("auto", problem, choice.algo, cublaslt, workspace);
    const std::optional<double> time_us = time(*candidate);
    if (!time_us || (best && !(*time_us < best_us))) continue;
    best = std::move(candidate);
    best_us = *time_us;
  }
  return best;
}

}  // namespace

std::vector<std::unique_ptr<Baseline>> make_cublas_baselines(const Problem& problem, cublasHandle_t cublas,
                                                             cublasLtHandle_t cublaslt, const DeviceBuffer& workspace,
                                                             const TimeBaseline& time) {
  std::vector<std::unique_ptr<Baseline>> baselines;
  const auto keep = [&](std::unique_ptr<Baseline> baseline) {
    if (baseline && time(*baseline)) baselines.push_back(std::move(baseline));
  };
  for (const Layout layout : {Layout::nn, Layout::tn}) {
    keep(std::make_unique<GemmEx>(problem, layout, cublas, workspace));
    const auto described = std::make_shared<const LtProblem>(problem, layout);
    if (const auto first = described->ask(cublaslt, 1); !first.empty()) {
      keep(std::make_unique<LtMatmul>("heuristic", described, first.front().algo, cublaslt, workspace));
    }
    if (auto best = auto_tuned(described, cublaslt, workspace, time)) baselines.push_back(std::move(best));
  }
  return baselines;
}

}  // namespace warpsmith::cuda
