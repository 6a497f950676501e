// The performance model: the cold time of a legal recipe for a problem on a CUDA machine, from first principles and few
// coefficients. docs/model.md derives it.
#pragma once

#include <string>

#include "model/coefficients.h"
#include "problem/machine.h"
#include "problem/problem.h"
#include "recipe/recipe.h"

namespace warpsmith::model {

// Times overlap: time_us is less than their sum.
struct Estimate {
  double time_us = 0;      // of one launch in a stream of launches, operands and result not in the caches
  double occupancy = 0;    // blocks that a multiprocessor holds at a time
  double waves = 0;        // blocks, or tiles of a persistent one, that the busiest multiprocessor works on in turn
  double tensor_us = 0;    // the busiest multiprocessor's tensor cores
  double l2_us = 0;        // operands from the L2 cache, or into a multiprocessor, whichever is slower
  double dram_us = 0;      // operands from memory, results to it
  double reduce_us = 0;    // partial sums of K that several warps or blocks share
  double epilogue_us = 0;  // writing results, as far as nothing hides it
  double latency_us = 0;   // launch, prologue, first loads, starts of blocks and clusters
  std::string limiter;     // largest of the above: "tensor", "l2", "dram", "reduce", "epilogue" or "latency"
};

// Of a recipe of a CUDA family that is legal for the problem on the machine; of another family's, time_us is 0.
Estimate estimate(const Recipe& recipe, const Problem& problem, const Machine& machine);
Estimate estimate(const Recipe& recipe, const Problem& problem, const Machine& machine,
                  const Coefficients& coefficients);

// True for recipes of the families that the model knows.
bool covers(const Family& family);

}  // namespace warpsmith::model
