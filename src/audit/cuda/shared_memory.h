// Device memory that two processes share. The judge makes and exports it; the host of foreign code opens it. By file
// descriptor (virtual memory management) where the driver can, else by CUDA IPC handle. Throws std::runtime_error.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace warpsmith::audit {

enum class SharingKind { descriptor, ipc };
std::string_view to_string(SharingKind kind);

// What the other process needs. A descriptor travels beside it, by inheritance.
struct MemoryTicket {
  SharingKind kind = SharingKind::descriptor;
  std::uint64_t bytes = 0;  // mapped: a multiple of the device's granularity
  std::string handle;       // of CUDA IPC, in hexadecimal
};
void to_json(nlohmann::json& json, const MemoryTicket& ticket);
void from_json(const nlohmann::json& json, MemoryTicket& ticket);

// Owner of the memory. Precondition: the device's primary context is current.
class SharedMemory {
 public:
  SharedMemory(SharingKind kind, std::size_t bytes, int device);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  void* data() const { return reinterpret_cast<void*>(address_); }
  const MemoryTicket& ticket() const { return ticket_; }
  int descriptor() const { return descriptor_; }  // -1 for CUDA IPC

 private:
  void map_virtual(int device);
  void allocate();

  MemoryTicket ticket_;
  CUdeviceptr address_ = 0;
  CUmemGenericAllocationHandle handle_ = 0;
  int descriptor_ = -1;
};

// The other process's view of it, for the rest of that process's life.
void* open_shared_memory(const MemoryTicket& ticket, int descriptor, int device);

}  // namespace warpsmith::audit
