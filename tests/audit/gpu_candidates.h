// Foreign kernels for the tests on a GPU, as CUDA sources with the audit's entry. Plain loops: small problems only.
#pragma once

namespace warpsmith::audit::candidates {

// Shared head: the entry's parameters, and one element of C by one thread.
inline constexpr const char* kHead = R"(
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#define ENTRY extern "C" int warpsmith_candidate(const void* a, const void* b, void* c, int m, int n, int k, \
  int b_is_col_major, void* workspace, size_t workspace_bytes, cudaStream_t stream)
template <class Sum>
__global__ void gemm(const __half* a, const __half* b, __half* c, int m, int n, int k, int col_major) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= m || j >= n) return;
  Sum sum = 0;
  for (int x = 0; x < k; ++x) {
    const __half right = col_major ? b[(size_t)j * k + x] : b[(size_t)x * n + j];
    sum = sum + (Sum)a[(size_t)i * k + x] * (Sum)right;
  }
  c[(size_t)i * n + j] = (__half)sum;
}
template <class Sum>
int launch(const void* a, const void* b, void* c, int m, int n, int k, int col_major, cudaStream_t stream) {
  const dim3 block(32, 8), grid((n + 31) / 32, (m + 7) / 8);
  gemm<Sum><<<grid, block, 0, stream>>>((const __half*)a, (const __half*)b, (__half*)c, m, n, k, col_major);
  return cudaGetLastError();
}
)";

inline constexpr const char* kHonest = R"(
ENTRY { return launch<float>(a, b, c, m, n, k, b_is_col_major, stream); }
)";

// The first call sets something up: memory, a table, a synchronisation. Later ones use it.
inline constexpr const char* kLazy = R"(
static float* table = nullptr;
__global__ void scale(const float* table, __half* c, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) c[i] = (__half)((float)c[i] * table[i % 256]);
}
ENTRY {
  if (table == nullptr) {
    float ones[256];
    for (float& one : ones) one = 1;
    if (cudaMalloc(&table, sizeof ones) != cudaSuccess) return 2;
    cudaMemcpy(table, ones, sizeof ones, cudaMemcpyHostToDevice);
    cudaDeviceSynchronize();
  }
  const int status = launch<float>(a, b, c, m, n, k, b_is_col_major, stream);
  if (status != 0) return status;
  scale<<<(m * n + 255) / 256, 256, 0, stream>>>(table, (__half*)c, m * n);
  return cudaGetLastError();
}
)";

// FP32 partial sums of two halves of K in the workspace, added by a second kernel.
inline constexpr const char* kSplitK = R"(
__global__ void partial(const __half* a, const __half* b, float* sums, int m, int n, int k, int col_major) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= m || j >= n) return;
  const int begin = blockIdx.z == 0 ? 0 : k / 2, end = blockIdx.z == 0 ? k / 2 : k;
  float sum = 0;
  for (int x = begin; x < end; ++x) {
    const __half right = col_major ? b[(size_t)j * k + x] : b[(size_t)x * n + j];
    sum += (float)a[(size_t)i * k + x] * (float)right;
  }
  sums[(size_t)blockIdx.z * m * n + (size_t)i * n + j] = sum;
}
__global__ void add(const float* sums, __half* c, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) c[i] = (__half)(sums[i] + sums[count + i]);
}
ENTRY {
  if (workspace_bytes < (size_t)m * n * 8) return 801;
  partial<<<dim3((n + 31) / 32, (m + 7) / 8, 2), dim3(32, 8), 0, stream>>>((const __half*)a, (const __half*)b,
      (float*)workspace, m, n, k, b_is_col_major);
  add<<<(m * n + 255) / 256, 256, 0, stream>>>((const float*)workspace, (__half*)c, m * n);
  return cudaGetLastError();
}
)";

inline constexpr const char* kHalfSums = R"(
ENTRY { return launch<__half>(a, b, c, m, n, k, b_is_col_major, stream); }
)";

// Works on a stream of its own, which nothing orders after the one given.
inline constexpr const char* kSideStream = R"(
static cudaStream_t side = nullptr;
ENTRY {
  if (side == nullptr && cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking) != cudaSuccess) return 2;
  return launch<float>(a, b, c, m, n, k, b_is_col_major, side);
}
)";

// Computes once for each C and hands the result out again.
inline constexpr const char* kCacheByPointer = R"(
static const void* known[4096];
static int count = 0;
ENTRY {
  for (int i = 0; i < count; ++i) {
    if (known[i] == c) return 0;
  }
  if (count < 4096) known[count++] = c;
  return launch<float>(a, b, c, m, n, k, b_is_col_major, stream);
}
)";

// Programmatic dependent launch from call to call. Goes after a definition of WAIT: what a block does before it touches
// memory.
inline constexpr const char* kEarly = R"(
__global__ void early(const __half* a, const __half* b, __half* c, int m, int n, int k, int col_major) {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  WAIT;
  const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= m || j >= n) return;
  float sum = 0;
  for (int x = 0; x < k; ++x) {
    sum += (float)a[(size_t)i * k + x] * (float)(col_major ? b[(size_t)j * k + x] : b[(size_t)x * n + j]);
  }
  c[(size_t)i * n + j] = (__half)sum;
}
ENTRY {
  cudaLaunchAttribute dependent{};
  dependent.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  dependent.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3((n + 31) / 32, (m + 7) / 8);
  config.blockDim = dim3(32, 8);
  config.stream = stream;
  config.attrs = &dependent;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, early, (const __half*)a, (const __half*)b, (__half*)c, m, n, k, b_is_col_major);
}
)";
inline constexpr const char* kWaits = "#define WAIT asm volatile(\"griddepcontrol.wait;\" ::: \"memory\")\n";
inline constexpr const char* kWaitsForNothing = "#define WAIT\n";

inline constexpr const char* kHangs = R"(
__global__ void forever() {
  for (volatile int spin = 0;; ++spin) {
  }
}
ENTRY {
  forever<<<1, 1, 0, stream>>>();
  return 0;
}
)";

inline constexpr const char* kNnOnly = R"(
ENTRY { return b_is_col_major ? 801 : launch<float>(a, b, c, m, n, k, 0, stream); }
)";

}  // namespace warpsmith::audit::candidates
