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

// A configuration and sizes of its class.
struct Case {
  DirectConfig config;
  int m = 0, n = 0, k = 0;
};

// Completes the problem class of a configuration.
constexpr Case make_case(int m, int n, int k, bool a_k_major, bool b_k_major, DirectConfig c) {
  c.a_k_major = a_k_major;
  c.b_k_major = b_k_major;
  c.a_granule = granule(a_k_major ? k : m);
  c.b_granule = granule(b_k_major ? k : n);
  c.c_granule = granule(n);
  c.whole_m = m % (c.tile_m * c.warps_m) == 0;
  c.whole_n = n % (c.tile_n * c.warps_n) == 0;
  c.whole_k = k % c.depth == 0;
  c.once = k <= c.depth * c.warps_k * c.split;
  return {c, m, n, k};
}

// Values that FP32 sums hold exactly, so that only the last rounding differs.
std::vector<u16> random_matrix(std::size_t count, Element element, std::mt19937& random) {
  std::vector<u16> matrix(count);
  for (u16& value : matrix) {
    const float number = static_cast<float>(static_cast<int>(random() % 17) - 8) / 8;
    value = element == Element::f16 ? from_float<Element::f16>(number) : from_float<Element::bf16>(number);
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
    CaseType<make_case(128, 16, 512, false, false, {.tile_m = 64, .depth = 32, .warps_k = 8, .ahead = 1, .hint = LoadHint::stream})>>;
// clang-format on
TYPED_TEST_SUITE(EmulatedKernel, Cases);

template <Case kCase>
emulation::Launch launch_of(const Matrix& a, const Matrix& b, const Matrix& c) {
  constexpr DirectConfig kConfig = kCase.config;
  using Plan = DirectPlan<kConfig>;
  const int blocks_m = ceil_div(kCase.m, Plan::kBlockM), blocks_n = ceil_div(kCase.n, Plan::kBlockN);
  emulation::Launch launch;
  launch.grid = {kConfig.transposed ? blocks_n : blocks_m, kConfig.transposed ? blocks_m : blocks_n, kConfig.split};
  launch.cluster = {1, 1, kConfig.split};
  launch.threads = Plan::kThreads;
  launch.shared_bytes = Plan::kSharedBytes;
  launch.readable = {a.range(), b.range()};
  launch.writable = {c.range()};
  constexpr int kLda = kConfig.a_k_major ? kCase.k : kCase.m, kLdb = kConfig.b_k_major ? kCase.k : kCase.n;
  launch.body = [&a, &b, &c] {
    direct_gemm<kCase.config>(a.data(), b.data(), c.data(), kCase.m, kCase.n, kCase.k, kLda, kLdb, kCase.n);
  };
  return launch;
}

// Elements of C that differ from A * B by more than the last rounding.
template <Case kCase>
int wrong_elements(const Matrix& a, const Matrix& b, const Matrix& c) {
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
        sum += at(a, kConfig.a_k_major ? i * kCase.k + x : x * kCase.m + i) *
               at(b, kConfig.b_k_major ? j * kCase.k + x : x * kCase.n + j);
      }
      const double error = std::abs(at(c, i * kCase.n + j) - sum);
      wrong += !(error <= kRounding * std::abs(sum));
    }
  }
  return wrong;
}

TYPED_TEST(EmulatedKernel, MultipliesExactly) {
  constexpr Case kCase = TypeParam::kValue;
  constexpr u16 kNan = 0x7fff;  // of both element types
  std::mt19937 random(7);
  const auto count = [](int rows, int columns) {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
  };
  const Matrix a(random_matrix(count(kCase.m, kCase.k), kCase.config.element, random));
  const Matrix b(random_matrix(count(kCase.n, kCase.k), kCase.config.element, random));
  const Matrix c(std::vector<u16>(count(kCase.m, kCase.n), kNan));
  ASSERT_EQ(wrong_elements<kCase>(a, b, c), kCase.m * kCase.n) << "the check sees elements that were never written";
  ASSERT_EQ(emulation::run(launch_of<kCase>(a, b, c)), "");
  EXPECT_EQ(wrong_elements<kCase>(a, b, c), 0);
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
