// The driver functions that the runtime opens, without a device behind them.
#include "fake_driver.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

namespace {

struct Function {
  std::string name;
  CUcontext context = nullptr;
};
struct Module {
  CUcontext context = nullptr;
  std::map<std::string, Function> functions;
};

std::mutex mutex;
fake::Log log_;
std::vector<std::size_t> parameter_sizes;
std::map<CUstream, std::uint64_t> captures;
std::map<CUstream, unsigned long long> renewals;
struct Object {
  CUhostFn destroy;
  void* data;
};
std::map<CUgraph, std::vector<Object*>> graph_objects;
std::atomic<unsigned> short_of{fake::kShortOfNothing};
std::atomic<bool> recording{true};
thread_local CUcontext current = nullptr;

CUcontext context_of(CUdevice device) { return reinterpret_cast<CUcontext>(fake::context_of(device)); }

std::vector<std::vector<unsigned char>> copied(void** parameters) {
  std::vector<std::vector<unsigned char>> values;
  for (std::size_t i = 0; i < parameter_sizes.size(); ++i) {
    const auto* bytes = static_cast<const unsigned char*>(parameters[i]);
    values.emplace_back(bytes, bytes + parameter_sizes[i]);
  }
  return values;
}

int attribute(CUdevice_attribute which) {
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return 9;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return 132;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return 227 << 10;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
      return 64 << 10;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      return 50 << 20;
    default:
      return 0;
  }
}

}  // namespace

extern "C" {

const fake::Log& fake_log() { return log_; }
void fake_reset() {
  const std::lock_guard lock(mutex);
  log_ = {};
}
void fake_expect(const std::vector<std::size_t>& sizes) {
  const std::lock_guard lock(mutex);
  parameter_sizes = sizes;
}
void fake_capture(CUstream stream, std::uint64_t id) {
  const std::lock_guard lock(mutex);
  captures[stream] = id;
}
// As CUDA does, on a thread of its own and with nothing locked.
void fake_graph_gone(std::uint64_t id) {
  std::vector<Object*> objects;
  {
    const std::lock_guard lock(mutex);
    objects = std::move(graph_objects[reinterpret_cast<CUgraph>(id)]);
    graph_objects.erase(reinterpret_cast<CUgraph>(id));
  }
  std::thread([&] {
    for (Object* object : objects) {
      object->destroy(object->data);
      delete object;
    }
  }).join();
}
void fake_renew(CUstream stream) {
  const std::lock_guard lock(mutex);
  ++renewals[stream];
}
void fake_short(unsigned what) { short_of = what; }
void fake_record(bool on) { recording = on; }

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuGetErrorName(CUresult, const char** name) {
  *name = "CUDA_ERROR_FAKE";
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) {
  *count = fake::kDevices;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return ordinal < fake::kDevices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDeviceGetName(char* name, int length, CUdevice) {
  std::strncpy(name, fake::kDeviceName, static_cast<std::size_t>(length));
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice) {
  *value = attribute(which);
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  *context = context_of(device);
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = current;
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context) {
  current = context;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice* device) {
  for (*device = 0; *device < fake::kDevices; ++*device) {
    if (current == context_of(*device)) return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_CONTEXT;
}
CUresult cuCtxSynchronize() {
  const std::lock_guard lock(mutex);
  ++log_.synchronizations;
  return CUDA_SUCCESS;
}
CUresult cuModuleLoadData(CUmodule* module, const void*) {
  if ((short_of & fake::kShortOfModules) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::lock_guard lock(mutex);
  ++log_.loads;
  *module = reinterpret_cast<CUmodule>(new Module{current, {}});
  return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule module) {
  if (reinterpret_cast<Module*>(module)->context != current) return CUDA_ERROR_INVALID_HANDLE;
  const std::lock_guard lock(mutex);
  ++log_.unloads;
  delete reinterpret_cast<Module*>(module);
  return CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  const std::lock_guard lock(mutex);
  Function& made = reinterpret_cast<Module*>(module)->functions[name];
  made.name = name;
  made.context = reinterpret_cast<Module*>(module)->context;
  *function = reinterpret_cast<CUfunction>(&made);
  return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters, void**) {
  if (!recording) return CUDA_SUCCESS;
  if (reinterpret_cast<Function*>(function)->context != current) return CUDA_ERROR_INVALID_HANDLE;
  const std::lock_guard lock(mutex);
  fake::Launch launch;
  launch.context = reinterpret_cast<std::uintptr_t>(current);
  launch.function = reinterpret_cast<Function*>(function)->name;
  launch.stream = config->hStream;
  launch.grid = config->gridDimX;
  launch.block = config->blockDimX;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) launch.cluster = attribute.value.clusterDim.x;
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) launch.dependent = true;
  }
  launch.values = copied(parameters);
  log_.launches.push_back(std::move(launch));
  return CUDA_SUCCESS;
}
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType, cuuint32_t, void* address,
                                const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,
                                const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                                CUtensorMapFloatOOBfill) {
  const fake::Map made = {address, {dims[0], dims[1]}, strides[0], {box[0], box[1]}};
  static_assert(sizeof made <= sizeof *map);
  std::memcpy(map, &made, sizeof made);
  const std::lock_guard lock(mutex);
  ++log_.encodes;
  return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction, const CUlaunchConfig* config) {
  *clusters = 132 / static_cast<int>(config->gridDimX);
  return CUDA_SUCCESS;
}
CUresult cuMemAlloc_v2(CUdeviceptr* address, std::size_t bytes) {
  if ((short_of & fake::kShortOfWorkspace) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::lock_guard lock(mutex);
  ++log_.allocations;
  *address = reinterpret_cast<CUdeviceptr>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  return CUDA_SUCCESS;
}
CUresult cuMemFree_v2(CUdeviceptr address) {
  const std::lock_guard lock(mutex);
  ++log_.frees;
  std::free(reinterpret_cast<void*>(address));
  return CUDA_SUCCESS;
}
CUresult cuMemAllocAsync(CUdeviceptr* address, std::size_t bytes, CUstream) { return cuMemAlloc_v2(address, bytes); }
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream) { return cuMemFree_v2(address); }
CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, std::size_t bytes, CUstream) {
  std::memset(reinterpret_cast<void*>(address), value, bytes);
  const std::lock_guard lock(mutex);
  ++log_.memsets;
  return CUDA_SUCCESS;
}
CUresult cuStreamCreate(CUstream* stream, unsigned) {
  *stream = reinterpret_cast<CUstream>(0x77);
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy_v2(CUstream) { return CUDA_SUCCESS; }
CUresult cuStreamSynchronize(CUstream) {
  const std::lock_guard lock(mutex);
  ++log_.synchronizations;
  return CUDA_SUCCESS;
}
// A stream's handle, and how often it was given again.
CUresult cuStreamGetId(CUstream stream, unsigned long long* id) {
  static thread_local const char kThread = 0;
  const bool per_thread = stream == CU_STREAM_PER_THREAD;
  *id = per_thread ? reinterpret_cast<std::uintptr_t>(&kThread) : reinterpret_cast<std::uintptr_t>(stream);
  if (stream == CU_STREAM_LEGACY) *id = 0;
  if (!recording) return CUDA_SUCCESS;
  const std::lock_guard lock(mutex);
  const auto capturing = captures.find(stream);
  if (capturing != captures.end() && capturing->second != 0) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const auto renewed = renewals.find(stream);
  if (renewed != renewals.end()) *id += renewed->second << 48;
  return CUDA_SUCCESS;
}
CUresult cuUserObjectCreate(CUuserObject* object, void* data, CUhostFn destroy, unsigned, unsigned) {
  *object = reinterpret_cast<CUuserObject>(new Object{destroy, data});
  return CUDA_SUCCESS;
}
CUresult cuUserObjectRelease(CUuserObject object, unsigned) {
  auto* made = reinterpret_cast<Object*>(object);
  made->destroy(made->data);
  delete made;
  return CUDA_SUCCESS;
}
CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned, unsigned) {
  const std::lock_guard lock(mutex);
  graph_objects[graph].push_back(reinterpret_cast<Object*>(object));
  return CUDA_SUCCESS;
}
CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                   const CUgraphNode**, std::size_t*) {
  std::uint64_t capture = 0;
  if (recording) {
    const std::lock_guard lock(mutex);
    const auto found = captures.find(stream);
    capture = found == captures.end() ? 0 : found->second;
  }
  *status = capture != 0 ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  *id = capture;
  if (graph != nullptr) *graph = reinterpret_cast<CUgraph>(capture);
  return CUDA_SUCCESS;
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode*) { return CUDA_SUCCESS; }

}  // extern "C"
