// Checks and creating calls.
#include "evaluate/cuda/cuda_handles.h"

#include <fmt/format.h>

#include "evaluate/cuda/driver.h"

namespace warpsmith::cuda {

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // an error that is not sticky must not show up again in the next call
  throw CudaError(fmt::format("{} ({}) in {}", cudaGetErrorName(status), cudaGetErrorString(status), call),
                  status == cudaErrorMemoryAllocation);
}

void check(CUresult status, const char* call) {
  if (status == CUDA_SUCCESS) return;
  const char* name = nullptr;
  if (driver().get_error_name(status, &name) != CUDA_SUCCESS || name == nullptr) name = "unknown CUDA error";
  throw CudaError(fmt::format("{} in {}", name, call), status == CUDA_ERROR_OUT_OF_MEMORY);
}

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw CudaError(fmt::format("{} in {}", cublasGetStatusName(status), call), status == CUBLAS_STATUS_ALLOC_FAILED);
}

bool context_is_lost() {
  cudaGetLastError();
  return cudaDeviceSynchronize() != cudaSuccess;
}

Stream make_stream() {
  Stream stream;
  check(cudaStreamCreateWithFlags(stream.out(), cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return stream;
}

Event make_event() {
  Event event;
  check(cudaEventCreate(event.out()), "cudaEventCreate");
  return event;
}

DeviceBuffer::DeviceBuffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes > 0) check(cudaMalloc(memory_.out(), bytes), "cudaMalloc");
}

GraphExec end_capture(cudaStream_t stream) {
  Graph graph;
  check(cudaStreamEndCapture(stream, graph.out()), "cudaStreamEndCapture");
  GraphExec exec;
  check(cudaGraphInstantiate(exec.out(), graph.get(), 0), "cudaGraphInstantiate");
  check(cudaGraphUpload(exec.get(), stream), "cudaGraphUpload");
  return exec;
}

}  // namespace warpsmith::cuda
