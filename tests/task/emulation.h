// CUDA candidates of tasks on the CPU, so that what they compute is known before a GPU runs them: the source is
// compiled as C++ behind these declarations. The threads of a block are fibres that take turns; barriers and shuffles
// wait for the others. What this cannot show are races between threads that no barrier orders.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/subprocess.h"
#include "codegen/launch.h"

namespace warpsmith::task {

inline constexpr const char* kEmulatedDevice = R"emulation(
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <utility>
#define __device__
#define __global__
#define __shared__ static
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

struct Index { unsigned x = 0, y = 0, z = 0; };
static Index threadIdx, blockIdx, blockDim, gridDim;
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) float4 { float x, y, z, w; };
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
template <class T> T min(T a, T b) { return b < a ? b : a; }
template <class T> T max(T a, T b) { return a < b ? b : a; }
inline float __expf(float x) { return expf(x); }
inline float __int_as_float(int bits) { float f; memcpy(&f, &bits, 4); return f; }
inline float emulated_widen(unsigned short bits) { _Float16 h; memcpy(&h, &bits, 2); return static_cast<float>(h); }
inline unsigned short emulated_narrow(float f) {
  const _Float16 h = static_cast<_Float16>(f);
  unsigned short bits;
  memcpy(&bits, &h, 2);
  return bits;
}

namespace emulation {
constexpr size_t kStack = 128 << 10;
struct Fibre {
  ucontext_t context;
  void* stack = malloc(kStack);
  bool finished = false;
  unsigned long barriers = 0, shuffles = 0;  // that it has reached
  unsigned long long slots[2] = {0, 0};
};
static Fibre* fibres[1024];
static unsigned current, threads;
static ucontext_t scheduler;
static void (*body)(void** arguments);
static void** body_arguments;

static void yield() { swapcontext(&fibres[current]->context, &scheduler); }
static void enter() {
  body(body_arguments);
  fibres[current]->finished = true;
  yield();
}
static void run_block() {
  for (unsigned i = 0; i < threads; ++i) {
    if (fibres[i] == nullptr) fibres[i] = new Fibre;
    Fibre& one = *fibres[i];
    one.finished = false;
    one.barriers = one.shuffles = 0;
    getcontext(&one.context);
    one.context.uc_stack = {one.stack, 0, kStack};
    one.context.uc_link = nullptr;
    makecontext(&one.context, enter, 0);
  }
  for (unsigned left = threads; left > 0;) {
    left = 0;
    for (current = 0; current < threads; ++current) {
      if (fibres[current]->finished) continue;
      threadIdx.x = current;
      swapcontext(&scheduler, &fibres[current]->context);
      if (!fibres[current]->finished) ++left;
    }
  }
}
}  // namespace emulation

inline void __syncthreads() {
  using namespace emulation;
  const unsigned long mine = ++fibres[current]->barriers;
  for (;;) {
    bool all = true;
    for (unsigned i = 0; i < threads; ++i) all = all && (fibres[i]->finished || fibres[i]->barriers >= mine);
    if (all) return;
    yield();
  }
}
template <class T> T __shfl_xor_sync(unsigned, T value, int step) {
  using namespace emulation;
  Fibre& own = *fibres[current];
  const unsigned long mine = ++own.shuffles;
  memcpy(&own.slots[mine % 2], &value, sizeof value);
  const unsigned first = current / 32 * 32;
  for (;;) {
    bool all = true;
    for (unsigned i = first; i < first + 32; ++i) all = all && fibres[i]->shuffles >= mine;
    if (all) break;
    yield();
  }
  memcpy(&value, &fibres[current ^ static_cast<unsigned>(step)]->slots[mine % 2], sizeof value);
  return value;
}

template <class T> struct Plain { using type = T; };
template <class T> struct Plain<const T> { using type = T; };
template <class... A, size_t... I>
void emulated_call(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
  kernel(*static_cast<typename Plain<A>::type*>(arguments[I])...);
}
template <class... A> void emulated_body(void (*kernel)(A...), void** arguments) {
  emulated_call(kernel, arguments, std::index_sequence_for<A...>());
}
static void emulate(void (*body)(void**), const int* grid, int block, void** arguments) {
  gridDim = {unsigned(grid[0]), unsigned(grid[1]), unsigned(grid[2])};
  blockDim = {unsigned(block), 1, 1};
  emulation::threads = unsigned(block);
  emulation::body = body;
  emulation::body_arguments = arguments;
  for (blockIdx.z = 0; blockIdx.z < gridDim.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < gridDim.y; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) emulation::run_block();
}
)emulation";

// The instructions that candidates write as PTX.
inline std::string without_ptx(std::string source) {
  const std::pair<std::string, std::string> kReplaced[] = {
      {R"(asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"((u16)bits));)", "value = emulated_widen((u16)bits);"},
      {R"(asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));)", "bits = emulated_narrow(value);"}};
  for (const auto& [from, to] : kReplaced) {
    for (std::size_t at = source.find(from); at != std::string::npos; at = source.find(from)) {
      source.replace(at, from.size(), to);
    }
  }
  return source;
}

// A candidate's kernels, compiled for the CPU.
class EmulatedKernels {
 public:
  EmulatedKernels(const std::string& source, const CudaLaunch& launch, const std::filesystem::path& directory,
                  const std::string& name)
      : launch_(launch) {
    std::string text = kEmulatedDevice + without_ptx(source);
    for (const KernelLaunch& kernel : launch.kernels) {
      text += fmt::format(
          "\nextern \"C\" void emulate_{0}(const int* grid, int block, void** arguments) {{ emulate([](void** all) {{ "
          "emulated_body({0}, all); }}, grid, block, arguments); }}\n",
          kernel.entry);
    }
    const auto file = directory / (name + ".cpp"), object = directory / (name + ".so");
    EXPECT_TRUE(write_file_atomic(file, text).ok());
    ProcessRequest request;
    request.argv = {"c++",     "-std=c++20", "-O1",           "-w",         "-mf16c", "-fno-gnu-unique", "-fPIC",
                    "-shared", "-o",         object.string(), file.string()};
    const auto compiled = run_process(request);
    EXPECT_TRUE(compiled.ok() && compiled->status.success()) << (compiled.ok() ? compiled->err : "");
    handle_ = dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(handle_, nullptr) << dlerror();
  }
  EmulatedKernels(const EmulatedKernels&) = delete;
  EmulatedKernels& operator=(const EmulatedKernels&) = delete;
  ~EmulatedKernels() {
    if (handle_ != nullptr) dlclose(handle_);
  }

  void run(std::byte* slab) const {
    for (const KernelLaunch& kernel : launch_.kernels) {
      std::vector<std::uint64_t> values(kernel.arguments.size());
      std::vector<void*> pointers;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const KernelArgument& argument = kernel.arguments[i];
        const void* address = slab + argument.offset_bytes;
        if (argument.kind == KernelArgument::Kind::workspace) std::memcpy(&values[i], &address, sizeof address);
        if (argument.kind == KernelArgument::Kind::int32)
          std::memcpy(&values[i], &argument.value, sizeof argument.value);
        if (argument.kind == KernelArgument::Kind::float32)
          std::memcpy(&values[i], &argument.real, sizeof argument.real);
        pointers.push_back(&values[i]);
      }
      using Entry = void (*)(const int*, int, void**);
      const auto entry = reinterpret_cast<Entry>(dlsym(handle_, ("emulate_" + kernel.entry).c_str()));
      ASSERT_NE(entry, nullptr) << kernel.entry;
      entry(kernel.grid.data(), kernel.block[0], pointers.data());
    }
  }

 private:
  CudaLaunch launch_;
  void* handle_ = nullptr;
};

}  // namespace warpsmith::task
