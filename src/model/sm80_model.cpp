// The model of the sm80 family: cp.async into a ring of stages, ldmatrix, mma.sync; warps and blocks may share K.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "model/family_models.h"
#include "model/traffic.h"

namespace warpsmith::model {

namespace {

double to_double(std::int64_t value) { return static_cast<double>(value); }

// A thread's sums, fragments, and addresses.
int registers_of(const Sm80Knobs& k, AccumulatorType accumulator) {
  const int wanted = k.sum_registers(accumulator) + k.fragment_registers() + 40;
  return std::clamp(wanted, 32, std::min(255, 65536 / k.threads()));
}

struct Sm80Work {
  const Sm80Knobs& k;
  const Setting& setting;
  const Coefficients& c = setting.coefficients;
  double m = to_double(setting.problem.m), n = to_double(setting.problem.n), depth = to_double(setting.problem.k);
  double tiles_m = std::ceil(m / k.tile_m), tiles_n = std::ceil(n / k.tile_n), tiles = tiles_m * tiles_n;
  double rows = m / tiles_m, columns = n / tiles_n;  // that exist, of the mean tile
  double k_tiles = std::ceil(depth / k.tile_k);
  double step_bytes = 2 * k.tile_k * (rows + columns);  // that a block loads in a stage

  Sm80Work(const Sm80Knobs& knobs, const Setting& the_setting) : k(knobs), setting(the_setting) {}
};

double read_bytes(const Sm80Work& w, double concurrent_tiles) {
  const bool along_m = w.k.raster == kSm80RasterM;
  const double strip_m = 2 * w.rows * w.depth, strip_n = 2 * w.columns * w.depth;
  const Raster raster = {along_m ? w.tiles_m : w.tiles_n, along_m ? w.tiles_n : w.tiles_m, 1.0 * w.k.group};
  return operand_dram_bytes(raster, along_m ? strip_m : strip_n, along_m ? strip_n : strip_m, concurrent_tiles,
                            w.c.l2_keeps * w.setting.device.l2_bytes);
}

// Adding up a tile's FP32 sums: of the warps in shared memory, of the blocks in the cluster or, by the last one, in the
// workspace.
double meeting_cycles(const Sm80Work& w) {
  const Sm80Knobs& k = w.k;
  if (!k.reduces()) return 0;
  const double sums = 4.0 * k.tile_m * k.tile_n;
  double cycles = w.c.direct_sum + sums * (k.warps_k + 1) / 128;
  if (k.split > 1 && k.reduce == kSm80Cluster) {
    cycles += 2 * w.c.cluster_sync + w.c.cluster_rank * k.split + sums * (k.split - 1) / k.split / w.c.dsmem_rate;
  } else if (k.split > 1) {
    cycles += w.c.grid_sync + w.c.grid_rank * k.split + sums * (1 + 2 * k.split) / w.c.workspace_rate;
  }
  return cycles;
}

Pipeline pipeline_of(const Sm80Work& w, double tensor, double shared, double ingest, double missing) {
  const Sm80Knobs& k = w.k;
  const Coefficients& c = w.c;
  Pipeline p;
  p.steps = std::ceil(w.k_tiles / k.split);
  p.stages = k.stages - 1;
  p.first_trip = c.dram_trip;
  p.trip = c.l2_trip + missing * (c.dram_trip - c.l2_trip) + c.queueing * w.step_bytes / c.l2_rate;
  p.busy_step = overlapped(std::max(tensor, shared), ingest, c.unit_overlap);
  // A barrier, then fragments, which a second buffer or the block's other warps hide.
  const double warps = k.threads() / 32.0;
  const double buffers = k.loop.fragments > 1 ? c.sm80_buffers : 1;
  p.lone_step = p.busy_step + c.sm80_step + c.sm80_fragment * k.k_steps() * buffers / std::max(1.0, warps / 4);
  const double share = k.split > 1 && k.reduce == kSm80Cluster ? k.split : 1;
  const double factor = k.epilogue == kSm80Pairs ? c.direct_store : k.epilogue == kSm80Lanes ? c.lane_store : 1;
  const double store = 2 * w.rows * w.columns * factor / c.store_rate / share;
  const double meet = meeting_cycles(w);
  p.busy_tail = store + 0.5 * meet;
  p.lone_tail = store + c.sm80_epilogue + meet;
  return p;
}

}  // namespace

Estimate estimate_sm80(const Sm80Knobs& k, const Setting& setting) {
  const Problem& problem = setting.problem;
  const Coefficients& c = setting.coefficients;
  const Device& device = setting.device;
  const Sm80Work w(k, setting);
  const bool cluster = k.split > 1 && k.reduce == kSm80Cluster;
  const double blocks = w.tiles * k.split;
  const double resident = resident_blocks({k.threads(), registers_of(k, problem.accumulator), k.smem_bytes()}, device);
  const double queue =
      cluster ? std::ceil(w.tiles / resident_clusters(k.split, setting.machine)) : std::ceil(blocks / device.units);
  const double together = std::min(queue, resident);

  const double flops = 2.0 * k.tile_m * k.tile_n * k.tile_k;
  const double rate = device.tensor_flops * (setting.machine.compute_capability == 90 ? c.mma_share : c.wgmma_share);
  const double tensor = flops / rate * power_factor(w.tiles * w.k_tiles * flops, setting);
  // Each warp reads its rows and columns of the stage from shared memory, 128 bytes a cycle.
  const double shared = 2.0 * k.tile_k * (k.tile_m * k.warps_n + k.tile_n * k.warps_m) / 128;
  const double copies = 2.0 * k.tile_k * k.tile_m / (32.0 * granule(problem.a_cols(), problem.a_ld())) +
                        2.0 * k.tile_k * k.tile_n / (32.0 * granule(problem.b_cols(), problem.b_ld()));
  const double ingest = std::max(w.step_bytes / c.ingest_rate, c.copy_issue * copies);
  const double read = read_bytes(w, std::max(1.0, device.units * together / k.split));
  const double sent = w.tiles * w.k_tiles * w.step_bytes;
  const Pipeline p = pipeline_of(w, tensor, shared, ingest, std::min(1.0, read / sent));

  const double prologue = 0.5 * c.prologue;  // no barriers in memory, no tensor maps
  Cycles cycles;
  cycles.start = c.launch + (cluster ? c.cluster_start + c.cluster_rank * k.split : 0) -
                 (k.pdl != kSm80PdlNone ? std::min(c.dependent_saving, c.launch) : 0);
  cycles.units = queue_cycles(p, queue, resident, prologue, c.block);
  cycles.l2 = sent / (c.l2_rate * device.units);
  cycles.dram = (read + result_cost(setting)) / (c.dram_share * device.dram_bytes);
  const double rounds = std::ceil(queue / together), meet = meeting_cycles(w);
  cycles.terms.occupancy = resident;
  cycles.terms.waves = queue;
  cycles.terms.tensor_us = queue * p.steps * std::max(tensor, shared);
  cycles.terms.l2_us = std::max(queue * p.steps * ingest, cycles.l2);
  cycles.terms.dram_us = cycles.dram;
  cycles.terms.reduce_us = rounds * meet;
  cycles.terms.epilogue_us = rounds * (p.lone_tail - meet);
  cycles.terms.latency_us = cycles.start + rounds * (prologue + p.first_trip) + queue * c.block;
  return finish(cycles, setting);
}

}  // namespace warpsmith::model
