// The model of the sm90 family: TMA into a ring of stages, wgmma, clusters, persistent blocks, shared K.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "model/family_models.h"
#include "model/traffic.h"

namespace warpsmith::model {

namespace {

double to_double(std::int64_t value) { return static_cast<double>(value); }
double ceil_div(double a, double b) { return std::ceil(a / b); }

// What the parts of the model hand on to one another.
struct Sm90Work {
  const Sm90Knobs& k;
  const Setting& setting;
  const Coefficients& c = setting.coefficients;
  Sm90Product product = sm90_product(k, setting.problem);
  double tiles_m = ceil_div(to_double(product.m), k.tile_m), tiles_n = ceil_div(to_double(product.n), k.tile_n);
  double clusters = ceil_div(tiles_m, k.cluster_m) * ceil_div(tiles_n, k.cluster_n);  // that cover C
  double k_tiles = ceil_div(to_double(product.k), k.tile_k);
  double resident = sm90_resident_clusters(k, setting.machine);  // with a block a multiprocessor
  // Rows and columns that exist, of the mean tile: what is outside the matrices costs no traffic.
  double rows = to_double(product.m) / tiles_m, columns = to_double(product.n) / tiles_n;
  double blocks_per_unit = 1;
  double tensor_step = 0, ingest_step = 0, lone_step = 0, busy_step = 0;
  double l2_bytes = 0;           // that the L2 cache sends for one stage of one block
  double trip = 0, fill = 0;     // of a later stage, of the first one
  double store = 0, finish = 0;  // of a tile's results: by the bytes, fixed

  explicit Sm90Work(const Sm90Knobs& knobs, const Setting& the_setting) : k(knobs), setting(the_setting) {}
};

// One 64 x tile_n x 16 instruction reads 2 KiB of A and its share of B from shared memory; below 64 columns that takes
// longer than multiplying.
double wgmma_cycles(const Sm90Work& w) {
  const double flops_per_column = 2.0 * 64 * 16;
  const double multiply = flops_per_column * w.k.tile_n / (w.setting.device.tensor_flops * w.c.wgmma_share);
  const double read = w.c.wgmma_narrow * (16 + w.k.tile_n / 4.0);
  return std::max(multiply, read) * (w.k.tile_m / 64.0) * (w.k.tile_k / 16.0);
}

int registers_of(const Sm90Knobs& k, AccumulatorType accumulator) {
  if (k.consumers > 1) return 65536 / sm90_threads(k) / 8 * 8;  // all of them: setmaxnreg deals them out
  return std::min(255, k.accumulators(accumulator) + 56);
}

void find_steps(Sm90Work& w) {
  const Sm90Knobs& k = w.k;
  const Footprint block = {sm90_threads(k), registers_of(k, w.setting.problem.accumulator),
                           sm90_smem_bytes(k, w.setting.problem)};
  w.blocks_per_unit = k.persistent ? 1 : resident_blocks(block, w.setting.device);
  const double padded = 2.0 * w.clusters * k.cluster_m * k.cluster_n * k.tile_m * k.tile_n * w.k_tiles * k.tile_k;
  w.tensor_step = wgmma_cycles(w) * power_factor(padded, w.setting);
  const double short_row = k.tile_k < 64 ? 1 + w.c.short_rows : 1;
  w.ingest_step = 2 * k.tile_k * (w.rows + w.columns) * short_row / w.c.ingest_rate;
  w.l2_bytes = 2 * k.tile_k * (w.rows / k.cluster_n + w.columns / k.cluster_m) * short_row;
  w.busy_step = overlapped(w.tensor_step, w.ingest_step, w.c.unit_overlap);
  const int sharers = k.pingpong ? 1 : k.consumers;  // the others' instructions fill the gaps of one
  w.lone_step = w.busy_step + w.c.sm90_step / sharers;
}

// Bytes through memory, and how much of a trip that makes.
double find_dram(Sm90Work& w, double concurrent_tiles) {
  const Sm90Knobs& k = w.k;
  const bool along_m = k.raster == kSm90RasterM;
  const double strip_m = 2 * w.rows * k.cluster_m * to_double(w.product.k);
  const double strip_n = 2 * w.columns * k.cluster_n * to_double(w.product.k);
  const double clusters_m = ceil_div(w.tiles_m, k.cluster_m), clusters_n = ceil_div(w.tiles_n, k.cluster_n);
  const Raster raster = {along_m ? clusters_m : clusters_n, along_m ? clusters_n : clusters_m, 1.0 * k.group};
  const double read = operand_dram_bytes(raster, along_m ? strip_m : strip_n, along_m ? strip_n : strip_m,
                                         concurrent_tiles, w.c.l2_keeps * w.setting.device.l2_bytes);
  const double sent = w.clusters * k.cluster_m * k.cluster_n * w.k_tiles * w.l2_bytes;
  const double missing = std::min(1.0, read / std::max(1.0, sent));
  w.fill = w.c.dram_trip;
  const double wait = k.cluster_m * k.cluster_n > 1 ? w.c.multicast_wait : 0;
  w.trip = wait + w.c.l2_trip + missing * (w.c.dram_trip - w.c.l2_trip) + w.c.queueing * w.l2_bytes / w.c.l2_rate;
  return read;
}

void find_store(Sm90Work& w) {
  double factor = w.k.epilogue == kSm90Direct ? w.c.direct_store : w.k.epilogue == kSm90Tma ? w.c.tma_store : 1;
  if (w.k.swap) factor *= w.c.swap_store;
  if (w.k.staging > 0) factor *= 1 + w.c.slice_store;
  if (w.k.epilogue == kSm90Tma) factor *= 1 + w.c.narrow_box * (64.0 / sm90_store_boxes(w.k).columns - 1);
  w.store = 2 * w.rows * w.columns * factor / w.c.store_rate;
  w.finish = w.c.sm90_epilogue;
}

// A block, or a cluster that shares K, per tile.
void one_tile_each(Sm90Work& w, Cycles& cycles) {
  const Sm90Knobs& k = w.k;
  const double split = k.cluster_split();
  Pipeline p;
  p.steps = ceil_div(w.k_tiles, split);
  p.stages = k.stages - 1;
  p.first_trip = w.fill;
  p.trip = w.trip;
  p.busy_step = w.busy_step;
  p.lone_step = w.lone_step;
  const double queue = ceil_div(w.clusters, w.resident), together = std::min(queue, w.blocks_per_unit);
  double meet = 0;
  if (split > 1) {
    const double sums = 4.0 * k.tile_m * k.tile_n * (split - 1) / split;
    meet = 2 * w.c.cluster_sync + w.c.cluster_rank * split + sums / w.c.dsmem_rate;
  }
  p.busy_tail = w.store / split + (split > 1 ? meet - 2 * w.c.cluster_sync : 0);
  p.lone_tail = w.store / split + w.finish + meet;
  cycles.units = queue_cycles(p, queue, w.blocks_per_unit, w.c.prologue, w.c.sm90_block);
  const double rounds = std::ceil(queue / together);
  cycles.terms.waves = queue;
  cycles.terms.tensor_us = queue * p.steps * w.tensor_step;
  cycles.terms.l2_us = queue * p.steps * w.ingest_step;
  cycles.terms.reduce_us = rounds * meet;
  cycles.terms.epilogue_us = rounds * (p.lone_tail - meet);
  cycles.terms.latency_us = rounds * (w.c.prologue + w.fill) + queue * w.c.sm90_block;
}

// Of a tile's write, what the multiprocessor's tensor cores wait for.
double exposed_write(const Sm90Work& w) {
  const double write = w.store + w.finish;
  return w.k.epilogue == kSm90Tma ? w.c.sm90_tile + (1 - w.c.hidden_store) * write : w.c.sm90_tile + write;
}

void tile_after_tile(Sm90Work& w, Cycles& cycles) {
  const double tiles = ceil_div(w.clusters, w.resident);
  const double step = refilled_step({.stages = w.k.stages - 1.0, .trip = w.trip, .lone_step = w.lone_step});
  const double multiply = w.k_tiles * step, write = w.store + w.finish;
  if (w.k.pingpong) {
    const double turn = multiply + w.c.pingpong_turn;
    cycles.units = w.c.prologue + w.fill + tiles * std::max(turn, 0.5 * (turn + write)) + write;
    cycles.terms.epilogue_us = write + tiles * std::max(0.0, 0.5 * (write - turn));
  } else {
    const double exposed = exposed_write(w);
    cycles.units = w.c.prologue + w.fill + tiles * multiply + (tiles - 1) * exposed + write;
    cycles.terms.epilogue_us = (tiles - 1) * exposed + write;
  }
  cycles.terms.waves = tiles;
  cycles.terms.tensor_us = tiles * w.k_tiles * w.tensor_step;
  cycles.terms.l2_us = tiles * w.k_tiles * w.ingest_step;
  cycles.terms.latency_us = w.c.prologue + w.fill;
}

// What the sum of its parts leaves out of stream-K, by the means of measured over estimated times on an H200 (350
// problems): 1.22 over 148 recipes whose clusters are dealt stretches of stages, 1.10 over 451 with equal parts. The
// first is put on the stretches, and some on the whole, so that no tie with a simpler kernel is decided for it.
constexpr double kDealtCycles = 1.2, kStreamedTime = 1.03;

// Their stretches begin anywhere in K, so clusters side by side do not read the same at the same time: what the cache
// does not hold comes from memory for each of them.
double dealt_dram(const Sm90Work& w, double read, double sent) {
  const double workers = to_double(sm90_clusters(w.k, w.setting.problem, w.setting.machine));
  const double share = to_double(sm90_dealt_tiles(w.k, w.setting.problem, w.setting.machine)) / w.clusters;
  const double operands = 2 * to_double(w.product.k) * (to_double(w.product.m) + to_double(w.product.n));
  const double kept = std::min(1.0, w.c.l2_keeps * w.setting.device.l2_bytes / operands);
  // Workers of one tile stand at as many places in K.
  const double apart = std::max(0.0, 1 - w.clusters * share / workers);
  return read + share * apart * (1 - kept) * std::max(0.0, sent - read);
}

// Stream-K: whole tiles first, then a stretch of stages of the tiles that are dealt, then their partial sums.
void streamed(Sm90Work& w, Cycles& cycles) {
  const Sm90Knobs& k = w.k;
  const double workers = to_double(sm90_clusters(k, w.setting.problem, w.setting.machine));
  const double dealt = to_double(sm90_dealt_tiles(k, w.setting.problem, w.setting.machine));
  const double whole = std::floor(w.clusters / workers);
  const double stretch = ceil_div(dealt * w.k_tiles, workers);
  const double step = refilled_step({.stages = k.stages - 1.0, .trip = w.trip, .lone_step = w.lone_step});
  const double exposed = exposed_write(w);
  // A worker leaves one piece, or two where its stretch crosses tiles; each is written, read once and cleared.
  const double pieces = k.split > 1 ? 1 : std::min(2.0, 1 + dealt / workers);
  const double sums = pieces * 3 * 4 * w.rows * w.columns;
  const double sharers = k.split > 1 ? k.split : std::min(workers, workers / dealt + 1);
  const double meet = w.c.grid_sync + w.c.grid_rank * sharers + sums / w.c.workspace_rate;
  const double write = w.store * dealt / workers + w.finish;  // its share of the dealt tiles
  const double dealing = (k.split > 1 ? 1 : kDealtCycles) * (stretch * step + meet);
  cycles.units = w.c.prologue + w.fill + whole * (w.k_tiles * step + exposed) + dealing + write;
  cycles.terms.waves = whole + stretch / w.k_tiles;
  cycles.terms.tensor_us = (whole * w.k_tiles + stretch) * w.tensor_step;
  cycles.terms.l2_us = (whole * w.k_tiles + stretch) * w.ingest_step;
  cycles.terms.reduce_us = meet;
  cycles.terms.epilogue_us = whole * exposed + write;
  cycles.terms.latency_us = w.c.prologue + w.fill;
}

}  // namespace

Estimate estimate_sm90(const Sm90Knobs& k, const Setting& setting) {
  Sm90Work w(k, setting);
  const Coefficients& c = setting.coefficients;
  find_steps(w);
  const double split = k.streamk ? 1 : k.split;
  const double at_once = w.resident * (k.persistent ? 1 : w.blocks_per_unit) / (k.streamk ? k.split : 1);
  double read = find_dram(w, std::max(1.0, at_once));
  find_store(w);
  Cycles cycles;
  cycles.terms.occupancy = w.blocks_per_unit;
  if (k.streamk) {
    streamed(w, cycles);
  } else if (k.persistent) {
    tile_after_tile(w, cycles);
  } else {
    one_tile_each(w, cycles);
  }
  const double cluster = k.cluster_size() > 1 ? c.cluster_start + c.cluster_rank * k.cluster_size() : 0;
  cycles.start = c.launch + cluster - (k.pdl ? std::min(c.dependent_saving, c.launch) : 0);
  const double sent = w.clusters * k.cluster_m * k.cluster_n * split * ceil_div(w.k_tiles, split) * w.l2_bytes;
  if (k.streamk && k.split == 1) read = dealt_dram(w, read, sent);
  cycles.l2 = sent / (c.l2_rate * setting.device.units);
  cycles.dram = (read + result_cost(setting)) / (c.dram_share * setting.device.dram_bytes);
  cycles.terms.l2_us = std::max(cycles.terms.l2_us, cycles.l2);
  cycles.terms.dram_us = cycles.dram;
  cycles.terms.latency_us += cycles.start;
  Estimate estimate = finish(cycles, setting);
  if (k.streamk) estimate.time_us *= kStreamedTime;
  return estimate;
}

}  // namespace warpsmith::model
