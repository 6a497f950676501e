// C = A * B over the thread grid: blocks of k, of column tiles and of row tiles around the register tiles of tile.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/config.h"
#include "cpu/kernel_abi.h"
#include "cpu/pack.h"
#include "cpu/partition.h"
#include "cpu/simd.h"
#include "cpu/tile.h"

namespace warpsmith::cpu {

// One thread's share of a call. Rows and columns are dealt into balanced tiles of the whole problem; a thread owns a
// range of row tiles, of column tiles and of k.
template <CpuConfig kConfig>
class Gemm {
 public:
  Gemm(const WarpsmithCpuArguments& arguments, int thread) : args_(arguments), thread_(thread) {
    const auto part = [&](std::int64_t size, Parameter threads, int index) {
      return part_range(size, parameter(threads), index);
    };
    const int threads_m = static_cast<int>(parameter(kThreadsM)), threads_n = static_cast<int>(parameter(kThreadsN));
    row_tiles_ = part(parameter(kRowTiles), kThreadsM, thread % threads_m);
    column_tiles_ = part(parameter(kColumnTiles), kThreadsN, thread / threads_m % threads_n);
    k_ = part(args_.k, kThreadsK, thread / (threads_m * threads_n));

    sums_row_ = row_begin(row_tiles_.begin);

    char* own = static_cast<char*>(args_.workspace) + thread * parameter(kThreadBytes);
    packed_a_ = reinterpret_cast<float*>(own);
    packed_b_ = reinterpret_cast<float*>(own + parameter(kPackedABytes));
    sums_ = reinterpret_cast<float*>(own + parameter(kPackedABytes) + parameter(kPackedBBytes));
  }

  void run() {
    if ((parameter(kPreload) & kPreloadPages) != 0) preload_pages();
    const std::int64_t step = parameter(kBlockColumns);
    for (std::int64_t n = column_tiles_.begin; n < column_tiles_.end; n += step) {
      const Range columns{n, std::min(n + step, column_tiles_.end)};
      ld_sums_ = sums_stride(column_begin(columns.end) - column_begin(columns.begin));
      if (parameter(kDepthInner) != 0)
        run_depth_inner(columns);
      else
        run_rows_inner(columns);
    }
    if (parameter(kThreadsK) > 1) add_partial_sums();
  }

 private:
  using S = Simd<kConfig.lanes>;
  static constexpr bool kOuter = kConfig.form == Form::outer;
  static constexpr int kPageBytes = 4096;
  static constexpr int kColumnUnit = kOuter ? kConfig.lanes : 1;  // elements of n per unit of a tile's columns

  // An odd number of cache lines, so that the rows of a tile fall into different sets.
  static std::int64_t sums_stride(std::int64_t width) { return round_up(width, 16) | 16; }

  std::int64_t parameter(Parameter index) const { return args_.parameters[index]; }

  std::int64_t row_begin(std::int64_t tile) const { return part_begin(args_.m, parameter(kRowTiles), tile); }
  // May exceed n by less than one vector at the right edge.
  std::int64_t column_begin(std::int64_t tile) const {
    return part_begin(ceil_div(args_.n, kColumnUnit), parameter(kColumnTiles), tile) * kColumnUnit;
  }
  int tile_rows(std::int64_t tile) const { return static_cast<int>(row_begin(tile + 1) - row_begin(tile)); }
  int tile_columns(std::int64_t tile) const {
    return static_cast<int>((column_begin(tile + 1) - column_begin(tile)) / kColumnUnit);
  }

  // Operands in place at a tile's first element and a block's first k.
  const std::uint16_t* a_at(std::int64_t tile, std::int64_t k) const {
    const std::int64_t row = row_begin(tile);
    return args_.a + (kConfig.a_k_major ? row * args_.lda + k : k * args_.lda + row);
  }
  const std::uint16_t* b_at(std::int64_t tile, std::int64_t k) const {
    const std::int64_t column = column_begin(tile);
    return args_.b + (kConfig.b_k_major ? column * args_.ldb + k : k * args_.ldb + column);
  }

  // Floats of one packed tile over a block of k.
  static std::int64_t packed_a_floats(std::int64_t depth) {
    if constexpr (!kOuter) return round_up(depth, kConfig.lanes) * kConfig.rows;
    return kConfig.a_k_major ? std::int64_t{kConfig.rows} * kConfig.a_stride : depth * packed_a_width<kConfig>();
  }
  static std::int64_t packed_b_floats(std::int64_t depth) {
    if constexpr (!kOuter) return round_up(depth, kConfig.lanes) * kConfig.columns;
    return depth * kConfig.columns * kConfig.lanes;
  }

  void run_rows_inner(Range columns) {
    for (std::int64_t k = k_.begin; k < k_.end; k += parameter(kBlockK)) {
      const Range depth{k, std::min(k + parameter(kBlockK), k_.end)};
      if constexpr (kConfig.b == Source::packed) pack_b(columns, depth, packed_b_);
      for (std::int64_t m = row_tiles_.begin; m < row_tiles_.end; m += parameter(kBlockRows)) {
        const Range rows{m, std::min(m + parameter(kBlockRows), row_tiles_.end)};
        run_block(rows, columns, depth, packed_b_);
      }
    }
  }

  // Packed B holds all of k, and the sums of one row block stay in cache until they are done.
  void run_depth_inner(Range columns) {
    const std::int64_t block_floats = parameter(kBlockColumns) * packed_b_floats(parameter(kBlockK));
    for (std::int64_t m = row_tiles_.begin; m < row_tiles_.end; m += parameter(kBlockRows)) {
      const Range rows{m, std::min(m + parameter(kBlockRows), row_tiles_.end)};
      float* packed = packed_b_;
      if (parameter(kThreadsK) == 1) sums_row_ = row_begin(rows.begin);
      for (std::int64_t k = k_.begin; k < k_.end; k += parameter(kBlockK)) {
        const Range depth{k, std::min(k + parameter(kBlockK), k_.end)};
        if (kConfig.b == Source::packed && m == row_tiles_.begin) pack_b(columns, depth, packed);
        run_block(rows, columns, depth, packed);
        if constexpr (kConfig.b == Source::packed) packed += block_floats;
      }
    }
  }

  void run_block(Range rows, Range columns, Range depth, float* packed_b) {
    if (kConfig.b != Source::packed && (parameter(kPreload) & kPreloadB) != 0) preload_b(columns, depth);
    if constexpr (kConfig.a == Source::packed) pack_a(rows, depth);
    if (parameter(kRowsInner) != 0) {
      for (std::int64_t column = columns.begin; column < columns.end; ++column) {
        for (std::int64_t row = rows.begin; row < rows.end; ++row) {
          run_tile(rows, columns, depth, row, column, packed_b);
        }
      }
    } else {
      for (std::int64_t row = rows.begin; row < rows.end; ++row) {
        for (std::int64_t column = columns.begin; column < columns.end; ++column) {
          run_tile(rows, columns, depth, row, column, packed_b);
        }
      }
    }
  }

  // Asks for one line of every page of the operands, so that their address translations run side by side.
  void preload_pages() const {
    const auto touch = [](const std::uint16_t* matrix, std::int64_t rows, std::int64_t stride) {
      const auto* byte = reinterpret_cast<const char*>(matrix);
      for (const char* end = byte + 2 * rows * stride; byte < end; byte += kPageBytes) prefetch_l1(byte);
    };
    touch(args_.b, kConfig.b_k_major ? args_.n : args_.k, args_.ldb);
    touch(args_.a, kConfig.a_k_major ? args_.m : args_.k, args_.lda);
    touch(args_.c, args_.m, args_.ldc);
  }

  // Asks for a block of B in place, so that its way from memory overlaps with the packing of A.
  void preload_b(Range columns, Range depth) const {
    const std::int64_t width = std::min(column_begin(columns.end), args_.n) - column_begin(columns.begin);
    const std::int64_t lines = kConfig.b_k_major ? width : depth.size();
    const std::int64_t bytes = 2 * (kConfig.b_k_major ? depth.size() : width);
    const auto* line = reinterpret_cast<const char*>(b_at(columns.begin, depth.begin));
    for (std::int64_t i = 0; i < lines; ++i, line += 2 * args_.ldb) {
      for (std::int64_t byte = 0; byte < bytes; byte += 64) prefetch_l1(line + byte);
    }
  }

  void pack_a(Range tiles, Range depth) {
    float* to = packed_a_;
    for (std::int64_t tile = tiles.begin; tile < tiles.end; ++tile, to += packed_a_floats(depth.size())) {
      const std::uint16_t* from = a_at(tile, depth.begin);
      const int rows = tile_rows(tile);
      if constexpr (kOuter && kConfig.a_k_major) {
        pack_rows<kConfig.element, kConfig.lanes>(from, args_.lda, rows, depth.size(), to, kConfig.a_stride,
                                                  parameter(kPrefetchA));
      } else if constexpr (kOuter) {
        pack_rows<kConfig.element, kConfig.lanes>(from, args_.lda, depth.size(), rows, to, packed_a_width<kConfig>());
      } else if constexpr (kConfig.a_k_major) {
        interleave_rows<kConfig.element, kConfig.lanes>(from, args_.lda, rows, depth.size(), to);
      } else {
        interleave_columns<kConfig.element, kConfig.lanes>(from, args_.lda, rows, depth.size(), to);
      }
    }
  }

  void pack_b(Range tiles, Range depth, float* to) {
    for (std::int64_t tile = tiles.begin; tile < tiles.end; ++tile, to += packed_b_floats(depth.size())) {
      const std::uint16_t* from = b_at(tile, depth.begin);
      const int columns = tile_columns(tile);
      const std::int64_t width = columns * kColumnUnit;
      const std::int64_t inside = std::min(width, args_.n - column_begin(tile));
      if constexpr (kOuter && kConfig.b_k_major) {
        pack_transposed<kConfig.element>(from, args_.ldb, inside, depth.size(), to, width);
      } else if constexpr (kOuter) {
        pack_rows<kConfig.element, kConfig.lanes>(from, args_.ldb, depth.size(), inside, to, width);
      } else if constexpr (kConfig.b_k_major) {
        interleave_rows<kConfig.element, kConfig.lanes>(from, args_.ldb, columns, depth.size(), to);
      } else {
        interleave_columns<kConfig.element, kConfig.lanes>(from, args_.ldb, columns, depth.size(), to);
      }
    }
  }

  void run_tile(Range rows, Range columns, Range depth, std::int64_t row, std::int64_t column, float* packed_b) {
    TileArguments t;
    t.depth = depth.size();
    if constexpr (kConfig.a == Source::packed) {
      t.a = packed_a_ + (row - rows.begin) * packed_a_floats(t.depth);
    } else {
      t.a = a_at(row, depth.begin);
      t.lda = args_.lda;
      t.prefetch_a = parameter(kPrefetchA);
    }
    const bool b_in_place = kConfig.b == Source::direct || (kConfig.b == Source::fused && row == rows.begin);
    if (b_in_place) {
      t.b = b_at(column, depth.begin);
      t.ldb = args_.ldb;
      t.copy = packed_b;
      t.prefetch = parameter(kPrefetch) * (kOuter ? args_.ldb : 1);
    } else {
      t.b = kConfig.b == Source::fused ? packed_b : packed_b + (column - columns.begin) * packed_b_floats(t.depth);
    }
    const std::int64_t first_row = row_begin(row), first_column = column_begin(column);
    t.ld_sums = ld_sums_;
    t.sums = sums_ + (first_row - sums_row_) * ld_sums_ + first_column - column_begin(columns.begin);
    t.add_sums = depth.begin > k_.begin;
    if (depth.end == args_.k && parameter(kThreadsK) == 1) t.c = args_.c + first_row * args_.ldc + first_column;
    t.ldc = args_.ldc;
    const int width = tile_columns(column);
    t.last_count = static_cast<int>(
        std::min<std::int64_t>(kColumnUnit, args_.n - first_column - std::int64_t{width - 1} * kColumnUnit));
    run_shape(t, tile_rows(row), width, b_in_place);
  }

  static void run_shape(const TileArguments& t, int rows, int columns, bool b_in_place) {
    if constexpr (kConfig.uneven_rows) {
      if (rows < kConfig.rows) return run_rows<kConfig.rows - 1>(t, columns, b_in_place);
    }
    run_rows<kConfig.rows>(t, columns, b_in_place);
  }

  template <int kRows>
  static void run_rows(const TileArguments& t, int columns, bool b_in_place) {
    if constexpr (kConfig.uneven_columns) {
      if (columns < kConfig.columns) return run_columns<kRows, kConfig.columns - 1>(t, b_in_place);
    }
    run_columns<kRows, kConfig.columns>(t, b_in_place);
  }

  template <int kRows, int kColumns>
  static void run_columns(const TileArguments& t, bool b_in_place) {
    if constexpr (!kOuter) {
      InnerTile<kConfig, kRows, kColumns>::run(t);
    } else {
      if constexpr (kConfig.b != Source::packed) {
        if (b_in_place) {
          if constexpr (kConfig.ragged_columns) {
            if (t.last_count < kConfig.lanes) return OuterTile<kConfig, kRows, kColumns, kConfig.b, true>::run(t);
          }
          return OuterTile<kConfig, kRows, kColumns, kConfig.b, false>::run(t);
        }
      }
      if constexpr (kConfig.b != Source::direct) OuterTile<kConfig, kRows, kColumns, Source::packed, false>::run(t);
    }
  }

  // Splitting k: every thread has left float sums of all of its tiles; now each adds up a share of the rows, in the
  // order of k, and rounds once.
  void add_partial_sums() {
    args_.barrier(args_.barrier_state);
    const int threads_k = static_cast<int>(parameter(kThreadsK));
    const Range rows = part_range(args_.m, args_.threads, thread_);
    const std::int64_t next = parameter(kThreadBytes) / static_cast<std::int64_t>(sizeof(float));
    const float* first = reinterpret_cast<const float*>(static_cast<const char*>(args_.workspace) +
                                                        parameter(kPackedABytes) + parameter(kPackedBBytes));
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      for (std::int64_t column = 0; column < args_.n; column += kConfig.lanes) {
        auto sum = S::load(first + row * ld_sums_ + column);
        for (int part = 1; part < threads_k; ++part) {
          sum = S::add(sum, S::load(first + part * next + row * ld_sums_ + column));
        }
        const auto half = S::template narrow<kConfig.element>(sum);
        std::uint16_t* c = args_.c + row * args_.ldc + column;
        if (column + kConfig.lanes <= args_.n)
          S::store_half(c, half);
        else
          S::store_half(c, half, static_cast<int>(args_.n - column));
      }
    }
  }

  const WarpsmithCpuArguments& args_;
  int thread_ = 0;
  Range row_tiles_, column_tiles_, k_;
  float* packed_a_ = nullptr;
  float* packed_b_ = nullptr;
  float* sums_ = nullptr;
  std::int64_t ld_sums_ = 0;
  std::int64_t sums_row_ = 0;  // row of C that the sums begin at
};

}  // namespace warpsmith::cpu
