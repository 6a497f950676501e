// Driver functions are found through the runtime, so that nothing links libcuda.
#include "audit/cuda/shared_memory.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

namespace warpsmith::audit {

namespace {

void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) throw std::runtime_error(fmt::format("{} in {}", cudaGetErrorString(status), call));
}

void check(CUresult status, const char* call) {
  if (status != CUDA_SUCCESS)
    throw std::runtime_error(fmt::format("CUDA error {} in {}", static_cast<int>(status), call));
}

template <class Function>
Function* find(const char* name) {
  constexpr unsigned kVersion = 12040;
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  const cudaError_t status = cudaGetDriverEntryPointByVersion(name, &address, kVersion, cudaEnableDefault, &found);
#else
  const cudaError_t status = cudaGetDriverEntryPoint(name, &address, cudaEnableDefault, &found);
#endif
  if (status != cudaSuccess || found != cudaDriverEntryPointSuccess || address == nullptr) {
    throw std::runtime_error(fmt::format("the CUDA driver has no {}", name));
  }
  return reinterpret_cast<Function*>(address);
}

#define WARPSMITH_DRIVER(name) find<decltype(name)>(#name)

CUdeviceptr map_handle(CUmemGenericAllocationHandle handle, std::size_t bytes, int device) {
  CUdeviceptr address = 0;
  check(WARPSMITH_DRIVER(cuMemAddressReserve)(&address, bytes, 0, 0, 0), "cuMemAddressReserve");
  check(WARPSMITH_DRIVER(cuMemMap)(address, bytes, 0, handle, 0), "cuMemMap");
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  check(WARPSMITH_DRIVER(cuMemSetAccess)(address, bytes, &access, 1), "cuMemSetAccess");
  return address;
}

std::string to_hex(const void* memory, std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) {
    text += fmt::format("{:02x}", static_cast<unsigned>(static_cast<const unsigned char*>(memory)[i]));
  }
  return text;
}

void from_hex(const std::string& text, void* memory, std::size_t bytes) {
  if (text.size() != 2 * bytes) throw std::runtime_error("malformed CUDA IPC handle");
  for (std::size_t i = 0; i < bytes; ++i) {
    static_cast<unsigned char*>(memory)[i] = static_cast<unsigned char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  }
}

}  // namespace

std::string_view to_string(SharingKind kind) { return kind == SharingKind::descriptor ? "descriptor" : "ipc"; }

void to_json(nlohmann::json& json, const MemoryTicket& ticket) {
  json = {{"kind", to_string(ticket.kind)}, {"bytes", ticket.bytes}, {"handle", ticket.handle}};
}

void from_json(const nlohmann::json& json, MemoryTicket& ticket) {
  ticket.kind = json.at("kind").get<std::string>() == "ipc" ? SharingKind::ipc : SharingKind::descriptor;
  json.at("bytes").get_to(ticket.bytes);
  json.at("handle").get_to(ticket.handle);
}

SharedMemory::SharedMemory(SharingKind kind, std::size_t bytes, int device) {
  ticket_.kind = kind;
  ticket_.bytes = bytes;
  if (kind == SharingKind::descriptor) {
    map_virtual(device);
  } else {
    allocate();
  }
}

void SharedMemory::map_virtual(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  std::size_t granularity = 0;
  check(
      WARPSMITH_DRIVER(cuMemGetAllocationGranularity)(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
      "cuMemGetAllocationGranularity");
  ticket_.bytes = (ticket_.bytes + granularity - 1) / granularity * granularity;
  check(WARPSMITH_DRIVER(cuMemCreate)(&handle_, ticket_.bytes, &properties, 0), "cuMemCreate");
  check(WARPSMITH_DRIVER(cuMemExportToShareableHandle)(&descriptor_, handle_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                                       0),
        "cuMemExportToShareableHandle");
  address_ = map_handle(handle_, ticket_.bytes, device);
}

void SharedMemory::allocate() {
  void* memory = nullptr;
  check(cudaMalloc(&memory, ticket_.bytes), "cudaMalloc");
  address_ = reinterpret_cast<CUdeviceptr>(memory);
  cudaIpcMemHandle_t handle{};
  check(cudaIpcGetMemHandle(&handle, memory), "cudaIpcGetMemHandle");
  ticket_.handle = to_hex(&handle, sizeof handle);
}

SharedMemory::~SharedMemory() {
  if (descriptor_ >= 0) close(descriptor_);
  try {
    if (ticket_.kind == SharingKind::ipc) {
      if (address_ != 0) cudaFree(data());
      return;
    }
    if (address_ != 0) {
      WARPSMITH_DRIVER(cuMemUnmap)(address_, ticket_.bytes);
      WARPSMITH_DRIVER(cuMemAddressFree)(address_, ticket_.bytes);
    }
    if (handle_ != 0) WARPSMITH_DRIVER(cuMemRelease)(handle_);
  } catch (const std::runtime_error&) {
    return;  // the driver is gone, and the memory with it
  }
}

void* open_shared_memory(const MemoryTicket& ticket, int descriptor, int device) {
  if (ticket.kind == SharingKind::ipc) {
    cudaIpcMemHandle_t handle{};
    from_hex(ticket.handle, &handle, sizeof handle);
    void* memory = nullptr;
    check(cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess), "cudaIpcOpenMemHandle");
    return memory;
  }
  CUmemGenericAllocationHandle handle = 0;
  check(WARPSMITH_DRIVER(cuMemImportFromShareableHandle)(
            &handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)),
            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
        "cuMemImportFromShareableHandle");
  return reinterpret_cast<void*>(map_handle(handle, ticket.bytes, device));
}

#undef WARPSMITH_DRIVER

}  // namespace warpsmith::audit
