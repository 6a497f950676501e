// Four functions of the driver, looked up once.
#include "interposer/driver_state.h"

#include <cuda.h>
#include <dlfcn.h>

namespace warpsmith::interposer {

namespace {

struct Driver {
  decltype(&cuCtxGetDevice) context_device = nullptr;
  decltype(&cuStreamIsCapturing) stream_is_capturing = nullptr;
  decltype(&cuThreadExchangeStreamCaptureMode) exchange_capture_mode = nullptr;
};

const Driver& driver() {
  static const Driver kDriver = [] {
    Driver found;
    void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) return found;
    const auto look_up = [library](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    };
    look_up(found.context_device, "cuCtxGetDevice");
    look_up(found.stream_is_capturing, "cuStreamIsCapturing");
    look_up(found.exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
    return found;
  }();
  return kDriver;
}

int exchange(int mode) {
  auto wanted = static_cast<CUstreamCaptureMode>(mode);
  if (driver().exchange_capture_mode != nullptr) driver().exchange_capture_mode(&wanted);
  return static_cast<int>(wanted);
}

}  // namespace

std::optional<int> current_device() {
  CUdevice device = 0;
  if (driver().context_device == nullptr || driver().context_device(&device) != CUDA_SUCCESS) return std::nullopt;
  return device;
}

bool is_capturing(cudaStream_t stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (driver().stream_is_capturing == nullptr) return true;
  return driver().stream_is_capturing(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

RelaxedCapture::RelaxedCapture() : mode_(exchange(CU_STREAM_CAPTURE_MODE_RELAXED)) {}

RelaxedCapture::~RelaxedCapture() { exchange(mode_); }

}  // namespace warpsmith::interposer
