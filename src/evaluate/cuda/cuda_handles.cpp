// Checks and creating calls.
#include "evaluate/cuda/cuda_handles.h"

#include <fmt/format.h>

#include "evaluate/cuda/driver.h"

namespace warpsmith::cuda {

namespace {

// Runtime and driver number these errors alike.
bool is_environment(int status) {
  switch (status) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorDevicesUnavailable:
    case cudaErrorDeviceUninitialized:
    case cudaErrorSystemNotReady:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
      return true;
    default:
      return false;
  }
}

}  // namespace

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // an error that is not sticky must not show up again in the next call
  throw CudaError(fmt::format("{} ({}) in {}", cudaGetErrorName(status), cudaGetErrorString(status), call),
                  status == cudaErrorMemoryAllocation, is_environment(status));
}

void check(CUresult status, const char* call) {
  if (status == CUDA_SUCCESS) return;
  const char* name = nullptr;
  if (driver().get_error_name(status, &name) != CUDA_SUCCESS || name == nullptr) name = "unknown CUDA error";
  throw CudaError(fmt::format("{} in {}", name, call), status == CUDA_ERROR_OUT_OF_MEMORY,
                  is_environment(static_cast<int>(status)));
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

Graph end_capture(cudaStream_t stream) {
  Graph graph;
  check(cudaStreamEndCapture(stream, graph.out()), "cudaStreamEndCapture");
  return graph;
}

GraphExec instantiate(const Graph& graph, cudaStream_t stream) {
  GraphExec exec;
  check(cudaGraphInstantiate(exec.out(), graph.get(), 0), "cudaGraphInstantiate");
  check(cudaGraphUpload(exec.get(), stream), "cudaGraphUpload");
  return exec;
}

}  // namespace warpsmith::cuda
