// A driver library that runs nothing: it hands out memory of the host and writes down what it is asked to do, for two
// devices whose contexts and functions it tells apart. Tests of the runtime open it in the place of libcuda.so.1,
// through their run path, so that they need no GPU.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <string>
#include <vector>

namespace fake {

inline constexpr int kDevices = 2;
inline std::uintptr_t context_of(int device) { return 0x1000 * (static_cast<std::uintptr_t>(device) + 1); }

// One cuLaunchKernelEx.
struct Launch {
  std::string function;
  CUstream stream = nullptr;
  std::uintptr_t context = 0;                 // of the function and of the thread
  unsigned grid = 0, block = 0, cluster = 0;  // x extents; cluster 0: no such attribute
  bool dependent = false;
  std::vector<std::vector<unsigned char>> values;  // of each parameter, as far as expect() told its size
};

// What has been asked of the driver since the last reset.
struct Log {
  std::vector<Launch> launches;
  std::int64_t encodes = 0, allocations = 0, frees = 0, memsets = 0, synchronizations = 0, loads = 0, unloads = 0;
};

// Entries of the library, found by dlsym: "fake_log", "fake_reset", "fake_expect", "fake_capture", "fake_graph_gone",
// "fake_renew", "fake_short", "fake_record".
using LogFunction = const Log& (*)();
using ResetFunction = void (*)();
// Parameter sizes in bytes of launches from now on.
using ExpectFunction = void (*)(const std::vector<std::size_t>& sizes);
// The stream is being captured under this id from now on; 0: no more.
using CaptureFunction = void (*)(CUstream stream, std::uint64_t id);
// The graph of that capture and all that was made from it are gone.
using GraphGoneFunction = void (*)(std::uint64_t capture);
// The handle is of another stream from now on: one was destroyed and one was made.
using RenewFunction = void (*)(CUstream stream);
// What the device has no memory for from now on, a sum of Short.
enum Short : unsigned { kShortOfNothing = 0, kShortOfWorkspace = 1, kShortOfModules = 2 };
using ShortFunction = void (*)(unsigned what);
// Whether launches are written down at all (off: for timing and threads).
using RecordFunction = void (*)(bool on);

// An encoded tensor map of this driver begins with these.
struct Map {
  void* address;
  std::uint64_t dims[2];
  std::uint64_t stride_bytes;
  std::uint32_t box[2];
};

inline constexpr const char* kDeviceName = "NVIDIA H200";

}  // namespace fake
