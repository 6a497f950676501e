// The model of each family, over knobs that were read before: what a search over many recipes calls.
#pragma once

#include <variant>

#include "model/coefficients.h"
#include "model/device.h"
#include "model/estimate.h"
#include "recipe/direct_plan.h"
#include "recipe/sm80_plan.h"
#include "recipe/sm90_plan.h"

namespace warpsmith::model {

// A problem on a machine, with what follows from both.
struct Setting {
  Setting(const Problem& the_problem, const Machine& the_machine, const Coefficients& the_coefficients)
      : problem(the_problem), machine(the_machine), device(device_of(the_machine)), coefficients(the_coefficients) {}

  const Problem& problem;
  const Machine& machine;
  Device device;
  const Coefficients& coefficients;
};

// Times in clock cycles while they are put together.
struct Cycles {
  double start = 0;  // launch and prologue, before anything else
  double units = 0;  // multiprocessors: the busiest one, from its first load to its last store
  double l2 = 0;     // the whole L2 cache
  double dram = 0;   // the whole memory
  Estimate terms{};  // its times in cycles, too
};
Estimate finish(const Cycles& cycles, const Setting& setting);

Estimate estimate_sm90(const Sm90Knobs& knobs, const Setting& setting);
Estimate estimate_sm80(const Sm80Knobs& knobs, const Setting& setting);
Estimate estimate_direct(const DirectKnobs& knobs, const Setting& setting);  // tiny and skinny

using AnyKnobs = std::variant<Sm90Knobs, Sm80Knobs, DirectKnobs>;
// Of a recipe of a family that the model covers.
AnyKnobs read_knobs(const Recipe& recipe, const Problem& problem);
Estimate estimate(const AnyKnobs& knobs, const Setting& setting);
// Programmatic dependent launch: the recipe's prologue overlaps the kernel before it.
bool depends_on_predecessor(const Recipe& recipe);

// A block's way through its pipeline, in cycles.
struct Pipeline {
  double steps = 1;       // stages that are multiplied
  double stages = 1;      // that can be under way while another is multiplied
  double first_trip = 0;  // until the first stage has arrived
  double trip = 0;        // the same of later ones
  double busy_step = 0;   // of a stage, if other blocks fill the gaps
  double lone_step = 0;   // of a stage, alone
  double busy_tail = 0;   // of the epilogue, if other blocks fill the gaps
  double lone_tail = 0;   // of the epilogue, alone
};
// A stage whose slot is filled again one trip after the stage in it was multiplied: trips vary, so that they cost
// something even while they are shorter than what the other stages take.
double refilled_step(const Pipeline& pipeline);
// One block alone, from its first load to its last store.
double lone_cycles(const Pipeline& pipeline);
// A multiprocessor that works on `queue` blocks, `resident` at a time. prologue: of each block, side by side; start: of
// each block, one after the other.
double queue_cycles(const Pipeline& pipeline, double queue, double resident, double prologue, double start);

// Tensor cores slow down when they are busy for long: factor on their time. flops: that the kernel works off.
double power_factor(double flops, const Setting& setting);
// C through memory, in bytes as dear as read ones: written, and read where the kernel scales what is there.
double result_cost(const Setting& setting);
// Clusters of so many blocks that run at once, a block a multiprocessor.
double resident_clusters(int blocks, const Machine& machine);
// Widest access in bytes that rows of so many elements, `ld` apart, allow.
int granule(std::int64_t columns, std::int64_t ld);

// Two times that overlap: (x^order + y^order)^(1 / order), from their sum (1) to the longer one (infinite). Positive
// times.
double overlapped(double x, double y, double order);

}  // namespace warpsmith::model
