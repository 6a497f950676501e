// Entry points through the runtime, which opens the driver library itself.
#include "evaluate/cuda/driver.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "evaluate/cuda/cuda_handles.h"

namespace warpsmith::cuda {

namespace {

template <class Function>
void find(Function& function, const char* name) {
  constexpr unsigned kVersion = 12040;  // the driver ABI asked for; every function below exists in it
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  const cudaError_t status = cudaGetDriverEntryPointByVersion(name, &address, kVersion, cudaEnableDefault, &found);
#else
  const cudaError_t status = cudaGetDriverEntryPoint(name, &address, cudaEnableDefault, &found);
#endif
  if (status != cudaSuccess || found != cudaDriverEntryPointSuccess || address == nullptr) {
    throw CudaError(fmt::format("the CUDA driver has no {}: it is older than CUDA {}.{}", name, kVersion / 1000,
                                kVersion % 1000 / 10),
                    false);
  }
  function = reinterpret_cast<Function>(address);
}

DriverFunctions find_all() {
  DriverFunctions functions{};
  find(functions.get_error_name, "cuGetErrorName");
  find(functions.module_load_data, "cuModuleLoadData");
  find(functions.module_unload, "cuModuleUnload");
  find(functions.module_get_function, "cuModuleGetFunction");
  find(functions.module_get_global, "cuModuleGetGlobal");
  find(functions.function_get_attribute, "cuFuncGetAttribute");
  find(functions.function_set_attribute, "cuFuncSetAttribute");
  find(functions.function_parameter, "cuFuncGetParamInfo");
  find(functions.launch_kernel, "cuLaunchKernelEx");
  find(functions.encode_tiled, "cuTensorMapEncodeTiled");
  return functions;
}

}  // namespace

const DriverFunctions& driver() {
  static const DriverFunctions kFunctions = find_all();
  return kFunctions;
}

}  // namespace warpsmith::cuda
