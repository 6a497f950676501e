// Graphs, calls, and the audit of their outputs.
#include "evaluate/cuda/timing_steps.h"

#include <fmt/format.h>

#include <algorithm>

#include "evaluate/cuda/cublas_exhaustive.h"
#include "evaluate/cuda/cublaslt_matmul.h"
#include "evaluate/cuda/error_statistics.h"
#include "evaluate/gates.h"
#include "evaluate/timing.h"

namespace warpsmith::cuda {

namespace {

constexpr std::uint16_t kTimedPoison = 0x7fab;
constexpr int kTuningReplays = 3;
constexpr double kLongTuningUs = 2e4;      // a replay this long is as good as several
constexpr double kLongLaunches = 4;        // of the wanted length of a batch, each
constexpr double kScreeningBatchUs = 150;  // many baselines are timed, or thousands of configurations
// Hardly a GEMM is faster; the physical floor of a small problem is far lower, and would make short batches long.
constexpr double kShortestGemmUs = 2.5;
// Problems that lower the clocks are timed at those that they settle at.
constexpr double kPreheatSeconds = 3;
constexpr double kPreheatShare = 0.5;             // of the time that the device has rested
constexpr double kShortestPreheatSeconds = 0.02;  // below this it is not worth while

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void merge(CheckReport& report, const CheckReport& other) {
  report.worst_error = std::max(report.worst_error, other.worst_error);
  report.bad += other.bad;
  report.passed = report.passed && other.passed;
  report.precision.add(other.precision);
  report.strayed = report.strayed || other.strayed;
  if (report.detail.empty()) report.detail = other.detail;
}

}  // namespace

void HeatLog::worked(double seconds) {
  due_ = std::max(0.0, due() - (kPreheatShare + 1) * seconds);  // it was no rest, and it makes up for one
  last_ = std::chrono::steady_clock::now();
}

double HeatLog::due() const { return std::min(due_ + kPreheatShare * seconds_since(last_), kPreheatSeconds); }

TimingSteps::TimingSteps(const Problem& problem, std::uint64_t seed, const TimingDevice& device,
                         ReferenceMaker& references)
    : problem_(problem),
      device_(device),
      references_(references),
      operands_(problem, seed, GraphTimer::launches_for(physical_floor_us(problem, device.machine, true)), references,
                device.stream),
      totals_(sizeof(Totals), Contents::changing),
      watch_(device.stream) {
  operands_.operands(problem.layout, 0, 0);
  watch_.look();  // before any candidate of the problem runs
}

void TimingSteps::forget(int subject) {
  std::erase_if(armed_, [&](const auto& entry) { return std::get<0>(entry.first) == subject; });
  replayed_ = nullptr;
  call_.reset();
}

void TimingSteps::use(CudaKernel* kernel) {
  forget(0);
  watch_.forget();  // gates write as well
  if (const auto last = contenders_.find(0); last != contenders_.end()) {
    if (last->second.workspace.data() != nullptr) spare_workspace_ = std::move(last->second.workspace);
    contenders_.erase(last);
  }
  if (kernel == nullptr) return;
  Contender& next = contenders_[0];
  next.kernel = kernel;
  next.layout = problem_.layout;
  // A kernel that needs none gets none: it would be put back before each replay, and push warm operands out of L2.
  if (const auto bytes = static_cast<std::size_t>(kernel->descriptor().workspace_bytes); bytes > 0) {
    next.workspace = std::move(spare_workspace_);
    spare_workspace_ = {};
    if (next.workspace.bytes() < bytes) {
      next.workspace = {};
      next.workspace = DeviceBuffer(bytes, Contents::changing);
    }
  }
  restore(next);  // a workspace that must be cleared is, before the first launch
}

int TimingSteps::keep(std::unique_ptr<CudaKernel> kernel) {
  forget(0);
  const int number = std::min(contenders_.begin()->first, 0) - 1;
  Contender& one = contenders_[number];
  one = std::move(contenders_.at(0));
  one.kept = std::move(kernel);
  contenders_.erase(0);
  return number;
}

std::vector<std::string> TimingSteps::open_baselines() {
  baselines_ = make_cublas_baselines(
      problem_, device_.cublas, device_.cublaslt, device_.baseline_workspace,
      [this](Baseline& one, TrialLength length) { return try_out(one, length); }, choices_);
  std::vector<std::string> names;
  for (const auto& one : baselines_) names.push_back(one->name());
  return names;
}

std::vector<std::string> TimingSteps::open_exhaustive(double seconds, const WorkProgress& progress) {
  std::vector<std::string> names;
  for (const Layout layout : {Layout::nn, Layout::tn}) {
    const auto shifted = [&](double share, const std::string& text) {
      if (progress) progress((layout == Layout::nn ? 0 : 0.5) + share / 2, text);
    };
    auto found = search_cublaslt(
        problem_, layout, device_.cublaslt, device_.baseline_workspace, seconds / 2,
        [this](Baseline& one) { return time_unlisted(one, kScreeningBatchUs); }, shifted);
    if (!found) continue;
    names.push_back(found->name());
    baselines_.push_back(std::move(found));
  }
  return names;
}

LaunchOnSet TimingSteps::launcher(int subject, bool pdl) {
  if (subject > 0) return launcher(baseline(subject));
  return [this, pdl, &one = contender(subject)](int inputs, int output, cudaStream_t stream) {
    one.kernel->launch(operands_.operands(one.layout, inputs, output), one.workspace.data(), pdl, stream);
  };
}

LaunchOnSet TimingSteps::launcher(Baseline& one) {
  return [this, &one](int inputs, int output, cudaStream_t stream) {
    one.launch(operands_.operands(one.layout(), inputs, output), stream);
  };
}

int TimingSteps::launches(double batch_us, double launch_us) const {
  double floor_us = physical_floor_us(problem_, device_.machine, true);
  // A launch so long needs no more beside it for the replay's own start to vanish.
  if (batch_us > 0 && floor_us >= kLongLaunches * batch_us) return std::min(operands_.count(), 2);
  if (batch_us > 0) floor_us = std::max({floor_us, kShortestGemmUs, launch_us});
  return std::min(operands_.count(), GraphTimer::launches_for(floor_us, batch_us));
}

Cleaning TimingSteps::cleaning(int subject) {
  if (subject > 0) return {};
  return {[this, subject] { wipe(subject); },
          [this, &one = contender(subject)] {
            restore(one);
            scrub_shared_memory(device_.machine.units, device_.machine.smem_bytes_per_block, device_.stream);
          }};
}

void TimingSteps::wipe(int subject) {
  bool local = false;
  for (auto& [number, one] : contenders_) {
    if (number != subject) restore(one);  // its own comes last
    local = local || one.kernel->uses_local_memory();
  }
  const auto clear = [&](const DeviceBuffer& unused) {
    if (unused.bytes() == 0) return;
    check(cudaMemsetAsync(unused.data(), 0, unused.bytes(), device_.stream), "cudaMemsetAsync");
  };
  clear(spare_workspace_);
  clear(device_.baseline_workspace);
  if (local) scrub_local_memory(device_.machine.units, device_.stream);
}

void TimingSteps::restore(Contender& one) {
  one.kernel->globals().restore(device_.stream);
  if (one.workspace.bytes() == 0) return;
  if (one.kernel->descriptor().zero_workspace) {
    check(cudaMemsetAsync(one.workspace.data(), 0, one.workspace.bytes(), device_.stream), "cudaMemsetAsync");
  } else {
    set_pattern(one.workspace.as<std::uint16_t>(), static_cast<std::int64_t>(one.workspace.bytes() / 2), kTimedPoison,
                device_.stream);
  }
}

void TimingSteps::watch(int subject) {
  if (subject > 0) return;
  operands_.operands(contender(subject).layout, 0, 0);
  if (watch_.look() > 0) {
    throw CudaError("a kernel has written into the operands that are timed before it was timed", false, true);
  }
}

double TimingSteps::replay(const ArmedGraph& graph, int subject) {
  watch(subject);
  const double time_us = device_.timer.replay(graph, operands_, kTimedPoison, cleaning(subject));
  replayed_ = &graph;
  note_work(time_us * graph.launches);
  return time_us;
}

void TimingSteps::note_work(double us) {
  if (problem_.flops() >= kHeatingFlops) device_.heat.worked(1e-6 * us);
}

double TimingSteps::arm(int subject, bool cold, bool pdl) {
  watch(subject);
  if (subject <= 0) restore(contender(subject));
  const std::size_t kernels = subject <= 0 ? contender(subject).kernel->descriptor().kernels.size() : 0;
  replayed_ = nullptr;
  ArmedGraph graph = device_.timer.arm(launcher(subject, pdl), launches(batch_us_, launch_us_), cold, kernels);
  const double estimate_us = graph.estimate_us;
  armed_[{subject, cold, pdl}] = std::move(graph);
  return estimate_us;
}

double TimingSteps::time_batch(int subject, bool cold, bool pdl) {
  const ArmedGraph& graph = armed_.at({subject, cold, pdl});
  const double time_us = replay(graph, subject);
  if (subject <= 0) {
    Contender& one = contender(subject);
    const int output = static_cast<int>(one.audited_batches++ % static_cast<std::uint64_t>(graph.launches));
    audit(one, judge_outputs(graph, output, 1, "after a timed batch"));
  }
  return time_us;
}

int TimingSteps::launches_per_batch(int subject, bool cold, bool pdl) const {
  const auto found = armed_.find({subject, cold, pdl});
  return found == armed_.end() ? 0 : found->second.launches;
}

void TimingSteps::preheat(int subject) { heat(armed_.at({subject, true, false})); }

void TimingSteps::heat(const ArmedGraph& graph) {
  const double due = device_.heat.due();
  if (problem_.flops() < kHeatingFlops || due < kShortestPreheatSeconds) return;
  replayed_ = nullptr;
  device_.timer.preheat(graph, due);
  note_work(1e6 * due);
}

// Cold calls of all subjects take the sets in one common turn, and L2 is flushed: none finds another's operands there.
void TimingSteps::ready_call(int subject, bool cold) {
  watch(subject);
  Call next{launcher(subject, false), 0, 0};
  if (cold) next.inputs = next.output = calls_++ % operands_.count();
  // The first launch on a set prepares parameters; a warm one fetches the operands.
  next.launch(next.inputs, next.output, device_.stream);
  if (cold) operands_.poison_all(0, kTimedPoison);
  operands_.poison(next.output, 1, kTimedPoison);
  const Cleaning clean = cleaning(subject);
  if (cold && clean.wipe) clean.wipe();
  if (clean.restore) clean.restore();
  if (cold) device_.timer.flush_l2();
  check(cudaStreamSynchronize(device_.stream), "making a call ready");
  call_ = std::move(next);
}

double TimingSteps::call(int subject, bool) {
  const Call ready = std::move(call_.value());
  call_.reset();
  const auto start = std::chrono::steady_clock::now();
  ready.launch(ready.inputs, ready.output, device_.stream);
  check(cudaStreamSynchronize(device_.stream), "the timed call");
  const double time_us = 1e6 * seconds_since(start);
  if (subject <= 0) audit(contender(subject), judge_call(ready, "after a timed call"));
  replayed_ = nullptr;
  note_work(time_us);
  return time_us;
}

// One output was judged after each timed batch, and each call's; now all that the last replay of every series wrote is.
CheckReport TimingSteps::check_timed_outputs(int subject) {
  CheckReport report = subject <= 0 ? contender(subject).audit : CheckReport{true, {}, 0, 0, {}};
  bool judged = subject <= 0;
  for (const auto& [key, graph] : armed_) {
    if (!report.passed || !report.precision.good() || std::get<0>(key) != subject) continue;
    if (replayed_ != &graph) replay(graph, subject);
    merge(report, judge_outputs(graph, 0, graph.launches, "in the outputs of a timed replay"));
    judged = true;
  }
  if (subject <= 0) look_for_strays(report);
  if (judged) return report;
  ready_call(subject, true);
  const Call made = call_.value();
  call(subject, true);
  return judge_call(made, "in the output of a call");
}

void TimingSteps::audit(Contender& one, CheckReport seen) {
  look_for_strays(seen);
  merge(one.audit, seen);
}

// After every batch and call, so that traces cannot be removed in time, and that nobody is blamed for another's.
void TimingSteps::look_for_strays(CheckReport& report) {
  const std::size_t bytes = watch_.changed_bytes();
  if (bytes == 0) return;
  report.passed = false;
  report.strayed = true;
  report.detail = fmt::format("timed launches wrote beside C and the workspace, into {} bytes of others", bytes);
  watch_.accept();
}

// The same of one that is timed once and not again.
std::optional<double> TimingSteps::time_unlisted(Baseline& one, double batch_us) {
  try {
    replayed_ = nullptr;
    const ArmedGraph graph = device_.timer.arm(launcher(one), launches(batch_us, 0), true, 0);
    heat(graph);  // what is fastest on a cool device need not be where the power limit has lowered the clocks
    double best_us = device_.timer.replay(graph, operands_, kTimedPoison, {});
    note_work(best_us * graph.launches);
    if (!judge_outputs(graph, 0, graph.launches, "in a baseline's outputs").passed) return std::nullopt;
    for (int i = 1; i < kTuningReplays && best_us * graph.launches < kLongTuningUs; ++i) {
      best_us = std::min(best_us, device_.timer.replay(graph, operands_, kTimedPoison, {}));
    }
    return best_us;
  } catch (const CudaError&) {
    if (context_is_lost()) throw;
    return std::nullopt;
  }
}

// A GEMM that is being tried out, with its graph.
class TimingSteps::Trial final : public BaselineTrial {
 public:
  Trial(TimingSteps& steps, ArmedGraph graph) : steps_(steps), graph_(std::move(graph)) {}

  const ArmedGraph& graph() const { return graph_; }
  double time_us() override {
    const double time_us = steps_.device_.timer.replay(graph_, steps_.operands_, kTimedPoison, {});
    steps_.note_work(time_us * graph_.launches);
    return time_us;
  }
  bool is_long(double time_us) const override { return time_us * graph_.launches >= kLongTuningUs; }

 private:
  TimingSteps& steps_;
  ArmedGraph graph_;
};

// One that fails or is wrong is no baseline. What is fastest on a cool device need not be where the power limit has
// lowered the clocks.
std::unique_ptr<BaselineTrial> TimingSteps::try_out(Baseline& one, TrialLength length) {
  try {
    replayed_ = nullptr;
    const int count = launches(length == TrialLength::screening ? kScreeningBatchUs : 0, 0);
    auto trial = std::make_unique<Trial>(*this, device_.timer.arm(launcher(one), count, true, 0));
    heat(trial->graph());
    trial->time_us();
    if (!judge_outputs(trial->graph(), 0, trial->graph().launches, "in a baseline's outputs").passed) return nullptr;
    return trial;
  } catch (const CudaError&) {
    if (context_is_lost()) throw;
    return nullptr;
  }
}

CheckReport TimingSteps::judge_outputs(const ArmedGraph& graph, int first, int count, const char* where) {
  clear_totals(totals_.as<Totals>(), device_.stream);
  for (int i = first; i < first + count; ++i) judge_set(graph.inputs_of(i), i);
  return report_of_totals(count, where);
}

CheckReport TimingSteps::judge_call(const Call& made, const char* where) {
  clear_totals(totals_.as<Totals>(), device_.stream);
  judge_set(made.inputs, made.output);
  return report_of_totals(1, where);
}

void TimingSteps::judge_set(int inputs, int output) {
  judge_output(operands_.operands(problem_.layout, inputs, output).c, operands_.reference(inputs),
               operands_.spec(inputs), operands_.judging(), totals_.as<Totals>(), device_.stream);
}

// Waits, so that no kernel of the candidate runs between the judging and the reading.
CheckReport TimingSteps::report_of_totals(int outputs, const char* where) {
  Totals found{};
  check(cudaMemcpyAsync(&found, totals_.data(), sizeof found, cudaMemcpyDeviceToHost, device_.stream),
        "cudaMemcpyAsync");
  check(cudaStreamSynchronize(device_.stream), "judging timed outputs");
  CheckReport report{found.bad == 0, {}, double_from_bits(found.worst_bits), static_cast<std::int64_t>(found.bad)};
  report.precision = {static_cast<std::int64_t>(found.misrounded), outputs * problem_.m * problem_.n,
                      misrounding_limit(problem_.k, problem_.element, problem_.accumulator), problem_.m * problem_.n};
  if (!report.passed) {
    const auto first = static_cast<std::int64_t>(found.first);
    report.detail = fmt::format("{} wrong elements {}, the first at ({}, {})", found.bad, where, first / problem_.n,
                                first % problem_.n);
  }
  return report;
}

nlohmann::json TimingSteps::compare_errors(int candidate) {
  if (!problem_.packed()) throw CudaError("errors are compared on packed operands only", false);
  watch_.forget();
  Contender& ours = contender(candidate);
  Problem problem = problem_;
  problem.layout = ours.layout;
  const InputSpec spec{InputKind::large, draw_seed(), problem.m, problem.n, problem.k, problem.element};
  const auto bytes = [](std::int64_t rows, std::int64_t columns) {
    return static_cast<std::size_t>(rows * columns) * sizeof(std::uint16_t);
  };
  const DeviceBuffer a(bytes(problem.m, problem.k)), b(bytes(problem.k, problem.n)), c(bytes(problem.m, problem.n));
  const OperandSet operands{a.as<std::uint16_t>(), b.as<std::uint16_t>(), c.as<std::uint16_t>()};
  fill_input(spec, Matrix::a, problem.a_is_k_major(), operands.a, device_.stream);
  fill_input(spec, Matrix::b, problem.b_is_k_major(), operands.b, device_.stream);
  const auto reference = references_.make(spec);
  DeviceBuffer counts;
  nlohmann::json errors = {{"layout", to_string(problem.layout)}};
  const auto run = [&](const char* name, const std::function<void()>& launch) {
    set_pattern(operands.c, problem.m * problem.n, kTimedPoison, device_.stream);
    launch();
    errors[name] = error_statistics(operands.c, reference->masked(), spec, counts, device_.stream);
  };
  run("ours", [&] {
    restore(ours);
    ours.kernel->launch(operands, ours.workspace.data(), false, device_.stream);
  });
  for (const bool narrow : {false, true}) {
    if (narrow && problem.element != ElementType::f16) continue;
    const auto described = std::make_shared<const LtProblem>(problem, problem.layout, narrow);
    const auto offered = described->ask(device_.cublaslt, 1);
    if (offered.empty()) continue;
    LtMatmul heuristic("errors", described, offered.front().algo, device_.cublaslt, device_.baseline_workspace);
    Baseline* subject = &heuristic;
    for (const auto& tuned : baselines_) {
      if (!narrow && tuned->name() == fmt::format("cublaslt-auto-{}", to_string(problem.layout))) subject = tuned.get();
    }
    run(narrow ? "lt_f16" : "lt_f32", [&] { subject->launch(operands, device_.stream); });
  }
  return errors;
}

}  // namespace warpsmith::cuda
