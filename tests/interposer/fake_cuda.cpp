// libcuda.so.1 of the interposer's tests: each thread has the device that it asked for, at first number 0; a stream
// with an odd address is being captured.
#include <cuda.h>

#include <cstdint>

namespace {
thread_local int current_device = 0;
}

extern "C" {

void fake_set_device(int device) { current_device = device; }

CUresult cuCtxGetDevice(CUdevice* device) {
  *device = current_device;
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  const bool odd = (reinterpret_cast<std::uintptr_t>(stream) & 1) != 0;
  *status = odd ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  thread_local CUstreamCaptureMode current = CU_STREAM_CAPTURE_MODE_GLOBAL;
  const CUstreamCaptureMode old = current;
  current = *mode;
  *mode = old;
  return CUDA_SUCCESS;
}

}  // extern "C"
