// A compiled candidate, ready to launch on any operand set.
#pragma once

#include <string>

#include "codegen/launch.h"
#include "evaluate/cuda/cuda_handles.h"
#include "evaluate/cuda/driver.h"
#include "evaluate/cuda/gate_operands.h"
#include "problem/problem.h"

namespace warpsmith::cuda {

class CudaKernel {
 public:
  // Throws CudaError when the driver refuses the module, or the launch descriptor does not fit its kernel.
  CudaKernel(const std::string& cubin, CudaLaunch launch, ElementType element);
  CudaKernel(const CudaKernel&) = delete;
  CudaKernel& operator=(const CudaKernel&) = delete;
  ~CudaKernel();

  // pdl: as a programmatic dependent launch, where the descriptor says that the kernel is made for it.
  void launch(const OperandSet& operands, void* workspace, bool pdl, cudaStream_t stream) const;
  const CudaLaunch& descriptor() const { return launch_; }

 private:
  void check_parameters() const;
  CUtensorMap encode(const TensorMap& map, const OperandSet& operands) const;

  CudaLaunch launch_;
  ElementType element_;
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
};

}  // namespace warpsmith::cuda
