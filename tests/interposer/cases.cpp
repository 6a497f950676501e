// Calls of cuBLAS as a program makes them, on stand-ins, each compared with a plain product: prints for each what ran
// it and whether it is right. Linked into a program or opened at run time.
#include <dlfcn.h>

#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "fake_cublas.h"
#include "host_product.h"

using namespace warpsmith;

namespace {

constexpr std::int64_t kRoom = 4096;  // elements of an operand

struct Buffers {
  std::vector<std::uint16_t> a, b, c;
  explicit Buffers(bool bf16) : a(kRoom), b(kRoom), c(kRoom) {
    for (std::int64_t i = 0; i < kRoom; ++i) {
      set_element(a.data(), i, bf16, static_cast<float>(i % 5 - 2));
      set_element(b.data(), i, bf16, static_cast<float>(i % 7 - 3));
      set_element(c.data(), i, bf16, static_cast<float>(i % 3));
    }
  }
};

// `expected` computes into a copy of C what `call` is to compute.
template <class Call, class Expected>
void run(const std::string& name, bool bf16, const Call& call, const Expected& expected) {
  Buffers buffers(bf16), wanted(bf16);
  const int before = fake_cublas_calls() + fake_cublaslt_calls();
  const cublasStatus_t status = call(buffers);
  const bool passed = fake_cublas_calls() + fake_cublaslt_calls() != before;
  expected(wanted);
  std::printf("%s %s %s\n", name.c_str(), passed ? "cublas" : "warpsmith",
              status == CUBLAS_STATUS_SUCCESS && buffers.c == wanted.c ? "right" : "wrong");
}

struct Gemm {
  cublasOperation_t op_a = CUBLAS_OP_N, op_b = CUBLAS_OP_N;
  int m = 9, n = 6, k = 5;
  cudaDataType_t type = CUDA_R_16F;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  float alpha = 2, beta = -1;
  int gap = 0, batches = 1;

  bool transposed_a() const { return op_a != CUBLAS_OP_N; }
  bool transposed_b() const { return op_b != CUBLAS_OP_N; }
  int lda() const { return (transposed_a() ? k : m) + gap; }
  int ldb() const { return (transposed_b() ? n : k) + gap; }
  int ldc() const { return m + gap; }
  int stride_a() const { return lda() * (transposed_a() ? m : k); }
  int stride_b() const { return ldb() * (transposed_b() ? k : n); }
  int stride_c() const { return ldc() * n; }

  void expected(Buffers& buffers) const {
    for (int i = 0; i < batches; ++i) {
      host_multiply({m, n, k, type == CUDA_R_16BF, alpha, beta},
                    column_major(shifted(buffers.a.data(), i * stride_a()), lda(), transposed_a()),
                    column_major(shifted(buffers.b.data(), i * stride_b()), ldb(), transposed_b()),
                    column_major(shifted(buffers.c.data(), i * stride_c()), ldc(), false));
    }
  }

  cublasStatus_t call(cublasHandle_t handle, Buffers& buffers) const {
    const __half half_alpha = __float2half(alpha), half_beta = __float2half(beta);
    const bool halves = compute == CUBLAS_COMPUTE_16F;
    const void* scale_a = halves ? static_cast<const void*>(&half_alpha) : &alpha;
    const void* scale_b = halves ? static_cast<const void*>(&half_beta) : &beta;
    if (batches == 1) {
      return cublasGemmEx(handle, op_a, op_b, m, n, k, scale_a, buffers.a.data(), type, lda(), buffers.b.data(), type,
                          ldb(), scale_b, buffers.c.data(), type, ldc(), compute, CUBLAS_GEMM_DEFAULT);
    }
    return cublasGemmStridedBatchedEx(handle, op_a, op_b, m, n, k, scale_a, buffers.a.data(), type, lda(), stride_a(),
                                      buffers.b.data(), type, ldb(), stride_b(), scale_b, buffers.c.data(), type, ldc(),
                                      stride_c(), batches, compute, CUBLAS_GEMM_DEFAULT);
  }
};

void run_gemm(const std::string& name, const Gemm& gemm, cublasContext handle = {}) {
  run(
      name, gemm.type == CUDA_R_16BF, [&](Buffers& buffers) { return gemm.call(&handle, buffers); },
      [&](Buffers& buffers) { gemm.expected(buffers); });
}

void level_three() {
  for (const cublasOperation_t op_a : {CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C}) {
    for (const cublasOperation_t op_b : {CUBLAS_OP_N, CUBLAS_OP_T}) {
      for (const int batches : {1, 3}) {
        const std::string name = "gemm-" + std::to_string(op_a) + std::to_string(op_b) + "-" + std::to_string(batches);
        run_gemm(name, {.op_a = op_a, .op_b = op_b, .gap = 2, .batches = batches});
      }
    }
  }
  run_gemm("bf16", {.type = CUDA_R_16BF});
  run_gemm("compute-16f", {.compute = CUBLAS_COMPUTE_16F});
  run_gemm("pedantic-type", {.compute = CUBLAS_COMPUTE_32F_PEDANTIC});
  run_gemm("better-on-cublas", {.k = 13});
  run_gemm("better-on-cublas-again", {.k = 13});
  run_gemm("launch-fails", {.k = 15});
  run_gemm("no-memory", {.k = 19});
  run_gemm("memory-again", {.k = 19});
  run_gemm("device-pointers", {}, {.pointer_mode = CUBLAS_POINTER_MODE_DEVICE});
  run_gemm("pedantic-mode", {}, {.math = CUBLAS_PEDANTIC_MATH});
  run_gemm("sm-target", {}, {.sm_target = 64});
  const auto captured = reinterpret_cast<cudaStream_t>(std::uintptr_t{0x11});
  run_gemm("capture-first", {.m = 11}, {.stream = captured});
  run_gemm("capture-before", {.m = 11});
  run_gemm("capture-later", {.m = 11}, {.stream = captured});
  const Gemm gemm;
  run(
      "null-handle", false, [&](Buffers& buffers) { return gemm.call(nullptr, buffers); }, [](Buffers&) {});
}

void hgemm() {
  const Gemm gemm{.op_a = CUBLAS_OP_T, .m = 8, .batches = 2};
  const __half alpha = __float2half(gemm.alpha), beta = __float2half(gemm.beta);
  const auto half = [](std::vector<std::uint16_t>& values) { return reinterpret_cast<__half*>(values.data()); };
  cublasContext handle;
  const Gemm single{.op_a = CUBLAS_OP_T, .m = 8};
  run(
      "hgemm", false,
      [&](Buffers& x) {
        return cublasHgemm(&handle, gemm.op_a, gemm.op_b, gemm.m, gemm.n, gemm.k, &alpha, half(x.a), gemm.lda(),
                           half(x.b), gemm.ldb(), &beta, half(x.c), gemm.ldc());
      },
      [&](Buffers& x) { single.expected(x); });
  run(
      "hgemm-batched", false,
      [&](Buffers& x) {
        return cublasHgemmStridedBatched(&handle, gemm.op_a, gemm.op_b, gemm.m, gemm.n, gemm.k, &alpha, half(x.a),
                                         gemm.lda(), gemm.stride_a(), half(x.b), gemm.ldb(), gemm.stride_b(), &beta,
                                         half(x.c), gemm.ldc(), gemm.stride_c(), gemm.batches);
      },
      [&](Buffers& x) { gemm.expected(x); });
}

struct Lt {
  cublasLtMatmulDescOpaque_t description{};
  cublasLtMatrixLayoutOpaque_t a{}, b{}, d{};

  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, Value value) {
    cublasLtMatmulDescSetAttribute(&description, attribute, &value, sizeof value);
  }
  static void fill(cublasLtMatrixLayoutOpaque_t& layout, std::int64_t rows, std::int64_t columns, bool by_rows) {
    const auto put = [&](cublasLtMatrixLayoutAttribute_t attribute, std::int64_t value) {
      cublasLtMatrixLayoutSetAttribute(&layout, attribute, &value, sizeof value);
    };
    put(CUBLASLT_MATRIX_LAYOUT_TYPE, CUDA_R_16F);
    put(CUBLASLT_MATRIX_LAYOUT_ORDER, by_rows ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL);
    put(CUBLASLT_MATRIX_LAYOUT_ROWS, rows);
    put(CUBLASLT_MATRIX_LAYOUT_COLS, columns);
    put(CUBLASLT_MATRIX_LAYOUT_LD, by_rows ? columns : rows);
    put(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 1);
  }
  // D[9,6] = A^T B of A stored 5 x 9.
  explicit Lt(bool by_rows = false) {
    set(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, std::int32_t{CUBLAS_COMPUTE_32F});
    set(CUBLASLT_MATMUL_DESC_SCALE_TYPE, std::int32_t{CUDA_R_32F});
    set(CUBLASLT_MATMUL_DESC_TRANSA, std::int32_t{CUBLAS_OP_T});
    set(CUBLASLT_MATMUL_DESC_FILL_MODE, std::int32_t{CUBLAS_FILL_MODE_FULL});
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, std::int32_t{CUBLASLT_EPILOGUE_DEFAULT});
    fill(a, 5, 9, by_rows);
    fill(b, 5, 6, false);
    fill(d, 9, 6, by_rows);
  }
  void expected(Buffers& x, float alpha, float beta, bool by_rows) const {
    host_multiply({9, 6, 5, false, alpha, beta},
                  by_rows ? row_major(x.a.data(), 9, true) : column_major(x.a.data(), 5, true),
                  column_major(x.b.data(), 5, false),
                  by_rows ? row_major(x.c.data(), 6, false) : column_major(x.c.data(), 9, false));
  }
};

void run_lt(const std::string& name, Lt lt, bool by_rows, float beta, bool elsewhere = false) {
  const float alpha = 2;
  run(
      name, false,
      [&](Buffers& x) {
        const std::vector<std::uint16_t> c = x.c;  // the stand-in reads D in its place, which holds the same
        return cublasLtMatmul(nullptr, &lt.description, &alpha, x.a.data(), &lt.a, x.b.data(), &lt.b, &beta,
                              elsewhere ? c.data() : x.c.data(), &lt.d, x.c.data(), &lt.d, nullptr, nullptr, 0,
                              nullptr);
      },
      [&](Buffers& x) { lt.expected(x, alpha, beta, by_rows); });
}

void lt_products() {
  run_lt("lt-columns", Lt(), false, -1);
  run_lt("lt-rows", Lt(true), true, -1);
  run_lt("lt-elsewhere", Lt(), false, -1, true);
  run_lt("lt-elsewhere-unread", Lt(), false, 0, true);
  Lt epilogue;
  epilogue.set(CUBLASLT_MATMUL_DESC_EPILOGUE, std::int32_t{CUBLASLT_EPILOGUE_BIAS});
  run_lt("lt-epilogue", epilogue, false, 0);
  Lt scaled;
  scaled.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, static_cast<const void*>("x"));
  run_lt("lt-scaled", scaled, false, 0);
  Lt device;
  device.set(CUBLASLT_MATMUL_DESC_POINTER_MODE, std::int32_t{CUBLASLT_POINTER_MODE_DEVICE});
  run_lt("lt-device-pointers", device, false, 0);
}

// The same product on two devices in turns: what was made for one of them does not serve the other.
void devices() {
  const auto set_device =
      reinterpret_cast<void (*)(int)>(dlsym(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL), "fake_set_device"));
  const Gemm gemm{.m = 10};
  run_gemm("device-0", gemm);
  set_device(1);
  run_gemm("device-1", gemm);
  std::thread([&] {
    set_device(1);
    run_gemm("device-1-thread", gemm);
  }).join();
  set_device(0);
  run_gemm("device-0-again", gemm);
}

void threads() {
  std::vector<int> wrong(8);
  std::vector<std::thread> running;
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    running.emplace_back([&wrong, t] {
      cublasContext handle;
      for (int i = 0; i < 300; ++i) {
        const Gemm gemm{.m = 1 + i % 20, .k = 1 + i % 12};
        Buffers x(false), wanted(false);
        if (gemm.call(&handle, x) != CUBLAS_STATUS_SUCCESS) ++wrong[t];
        gemm.expected(wanted);
        if (x.c != wanted.c) ++wrong[t];
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  int all = 0;
  for (const int count : wrong) all += count;
  std::printf("threads any %s\n", all == 0 ? "right" : "wrong");
}

}  // namespace

extern "C" int run_cases() {
  level_three();
  hgemm();
  lt_products();
  devices();
  threads();
  return 0;
}
