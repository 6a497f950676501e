// The driver functions that the backend needs, found at run time, so that the worker links where no driver is.
#pragma once

#include <cuda.h>

namespace warpsmith::cuda {

struct DriverFunctions {
  decltype(&cuGetErrorName) get_error_name;
  decltype(&cuModuleLoadData) module_load_data;
  decltype(&cuModuleUnload) module_unload;
  decltype(&cuModuleGetFunction) module_get_function;
  decltype(&cuModuleGetGlobal) module_get_global;
  decltype(&cuFuncGetAttribute) function_get_attribute;
  decltype(&cuFuncSetAttribute) function_set_attribute;
  decltype(&cuFuncGetParamInfo) function_parameter;
  decltype(&cuLaunchKernelEx) launch_kernel;
  decltype(&cuTensorMapEncodeTiled) encode_tiled;
};

// Throws CudaError where the driver lacks one (it is older than CUDA 12.4).
const DriverFunctions& driver();

}  // namespace warpsmith::cuda
