// The table of coefficients, and which set a machine gets.
#include "model/coefficients.h"

namespace warpsmith::model {

const std::vector<CoefficientInfo>& coefficient_table() {
  using C = Coefficients;
  static const std::vector<CoefficientInfo> kTable = {
      {"launch", "cycles", "from one kernel's end to the next one's first instruction, in a replayed graph", &C::launch,
       400, 3000},
      {"prologue", "cycles", "barriers, tensor maps and addresses before the first load", &C::prologue, 50, 2000},
      {"block", "cycles", "starting a further block on a multiprocessor", &C::block, 1, 600},
      {"l2_trip", "cycles", "a load that the L2 cache answers", &C::l2_trip, 250, 1500},
      {"dram_trip", "cycles", "a load that memory answers", &C::dram_trip, 600, 3000},
      {"cluster_start", "cycles", "more for a cluster: its blocks start together and meet", &C::cluster_start, 0.1,
       2000},
      {"cluster_rank", "cycles", "the same, for each block of the cluster", &C::cluster_rank, 0.1, 200},
      {"cluster_sync", "cycles", "a barrier of a cluster", &C::cluster_sync, 50, 1500},
      {"grid_sync", "cycles", "waiting for partial sums that other blocks leave in the workspace", &C::grid_sync, 200,
       6000},
      {"grid_rank", "cycles", "the same, for each block that leaves some of a tile", &C::grid_rank, 0.1, 400},
      {"dependent_saving", "cycles", "what programmatic dependent launch hides of launch and prologue",
       &C::dependent_saving, 0.1, 1500},
      {"dram_share", "1", "reachable part of the memory's bandwidth", &C::dram_share, 0.5, 1},
      {"dram_write", "1", "cost of a written byte, in read ones", &C::dram_write, 0.05, 2},
      {"l2_keeps", "1", "part of the L2 cache that keeps operands for their next use", &C::l2_keeps, 0.1, 1.5},
      {"l2_rate", "bytes/cycle", "that the L2 cache sends, per multiprocessor, all of them loading", &C::l2_rate, 15,
       80},
      {"ingest_rate", "bytes/cycle", "that one multiprocessor takes in, by TMA or cp.async", &C::ingest_rate, 25, 128},
      {"queueing", "1", "a refilled stage's trip grows by this, times its bytes over l2_rate", &C::queueing, 0.05, 6},
      {"workspace_rate", "bytes/cycle", "of partial sums per multiprocessor: written, read, cleared, each counted",
       &C::workspace_rate, 4, 100},
      {"dsmem_rate", "bytes/cycle", "of partial sums per multiprocessor, through distributed shared memory",
       &C::dsmem_rate, 2, 64},
      {"store_rate", "bytes/cycle", "of results per multiprocessor, staged 16-byte stores", &C::store_rate, 6, 128},
      {"unit_overlap", "1", "multiplying and loading on a multiprocessor take the norm of their times of this order",
       &C::unit_overlap, 1.2, 16},
      {"device_overlap", "1", "the same of multiprocessors, L2 cache and memory", &C::device_overlap, 1.2, 16},
      {"short_rows", "1", "more time for operand rows of 64 bytes than for those of 128", &C::short_rows, 0.001, 2},
      {"power_share", "1", "clock under full load over the boost clock", &C::power_share, 0.5, 1},
      {"power_onset_us", "us", "time at the tensor cores' peak after which half of that drop is reached",
       &C::power_onset_us, 1, 1000},
      {"wgmma_share", "1", "reachable part of the tensor cores' peak", &C::wgmma_share, 0.6, 1},
      {"wgmma_narrow", "1", "wgmma reads its left operand from shared memory: time over that at 128 bytes a cycle",
       &C::wgmma_narrow, 0.8, 1.15},
      {"sm90_step", "cycles", "of a stage between two groups of wgmma, if no other warpgroup fills it", &C::sm90_step,
       0.1, 400},
      {"sm90_tile", "cycles", "between two tiles of a persistent block", &C::sm90_tile, 20, 3000},
      {"sm90_epilogue", "cycles", "fixed part of writing a tile", &C::sm90_epilogue, 20, 2500},
      {"sm90_block", "cycles", "starting a further sm90 block on a multiprocessor", &C::sm90_block, 1, 1500},
      {"multicast_wait", "cycles", "more for a refilled stage's trip when several blocks have to free its slot",
       &C::multicast_wait, 0.1, 3000},
      {"direct_store", "1", "stores from registers over staged ones", &C::direct_store, 0.3, 6},
      {"lane_store", "1", "the same after an exchange among lanes", &C::lane_store, 0.3, 6},
      {"tma_store", "1", "TMA stores over staged ones", &C::tma_store, 0.2, 3},
      {"narrow_box", "1", "more time for TMA stores of boxes half as wide as 128 bytes", &C::narrow_box, 0.001, 3},
      {"hidden_store", "1", "part of a TMA store that the next tile hides", &C::hidden_store, 0.01, 1},
      {"slice_store", "1", "more time for TMA stores in slices", &C::slice_store, 0.01, 2},
      {"pingpong_turn", "cycles", "handing the tensor cores to the other consumer", &C::pingpong_turn, 0.1, 1500},
      {"swap_store", "1", "stores of a transposed tile over those of a plain one", &C::swap_store, 0.5, 4},
      {"mma_share", "1", "part of wgmma's peak that mma.sync reaches on Hopper; of the peak elsewhere", &C::mma_share,
       0.3, 1},
      {"sm80_step", "cycles", "barrier and issue of copies in a stage", &C::sm80_step, 1, 600},
      {"sm80_fragment", "cycles", "a round of ldmatrix before 16 of k, if no other warp fills it", &C::sm80_fragment,
       0.1, 300},
      {"sm80_buffers", "1", "part of that which a second buffer of fragments leaves", &C::sm80_buffers, 0.05, 1},
      {"copy_issue", "cycles", "a warp's cp.async instruction", &C::copy_issue, 0.1, 40},
      {"sm80_epilogue", "cycles", "fixed part of writing a tile", &C::sm80_epilogue, 20, 2500},
      {"direct_trip", "1", "trip of a load into registers over one of TMA or cp.async", &C::direct_trip, 0.3, 1.5},
      {"direct_load", "cycles", "a warp's load instruction on the multiprocessor's port", &C::direct_load, 0.5, 60},
      {"direct_issue", "cycles", "an instruction of code that a warp runs once", &C::direct_issue, 1, 15},
      {"direct_mma", "cycles", "a dependent mma in a warp", &C::direct_mma, 5, 40},
      {"direct_sum", "cycles", "the block's barrier between products and sums", &C::direct_sum, 10, 1000},
      {"direct_pair", "cycles", "putting together a register's pair of k, MN-major operands", &C::direct_pair, 0.01,
       20},
      {"direct_put", "cycles", "a warp's store instruction", &C::direct_put, 0.5, 80},
      {"direct_partial", "1", "more time for stores that fill half of a 32-byte sector", &C::direct_partial, 0.001, 4},
      {"direct_epilogue", "cycles", "fixed part of writing a tile", &C::direct_epilogue, 20, 2000},
      {"direct_ingest", "bytes/cycle", "that one multiprocessor loads into registers", &C::direct_ingest, 10, 100},
      {"l1_reuse", "1", "part of a block's repeated operand loads that the L1 cache answers", &C::l1_reuse, 0.01, 1},
  };
  return kTable;
}

Coefficients coefficients_for(const Machine& machine) {
  return machine.compute_capability == 90 ? h200_coefficients() : Coefficients{};
}

}  // namespace warpsmith::model
