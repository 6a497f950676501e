// The main loop of an sm80 kernel as a short program: the steps that multiply one stage, made from a few fields, and
// the rules of such programs, checked by running them. Plain C++, read by the kernel and by the recipe's rules alike.
#pragma once

namespace warpsmith::device {

enum class LoopOp {
  copy_a,    // starts copying a part of A's tile of the stage `lead` ahead
  copy_b,    // the same of B
  commit,    // the copies since the last commit become a group
  wait,      // until at most so many of the thread's groups are in flight
  barrier,   // all threads of the block meet
  load_a,    // A's fragments of a k-step, from shared memory to registers
  load_b,    // B's
  multiply,  // the fragments of a k-step
};

// `at`: of a load or multiplication its k-step, counted from the stage's first (past the last: of the next stage); of a
// copy its part, of `of`; of a wait the groups that may stay in flight.
struct LoopStep {
  LoopOp op = LoopOp::commit;
  int at = 0, of = 1;
};

// Where a stage's copies are started: ahead of everything else, in a k-step, or a part in each.
enum class CopyPlace { top, step0, step1, step2, step3, last, spread };

// Fragment loads of a k-step against its multiplication.
enum class LoadOrder {
  ab,     // A, B, multiply
  ba,     // B, A, multiply
  late,   // multiply, A, B
  split,  // A, multiply, B
};

// A k-step is 16 of K (of each of the warps that share K). `due` is the latest place: ahead of the first load from the
// stage that is waited for.
constexpr int kSyncDue = -1;

// The fields that a program is made of.
struct LoopPlan {
  int fragments = 1;  // register buffers for fragments; k-steps take turns
  int ahead = 0;      // k-steps by which loads run ahead of multiplications
  LoadOrder order = LoadOrder::ab;
  CopyPlace copy_a = CopyPlace::step0, copy_b = CopyPlace::step0;
  int sync = kSyncDue;  // k-step that waits for the next stage, and meets
  int spare = 1;  // slots of the ring that no copy is under way to; 0: a stage is overwritten as soon as it is read
  bool fence = false;  // another barrier ahead of the first copy
  int unroll = 1;      // stages in the loop's body, times what gives every k-step the same buffer in each turn
};

struct LoopProgram {
  static constexpr int kMostSteps = 64;
  LoopStep steps[kMostSteps] = {};  // of one stage
  int count = 0;
  int k_steps = 1, stages = 2, fragments = 1;
  int unroll = 1;  // stages in the loop's body
  int lead = 1;    // stages by which copies run ahead; those before the loop's first are copied ahead of it
  int ahead = 0;   // k-steps that are loaded ahead of the loop

  constexpr void add(LoopOp op, int at = 0, int of = 1) {
    if (count < kMostSteps) steps[count] = {op, at, of};
    ++count;
  }
  // The register buffer of a load or multiplication in stage number `turn` of the loop's body.
  constexpr int buffer(int turn, int k_step) const { return (turn * k_steps + k_step) % fragments; }
};

// The k-step of a tile's last part; -1: the top.
constexpr int copy_step(CopyPlace place, int k_steps) {
  if (place == CopyPlace::top) return -1;
  if (place == CopyPlace::last || place == CopyPlace::spread) return k_steps - 1;
  return static_cast<int>(place) - static_cast<int>(CopyPlace::step0);
}
constexpr int first_copy_step(CopyPlace place, int k_steps) {
  return place == CopyPlace::spread ? 0 : copy_step(place, k_steps);
}

// What a plan names exists: k-steps of the stage, a stage ahead of the one that is read, a copy to put a fence before.
constexpr bool is_whole(const LoopPlan& plan, int k_steps, int stages) {
  const int first_a = first_copy_step(plan.copy_a, k_steps), first_b = first_copy_step(plan.copy_b, k_steps);
  const int last_a = copy_step(plan.copy_a, k_steps), last_b = copy_step(plan.copy_b, k_steps);
  return plan.ahead <= k_steps && plan.sync < k_steps && last_a < k_steps && last_b < k_steps && plan.spare < stages &&
         (!plan.fence || (first_a >= 0 && first_b >= 0));
}

constexpr LoopProgram make_loop(const LoopPlan& plan, int k_steps, int stages) {
  const auto larger = [](int a, int b) { return a > b ? a : b; };
  const auto smaller = [](int a, int b) { return a < b ? a : b; };
  LoopProgram loop;
  loop.k_steps = k_steps;
  loop.stages = stages;
  loop.fragments = plan.fragments;
  loop.lead = stages - plan.spare;
  loop.ahead = plan.ahead;
  while (loop.unroll * k_steps % plan.fragments != 0) ++loop.unroll;
  loop.unroll *= plan.unroll;

  const bool late = plan.order == LoadOrder::late;
  const int due = plan.ahead == 0 ? 0 : k_steps - plan.ahead;
  const int sync = plan.sync == kSyncDue ? due : plan.sync;
  const int last_copy = larger(copy_step(plan.copy_a, k_steps), copy_step(plan.copy_b, k_steps));
  const int first_copy = smaller(first_copy_step(plan.copy_a, k_steps), first_copy_step(plan.copy_b, k_steps));
  // Committed when the wait comes, less what has to be there: the stage, and the next one where its loads follow.
  const bool committed = last_copy < sync || (late && last_copy == sync);
  const int pending = loop.lead + (committed ? 1 : 0) - 1 - (plan.ahead > 0 ? 1 : 0);

  const auto copies = [&](int step) {
    if (plan.copy_a == CopyPlace::spread && step >= 0) {
      loop.add(LoopOp::copy_a, step, k_steps);
    } else if (plan.copy_a != CopyPlace::spread && step == copy_step(plan.copy_a, k_steps)) {
      loop.add(LoopOp::copy_a);
    }
    if (plan.copy_b == CopyPlace::spread && step >= 0) {
      loop.add(LoopOp::copy_b, step, k_steps);
    } else if (plan.copy_b != CopyPlace::spread && step == copy_step(plan.copy_b, k_steps)) {
      loop.add(LoopOp::copy_b);
    }
    if (step == last_copy) loop.add(LoopOp::commit);
  };
  const auto synchronise = [&](int step) {
    if (step != sync) return;
    loop.add(LoopOp::wait, larger(pending, 0));
    loop.add(LoopOp::barrier);
  };

  copies(-1);
  for (int step = 0; step < k_steps; ++step) {
    const int loaded = step + plan.ahead;
    if (!late) {
      synchronise(step);
      if (plan.order == LoadOrder::ba) loop.add(LoopOp::load_b, loaded);
      loop.add(LoopOp::load_a, loaded);
      if (plan.order == LoadOrder::ab) loop.add(LoopOp::load_b, loaded);
    }
    if (plan.fence && step == first_copy) loop.add(LoopOp::barrier);
    copies(step);
    loop.add(LoopOp::multiply, step);
    if (late) {
      synchronise(step);
      loop.add(LoopOp::load_a, loaded);
    }
    if (late || plan.order == LoadOrder::split) loop.add(LoopOp::load_b, loaded);
  }
  return loop;
}

enum class LoopError {
  none,
  too_long,          // more steps than a program holds
  not_copied,        // a load: no copy of the stage, or of a part of it, was started
  not_committed,     // a load: the stage's copies belong to no group yet
  not_awaited,       // a load: nothing waited for the stage's group
  no_barrier,        // a load: other threads' copies are seen after a barrier only, and none followed the wait
  unread,            // a copy: k-steps of the stage that lies in the slot are still to be loaded
  still_read,        // a copy: no barrier since the slot's last load, so other warps may still read it
  unused,            // a load: the register buffer holds a k-step that is still to be multiplied
  missing_fragment,  // a multiplication: its fragments are not in the buffer
  out_of_order,      // a multiplication: not the next k-step
  incomplete,        // the stage's end: k-steps were left out
};

struct LoopFault {
  LoopError error = LoopError::none;
  int step = -1;  // index; -1: ahead of the loop, `count`: the stage's end
  int stage = 0;  // number of the stage, of those that the loop multiplies, during which it happens
  bool of_b = false;
  int other = 0;  // the stage or k-step (counted from the loop's first) that is missing, overwritten or in the way
};

// Runs a program over enough stages to have used every slot and buffer in every way.
class LoopSimulation {
 public:
  constexpr explicit LoopSimulation(const LoopProgram& loop) : loop_(loop) {}

  constexpr LoopFault run() {
    if (loop_.count > LoopProgram::kMostSteps) return {LoopError::too_long, LoopProgram::kMostSteps, 0, false, 0};
    for (int stage = 0; stage < loop_.lead; ++stage) {
      copy(0, stage, 1);
      copy(1, stage, 1);
      ++groups_;
    }
    if (loop_.ahead > 0) {
      wait(loop_.lead - 1);
      meet();
    }
    for (int k = 0; k < loop_.ahead; ++k) {
      load(0, k, loop_.buffer(0, k));
      load(1, k, loop_.buffer(0, k));
    }
    for (stage_ = 0; stage_ < 2 * (loop_.stages + loop_.unroll) + 2; ++stage_) {
      for (step_ = 0; step_ < loop_.count; ++step_) {
        take(loop_.steps[step_]);
        if (fault_.error != LoopError::none) return fault_;
      }
      if (multiplied_ != (stage_ + 1) * loop_.k_steps) fail(LoopError::incomplete, 0, multiplied_);
      if (fault_.error != LoopError::none) return fault_;
    }
    return fault_;
  }

 private:
  static constexpr int kMostStages = 16, kMostFragments = 8;
  struct Slot {
    int stage = -1, parts = 0, of = 1, group = -1;
    int loads = 0, read_at = -1;  // k-steps loaded from it; barriers passed at the last of them
  };

  constexpr void take(const LoopStep& step) {
    const int turn = stage_ % loop_.unroll, buffer = loop_.buffer(turn, step.at);
    const int k = stage_ * loop_.k_steps + step.at;
    switch (step.op) {
      case LoopOp::copy_a:
        return copy(0, stage_ + loop_.lead, step.of);
      case LoopOp::copy_b:
        return copy(1, stage_ + loop_.lead, step.of);
      case LoopOp::commit:
        ++groups_;
        return;
      case LoopOp::wait:
        return wait(step.at);
      case LoopOp::barrier:
        return meet();
      case LoopOp::load_a:
        return load(0, k, buffer);
      case LoopOp::load_b:
        return load(1, k, buffer);
      case LoopOp::multiply:
        return multiply(k, buffer);
    }
  }

  constexpr void fail(LoopError error, int operand, int other) {
    if (fault_.error == LoopError::none) fault_ = {error, step_, stage_, operand == 1, other};
  }
  constexpr void wait(int pending) {
    if (groups_ - pending > awaited_) awaited_ = groups_ - pending;
  }
  constexpr void meet() {
    ++barriers_;
    visible_ = awaited_;
  }
  constexpr void copy(int operand, int stage, int of) {
    Slot& slot = slots_[operand][stage % loop_.stages];
    if (slot.stage != stage) {
      if (slot.stage >= 0 && slot.loads < loop_.k_steps) return fail(LoopError::unread, operand, slot.stage);
      if (slot.stage >= 0 && slot.read_at >= barriers_) return fail(LoopError::still_read, operand, slot.stage);
      slot = {stage, 0, of, -1, 0, -1};
    }
    ++slot.parts;
    slot.group = groups_;
  }
  constexpr void load(int operand, int k, int buffer) {
    const int stage = k / loop_.k_steps;
    Slot& slot = slots_[operand][stage % loop_.stages];
    if (slot.stage != stage || slot.parts < slot.of) return fail(LoopError::not_copied, operand, stage);
    if (slot.group >= groups_) return fail(LoopError::not_committed, operand, stage);
    if (slot.group >= awaited_) return fail(LoopError::not_awaited, operand, stage);
    if (slot.group >= visible_) return fail(LoopError::no_barrier, operand, stage);
    ++slot.loads;
    slot.read_at = barriers_;
    int& held = held_[operand][buffer];
    if (held >= multiplied_) return fail(LoopError::unused, operand, held);
    held = k;
  }
  constexpr void multiply(int k, int buffer) {
    if (k != multiplied_) return fail(LoopError::out_of_order, 0, multiplied_);
    if (held_[0][buffer] != k) return fail(LoopError::missing_fragment, 0, k);
    if (held_[1][buffer] != k) return fail(LoopError::missing_fragment, 1, k);
    ++multiplied_;
  }

  LoopProgram loop_;
  Slot slots_[2][kMostStages] = {};
  int held_[2][kMostFragments] = {{-1, -1, -1, -1, -1, -1, -1, -1}, {-1, -1, -1, -1, -1, -1, -1, -1}};
  int groups_ = 0, awaited_ = 0, visible_ = 0;  // committed; that this thread waited for; that all threads did
  int barriers_ = 0, multiplied_ = 0;
  int step_ = -1, stage_ = 0;
  LoopFault fault_;
};

constexpr LoopFault find_loop_fault(const LoopProgram& loop) { return LoopSimulation(loop).run(); }

}  // namespace warpsmith::device
