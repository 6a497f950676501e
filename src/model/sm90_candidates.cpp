// What the sm90 family offers: all tiles in all ways of working first, then the best of them with other clusters,
// stages, epilogues and rasters.
#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "model/candidates.h"

namespace warpsmith::model {

namespace {

constexpr std::size_t kRefined = 40;  // ways of working on a tile that are tried with other details

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

enum Mode { kPlain, kClusterSplit, kPersistent, kPingpong, kDealt, kWorkspaceSplit };
Mode mode_of(const Sm90Knobs& k) {
  if (k.streamk) return k.split > 1 ? kWorkspaceSplit : kDealt;
  if (k.pingpong) return kPingpong;
  if (k.persistent) return kPersistent;
  return k.split > 1 ? kClusterSplit : kPlain;
}

class Sm90Candidates {
 public:
  explicit Sm90Candidates(const Setting& setting) : setting_(setting), problem_(setting.problem) {}

  void add_tiles();
  void refine();
  std::vector<std::pair<double, Sm90Knobs>> take() && { return std::move(found_); }

 private:
  void add_all_modes(const Sm90Knobs& base);
  void add_streamed(Sm90Knobs k);
  void vary(const Sm90Knobs& base);
  void add(Sm90Knobs k, int blocks_per_unit = 1);
  int most_stages(Sm90Knobs k, std::int64_t smem_bytes) const;

  const Setting& setting_;
  const Problem& problem_;
  std::vector<std::pair<double, Sm90Knobs>> found_;
};

// As many as fit and K fills; below 2: none.
int Sm90Candidates::most_stages(Sm90Knobs k, std::int64_t smem_bytes) const {
  const Sm90Product product = sm90_product(k, problem_);
  const std::int64_t stage = sm90_operand_boxes(k.tile_m, k.tile_k, product.a_k_major).bytes() +
                             sm90_operand_boxes(k.tile_n, k.tile_k, product.b_k_major).bytes() + 16;
  const std::int64_t steps = ceil_div(sm90_k_tiles(k, problem_), k.persistent && k.split == 1 ? 1 : k.split);
  const std::int64_t useful = k.persistent && k.split == 1 ? 12 : std::max<std::int64_t>(2, steps);
  k.stages = static_cast<int>(std::min({std::int64_t{12}, useful, smem_bytes / stage}));
  while (k.stages >= 2 && sm90_smem_bytes(k, problem_) > smem_bytes) --k.stages;
  return k.stages;
}

// With the stages that leave room for so many blocks.
void Sm90Candidates::add(Sm90Knobs k, int blocks_per_unit) {
  if (k.accumulators(problem_.accumulator) > sm90_accumulator_limit(k, problem_) || k.cluster_size() > 16) return;
  std::int64_t smem_bytes = setting_.machine.smem_bytes_per_block;
  if (blocks_per_unit > 1) smem_bytes = (smem_bytes + 1024) / blocks_per_unit - 1024;
  k.stages = most_stages(k, smem_bytes);
  if (k.stages < 2) return;
  found_.emplace_back(estimate_sm90(k, setting_).time_us, k);
}

void Sm90Candidates::add_streamed(Sm90Knobs k) {
  const std::int64_t tiles = sm90_tiles(k, problem_), k_tiles = sm90_k_tiles(k, problem_);
  const int resident = sm90_resident_clusters(k, setting_.machine);
  k.persistent = k.streamk = 1;
  k.epilogue = kSm90Direct;
  if (tiles % resident != 0 && tiles < 6 * resident && tiles * k_tiles >= 4 * resident) add(k);
  for (int splits = 0, i = 0; const int split : {32, 24, 16, 12, 10, 8, 7, 6, 5, 4, 3, 2}) {
    if (tiles * split > resident || split * 2 > k_tiles) continue;
    // The most that fit, and half as many.
    if (i++ % 3 != 0) continue;
    k.split = split;
    for (const int raster : {kSm90RasterM, kSm90RasterN}) {  // which tiles run side by side, and so share loads
      k.raster = raster;
      add(k);
    }
    if (++splits == 2) break;
  }
}

void Sm90Candidates::add_all_modes(const Sm90Knobs& base) {
  const std::int64_t k_tiles = sm90_k_tiles(base, problem_), tiles = sm90_tiles(base, problem_);
  const int rows = base.swap ? base.tile_n : base.tile_m;
  const std::int64_t units = setting_.machine.units;
  for (const int split : {1, 2, 4, 8, 16}) {
    if (split > k_tiles || rows % split != 0 || (split > 1 && tiles * split > 2 * units)) break;
    Sm90Knobs k = base;
    k.split = split;
    add(k);
  }
  if (tiles > units) {
    Sm90Knobs k = base;
    k.persistent = 1;
    k.epilogue = problem_.c_ld() % 8 == 0 && problem_.n % 8 == 0 ? kSm90Tma : kSm90Staged;
    if (sm90_store_boxes(k).columns < 32) k.epilogue = kSm90Staged;  // narrow boxes are slow
    add(k);
    k.pingpong = 1;
    if (k.consumers == 2 && k.tile_m <= 128) add(k);
  }
  add_streamed(base);
}

// Usual widths, and those that divide the problem's evenly; twice its size only wastes.
std::set<int> promising_widths(std::int64_t n) {
  std::set<int> widths;
  for (const int width : {8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256}) {
    if (width <= 16 || width < 2 * n) widths.insert(width);
  }
  for (std::int64_t parts = std::max<std::int64_t>(1, ceil_div(n, 256)), i = 0; i < 4; ++i, ++parts) {
    const auto width = static_cast<int>(ceil_div(ceil_div(n, parts), 8) * 8);
    if (width >= 40 && width <= 256) widths.insert(width);
  }
  return widths;
}

void Sm90Candidates::add_tiles() {
  for (const int swap : {0, 1}) {
    Sm90Knobs base = sm90_knobs(Recipe(sm90_family()));
    base.swap = swap;
    const Sm90Product product = sm90_product(base, problem_);
    // Narrow tiles fit an M that is short, or no multiple of what tile_m offers.
    if (swap == 1 && product.n > 256 && (product.n > 1024 || product.n % 64 == 0)) continue;
    const std::set<int> widths = promising_widths(product.n);
    for (const auto& [tile_m, consumers] : {std::pair{64, 1}, {64, 2}, {128, 1}, {128, 2}, {192, 3}, {256, 2}}) {
      if (tile_m > 64 && tile_m >= 2 * product.m) continue;
      for (const int width : widths) {
        // What fills many waves of the device gains nothing from tiles that load as much as they multiply.
        const std::int64_t tiles = ceil_div(product.m, tile_m) * ceil_div(product.n, width);
        if (tiles > 40 * setting_.machine.units && tile_m * width < 128 * 128) continue;
        for (const int tile_k : {64, 128}) {
          if (tile_k == 128 && product.k <= 64) continue;
          base.tile_m = tile_m;
          base.tile_n = width;
          base.tile_k = tile_k;
          base.consumers = consumers;
          add_all_modes(base);
        }
      }
    }
  }
}

void Sm90Candidates::vary(const Sm90Knobs& base) {
  const Sm90Product product = sm90_product(base, problem_);
  const bool large = problem_.bytes() > 0.3 * setting_.device.l2_bytes;
  // Pairs: of 1,714 problems measured on an H200, one was won by blocks that share loads in larger clusters.
  for (const auto& [m, n] : {std::pair{1, 1}, {2, 1}, {1, 2}}) {
    if ((m > 1 && product.m <= base.tile_m * (m - 1)) || (n > 1 && product.n <= base.tile_n * (n - 1))) continue;
    if (product.b_k_major && base.tile_n % (8 * m) != 0) continue;
    Sm90Knobs k = base;
    k.cluster_m = m;
    k.cluster_n = n;
    if (m * n > 1) add(k);
    for (const int blocks : {2, 3}) {
      if (!k.persistent && k.consumers == 1) add(k, blocks);
    }
    if (large) {
      for (const auto& [raster, group] : {std::pair{kSm90RasterM, 16}, {kSm90RasterN, 8}, {kSm90RasterN, 16}}) {
        k.raster = raster;
        k.group = group;
        add(k);
      }
    }
    if (k.epilogue == kSm90Tma && !k.swap && k.tile_n % 64 == 0 && k.tile_n >= 192) {
      k.staging = 2;
      add(k);
    }
  }
}

void Sm90Candidates::refine() {
  const auto faster = [](const auto& x, const auto& y) { return x.first < y.first; };
  std::vector<std::pair<double, Sm90Knobs>> best = found_;
  std::stable_sort(best.begin(), best.end(), faster);
  if (best.size() > kRefined) best.resize(kRefined);
  for (const auto& [time_us, knobs] : best) vary(knobs);
}

}  // namespace

void add_sm90_candidates(const Setting& setting, std::vector<Candidate>& found) {
  if (setting.machine.compute_capability != 90) return;
  Sm90Candidates candidates(setting);
  candidates.add_tiles();
  candidates.refine();
  for (auto& [time_us, knobs] : std::move(candidates).take()) {
    const int area = knobs.tile_m * 1000 + knobs.tile_n;
    found.push_back({time_us, &sm90_family(), knobs, mode_of(knobs), {area, knobs.swap, knobs.split, 0}, nullptr});
  }
}

}  // namespace warpsmith::model
