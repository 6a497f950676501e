// NVIDIA's own GEMMs as baselines, for NN and TN operands: cublasGemmEx, cuBLASLt's first heuristic choice, and the
// fastest of all that the heuristic offers.
#pragma once

#include <functional>
#include <map>
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

// A GEMM that is being tried out, ready to be timed as often as wanted.
class BaselineTrial {
 public:
  virtual ~BaselineTrial() = default;
  virtual double time_us() = 0;                    // of one launch, cold operands
  virtual bool is_long(double time_us) const = 0;  // once is as good as several times
};
// Screening: with fewer launches, to find out whether it is near the fastest at all.
enum class TrialLength { screening, full };
// Null: it fails or is wrong.
using TryBaseline = std::function<std::unique_ptr<BaselineTrial>(Baseline&, TrialLength)>;

// Which of a layout's candidates were the fastest when all had been tried, in the words of Baseline::detail().
using BaselineChoices = std::map<std::string, std::vector<std::string>>;

// Time of one launch of a GEMM that is not in the list yet, in us, cold operands; nullopt: it fails or is wrong.
using TimeBaseline = std::function<std::optional<double>(Baseline&)>;

// The fastest, after those near it have been timed again. Null when there is none.
std::unique_ptr<Baseline> fastest_of_finalists(std::vector<std::pair<double, std::unique_ptr<Baseline>>> timed,
                                               const TimeBaseline& time);

// All share one workspace of 64 MiB; the cuBLAS handle has it set, and the stream that is launched on. Those that the
// library does not support for the problem are left out. Of a layout in `choices` those alone are tried that it names,
// as far as the library still offers them; other layouts are added to it. Throws CudaError.
std::vector<std::unique_ptr<Baseline>> make_cublas_baselines(const Problem& problem, cublasHandle_t cublas,
                                                             cublasLtHandle_t cublaslt, const DeviceBuffer& workspace,
                                                             const TryBaseline& try_out, BaselineChoices& choices);

inline constexpr std::size_t kBaselineWorkspaceBytes = 64 << 20;

}  // namespace warpsmith::cuda
