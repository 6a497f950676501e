// The studies of `bench`.
#include "bench_studies.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "evaluate/resource_gate.h"
#include "evaluate/timing.h"
#include "progress.h"
#include "search/conclude.h"
#include "search/trials.h"

namespace warpsmith::cli {

namespace {

struct Built {
  Entrant entrant;
  Artifact artifact;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

nlohmann::json row_of(const Problem& problem, const Provenance& provenance) {
  return {{"problem", to_string(problem)},       {"m", problem.m},          {"n", problem.n}, {"k", problem.k},
          {"layout", to_string(problem.layout)}, {"provenance", provenance}};
}

void print_line(const nlohmann::json& row, const std::string& text, bool json_lines) {
  fmt::print("{}\n", json_lines ? row.dump() : text);
  std::fflush(stdout);
}

// Those that compile and pass the resource gate. Error: none does, with the last reason.
Result<std::vector<Built>> build_all(const Problem& problem, const OpenDevice& device, const Compiler& compiler,
                                     const StudyOptions& options) {
  auto entrants = options.entrants(problem, device);
  if (!entrants) return entrants.error();
  std::vector<Built> built;
  std::string reason = "no legal recipe for this problem";
  for (Entrant& entrant : *entrants) {
    auto artifact = compiler.compile(entrant.candidate);
    if (!artifact && artifact.error().kind == ErrorKind::environment) return artifact.error();
    if (!artifact) {
      reason = artifact.error().message;
    } else if (const GateResult gate = resource_gate(artifact->resources); entrant.generated && !gate.passed) {
      reason = gate.detail;
    } else {
      built.push_back({std::move(entrant), std::move(*artifact)});
    }
  }
  if (built.empty()) return failure(fmt::format("{}: {}", to_string(problem), reason));
  return built;
}

// The entrant with the lowest cold time. Error: none is accepted, with the last verdict.
Result<Built> fastest(const Problem& problem, std::vector<Built> built, Evaluator& evaluator) {
  if (built.size() == 1) return std::move(built.front());
  std::size_t best = built.size();
  double best_us = 0;
  std::string reason;
  for (std::size_t i = 0; i < built.size(); ++i) {
    const Verdict verdict = evaluator.evaluate(problem, built[i].entrant.candidate, built[i].artifact, 0, {});
    if (verdict.accepted() == nullptr) {
      reason = verdict.describe();
      continue;
    }
    const double time_us = verdict.accepted()->measurement.cold.median_us;
    if (best != built.size() && !(time_us < best_us)) continue;
    best = i;
    best_us = time_us;
  }
  if (best == built.size()) return failure(fmt::format("{}: {}", to_string(problem), reason));
  return std::move(built[best]);
}

// Of one problem, from all processes so far.
struct ProcessSeries {
  std::optional<Built> built;
  std::string baseline;
  nlohmann::json baseline_choices;      // of the first process, for the others
  std::vector<std::string> algorithms;  // of the baseline, one a process
  std::vector<double> times_us, ratios;
  std::string failure;
};

void print_processes(const Problem& problem, const ProcessSeries& series, const Provenance& provenance,
                     bool json_lines) {
  nlohmann::json row = row_of(problem, provenance);
  if (series.ratios.empty()) {
    row["failure"] = series.failure;
    print_line(row, fmt::format("{:<28} {}", to_string(problem), series.failure), json_lines);
    return;
  }
  const auto [low, high] = std::minmax_element(series.ratios.begin(), series.ratios.end());
  const double ratio = median_of(series.ratios), spread = (*high - *low) / ratio, time_us = median_of(series.times_us);
  row["candidate"] = series.built->entrant.name;
  row["baseline"] = series.baseline;
  row["algorithms"] = series.algorithms;
  row["median_us"] = time_us;
  row["ratio"] = ratio;
  row["ratios"] = series.ratios;
  row["times_us"] = series.times_us;
  row["spread"] = spread;
  if (!series.failure.empty()) row["failure"] = series.failure;
  print_line(row,
             fmt::format("{:<28} {:>10.3f} us  ratio to {} {:.4f}  spread {:.2f} % over {} processes{}{}",
                         to_string(problem), time_us, series.baseline, ratio, 100 * spread, series.ratios.size(),
                         series.failure.empty() ? "" : "; ", series.failure),
             json_lines);
}

// Of each layout's choices the fastest: algorithms that are as fast differ in what they draw, and so in the clocks that
// they leave to the candidate beside them.
nlohmann::json first_of_each(nlohmann::json choices) {
  for (auto& layout : choices) {
    if (layout.is_array() && layout.size() > 1) layout.erase(layout.begin() + 1, layout.end());
  }
  return choices;
}

// Problems that one process measures one after the other. Those that heat the device have processes of their own, since
// what the device does in between decides how warm it is; the first of these are not counted.
struct ProcessGroup {
  std::vector<std::size_t> problems;  // by index
  int uncounted = 0;
};
std::vector<ProcessGroup> process_groups(const std::vector<Problem>& problems) {
  constexpr int kSettling = 3;
  std::vector<ProcessGroup> groups(1);
  for (std::size_t i = 0; i < problems.size(); ++i) {
    if (static_cast<double>(problems[i].flops()) < kHeatingFlops) {
      groups.front().problems.push_back(i);
    } else {
      groups.push_back({{i}, kSettling});
    }
  }
  if (groups.front().problems.empty()) groups.erase(groups.begin());
  return groups;
}

// Measures one problem in the process that `evaluator` has.
void add_process(const Problem& problem, ProcessSeries& series, Evaluator& evaluator, const TimingEffort& effort) {
  TimingEffort wanted = effort;
  wanted.baselines = {fmt::format("cublaslt-auto-{}", to_string(problem.layout))};
  if (evaluator.machine().kind == "cpu") wanted.baselines.clear();
  wanted.baseline_choices = series.baseline_choices;
  const auto comparison = evaluator.compare(problem, series.built->entrant.candidate, series.built->artifact, wanted);
  if (!comparison) {
    series.failure = comparison.error().message;
    return;
  }
  const Measurement* baseline = nullptr;
  for (const Measurement& subject : comparison->subjects) {
    if (subject.subject == series.baseline) baseline = &subject;
  }
  if (series.baseline.empty()) baseline = fastest_of(comparison->subjects, to_string(problem.layout));
  if (baseline == nullptr) baseline = fastest_of(comparison->subjects);
  if (baseline == nullptr) {
    series.failure = "no baseline";
    return;
  }
  series.baseline = baseline->subject;
  if (series.baseline_choices.is_null()) series.baseline_choices = first_of_each(comparison->baseline_choices);
  series.algorithms.push_back(baseline->detail);
  const double ours = comparison->subjects.front().cold.median_us;
  series.times_us.push_back(ours);
  series.ratios.push_back(baseline->cold.median_us / ours);
}

}  // namespace

Result<int> bench_self(const std::vector<Problem>& problems, OpenDevice& device, const StudyOptions& options) {
  for (const Problem& problem : problems) {
    if (interrupted()) return kExitInterrupted;
    TimingEffort effort = options.effort;
    if (is_cuda(device.target)) effort.baselines = {fmt::format("cublaslt-auto-{}", to_string(problem.layout))};
    const auto subjects = device.evaluator->against_itself(problem, effort);
    if (!subjects) return subjects.error();
    for (std::size_t i = 0; i + 1 < subjects->size(); i += 2) {
      const Measurement &once = (*subjects)[i], &again = (*subjects)[i + 1];
      const double ratio = once.cold.median_us / again.cold.median_us;
      nlohmann::json row = row_of(problem, options.provenance(device, once.mode));
      row["baseline"] = once.subject;
      row["median_us"] = once.cold.median_us;
      row["ratio"] = ratio;
      row["subjects"] = {once, again};
      print_line(row,
                 fmt::format("{:<28} {:>10.3f} us  {} against itself {:.4f}", to_string(problem), once.cold.median_us,
                             once.subject, ratio),
                 options.json_lines);
    }
  }
  return kExitOk;
}

Result<int> bench_processes(const std::vector<Problem>& problems, OpenDevice& device, const Compiler& compiler,
                            int processes, const StudyOptions& options) {
  ProgressLine line(options.json_lines);
  std::vector<ProcessSeries> all(problems.size());
  for (std::size_t i = 0; i < problems.size() && !interrupted(); ++i) {
    line.update(-1, "choosing for " + to_string(problems[i]));
    auto built = build_all(problems[i], device, compiler, options);
    if (!built && built.error().kind != ErrorKind::failed) return built.error();
    auto chosen = built ? fastest(problems[i], std::move(*built), *device.evaluator) : Result<Built>(built.error());
    if (chosen) {
      all[i].built = std::move(*chosen);
    } else {
      all[i].failure = chosen.error().message;
    }
  }
  const std::string mode(to_string(options.effort.mode));
  const Provenance provenance = options.provenance(device, mode);
  device.evaluator.reset();  // its memory is the first process's
  double measured = 0;
  for (const ProcessGroup& group : process_groups(problems)) {
    const int uncounted = is_cuda(device.target) ? group.uncounted : 0;
    for (int process = -uncounted; process < processes && !interrupted(); ++process) {
      auto fresh = open_device(options.device, options.seed);
      if (!fresh) return fresh.error();
      for (const std::size_t i : group.problems) {
        if (interrupted() || !all[i].built) continue;
        line.update(measured / (static_cast<double>(problems.size()) * processes),
                    fmt::format("{}, process {} of {}", to_string(problems[i]), std::max(process, 0) + 1, processes));
        if (process >= 0) {
          add_process(problems[i], all[i], *fresh->evaluator, options.effort);
          ++measured;
        } else {
          ProcessSeries settling = all[i];
          add_process(problems[i], settling, *fresh->evaluator, options.effort);
        }
      }
    }
  }
  line.clear();
  bool complete = true;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    print_processes(problems[i], all[i], provenance, options.json_lines);
    complete = complete && static_cast<int>(all[i].ratios.size()) == processes;
  }
  if (interrupted()) return kExitInterrupted;
  return complete ? kExitOk : kExitFailed;
}

Result<int> bench_throughput(const std::vector<Problem>& problems, OpenDevice& device, const Compiler& compiler,
                             double seconds, const StudyOptions& options) {
  const TimingEffort effort = search_effort(device.evaluator->machine());
  for (const Problem& problem : problems) {
    const auto built = build_all(problem, device, compiler, options);
    if (!built) return built.error();
    double best_us = 0, gate_seconds = 0, timing_seconds = 0;
    std::map<std::string, int> kinds;
    int count = 0;
    const auto one = [&](const Built& each) {
      const Verdict verdict =
          device.evaluator->evaluate(problem, each.entrant.candidate, each.artifact, best_us, effort);
      ++count;
      ++kinds[std::string(verdict.kind())];
      gate_seconds += verdict.gate_seconds;
      timing_seconds += verdict.timing_seconds;
      if (verdict.accepted() == nullptr) return;
      const double time_us = verdict.accepted()->measurement.cold.median_us;
      if (best_us == 0 || time_us < best_us) best_us = time_us;
    };
    for (const Built& each : *built) one(each);  // references are made, the best becomes known
    count = 0;
    gate_seconds = timing_seconds = 0;
    kinds.clear();
    const auto start = std::chrono::steady_clock::now();
    while (seconds_since(start) < seconds && !interrupted()) {
      for (std::size_t i = 0; i < built->size() && seconds_since(start) < seconds; ++i) one((*built)[i]);
    }
    const double elapsed = seconds_since(start);
    if (interrupted()) return kExitInterrupted;
    nlohmann::json row = row_of(problem, options.provenance(device, "offline"));
    row["evaluations_per_s"] = count / elapsed;
    row["candidates"] = built->size();
    row["verdicts"] = kinds;
    row["gate_ms"] = 1e3 * gate_seconds / count;
    row["timing_ms"] = 1e3 * timing_seconds / count;
    std::string verdicts;
    for (const auto& [kind, number] : kinds) verdicts += fmt::format(", {} {}", number, kind);
    print_line(row,
               fmt::format("{:<28} {:.1f} evaluations/s over {} candidates: {:.2f} ms gates, {:.2f} ms timing{}",
                           to_string(problem), count / elapsed, built->size(), 1e3 * gate_seconds / count,
                           1e3 * timing_seconds / count, verdicts),
               options.json_lines);
  }
  return kExitOk;
}

nlohmann::json measure_as_cuda_l2(const Problem& problem, const Entrant& entrant, const Artifact& artifact,
                                  Evaluator& evaluator, const TimingEffort& effort) {
  TimingEffort theirs = effort;
  theirs.mode = TimingMode::cuda_l2;
  const auto comparison = evaluator.compare(problem, entrant.candidate, artifact, theirs);
  nlohmann::json result = {{"candidate", entrant.name},
                           {"passes", comparison.ok()},
                           {"warm_up_seconds", effort.seconds},
                           {"run_seconds", kCudaL2Runs * effort.seconds}};
  if (!comparison) {
    result["failure"] = comparison.error().message;
    return result;
  }
  const double ours = comparison->subjects.front().warm.mean_us;
  result["mean_us"] = ours;
  result["subjects"] = comparison->subjects;
  // Of each kind of baseline the faster layout counts: "cublaslt-auto" for cublaslt-auto-nn and cublaslt-auto-tn.
  std::map<std::string, double> families;
  for (const Measurement& subject : comparison->subjects) {
    if (subject.subject == "candidate") continue;
    std::string family = subject.subject;
    for (const char* layout : {"-nn", "-tn"}) {
      if (const auto at = family.find(layout); at != std::string::npos) family.erase(at, 3);
    }
    const auto [found, is_new] = families.try_emplace(family, subject.warm.mean_us);
    if (!is_new) found->second = std::min(found->second, subject.warm.mean_us);
  }
  for (const auto& [family, time_us] : families) result["ratio"][family] = time_us / ours;
  return result;
}

std::string protocols_line(const nlohmann::json& row) {
  const nlohmann::json& theirs = row.at("cuda_l2");
  std::string text = "    ours: ";
  if (row.contains("speedup_any_layout")) {
    text += fmt::format("{:.3f} x the fastest baseline of any layout, cold", row["speedup_any_layout"].get<double>());
  } else {
    text += fmt::format("{}", row.at("verdict").value("kind", "not measured"));
  }
  text += "; cuda-l2 protocol: ";
  if (!theirs.at("passes").get<bool>()) return text + theirs.at("failure").get<std::string>();
  for (const auto& [family, ratio] : theirs.at("ratio").items()) {
    text += fmt::format("{:.3f} x {}-max, ", ratio.get<double>(), family);
  }
  return text + fmt::format("warm calls, {:g} s of warm-up and {:g} s of runs",
                            theirs.at("warm_up_seconds").get<double>(), theirs.at("run_seconds").get<double>());
}

}  // namespace warpsmith::cli
