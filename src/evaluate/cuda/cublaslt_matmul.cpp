// Descriptors, the heuristic, and the call.
#include "evaluate/cuda/cublaslt_matmul.h"

#include <fmt/format.h>

#include <algorithm>

namespace warpsmith::cuda {

namespace {

template <class T>
T algorithm_value(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t which) {
  T value{};
  std::size_t written = 0;
  cublasLtMatmulAlgoConfigGetAttribute(&algorithm, which, &value, sizeof value, &written);
  return value;
}

}  // namespace

cudaDataType_t data_type(ElementType element) { return element == ElementType::f16 ? CUDA_R_16F : CUDA_R_16BF; }
cublasOperation_t b_operation(Layout layout) { return layout == Layout::tn ? CUBLAS_OP_T : CUBLAS_OP_N; }

LtProblem::LtProblem(const Problem& problem, Layout stored, bool narrow_compute)
    : layout(stored), type(data_type(problem.element)), narrow(narrow_compute) {
  check(cublasLtMatmulDescCreate(matmul.out(), narrow ? CUBLAS_COMPUTE_16F : CUBLAS_COMPUTE_32F,
                                 narrow ? CUDA_R_16F : CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  const cublasOperation_t operation = b_operation(stored);
  check(cublasLtMatmulDescSetAttribute(matmul.get(), CUBLASLT_MATMUL_DESC_TRANSA, &operation, sizeof operation),
        "cublasLtMatmulDescSetAttribute");
  const bool k_major = stored == Layout::tn;
  const auto m = static_cast<std::uint64_t>(problem.m), n = static_cast<std::uint64_t>(problem.n),
             k = static_cast<std::uint64_t>(problem.k);
  const Problem as_stored = stored_as(problem, stored);
  check(cublasLtMatrixLayoutCreate(b.out(), type, k_major ? k : n, k_major ? n : k, as_stored.b_ld()),
        "cublasLtMatrixLayoutCreate");
  check(cublasLtMatrixLayoutCreate(a.out(), type, k, m, as_stored.a_ld()), "cublasLtMatrixLayoutCreate");
  check(cublasLtMatrixLayoutCreate(c.out(), type, n, m, as_stored.c_ld()), "cublasLtMatrixLayoutCreate");
}

std::vector<cublasLtMatmulHeuristicResult_t> LtProblem::ask(cublasLtHandle_t cublaslt, int count) const {
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

LtMatmul::LtMatmul(std::string kind, std::shared_ptr<const LtProblem> problem, const cublasLtMatmulAlgo_t& algorithm,
                   cublasLtHandle_t cublaslt, const DeviceBuffer& workspace, std::string note)
    : kind_(std::move(kind)),
      problem_(std::move(problem)),
      algorithm_(algorithm),
      cublaslt_(cublaslt),
      workspace_(workspace),
      note_(std::move(note)) {}

std::string LtMatmul::name() const { return fmt::format("cublaslt-{}-{}", kind_, to_string(problem_->layout)); }

std::string LtMatmul::detail() const {
  return fmt::format("algo {} tile {} stages {} splitk {} reduction {} cluster {} swizzle {} custom {}{}",
                     algorithm_value<int>(algorithm_, CUBLASLT_ALGO_CONFIG_ID),
                     algorithm_value<std::uint32_t>(algorithm_, CUBLASLT_ALGO_CONFIG_TILE_ID),
                     algorithm_value<std::uint32_t>(algorithm_, CUBLASLT_ALGO_CONFIG_STAGES_ID),
                     algorithm_value<std::int32_t>(algorithm_, CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
                     algorithm_value<std::uint32_t>(algorithm_, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME),
                     algorithm_value<std::uint16_t>(algorithm_, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID),
                     algorithm_value<std::uint32_t>(algorithm_, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING),
                     algorithm_value<std::uint32_t>(algorithm_, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION), note_);
}

void LtMatmul::launch(const OperandSet& operands, cudaStream_t stream) {
  const auto narrow = [](float factor) { return double_to_element(static_cast<double>(factor), ElementType::f16); };
  const std::uint16_t narrow_alpha = narrow(operands.alpha), narrow_beta = narrow(operands.beta);
  const void* alpha = problem_->narrow ? static_cast<const void*>(&narrow_alpha) : &operands.alpha;
  const void* beta = problem_->narrow ? static_cast<const void*>(&narrow_beta) : &operands.beta;
  check(cublasLtMatmul(cublaslt_, problem_->matmul.get(), alpha, operands.b, problem_->b.get(), operands.a,
                       problem_->a.get(), beta, operands.c, problem_->c.get(), operands.c, problem_->c.get(),
                       &algorithm_, workspace_.data(), workspace_.bytes(), stream),
        "cublasLtMatmul");
}

}  // namespace warpsmith::cuda
