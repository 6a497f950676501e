// CUDA checks that throw, and move-only owners of CUDA objects. Used inside the CUDA backend only; its edge turns the
// exceptions into Errors.
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

namespace warpsmith::cuda {

// A failed CUDA call. what() names the error as CUDA does and the call.
class CudaError : public std::runtime_error {
 public:
  CudaError(const std::string& message, bool out_of_memory, bool environment = false)
      : std::runtime_error(message), out_of_memory_(out_of_memory), environment_(environment) {}
  bool out_of_memory() const { return out_of_memory_; }
  // The device or the driver failed: no kernel causes this error.
  bool environment() const { return environment_; }

 private:
  bool out_of_memory_, environment_;
};

void check(cudaError_t status, const char* call);
void check(CUresult status, const char* call);
void check(cublasStatus_t status, const char* call);

// True when the context is lost: every later call fails as well, so the process must be replaced.
bool context_is_lost();

// Owns a handle that `destroy` frees; destroying never throws, and errors in it are not news.
template <class Handle, auto destroy>
class Owner {
 public:
  Owner() = default;
  explicit Owner(Handle handle) : handle_(handle) {}
  Owner(Owner&& other) noexcept : handle_(std::exchange(other.handle_, Handle{})) {}
  Owner& operator=(Owner&& other) noexcept {
    if (this != &other) {
      reset();
      handle_ = std::exchange(other.handle_, Handle{});
    }
    return *this;
  }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  ~Owner() { reset(); }

  Handle get() const { return handle_; }
  Handle* out() { return &handle_; }  // for creating calls
  void reset() noexcept {
    if (handle_ != Handle{}) static_cast<void>(destroy(handle_));
    handle_ = Handle{};
  }

 private:
  Handle handle_{};
};

using Stream = Owner<cudaStream_t, &cudaStreamDestroy>;
using Event = Owner<cudaEvent_t, &cudaEventDestroy>;
using Graph = Owner<cudaGraph_t, &cudaGraphDestroy>;
using GraphExec = Owner<cudaGraphExec_t, &cudaGraphExecDestroy>;
using CublasHandle = Owner<cublasHandle_t, &cublasDestroy>;
using CublasLtHandle = Owner<cublasLtHandle_t, &cublasLtDestroy>;
using MatmulDescriptor = Owner<cublasLtMatmulDesc_t, &cublasLtMatmulDescDestroy>;
using MatrixLayout = Owner<cublasLtMatrixLayout_t, &cublasLtMatrixLayoutDestroy>;
using MatmulPreference = Owner<cublasLtMatmulPreference_t, &cublasLtMatmulPreferenceDestroy>;

Stream make_stream();
Event make_event();

// What MemoryWatch takes to be fixed while candidates are timed.
enum class Contents {
  fixed,      // everything, to the end of the buffer's pages, from when it was filled to when it is freed
  lasting,    // the same, but between two candidates the evaluator writes
  changing,   // what lies behind the bytes that were asked for; those are written
  unwatched,  // nothing. The buffer has no byte more than was asked for, and a sanitizer sees accesses beyond
};

// Device memory: pages of its own, unless it is unwatched.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(std::size_t bytes, Contents contents = Contents::lasting);

  void* data() const { return memory_.get(); }
  std::size_t bytes() const { return bytes_; }
  // That a buffer of so many takes.
  static std::size_t mapped_bytes(std::size_t bytes);
  template <class T>
  T* as(std::size_t byte_offset = 0) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(memory_.get()) + byte_offset);
  }

 private:
  static cudaError_t release(void* memory);

  Owner<void*, &DeviceBuffer::release> memory_;
  std::size_t bytes_ = 0;  // that were asked for
};

struct WatchedRange {
  std::size_t bytes = 0;     // a multiple of 8
  std::uint64_t serial = 0;  // of the buffer; never given again
  bool fixed = false;
};
// Watched memory of living buffers, by where it begins. Of this process, whatever the device.
std::map<void*, WatchedRange> watched_memory();
// Changes whenever the map does.
std::uint64_t watched_memory_version();

// The graph of what was queued on a capturing stream.
Graph end_capture(cudaStream_t stream);
// Ready to launch without further set-up.
GraphExec instantiate(const Graph& graph, cudaStream_t stream);

}  // namespace warpsmith::cuda
