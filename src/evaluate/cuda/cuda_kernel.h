// A compiled candidate, ready to launch on any operand set: its kernels in order, and what they could keep.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/launch.h"
#include "evaluate/cuda/cuda_handles.h"
#include "evaluate/cuda/driver.h"
#include "evaluate/cuda/gate_operands.h"
#include "evaluate/cuda/module_globals.h"
#include "problem/problem.h"

namespace warpsmith::cuda {

class CudaKernel {
 public:
  // Throws CudaError when the cubin holds what a candidate may not have, the driver refuses it, or the launch
  // descriptor does not fit its kernels.
  CudaKernel(const std::string& cubin, CudaLaunch launch, ElementType element);
  CudaKernel(const CudaKernel&) = delete;
  CudaKernel& operator=(const CudaKernel&) = delete;
  ~CudaKernel();

  // Queues all kernels. pdl: as programmatic dependent launches, where the descriptor says that a kernel is made for
  // it. Parameters (tensor maps above all) are made at the first launch on an operand set and kept for the next. A
  // pointer to an operand may have an offset, as pointers to the workspace have.
  void launch(const OperandSet& operands, void* workspace, bool pdl, cudaStream_t stream);
  const CudaLaunch& descriptor() const { return launch_; }
  // Some kernel has memory of each thread's own, which no launch clears.
  bool uses_local_memory() const { return local_bytes_ > 0; }
  // Throws CudaError where that is more than scrub_local_memory() overwrites: no candidate may have it.
  void limit_local_memory() const;

  ModuleGlobals& globals() { return globals_; }
  const ModuleGlobals& globals() const { return globals_; }

 private:
  struct Function {
    CUfunction handle = nullptr;
    CUlaunchConfig config{};
    std::array<CUlaunchAttribute, 2> attributes{};  // cluster, then PDL
    unsigned attributes_without_pdl = 0, attributes_with_pdl = 0;
  };
  // Parameter values of every kernel for one operand set.
  struct Parameters {
    std::unique_ptr<std::byte[]> values;
    std::vector<std::vector<void*>> pointers;  // one list a kernel, into `values`
  };
  // All that parameters depend on.
  struct CallKey {
    std::array<void*, 4> addresses;  // A, B, C, workspace
    float alpha, beta;
    bool operator==(const CallKey&) const = default;
  };
  struct HashCallKey {
    std::size_t operator()(const CallKey& key) const;
  };

  Function prepare(const KernelLaunch& kernel);
  void check_parameters(const KernelLaunch& kernel, CUfunction function) const;
  CUtensorMap encode(const TensorMap& map, const OperandSet& operands) const;
  void write_value(const KernelArgument& argument, const OperandSet& operands, void* workspace, std::byte* out) const;
  Parameters make_parameters(const OperandSet& operands, void* workspace) const;
  Parameters& parameters_for(const OperandSet& operands, void* workspace);

  CudaLaunch launch_;
  ElementType element_;
  CUmodule module_ = nullptr;
  std::vector<Function> functions_;  // as launch_.kernels
  int local_bytes_ = 0;              // of a thread, the most of any kernel
  ModuleGlobals globals_;
  std::unordered_map<CallKey, Parameters, HashCallKey> prepared_;
};

}  // namespace warpsmith::cuda
