// The order of each batch: poison, workspace, L2 as the mode wants it, the judge's clock, the batch, a count of what
// was left unwritten (which is when the judge's clock stops), and a few outputs in full.
#include "audit/cuda/batch_timer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>

#include "evaluate/cuda/device_work.h"
#include "evaluate/gates.h"

namespace warpsmith::audit {

using cuda::check;

namespace {

constexpr std::uint16_t kPoison = kPoisonPatterns[0];
constexpr double kBatchUs = 1500;
constexpr int kMostCalls = 128;
constexpr int kFewestRounds = 7, kMostRounds = 60;
constexpr int kJudgedInFull = 2;  // outputs after each batch, beside the count over all of them

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string graph_name(const TimedMode& mode, int calls) { return fmt::format("{}-{}", mode.name(), calls); }

cuda::Totals read_totals(const cuda::DeviceBuffer& totals, cudaStream_t stream) {
  cuda::Totals result{};
  check(cudaMemcpyAsync(&result, totals.data(), sizeof result, cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return result;
}

class CandidateSubject final : public TimedSubject {
 public:
  CandidateSubject(const TimingBench& bench, HostSession& host)
      : bench_(bench), host_(host), totals_(sizeof(cuda::Totals)), sink_(sizeof(unsigned)), random_(draw_seed()) {}

  std::string name() const override { return "candidate"; }
  std::string detail() const override { return {}; }
  const std::vector<TimedFault>& faults() const override { return faults_; }

  bool prepare(const TimedMode& mode, int calls) override {
    if (!mode.graph) return !gone_;
    for (const int length : {calls, 2 * calls}) {
      const auto captured = gone_ ? Result<CaptureReply>(failure("gone"))
                                  : host_.capture(graph_name(mode, length), table(mode), 0, length);
      if (captured && captured->code == 0) {
        note_nodes(*captured, length);
        continue;
      }
      if (host_.link().last_fault()) {
        give_up(captured.error().message);
      } else {
        record("capture",
               fmt::format("cannot be captured in a graph: {}",
                           captured ? fmt::format("the entry returned {}", captured->code) : captured.error().message));
      }
      return false;
    }
    return true;
  }

  BatchTimes batch(const TimedMode& mode, int calls) override {
    BatchTimes times;
    times.calls = calls;
    if (gone_) return times;
    bench_.shared.poison_timed(kPoison);
    cuda::scrub_shared_memory(bench_.machine.units, bench_.machine.smem_bytes_per_block, bench_.stream);
    if (mode.cold) {
      bench_.timer.flush_l2();
    } else {
      bench_.shared.read_inputs(0, sink_.as<unsigned>());
    }
    check(cudaStreamSynchronize(bench_.stream), "preparing a batch");
    const int sets = bench_.shared.sets();
    const int first = mode.graph ? 0 : static_cast<int>(random_() % static_cast<unsigned>(sets));
    const double start = now_us();
    const auto reply = mode.graph ? host_.replay(graph_name(mode, calls), calls) : host_.run(table(mode), first, calls);
    bench_.shared.queue_poison_count(kPoison, totals_.as<cuda::Totals>());
    const cuda::Totals left = read_totals(totals_, bench_.stream);
    const double judge_us = now_us() - start;
    if (!reply) {
      give_up(reply.error().message);
      return times;
    }
    host_.look();
    if (reply->code != 0) record("timed-outputs", fmt::format("the entry returned {} while it was timed", reply->code));
    times = reply->claims;
    times.judge_us = judge_us;
    look_at_outputs(mode, first, calls, static_cast<std::int64_t>(left.bad));
    return times;
  }

 private:
  static std::string table(const TimedMode& mode) { return mode.cold ? "cold" : "warm"; }

  void record(const std::string& check, const std::string& detail, bool fatal = false) {
    const auto same = [&](const TimedFault& fault) { return fault.check == check; };
    if (std::none_of(faults_.begin(), faults_.end(), same)) faults_.push_back({check, detail, fatal});
  }

  void give_up(const std::string& why) {
    gone_ = true;
    record("timing", why, true);
  }

  // Twice the calls are twice the work.
  void note_nodes(const CaptureReply& captured, int calls) {
    int work = 0;
    for (const auto& [type, count] : captured.nodes) work += type == "other" ? 0 : count;
    if (work < calls) {
      record("captured-work", fmt::format("a graph of {} calls holds {} nodes of work", calls, work));
    } else if (work % calls != 0) {
      record("captured-work", fmt::format("{} like calls make {} nodes of work: not all do the same", calls, work));
    }
  }

  void look_at_outputs(const TimedMode& mode, int first, int calls, std::int64_t left) {
    const int sets = bench_.shared.sets();
    const int written = std::min(calls, sets);
    const std::int64_t unwritten = left - bench_.shared.poison_left(written);
    if (unwritten > 0) {
      record("timed-outputs",
             fmt::format("{} elements were not written by a timed batch of {} calls ({}) when it was said to be done",
                         unwritten, calls, mode.name()));
      return;
    }
    auto* totals = totals_.as<cuda::Totals>();
    cuda::clear_totals(totals, bench_.stream);
    for (int i = 0; i < std::min(kJudgedInFull, written); ++i) {
      const int set = (first + static_cast<int>(random_() % static_cast<unsigned>(written))) % sets;
      const int inputs = mode.cold ? set : 0;
      cuda::judge_output(bench_.shared.timed(set).c, bench_.operands.reference(inputs), bench_.operands.spec(inputs),
                         Criterion::bound, totals, bench_.stream);
    }
    const cuda::Totals bad = read_totals(totals_, bench_.stream);
    if (bad.bad > 0) {
      record("timed-outputs", fmt::format("{} elements wrong in outputs of a timed batch ({})", bad.bad, mode.name()));
      return;
    }
    const Problem& problem = bench_.problem;
    const Precision precision{static_cast<std::int64_t>(bad.misrounded),
                              std::min(kJudgedInFull, written) * problem.m * problem.n,
                              misrounding_limit(problem.k, problem.element)};
    if (!precision.good()) {
      record("timed-outputs", precision_gate(precision, "in outputs of a timed batch (" + mode.name() + ")").detail);
    }
  }

  TimingBench bench_;
  HostSession& host_;
  cuda::DeviceBuffer totals_, sink_;
  std::mt19937_64 random_;
  std::vector<TimedFault> faults_;
  bool gone_ = false;
};

class BaselineSubject final : public TimedSubject {
 public:
  BaselineSubject(const TimingBench& bench, cuda::Baseline& baseline)
      : bench_(bench),
        baseline_(baseline),
        start_(cuda::make_event()),
        stop_(cuda::make_event()),
        random_(draw_seed()) {}

  std::string name() const override { return baseline_.name(); }
  std::string detail() const override { return baseline_.detail(); }
  const std::vector<TimedFault>& faults() const override { return faults_; }

  bool prepare(const TimedMode& mode, int calls) override {
    queue(mode, 0, 1);
    check(cudaStreamSynchronize(bench_.stream), "running a baseline");
    if (!mode.graph) return true;
    for (const int length : {calls, 2 * calls}) {
      check(cudaStreamBeginCapture(bench_.stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
      queue(mode, 0, length);
      const cuda::Graph captured = cuda::end_capture(bench_.stream);
      graphs_[graph_name(mode, length)] = cuda::instantiate(captured, bench_.stream);
    }
    return true;
  }

  BatchTimes batch(const TimedMode& mode, int calls) override {
    const int sets = bench_.operands.count();
    bench_.operands.poison(0, sets, kPoison);
    if (mode.cold) {
      bench_.timer.flush_l2();
    } else {
      queue(mode, 0, 1);
    }
    check(cudaStreamSynchronize(bench_.stream), "preparing a batch");
    const int first = static_cast<int>(random_() % static_cast<unsigned>(sets));
    const double start = now_us();
    check(cudaEventRecord(start_.get(), bench_.stream), "cudaEventRecord");
    if (mode.graph) {
      check(cudaGraphLaunch(graphs_.at(graph_name(mode, calls)).get(), bench_.stream), "cudaGraphLaunch");
    } else {
      queue(mode, first, calls);
    }
    check(cudaEventRecord(stop_.get(), bench_.stream), "cudaEventRecord");
    check(cudaStreamSynchronize(bench_.stream), "running a baseline");
    const double host_us = now_us() - start;
    float device_ms = 0;
    check(cudaEventElapsedTime(&device_ms, start_.get(), stop_.get()), "cudaEventElapsedTime");
    return {calls, 1e3 * static_cast<double>(device_ms), host_us, 0, host_us};
  }

 private:
  void queue(const TimedMode& mode, int first, int calls) {
    const int sets = bench_.operands.count();
    for (int i = 0; i < calls; ++i) {
      const int set = (first + i) % sets;
      baseline_.launch(bench_.operands.operands(baseline_.layout(), mode.cold ? set : 0, set), bench_.stream);
    }
  }

  TimingBench bench_;
  cuda::Baseline& baseline_;
  cuda::Event start_, stop_;
  std::map<std::string, cuda::GraphExec> graphs_;
  std::mt19937_64 random_;
  std::vector<TimedFault> faults_;
};

}  // namespace

std::unique_ptr<TimedSubject> make_candidate_subject(const TimingBench& bench, HostSession& host) {
  return std::make_unique<CandidateSubject>(bench, host);
}

std::unique_ptr<TimedSubject> make_baseline_subject(const TimingBench& bench, cuda::Baseline& baseline) {
  return std::make_unique<BaselineSubject>(bench, baseline);
}

int calls_per_batch(double call_us, int sets) {
  const double wanted = std::ceil(kBatchUs / std::max(call_us, 1e-3));
  return static_cast<int>(std::clamp<double>(wanted, 1, std::max(1, std::min(kMostCalls, sets / 2))));
}

TimedPairs time_subjects(const std::vector<TimedSubject*>& subjects, int calls, double seconds) {
  TimedPairs pairs(subjects.size());
  std::vector<std::pair<std::size_t, TimedMode>> series;
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    for (const TimedMode& mode : kTimedModes) {
      if (subjects[i]->prepare(mode, calls)) series.emplace_back(i, mode);
    }
  }
  std::mt19937_64 random(draw_seed());
  const double end = now_us() + seconds * 1e6;
  for (int round = 0; round < kMostRounds && (round < kFewestRounds || now_us() < end); ++round) {
    std::shuffle(series.begin(), series.end(), random);
    for (const auto& [subject, mode] : series) {
      BatchPair pair;
      pair.single = subjects[subject]->batch(mode, calls);
      pair.twice = subjects[subject]->batch(mode, 2 * calls);
      const auto& faults = subjects[subject]->faults();
      if (std::any_of(faults.begin(), faults.end(), [](const TimedFault& fault) { return fault.fatal; })) return pairs;
      pairs[subject][mode.name()].push_back(pair);
    }
  }
  return pairs;
}

}  // namespace warpsmith::audit
