// Checks and creating calls.
#include "evaluate/cuda/cuda_handles.h"

#include <fmt/format.h>

#include <mutex>

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

constexpr std::size_t kPageBytes = 2 << 20;  // what the device maps at once

// The watched part of every living buffer, by the buffer's address.
class Registry {
 public:
  void add(void* buffer, void* begin, std::size_t bytes, bool fixed) {
    const std::lock_guard lock(mutex_);
    ++version_;
    watched_[buffer] = {begin, {bytes, version_, fixed}};
  }
  void remove(void* buffer) {
    const std::lock_guard lock(mutex_);
    version_ += watched_.erase(buffer);
  }
  std::map<void*, WatchedRange> list() {
    const std::lock_guard lock(mutex_);
    std::map<void*, WatchedRange> ranges;
    for (const auto& [buffer, watched] : watched_) {
      if (watched.second.bytes > 0) ranges.insert(watched);
    }
    return ranges;
  }
  std::uint64_t version() {
    const std::lock_guard lock(mutex_);
    return version_;
  }

 private:
  std::mutex mutex_;
  std::map<void*, std::pair<void*, WatchedRange>> watched_;
  std::uint64_t version_ = 0;
};

Registry& registry() {
  static auto& registry = *new Registry();  // outlives every buffer
  return registry;
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

DeviceBuffer::DeviceBuffer(std::size_t bytes, Contents contents) : bytes_(bytes) {
  if (bytes == 0) return;
  if (contents == Contents::unwatched) {
    check(cudaMalloc(memory_.out(), bytes), "cudaMalloc");
    return;
  }
  const std::size_t mapped = mapped_bytes(bytes);
  check(cudaMalloc(memory_.out(), mapped), "cudaMalloc");
  const std::size_t begin = contents == Contents::changing ? (bytes + 7) / 8 * 8 : 0;
  registry().add(memory_.get(), as<std::byte>(begin), mapped - begin, contents == Contents::fixed);
}

std::size_t DeviceBuffer::mapped_bytes(std::size_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

cudaError_t DeviceBuffer::release(void* memory) {
  registry().remove(memory);
  return cudaFree(memory);
}

std::map<void*, WatchedRange> watched_memory() { return registry().list(); }
std::uint64_t watched_memory_version() { return registry().version(); }

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
