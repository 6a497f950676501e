// NVIDIA's own GEMMs as baselines, for NN and TN operands: cublasGemmEx, cuBLASLt's first heuristic choice, and the
// fastest of all that the heuristic offers.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "evaluate/cuda/cuda_handles.h"
#include "evaluate/cuda/gate_operands.h"
#include "problem/problem.h"

namespace warpsmith::cuda {

class Baseline {
 public:
  virtual ~Baseline() = default;
  virtual std::string name() const = 0;
  virtual std::string detail() const = 0;
  virtual Layout layout() const = 0;
  virtual void launch(const OperandSet& operands, cudaStream_t stream) = 0;
};

// Time of one launch of a GEMM that is not in the list yet, in us, cold operands; nullopt: it fails or is wrong.
using TimeBaseline = std::function<std::optional<double>(Baseline&)>;

// The fastest, after those near it have been timed again. Null when there is none.
std::unique_ptr<Baseline> fastest_of_finalists(std::vector<std::pair<double, std::unique_ptr<Baseline>>> timed,
                                               const TimeBaseline& time);

// All share one workspace of 64 MiB; the cuBLAS handle has it set, and the stream that is launched on. Those that the
// library does not support for the problem are left out. Throws CudaError.
std::vector<std::unique_ptr<Baseline>> make_cublas_baselines(const Problem& problem, cublasHandle_t cublas,
                                                             cublasLtHandle_t cublaslt, const DeviceBuffer& workspace,
                                                             const TimeBaseline& time);

inline constexpr std::size_t kBaselineWorkspaceBytes = 64 << 20;

}  // namespace warpsmith::cuda
