// Device attributes, library versions and NVML.
#include "evaluate/cuda/machine_facts.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <string_view>

#include "evaluate/cuda/cuda_handles.h"
#include "evaluate/cuda/device_work.h"

namespace warpsmith::cuda {

namespace {

// The runtime reports a missing driver as one that is too old.
std::string reason_for_no_device(cudaError_t status) {
  if (status == cudaSuccess) return "no device";
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY);
  if (driver == nullptr) return "no NVIDIA driver is installed";
  dlclose(driver);
  return cudaGetErrorString(status);
}

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

// Dense FP16 tensor-core flops per clock and SM, FP32 or FP16 accumulation, whichever is faster. 0: unknown.
double tensor_flops_per_clock(int compute_capability) {
  switch (compute_capability) {
    case 80:
    case 87:
      return 2048;
    case 86:
    case 89:
      return 1024;
    case 90:
      return 4096;
    case 100:
    case 103:
      return 8192;
    default:
      return 0;
  }
}

std::string dotted(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

std::string cublas_version(int (*property)(libraryPropertyType, int*)) {
  std::array<int, 3> parts{};
  property(MAJOR_VERSION, &parts[0]);
  property(MINOR_VERSION, &parts[1]);
  property(PATCH_LEVEL, &parts[2]);
  return fmt::format("{}.{}.{}", parts[0], parts[1], parts[2]);
}

// Fastest launch of an empty kernel seen on any device in a replayed graph is 0.39 us; nothing is below this.
constexpr double kLaunchFloorUs = 0.3;

// NVML's types, as its header has them.
constexpr int kNvmlSuccess = 0;
constexpr int kNvmlClockSm = 1;
struct ThrottleBit {
  unsigned long long bit;
  const char* name;
};
constexpr ThrottleBit kThrottleBits[] = {
    {0x2, "application clocks"}, {0x4, "power cap"},         {0x8, "hardware slowdown"},     {0x10, "sync boost"},
    {0x20, "thermal"},           {0x40, "hardware thermal"}, {0x80, "hardware power brake"}, {0x100, "display clocks"}};

template <class Function>
Function symbol(void* library, const char* name) {
  return library == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

Status start_device(int device) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    return environment_error(fmt::format("no CUDA GPU: {}", reason_for_no_device(status)));
  }
  if (device < 0 || device >= count) {
    return environment_error(fmt::format("no CUDA device {}: this machine has {}", device, count));
  }
  try {
    check(cudaSetDevice(device), "cudaSetDevice");
    check(cudaFree(nullptr), "starting the device");
    return ok_status();
  } catch (const CudaError& error) {
    return environment_error(fmt::format("CUDA device {} cannot be used: {}", device, error.what()));
  }
}

Machine describe_device(int device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  Machine machine;
  machine.name = properties.name;
  machine.kind = "cuda";
  machine.compute_capability = properties.major * 10 + properties.minor;
  machine.units = properties.multiProcessorCount;
  machine.smem_bytes_per_block = static_cast<std::int64_t>(properties.sharedMemPerBlockOptin);
  machine.registers_per_unit = properties.regsPerMultiprocessor;
  machine.l2_bytes = properties.l2CacheSize;
  for (std::size_t i = 0; properties.major >= 9 && i < machine.resident_clusters.size(); ++i) {
    machine.resident_clusters[i] = resident_clusters(2 << i, machine.smem_bytes_per_block);
  }
  const double clock_ghz = attribute(cudaDevAttrClockRate, device) * 1e-6;
  machine.peak_gflops = tensor_flops_per_clock(machine.compute_capability) * machine.units * clock_ghz;
  // Two transfers per memory clock.
  const double memory_ghz = attribute(cudaDevAttrMemoryClockRate, device) * 1e-6;
  machine.peak_gb_per_s = 2 * memory_ghz * attribute(cudaDevAttrGlobalMemoryBusWidth, device) / 8;
  machine.launch_floor_us = kLaunchFloorUs;
  int runtime = 0, driver_api = 0;
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  check(cudaDriverGetVersion(&driver_api), "cudaDriverGetVersion");
  machine.versions = {{"cuda_runtime", dotted(runtime)},
                      {"cuda_driver_api", dotted(driver_api)},
                      {"cublas", cublas_version([](libraryPropertyType type, int* value) {
                         return static_cast<int>(cublasGetProperty(type, value));
                       })},
                      {"cublaslt", cublas_version([](libraryPropertyType type, int* value) {
                         return static_cast<int>(cublasLtGetProperty(type, value));
                       })}};
  if (const std::string version = ClockReader(device).driver_version(); !version.empty()) {
    machine.versions["driver"] = version;
  }
  return machine;
}

std::vector<int> devices_like(int device) {
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  cudaDeviceProp own{};
  check(cudaGetDeviceProperties(&own, device), "cudaGetDeviceProperties");
  std::vector<int> like;
  for (int other = 0; other < count; ++other) {
    cudaDeviceProp properties{};
    if (other == device || cudaGetDeviceProperties(&properties, other) != cudaSuccess) continue;
    if (std::string_view(properties.name) == own.name) like.push_back(other);
  }
  return like;
}

ClockReader::ClockReader(int device) {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  const auto initialize = symbol<int (*)()>(library, "nvmlInit_v2");
  const auto by_bus_id = symbol<int (*)(const char*, void**)>(library, "nvmlDeviceGetHandleByPciBusId_v2");
  if (initialize == nullptr || by_bus_id == nullptr || initialize() != kNvmlSuccess) return;
  library_ = library;
  std::array<char, 64> bus_id{};
  if (cudaDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), device) != cudaSuccess) return;
  if (by_bus_id(bus_id.data(), &device_) != kNvmlSuccess) device_ = nullptr;
}

double ClockReader::mhz() const {
  const auto clock = symbol<int (*)(void*, int, unsigned*)>(library_, "nvmlDeviceGetClockInfo");
  unsigned value = 0;
  if (device_ == nullptr || clock == nullptr || clock(device_, kNvmlClockSm, &value) != kNvmlSuccess) return 0;
  return value;
}

std::vector<std::string> ClockReader::throttle_reasons() const {
  using Reasons = int (*)(void*, unsigned long long*);
  auto reasons = symbol<Reasons>(library_, "nvmlDeviceGetCurrentClocksEventReasons");
  if (reasons == nullptr) reasons = symbol<Reasons>(library_, "nvmlDeviceGetCurrentClocksThrottleReasons");
  unsigned long long bits = 0;
  if (device_ == nullptr || reasons == nullptr || reasons(device_, &bits) != kNvmlSuccess) return {};
  std::vector<std::string> names;
  for (const ThrottleBit& known : kThrottleBits) {
    if ((bits & known.bit) != 0) names.emplace_back(known.name);
  }
  return names;
}

std::string ClockReader::driver_version() const {
  const auto version = symbol<int (*)(char*, unsigned)>(library_, "nvmlSystemGetDriverVersion");
  std::array<char, 96> text{};
  if (version == nullptr || version(text.data(), static_cast<unsigned>(text.size())) != kNvmlSuccess) return {};
  return text.data();
}

}  // namespace warpsmith::cuda
