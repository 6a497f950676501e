// The constants of the performance model: what each one means, in which unit, and its value on a machine. Times are in
// clock cycles and rates in bytes a cycle, so that one set serves machines of other clocks and sizes.
#pragma once

#include <string_view>
#include <vector>

#include "problem/machine.h"

namespace warpsmith::model {

// The values below are physically reasoned: data sheets, and latencies that microbenchmarks of Ampere and Hopper agree
// on. A machine with a fit of its own replaces them.
struct Coefficients {
  // Latencies, in cycles.
  double launch = 900;
  double prologue = 450;
  double block = 40;
  double l2_trip = 700;
  double dram_trip = 1250;
  double cluster_start = 350;
  double cluster_rank = 15;
  double cluster_sync = 250;
  double grid_sync = 1000;
  double grid_rank = 30;
  double dependent_saving = 500;
  // Memory, whole device and per multiprocessor.
  double dram_share = 0.88;
  double dram_write = 0.8;
  double l2_keeps = 0.6;
  double l2_rate = 40;
  double ingest_rate = 56;
  double queueing = 1;
  double workspace_rate = 24;
  double dsmem_rate = 10;
  double store_rate = 32;
  double unit_overlap = 4;
  double device_overlap = 3;
  double short_rows = 0.25;
  // Power.
  double power_share = 0.76;
  double power_onset_us = 60;
  // sm90.
  double wgmma_share = 0.95;
  double wgmma_narrow = 1;
  double sm90_step = 40;
  double sm90_tile = 500;
  double sm90_epilogue = 350;
  double sm90_block = 150;
  double multicast_wait = 300;
  double direct_store = 1.6;
  double lane_store = 1.2;
  double tma_store = 0.9;
  double narrow_box = 0.3;
  double hidden_store = 0.6;
  double slice_store = 0.2;
  double pingpong_turn = 80;
  double swap_store = 1.2;
  // sm80.
  double mma_share = 0.62;
  double sm80_step = 80;
  double sm80_fragment = 35;
  double sm80_buffers = 0.6;
  double copy_issue = 2;
  double sm80_epilogue = 300;
  // tiny and skinny.
  double direct_trip = 0.8;
  double direct_load = 6;
  double direct_issue = 6;
  double direct_mma = 18;
  double direct_sum = 120;
  double direct_pair = 2;
  double direct_put = 8;
  double direct_partial = 0.8;
  double direct_epilogue = 200;
  double direct_ingest = 44;
  double l1_reuse = 0.6;

  bool operator==(const Coefficients&) const = default;
};

struct CoefficientInfo {
  std::string_view name;  // the member's
  std::string_view unit;
  std::string_view meaning;
  double Coefficients::*member;
  double least, most;  // what is physically plausible; a fit stays inside
};
// Every member, in order.
const std::vector<CoefficientInfo>& coefficient_table();

// Fitted to measurements of a device; see bench/fit_model.py.
Coefficients h200_coefficients();

// Those of the machine's own fit; without one, of the closest architecture: Hopper's fit for compute capability 9.0,
// the physically reasoned ones for others.
Coefficients coefficients_for(const Machine& machine);

}  // namespace warpsmith::model
