// Loop programs of the sm80 family: the named ones, the rules, and what is said of programs that break them.
#include "recipe/sm80_loop.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <random>
#include <set>

#include "machines.h"
#include "recipe/sm80_plan.h"

namespace warpsmith {
namespace {

using device::CopyPlace;
using device::find_loop_fault;
using device::LoadOrder;
using device::LoopError;
using device::LoopOp;
using device::LoopPlan;
using device::LoopProgram;
using device::LoopStep;
using device::make_loop;

LoopPlan named(const std::string& name) { return sm80_loop_plan(parse_recipe("sm80 loop=" + name).value()); }

// A program of given steps over `k_steps` k-steps a stage.
LoopProgram program_of(std::initializer_list<LoopStep> steps, int k_steps, int stages, int lead, int fragments = 1,
                       int ahead = 0) {
  LoopProgram loop;
  for (const LoopStep& step : steps) loop.add(step.op, step.at, step.of);
  loop.k_steps = k_steps;
  loop.stages = stages;
  loop.lead = lead;
  loop.fragments = fragments;
  loop.ahead = ahead;
  return loop;
}

void expect_fault(const LoopProgram& loop, LoopError error, const std::string& words) {
  const device::LoopFault fault = find_loop_fault(loop);
  EXPECT_EQ(fault.error, error) << describe(loop) << ": " << describe(fault, loop);
  EXPECT_NE(describe(fault, loop).find(words), std::string::npos) << describe(fault, loop);
}

constexpr LoopStep kCopyA = {LoopOp::copy_a, 0, 1}, kCopyB = {LoopOp::copy_b, 0, 1}, kCommit = {LoopOp::commit, 0, 1},
                   kBarrier = {LoopOp::barrier, 0, 1};
constexpr LoopStep wait(int pending) { return {LoopOp::wait, pending, 1}; }
constexpr LoopStep load_a(int k_step) { return {LoopOp::load_a, k_step, 1}; }
constexpr LoopStep load_b(int k_step) { return {LoopOp::load_b, k_step, 1}; }
constexpr LoopStep multiply(int k_step) { return {LoopOp::multiply, k_step, 1}; }

TEST(Sm80Loop, NamedProgramsAreLegalWhereverTheyAreWhole) {
  const Knob knob = sm80_loop_knob();
  EXPECT_GE(knob.points.size(), 6u);
  for (const KnobPoint& point : knob.points) {
    int legal = 0;
    for (const int k_steps : {1, 2, 4, 8}) {
      for (const int stages : {3, 4, 8}) {
        const LoopPlan plan = named(point.name);
        if (!is_whole(plan, k_steps, stages)) continue;
        const LoopProgram loop = make_loop(plan, k_steps, stages);
        const device::LoopFault fault = find_loop_fault(loop);
        EXPECT_EQ(fault.error, LoopError::none)
            << point.name << " " << k_steps << " " << stages << ": " << describe(fault, loop);
        legal += fault.error == LoopError::none ? 1 : 0;
      }
    }
    EXPECT_GE(legal, 6) << point.name;
  }
}

TEST(Sm80Loop, NamedProgramsDiffer) {
  std::set<std::string> programs;
  const Knob knob = sm80_loop_knob();
  for (const KnobPoint& point : knob.points) {
    const LoopProgram loop = make_loop(named(point.name), 4, 4);
    EXPECT_TRUE(
        programs.insert(fmt::format("{} {} {} {}", describe(loop), loop.fragments, loop.unroll, loop.lead)).second)
        << point.name;
  }
}

TEST(Sm80Loop, NamesAndFieldsMeanTheSame) {
  const Recipe by_name = parse_recipe("sm80 loop=staggered").value();
  EXPECT_EQ(by_name, parse_recipe("sm80 loop=2x1xabx0xlastxduex1x0x1").value());
  EXPECT_EQ(to_short_string(by_name), "sm80 loop=staggered");
  const Recipe other = parse_recipe("sm80 loop=2x1xlatex1xspreadx3x1x0x2").value();
  EXPECT_EQ(to_short_string(other), "sm80 loop=2x1xlatex1xspreadx3x1x0x2");
  EXPECT_EQ(parse_recipe(to_string(other)).value(), other);
  const auto wrong = parse_recipe("sm80 loop=hasty");
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message.find("accepted: naive, pingpong"), std::string::npos) << wrong.error().message;
  EXPECT_NE(wrong.error().message.find("fragments is 1, 2, 3"), std::string::npos) << wrong.error().message;
}

TEST(Sm80Loop, ProgramsInWords) {
  EXPECT_EQ(describe(make_loop(named("naive"), 2, 4)),
            "wait 2; barrier; ldmatrix A0 B0; copy A; copy B; commit; mma 0; ldmatrix A1 B1; mma 1");
  EXPECT_EQ(describe(make_loop(named("late_barrier"), 2, 3)),
            "copy A; copy B; commit; mma 0; ldmatrix A1 B1; mma 1; wait 1; barrier; ldmatrix A2 B2");
  EXPECT_EQ(describe(make_loop(named("spread"), 2, 3)),
            "ldmatrix A1 B1; copy A part 1 of 2; copy B part 1 of 2; mma 0; wait 0; barrier; ldmatrix A2 B2; "
            "copy A part 2 of 2; copy B part 2 of 2; commit; mma 1");
}

// Hand-written programs, each with one thing wrong.
TEST(Sm80Loop, WrongProgramsAreRefusedWithTheReason) {
  const auto naive = [](LoopStep first, LoopStep second) {
    return program_of({first, second, kCopyA, kCopyB, kCommit, load_a(0), load_b(0), multiply(0)}, 1, 3, 2);
  };
  EXPECT_EQ(find_loop_fault(naive(wait(1), kBarrier)).error, LoopError::none);
  expect_fault(naive(wait(2), kBarrier), LoopError::not_awaited, "nothing has waited for the copies of A of stage +0");
  expect_fault(naive(kBarrier, wait(1)), LoopError::no_barrier, "no barrier since the wait for A of stage +0");
  expect_fault(program_of({kCopyA, kCopyB, kCommit, wait(2), kBarrier, load_a(0), load_b(0), multiply(0)}, 1, 3, 2),
               LoopError::still_read, "other warps may still read");
  expect_fault(program_of({wait(0), kBarrier, kCopyA, kCopyB, load_a(0), load_b(0), multiply(0)}, 1, 3, 2),
               LoopError::not_committed, "are not committed");
  expect_fault(program_of({wait(0), kBarrier, load_a(0), load_b(0), multiply(0), kCopyA, kCommit}, 1, 3, 2),
               LoopError::not_copied, "B of stage +0 was not copied");
  expect_fault(program_of({wait(2), kBarrier, load_a(0), kCopyA, kCopyB, kCommit, load_b(0), multiply(0)}, 1, 3, 3),
               LoopError::still_read, "step 4 of a stage (copy A)");
  expect_fault(program_of({wait(2), kBarrier, kCopyA, kCopyB, kCommit, load_a(0), load_b(0), multiply(0)}, 1, 3, 3),
               LoopError::unread, "overwrites A of stage +0");
}

TEST(Sm80Loop, WrongFragmentsAreRefusedWithTheReason) {
  const auto body = [](std::initializer_list<LoopStep> steps, int fragments, int ahead) {
    LoopProgram loop = program_of({wait(0), kBarrier}, 2, 4, 3, fragments, ahead);
    for (const LoopStep& step : steps) loop.add(step.op, step.at, step.of);
    for (const LoopStep& step : {kCopyA, kCopyB, kCommit}) loop.add(step.op, step.at, step.of);
    return loop;
  };
  expect_fault(body({load_a(1), load_b(1), multiply(0), load_a(2), load_b(2), multiply(1)}, 1, 1), LoopError::unused,
               "overwrites the fragment of k-step +0");
  expect_fault(body({load_a(0), multiply(0), load_b(0), load_a(1), load_b(1), multiply(1)}, 2, 0),
               LoopError::missing_fragment, "the fragment of B of k-step +0");
  expect_fault(body({load_a(0), load_b(0), load_a(1), load_b(1), multiply(1), multiply(0)}, 2, 0),
               LoopError::out_of_order, "k-step +0 is the next");
  expect_fault(body({load_a(0), load_b(0), multiply(0)}, 2, 0), LoopError::incomplete, "k-step +1 and what follows");
  // Buffers that do not come round with the loop's body.
  LoopProgram uneven = make_loop(named("multistep"), 2, 4);
  EXPECT_EQ(find_loop_fault(uneven).error, LoopError::none);
  uneven.unroll = 1;
  EXPECT_NE(find_loop_fault(uneven).error, LoopError::none);
}

// Rules and simulation agree, and a good share of random programs is legal: mutation writes new ones.
TEST(Sm80Loop, RandomProgramsAreLegalOrSaidToBeWrong) {
  const Machine machine = testing::make_gpu("Hopper", 90, 132, 232'448);
  std::mt19937_64 random(4);
  std::set<std::string> legal;
  const Knob knob = sm80_loop_knob();
  for (int i = 0; i < 20'000; ++i) {
    Recipe recipe = parse_recipe("sm80 tile=64x64x64 stages=4").value();
    for (const KnobField& field : knob.fields) recipe.set(field.name, field.values[random() % field.values.size()]);
    const auto violation = find_violation(recipe, nullptr, machine);
    if (!violation) legal.insert(to_string(recipe));
    if (violation) {
      EXPECT_TRUE(violation->rule == "loop" || violation->rule == "loop_places") << violation->rule;
    }
  }
  EXPECT_GT(legal.size(), 200u);
}

}  // namespace
}  // namespace warpsmith
