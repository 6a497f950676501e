// cuBLASLt for what no kernel of ours runs, opened when it is first needed. Row-major operands in a column-major
// library: C^T[n,m] = op(B)^T[n,k] op(A)^T[k,m], so B comes first.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "library/call.h"
#include "library/runtime/own_launch.h"

namespace warpsmith::library {

inline constexpr std::size_t kLtWorkspaceBytes = 64 << 20;  // the heuristic's limit; allocated as far as it is used

struct LtFunctions {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtMatmulDescCreate) matmul_create;
  decltype(&cublasLtMatmulDescDestroy) matmul_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) matmul_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulAlgoInit) algorithm_init;
  decltype(&cublasLtMatmulAlgoCheck) algorithm_check;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) algorithm_get;
  decltype(&cublasLtMatmulAlgoConfigSetAttribute) algorithm_set;
  decltype(&cublasLtMatmul) matmul;
};

// cuBLASLt and a handle of it in the current context.
class CublasLt {
 public:
  // Error: environment where the library is not installed or does not start, failed where memory for it ran out.
  static Result<std::unique_ptr<CublasLt>> open();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;
  ~CublasLt();

  const LtFunctions& functions() const { return functions_; }
  cublasLtHandle_t handle() const { return handle_; }

 private:
  CublasLt() = default;
  LtFunctions functions_{};
  cublasLtHandle_t handle_ = nullptr;
};

// One problem with the algorithm for it.
class LtMatmul {
 public:
  // setting: the algorithm that was measured as the fastest, in the words of algorithm_setting(), or empty. Where it is
  // not to be had, the heuristic's first. most_bytes: of workspace. Error (failed): cuBLASLt does not take the problem.
  static Result<std::unique_ptr<LtMatmul>> prepare(const CublasLt& library, const CallKey& key,
                                                   const std::string& setting,
                                                   std::size_t most_bytes = kLtWorkspaceBytes);
  // One for each algorithm that the heuristic offers, at most `most`, its best guess first; for measuring them, on
  // operands that are aligned to 256 bytes where the key says that they are aligned.
  static std::vector<std::unique_ptr<LtMatmul>> prepare_all(const CublasLt& library, const CallKey& key, int most);
  LtMatmul(const LtMatmul&) = delete;
  LtMatmul& operator=(const LtMatmul&) = delete;
  ~LtMatmul();

  std::size_t workspace_bytes() const { return workspace_bytes_; }
  cublasStatus_t run(const CallArguments& arguments, CUstream stream) const;

 private:
  explicit LtMatmul(const CublasLt& library, std::size_t most_bytes = kLtWorkspaceBytes)
      : library_(library), most_bytes_(most_bytes) {}
  cublasStatus_t describe(const CallKey& key);
  std::vector<cublasLtMatmulHeuristicResult_t> ask(const CallKey& key, int count, std::uintptr_t aligned_bytes) const;
  Status choose(const CallKey& key, const std::string& setting);
  void take(const cublasLtMatmulHeuristicResult_t& chosen);
  bool configure(const std::string& setting, cublasLtMatmulHeuristicResult_t& result) const;

  const CublasLt& library_;
  std::size_t most_bytes_;
  cublasLtMatmulDesc_t matmul_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, c_ = nullptr;
  cudaDataType_t type_ = CUDA_R_16F;
  cublasLtMatmulAlgo_t algorithm_{};
  std::size_t workspace_bytes_ = 0;
};

// "algo 66 tile 20 stages 36 splitk 1 reduction 0 cluster 2 swizzle 0 custom 0", as measurements name algorithms.
std::string algorithm_setting(const LtFunctions& functions, const cublasLtMatmulAlgo_t& algorithm);

}  // namespace warpsmith::library
