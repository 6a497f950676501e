// The stages.
#include "audit/cuda/problem_audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "audit/cuda/audit_backend.h"
#include "audit/cuda/batch_timer.h"
#include "audit/cuda/chained_calls.h"
#include "audit/cuda/shared_operands.h"
#include "evaluate/cuda/cublas_baselines.h"
#include "evaluate/gates.h"
#include "evaluate/timing.h"

namespace warpsmith::audit {

using cuda::check;
using cuda::CudaError;

namespace {

constexpr double kLeastCallUs = 2.5;       // what a call from the host takes, at least
constexpr double kSlowCallSeconds = 0.25;  // beyond it a batch is a single call
constexpr int kWatchedCalls = 6;
constexpr double kOrderDelayUs = 3000;
constexpr std::uint16_t kPoison = kPoisonPatterns[0];
constexpr double kPreheatSeconds = 2;
constexpr double kLongTuningUs = 2e4;  // a replay this long is as good as several

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Everything on the device that one problem needs.
struct Workbench {
  Workbench(const Problem& wanted, const Machine& machine, const AuditOptions& options, SharingKind kind, int device,
            cuda::ReferenceMaker& references, cudaStream_t stream)
      : problem(wanted),
        floor_us(physical_floor_us(wanted, machine, true)),
        operands(problem, draw_seed(), 2 * calls_per_batch(std::max(1.3 * floor_us, kLeastCallUs), 1 << 20), references,
                 stream),
        memory(kind, SharedOperands::bytes_needed(problem, options.workspace_bytes, operands.count()), device),
        shared(memory, problem, options.workspace_bytes, operands, stream),
        backend(machine, problem, references, shared, stream) {
    check(cudaStreamSynchronize(stream), "preparing the problem");
  }

  Problem problem;
  double floor_us;
  cuda::TimingOperands operands;
  SharedMemory memory;
  SharedOperands shared;
  AuditBackend backend;
};

// A baseline that is being tried out, with its graph.
class Trial final : public cuda::BaselineTrial {
 public:
  Trial(cuda::GraphTimer& timer, cuda::TimingOperands& operands, cuda::ArmedGraph graph)
      : timer_(timer), operands_(operands), graph_(std::move(graph)) {}

  const cuda::ArmedGraph& graph() const { return graph_; }
  double time_us() override { return timer_.replay(graph_, operands_, kPoison, {}); }
  bool is_long(double time_us) const override { return time_us * graph_.launches >= kLongTuningUs; }

 private:
  cuda::GraphTimer& timer_;
  cuda::TimingOperands& operands_;
  cuda::ArmedGraph graph_;
};

class ProblemAudit {
 public:
  ProblemAudit(const JudgeDevice& device, HostFactory& hosts, const std::filesystem::path& object,
               const Problem& problem, const AuditOptions& options, const StageNotice& notice)
      : device_(device), hosts_(hosts), object_(object), options_(options), notice_(notice) {
    report_.problem = problem;
    if (!hosts.known()->refused.empty()) report_.not_run["stricter-sandbox"] = hosts.known()->refused;
  }

  Result<ProblemReport> run(SharingKind kind) {
    const double start = now_seconds();
    stage("prepare");
    Workbench bench(report_.problem, device_.machine, options_, kind, device_.ordinal, device_.references,
                    device_.stream);
    report_.floor_us = bench.floor_us;
    const std::uint64_t fresh_seed = draw_seed();
    if (const Status ready = prepare_gates(bench.backend, options_.seed, fresh_seed); !ready) return ready.error();
    const Status done = run_stages(bench, fresh_seed);
    if (!done) return done.error();
    report_.seconds = now_seconds() - start;
    return std::move(report_);
  }

 private:
  void stage(const std::string& name) {
    if (notice_) notice_(name);
  }
  void find(Severity severity, const std::string& check, const std::string& detail) {
    report_.findings.push_back({severity, check, detail});
  }
  void ran(const char* check) { report_.checks.emplace_back(check); }

  Status run_stages(Workbench& bench, std::uint64_t fresh_seed) {
    stage("watch");
    auto watched = hosts_.start(bench.memory, true);
    if (!watched) return watched.error();
    const bool goes_on = watch_calls(**watched, bench);
    finish(**watched, (*watched)->watch_error().empty());
    watched->reset();
    if (!goes_on) return ok_status();

    stage("gates");
    auto host = hosts_.start(bench.memory, false);
    if (!host) return host.error();
    if (ready(**host, bench) && run_gates_on(**host, bench, fresh_seed) && check_order(**host, bench) &&
        check_keeping(**host, bench) && check_chain(**host, bench) && options_.timing) {
      time(**host, bench);
    }
    finish(**host, false);
    ran("threads");
    return ok_status();
  }

  // Judged by what its process did, else as `otherwise`.
  bool end(const HostSession& host, Outcome otherwise, const std::string& detail) {
    const auto fault = host.link().last_fault();
    report_.status = !fault ? otherwise : *fault == HostFault::hung ? Outcome::timed_out : Outcome::crashed;
    report_.detail = detail;
    return false;
  }

  // What is seen of a host in the end, whatever became of it.
  void finish(HostSession& host, bool watched) {
    report_.sandbox = host.link().confinement();
    if (!host.link().last_fault()) host.look();
    if (!watched) {  // the watch may have threads of its own
      for (Finding& finding : judge_threads(host.threads_before(), host.most_threads())) {
        report_.findings.push_back(std::move(finding));
      }
    }
    if (host.stray_lines() > 0) {
      find(Severity::suspicious, "forged-results",
           fmt::format("{} lines were written to the judge's channel that nobody asked for", host.stray_lines()));
    }
  }

  bool load(HostSession& host) {
    const Status loaded = host.load(object_);
    if (!loaded) return end(host, Outcome::crashed, loaded.error().message);
    report_.nondeterminism = host.nondeterminism();
    return true;
  }

  bool register_timed(HostSession& host, const Workbench& bench) {
    for (const bool cold : {true, false}) {
      const Status known = host.register_table(bench.shared.timed_table(cold));
      if (!known) return end(host, Outcome::crashed, known.error().message);
    }
    return true;
  }

  bool ready(HostSession& host, Workbench& bench) {
    bench.backend.use(&host);
    return load(host) && register_timed(host, bench);
  }

  bool refused(const HostSession& host, int code) {
    if (code == 0) return false;
    if (code == kNotSupported) {
      end(host, Outcome::not_supported, "the entry says that it does not support this problem");
    } else {
      end(host, Outcome::crashed, fmt::format("the entry returned {}", code));
    }
    return true;
  }

  bool watch_calls(HostSession& host, Workbench& bench) {
    if (!load(host) || !register_timed(host, bench)) return false;
    CallFacts facts[2];
    for (const bool later : {false, true}) {
      const auto reply = host.run("cold", later ? 1 : 0, later ? kWatchedCalls - 1 : 1);
      if (!reply) return end(host, Outcome::crashed, reply.error().message);
      if (refused(host, reply->code)) return false;
      if (later) std::this_thread::sleep_for(std::chrono::milliseconds(20));  // for what runs on after the calls
      const auto seen = host.observe();
      if (!seen) return end(host, Outcome::crashed, seen.error().message);
      facts[later ? 1 : 0] = *seen;
    }
    if (!host.watch_error().empty()) {
      report_.not_run["driver-calls"] = host.watch_error();
      return true;
    }
    ran("driver-calls");
    for (Finding& finding : judge_calls(facts[0], facts[1])) report_.findings.push_back(std::move(finding));
    return true;
  }

  bool run_gates_on(HostSession& host, Workbench& bench, std::uint64_t fresh_seed) {
    GateOptions gate_options;
    gate_options.seed = options_.seed;
    gate_options.fresh_seed = fresh_seed;
    gate_options.order_nondeterministic = !host.nondeterminism().empty();
    gate_options.nondeterminism_reason = host.nondeterminism();
    const GateReport gates = run_gates(bench.backend, gate_options);
    report_.gates = gates.gates;
    ran("gates");
    if (gates.fault) return end(host, Outcome::failed, *gates.fault);
    if (const auto code = bench.backend.refusal()) {
      refused(host, *code);
      return false;
    }
    if (gates.crash) return end(host, Outcome::crashed, *gates.crash);
    probe_accumulator(host, bench, fresh_seed);
    if (gates.passed()) {
      report_.status = Outcome::right;
      return true;
    }
    return end(host, Outcome::wrong, fmt::format("gate {}: {}", gates.gates.back().gate, gates.gates.back().detail));
  }

  // The gates stop at the first failure; which accumulator it is shall be known all the same. Sums of the exact gate
  // are right in f16, too: who passes that and not the probe is right but for its accumulator.
  void probe_accumulator(HostSession& host, Workbench& bench, std::uint64_t seed) {
    if (report_.problem.k < 64 || host.link().last_fault()) return;
    const auto passes = [&](InputKind kind) {
      const GateObservation seen =
          bench.backend.run_step({kind, seed, Criterion::exact, kPoisonPatterns[1], GateStep::Place::fresh});
      return !seen.fault && !seen.crash && seen.unwritten == 0 && seen.judged.passed;
    };
    const bool proved = std::any_of(report_.gates.begin(), report_.gates.end(),
                                    [](const GateResult& gate) { return gate.gate == "accumulator" && gate.passed; });
    const bool imprecise = std::any_of(report_.gates.begin(), report_.gates.end(),
                                       [](const GateResult& gate) { return gate.gate == "precision" && !gate.passed; });
    if (imprecise) {  // whatever it does where data look like a probe
      report_.accumulator = "f16";
    } else if (proved) {
      report_.accumulator = "f32";
    } else if (passes(InputKind::zero_one)) {
      report_.accumulator = passes(InputKind::accumulator) ? "f32" : "f16";
    }
  }

  // The stream is busy, then the inputs of another set arrive, and after the call C is carried away, all by the stream.
  bool check_order(HostSession& host, Workbench& bench) {
    stage("order");
    const int set = bench.shared.sets() > 1 ? 1 : 0;
    const Problem& problem = report_.problem;
    const cuda::OperandSet gate = bench.shared.gate(), timed = bench.shared.timed(set);
    cuda::set_pattern(gate.c, problem.m * problem.n, kPoison, device_.stream);
    bench.shared.poison_timed(kPoison);
    check(cudaStreamSynchronize(device_.stream), "preparing a call");
    const auto copy = [&](const void* to, const void* from, std::int64_t elements) {
      return nlohmann::json{bench.shared.offset_of(to), bench.shared.offset_of(from), elements * 2};
    };
    const nlohmann::json before = {copy(gate.a, timed.a, problem.m * problem.k),
                                   copy(gate.b, timed.b, problem.k * problem.n)};
    const nlohmann::json after = {copy(timed.c, gate.c, problem.m * problem.n)};
    const auto reply = host.run_ordered(before, after, kOrderDelayUs);
    if (!reply) return end(host, Outcome::crashed, reply.error().message);
    if (refused(host, reply->code)) return false;
    ran("stream-order");
    const CheckReport late = bench.backend.check_late_writes();
    ran("late-writes");
    if (!late.passed) find(Severity::wrong, "late-writes", late.detail);
    const std::int64_t bad = count_wrong(bench, set);
    if (bad == 0) return true;
    find(Severity::wrong, "side-stream",
         fmt::format(
             "{} elements wrong where inputs reach the stream before the call and C leaves it after: work is not "
             "in the order of the stream given",
             bad));
    return end(host, Outcome::wrong, "its work is not in the order of the stream that it was given");
  }

  std::int64_t count_wrong(Workbench& bench, int set) {
    const cuda::DeviceBuffer totals(sizeof(cuda::Totals));
    cuda::clear_totals(totals.as<cuda::Totals>(), device_.stream);
    cuda::judge_output(bench.shared.timed(set).c, bench.operands.reference(set), bench.operands.spec(set),
                       Criterion::bound, totals.as<cuda::Totals>(), device_.stream);
    cuda::Totals found{};
    check(cudaMemcpyAsync(&found, totals.data(), sizeof found, cudaMemcpyDeviceToHost, device_.stream),
          "cudaMemcpyAsync");
    check(cudaStreamSynchronize(device_.stream), "cudaStreamSynchronize");
    return static_cast<std::int64_t>(found.bad);
  }

  bool check_keeping(HostSession& host, Workbench& bench) {
    stage("kept results");
    const GateStep fresh{InputKind::normal, options_.seed, Criterion::bound, kPoison, GateStep::Place::fresh};
    const GateObservation seen = bench.backend.run_step(fresh);
    if (seen.fault) return end(host, Outcome::failed, *seen.fault);
    if (seen.crash) return end(host, Outcome::crashed, *seen.crash);
    const CheckReport kept = bench.backend.check_exchanged_rows(kPoisonPatterns[1]);
    ran("kept-results");
    if (host.link().last_fault()) return end(host, Outcome::crashed, kept.detail);
    if (kept.passed) return true;
    find(Severity::wrong, "kept-results", kept.detail);
    return end(host, Outcome::wrong, "results of earlier calls are handed out again: " + kept.detail);
  }

  // A kernel that may start early must wait before it reads: two calls of which the second reads what the first writes.
  bool check_chain(HostSession& host, Workbench& bench) {
    stage("chained calls");
    const ChainReport chain =
        check_chained_calls(host, bench.shared, device_.stream, report_.problem, !host.nondeterminism().empty());
    if (!chain.fault.empty()) return end(host, Outcome::crashed, chain.fault);
    ran("chained-calls");
    if (chain.violation.empty()) return true;
    find(Severity::wrong, "chained-calls", chain.violation);
    return end(host, Outcome::wrong, "it does not wait for the stream's earlier work: " + chain.violation);
  }

  std::vector<std::unique_ptr<cuda::Baseline>> open_baselines(Workbench& bench) {
    const int launches = std::min(cuda::GraphTimer::launches_for(bench.floor_us), bench.operands.count());
    cuda::BaselineChoices choices;
    auto all = cuda::make_cublas_baselines(
        report_.problem, device_.baseline_cublas, device_.cublaslt, device_.baseline_workspace,
        [&](cuda::Baseline& one, cuda::TrialLength) { return try_out(bench, one, launches); }, choices);
    std::erase_if(all, [](const auto& one) { return one->name().find("auto") == std::string::npos; });
    return all;
  }

  std::unique_ptr<cuda::BaselineTrial> try_out(Workbench& bench, cuda::Baseline& one, int launches) {
    try {
      const auto launch = [&](int inputs, int output, cudaStream_t stream) {
        one.launch(bench.operands.operands(one.layout(), inputs, output), stream);
      };
      auto trial = std::make_unique<Trial>(device_.timer, bench.operands, device_.timer.arm(launch, launches, true, 0));
      trial->time_us();
      if (report_.problem.flops() >= kHeatingFlops && !warm_) {
        device_.timer.preheat(trial->graph(), kPreheatSeconds);
        warm_ = true;
      }
      return trial;
    } catch (const CudaError&) {
      if (cuda::context_is_lost()) throw;
      return nullptr;
    }
  }

  void time(HostSession& host, Workbench& bench) {
    stage("baselines");
    const auto baselines = open_baselines(bench);
    stage("timing");
    const TimingBench timing{device_.machine, report_.problem, bench.shared,
                             bench.operands,  device_.timer,   device_.stream};
    std::vector<std::unique_ptr<TimedSubject>> owned;
    owned.push_back(make_candidate_subject(timing, host));
    for (const auto& one : baselines) owned.push_back(make_baseline_subject(timing, *one));
    std::vector<TimedSubject*> subjects;
    for (const auto& one : owned) subjects.push_back(one.get());
    if (!register_timed(host, bench)) return;  // the workspace has moved since
    const auto first = host.run("cold", 0, 1);
    const double call_seconds = first ? first->claims.judge_us * 1e-6 : 0;
    int calls = calls_per_batch(std::max(1.3 * bench.floor_us, kLeastCallUs), bench.shared.sets());
    if (call_seconds > kSlowCallSeconds) calls = 1;
    const TimedPairs pairs = time_subjects(subjects, calls, options_.effort_seconds);
    report_.clock_mhz = device_.clocks.mhz();
    for (std::size_t i = 0; i < subjects.size(); ++i) {
      SubjectTiming subject{subjects[i]->name(), subjects[i]->detail(), {}};
      for (const auto& [mode, list] : pairs[i]) subject.modes[mode] = compare_clocks(list);
      report_.timing.push_back(std::move(subject));
    }
    ran("clocks");
    ran("timed-outputs");
    judge_faults(host, *owned.front());
    judge_times(bench);
    const CheckReport inputs = bench.shared.check_timed_inputs(bench.operands);
    if (!inputs.passed) find(Severity::wrong, "timed-outputs", inputs.detail);
  }

  void judge_faults(const HostSession& host, const TimedSubject& candidate) {
    for (const TimedFault& fault : candidate.faults()) {
      if (fault.fatal) {
        end(host, Outcome::crashed, fault.detail);
      } else if (fault.check == "capture") {
        report_.not_run["captured-graph"] = fault.detail;
        find(Severity::note, fault.check, fault.detail);
      } else {
        find(fault.check == "timed-outputs" ? Severity::wrong : Severity::suspicious, fault.check, fault.detail);
      }
    }
    if (report_.not_run.count("captured-graph") == 0) ran("captured-graph");
  }

  void judge_times(const Workbench& bench) {
    for (const auto& [mode, clocks] : report_.timing.front().modes) {
      if (!clocks.consistent) {
        find(Severity::suspicious, "clocks", fmt::format("{}: {}", mode, clocks.disagreement));
      }
      const bool cold = mode.ends_with("cold");
      const double floor_us = cold ? bench.floor_us : physical_floor_us(report_.problem, device_.machine, false);
      if (!(clocks.quoted_us >= floor_us)) {
        find(Severity::suspicious, "floor",
             fmt::format("{}: {:.3g} us a call; nothing on this device is faster than {:.3g} us", mode,
                         clocks.quoted_us, floor_us));
      }
    }
  }

  JudgeDevice device_;
  HostFactory& hosts_;
  std::filesystem::path object_;
  AuditOptions options_;
  StageNotice notice_;
  ProblemReport report_;
  bool warm_ = false;
};

}  // namespace

Result<ProblemReport> audit_problem(const JudgeDevice& device, HostFactory& hosts, const std::filesystem::path& object,
                                    const Problem& problem, const AuditOptions& options, const StageNotice& notice) {
  return ProblemAudit(device, hosts, object, problem, options, notice).run(hosts.known()->sharing);
}

}  // namespace warpsmith::audit
