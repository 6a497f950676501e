// Graphs, calls, and the audit of their outputs.
#include "evaluate/cuda/timing_steps.h"

#include <fmt/format.h>

#include <algorithm>

#include "evaluate/cuda/cublas_exhaustive.h"

namespace warpsmith::cuda {

namespace {

constexpr std::uint16_t kTimedPoison = 0x7fab;
constexpr int kTuningReplays = 3;
constexpr double kLongTuningUs = 2e4;       // a replay this long is as good as several
constexpr double kExhaustiveBatchUs = 150;  // thousands of configurations are timed
// Hardly a GEMM is faster; the physical floor of a small problem is far lower, and would make short batches long.
constexpr double kShortestGemmUs = 2.5;
// A problem this large draws enough power to lower the clocks: it is timed at the clocks it settles at.
constexpr double kPreheatFlops = 8.6e9;  // 2^33
constexpr double kPreheatSeconds = 3;
constexpr double kCoolSeconds = 2;  // without work, after which preheating is due again

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void merge(CheckReport& report, const CheckReport& other) {
  report.worst_error = std::max(report.worst_error, other.worst_error);
  report.bad += other.bad;
  report.passed = report.passed && other.passed;
  report.precision.add(other.precision);
  if (report.detail.empty()) report.detail = other.detail;
}

}  // namespace

TimingSteps::TimingSteps(const Problem& problem, std::uint64_t seed, const TimingDevice& device,
                         ReferenceMaker& references)
    : problem_(problem),
      device_(device),
      operands_(problem, seed, GraphTimer::launches_for(physical_floor_us(problem, device.machine, true)), references,
                device.stream),
      totals_(sizeof(Totals)) {
  operands_.operands(problem.layout, 0, 0);
}

void TimingSteps::use(CudaKernel* kernel) {
  std::erase_if(armed_, [](const auto& entry) { return std::get<0>(entry.first) == 0; });
  replayed_ = nullptr;
  call_.reset();
  kernel_ = kernel;
  if (kernel == nullptr) return;
  const auto bytes = static_cast<std::size_t>(kernel->descriptor().workspace_bytes);
  if (workspace_.bytes() < bytes) {
    workspace_ = {};
    workspace_ = DeviceBuffer(bytes);
  }
  audit_ = {true, {}, 0, 0};
}

std::vector<std::string> TimingSteps::open_baselines() {
  baselines_ = make_cublas_baselines(problem_, device_.cublas, device_.cublaslt, device_.baseline_workspace,
                                     [this](Baseline& one) { return time_unlisted(one, 0); });
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
        [this](Baseline& one) { return time_unlisted(one, kExhaustiveBatchUs); }, shifted);
    if (!found) continue;
    names.push_back(found->name());
    baselines_.push_back(std::move(found));
  }
  return names;
}

LaunchOnSet TimingSteps::launcher(int subject, bool pdl) {
  if (subject > 0) return launcher(baseline(subject));
  return [this, pdl](int inputs, int output, cudaStream_t stream) {
    kernel_->launch(operands_.operands(problem_.layout, inputs, output), workspace_.data(), pdl, stream);
  };
}

LaunchOnSet TimingSteps::launcher(Baseline& one) {
  return [this, &one](int inputs, int output, cudaStream_t stream) {
    one.launch(operands_.operands(one.layout(), inputs, output), stream);
  };
}

int TimingSteps::launches(double batch_us, double launch_us) const {
  double floor_us = physical_floor_us(problem_, device_.machine, true);
  if (batch_us > 0) floor_us = std::max({floor_us, kShortestGemmUs, launch_us});
  return std::min(operands_.count(), GraphTimer::launches_for(floor_us, batch_us));
}

std::function<void()> TimingSteps::restorer(int subject) {
  if (subject != 0) return {};
  return [this] {
    kernel_->globals().restore(device_.stream);
    const CudaLaunch& launch = kernel_->descriptor();
    if (launch.workspace_bytes == 0) return;
    if (launch.zero_workspace) {
      check(cudaMemsetAsync(workspace_.data(), 0, workspace_.bytes(), device_.stream), "cudaMemsetAsync");
    } else {
      set_pattern(workspace_.as<std::uint16_t>(), static_cast<std::int64_t>(workspace_.bytes() / 2), kTimedPoison,
                  device_.stream);
    }
  };
}

double TimingSteps::replay(const ArmedGraph& graph, int subject) {
  const double time_us = device_.timer.replay(graph, operands_, kTimedPoison, restorer(subject));
  replayed_ = &graph;
  note_work();
  return time_us;
}

void TimingSteps::note_work() {
  if (seconds_since(last_work_) > kCoolSeconds) heated_ = false;
  last_work_ = std::chrono::steady_clock::now();
}

double TimingSteps::arm(int subject, bool cold, bool pdl) {
  note_work();
  if (subject == 0) restorer(0)();
  const std::size_t kernels = subject == 0 ? kernel_->descriptor().kernels.size() : 0;
  replayed_ = nullptr;
  ArmedGraph graph = device_.timer.arm(launcher(subject, pdl), launches(batch_us_, launch_us_), cold, kernels);
  const double estimate_us = graph.estimate_us;
  armed_[{subject, cold, pdl}] = std::move(graph);
  note_work();
  return estimate_us;
}

double TimingSteps::time_batch(int subject, bool cold, bool pdl) {
  const ArmedGraph& graph = armed_.at({subject, cold, pdl});
  const double time_us = replay(graph, subject);
  if (subject == 0) {
    const int output = static_cast<int>(audited_batches_++ % static_cast<std::uint64_t>(graph.launches));
    merge(audit_, judge_outputs(graph, output, 1, "after a timed batch"));
  }
  return time_us;
}

int TimingSteps::launches_per_batch(int subject, bool cold, bool pdl) const {
  const auto found = armed_.find({subject, cold, pdl});
  return found == armed_.end() ? 0 : found->second.launches;
}

void TimingSteps::preheat(int subject) { heat(armed_.at({subject, true, false})); }

void TimingSteps::heat(const ArmedGraph& graph) {
  if (heated_ || problem_.flops() < kPreheatFlops) return;
  replayed_ = nullptr;
  device_.timer.preheat(graph, kPreheatSeconds);
  heated_ = true;
  last_work_ = std::chrono::steady_clock::now();
}

// Cold calls of all subjects take the sets in one common turn, and L2 is flushed: none finds another's operands there.
void TimingSteps::ready_call(int subject, bool cold) {
  Call next{launcher(subject, false), 0, 0};
  if (cold) next.inputs = next.output = calls_++ % operands_.count();
  // The first launch on a set prepares parameters; a warm one fetches the operands.
  next.launch(next.inputs, next.output, device_.stream);
  operands_.poison(next.output, 1, kTimedPoison);
  if (const auto restore = restorer(subject)) restore();
  if (cold) device_.timer.flush_l2();
  check(cudaStreamSynchronize(device_.stream), "making a call ready");
  call_ = std::move(next);
  note_work();
}

double TimingSteps::call(int subject, bool) {
  const Call ready = std::move(call_.value());
  call_.reset();
  const auto start = std::chrono::steady_clock::now();
  ready.launch(ready.inputs, ready.output, device_.stream);
  check(cudaStreamSynchronize(device_.stream), "the timed call");
  const double time_us = 1e6 * seconds_since(start);
  if (subject == 0) merge(audit_, judge_call(ready, "after a timed call"));
  replayed_ = nullptr;
  note_work();
  return time_us;
}

// One output was judged after each timed batch, and each call's; now all that the last replay of every series wrote is.
CheckReport TimingSteps::check_timed_outputs(int subject) {
  CheckReport report = subject == 0 ? audit_ : CheckReport{true, {}, 0, 0};
  bool judged = subject == 0;
  for (const auto& [key, graph] : armed_) {
    if (!report.passed || !report.precision.good() || std::get<0>(key) != subject) continue;
    if (replayed_ != &graph) replay(graph, subject);
    merge(report, judge_outputs(graph, 0, graph.launches, "in the outputs of a timed replay"));
    judged = true;
  }
  if (judged) return report;
  ready_call(subject, true);
  const Call made = call_.value();
  call(subject, true);
  return judge_call(made, "in the output of a call");
}

// A baseline that fails or is wrong is no baseline.
std::optional<double> TimingSteps::time_unlisted(Baseline& one, double batch_us) {
  try {
    replayed_ = nullptr;
    const ArmedGraph graph = device_.timer.arm(launcher(one), launches(batch_us, 0), true, 0);
    heat(graph);  // what is fastest on a cool device need not be where the power limit has lowered the clocks
    double best_us = device_.timer.replay(graph, operands_, kTimedPoison, {});
    note_work();
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
  const Reference& reference = operands_.reference(inputs);
  judge_output(operands_.operands(problem_.layout, inputs, output).c, reference.masked(), reference.spec,
               Criterion::bound, totals_.as<Totals>(), device_.stream);
}

// Waits, so that no kernel of the candidate runs between the judging and the reading.
CheckReport TimingSteps::report_of_totals(int outputs, const char* where) {
  Totals found{};
  check(cudaMemcpyAsync(&found, totals_.data(), sizeof found, cudaMemcpyDeviceToHost, device_.stream),
        "cudaMemcpyAsync");
  check(cudaStreamSynchronize(device_.stream), "judging timed outputs");
  CheckReport report{found.bad == 0, {}, double_from_bits(found.worst_bits), static_cast<std::int64_t>(found.bad)};
  report.precision = {static_cast<std::int64_t>(found.misrounded), outputs * problem_.m * problem_.n,
                      misrounding_limit(problem_.k, problem_.element)};
  if (!report.passed) {
    const auto first = static_cast<std::int64_t>(found.first);
    report.detail = fmt::format("{} wrong elements {}, the first at ({}, {})", found.bad, where, first / problem_.n,
                                first % problem_.n);
  }
  return report;
}

}  // namespace warpsmith::cuda
