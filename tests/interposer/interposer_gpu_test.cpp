// The interposer before the real cuBLAS on a GPU: this program preloads it into itself and calls cuBLAS as any program
// does. Results against FP64 sums made on the host; what ran on libwarpsmith is read from the log.
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "host_product.h"

namespace warpsmith {
namespace {

constexpr const char* kLog = "WARPSMITH_INTERPOSE_LOG";

// A matrix in column order whose columns lie `gap` elements apart, in both memories.
class Matrix {
 public:
  Matrix(std::int64_t rows, std::int64_t columns, std::int64_t gap, bool bf16, int seed, std::int64_t batches = 1)
      : ld(rows + gap), stride(ld * columns), bf16_(bf16), values_(static_cast<std::size_t>(stride * batches)) {
    unsigned state = static_cast<unsigned>(seed) * 2654435761u;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      state = state * 1664525u + 1013904223u;
      set_element(values_.data(), static_cast<std::int64_t>(i), bf16, static_cast<float>(state >> 8) * 0x1p-23f - 1);
    }
    EXPECT_EQ(cudaMalloc(&device, 2 * values_.size()), cudaSuccess);
    upload();
  }
  ~Matrix() { cudaFree(device); }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;

  void upload() {
    EXPECT_EQ(cudaMemcpy(device, values_.data(), 2 * values_.size(), cudaMemcpyHostToDevice), cudaSuccess);
  }
  double host(std::int64_t at) const { return static_cast<double>(element_value(values_.data(), at, bf16_)); }
  std::vector<std::uint16_t> download() const {
    std::vector<std::uint16_t> got(values_.size());
    EXPECT_EQ(cudaMemcpy(got.data(), device, 2 * got.size(), cudaMemcpyDeviceToHost), cudaSuccess);
    return got;
  }

  const std::int64_t ld, stride;
  void* device = nullptr;

 private:
  bool bf16_;
  std::vector<std::uint16_t> values_;
};

struct Case {
  cublasOperation_t op_a = CUBLAS_OP_N, op_b = CUBLAS_OP_N;
  std::int64_t m = 256, n = 192, k = 320, gap = 8, batches = 1;
  bool bf16 = false, by_rows = false;  // by_rows: all matrices in row order
  float alpha = 1, beta = 0;

  cudaDataType_t type() const { return bf16 ? CUDA_R_16BF : CUDA_R_16F; }
};

class InterposerGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no CUDA device";
    open(0);
  }
  void TearDown() override {
    if (handle_ != nullptr) close();
  }

  // A handle and a stream of the device, which becomes the current one.
  void open(int device) {
    ASSERT_EQ(cudaSetDevice(device), cudaSuccess);
    ASSERT_EQ(cublasCreate(&handle_), CUBLAS_STATUS_SUCCESS);
    // Otherwise what is passed through may add parts of K in FP16.
    const auto math = static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
    ASSERT_EQ(cublasSetMathMode(handle_, math), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cublasSetStream(handle_, stream_), CUBLAS_STATUS_SUCCESS);
  }
  void close() {
    cublasDestroy(handle_);
    cudaStreamDestroy(stream_);
    handle_ = nullptr;
  }

  struct Operands {
    Matrix a, b, c;
    explicit Operands(const Case& x)
        : a(turned(x, x.op_a) ? x.k : x.m, turned(x, x.op_a) ? x.m : x.k, x.gap, x.bf16, 1, x.batches),
          b(turned(x, x.op_b) ? x.n : x.k, turned(x, x.op_b) ? x.k : x.n, x.gap, x.bf16, 2, x.batches),
          c(x.by_rows ? x.n : x.m, x.by_rows ? x.m : x.n, x.gap, x.bf16, 3, x.batches) {}
    // Whether the columns that lie in memory run across the operand's columns.
    static bool turned(const Case& x, cublasOperation_t op) { return (op != CUBLAS_OP_N) != x.by_rows; }
  };

  // Calls, waits, compares.
  template <class Call>
  void check(const Case& x, const Call& call) {
    Operands operands(x);
    ASSERT_EQ(call(operands), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    expect_right(x, operands);
  }

  static void expect_right(const Case& x, const Operands& operands) {
    const std::vector<std::uint16_t> got = operands.c.download();
    const double gamma = static_cast<double>(x.k + 3) * 0x1p-23;
    const int mantissa = x.bf16 ? 7 : 10;
    double worst = 0;
    constexpr std::int64_t kMostProducts = 30'000'000;  // beyond, a share of the elements is looked at
    const std::int64_t step = 2 * (x.m * x.n * x.k * x.batches / kMostProducts / 2) + 1;
    std::int64_t element = 0;
    for (std::int64_t batch = 0; batch < x.batches; ++batch) {
      for (std::int64_t i = 0; i < x.m; ++i) {
        for (std::int64_t j = 0; j < x.n; ++j) {
          if (element++ % step != 0) continue;
          double sum = 0, magnitude = 0;
          for (std::int64_t p = 0; p < x.k; ++p) {
            const std::int64_t at_a = Operands::turned(x, x.op_a) ? i * operands.a.ld + p : p * operands.a.ld + i;
            const std::int64_t at_b = Operands::turned(x, x.op_b) ? p * operands.b.ld + j : j * operands.b.ld + p;
            const double product =
                operands.a.host(batch * operands.a.stride + at_a) * operands.b.host(batch * operands.b.stride + at_b);
            sum += product;
            magnitude += std::abs(product);
          }
          const std::int64_t at =
              batch * operands.c.stride + (x.by_rows ? i * operands.c.ld + j : j * operands.c.ld + i);
          const double old = x.beta == 0 ? 0 : static_cast<double>(x.beta) * operands.c.host(at);
          const double exact = static_cast<double>(x.alpha) * sum + old;
          const auto half_ulp = [&](double value) {
            return std::ldexp(1, std::ilogb(std::max(std::abs(value), 0x1p-14)) - mantissa - 1);
          };
          // Small batches are passed through, and cuBLAS rounds the product before it adds what was there.
          const bool twice = x.batches > 1 && x.beta != 0;
          const double bound = half_ulp(exact) + (twice ? half_ulp(static_cast<double>(x.alpha) * sum) : 0) +
                               gamma * (std::abs(static_cast<double>(x.alpha)) * magnitude + std::abs(old));
          const double error = std::abs(static_cast<double>(element_value(got.data(), at, x.bf16)) - exact) / bound;
          if (!(error <= worst)) worst = error;
        }
      }
    }
    EXPECT_LE(worst, 1.0);
    // The gaps between columns are nobody's to write.
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i) % operands.c.ld;
      if (at < operands.c.ld - x.gap) continue;
      ASSERT_EQ(static_cast<double>(element_value(got.data(), static_cast<std::int64_t>(i), x.bf16)),
                operands.c.host(static_cast<std::int64_t>(i)));
    }
  }

  cublasStatus_t gemm_ex(const Case& x, Operands& o) const {
    if (x.batches == 1) {
      return cublasGemmEx(handle_, x.op_a, x.op_b, static_cast<int>(x.m), static_cast<int>(x.n), static_cast<int>(x.k),
                          &x.alpha, o.a.device, x.type(), static_cast<int>(o.a.ld), o.b.device, x.type(),
                          static_cast<int>(o.b.ld), &x.beta, o.c.device, x.type(), static_cast<int>(o.c.ld),
                          CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    }
    return cublasGemmStridedBatchedEx(handle_, x.op_a, x.op_b, static_cast<int>(x.m), static_cast<int>(x.n),
                                      static_cast<int>(x.k), &x.alpha, o.a.device, x.type(), static_cast<int>(o.a.ld),
                                      o.a.stride, o.b.device, x.type(), static_cast<int>(o.b.ld), o.b.stride, &x.beta,
                                      o.c.device, x.type(), static_cast<int>(o.c.ld), o.c.stride,
                                      static_cast<int>(x.batches), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  }

  cublasStatus_t lt(const Case& x, Operands& o) const {
    cublasLtMatmulDesc_t description = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
    cublasLtHandle_t lt_handle = nullptr;
    EXPECT_EQ(cublasLtCreate(&lt_handle), CUBLAS_STATUS_SUCCESS);
    cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_TRANSA, &x.op_a, sizeof x.op_a);
    cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_TRANSB, &x.op_b, sizeof x.op_b);
    const auto layout = [&](cublasLtMatrixLayout_t& made, std::int64_t rows, std::int64_t columns, std::int64_t ld) {
      cublasLtMatrixLayoutCreate(&made, x.type(), static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns),
                                 ld);
      const cublasLtOrder_t order = x.by_rows ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL;
      cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof order);
    };
    const bool ta = x.op_a != CUBLAS_OP_N, tb = x.op_b != CUBLAS_OP_N;
    layout(a, ta ? x.k : x.m, ta ? x.m : x.k, o.a.ld);
    layout(b, tb ? x.n : x.k, tb ? x.k : x.n, o.b.ld);
    layout(c, x.m, x.n, o.c.ld);
    const cublasStatus_t status = cublasLtMatmul(lt_handle, description, &x.alpha, o.a.device, a, o.b.device, b,
                                                 &x.beta, o.c.device, c, o.c.device, c, nullptr, nullptr, 0, stream_);
    cudaStreamSynchronize(stream_);
    cublasLtMatmulDescDestroy(description);
    for (cublasLtMatrixLayout_t made : {a, b, c}) cublasLtMatrixLayoutDestroy(made);
    cublasLtDestroy(lt_handle);
    return status;
  }

  cublasHandle_t handle_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

TEST_F(InterposerGpu, GemmExOfAllOperations) {
  for (const bool bf16 : {false, true}) {
    for (const cublasOperation_t op_a : {CUBLAS_OP_N, CUBLAS_OP_T}) {
      for (const cublasOperation_t op_b : {CUBLAS_OP_N, CUBLAS_OP_T}) {
        const Case x{.op_a = op_a, .op_b = op_b, .bf16 = bf16};
        SCOPED_TRACE(std::to_string(op_a) + std::to_string(op_b) + (bf16 ? " bf16" : " f16"));
        check(x, [&](Operands& o) { return gemm_ex(x, o); });
      }
    }
  }
}

TEST_F(InterposerGpu, AlphaBetaOddSizesAndBatches) {
  for (const Case& x : {Case{.alpha = 0.5f, .beta = -2}, Case{.m = 77, .n = 33, .k = 129, .gap = 3},
                        Case{.op_a = CUBLAS_OP_T, .m = 64, .n = 48, .k = 128, .batches = 3, .alpha = 2, .beta = 1},
                        Case{.op_a = CUBLAS_OP_T, .m = 1280, .n = 1280, .k = 1024, .batches = 2},
                        Case{.op_a = CUBLAS_OP_T, .m = 512, .n = 1, .k = 256, .gap = 0}}) {
    SCOPED_TRACE(std::to_string(x.m) + "x" + std::to_string(x.n) + "x" + std::to_string(x.k));
    check(x, [&](Operands& o) { return gemm_ex(x, o); });
  }
}

// The same problem on each device that there is, in turns: plans and handles are kept by device.
TEST_F(InterposerGpu, EveryDeviceRunsItsOwn) {
  int devices = 0;
  ASSERT_EQ(cudaGetDeviceCount(&devices), cudaSuccess);
  std::printf("%d device(s)\n", devices);
  const Case x{.op_a = CUBLAS_OP_T, .m = 384, .n = 256, .k = 512};
  for (int round = 0; round < 2; ++round) {
    for (int device = 0; device < devices; ++device) {
      SCOPED_TRACE("device " + std::to_string(device));
      close();
      open(device);
      check(x, [&](Operands& o) { return gemm_ex(x, o); });
      check(x, [&](Operands& o) { return lt(x, o); });
    }
  }
  close();
  open(0);
}

TEST_F(InterposerGpu, HgemmSumsInSingle) {
  const Case x{.op_a = CUBLAS_OP_T, .k = 4096};
  const __half alpha = __float2half(1), beta = __float2half(0);
  check(x, [&](Operands& o) {
    return cublasHgemm(handle_, x.op_a, x.op_b, static_cast<int>(x.m), static_cast<int>(x.n), static_cast<int>(x.k),
                       &alpha, static_cast<const __half*>(o.a.device), static_cast<int>(o.a.ld),
                       static_cast<const __half*>(o.b.device), static_cast<int>(o.b.ld), &beta,
                       static_cast<__half*>(o.c.device), static_cast<int>(o.c.ld));
  });
}

TEST_F(InterposerGpu, LtMatmulInBothOrders) {
  for (const bool by_rows : {false, true}) {
    for (const cublasOperation_t op_a : {CUBLAS_OP_N, CUBLAS_OP_T}) {
      const Case x{.op_a = op_a, .by_rows = by_rows, .alpha = 1.5f, .beta = by_rows ? 1.0f : 0.0f};
      SCOPED_TRACE(std::string(by_rows ? "rows " : "columns ") + std::to_string(op_a));
      check(x, [&](Operands& o) { return lt(x, o); });
    }
  }
}

TEST_F(InterposerGpu, GraphsReplayWhatWasCaptured) {
  const Case x;
  Operands operands(x);
  ASSERT_EQ(gemm_ex(x, operands), CUBLAS_STATUS_SUCCESS);  // the first call of its kind is never captured
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
  ASSERT_EQ(gemm_ex(x, operands), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&replay, graph, 0), cudaSuccess);
  operands.c.upload();
  ASSERT_EQ(cudaGraphLaunch(replay, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  expect_right(x, operands);
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
}

TEST_F(InterposerGpu, PointersToScalarsOnTheDevicePassThrough) {
  const Case x{.m = 136};
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 2 * sizeof(float)), cudaSuccess);
  auto* const scalars = static_cast<float*>(memory);
  ASSERT_EQ(cudaMemcpy(scalars, &x.alpha, sizeof(float), cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(scalars + 1, &x.beta, sizeof(float), cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(cublasSetPointerMode(handle_, CUBLAS_POINTER_MODE_DEVICE), CUBLAS_STATUS_SUCCESS);
  check(x, [&](Operands& o) {
    return cublasGemmEx(handle_, x.op_a, x.op_b, static_cast<int>(x.m), static_cast<int>(x.n), static_cast<int>(x.k),
                        scalars, o.a.device, x.type(), static_cast<int>(o.a.ld), o.b.device, x.type(),
                        static_cast<int>(o.b.ld), scalars + 1, o.c.device, x.type(), static_cast<int>(o.c.ld),
                        CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  });
  cudaFree(memory);
}

// After all others: GoogleTest runs cases in the order of the file.
TEST_F(InterposerGpu, RanEachFunctionOnLibwarpsmithAtLeastOnce) {
  std::ifstream file(getenv(kLog));
  std::set<std::string> ours, reasons;
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json call = nlohmann::json::parse(line);
    if (call["ran"] == "warpsmith") ours.insert(call["function"]);
    if (call.contains("reason")) reasons.insert(call["reason"]);
  }
  for (const char* function : {"cublasGemmEx", "cublasGemmStridedBatchedEx", "cublasHgemm", "cublasLtMatmul"}) {
    EXPECT_EQ(ours.count(function), 1u) << function;
  }
  EXPECT_EQ(reasons.count("alpha and beta on the device"), 1u);
}

// The interposer: beside this program, above it (a staged one), or in the build's lib/.
std::filesystem::path find_interposer() {
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  for (const std::filesystem::path& folder : {here, here / "..", here / ".." / "lib"}) {
    const std::filesystem::path path = folder / "libwarpsmith_cublas.so";
    if (std::filesystem::exists(path)) return std::filesystem::canonical(path);
  }
  return {};
}

}  // namespace
}  // namespace warpsmith

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (getenv("WARPSMITH_INTERPOSER_TEST") == nullptr) {
    const std::filesystem::path interposer = warpsmith::find_interposer();
    if (interposer.empty()) {
      std::fprintf(stderr, "libwarpsmith_cublas.so is not beside this program\n");
      return 1;
    }
    std::string log = (std::filesystem::temp_directory_path() / "warpsmith-interposer-XXXXXX").string();
    const int descriptor = mkstemp(log.data());
    if (descriptor < 0) return 1;
    close(descriptor);
    setenv("LD_PRELOAD", interposer.c_str(), 1);
    setenv(warpsmith::kLog, log.c_str(), 1);
    setenv("WARPSMITH_INTERPOSER_TEST", "1", 1);
    execv("/proc/self/exe", argv);
    return 1;
  }
  const int result = RUN_ALL_TESTS();
  std::filesystem::remove(getenv(warpsmith::kLog));
  return result;
}
