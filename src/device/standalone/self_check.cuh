// Self-check of an exported kernel, a program of its own: normally distributed operands, elements of C compared with
// sums that a naive kernel makes in FP64, then the time of launches that follow one another in a CUDA graph.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

namespace warpsmith::standalone {

// C[m,n] = A[m,k] B[k,n], or alpha A B + beta C, as the exported function computes it. All matrices are row-major as
// stored: A m x k where its rows run along k, else k x m; B n x k where its rows run along k, else k x n.
struct CheckedKernel {
  const char* name;
  long long m, n, k;
  bool a_k_major, b_k_major;
  long long lda, ldb, ldc;  // elements from row to row
  bool bf16, scaled;
  std::size_t workspace_bytes;
  cudaError_t (*launch)(const void* a, const void* b, void* c, float alpha, float beta, void* workspace,
                        cudaStream_t stream);

  long long a_count() const { return ((a_k_major ? m : k) - 1) * lda + (a_k_major ? k : m); }
  long long b_count() const { return ((b_k_major ? n : k) - 1) * ldb + (b_k_major ? k : n); }
  long long c_count() const { return (m - 1) * ldc + n; }
};

static inline void require(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

class DeviceBytes {
 public:
  explicit DeviceBytes(std::size_t bytes) { require(cudaMalloc(&data_, bytes == 0 ? 1 : bytes), "cudaMalloc"); }
  ~DeviceBytes() { cudaFree(data_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  void* get() const { return data_; }

 private:
  void* data_ = nullptr;
};

static __device__ inline unsigned mix(unsigned long long value) {
  value = (value ^ (value >> 31)) * 0x9e3779b97f4a7c15ull;
  value = (value ^ (value >> 29)) * 0xbf58476d1ce4e5b9ull;
  return static_cast<unsigned>(value >> 32);
}

// N(0, 1) by Box and Muller's method, a pure function of seed and index.
template <class Value>
static __global__ void fill_normal(Value* values, long long count, unsigned seed) {
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    const unsigned long long key =
        (static_cast<unsigned long long>(seed) << 40) + 2 * static_cast<unsigned long long>(i);
    const float u = (static_cast<float>(mix(key)) + 1.0f) * 2.3283064e-10f;
    const float angle = static_cast<float>(mix(key + 1)) * 2.3283064e-10f;
    values[i] = static_cast<Value>(sqrtf(-2.0f * logf(u)) * cospif(2.0f * angle));
  }
}

// The largest error over what is allowed and the largest error itself, as the bits of doubles: those of a NaN are
// larger than those of any number.
struct Worst {
  unsigned long long ratio, absolute;
};

// Elements 0, step, 2 step, ... of C in row order. Allowed: half a unit in the last place of the element type and
// gamma(k) times the sum of |a||b|, with u = 2^-23 because tensor cores truncate.
template <class Value>
static __global__ void compare(CheckedKernel kernel, const Value* a, const Value* b, const Value* c,
                               const Value* before, float alpha, float beta, long long step, long long count,
                               Worst* worst) {
  const long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= count) return;
  const long long row = at * step / kernel.n, column = at * step % kernel.n;
  double sum = 0, magnitude = 0;
  for (long long i = 0; i < kernel.k; ++i) {
    const double x = static_cast<float>(a[kernel.a_k_major ? row * kernel.lda + i : i * kernel.lda + row]);
    const double y = static_cast<float>(b[kernel.b_k_major ? column * kernel.ldb + i : i * kernel.ldb + column]);
    sum += x * y;
    magnitude += fabs(x * y);
  }
  const long long place = row * kernel.ldc + column;
  const double ku = static_cast<double>(kernel.k + (kernel.scaled ? 3 : 0)) * 0x1p-23;
  if (kernel.scaled) {
    const double old =
        beta == 0 ? 0 : static_cast<double>(beta) * static_cast<double>(static_cast<float>(before[place]));
    sum = alpha * sum + old;
    magnitude = fabs(alpha) * magnitude + fabs(old);
  }
  const int mantissa = kernel.bf16 ? 7 : 10, least_exponent = kernel.bf16 ? -126 : -14;
  int exponent = sum == 0 ? least_exponent : ilogb(sum);
  if (exponent < least_exponent) exponent = least_exponent;
  const double allowed = ldexp(1.0, exponent - mantissa - 1) + ku / (1 - ku) * magnitude;
  const double error = fabs(static_cast<double>(static_cast<float>(c[place])) - sum);
  atomicMax(&worst->ratio, static_cast<unsigned long long>(__double_as_longlong(fabs(error / allowed))));
  atomicMax(&worst->absolute, static_cast<unsigned long long>(__double_as_longlong(error)));
}

struct Checked {
  double ratio = 0, absolute = 0;
  long long elements = 0;
  float time_us = 0;
};

// Of one launch among many in a graph; operands stay in the caches.
static inline float time_us(const CheckedKernel& kernel, void* a, void* b, void* c, void* workspace,
                            cudaStream_t stream) {
  constexpr int kLaunches = 20;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;
  require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  for (int i = 0; i < kLaunches; ++i) require(kernel.launch(a, b, c, 1, 0, workspace, stream), "launch in a graph");
  require(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  require(cudaGraphInstantiate(&replay, graph, 0), "cudaGraphInstantiate");
  cudaEvent_t start = nullptr, end = nullptr;
  require(cudaEventCreate(&start), "cudaEventCreate");
  require(cudaEventCreate(&end), "cudaEventCreate");
  float milliseconds = 0;
  int replays = 1;
  for (;; replays *= 2) {
    require(cudaEventRecord(start, stream), "cudaEventRecord");
    for (int i = 0; i < replays; ++i) require(cudaGraphLaunch(replay, stream), "cudaGraphLaunch");
    require(cudaEventRecord(end, stream), "cudaEventRecord");
    require(cudaEventSynchronize(end), "cudaEventSynchronize");
    require(cudaEventElapsedTime(&milliseconds, start, end), "cudaEventElapsedTime");
    if (milliseconds >= 20) break;
  }
  cudaEventDestroy(start);
  cudaEventDestroy(end);
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
  return 1000 * milliseconds / static_cast<float>(replays * kLaunches);
}

template <class Value>
static Checked check(const CheckedKernel& kernel) {
  constexpr double kMostProducts = 0x1p37;  // of the FP64 sums: beyond, a share of the elements is looked at
  const float alpha = kernel.scaled ? 1.5f : 1, beta = kernel.scaled ? -0.5f : 0;
  const DeviceBytes a(2 * kernel.a_count()), b(2 * kernel.b_count()), c(2 * kernel.c_count());
  const DeviceBytes before(kernel.scaled ? 2 * kernel.c_count() : 0), workspace(kernel.workspace_bytes);
  const DeviceBytes worst(sizeof(Worst));
  cudaStream_t stream = nullptr;
  require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  auto* const values_a = static_cast<Value*>(a.get());
  auto* const values_b = static_cast<Value*>(b.get());
  auto* const values_c = static_cast<Value*>(c.get());
  auto* const values_before = static_cast<Value*>(before.get());
  fill_normal<<<1024, 256, 0, stream>>>(values_a, kernel.a_count(), 1);
  fill_normal<<<1024, 256, 0, stream>>>(values_b, kernel.b_count(), 2);
  if (kernel.scaled) {
    fill_normal<<<1024, 256, 0, stream>>>(values_before, kernel.c_count(), 3);
    require(cudaMemcpyAsync(c.get(), before.get(), 2 * kernel.c_count(), cudaMemcpyDeviceToDevice, stream), "copy");
  } else {  // NaN everywhere: what is not written shows
    require(cudaMemsetAsync(c.get(), 0xff, 2 * kernel.c_count(), stream), "cudaMemsetAsync");
  }
  require(cudaMemsetAsync(workspace.get(), 0, kernel.workspace_bytes == 0 ? 1 : kernel.workspace_bytes, stream),
          "cudaMemsetAsync");
  require(cudaMemsetAsync(worst.get(), 0, sizeof(Worst), stream), "cudaMemsetAsync");
  require(kernel.launch(a.get(), b.get(), c.get(), alpha, beta, workspace.get(), stream), "launch");

  const double products = static_cast<double>(kernel.m) * static_cast<double>(kernel.n) * static_cast<double>(kernel.k);
  const auto step = 2 * static_cast<long long>(products / kMostProducts / 2 + 0.5) + 1;  // odd: meets all columns
  Checked checked;
  checked.elements = (kernel.m * kernel.n - 1) / step + 1;
  compare<<<static_cast<unsigned>((checked.elements + 127) / 128), 128, 0, stream>>>(
      kernel, values_a, values_b, values_c, values_before, alpha, beta, step, checked.elements,
      static_cast<Worst*>(worst.get()));
  require(cudaGetLastError(), "comparing");
  Worst bits{};
  require(cudaMemcpyAsync(&bits, worst.get(), sizeof bits, cudaMemcpyDeviceToHost, stream), "copy");
  require(cudaStreamSynchronize(stream), "the kernel");
  std::memcpy(&checked.ratio, &bits.ratio, sizeof bits.ratio);
  std::memcpy(&checked.absolute, &bits.absolute, sizeof bits.absolute);
  checked.time_us = time_us(kernel, a.get(), b.get(), c.get(), workspace.get(), stream);
  cudaStreamDestroy(stream);
  return checked;
}

// Prints one line, with --json one object. 0: right; 1: wrong; 3: it could not be run.
static inline int self_check(const CheckedKernel& kernel, bool json) {
  try {
    const Checked checked = kernel.bf16 ? check<__nv_bfloat16>(kernel) : check<__half>(kernel);
    const bool right = checked.ratio <= 1;  // false for NaN
    const double flops =
        2.0 * static_cast<double>(kernel.m) * static_cast<double>(kernel.n) * static_cast<double>(kernel.k);
    const double tflops = flops / checked.time_us * 1e-6;
    if (json) {
      std::printf(
          "{\"kernel\": \"%s\", \"right\": %s, \"error_over_bound\": \"%.4g\", \"max_error\": \"%.4g\", "
          "\"elements\": %lld, \"time_us\": %.4f, \"tflops\": %.2f}\n",
          kernel.name, right ? "true" : "false", checked.ratio, checked.absolute, checked.elements,
          static_cast<double>(checked.time_us), tflops);
    } else {
      std::printf("%s: %s; max error %.4g, %.3f of the bound, over %lld elements; %.3f us, %.1f TFLOP/s\n", kernel.name,
                  right ? "right" : "WRONG", checked.absolute, checked.ratio, checked.elements,
                  static_cast<double>(checked.time_us), tflops);
    }
    return right ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", kernel.name, error.what());
    return 3;
  }
}

}  // namespace warpsmith::standalone
