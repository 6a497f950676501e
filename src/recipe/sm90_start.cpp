// The estimate behind the sm90 family's starting points, and the recipes that
// it ranks. Constants are of an H200; they only have to be right in proportion.
#include "recipe/sm90_start.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace warpsmith {

namespace {

constexpr double kFlopsPerCycle = 4096;         // dense half precision, per multiprocessor
constexpr double kLoadBytesPerCycle = 42;       // from the L2 cache, per multiprocessor
constexpr double kStoreBytesPerCycle = 30;      // of results, per multiprocessor
constexpr double kClusterBytesPerCycle = 5;     // of partial sums, through distributed shared memory
constexpr double kWorkspaceBytesPerCycle = 12;  // of partial sums: written, read and cleared in the L2 cache
constexpr double kStartCycles = 1500;           // from launch to the first multiply
constexpr double kClusterCycles = 500;          // more than that, for a cluster
constexpr double kMeetCycles = 1200;            // partial sums of blocks that wait for one another
constexpr double kTileCycles = 600;             // between two tiles of a persistent block
constexpr double kMemoryBytesPerCycle = 2200;   // of the whole device

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// One stage of one block: the slower of multiplying and loading.
double stage_cycles(const Sm90Knobs& k, std::int64_t stages) {
  // Below 64 columns wgmma waits for A from shared memory.
  const double multiply = 2.0 * k.tile_m * std::max(k.tile_n, 64) * k.tile_k / kFlopsPerCycle;
  // Multicast saves half of what it could: the blocks of a cluster wait for one
  // another.
  const double rows = 0.5 * k.tile_m * (1 + 1.0 / k.cluster_n) + 0.5 * k.tile_n * (1 + 1.0 / k.cluster_m);
  const double load = 2.0 * rows * k.tile_k / kLoadBytesPerCycle;
  // Few stages leave no slack between loading and multiplying.
  const double slack = k.stages == 2 && stages > 2 ? 1.25 : k.stages == 3 && stages > 3 ? 1.08 : 1.0;
  return slack * std::max(multiply, load) + 0.1 * std::min(multiply, load);
}

// Blocks of one multiprocessor at the same time; with 64 KiB and more of shared
// memory each, a few at most.
int blocks_per_unit(const Sm90Knobs& k, const Problem& problem, const Machine& machine) {
  const std::int64_t fit = (machine.smem_bytes_per_block + 1024) / (sm90_smem_bytes(k, problem) + 1024);
  return k.consumers > 1 ? 1 : static_cast<int>(std::clamp<std::int64_t>(fit, 1, 3));
}

// From launch to the first multiply; blocks of a cluster start together, and with multicast meet before they load.
double start_cycles(const Sm90Knobs& k) { return kStartCycles + (k.cluster_size() > 1 ? kClusterCycles : 0); }

double tile_after_tile(const Sm90Knobs& k, double tiles, double multiply, double store) {
  const double write = store + kTileCycles;
  if (k.pingpong) return start_cycles(k) + tiles * std::max(multiply, 0.5 * (multiply + write)) + write;
  // TMA stores drain while the next tile is multiplied; other stores do not.
  const double exposed = k.epilogue == kSm90Tma ? kTileCycles + (k.staging > 0 ? 0.6 : 0.4) * store : write;
  return start_cycles(k) + tiles * (multiply + exposed) + store;
}

double streamed(const Sm90Knobs& k, const Problem& problem, const Machine& machine, double stage, double store) {
  const std::int64_t clusters = sm90_clusters(k, problem, machine), k_tiles = sm90_k_tiles(k, problem);
  const std::int64_t dealt = sm90_dealt_tiles(k, problem, machine), whole = sm90_tiles(k, problem) / clusters;
  const double stretch = std::ceil(static_cast<double>(dealt * k_tiles) / static_cast<double>(clusters));
  const double pieces = k.split > 1 ? 1 : 1 + static_cast<double>(dealt) / static_cast<double>(clusters);
  const double meet = kMeetCycles + pieces * 4.0 * k.tile_m * k.tile_n / kWorkspaceBytesPerCycle;
  const double multiply = stage * static_cast<double>(k_tiles);
  return start_cycles(k) + stage * stretch + static_cast<double>(whole) * (multiply + store + kTileCycles) + meet;
}

Recipe to_recipe(const Sm90Knobs& k) {
  Recipe recipe(sm90_family());
  recipe.set("tile_m", k.tile_m).set("tile_n", k.tile_n).set("tile_k", k.tile_k);
  recipe.set("cluster_m", k.cluster_m).set("cluster_n", k.cluster_n).set("split", k.split);
  recipe.set("stages", k.stages).set("consumers", k.consumers).set("group", k.group);
  recipe.set("persistent", k.persistent).set("streamk", k.streamk).set("pingpong", k.pingpong).set("swap", k.swap);
  recipe.set("epilogue", k.epilogue).set("staging", k.staging);
  // Where all of a block's stages are its first round.
  recipe.set("pace", k.cluster_split() > 1 ? 64 : 0);
  return recipe;
}

// As many stages as shared memory holds and the K range fills; false where not
// even two fit.
bool set_stages(Sm90Knobs& k, const Problem& problem, const Machine& machine) {
  const std::int64_t useful = k.persistent && k.split == 1 ? 12 : ceil_div(sm90_k_tiles(k, problem), k.split);
  k.stages = 0;
  const std::int64_t fixed = sm90_smem_bytes(k, problem);  // of the epilogue's buffer, if that is apart
  k.stages = 1;
  Sm90Knobs without_epilogue = k;
  without_epilogue.epilogue = kSm90Direct;
  const std::int64_t stage = sm90_smem_bytes(without_epilogue, problem);
  const std::int64_t room = machine.smem_bytes_per_block - (k.persistent ? fixed + 1024 : 0);
  k.stages = static_cast<int>(std::clamp<std::int64_t>(std::min(useful, room / stage), 2, 12));
  return sm90_smem_bytes(k, problem) <= machine.smem_bytes_per_block;
}

// The kinds of kernel that starting points are to differ in.
enum class Kind { plain, cluster_split, persistent, pingpong, streamk };
Kind kind_of(const Sm90Knobs& k) {
  if (k.streamk) return Kind::streamk;
  if (k.pingpong) return Kind::pingpong;
  if (k.persistent) return Kind::persistent;
  return k.split > 1 ? Kind::cluster_split : Kind::plain;
}

// Collects what a tile can be used for.
class Candidates {
 public:
  Candidates(const Problem& problem, const Machine& machine) : problem_(problem), machine_(machine) {}

  // All ways of working on the tiles of `base`, whose tile, consumers and swap
  // are set.
  void add_all(const Sm90Knobs& base) {
    for (const auto& [m, n] : {std::pair{1, 1}, {2, 1}, {1, 2}, {4, 1}}) {
      Sm90Knobs k = base;
      k.cluster_m = m;
      k.cluster_n = n;
      const Sm90Product product = sm90_product(k, problem_);
      if ((m > 1 && product.m <= k.tile_m * (m - 1)) || (n > 1 && product.n <= k.tile_n * (n - 1))) continue;
      if (product.b_k_major && k.tile_n % (8 * m) != 0) continue;
      add_plain(k);
      add_persistent(k);
      add_streamed(k);
    }
  }

  std::vector<std::pair<double, Sm90Knobs>> ranked() && {
    std::stable_sort(found_.begin(), found_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    return std::move(found_);
  }

 private:
  void add(Sm90Knobs k) {
    if (k.accumulators(problem_.accumulator) > sm90_accumulator_limit(k, problem_) || k.cluster_size() > 16) return;
    if (!set_stages(k, problem_, machine_)) return;
    found_.emplace_back(sm90_estimated_cycles(k, problem_, machine_), k);
  }

  void add_plain(Sm90Knobs k) {
    const std::int64_t k_tiles = sm90_k_tiles(k, problem_);
    for (const int split : {1, 2, 4, 8, 16}) {
      if (split > k_tiles || (split > 1 && k.cluster_m * k.cluster_n > 2)) continue;
      k.split = split;
      add(k);
    }
  }

  void add_persistent(Sm90Knobs k) {
    if (sm90_tiles(k, problem_) <= sm90_resident_clusters(k, machine_)) return;
    k.persistent = 1;
    k.epilogue = problem_.c_ld() % 8 == 0 && problem_.n % 8 == 0 ? kSm90Tma : kSm90Staged;
    add(k);
    const bool slices = k.epilogue == kSm90Tma && !k.swap && k.tile_n % 64 == 0 && k.tile_n >= 192;
    if (slices) {
      k.staging = 2;
      add(k);
    }
    if (k.consumers != 2 || k.tile_m > 128) return;
    k.pingpong = 1;
    add(k);
  }

  void add_streamed(Sm90Knobs k) {
    const std::int64_t tiles = sm90_tiles(k, problem_), k_tiles = sm90_k_tiles(k, problem_);
    const int resident = sm90_resident_clusters(k, machine_);
    k.persistent = k.streamk = 1;
    k.epilogue = kSm90Direct;
    if (tiles % resident != 0 && tiles < 4 * resident && tiles * k_tiles >= 4 * resident) add(k);
    for (const int split : {32, 24, 16, 12, 10, 8, 7, 6, 5, 4, 3, 2}) {
      if (tiles * split > resident || split * 2 > k_tiles) continue;
      k.split = split;
      add(k);
      break;
    }
  }

  const Problem& problem_;
  const Machine& machine_;
  std::vector<std::pair<double, Sm90Knobs>> found_;
};

// Usual widths, and those that divide the problem's evenly; twice its size only
// wastes.
std::set<int> promising_widths(std::int64_t n) {
  std::set<int> widths;
  for (const int width : {8, 16, 32, 64, 96, 128, 160, 192, 256}) {
    if (width <= 32 || width < 2 * n) widths.insert(width);
  }
  for (std::int64_t parts = std::max<std::int64_t>(1, ceil_div(n, 256)), i = 0; i < 4; ++i, ++parts) {
    const auto width = static_cast<int>(ceil_div(ceil_div(n, parts), 8) * 8);
    if (width >= 40 && width <= 256) widths.insert(width);
  }
  return widths;
}

std::vector<std::pair<double, Sm90Knobs>> promising(const Problem& problem, const Machine& machine) {
  Candidates candidates(problem, machine);
  for (const int swap : {0, 1}) {
    Sm90Knobs base = sm90_knobs(Recipe(sm90_family()));
    base.swap = swap;
    const Sm90Product product = sm90_product(base, problem);
    if (swap == 1 && product.n > 256) continue;  // a long side gains nothing
    const std::set<int> widths = promising_widths(product.n);
    for (const auto& [tile_m, consumers] : {std::pair{64, 1}, {64, 2}, {128, 2}, {256, 2}, {128, 1}, {192, 3}}) {
      if (tile_m > 64 && tile_m >= 2 * product.m) continue;
      for (const int width : widths) {
        for (const int tile_k : {64, 128}) {
          base.tile_m = tile_m;
          base.tile_n = width;
          base.tile_k = tile_k;
          base.consumers = consumers;
          candidates.add_all(base);
        }
      }
    }
  }
  return std::move(candidates).ranked();
}

}  // namespace

double sm90_estimated_cycles(const Sm90Knobs& k, const Problem& problem, const Machine& machine) {
  const std::int64_t k_tiles = sm90_k_tiles(k, problem);
  const double store = 2.0 * k.tile_m * k.tile_n / kStoreBytesPerCycle;
  const double stage = stage_cycles(k, ceil_div(k_tiles, k.split));
  const double resident = sm90_resident_clusters(k, machine);
  double waves = static_cast<double>(sm90_tiles(k, problem)) / resident;
  double cycles = 0;
  if (k.streamk) {
    cycles = streamed(k, problem, machine, stage, store);
  } else if (k.persistent) {
    cycles = tile_after_tile(k, std::ceil(waves), stage * static_cast<double>(k_tiles), store);
  } else {
    const double starts = std::ceil(waves / blocks_per_unit(k, problem, machine));
    if (waves <= 4) waves = std::ceil(waves);  // a long queue of blocks evens out
    const double meet = k.split > 1 ? kMeetCycles + 4.0 * k.tile_m * k.tile_n / kClusterBytesPerCycle : 0;
    const double body = stage * static_cast<double>(ceil_div(k_tiles, k.split)) + store + meet;
    cycles = start_cycles(k) * (0.5 + 0.5 * starts) + waves * body;
  }
  // Cold operands come from memory, and results go there.
  return std::max(cycles, kStartCycles + problem.bytes() / kMemoryBytesPerCycle) + 0.1 * cycles;
}

std::vector<Recipe> sm90_starting_points(const Problem& problem, const Machine& machine) {
  constexpr std::size_t kPoints = 10, kOfOneKind = 4;
  std::vector<Recipe> chosen;
  std::map<Kind, std::size_t> kinds;
  std::map<std::pair<int, int>, int> tiles;
  double last = 0;
  for (auto [cycles, k] : promising(problem, machine)) {
    // The same estimate means the same but for a symmetry.
    if (cycles == last || kinds[kind_of(k)] == kOfOneKind || tiles[{k.tile_m, k.tile_n}] == 2) continue;
    if (sm90_tiles(k, problem) > machine.units) k.group = 16;
    Recipe recipe = to_recipe(k);
    if (!is_legal(recipe, problem, machine)) continue;
    last = cycles;
    ++kinds[kind_of(k)];
    ++tiles[{k.tile_m, k.tile_n}];
    chosen.push_back(std::move(recipe));
    if (chosen.size() == kPoints) break;
  }
  return chosen;
}

}  // namespace warpsmith
