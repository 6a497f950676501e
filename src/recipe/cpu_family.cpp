// The cpu family: packed, blocked and vectorised kernels for AVX2 and AVX-512.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "recipe/cpu_plan.h"
#include "recipe/knob.h"
#include "recipe/recipe.h"

namespace warpsmith {

namespace {

using Reason = std::optional<std::string>;

constexpr std::int64_t kMaxWorkspaceBytes = std::int64_t{1} << 30;

const std::vector<int> kTileRows = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 20, 24, 28};
const std::vector<int> kTileColumns = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12};

std::vector<std::string> words_with_all(const std::vector<int>& values) {
  std::vector<std::string> words;
  for (const int value : values) words.push_back(value == 0 ? "all" : std::to_string(value));
  return words;
}

KnobField block_field(const char* name, const std::vector<int>& values) {
  return {name, values, 0, words_with_all(values)};
}

std::vector<Knob> knobs() {
  return {
      {"simd",
       "instruction set: 8 floats in 16 registers, 8 in 32, or 16 in 32",
       {{"simd", {kCpuAvx2, kCpuAvx512Vl, kCpuAvx512}, kCpuAvx2, {"avx2", "avx512vl", "avx512"}}}},
      {"form",
       "outer: vectors along n, one rank-1 update per k; inner: vectors along k, summed across lanes at the end",
       {{"form", {kCpuOuter, kCpuInner}, kCpuOuter, {"outer", "inner"}}}},
      {"tile",
       "register tile: rows of C by vectors (outer) or columns (inner); at most, tiles are balanced",
       {{"tile_rows", kTileRows, 4, {}}, {"tile_columns", kTileColumns, 2, {}}}},
      {"a",
       "where tiles read A: in place, widened in registers, or from a packed float copy",
       {{"a", {kCpuDirect, kCpuPacked}, kCpuPacked, {"direct", "packed"}}}},
      {"b",
       "where tiles read B: in place, from a copy that the first row tile leaves, or from a packed float copy",
       {{"b", {kCpuDirect, kCpuFused, kCpuPacked}, kCpuPacked, {"direct", "fused", "packed"}}}},
      {"unroll", "unrolling of the loop over k (outer)", {{"unroll", {1, 2, 4, 8}, 4, {}}}},
      {"block",
       "cache block: row tiles by column tiles by elements of k",
       {block_field("block_m", {1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 0}),
        block_field("block_n", {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 0}),
        block_field("block_k", {8, 16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096, 0})}},
      {"order",
       "which tiles the innermost loop of a block walks",
       {{"order", {kCpuColumnsInner, kCpuRowsInner}, kCpuRowsInner, {"columns", "rows"}}}},
      {"prefetch",
       "distance of the software prefetch of B read in place: rows of k (outer), elements (inner); 0: none",
       {{"prefetch", {0, 4, 8, 16, 32, 64, 128, 256, 512}, 0, {}}}},
      {"nest",
       "which cache blocks follow one another: rows: all row blocks of a block of k; depth: all of k of a row block",
       {{"nest", {kCpuNestRows, kCpuNestDepth}, kCpuNestRows, {"rows", "depth"}}}},
      {"prefetch_a",
       "prefetch of A where it is read: nothing, the elements further along k, or the next row tile",
       {{"prefetch_a",
         {kCpuPrefetchANone, kCpuPrefetchANextDepth, kCpuPrefetchANextRows},
         kCpuPrefetchANone,
         {"none", "depth", "rows"}}}},
      {"preload",
       "prefetch of whole ranges: a line of every page of the operands, blocks of B in place before A is packed",
       {{"preload", {0, 1, 2, 3}, 0, {"none", "pages", "b", "all"}}}},
      {"threads", "threads used", {{"threads", {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128}, 1, {}}}},
      {"split",
       "dimension that is dealt out to the threads; k adds partial sums after a barrier",
       {{"split", {kCpuSplitM, kCpuSplitN, kCpuSplitMn, kCpuSplitK}, kCpuSplitM, {"m", "n", "mn", "k"}}}},
  };
}

Reason check_isa(const Recipe& recipe, const Problem*, const Machine& machine) {
  if (recipe.get("simd") == kCpuAvx2) {
    if (machine.avx2) return std::nullopt;
    return "simd=avx2 needs AVX2, FMA and F16C, which this machine lacks";
  }
  if (machine.avx512) return std::nullopt;
  return "simd=avx512 and avx512vl need AVX-512 F, BW, DQ and VL, which this machine lacks";
}

Reason check_register_tile(const Recipe& recipe, const Problem*, const Machine&) {
  const int rows = recipe.get("tile_rows"), columns = recipe.get("tile_columns");
  const int available = recipe.get("simd") == kCpuAvx2 ? 16 : 32;
  const int needed = rows * columns + columns + 1;  // accumulators, a row of B, an element of A
  if (needed <= available) return std::nullopt;
  return fmt::format("tile={}x{} needs {} vector registers, {} are there", rows, columns, needed, available);
}

Reason check_sources(const Recipe& recipe, const Problem*, const Machine&) {
  const bool outer = recipe.get("form") == kCpuOuter;
  if (outer && recipe.get("a") == kCpuDirect) return "form=outer broadcasts single elements of A, so it needs a=packed";
  if (!outer && recipe.get("b") == kCpuFused) return "b=fused is a copy by rows of k, so it needs form=outer";
  if (recipe.get("b") == kCpuFused && recipe.get("order") != kCpuRowsInner) {
    return "b=fused keeps the copy of one column tile, so it needs order=rows";
  }
  if (recipe.get("b") == kCpuPacked && recipe.get("prefetch") != 0) {
    return fmt::format("prefetch={} is for B read in place, and b=packed", recipe.get("prefetch"));
  }
  return std::nullopt;
}

Reason check_layout(const Recipe& recipe, const Problem* problem, const Machine&) {
  const bool outer = recipe.get("form") == kCpuOuter;
  if (outer && problem->b_is_k_major() && recipe.get("b") != kCpuPacked) {
    return "form=outer reads rows of B along n, and B is stored n x k: it needs b=packed";
  }
  if (!outer && !problem->b_is_k_major() && recipe.get("b") == kCpuDirect) {
    return "form=inner reads B along k, and B is stored k x n: it needs b=packed";
  }
  if (!outer && !problem->a_is_k_major() && recipe.get("a") == kCpuDirect) {
    return "form=inner reads A along k, and A is stored k x m: it needs a=packed";
  }
  return std::nullopt;
}

// The smallest value that covers `size`: larger ones describe the same kernel.
int covering(const std::vector<int>& values, std::int64_t size) {
  const auto found = std::find_if(values.begin(), values.end(), [&](int value) { return value >= size; });
  return found == values.end() ? values.back() : *found;
}

Reason check_tile_fits(const Recipe& recipe, const Problem* problem, const Machine&) {
  const int lanes = recipe.get("simd") == kCpuAvx512 ? 16 : 8;
  const bool outer = recipe.get("form") == kCpuOuter;
  const std::int64_t units = outer ? (problem->n + lanes - 1) / lanes : problem->n;
  const int rows = recipe.get("tile_rows"), columns = recipe.get("tile_columns");
  if (rows > covering(kTileRows, problem->m)) return fmt::format("tile of {} rows, and m is {}", rows, problem->m);
  if (columns > covering(kTileColumns, units)) {
    return fmt::format("tile of {} {}, and n has {}", columns, outer ? "vectors" : "columns", units);
  }
  return std::nullopt;
}

Reason check_accumulator(const Recipe&, const Problem* problem, const Machine&) {
  if (problem->accumulator == AccumulatorType::f32) return std::nullopt;
  return "the cpu family accumulates in f32 only";
}

// The kernels take leading dimensions, but their packed copies and prefetches are planned for packed operands.
Reason check_plain(const Recipe&, const Problem* problem, const Machine&) {
  if (problem->scaled()) return "the cpu family computes C = A B, without alpha and beta";
  if (!problem->packed()) return "the cpu family takes packed operands: leading dimensions are the column counts";
  return std::nullopt;
}

Reason check_threads(const Recipe& recipe, const Problem*, const Machine& machine) {
  const int threads = recipe.get("threads");
  if (threads > machine.units) return fmt::format("threads={}, and {} may be used", threads, machine.units);
  if (threads == 1 && recipe.get("split") != kCpuSplitM)
    return "one thread has nothing to split: split=m stands for it";
  if (recipe.get("split") == kCpuSplitK && recipe.get("block_n") != 0) {
    return "split=k keeps the partial sums of all columns, so it needs block_n=all";
  }
  return std::nullopt;
}

Reason check_shares(const Recipe& recipe, const Problem* problem, const Machine&) {
  const CpuPlan plan = plan_cpu(recipe, *problem);
  if (plan.threads_m > plan.row_tiles) {
    return fmt::format("{} threads along m share {} row tiles", plan.threads_m, plan.row_tiles);
  }
  if (plan.threads_n > plan.column_tiles) {
    return fmt::format("{} threads along n share {} column tiles", plan.threads_n, plan.column_tiles);
  }
  if (plan.threads_k > problem->k) return fmt::format("{} threads along k share k = {}", plan.threads_k, problem->k);
  return std::nullopt;
}

Reason check_workspace(const Recipe& recipe, const Problem* problem, const Machine&) {
  const std::int64_t bytes = plan_cpu(recipe, *problem).workspace_bytes();
  if (bytes <= kMaxWorkspaceBytes) return std::nullopt;
  return fmt::format("workspace of {} bytes, at most {} are given", bytes, kMaxWorkspaceBytes);
}

std::vector<Rule> rules() {
  return {
      {"isa", "the machine has the instruction set", false, check_isa},
      {"register_tile", "accumulators, a row of B and an element of A fit the vector registers", false,
       check_register_tile},
      {"sources", "form, a, b, order and prefetch agree", false, check_sources},
      {"threads", "as many threads as the machine gives, and a split that they can do", false, check_threads},
      {"accumulator", "sums are kept in f32", true, check_accumulator},
      {"plain", "packed operands, without alpha and beta", true, check_plain},
      {"layout", "operands read in place are stored along the vectors", true, check_layout},
      {"tile_fits", "no larger tile than the problem needs", true, check_tile_fits},
      {"shares", "every thread gets a share", true, check_shares},
      {"workspace", "packed copies and float sums within 1 GiB", true, check_workspace},
  };
}

// Collects recipes written as text: legal ones only, each once, at most kMost.
class StartingPoints {
 public:
  StartingPoints(const Problem& problem, const Machine& machine) : problem_(problem), machine_(machine) {
    const auto& threads = threads_field().values;
    for (const int value : threads) {
      if (value <= machine.units) threads_ = value;
    }
  }

  // `tile` is cut to the problem. Splits are tried in the order given until one is legal.
  void add(const std::string& simd, int rows, int columns, const std::string& rest, const std::string& splits) {
    const bool outer = rest.find("form=inner") == std::string::npos;
    const int lanes = simd == "avx512" ? 16 : 8;
    rows = std::min(rows, covering(kTileRows, problem_.m));
    columns = std::min(columns, covering(kTileColumns, outer ? (problem_.n + lanes - 1) / lanes : problem_.n));
    const std::string text = fmt::format("cpu simd={} tile={}x{} {}", simd, rows, columns, rest);
    for (std::size_t i = 0; threads_ > 1 && i < splits.size(); ++i) {
      if (push(fmt::format("{} threads={} split={}", text, threads_, splits[i]))) return;
    }
    push(text);
  }

  std::vector<Recipe> take() { return std::move(points_); }

 private:
  static const KnobField& threads_field() {
    for (const KnobField* field : cpu_family().fields()) {
      if (field->name == "threads") return *field;
    }
    throw std::logic_error("the cpu family has no field named threads");
  }

  bool push(const std::string& text) {
    constexpr std::size_t kMost = 16;
    const Recipe recipe = parse_recipe(text).value();
    if (!is_legal(recipe, problem_, machine_)) return false;
    const bool known = std::find(points_.begin(), points_.end(), recipe) != points_.end();
    if (!known && points_.size() < kMost) points_.push_back(recipe);
    return true;
  }

  const Problem& problem_;
  const Machine& machine_;
  int threads_ = 1;
  std::vector<Recipe> points_;
};

struct Tile {
  int rows, columns;
};

// One operand is a stream through memory, the other is a few rows or columns that stay in cache.
void add_skinny_rows(StartingPoints& points, const Problem& problem, bool avx512) {
  const std::string simd = avx512 ? "avx512" : "avx2";
  const int m = static_cast<int>(problem.m);
  if (problem.b_is_k_major()) {
    const std::vector<Tile> tiles =
        avx512 ? std::vector<Tile>{{4, 6}, {4, 5}, {8, 2}} : std::vector<Tile>{{3, 3}, {2, 4}};
    for (const char* rest : {"form=inner a=packed b=direct", "form=inner a=packed b=direct prefetch=512",
                             "form=inner a=packed b=direct block=allxallx1024",
                             "form=inner a=packed b=direct block=allxallx1024 prefetch=256"}) {
      for (const Tile tile : tiles) points.add(simd, tile.rows, m <= 2 ? 8 : tile.columns, rest, "nk");
    }
    return;
  }
  if (m <= 6) {
    const int registers = avx512 ? 31 : 15;
    const int columns = std::min(8, registers / (m + 1));
    for (const char* rest : {"b=direct block=allxallx16", "b=direct block=allxallx16 prefetch=16",
                             "b=direct block=allxallx32", "b=direct block=allxallx32 prefetch=32",
                             "b=direct block=allxallx64 prefetch=16", "b=direct block=allxallx8"}) {
      points.add(simd, m, m == 4 ? std::min(columns, 4) : columns, rest, "nk");
      if (m > 1) points.add(simd, m, columns, rest, "kn");
    }
    return;
  }
  const std::vector<Tile> tiles =
      avx512 ? std::vector<Tile>{{8, 3}, {6, 4}, {14, 2}} : std::vector<Tile>{{4, 3}, {6, 2}};
  for (const char* rest : {"b=fused block=allxallx64", "b=fused block=allxallx64 prefetch=16",
                           "b=fused block=allxallx128", "b=fused block=allxallx32 prefetch=32"}) {
    for (const Tile tile : tiles) points.add(simd, tile.rows, tile.columns, rest, "nk");
  }
}

void add_skinny_columns(StartingPoints& points, const Problem& problem, bool avx512) {
  const std::string simd = avx512 ? "avx512" : "avx2";
  const std::vector<Tile> tiles =
      avx512 ? std::vector<Tile>{{6, 4}, {4, 5}, {8, 2}} : std::vector<Tile>{{3, 3}, {2, 4}};
  for (const Tile tile : tiles) {
    const std::string a = problem.a_is_k_major() ? "direct" : "packed";
    for (const char* rest : {"", "prefetch_a=rows", "block=1xallx512 nest=depth prefetch_a=depth"}) {
      points.add(simd, tile.rows, tile.columns, fmt::format("form=inner a={} b=packed order=columns {}", a, rest),
                 "mk");
    }
  }
  for (const int rows : {24, 14, 10}) {
    for (const char* rest :
         {"b=packed block=1xallx256 nest=depth prefetch_a=depth", "b=packed block=1xallx128 nest=depth"}) {
      points.add(simd, rows, 1, rest, "mk");
    }
  }
}

// Vectors of 16 lanes, or of 8 where 16 would leave too many of them past n.
std::string simd_for(const Problem& problem, bool avx512) {
  if (!avx512) return "avx2";
  const auto padded = [&](std::int64_t lanes) { return (problem.n + lanes - 1) / lanes * lanes; };
  return 25 * padded(16) > 26 * padded(8) ? "avx512vl" : "avx512";
}

void add_large(StartingPoints& points, const Problem& problem, bool avx512) {
  const std::string simd = avx512 ? "avx512" : "avx2";
  const Tile tile = avx512 ? Tile{14, 2} : Tile{6, 2};
  const std::string splits = problem.n >= problem.m ? "nm" : "mn";
  const std::string whole = problem.k <= 1536 ? "all" : "1024";
  for (const std::string& rest :
       {fmt::format("b=packed block=16xallx{} order=columns", whole), fmt::format("b=packed block=8xallx{}", whole),
        fmt::format("b=packed block=16xallx{}", whole), fmt::format("b=fused block=16xallx{}", whole),
        std::string("b=packed block=16xallx512"), std::string("b=packed block=8xallx512 nest=depth"),
        std::string("b=packed block=16x64x512"), std::string("b=packed block=16x32x256")}) {
    points.add(simd, tile.rows, tile.columns, rest, splits);
  }
  if (avx512) {
    points.add(simd, 8, 3, fmt::format("b=fused block=16xallx{}", whole), splits);
    points.add(simd, 12, 2, fmt::format("b=packed block=16xallx{} order=columns", whole), splits);
  }
}

void add_general(StartingPoints& points, const Problem& problem, bool avx512) {
  const std::string simd = simd_for(problem, avx512);
  std::vector<Tile> tiles =
      avx512 ? std::vector<Tile>{{6, 4}, {8, 3}, {5, 5}, {14, 2}} : std::vector<Tile>{{6, 2}, {4, 3}, {4, 2}};
  // Tiles that divide n come first.
  const std::int64_t lanes = simd == "avx512" ? 16 : 8, vectors = (problem.n + lanes - 1) / lanes;
  std::stable_partition(tiles.begin(), tiles.end(), [&](Tile tile) { return vectors % tile.columns == 0; });
  const std::string splits = problem.n > 2 * problem.m ? "nmk" : "mnk";
  const bool long_k = problem.k > 1536;
  const std::string block = long_k ? "block=allxallx1024 prefetch_a=depth" : "prefetch_a=rows";
  for (const Tile tile : tiles) {
    points.add(simd, tile.rows, tile.columns, "b=fused preload=b " + block, splits);
  }
  for (const Tile tile : tiles) {
    points.add(simd, tile.rows, tile.columns,
               "b=packed order=columns prefetch_a=rows block=2xallx" + std::string(long_k ? "1024" : "all"), splits);
  }
  if (long_k) {
    for (const Tile tile : tiles) {
      points.add(simd, tile.rows, tile.columns, "b=fused preload=b block=allxallx512 prefetch_a=depth", "kmn");
      points.add(simd, tile.rows, tile.columns, "b=packed block=allxallx512 prefetch_a=depth", "kmn");
    }
  }
  if (problem.b_is_k_major()) {
    const std::string a = problem.a_is_k_major() ? "direct" : "packed";
    for (const Tile tile : avx512 ? std::vector<Tile>{{5, 5}, {4, 6}} : std::vector<Tile>{{3, 3}, {2, 4}}) {
      points.add(avx512 ? "avx512" : "avx2", tile.rows, tile.columns, fmt::format("form=inner a={} b=direct", a),
                 splits);
    }
  }
  if (simd == "avx512vl") points.add("avx512", 8, 3, "b=fused preload=b " + block, splits);
}

std::vector<Recipe> starting_points(const Problem& problem, const Machine& machine) {
  StartingPoints points(problem, machine);
  const bool avx512 = machine.avx512;
  if (problem.m <= 16 && problem.n >= 512 && problem.k >= 64) {
    add_skinny_rows(points, problem, avx512);
  } else if (problem.n <= 24 && problem.m >= 512 && problem.k >= 64) {
    add_skinny_columns(points, problem, avx512);
  } else if (std::min(problem.m, problem.n) >= 192 && problem.flops() >= 5e7) {
    add_large(points, problem, avx512);
  } else {
    add_general(points, problem, avx512);
  }
  // Whatever else holds, something with small blocks and small tiles.
  const std::string simd = avx512 ? "avx512" : "avx2";
  points.add(simd, 4, 2, "b=packed block=16x16x256", "mnk");
  points.add(simd, 4, 2, "b=packed block=4x4x256 nest=depth", "mnk");
  points.add(simd, 4, 2, "form=inner a=packed b=packed block=16x16x1024", "mnk");
  return points.take();
}

}  // namespace

const Family& cpu_family() {
  static const Family kFamily = {
      "cpu", "vectorised C++ kernels for AVX2 and AVX-512", Target::cpu, knobs(), rules(), starting_points};
  return kFamily;
}

}  // namespace warpsmith
