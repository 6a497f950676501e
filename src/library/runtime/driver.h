// The CUDA driver's functions, from the driver library as it is found at run time: the library loads where there is
// none.
#pragma once

#include <cuda.h>

#include <string>

#include "base/result.h"
#include "warpsmith/hgemm.h"

namespace warpsmith::library {

// CUDA's, under names and with signatures that no newer toolkit header changes.
struct Driver {
  CUresult (*init)(unsigned flags);
  CUresult (*get_error_name)(CUresult error, const char** name);
  CUresult (*device_count)(int* count);
  CUresult (*device_get)(CUdevice* device, int ordinal);
  CUresult (*device_name)(char* name, int length, CUdevice device);
  CUresult (*device_attribute)(int* value, CUdevice_attribute which, CUdevice device);
  CUresult (*primary_retain)(CUcontext* context, CUdevice device);
  CUresult (*context_get)(CUcontext* context);
  CUresult (*context_set)(CUcontext context);
  CUresult (*context_device)(CUdevice* device);
  CUresult (*context_synchronize)();
  CUresult (*module_load)(CUmodule* module, const void* image);
  CUresult (*module_unload)(CUmodule module);
  CUresult (*module_function)(CUfunction* function, CUmodule module, const char* name);
  CUresult (*function_set)(CUfunction function, CUfunction_attribute which, int value);
  CUresult (*launch)(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra);
  CUresult (*encode_tiled)(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                           const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,
                           const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                           CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill);
  CUresult (*max_active_clusters)(int* clusters, CUfunction function, const CUlaunchConfig* config);
  CUresult (*memory_allocate)(CUdeviceptr* address, std::size_t bytes);
  CUresult (*memory_free)(CUdeviceptr address);
  CUresult (*memory_set)(CUdeviceptr address, unsigned char value, std::size_t bytes, CUstream stream);
  CUresult (*stream_create)(CUstream* stream, unsigned flags);
  CUresult (*stream_destroy)(CUstream stream);
  CUresult (*stream_synchronize)(CUstream stream);
  CUresult (*capture_info)(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                           const CUgraphNode** dependencies, std::size_t* count);
  CUresult (*exchange_capture_mode)(CUstreamCaptureMode* mode);
  // Null where the driver lacks them.
  CUresult (*memory_allocate_async)(CUdeviceptr* address, std::size_t bytes, CUstream stream);
  CUresult (*memory_free_async)(CUdeviceptr address, CUstream stream);
  CUresult (*stream_id)(CUstream stream, unsigned long long* id);
  CUresult (*user_object_create)(CUuserObject* object, void* data, CUhostFn destroy, unsigned references,
                                 unsigned flags);
  CUresult (*user_object_release)(CUuserObject object, unsigned count);
  CUresult (*graph_retain)(CUgraph graph, CUuserObject object, unsigned count, unsigned flags);
};

// The process's driver, opened and initialised once. Error (environment): none is installed, it is older than
// CUDA 12.0, or it finds no GPU.
const Result<Driver>& driver();

std::string describe(const Driver& driver, CUresult error);

// "what: CUDA_ERROR_X"; environment where memory ran out, which passes, else failed.
Error cuda_error(const Driver& driver, const std::string& what, CUresult error);

// Lets the thread allocate and load modules although a stream is being captured.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& cuda) : cuda_(cuda) { cuda_.exchange_capture_mode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture() { cuda_.exchange_capture_mode(&mode_); }

 private:
  const Driver& cuda_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;  // then the mode before
};

}  // namespace warpsmith::library
