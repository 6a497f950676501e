// Blocked FP64 product: blocks of 64 x 64 results, K in steps of 256, a register tile of 2 x 8 for the value and for
// the sum of magnitudes.
#include "evaluate/cpu/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "evaluate/cpu/convert.h"
#include "evaluate/cpu/thread_pool.h"

namespace warpsmith {

namespace {

constexpr std::int64_t kBlock = 64;   // rows and columns of a result block
constexpr std::int64_t kDepth = 256;  // of one step along K
constexpr std::int64_t kPanel = 8;    // columns of a register tile
constexpr std::int64_t kEdgeRows = 4;
constexpr std::int64_t kFewestRows = 32;

using Vector = double __attribute__((vector_size(32)));  // four doubles

Vector load(const double* source) {
  Vector value;
  std::memcpy(&value, source, sizeof value);
  return value;
}

Vector magnitude(Vector x) { return x < 0 ? -x : x; }

// One task's scratch: packed operands and the block's sums.
struct Block {
  std::array<double, kBlock * kDepth> a{};  // [row][k]
  std::array<double, kBlock * kDepth> b{};  // [panel][k][8]
  std::array<double, kBlock * kBlock> value{}, sum{};
  std::array<float, std::max(kBlock, kDepth)> line{};
};

class BlockProduct {
 public:
  BlockProduct(const Problem& problem, const std::vector<std::int64_t>& rows, const std::uint16_t* a,
               const std::uint16_t* b)
      : problem_(problem), rows_(rows), a_(a), b_(b), block_(std::make_unique<Block>()) {}

  // Sums of rows_[row0 ...] and columns col0 ..., into the block.
  const Block& compute(std::int64_t row0, std::int64_t row_count, std::int64_t col0, std::int64_t col_count) {
    block_->value.fill(0);
    block_->sum.fill(0);
    for (std::int64_t k0 = 0; k0 < problem_.k; k0 += kDepth) {
      const std::int64_t depth = std::min(kDepth, problem_.k - k0);
      pack_a(row0, row_count, k0, depth);
      pack_b(col0, col_count, k0, depth);
      for (std::int64_t panel = 0; panel * kPanel < col_count; ++panel) {
        for (std::int64_t row = 0; row < row_count; row += 2) multiply(row, panel, depth);
      }
    }
    return *block_;
  }

 private:
  void pack_a(std::int64_t row0, std::int64_t row_count, std::int64_t k0, std::int64_t depth) {
    Block& block = *block_;
    for (std::int64_t r = 0; r < row_count; ++r) {
      const std::int64_t row = rows_[static_cast<std::size_t>(row0 + r)];
      double* target = block.a.data() + r * kDepth;
      if (problem_.a_is_k_major()) {
        elements_to_floats(a_ + row * problem_.k + k0, block.line.data(), depth, problem_.element);
        std::copy_n(block.line.data(), depth, target);
      } else {
        for (std::int64_t k = 0; k < depth; ++k) {
          target[k] = element_to_double(a_[(k0 + k) * problem_.m + row], problem_.element);
        }
      }
    }
    if (row_count % 2 != 0) std::fill_n(block.a.data() + row_count * kDepth, depth, 0.0);
  }

  void pack_b(std::int64_t col0, std::int64_t col_count, std::int64_t k0, std::int64_t depth) {
    Block& block = *block_;
    const std::int64_t padded = (col_count + kPanel - 1) / kPanel * kPanel;
    const auto at = [&](std::int64_t k, std::int64_t col) -> double& {
      return block.b[static_cast<std::size_t>((col / kPanel * kDepth + k) * kPanel + col % kPanel)];
    };
    for (std::int64_t col = col_count; col < padded; ++col) {
      for (std::int64_t k = 0; k < depth; ++k) at(k, col) = 0;
    }
    if (problem_.b_is_k_major()) {
      for (std::int64_t col = 0; col < col_count; ++col) {
        elements_to_floats(b_ + (col0 + col) * problem_.k + k0, block.line.data(), depth, problem_.element);
        for (std::int64_t k = 0; k < depth; ++k) at(k, col) = block.line[static_cast<std::size_t>(k)];
      }
    } else {
      for (std::int64_t k = 0; k < depth; ++k) {
        elements_to_floats(b_ + (k0 + k) * problem_.n + col0, block.line.data(), col_count, problem_.element);
        for (std::int64_t col = 0; col < col_count; ++col) at(k, col) = block.line[static_cast<std::size_t>(col)];
      }
    }
  }

  void multiply(std::int64_t row, std::int64_t panel, std::int64_t depth) {
    Block& block = *block_;
    const double* a0 = block.a.data() + row * kDepth;
    const double* a1 = a0 + kDepth;
    const double* b = block.b.data() + panel * kDepth * kPanel;
    Vector v00{}, v01{}, v10{}, v11{}, s00{}, s01{}, s10{}, s11{};
    for (std::int64_t k = 0; k < depth; ++k) {
      const Vector b0 = load(b + k * kPanel), b1 = load(b + k * kPanel + 4);
      const Vector m0 = magnitude(b0), m1 = magnitude(b1);
      const double x0 = a0[k], x1 = a1[k], y0 = std::fabs(x0), y1 = std::fabs(x1);
      v00 += x0 * b0;
      v01 += x0 * b1;
      v10 += x1 * b0;
      v11 += x1 * b1;
      s00 += y0 * m0;
      s01 += y0 * m1;
      s10 += y1 * m0;
      s11 += y1 * m1;
    }
    add(block.value, row, panel, v00, v01, v10, v11);
    add(block.sum, row, panel, s00, s01, s10, s11);
  }

  static void add(std::array<double, kBlock * kBlock>& target, std::int64_t row, std::int64_t panel, Vector x00,
                  Vector x01, Vector x10, Vector x11) {
    double* first = target.data() + row * kBlock + panel * kPanel;
    double* second = first + kBlock;
    for (int i = 0; i < 4; ++i) {
      first[i] += x00[i];
      first[i + 4] += x01[i];
      second[i] += x10[i];
      second[i + 4] += x11[i];
    }
  }

  const Problem& problem_;
  const std::vector<std::int64_t>& rows_;
  const std::uint16_t* a_;
  const std::uint16_t* b_;
  std::unique_ptr<Block> block_;
};

constexpr std::int64_t kGrain = 1 << 14;  // elements that one thread generates at a time

}  // namespace

void generate_a(const InputSpec& spec, bool k_major, std::uint16_t* a) {
  const std::int64_t rows = k_major ? spec.m : spec.k, cols = k_major ? spec.k : spec.m;
  parallel_for(rows, std::max<std::int64_t>(1, kGrain / cols), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) a[r * cols + c] = k_major ? input_a(spec, r, c) : input_a(spec, c, r);
    }
  });
}

void generate_b(const InputSpec& spec, bool k_major, std::uint16_t* b) {
  const std::int64_t rows = k_major ? spec.n : spec.k, cols = k_major ? spec.k : spec.n;
  parallel_for(rows, std::max<std::int64_t>(1, kGrain / cols), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) b[r * cols + c] = k_major ? input_b(spec, c, r) : input_b(spec, r, c);
    }
  });
}

std::vector<std::int64_t> reference_rows(const Problem& problem, std::uint64_t seed) {
  const double row_flops = 2.0 * static_cast<double>(problem.n) * static_cast<double>(problem.k);
  const auto affordable = static_cast<std::int64_t>(
      std::min(kFullFlops / row_flops, static_cast<double>(kFullElements) / static_cast<double>(problem.n)));
  const std::int64_t count = std::min(problem.m, std::max(kFewestRows, affordable));
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t begin = problem.m * i / count, end = problem.m * (i + 1) / count;
    const std::uint64_t draw = inputs::mix(seed + 0x9e3779b97f4a7c15ULL * static_cast<std::uint64_t>(i + 1));
    rows.push_back(begin + static_cast<std::int64_t>(draw % static_cast<std::uint64_t>(end - begin)));
  }
  if (count == problem.m) return rows;
  for (std::int64_t i = 0; i < kEdgeRows; ++i) {
    rows.push_back(i);
    rows.push_back(problem.m - 1 - i);
  }
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

Reference::Reference(const Problem& problem, std::vector<std::int64_t> rows, const std::uint16_t* a,
                     const std::uint16_t* b)
    : problem_(problem), rows_(std::move(rows)) {
  const std::int64_t row_count = static_cast<std::int64_t>(rows_.size()), n = problem_.n;
  const auto total = static_cast<std::size_t>(row_count * n);
  value_.resize(total);
  inverse_.resize(total);
  lo_.resize(total);
  hi_.resize(total);
  exact_.resize(total);
  const std::int64_t block_rows = (row_count + kBlock - 1) / kBlock, block_cols = (n + kBlock - 1) / kBlock;
  parallel_for(block_rows * block_cols, 1, [&](std::int64_t begin, std::int64_t end) {
    BlockProduct product(problem_, rows_, a, b);
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t row0 = task / block_cols * kBlock, col0 = task % block_cols * kBlock;
      const std::int64_t height = std::min(kBlock, row_count - row0), width = std::min(kBlock, n - col0);
      const Block& block = product.compute(row0, height, col0, width);
      for (std::int64_t r = 0; r < height; ++r) {
        for (std::int64_t c = 0; c < width; ++c) {
          const auto from = static_cast<std::size_t>(r * kBlock + c),
                     to = static_cast<std::size_t>((row0 + r) * n + col0 + c);
          const double c64 = block.value[from], sum = block.sum[from];
          const AcceptableRange range = acceptable_range(Criterion::bound, c64, sum, problem_.k, problem_.element);
          value_[to] = static_cast<float>(c64);
          exact_[to] = double_to_element(c64, problem_.element);
          lo_[to] = static_cast<std::int16_t>(range.nan ? 1 : ordered_key(range.lo));
          hi_[to] = static_cast<std::int16_t>(range.nan ? 0 : ordered_key(range.hi));
          const bool meaningful = !range.nan && (exact_[to] & 0x7fff) < infinity_bits(problem_.element);
          inverse_[to] =
              meaningful
                  ? static_cast<float>(1.0 / allowed_error(expected_sum(c64, sum, {problem_.k}), problem_.element))
                  : 0;
        }
      }
    }
  });
}

CheckReport Reference::check(Criterion criterion, const std::uint16_t* c, std::int64_t row_shift) const {
  CheckReport report;
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    const std::int64_t c_row = (rows_[row] - row_shift % problem_.m + problem_.m) % problem_.m;
    check_row(criterion, row, c + c_row * problem_.n, c_row, report);
  }
  report.passed = report.bad == 0;
  report.precision.elements = static_cast<std::int64_t>(rows_.size()) * problem_.n;
  report.precision.limit = misrounding_limit(problem_.k, problem_.element);
  if (report.passed) report.detail = declaration();
  return report;
}

std::string Reference::declaration() const {
  if (static_cast<std::int64_t>(rows_.size()) == problem_.m) return {};
  return fmt::format("checked {} of {} rows", rows_.size(), problem_.m);
}

void Reference::check_row(Criterion criterion, std::size_t row, const std::uint16_t* c, std::int64_t c_row,
                          CheckReport& report) const {
  const std::size_t offset = row * static_cast<std::size_t>(problem_.n);
  constexpr std::int64_t kChunk = 512;
  std::array<float, kChunk> line;  // NOLINT: filled before use
  for (std::int64_t begin = 0; begin < problem_.n; begin += kChunk) {
    const std::int64_t count = std::min(kChunk, problem_.n - begin);
    const std::size_t at = offset + static_cast<std::size_t>(begin);
    elements_to_floats(c + begin, line.data(), count, problem_.element);
    float worst = 0;
    int outside = 0, misrounded = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::size_t e = at + static_cast<std::size_t>(i);
      const int key = ordered_key(c[begin + i]);
      misrounded += static_cast<int>(key != ordered_key(exact_[e])) & static_cast<int>(lo_[e] <= hi_[e]);
      outside += static_cast<int>(key < lo_[e]) | static_cast<int>(key > hi_[e]);
      outside += criterion == Criterion::exact && c[begin + i] != exact_[e] ? 1 : 0;
      const float ratio = std::fabs(line[static_cast<std::size_t>(i)] - value_[e]) * inverse_[e];
      // Infinite where C is: that may be right, and has no ratio.
      worst = ratio > worst && ratio <= std::numeric_limits<float>::max() ? ratio : worst;
    }
    report.worst_error = std::max(report.worst_error, static_cast<double>(worst));
    report.precision.misrounded += misrounded;
    if (outside == 0) continue;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::size_t e = at + static_cast<std::size_t>(i);
      const std::uint16_t got = c[begin + i];
      const int key = ordered_key(got);
      const bool nan_expected = lo_[e] > hi_[e];
      bool right = nan_expected ? is_nan_bits(got, problem_.element) : key >= lo_[e] && key <= hi_[e];
      if (criterion == Criterion::exact && !nan_expected) right = ordered_key(exact_[e]) == key;
      if (right) continue;
      if (report.bad++ != 0) continue;
      const auto bits_of_key = [](int k) { return static_cast<std::uint16_t>(k < 0 ? 0x8000 | -k : k); };
      const auto number = [&](std::uint16_t bits) { return element_to_double(bits, problem_.element); };
      std::string allowed = nan_expected ? std::string("NaN")
                            : criterion == Criterion::exact
                                ? fmt::format("exactly {:g}", number(exact_[e]))
                                : fmt::format("{:g} to {:g}", number(bits_of_key(lo_[e])), number(bits_of_key(hi_[e])));
      report.detail = fmt::format("C({}, {}) = {:g}, expected {:g}, allowed {}", c_row, begin + i, number(got),
                                  static_cast<double>(value_[e]), allowed);
    }
  }
}

}  // namespace warpsmith
