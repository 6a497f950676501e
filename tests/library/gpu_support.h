// What the library's GPU tests share: owners, random calls, the evidence file.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "gpu_reference.h"
#include "warpsmith/hgemm.hpp"

namespace warpsmith::library::testing {

inline void cuda(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

inline int device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

// Skips, visibly, where there is no GPU.
#define WARPSMITH_NEEDS_GPU() \
  if (device_count() == 0) GTEST_SKIP() << "no CUDA device"

class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes) { cuda(cudaMalloc(&memory_, bytes > 0 ? bytes : 1)); }
  DeviceMemory(DeviceMemory&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)) {}
  DeviceMemory& operator=(DeviceMemory&&) = delete;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() { cudaFree(memory_); }

  template <class T = std::uint16_t>
  T* as() const {
    return static_cast<T*>(memory_);
  }

 private:
  void* memory_ = nullptr;
};

class TestStream {
 public:
  TestStream() { cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  ~TestStream() { cudaStreamDestroy(stream_); }
  cudaStream_t get() const { return stream_; }
  void wait() const { cuda(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

// A number from the environment, for longer runs.
inline double setting(const char* name, double otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' ? std::strtod(text, nullptr) : otherwise;
}

// Figures go to $WARPSMITH_LIBRARY_EVIDENCE, a JSON file that several runs share; nowhere without it.
inline void record(const std::string& name, const nlohmann::json& value) {
  std::printf("%s: %s\n", name.c_str(), value.dump().c_str());
  const char* path = std::getenv("WARPSMITH_LIBRARY_EVIDENCE");
  if (path == nullptr || *path == '\0') return;
  nlohmann::json all = nlohmann::json::object();
  if (std::ifstream in(path); in) {
    const nlohmann::json known = nlohmann::json::parse(in, nullptr, false);
    if (known.is_object()) all = known;
  }
  all[name] = value;
  std::ofstream(path) << all.dump(1) << "\n";
}

inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// A call of the library on operands of its own, which can be judged.
class TestCall {
 public:
  struct Shape {
    Product product;
    std::int64_t batch = 1;
    int offset_a = 0, offset_b = 0, offset_c = 0;  // elements that the operands begin behind an aligned address
    std::uint64_t seed = 1;
  };

  explicit TestCall(const Shape& shape)
      : shape_(shape),
        a_rows_(shape.product.transpose_a ? shape.product.k : shape.product.m),
        a_columns_(shape.product.transpose_a ? shape.product.m : shape.product.k),
        b_rows_(shape.product.transpose_b ? shape.product.n : shape.product.k),
        b_columns_(shape.product.transpose_b ? shape.product.k : shape.product.n),
        stride_a_(a_rows_ * shape.product.lda + 8),
        stride_b_(b_rows_ * shape.product.ldb + 16),
        stride_c_(shape.product.m * shape.product.ldc + 24),
        a_(bytes(stride_a_)),
        b_(bytes(stride_b_)),
        before_(bytes(stride_c_)),
        c_(bytes(stride_c_)) {}

  // Fills the operands: C is random where beta reads it, NaN where not.
  void fill(cudaStream_t stream) const {
    const Product& p = shape_.product;
    const std::uint16_t nan = p.bf16 ? 0x7fc0 : 0x7e00;
    fill_bits(before_.as(), elements(stride_c_), nan, stream);
    for (std::int64_t i = 0; i < shape_.batch; ++i) {
      const std::uint64_t seed = shape_.seed * 1000003 + static_cast<std::uint64_t>(i) * 17;
      fill_matrix(a() + i * stride_a_, a_rows_, a_columns_, p.lda, p.bf16, seed, stream);
      fill_matrix(b() + i * stride_b_, b_rows_, b_columns_, p.ldb, p.bf16, seed + 5, stream);
      if (p.beta != 0)
        fill_matrix(before_.as() + shape_.offset_c + i * stride_c_, p.m, p.n, p.ldc, p.bf16, seed + 9, stream);
    }
    reset(stream);
  }
  // C as it was before the call.
  void reset(cudaStream_t stream) const {
    cuda(cudaMemcpyAsync(c_.as(), before_.as(), bytes(stride_c_), cudaMemcpyDeviceToDevice, stream));
  }

  warpsmith_status_t run(warpsmith_handle_t handle, cudaStream_t stream) const {
    const Product& p = shape_.product;
    const auto op = [](bool transpose) { return transpose ? WARPSMITH_OP_T : WARPSMITH_OP_N; };
    const warpsmith_type_t type = p.bf16 ? WARPSMITH_BF16 : WARPSMITH_F16;
    if (shape_.batch == 1) {
      return warpsmith_gemm(handle, op(p.transpose_a), op(p.transpose_b), p.m, p.n, p.k, p.alpha, a(), p.lda, b(),
                            p.ldb, p.beta, c(), p.ldc, type, WARPSMITH_COMPUTE_32F, stream);
    }
    return warpsmith_gemm_strided_batched(handle, op(p.transpose_a), op(p.transpose_b), p.m, p.n, p.k, p.alpha, a(),
                                          p.lda, stride_a_, b(), p.ldb, stride_b_, p.beta, c(), p.ldc, stride_c_,
                                          shape_.batch, type, WARPSMITH_COMPUTE_32F, stream);
  }

  // Judges all of C; large products by a sample of rows.
  Judged judged(cudaStream_t stream) const {
    const Product& p = shape_.product;
    constexpr double kWhole = 4e9;  // products up to this size are judged whole
    const double size = static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
    const auto step = static_cast<std::int64_t>(size / kWhole) + 1;
    DeviceMemory total(sizeof(Judged));
    cuda(cudaMemsetAsync(total.as<void>(), 0, sizeof(Judged), stream));
    for (std::int64_t i = 0; i < shape_.batch; ++i) {
      judge(p, a() + i * stride_a_, b() + i * stride_b_,
            p.beta != 0 ? before_.as() + shape_.offset_c + i * stride_c_ : nullptr, c() + i * stride_c_, step,
            total.as<Judged>(), stream);
    }
    Judged host{};
    cuda(cudaMemcpyAsync(&host, total.as<void>(), sizeof host, cudaMemcpyDeviceToHost, stream));
    cuda(cudaStreamSynchronize(stream));
    return host;
  }

  // What explain says of the call; operands that are not aligned to 16 bytes never take a kernel.
  bool takes_kernel(const Handle& handle) const {
    if (shape_.offset_a % 8 != 0 || shape_.offset_b % 8 != 0 || shape_.offset_c % 8 != 0) return false;
    return nlohmann::json::parse(handle.explain(problem()))["runs"] == "kernel";
  }
  warpsmith_problem_t problem() const {
    const Product& p = shape_.product;
    warpsmith_problem_t made{};
    made.op_a = p.transpose_a ? WARPSMITH_OP_T : WARPSMITH_OP_N;
    made.op_b = p.transpose_b ? WARPSMITH_OP_T : WARPSMITH_OP_N;
    made.type = p.bf16 ? WARPSMITH_BF16 : WARPSMITH_F16;
    made.m = p.m;
    made.n = p.n;
    made.k = p.k;
    made.lda = p.lda;
    made.ldb = p.ldb;
    made.ldc = p.ldc;
    made.batch_count = shape_.batch;
    if (shape_.batch > 1) {
      made.stride_a = stride_a_;
      made.stride_b = stride_b_;
      made.stride_c = stride_c_;
    }
    return made;
  }

  std::uint16_t* a() const { return a_.as() + shape_.offset_a; }
  std::uint16_t* b() const { return b_.as() + shape_.offset_b; }
  std::uint16_t* c() const { return c_.as() + shape_.offset_c; }
  std::int64_t c_elements() const { return elements(stride_c_); }
  std::uint16_t* c_begin() const { return c_.as(); }
  const Shape& shape() const { return shape_; }

  std::string describe() const {
    const Product& p = shape_.product;
    return std::to_string(p.m) + "x" + std::to_string(p.n) + "x" + std::to_string(p.k) + (p.transpose_a ? " T" : " N") +
           (p.transpose_b ? "T" : "N") + (p.bf16 ? " bf16" : " f16") + " ld " + std::to_string(p.lda) + "," +
           std::to_string(p.ldb) + "," + std::to_string(p.ldc) + " alpha " + std::to_string(p.alpha) + " beta " +
           std::to_string(p.beta) + " batch " + std::to_string(shape_.batch) + " offsets " +
           std::to_string(shape_.offset_a) + "," + std::to_string(shape_.offset_b) + "," +
           std::to_string(shape_.offset_c);
  }

 private:
  static constexpr std::int64_t kSpare = 64;  // elements behind the last matrix
  std::int64_t elements(std::int64_t stride) const { return shape_.batch * stride + kSpare; }
  std::size_t bytes(std::int64_t stride) const { return static_cast<std::size_t>(elements(stride)) * 2; }

  Shape shape_;
  std::int64_t a_rows_, a_columns_, b_rows_, b_columns_, stride_a_, stride_b_, stride_c_;
  DeviceMemory a_, b_, before_, c_;
};

inline Product packed(std::int64_t m, std::int64_t n, std::int64_t k, bool transpose_a, bool transpose_b) {
  Product p;
  p.m = m;
  p.n = n;
  p.k = k;
  p.transpose_a = transpose_a;
  p.transpose_b = transpose_b;
  p.lda = transpose_a ? m : k;
  p.ldb = transpose_b ? k : n;
  p.ldc = n;
  for (std::int64_t* ld : {&p.lda, &p.ldb, &p.ldc}) *ld = *ld < 1 ? 1 : *ld;
  return p;
}

// A folder that goes with the object.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "warpsmith-library-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = name;
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace warpsmith::library::testing
