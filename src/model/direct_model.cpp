// The model of tiny and skinny kernels: warps that load their share of K straight into registers.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "model/family_models.h"

namespace warpsmith::model {

namespace {

double to_double(std::int64_t value) { return static_cast<double>(value); }

// One operand's tile of one warp and round.
struct OperandLoads {
  double instructions = 0;  // of a warp
  double pairs = 0;         // registers that are put together from two loads
  double piece_bytes = 0;   // that lie side by side in memory
};

// aligned: bytes that the rows of the matrix allow to load at once.
OperandLoads loads_of(int tile, int depth, bool k_major, int aligned) {
  const double lane_bytes = 2.0 * tile * depth / 32;
  const double widest = std::min(aligned, k_major ? std::min(16, depth / 2) : std::min(16, tile / 4));
  OperandLoads loads;
  loads.instructions = lane_bytes / std::max(2.0, widest);
  loads.pairs = k_major && widest > 2 ? 0 : lane_bytes / 4;
  loads.piece_bytes = 2.0 * (k_major ? depth : tile);
  return loads;
}

// The same of B through shared memory: copies of 16 bytes, then four matrices of 8x8 an instruction.
OperandLoads shared_loads_of(int tile, int depth) {
  OperandLoads loads;
  loads.instructions = 2.0 * tile * depth / 32 / 16 + depth / 16.0 * std::max(1.0, tile / 16.0);
  loads.piece_bytes = 2.0 * tile;
  return loads;
}

constexpr double kAddressInstructions = 2;  // of a load
constexpr double kSharedWait = 80;          // cycles from a copy's arrival to the matrices that are read of it

}  // namespace

Estimate estimate_direct(const DirectKnobs& k, const Setting& setting) {
  const Problem& problem = setting.problem;
  const Coefficients& c = setting.coefficients;
  const Device& device = setting.device;
  const double blocks_m = to_double(direct_blocks_m(k, problem)), blocks_n = to_double(direct_blocks_n(k, problem));
  const double blocks = blocks_m * blocks_n * k.split, rounds = to_double(direct_rounds(k, problem));
  const int registers = std::min(255, direct_operand_registers(k, problem) + k.accumulators() + 56);
  const double resident = resident_blocks({k.threads(), registers, k.smem_bytes()}, device);
  // Blocks that share K form a cluster, and fewer of those fit.
  const double at_once = resident_clusters(k.split, setting.machine);
  const double queue = std::ceil(blocks / k.split / at_once), together = std::min(queue, resident);

  // A round of one block: what its warps load, what the multiprocessor's ports see of it, what a warp multiplies.
  const OperandLoads a =
      loads_of(k.tile_m, k.tile_k, problem.a_is_k_major(), granule(problem.a_cols(), problem.a_ld()));
  const OperandLoads b =
      k.shared_b ? shared_loads_of(k.tile_n, k.tile_k)
                 : loads_of(k.tile_n, k.tile_k, problem.b_is_k_major(), granule(problem.b_cols(), problem.b_ld()));
  const double warps = k.groups() * k.warps_k;
  const double issue =
      warps * (c.direct_load * (a.instructions + b.instructions) + c.direct_pair * (a.pairs + b.pairs));
  const double rows = std::min(to_double(problem.m), 1.0 * k.tile_m * k.warps_m);
  const double columns = std::min(to_double(problem.n), 1.0 * k.tile_n * k.warps_n);
  const double unique = 2 * k.tile_k * k.warps_k * (rows + columns);
  const double repeated = 2 * k.tile_k * k.warps_k * (rows * k.warps_n + columns * k.warps_m) - unique;
  const double bytes = unique + (1 - c.l1_reuse) * std::max(0.0, repeated);
  const double depth = std::min(to_double(problem.k), 1.0 * k.round() * rounds);
  const double filled = depth / (k.round() * rounds);  // of the last round, warps past the end load nothing
  const double mma_tiles = k.rows() / 16.0 * (k.columns() / 8.0);
  const double flops = 2.0 * k.tile_m * k.tile_n * k.tile_k;
  const double multiply = k.tile_k / 16.0 * std::max(c.direct_mma * (mma_tiles <= 2 ? 0.5 : 1.0), 4 * mma_tiles);
  const double tensor = warps * flops / (device.tensor_flops * c.mma_share);

  // Memory works on pieces of at least 64 bytes and likes longer ones.
  const auto piece_share = [&](double piece) {
    return 1 / (1 + c.short_rows * std::max(0.0, 128 / std::max({piece, 1.0 * k.fetch, 16.0}) - 1));
  };
  const double a_bytes = 2.0 * to_double(problem.m) * to_double(problem.k);
  const double b_bytes = 2.0 * to_double(problem.k) * to_double(problem.n);
  const double read = a_bytes / piece_share(a.piece_bytes) + b_bytes / piece_share(b.piece_bytes);

  const double tile_words = 1.0 * k.tile_m * k.tile_n * k.groups();
  double sums = k.warps_k > 1 ? c.direct_sum + 4 * tile_words * (k.warps_k + 1) / 128 : 0;
  if (k.split > 1) {
    sums += c.cluster_sync + c.cluster_rank * k.split + 4 * tile_words * (k.split - 1) / k.split / c.dsmem_rate;
  }
  Pipeline p;
  p.steps = rounds;
  p.stages = k.ahead + 1;
  p.first_trip = c.direct_trip * c.dram_trip;
  // Later rounds find in the L2 cache what other blocks have fetched.
  const double sent = blocks * rounds * bytes * filled;
  p.trip = c.direct_trip * (c.l2_trip + std::min(1.0, (a_bytes + b_bytes) / sent) * (c.dram_trip - c.l2_trip));
  p.busy_step = filled * overlapped(std::max(bytes / c.direct_ingest, issue), tensor, c.unit_overlap);
  const double instructions = (1 + kAddressInstructions) * (a.instructions + b.instructions) + (a.pairs + b.pairs);
  p.lone_step = p.busy_step + multiply + c.direct_issue * instructions + (k.shared_b ? kSharedWait : 0);
  if (k.ahead == 0 && rounds > 1) p.lone_step += p.trip;  // nothing is loaded while the warp multiplies
  // A lane's results are a patch of C, written in units of up to eight; wider patches are written in two halves of each
  // sector.
  const int patch = k.transposed ? k.rows() / 8 : k.columns() / 4;
  const double puts = tile_words / 32 / std::min(patch, 8);
  const double store =
      (2 * tile_words * (patch > 8 ? 1 + c.direct_partial : 1) / c.store_rate + c.direct_put * puts) / k.split;
  p.busy_tail = store + (sums - (k.warps_k > 1 ? c.direct_sum : 0) - (k.split > 1 ? c.cluster_sync : 0));
  p.lone_tail = store + sums + c.direct_epilogue;

  const double prologue = 0.5 * c.prologue;
  Cycles cycles;
  cycles.start = c.launch - (k.pdl != kDirectPdlNone ? std::min(c.dependent_saving, c.launch) : 0) +
                 (k.split > 1 ? c.cluster_start : 0);
  cycles.units = queue_cycles(p, queue, resident, prologue, c.block);
  if (k.ahead == 0 && rounds > 1) cycles.units -= std::ceil(queue / together) * p.trip;  // the first trip is counted
  cycles.l2 = sent / (c.l2_rate * device.units);
  cycles.dram = (read + result_cost(setting)) / (c.dram_share * device.dram_bytes);
  const double turns = std::ceil(queue / together);
  cycles.terms.occupancy = resident;
  cycles.terms.waves = queue;
  cycles.terms.tensor_us = queue * rounds * std::max(tensor, multiply / std::max(1.0, together));
  cycles.terms.l2_us = std::max(queue * rounds * bytes * filled / c.direct_ingest, cycles.l2);
  cycles.terms.dram_us = cycles.dram;
  cycles.terms.reduce_us = turns * sums;
  cycles.terms.epilogue_us = turns * (store + c.direct_epilogue);
  cycles.terms.latency_us =
      cycles.start + queue * c.block + turns * (prologue + p.first_trip + (k.ahead == 0 ? rounds - 1 : 0) * p.trip);
  return finish(cycles, setting);
}

}  // namespace warpsmith::model
