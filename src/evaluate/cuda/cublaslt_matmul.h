// One cuBLASLt GEMM: the descriptors of a layout and an algorithm for them. Row-major operands in a column-major
// library: C^T[n,m] = B^T[n,k] A^T[k,m], so B comes first, and a K-major B (stored n x k) is the transposed one. FP32
// compute and scale type, unless it is asked for otherwise.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "evaluate/cuda/cublas_baselines.h"
#include "evaluate/cuda/cuda_handles.h"
#include "problem/problem.h"

namespace warpsmith::cuda {

cudaDataType_t data_type(ElementType element);
cublasOperation_t b_operation(Layout layout);

// The descriptors of one layout, shared by all algorithms for it.
struct LtProblem {
  // narrow: FP16 compute and scale type, for f16 elements.
  LtProblem(const Problem& problem, Layout stored, bool narrow = false);

  // What the library's heuristic offers, best first; at most `count`.
  std::vector<cublasLtMatmulHeuristicResult_t> ask(cublasLtHandle_t cublaslt, int count) const;

  Layout layout;
  cudaDataType_t type;
  bool narrow;
  MatmulDescriptor matmul;
  MatrixLayout a, b, c;
};

class LtMatmul final : public Baseline {
 public:
  // kind: "auto" in "cublaslt-auto-nn"; note: said after the algorithm in detail().
  LtMatmul(std::string kind, std::shared_ptr<const LtProblem> problem, const cublasLtMatmulAlgo_t& algorithm,
           cublasLtHandle_t cublaslt, const DeviceBuffer& workspace, std::string note = {});

  std::string name() const override;
  std::string detail() const override;
  Layout layout() const override { return problem_->layout; }
  void launch(const OperandSet& operands, cudaStream_t stream) override;

 private:
  std::string kind_;
  std::shared_ptr<const LtProblem> problem_;
  cublasLtMatmulAlgo_t algorithm_;
  cublasLtHandle_t cublaslt_;
  const DeviceBuffer& workspace_;
  std::string note_;
};

}  // namespace warpsmith::cuda
