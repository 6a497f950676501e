// Opening cuBLASLt, descriptors, the choice of an algorithm.
#include "library/runtime/cublaslt.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <limits>
#include <vector>

namespace warpsmith::library {

namespace {

constexpr int kHeuristicResults = 100;  // as many as auto-tuning asks for
constexpr std::uintptr_t kElementBytes = 2;
constexpr std::uintptr_t kMeasuredAlign = 256;  // bytes, of operands that algorithms are measured on

template <class T>
T attribute(const LtFunctions& functions, const cublasLtMatmulAlgo_t& algorithm,
            cublasLtMatmulAlgoConfigAttributes_t which) {
  T value{};
  std::size_t written = 0;
  functions.algorithm_get(&algorithm, which, &value, sizeof value, &written);
  return value;
}

// A measurement may say more after the algorithm; "custom 1" does not begin "custom 10".
bool begins_with(const std::string& setting, const std::string& algorithm) {
  return setting.rfind(algorithm, 0) == 0 && (setting.size() == algorithm.size() || setting[algorithm.size()] == ' ');
}

// The library that the header's types are of, then its neighbours, which have the same interface.
void* open_library() {
  const std::string own = fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
  for (const char* name : {own.c_str(), "libcublasLt.so.13", "libcublasLt.so.12"}) {
    for (const char* folder : {"", "/usr/local/cuda/lib64/"}) {
      if (void* library = dlopen((std::string(folder) + name).c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    }
  }
  return nullptr;
}

bool find_all(void* library, LtFunctions& functions) {
  bool complete = true;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    complete = complete && function != nullptr;
  };
  find(functions.create, "cublasLtCreate");
  find(functions.destroy, "cublasLtDestroy");
  find(functions.matmul_create, "cublasLtMatmulDescCreate");
  find(functions.matmul_destroy, "cublasLtMatmulDescDestroy");
  find(functions.matmul_set, "cublasLtMatmulDescSetAttribute");
  find(functions.layout_create, "cublasLtMatrixLayoutCreate");
  find(functions.layout_destroy, "cublasLtMatrixLayoutDestroy");
  find(functions.layout_set, "cublasLtMatrixLayoutSetAttribute");
  find(functions.preference_create, "cublasLtMatmulPreferenceCreate");
  find(functions.preference_destroy, "cublasLtMatmulPreferenceDestroy");
  find(functions.preference_set, "cublasLtMatmulPreferenceSetAttribute");
  find(functions.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  find(functions.algorithm_init, "cublasLtMatmulAlgoInit");
  find(functions.algorithm_check, "cublasLtMatmulAlgoCheck");
  find(functions.algorithm_get, "cublasLtMatmulAlgoConfigGetAttribute");
  find(functions.algorithm_set, "cublasLtMatmulAlgoConfigSetAttribute");
  find(functions.matmul, "cublasLtMatmul");
  return complete;
}

}  // namespace

Result<std::unique_ptr<CublasLt>> CublasLt::open() {
  void* library = open_library();
  if (library == nullptr) {
    return environment_error(
        fmt::format("cuBLASLt is not installed (libcublasLt.so.{} cannot be opened)", CUBLAS_VER_MAJOR));
  }
  std::unique_ptr<CublasLt> cublaslt(new CublasLt());
  if (!find_all(library, cublaslt->functions_)) return environment_error("this cuBLASLt lacks functions");
  const cublasStatus_t created = cublaslt->functions_.create(&cublaslt->handle_);
  if (created == CUBLAS_STATUS_ALLOC_FAILED) return failure("cublasLtCreate: no memory");
  if (created != CUBLAS_STATUS_SUCCESS) {
    return environment_error(fmt::format("cublasLtCreate: status {}", static_cast<int>(created)));
  }
  return cublaslt;
}

CublasLt::~CublasLt() {
  if (handle_ != nullptr) functions_.destroy(handle_);
}

std::string algorithm_setting(const LtFunctions& f, const cublasLtMatmulAlgo_t& algorithm) {
  return fmt::format("algo {} tile {} stages {} splitk {} reduction {} cluster {} swizzle {} custom {}",
                     attribute<int>(f, algorithm, CUBLASLT_ALGO_CONFIG_ID),
                     attribute<std::uint32_t>(f, algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID),
                     attribute<std::uint32_t>(f, algorithm, CUBLASLT_ALGO_CONFIG_STAGES_ID),
                     attribute<std::int32_t>(f, algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
                     attribute<std::uint32_t>(f, algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME),
                     attribute<std::uint16_t>(f, algorithm, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID),
                     attribute<std::uint32_t>(f, algorithm, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING),
                     attribute<std::uint32_t>(f, algorithm, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION));
}

LtMatmul::~LtMatmul() {
  const LtFunctions& functions = library_.functions();
  for (cublasLtMatrixLayout_t layout : {a_, b_, c_}) {
    if (layout != nullptr) functions.layout_destroy(layout);
  }
  if (matmul_ != nullptr) functions.matmul_destroy(matmul_);
}

cublasStatus_t LtMatmul::describe(const CallKey& key) {
  const LtFunctions& functions = library_.functions();
  const bool transpose_a = (key.flags & kCallTransposeA) != 0, transpose_b = (key.flags & kCallTransposeB) != 0;
  type_ = (key.flags & kCallBf16) != 0 ? CUDA_R_16BF : CUDA_R_16F;
  if (const auto made = functions.matmul_create(&matmul_, CUBLAS_COMPUTE_32F, CUDA_R_32F)) return made;
  const cublasOperation_t first = transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                          second = transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  if (const auto set = functions.matmul_set(matmul_, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first)) return set;
  if (const auto set = functions.matmul_set(matmul_, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second)) return set;
  // A row-major matrix of r rows and c columns is a column-major one of c rows and r columns.
  const auto make = [&](cublasLtMatrixLayout_t& layout, std::int64_t rows, std::int64_t columns, std::int64_t ld,
                        std::int64_t stride) {
    const auto made = functions.layout_create(&layout, type_, static_cast<std::uint64_t>(columns),
                                              static_cast<std::uint64_t>(rows), ld);
    if (made != CUBLAS_STATUS_SUCCESS || key.batch_count == 1) return made;
    const auto count = static_cast<std::int32_t>(key.batch_count);
    const auto set = functions.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
    if (set != CUBLAS_STATUS_SUCCESS) return set;
    return functions.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
  };
  if (const auto made = make(a_, transpose_a ? key.k : key.m, transpose_a ? key.m : key.k, key.lda, key.stride_a))
    return made;
  if (const auto made = make(b_, transpose_b ? key.n : key.k, transpose_b ? key.k : key.n, key.ldb, key.stride_b))
    return made;
  return make(c_, key.m, key.n, key.ldc, key.stride_c);
}

// An algorithm that the heuristic does not list, from its setting.
bool LtMatmul::configure(const std::string& setting, cublasLtMatmulHeuristicResult_t& result) const {
  int id = 0, split = 0;
  unsigned tile = 0, stages = 0, reduction = 0, swizzle = 0, custom = 0;
  unsigned short cluster = 0;
  if (std::sscanf(setting.c_str(), "algo %d tile %u stages %u splitk %d reduction %u cluster %hu swizzle %u custom %u",
                  &id, &tile, &stages, &split, &reduction, &cluster, &swizzle, &custom) != 8) {
    return false;
  }
  if ((reduction & ~static_cast<unsigned>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)) != 0) return false;
  const LtFunctions& functions = library_.functions();
  cublasLtMatmulAlgo_t& algorithm = result.algo;
  if (functions.algorithm_init(library_.handle(), CUBLAS_COMPUTE_32F, CUDA_R_32F, type_, type_, type_, type_, id,
                               &algorithm) != CUBLAS_STATUS_SUCCESS) {
    return false;
  }
  bool all_set = true;
  const auto set = [&](cublasLtMatmulAlgoConfigAttributes_t which, const auto& value) {
    all_set = all_set && functions.algorithm_set(&algorithm, which, &value, sizeof value) == CUBLAS_STATUS_SUCCESS;
  };
  set(CUBLASLT_ALGO_CONFIG_TILE_ID, tile);
  set(CUBLASLT_ALGO_CONFIG_STAGES_ID, stages);
  set(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, split);
  set(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, reduction);
  set(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, cluster);
  set(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, swizzle);
  set(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, custom);
  return all_set &&
         functions.algorithm_check(library_.handle(), matmul_, b_, a_, c_, c_, &algorithm, &result) ==
             CUBLAS_STATUS_SUCCESS &&
         result.state == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= most_bytes_;
}

// Empty where cuBLASLt does not take the problem.
std::vector<cublasLtMatmulHeuristicResult_t> LtMatmul::ask(const CallKey& key, int count,
                                                           std::uintptr_t aligned_bytes) const {
  const LtFunctions& functions = library_.functions();
  cublasLtMatmulPreference_t preference = nullptr;
  if (functions.preference_create(&preference) != CUBLAS_STATUS_SUCCESS) return {};
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t which, const auto& value) {
    functions.preference_set(preference, which, &value, sizeof value);
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most_bytes_);
  // FP32 accumulation is promised; the other schemes add parts of K in the output's type.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  // All that is known of the operands; the default, 256 bytes, offers algorithms that they may not be aligned for.
  const auto alignment = static_cast<std::uint32_t>((key.flags & kCallAligned) != 0 ? aligned_bytes : kElementBytes);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(count));
  int found = 0;
  const cublasStatus_t asked =
      functions.heuristic(library_.handle(), matmul_, b_, a_, c_, c_, preference, count, results.data(), &found);
  functions.preference_destroy(preference);
  results.resize(asked == CUBLAS_STATUS_SUCCESS ? static_cast<std::size_t>(found) : 0);
  std::erase_if(results, [](const auto& result) { return result.state != CUBLAS_STATUS_SUCCESS; });
  return results;
}

std::vector<std::unique_ptr<LtMatmul>> LtMatmul::prepare_all(const CublasLt& library, const CallKey& key, int most) {
  std::vector<std::unique_ptr<LtMatmul>> all;
  LtMatmul asking(library);
  if (asking.describe(key) != CUBLAS_STATUS_SUCCESS) return all;
  for (const auto& result : asking.ask(key, most, kMeasuredAlign)) {
    std::unique_ptr<LtMatmul> matmul(new LtMatmul(library));
    if (matmul->describe(key) != CUBLAS_STATUS_SUCCESS) break;
    matmul->take(result);
    all.push_back(std::move(matmul));
  }
  return all;
}

void LtMatmul::take(const cublasLtMatmulHeuristicResult_t& chosen) {
  algorithm_ = chosen.algo;
  workspace_bytes_ = chosen.workspaceSize;
}

Status LtMatmul::choose(const CallKey& key, const std::string& setting) {
  const LtFunctions& functions = library_.functions();
  const auto results = ask(key, setting.empty() ? 1 : kHeuristicResults, kOperandAlign);
  const cublasLtMatmulHeuristicResult_t* chosen = nullptr;
  for (const auto& result : results) {
    if (chosen == nullptr && begins_with(setting, algorithm_setting(functions, result.algo))) chosen = &result;
  }
  cublasLtMatmulHeuristicResult_t configured{};
  if (chosen == nullptr && !setting.empty() && configure(setting, configured)) chosen = &configured;
  if (chosen == nullptr && !results.empty()) chosen = &results.front();
  if (chosen == nullptr) return failure("cuBLASLt offers no algorithm for the problem");
  take(*chosen);
  return ok_status();
}

Result<std::unique_ptr<LtMatmul>> LtMatmul::prepare(const CublasLt& library, const CallKey& key,
                                                    const std::string& setting, std::size_t most_bytes) {
  if (key.batch_count > std::numeric_limits<std::int32_t>::max())
    return failure("cuBLASLt takes batches up to 2^31 - 1");
  std::unique_ptr<LtMatmul> matmul(new LtMatmul(library, most_bytes));
  if (const auto described = matmul->describe(key); described != CUBLAS_STATUS_SUCCESS) {
    return failure(fmt::format("cuBLASLt cannot describe the problem (status {})", static_cast<int>(described)));
  }
  if (const Status chosen = matmul->choose(key, setting); !chosen) return chosen.error();
  return matmul;
}

cublasStatus_t LtMatmul::run(const CallArguments& call, CUstream stream) const {
  void* c = const_cast<void*>(call.operands[2]);
  return library_.functions().matmul(library_.handle(), matmul_, &call.alpha, call.operands[1], b_, call.operands[0],
                                     a_, &call.beta, c, c_, c, c_, &algorithm_, call.workspace, workspace_bytes_,
                                     stream);
}

}  // namespace warpsmith::library
