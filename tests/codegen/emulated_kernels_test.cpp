// The device code of the tiny and skinny families, compiled for the CPU and run in an emulation, against a product in
// double precision: every layout, load width, ragged sizes, sums over warps and clusters, loads ahead. Each access is
// checked for bounds and alignment.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <type_traits>
#include <vector>

#include "device/kernels/direct_gemm.cuh"

namespace warpsmith {
namespace {

using namespace device;

constexpr int granule(int columns) { return columns % 8 == 0 ? 16 : columns % 4 == 0 ? 8 : columns % 2 == 0 ? 4 : 2; }

// Elements between the rows of A, B and C.
struct Gaps {
  int a = 0, b = 0, c = 0;
};

// A configuration and sizes of its class.
struct Case {
  DirectConfig config;
  int m = 0, n = 0, k = 0;
  int lda = 0, ldb = 0, ldc = 0;

  constexpr int a_rows() const { return config.a_k_major ? m : k; }
  constexpr int b_rows() const { return config.b_k_major ? n : k; }
};

// Completes the problem class of a configuration.
constexpr Case make_case(int m, int n, int k, bool a_k_major, bool b_k_major, DirectConfig c, Gaps gaps = {}) {
  c.a_k_major = a_k_major;
  c.b_k_major = b_k_major;
  const int a_columns = a_k_major ? k : m, b_columns = b_k_major ? k : n;
  c.a_granule = granule(a_columns | (a_columns + gaps.a));
  c.b_granule = granule(b_columns | (b_columns + gaps.b));
  c.c_granule = granule(n | (n + gaps.c));
  c.whole_m = m % (c.tile_m * c.warps_m) == 0;
  c.whole_n = n % (c.tile_n * c.warps_n) == 0;
  c.whole_k = k % c.depth == 0;
  c.once = k <= c.depth * c.warps_k * c.split;
  return {c, m, n, k, a_columns + gaps.a, b_columns + gaps.b, n + gaps.c};
}

constexpr u16 kNan = 0x7fff;  // of both element types

// Values that sums hold exactly, so that only the last rounding differs: multiples of 1/8, or for FP16 sums of 1/2. NaN
// between the rows.
std::vector<u16> random_matrix(int rows, int columns, int ld, const DirectConfig& config, std::mt19937& random) {
  std::vector<u16> matrix(static_cast<std::size_t>(rows) * static_cast<std::size_t>(ld), kNan);
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    if (i % static_cast<std::size_t>(ld) >= static_cast<std::size_t>(columns)) continue;
    const float number = config.f16_sums ? static_cast<float>(static_cast<int>(random() % 5) - 2) / 2
                                         : static_cast<float>(static_cast<int>(random() % 17) - 8) / 8;
    matrix[i] = config.element == Element::f16 ? from_float<Element::f16>(number) : from_float<Element::bf16>(number);
  }
  return matrix;
}

// 256-byte aligned, as device memory is.
class Matrix {
 public:
  explicit Matrix(std::vector<u16> values) : storage_(values.size() + 128), size_(values.size()) {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    data_ = storage_.data() + (256 - address % 256) % 256 / 2;
    std::copy(values.begin(), values.end(), data_);
  }
  u16* data() const { return data_; }
  emulation::Range range() const { return {data_, 2 * size_}; }

 private:
  std::vector<u16> storage_;
  std::size_t size_;
  u16* data_;
};

template <Case kCase>
struct CaseType {
  static constexpr Case kValue = kCase;
};

template <class Type>
class EmulatedKernel : public testing::Test {};

// clang-format off
using Cases = testing::Types<
    // tiny: layouts, even sizes.
    CaseType<make_case(64, 48, 256, true, true, {})>,
    CaseType<make_case(32, 64, 64, true, false, {.tile_n = 32, .depth = 16})>,
    CaseType<make_case(64, 64, 128, false, true, {.tile_m = 32, .tile_n = 32, .depth = 32, .warps_k = 2})>,
    CaseType<make_case(128, 64, 96, false, false, {.tile_m = 64, .tile_n = 64, .depth = 32, .warps_k = 1})>,
    CaseType<make_case(16, 128, 64, true, false, {.element = Element::bf16, .tile_m = 8, .tile_n = 64, .depth = 32, .warps_k = 2, .transposed = true})>,
    CaseType<make_case(8, 32, 512, true, true, {.tile_m = 8, .tile_n = 16, .depth = 128, .warps_k = 4, .transposed = true})>,
    // Warps side by side, several rounds, loads ahead.
    CaseType<make_case(64, 32, 320, true, true, {.depth = 32, .warps_m = 2, .warps_n = 2, .warps_k = 2, .ahead = 1})>,
    CaseType<make_case(32, 64, 448, true, false, {.tile_n = 32, .warps_n = 2, .warps_k = 1, .ahead = 2})>,
    // Clusters, with and without warps that share K.
    CaseType<make_case(32, 32, 512, true, true, {.warps_k = 2, .split = 4})>,
    CaseType<make_case(16, 64, 1024, true, false, {.tile_n = 32, .depth = 32, .warps_k = 2, .split = 16})>,
    CaseType<make_case(32, 32, 256, false, false, {.tile_m = 32, .warps_n = 2, .warps_k = 1, .split = 2, .ahead = 1})>,
    CaseType<make_case(16, 32, 999, true, true, {.tile_m = 8, .depth = 64, .warps_k = 2, .split = 8, .transposed = true})>,
    // Ragged sizes, narrow loads and stores.
    CaseType<make_case(33, 21, 70, true, true, {.depth = 32, .warps_k = 2})>,
    CaseType<make_case(33, 21, 71, true, false, {.tile_n = 32, .depth = 16, .warps_k = 4})>,
    CaseType<make_case(30, 44, 131, false, true, {.element = Element::bf16, .tile_m = 32, .depth = 32, .warps_k = 4})>,
    CaseType<make_case(57, 50, 100, false, false, {.tile_m = 64, .tile_n = 32, .depth = 16, .warps_m = 1, .warps_n = 2, .warps_k = 2})>,
    CaseType<make_case(5, 77, 300, true, false, {.tile_m = 8, .tile_n = 64, .depth = 64, .warps_k = 4, .transposed = true})>,
    CaseType<make_case(1, 1, 1, true, true, {.depth = 16, .warps_k = 1})>,
    // skinny: M short, then N short.
    CaseType<make_case(7, 100, 520, true, true, {.tile_m = 8, .tile_n = 32, .warps_n = 2, .warps_k = 2, .ahead = 1, .transposed = true, .hint = LoadHint::stream})>,
    CaseType<make_case(16, 128, 1024, true, false, {.tile_m = 16, .tile_n = 64, .depth = 32, .warps_k = 4, .split = 2, .ahead = 3, .transposed = true, .hint = LoadHint::evict_first})>,
    CaseType<make_case(24, 72, 333, false, false, {.tile_m = 32, .tile_n = 32, .depth = 32, .warps_k = 2, .ahead = 1, .transposed = true})>,
    CaseType<make_case(100, 3, 777, true, false, {.tile_m = 32, .tile_n = 8, .depth = 32, .warps_k = 4, .ahead = 2, .hint = LoadHint::stream})>,
    CaseType<make_case(128, 16, 512, false, false, {.tile_m = 64, .depth = 32, .warps_k = 8, .ahead = 1, .hint = LoadHint::stream})>,
    // Leading dimensions: wide accesses kept, and lost.
    CaseType<make_case(40, 24, 264, true, true, {.depth = 32, .warps_k = 2}, {8, 16, 8})>,
    CaseType<make_case(33, 21, 70, false, false, {.tile_n = 32, .depth = 16, .warps_k = 2}, {3, 1, 2})>,
    CaseType<make_case(16, 128, 512, true, false, {.tile_m = 16, .tile_n = 64, .depth = 32, .warps_k = 4, .split = 2, .transposed = true}, {8, 4, 2})>,
    // alpha and beta, by every width of access to C, sums over warps and clusters.
    CaseType<make_case(40, 24, 128, true, true, {.scaled = true, .depth = 32, .warps_k = 2}, {0, 0, 8})>,
    CaseType<make_case(33, 36, 71, true, false, {.scaled = true, .tile_n = 32, .depth = 16, .warps_k = 1})>,
    CaseType<make_case(20, 50, 100, false, false, {.element = Element::bf16, .scaled = true, .tile_m = 32, .tile_n = 32, .depth = 16, .warps_n = 2, .warps_k = 2}, {0, 0, 4})>,
    CaseType<make_case(7, 99, 520, true, true, {.scaled = true, .tile_m = 8, .tile_n = 32, .depth = 32, .warps_n = 2, .warps_k = 2, .split = 4, .transposed = true})>,
    // B through shared memory: widths, rounds, ragged sizes, warps and clusters that share K, scaling.
    CaseType<make_case(64, 48, 256, true, false, {.warps_k = 2, .shared_b = true})>,
    CaseType<make_case(32, 64, 96, true, false, {.tile_n = 32, .depth = 32, .warps_k = 1, .shared_b = true})>,
    CaseType<make_case(32, 24, 128, true, false, {.tile_n = 8, .depth = 64, .warps_k = 1, .shared_b = true})>,
    CaseType<make_case(40, 72, 210, false, false, {.tile_m = 32, .tile_n = 64, .depth = 32, .warps_k = 2, .shared_b = true})>,
    CaseType<make_case(33, 40, 71, true, false, {.depth = 64, .warps_m = 2, .warps_n = 2, .warps_k = 1, .shared_b = true}, {1, 8, 2})>,
    CaseType<make_case(16, 64, 512, true, false, {.element = Element::bf16, .tile_n = 32, .depth = 32, .warps_k = 2, .split = 4, .shared_b = true})>,
    CaseType<make_case(20, 56, 100, true, false, {.scaled = true, .depth = 32, .warps_k = 2, .shared_b = true}, {0, 0, 4})>,
    CaseType<make_case(64, 48, 128, true, false, {.f16_sums = true, .depth = 128, .warps_k = 1, .shared_b = true})>,
    // FP16 sums.
    CaseType<make_case(64, 48, 256, true, true, {.f16_sums = true})>,
    CaseType<make_case(33, 21, 71, true, false, {.f16_sums = true, .scaled = true, .tile_n = 32, .depth = 16, .warps_k = 4})>,
    CaseType<make_case(16, 128, 512, true, false, {.f16_sums = true, .tile_m = 16, .tile_n = 64, .depth = 32, .warps_k = 4, .split = 2, .transposed = true}, {8, 8, 8})>>;
// clang-format on
TYPED_TEST_SUITE(EmulatedKernel, Cases);

template <Case kCase>
emulation::Launch launch_of(const Matrix& a, const Matrix& b, const Matrix& c, float alpha = 1, float beta = 0) {
  constexpr DirectConfig kConfig = kCase.config;
  using Plan = DirectPlan<kConfig>;
  const int blocks_m = ceil_div(kCase.m, Plan::kBlockM), blocks_n = ceil_div(kCase.n, Plan::kBlockN);
  emulation::Launch launch;
  launch.grid = {kConfig.transposed ? blocks_n : blocks_m, kConfig.transposed ? blocks_m : blocks_n, kConfig.split};
  launch.cluster = {1, 1, kConfig.split};
  launch.threads = Plan::kThreads;
  launch.shared_bytes = Plan::kSharedBytes;
  launch.readable = {a.range(), b.range()};
  if (beta != 0) launch.readable.push_back(c.range());
  launch.writable = {c.range()};
  const Output<kCase.config.scaled> out = {c.data(), kCase.ldc, alpha, beta};
  launch.body = [&a, &b, out] {
    direct_gemm<kCase.config>(a.data(), b.data(), out, kCase.m, kCase.n, kCase.k, kCase.lda, kCase.ldb);
  };
  return launch;
}

// Elements of C that differ from alpha A * B + beta old by more than the last rounding, and those between its rows that
// have been written.
template <Case kCase>
int wrong_elements(const Matrix& a, const Matrix& b, const Matrix& c, const Matrix& old, float alpha, float beta) {
  constexpr DirectConfig kConfig = kCase.config;
  constexpr double kRounding = kConfig.element == Element::f16 ? 1.0 / 2048 : 1.0 / 256;
  const auto at = [](const Matrix& matrix, int index) {
    return static_cast<double>(to_float<kConfig.element>(matrix.data()[index]));
  };
  int wrong = 0;
  for (int i = 0; i < kCase.m; ++i) {
    for (int j = 0; j < kCase.n; ++j) {
      double sum = 0;
      for (int x = 0; x < kCase.k; ++x) {
        sum += at(a, kConfig.a_k_major ? i * kCase.lda + x : x * kCase.lda + i) *
               at(b, kConfig.b_k_major ? j * kCase.ldb + x : x * kCase.ldb + j);
      }
      sum *= static_cast<double>(alpha);
      if (beta != 0) sum += static_cast<double>(beta) * at(old, i * kCase.ldc + j);
      const double error = std::abs(at(c, i * kCase.ldc + j) - sum);
      wrong += !(error <= kRounding * std::abs(sum));
    }
    for (int j = kCase.n; j < kCase.ldc; ++j) wrong += c.data()[i * kCase.ldc + j] != kNan;
  }
  return wrong;
}

TYPED_TEST(EmulatedKernel, MultipliesExactly) {
  constexpr Case kCase = TypeParam::kValue;
  std::mt19937 random(7);
  const auto matrix = [&](int rows, int columns, int ld) {
    return Matrix(random_matrix(rows, columns, ld, kCase.config, random));
  };
  const Matrix a = matrix(kCase.a_rows(), kCase.config.a_k_major ? kCase.k : kCase.m, kCase.lda);
  const Matrix b = matrix(kCase.b_rows(), kCase.config.b_k_major ? kCase.k : kCase.n, kCase.ldb);
  // With beta = 0 C holds NaN, and may not be read.
  const std::vector<u16> nothing(static_cast<std::size_t>(kCase.m * kCase.ldc), kNan);
  const std::vector<u16> old = random_matrix(kCase.m, kCase.n, kCase.ldc, kCase.config, random);
  const std::vector<std::pair<float, float>> factors =
      kCase.config.scaled ? std::vector<std::pair<float, float>>{{0.5F, -1.0F}, {-1.0F, 0.0F}}
                          : std::vector<std::pair<float, float>>{{1.0F, 0.0F}};
  for (const auto& [alpha, beta] : factors) {
    const Matrix before(beta == 0 ? nothing : old), c(beta == 0 ? nothing : old);
    ASSERT_GT((wrong_elements<kCase>(a, b, c, before, alpha, beta)), kCase.m * kCase.n / 2)
        << "the check sees elements that were never written";
    ASSERT_EQ(emulation::run(launch_of<kCase>(a, b, c, alpha, beta)), "");
    EXPECT_EQ((wrong_elements<kCase>(a, b, c, before, alpha, beta)), 0) << alpha << " " << beta;
  }
}

// The emulation's own checks: a store past C's end is seen.
TEST(Emulation, SeesAccessesOutOfBounds) {
  constexpr Case kCase = make_case(32, 16, 64, true, true, {.depth = 16});
  const Matrix a(std::vector<u16>(32 * 64)), b(std::vector<u16>(16 * 64)), c(std::vector<u16>(32 * 16));
  emulation::Launch launch = launch_of<kCase>(a, b, c);
  EXPECT_EQ(emulation::run(launch), "");
  launch.writable = {{c.data(), 2 * (32 * 16 - 1)}};
  EXPECT_EQ(emulation::run(launch), "out of bounds: store");
  launch.readable = {a.range()};
  EXPECT_EQ(emulation::run(launch), "out of bounds: load");
}

}  // namespace
}  // namespace warpsmith
