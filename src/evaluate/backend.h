// Backend: the worker's side, what a device must offer so that gates and timing are written once for all targets.
// Lives in the worker process only; a backend may crash with its candidate.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codegen/launch.h"
#include "compile/compile.h"
#include "evaluate/inputs.h"
#include "evaluate/judge.h"
#include "evaluate/verdict.h"
#include "problem/machine.h"
#include "problem/problem.h"

namespace warpsmith {

std::string_view to_string(InputKind);

struct CheckReport {
  bool passed = false;
  std::string detail;      // first bad element: (row, column), got, expected, allowed
  double worst_error = 0;  // error over allowed error, largest
  std::int64_t bad = 0;    // number of bad elements
  Precision precision{};   // of a C that was judged; means something on N(0,1) data
  bool strayed = false;    // memory was written that is not the candidate's: nothing in this process is to be trusted
};

// One run of the candidate as a gate asks for it.
struct GateStep {
  enum class Place {
    fresh,   // A, B, C and workspace at other addresses than before; C and the workspace poisoned
    repeat,  // data and addresses of the last step; C and the workspace poisoned anew
    kept,   // other data at the addresses of the last step; C poisoned, workspace and globals as the last run left them
    stale,  // data and addresses of the last step; everything as the last run left it, but for the holes in C
  };
  InputKind kind = InputKind::normal;
  std::uint64_t seed = 1;
  Criterion criterion = Criterion::bound;
  std::uint16_t poison = 0;
  Place place = Place::fresh;
  Factors factors{};      // of a scaled problem; with beta, C holds input_c() before the run, not poison
  inputs::Holes holes{};  // of a stale step: what is poisoned
};

// What a step showed. The rest has no meaning after a fault or a crash.
struct GateObservation {
  std::optional<std::string> fault;  // the environment failed before the candidate ran
  std::optional<std::string> crash;  // the device's words, when the run did not complete
  CheckReport judged;                // C against the reference
  CheckReport untouched;             // as check_untouched()
  std::int64_t unwritten = 0;        // elements of C that still hold the poison
  std::uint64_t hash = 0;            // of C's bits
};

// Of long work: how far it is, 0 to 1, and what it does.
using WorkProgress = std::function<void(double fraction, const std::string& text)>;

class Backend {
 public:
  virtual ~Backend() = default;

  virtual const Machine& machine() const = 0;

  // Makes room for a problem: operands with red zones, several sets for cold timing. Drops the previous problem.
  virtual Status prepare(const Problem& problem, std::uint64_t seed) = 0;

  // Loads a compiled candidate; only one is loaded at a time.
  virtual Status load(const Artifact& artifact, const nlohmann::json& launch) = 0;
  virtual void unload() = 0;

  // --- several candidates of a shape at once ---
  // The prepared problem with operands stored in another layout: the same values, and references that are known stay
  // known. What is loaded is unloaded.
  virtual Status change_layout(Layout layout);
  // Sets the loaded candidate aside. From now on, and until another problem is prepared, it is the subject whose number
  // (negative) is returned; none is loaded.
  virtual Result<int> keep_candidate();

  // --- gates ---
  // Fills A and B (at addresses that differ from run to run), builds the FP64 reference, or reuses the one it made for
  // this (problem, kind, seed) before.
  virtual Status fill(InputKind kind, std::uint64_t seed) = 0;
  // Other data at the addresses of the last fill().
  virtual Status refill(InputKind kind, std::uint64_t seed) { return fill(kind, seed); }
  // Poisons C and the workspace with `pattern`, runs the candidate once, and waits for it. Error: the device's words.
  virtual Status run_once(std::uint16_t poison) = 0;
  // The same, but the workspace and the candidate's globals stay as its last run left them.
  virtual Status run_kept(std::uint16_t poison) { return run_once(poison); }
  // The same, and C keeps its results too but for the holes, which are poisoned.
  virtual Status run_stale(std::uint16_t poison, const inputs::Holes& /*holes*/) { return run_kept(poison); }
  virtual CheckReport check(Criterion criterion) = 0;  // C against the reference
  virtual CheckReport check_untouched() = 0;           // red zones of A, B, C, workspace; A and B unchanged
  virtual std::uint64_t output_hash() = 0;             // of C's bits
  // Every element of C differs from the poison, given outputs under two different poisons by the caller.
  virtual std::int64_t count_equal_to(std::uint16_t pattern) = 0;

  // A whole step: fill, run, look. Backends for which every call is a round trip do it in one.
  virtual GateObservation run_step(const GateStep& step);
  // The candidate's globals are the same bytes as after its first run since load().
  // Error: as of run_once().
  virtual Result<CheckReport> check_state() { return CheckReport{true, {}, 0, 0}; }
  // The candidate is made for launches that start while the one before still runs.
  virtual bool offers_dependent_launch() const { return false; }
  // Such launches, each reading what the one before writes, leave the same bits as launches that wait for each other.
  // Asked only where they are offered. Error: as of run_once().
  virtual Result<CheckReport> check_dependent_launch() { return CheckReport{true, {}, 0, 0}; }

  // --- timing ---
  // Subjects are numbered: 0 is the loaded candidate, -1, -2.. those that were kept, 1.. the baselines that
  // open_baselines() listed.
  virtual Result<std::vector<std::string>> open_baselines() = 0;  // names; tunes them where they can be tuned
  // What tuning chose for this problem, in the backend's own form, and the same given back before open_baselines():
  // then only those are timed again. Null: nothing is known.
  virtual nlohmann::json baseline_choices() { return nullptr; }
  virtual void suggest_baselines(const nlohmann::json& choices) { static_cast<void>(choices); }
  // Searches all configurations of a library for at most `seconds` and adds the fastest to the baselines. Returns the
  // names that were added.
  virtual Result<std::vector<std::string>> open_exhaustive(double seconds, const WorkProgress& progress);
  virtual std::string baseline_detail(int subject) = 0;

  // Offline. Prepares a subject for timing (graph capture, warm-up); returns a first estimate in us per launch.
  virtual Result<double> arm(int subject, bool cold, bool pdl) = 0;
  // For what is armed from now on: wanted length of a batch (0: the backend's own choice), of launches that take about
  // `launch_us` each (0: not known).
  virtual void set_batch(double batch_us, double launch_us) {
    static_cast<void>(batch_us);
    static_cast<void>(launch_us);
  }
  // One batch of back-to-back launches of an armed subject; microseconds per launch. Before it, unclocked: outputs are
  // poisoned, the candidate's globals and workspace are as after loading, cold operands are out of the caches.
  virtual Result<double> time_batch(int subject, bool cold, bool pdl) = 0;
  virtual int launches_per_batch(int subject, bool cold, bool pdl) = 0;
  // Runs a subject (armed cold) until clocks settle, where the problem draws enough power to lower them and the device
  // has rested.
  virtual Status preheat(int /*subject*/) { return ok_status(); }

  // Single calls. ready_call() does all that precedes a batch, for one call, and leaves the device idle; call() makes
  // it: microseconds on the host's clock from before the call until it is known to be complete.
  virtual Status ready_call(int subject, bool cold) = 0;
  virtual Result<double> call(int subject, bool cold) = 0;

  // The clock of the timing loop, and waiting by it with the device idle: asleep first, spinning at the end.
  virtual double now_seconds();
  virtual void idle(double seconds);

  virtual double clock_mhz() = 0;                                     // 0: unknown
  virtual std::vector<std::string> throttle_reasons() { return {}; }  // why clocks are lowered now, where it is known
  virtual std::vector<int> peers() const { return {}; }               // ordinals of further devices of the same type
  // After timing: the outputs that the timed launches wrote are right (their reference was made beforehand). Error: as
  // of run_once().
  virtual Result<CheckReport> check_timed_outputs(int subject) = 0;
  // Errors against FP64 on inputs of large magnitude, of a candidate that was kept and of what the baselines' library
  // computes in its layout with FP32 and with narrower accumulation. Error: failed where the device compares none.
  virtual Result<nlohmann::json> compare_errors(int candidate);
};

// The worker's main loop: reads requests from its parent, writes answers and stage notices, until the channel closes.
// Returns the process's exit code.
int serve_worker(Backend& backend);

}  // namespace warpsmith
