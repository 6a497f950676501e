// Loop programs as knob values, and in words.
#include "recipe/sm80_loop.h"

#include <fmt/format.h>

#include <stdexcept>

namespace warpsmith {

namespace {

using device::CopyPlace;
using device::LoadOrder;
using device::LoopError;
using device::LoopFault;
using device::LoopOp;
using device::LoopProgram;
using device::LoopStep;

template <class Enum>
constexpr int number(Enum value) {
  return static_cast<int>(value);
}

constexpr int kTop = number(CopyPlace::top), kFirst = number(CopyPlace::step0), kLast = number(CopyPlace::last),
              kSpread = number(CopyPlace::spread);
constexpr int kAb = number(LoadOrder::ab), kLate = number(LoadOrder::late);
constexpr int kDue = device::kSyncDue;

KnobField copy_field(const char* name) {
  return {name,
          {kTop, kFirst, number(CopyPlace::step1), number(CopyPlace::step2), number(CopyPlace::step3), kLast, kSpread},
          kFirst,
          {"top", "0", "1", "2", "3", "last", "spread"}};
}

std::string name_of(const LoopStep& step) {
  const auto copy = [&](char operand) {
    return step.of == 1 ? fmt::format("copy {}", operand)
                        : fmt::format("copy {} part {} of {}", operand, step.at + 1, step.of);
  };
  switch (step.op) {
    case LoopOp::copy_a:
      return copy('A');
    case LoopOp::copy_b:
      return copy('B');
    case LoopOp::commit:
      return "commit";
    case LoopOp::wait:
      return fmt::format("wait {}", step.at);
    case LoopOp::barrier:
      return "barrier";
    case LoopOp::load_a:
      return fmt::format("ldmatrix A{}", step.at);
    case LoopOp::load_b:
      return fmt::format("ldmatrix B{}", step.at);
    case LoopOp::multiply:
      return fmt::format("mma {}", step.at);
  }
  return "?";
}

// What is wrong; stages and k-steps are told from the current stage.
std::string words_of(const LoopFault& fault, const LoopProgram& loop) {
  const std::string stage = fmt::format("{} of stage {:+}", fault.of_b ? "B" : "A", fault.other - fault.stage);
  const std::string k_step = fmt::format("k-step {:+}", fault.other - fault.stage * loop.k_steps);
  switch (fault.error) {
    case LoopError::none:
      return "nothing is wrong";
    case LoopError::too_long:
      return fmt::format("{} steps; a program has at most {}", loop.count, LoopProgram::kMostSteps);
    case LoopError::not_copied:
      return stage + " was not copied, or not whole";
    case LoopError::not_committed:
      return "the copies of " + stage + " are not committed";
    case LoopError::not_awaited:
      return "nothing has waited for the copies of " + stage;
    case LoopError::no_barrier:
      return "no barrier since the wait for " + stage + ": other threads' copies may be missing";
    case LoopError::unread:
      return "overwrites " + stage + ", of which k-steps are still to be loaded";
    case LoopError::still_read:
      return "no barrier since the last load from " + stage + ": other warps may still read what it overwrites";
    case LoopError::unused:
      return fmt::format("overwrites the fragment of {} in its register buffer before it is multiplied", k_step);
    case LoopError::missing_fragment:
      return fmt::format("the fragment of {} of {} is not in its register buffer", fault.of_b ? "B" : "A", k_step);
    case LoopError::out_of_order:
      return fmt::format("{} is the next to be multiplied", k_step);
    case LoopError::incomplete:
      return fmt::format("{} and what follows are not multiplied", k_step);
  }
  return "?";
}

}  // namespace

Knob sm80_loop_knob() {
  return {
      "loop",
      "main loop: fragment buffers, k-steps that loads run ahead, order of loads and mma, where the copies of A and "
      "of B start, k-step of wait and barrier, idle slots, barrier before copies, times unrolled",
      {{"fragments", {1, 2, 3}, 2, {}},
       {"ahead", {0, 1, 2}, 1, {}},
       {"order", {kAb, number(LoadOrder::ba), kLate, number(LoadOrder::split)}, kAb, {"ab", "ba", "late", "split"}},
       copy_field("copy_a"),
       copy_field("copy_b"),
       {"sync", {kDue, 0, 1, 2, 3}, kDue, {"due", "0", "1", "2", "3"}},
       {"spare", {0, 1, 2}, 1, {}},
       {"fence", {0, 1}, 0, {}},
       {"unroll", {1, 2, 4}, 1, {}}},
      {{"naive", {1, 0, kAb, kFirst, kFirst, kDue, 1, 0, 1}},
       {"pingpong", {2, 1, kAb, kFirst, kFirst, kDue, 1, 0, 1}},
       {"multistep", {3, 2, kAb, kFirst, kFirst, kDue, 1, 0, 1}},
       {"staggered", {2, 1, kAb, kFirst, kLast, kDue, 1, 0, 1}},
       {"spread", {2, 1, kAb, kSpread, kSpread, kDue, 1, 0, 1}},
       {"late_barrier", {2, 1, kLate, kFirst, kFirst, kDue, 1, 0, 1}},
       {"refill", {1, 1, kLate, kFirst, kFirst, kDue, 1, 0, 1}},
       {"early_copy", {1, 0, kAb, kTop, kTop, kDue, 2, 0, 1}},
       {"full_ring", {2, 1, kAb, kLast, kLast, kDue, 0, 0, 1}},
       {"two_barriers", {1, 0, kAb, kLast, kLast, kDue, 0, 1, 1}},
       {"unrolled", {2, 1, kAb, kFirst, kFirst, kDue, 1, 0, 4}}}};
}

device::LoopPlan sm80_loop_plan(const Recipe& recipe) {
  device::LoopPlan plan;
  plan.fragments = recipe.get("fragments");
  plan.ahead = recipe.get("ahead");
  plan.order = static_cast<LoadOrder>(recipe.get("order"));
  plan.copy_a = static_cast<CopyPlace>(recipe.get("copy_a"));
  plan.copy_b = static_cast<CopyPlace>(recipe.get("copy_b"));
  plan.sync = recipe.get("sync");
  plan.spare = recipe.get("spare");
  plan.fence = recipe.get("fence") != 0;
  plan.unroll = recipe.get("unroll");
  return plan;
}

Recipe& set_sm80_loop(Recipe& recipe, std::string_view name) {
  static const Knob kKnob = sm80_loop_knob();
  for (const KnobPoint& point : kKnob.points) {
    if (point.name != name) continue;
    for (std::size_t f = 0; f < point.values.size(); ++f) recipe.set(kKnob.fields[f].name, point.values[f]);
    return recipe;
  }
  throw std::out_of_range(fmt::format("no loop program is called {}", name));
}

std::string describe(const LoopProgram& loop) {
  std::string text;
  LoopOp before = LoopOp::commit;
  for (int i = 0; i < loop.count; ++i) {
    const LoopStep& step = loop.steps[i];
    // Loads of one k-step, and copies in one piece, share their verb.
    const bool same_loads = i > 0 && (step.op == LoopOp::load_a || step.op == LoopOp::load_b) &&
                            (before == LoopOp::load_a || before == LoopOp::load_b) && before != step.op;
    const std::string name = name_of(step);
    if (same_loads) {
      text += name.substr(name.rfind(' '));
    } else {
      text += (text.empty() ? "" : "; ") + name;
    }
    before = step.op;
  }
  return text;
}

std::string describe(const LoopFault& fault, const LoopProgram& loop) {
  const std::string what = words_of(fault, loop);
  if (fault.step < 0) return "ahead of the loop: " + what;
  if (fault.step >= loop.count) return "end of a stage: " + what;
  return fmt::format("step {} of a stage ({}): {}", fault.step + 1, name_of(loop.steps[fault.step]), what);
}

}  // namespace warpsmith
