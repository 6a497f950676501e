// dlopen and dlsym of libcuda.
#include "library/runtime/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace warpsmith::library {

namespace {

class Finder {
 public:
  explicit Finder(void* library) : library_(library) {}

  template <class Function>
  void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    if (function == nullptr && missing_ == nullptr) missing_ = name;
  }
  template <class Function>
  void find_optional(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
  }
  const char* missing() const { return missing_; }

 private:
  void* library_;
  const char* missing_ = nullptr;
};

Result<Driver> open_driver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return environment_error("no NVIDIA driver is installed (libcuda.so.1 cannot be opened)");
  Driver cuda{};
  Finder finder(library);
  finder.find(cuda.init, "cuInit");
  finder.find(cuda.get_error_name, "cuGetErrorName");
  finder.find(cuda.device_count, "cuDeviceGetCount");
  finder.find(cuda.device_get, "cuDeviceGet");
  finder.find(cuda.device_name, "cuDeviceGetName");
  finder.find(cuda.device_attribute, "cuDeviceGetAttribute");
  finder.find(cuda.primary_retain, "cuDevicePrimaryCtxRetain");
  finder.find(cuda.context_get, "cuCtxGetCurrent");
  finder.find(cuda.context_set, "cuCtxSetCurrent");
  finder.find(cuda.context_device, "cuCtxGetDevice");
  finder.find(cuda.context_synchronize, "cuCtxSynchronize");
  finder.find(cuda.module_load, "cuModuleLoadData");
  finder.find(cuda.module_unload, "cuModuleUnload");
  finder.find(cuda.module_function, "cuModuleGetFunction");
  finder.find(cuda.function_set, "cuFuncSetAttribute");
  finder.find(cuda.launch, "cuLaunchKernelEx");
  finder.find(cuda.encode_tiled, "cuTensorMapEncodeTiled");
  finder.find(cuda.max_active_clusters, "cuOccupancyMaxActiveClusters");
  finder.find(cuda.memory_allocate, "cuMemAlloc_v2");
  finder.find(cuda.memory_free, "cuMemFree_v2");
  finder.find(cuda.memory_set, "cuMemsetD8Async");
  finder.find(cuda.stream_create, "cuStreamCreate");
  finder.find(cuda.stream_destroy, "cuStreamDestroy_v2");
  finder.find(cuda.stream_synchronize, "cuStreamSynchronize");
  finder.find(cuda.capture_info, "cuStreamGetCaptureInfo_v2");
  finder.find(cuda.exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
  finder.find_optional(cuda.memory_allocate_async, "cuMemAllocAsync");
  finder.find_optional(cuda.memory_free_async, "cuMemFreeAsync");
  finder.find_optional(cuda.stream_id, "cuStreamGetId");
  finder.find_optional(cuda.user_object_create, "cuUserObjectCreate");
  finder.find_optional(cuda.user_object_release, "cuUserObjectRelease");
  finder.find_optional(cuda.graph_retain, "cuGraphRetainUserObject");
  if (finder.missing() != nullptr) {
    return environment_error(fmt::format("the NVIDIA driver is older than CUDA 12.0: it has no {}", finder.missing()));
  }
  if (const CUresult error = cuda.init(0); error != CUDA_SUCCESS) {
    return environment_error(fmt::format("the NVIDIA driver does not start: {}", describe(cuda, error)));
  }
  int count = 0;
  if (cuda.device_count(&count) != CUDA_SUCCESS || count == 0)
    return environment_error("the NVIDIA driver finds no GPU");
  return cuda;
}

}  // namespace

const Result<Driver>& driver() {
  static const Result<Driver> kDriver = open_driver();
  return kDriver;
}

std::string describe(const Driver& cuda, CUresult error) {
  const char* name = nullptr;
  if (cuda.get_error_name(error, &name) != CUDA_SUCCESS || name == nullptr) return fmt::format("error {}", int{error});
  return name;
}

Error cuda_error(const Driver& cuda, const std::string& what, CUresult error) {
  std::string message = fmt::format("{}: {}", what, describe(cuda, error));
  return error == CUDA_ERROR_OUT_OF_MEMORY ? environment_error(std::move(message)) : failure(std::move(message));
}

}  // namespace warpsmith::library
