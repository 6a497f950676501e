// What a task's tensors hold, as pure functions of (distribution, seed, tensor, index); and which results are right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "evaluate/backend.h"
#include "task/task.h"

namespace warpsmith::task {

// One set of inputs and what the reference makes of them, in double precision.
struct Dataset {
  std::vector<std::vector<std::byte>> inputs;   // as the task's inputs
  std::vector<std::vector<double>> expected;    // as its outputs
  std::vector<std::vector<double>> magnitudes;  // what a scaled tolerance is scaled by; empty: 1
};

// Runs body(first, last) over [0, count) on all CPUs that this process may use.
void in_parallel(std::int64_t count, const std::function<void(std::int64_t, std::int64_t)>& body);

// kind normal: the distributions that the task declares; others stand in for them where the input is not fixed.
std::vector<std::vector<std::byte>> make_inputs(const Instance& instance, InputKind kind, std::uint64_t seed);

// The declared distributions at the speed of memory, for what is timed, of which every launch needs some of its own:
// elements drawn from a table of values that were drawn from the distribution.
class TimedInputs {
 public:
  TimedInputs(const Instance& instance, std::uint64_t seed);
  // Thread-safe; as make_inputs().
  std::vector<std::vector<std::byte>> make(std::uint64_t seed) const;

 private:
  Instance instance_;
  std::vector<std::vector<std::byte>> tables_;  // by input; empty: whole numbers, which need none
};

// An element as a number, exactly; and a tensor of them.
double element_at(const std::byte* data, TensorType type, std::int64_t index);
std::vector<double> widen(const Tensor& tensor, const std::byte* data);
// The nearest element, ties to even.
void store_element(std::byte* data, TensorType type, std::int64_t index, double value);

// `data`: an output tensor as a kernel left it.
CheckReport judge_output(const Tensor& tensor, const Tolerance& tolerance, const std::byte* data,
                         const std::vector<double>& expected, const std::vector<double>& magnitudes);

}  // namespace warpsmith::task
