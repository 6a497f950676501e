// Proofs, subjects, stopping rule, and the JSON forms of request and report.
#include "evaluate/survey.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "codegen/launch.h"
#include "evaluate/gates.h"
#include "evaluate/protocol.h"
#include "evaluate/timing.h"
#include "report/speedup.h"

namespace warpsmith {

namespace {

constexpr int kOfflineRounds = 7;  // at least
constexpr int kCallRounds = 31;
constexpr int kMostRounds = 60;
constexpr const char* kTuned = "-auto-";  // of baselines whose warm times count; where there are none, all do

// Median of the samples; infinite for none.
double median_of(std::vector<double> samples) {
  if (samples.empty()) return std::numeric_limits<double>::infinity();
  std::sort(samples.begin(), samples.end());
  return percentile(samples, 0.5);
}

bool is_ours(const std::string& name) { return name.starts_with("ours-"); }
// Takes part for its times with dependent launch alone.
bool is_variant(const std::string& name) { return name.ends_with("-pdl"); }

// The layouts of ours compete, and those of each baseline.
std::string group_of(const std::string& name) { return is_ours(name) ? "ours" : split_subject(name).group; }

class Survey {
 public:
  Survey(Backend& backend, const SurveyRequest& request, const SurveyHooks& hooks)
      : backend_(backend), request_(request), hooks_(hooks) {}

  Result<SurveyReport> run();

 private:
  struct Held {
    TimingSubject subject;
    std::size_t proof;
  };

  Status prove_all();
  Status prove(const SurveyCandidate& candidate);
  Status open_baselines();
  Status hold_contests();
  std::vector<TimingSubject> subjects_of(TimingMode mode) const;
  std::vector<std::string> fastest_names() const;
  TimingPlan plan_of(TimingMode mode, const std::vector<TimingSubject>& subjects) const;
  Status time(TimingMode mode);
  Status check_outputs(const std::vector<TimingSubject>& subjects);
  Status compare_errors();
  void check_physics(const std::vector<Measurement>& measured);
  bool known_well(const TimingRounds& rounds, const std::vector<TimingSubject>& subjects) const;
  Held* held(const std::string& name);
  void spend(const char* what);  // the time since the last call

  Backend& backend_;
  const SurveyRequest& request_;
  const SurveyHooks& hooks_;
  SurveyReport report_;
  std::vector<Held> held_;
  std::vector<TimingSubject> baselines_;
  std::uint64_t fresh_seed_ = 0;
  bool crashed_ = false;
  double since_ = 0;
};

void Survey::spend(const char* what) {
  const double now = backend_.now_seconds();
  report_.seconds[what] += now - since_;
  since_ = now;
}

Survey::Held* Survey::held(const std::string& name) {
  for (Held& one : held_) {
    if (one.subject.name == name) return &one;
  }
  return nullptr;
}

// References are made for the first layout and kept for the others: the seeds are the same.
Status Survey::prove_all() {
  std::optional<Layout> layout;
  fresh_seed_ = draw_seed();
  for (const SurveyCandidate& candidate : request_.candidates) {
    if (layout != candidate.layout) {
      hooks_.announce(stage::kPrepare);
      if (layout) {
        if (const Status changed = backend_.change_layout(candidate.layout); !changed) return changed;
      } else {
        Problem problem = request_.problem;
        problem.layout = candidate.layout;
        if (const Status ready = backend_.prepare(problem, draw_seed()); !ready) return ready;
      }
      layout = candidate.layout;
      spend("operands");
      if (const Status ready = prepare_gates(backend_, request_.seed, fresh_seed_, request_.problem.accumulator);
          !ready)
        return ready;
      spend("references");
    }
    if (const Status proved = prove(candidate); !proved || crashed_) return proved;
    spend("gates");
  }
  if (request_.candidates.empty()) {
    hooks_.announce(stage::kPrepare);
    if (const Status ready = backend_.prepare(request_.problem, draw_seed()); !ready) return ready;
    spend("operands");
  }
  return ok_status();
}

Status Survey::prove(const SurveyCandidate& candidate) {
  hooks_.announce(stage::kGates);
  SurveyReport::Proof& proof = report_.proofs.emplace_back();
  proof.name = candidate.name;
  Artifact artifact;
  artifact.binary = candidate.binary;
  artifact.key = candidate.key;
  const auto crash = [&](const std::string& words) {
    proof.crash = words;
    crashed_ = true;
    hooks_.poisoned();
    return ok_status();
  };
  if (const Status loaded = backend_.load(artifact, candidate.launch); !loaded) {
    if (loaded.error().kind == ErrorKind::environment) return loaded.error();
    return crash(loaded.error().message);
  }
  GateOptions options;
  options.seed = request_.seed;
  options.fresh_seed = fresh_seed_;
  options.order_nondeterministic = candidate.order_nondeterministic;
  options.nondeterminism_reason = candidate.nondeterminism_reason;
  options.accumulator = request_.problem.accumulator;
  GateReport gates = run_gates(backend_, options);
  proof.gates = std::move(gates.gates);
  if (gates.strayed || gates.fault) hooks_.poisoned();
  if (gates.fault) return environment_error(*gates.fault);
  if (gates.crash) return crash(*gates.crash);
  if (gates.strayed) crashed_ = true;
  if (!proof.holds()) {
    backend_.unload();
    return ok_status();
  }
  const auto number = backend_.keep_candidate();
  if (!number) return number.error();
  const bool pdl = offers_programmatic_dependent_launch(candidate.launch);
  held_.push_back({{*number, candidate.name, pdl, true, !is_variant(candidate.name)}, report_.proofs.size() - 1});
  return ok_status();
}

Status Survey::open_baselines() {
  hooks_.announce(stage::kBaselines);
  backend_.suggest_baselines(request_.baseline_choices);
  const auto names = backend_.open_baselines();
  if (!names) return names.error();
  const auto is_tuned = [](const std::string& name) { return name.find(kTuned) != std::string::npos; };
  const bool any_tuned = std::any_of(names->begin(), names->end(), is_tuned);
  for (std::size_t i = 0; i < names->size(); ++i) {
    const std::string& name = (*names)[i];
    baselines_.push_back({static_cast<int>(i) + 1, name, false, is_tuned(name) || !any_tuned});
  }
  report_.baseline_choices = backend_.baseline_choices();
  spend("baselines");
  return ok_status();
}

// Of candidates for one place the one that is faster, cold and offline, among those that hold.
Status Survey::hold_contests() {
  std::map<std::string, std::vector<std::string>> places;  // names by the name that they compete for
  for (const SurveyCandidate& one : request_.candidates) {
    if (!one.rival_of.empty()) places[one.rival_of].push_back(one.name);
  }
  std::vector<TimingSubject> subjects;
  for (auto& [name, rivals] : places) {
    rivals.insert(rivals.begin(), name);
    std::erase_if(rivals, [&](const std::string& one) { return held(one) == nullptr; });
    if (rivals.size() < 2) continue;
    for (const std::string& one : rivals) {
      subjects.push_back(held(one)->subject);
      subjects.back().pdl = false;
    }
  }
  if (!subjects.empty()) {
    hooks_.announce(stage::kTiming);
    TimingPlan plan = plan_of(TimingMode::offline, subjects);
    plan.warm = false;
    const auto timed = time_subjects(backend_, plan);
    if (!timed) {
      hooks_.poisoned();
      return timed.error();
    }
    for (const Measurement& one : timed->measurements) report_.contest_us[one.subject] = one.cold.median_us;
  }
  for (const auto& [name, rivals] : places) {
    if (rivals.empty()) continue;
    const std::string winner = *std::min_element(rivals.begin(), rivals.end(), [&](const auto& x, const auto& y) {
      return report_.contest_us[x] < report_.contest_us[y];
    });
    report_.winners[name] = winner;
    std::erase_if(held_, [&](const Held& one) {
      return one.subject.name != winner && std::find(rivals.begin(), rivals.end(), one.subject.name) != rivals.end();
    });
    if (winner == name) continue;
    held(winner)->subject.name = name;
    for (SurveyReport::Proof& proof : report_.proofs) {
      if (proof.name == winner) {
        proof.name = name;
      } else if (proof.name == name) {
        proof.name = winner;
      }
    }
  }
  spend("contests");
  return ok_status();
}

// Of each group the subject with the lowest cold median offline.
std::vector<std::string> Survey::fastest_names() const {
  std::vector<std::string> names;
  const auto offline = report_.modes.find(std::string(to_string(TimingMode::offline)));
  if (offline == report_.modes.end()) return names;
  std::map<std::string, const Measurement*> fastest;
  for (const Measurement& one : offline->second) {
    if (is_variant(one.subject)) continue;
    const Measurement*& best = fastest[group_of(one.subject)];
    if (best == nullptr || one.cold.median_us < best->cold.median_us) best = &one;
  }
  for (const auto& [group, best] : fastest) names.push_back(best->subject);
  return names;
}

std::vector<TimingSubject> Survey::subjects_of(TimingMode mode) const {
  std::vector<TimingSubject> all;
  for (const Held& one : held_) {
    if (mode == TimingMode::offline || one.subject.plain) all.push_back(one.subject);
  }
  all.insert(all.end(), baselines_.begin(), baselines_.end());
  if (mode == TimingMode::offline) return all;
  const std::vector<std::string> wanted = request_.call_subjects.empty() ? fastest_names() : request_.call_subjects;
  if (wanted.empty()) return all;
  std::erase_if(all, [&](const TimingSubject& subject) {
    return std::find(wanted.begin(), wanted.end(), subject.name) == wanted.end();
  });
  return all;
}

// The ratio in question: the fastest tuned baseline (the fastest of all where none is tuned) over the fastest of ours.
bool Survey::known_well(const TimingRounds& rounds, const std::vector<TimingSubject>& subjects) const {
  const std::vector<double>*ours = nullptr, *theirs = nullptr;
  bool tuned = false;
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    if (subjects[i].number <= 0) {
      if (is_variant(subjects[i].name)) continue;
      if (ours == nullptr || median_of(rounds[i]) < median_of(*ours)) ours = &rounds[i];
      continue;
    }
    const bool is_tuned = subjects[i].name.find(kTuned) != std::string::npos;
    if (tuned && !is_tuned) continue;
    if (theirs == nullptr || (is_tuned && !tuned) || median_of(rounds[i]) < median_of(*theirs)) theirs = &rounds[i];
    tuned = tuned || is_tuned;
  }
  return ours == nullptr || theirs == nullptr || ratio_uncertainty(*theirs, *ours) <= request_.precision;
}

TimingPlan Survey::plan_of(TimingMode mode, const std::vector<TimingSubject>& subjects) const {
  TimingPlan plan;
  plan.subjects = subjects;
  plan.mode = mode;
  plan.server = request_.server;
  plan.seconds = request_.seconds;
  plan.min_samples = mode == TimingMode::offline ? kOfflineRounds : kCallRounds;
  plan.most_samples = kMostRounds;
  plan.warm = mode == TimingMode::offline;
  plan.seed = request_.seed;
  return plan;
}

Status Survey::time(TimingMode mode) {
  const std::vector<TimingSubject> subjects = subjects_of(mode);
  if (subjects.empty()) return ok_status();
  hooks_.announce(stage::kTiming);
  TimingPlan plan = plan_of(mode, subjects);
  if (mode == TimingMode::offline) {
    plan.satisfied = [&](const TimingRounds& rounds) { return known_well(rounds, subjects); };
  }
  auto timed = time_subjects(backend_, plan);
  if (!timed) {
    hooks_.poisoned();
    return timed.error();
  }
  spend(std::string(to_string(mode)).c_str());
  if (const Status checked = check_outputs(subjects); !checked) return checked;
  if (mode == TimingMode::offline) check_physics(timed->measurements);
  std::erase_if(timed->measurements, [&](const Measurement& measured) {
    const Held* one = held(measured.subject);
    return one != nullptr && !report_.proofs[one->proof].holds();
  });
  report_.modes[std::string(to_string(mode))] = std::move(timed->measurements);
  spend("outputs");
  return ok_status();
}

Status Survey::check_outputs(const std::vector<TimingSubject>& subjects) {
  for (const TimingSubject& subject : subjects) {
    const auto outputs = backend_.check_timed_outputs(subject.number);
    if (!outputs) {
      hooks_.poisoned();
      return outputs.error();
    }
    if (outputs->strayed) hooks_.poisoned();
    const Held* one = held(subject.name);
    if (one == nullptr) {
      if (outputs->passed) continue;
      return failure(fmt::format("baseline {} gives wrong results: {}", subject.name, outputs->detail));
    }
    std::vector<GateResult>& gates = report_.proofs[one->proof].gates;
    gates.push_back({"timed-outputs", outputs->passed, outputs->detail, outputs->worst_error});
    if (outputs->passed && !outputs->precision.good()) {
      gates.push_back(precision_gate(outputs->precision, "in the outputs of timed launches"));
    }
  }
  return ok_status();
}

// No right kernel is faster than the floor.
void Survey::check_physics(const std::vector<Measurement>& measured) {
  for (const Measurement& one : measured) {
    const Held* kernel = held(one.subject);
    if (kernel == nullptr || !report_.proofs[kernel->proof].holds()) continue;
    const auto reason = under_physical_floor(request_.problem, backend_.machine(), one);
    GateResult gate{"physics", !reason, reason.value_or(""), 0};
    report_.proofs[kernel->proof].gates.push_back(std::move(gate));
  }
}

// Of the layout that is faster offline, else of the first candidate.
Status Survey::compare_errors() {
  const std::vector<std::string> wanted = request_.call_subjects.empty() ? fastest_names() : request_.call_subjects;
  const Held* one = held_.empty() ? nullptr : &held_.front();
  for (const std::string& name : wanted) {
    if (const Held* faster = held(name)) one = faster;
  }
  if (one == nullptr) return ok_status();
  const auto errors = backend_.compare_errors(one->subject.number);
  if (!errors) return errors.error();
  report_.accuracy = *errors;
  spend("accuracy");
  return ok_status();
}

Result<SurveyReport> Survey::run() {
  since_ = backend_.now_seconds();
  if (const Status proved = prove_all(); !proved) return proved.error();
  if (crashed_) return std::move(report_);
  if (const Status opened = open_baselines(); !opened) return opened.error();
  if (const Status contested = hold_contests(); !contested) return contested.error();
  for (const TimingMode mode : request_.modes) {
    if (const Status timed = time(mode); !timed) return timed.error();
  }
  if (request_.accuracy) {
    if (const Status compared = compare_errors(); !compared) return compared.error();
  }
  report_.versions = backend_.machine().versions;
  return std::move(report_);
}

}  // namespace

const SurveyReport::Proof* SurveyReport::proof(const std::string& name) const {
  for (const Proof& one : proofs) {
    if (one.name == name) return &one;
  }
  return nullptr;
}

// Ranks k and n + 1 - k enclose the median with 1 - 2 P(Binomial(n, 1/2) < k); k from the normal approximation, which
// is within one rank of the exact one for the counts in use, rounded to the wider interval.
double ratio_uncertainty(const std::vector<double>& numerators, const std::vector<double>& denominators) {
  const std::size_t count = std::min(numerators.size(), denominators.size());
  if (count < 6) return std::numeric_limits<double>::infinity();
  std::vector<double> ratios(count);
  for (std::size_t i = 0; i < count; ++i) ratios[i] = numerators[i] / denominators[i];
  std::sort(ratios.begin(), ratios.end());
  const double n = static_cast<double>(count);
  const auto rank = static_cast<std::size_t>(std::max(1.0, std::floor((n - 1.96 * std::sqrt(n)) / 2)));
  return (ratios[count - rank] - ratios[rank - 1]) / 2 / percentile(ratios, 0.5);
}

Result<SurveyReport> survey_shape(Backend& backend, const SurveyRequest& request, const SurveyHooks& hooks) {
  return Survey(backend, request, hooks).run();
}

void to_json(nlohmann::json& json, const SurveyRequest& request) {
  json = {{"problem", to_string(request.problem)},
          {"qps", request.server.qps},
          {"arrivals", request.server.arrivals},
          {"seconds", request.seconds},
          {"precision", request.precision},
          {"call_subjects", request.call_subjects},
          {"baseline_choices", request.baseline_choices},
          {"accuracy", request.accuracy},
          {"seed", request.seed},
          {"modes", nlohmann::json::array()},
          {"candidates", nlohmann::json::array()}};
  for (const TimingMode mode : request.modes) json["modes"].push_back(to_string(mode));
  for (const SurveyCandidate& one : request.candidates) {
    json["candidates"].push_back({{"name", one.name},
                                  {"rival_of", one.rival_of},
                                  {"layout", to_string(one.layout)},
                                  {"binary", one.binary},
                                  {"key", one.key},
                                  {"launch", one.launch},
                                  {"order_nondeterministic", one.order_nondeterministic},
                                  {"nondeterminism_reason", one.nondeterminism_reason}});
  }
}

void from_json(const nlohmann::json& json, SurveyRequest& request) {
  const auto problem = parse_problem(json.at("problem").get<std::string>());
  if (problem) request.problem = *problem;
  json.at("qps").get_to(request.server.qps);
  json.at("arrivals").get_to(request.server.arrivals);
  json.at("seconds").get_to(request.seconds);
  json.at("precision").get_to(request.precision);
  json.at("call_subjects").get_to(request.call_subjects);
  request.baseline_choices = json.at("baseline_choices");
  json.at("accuracy").get_to(request.accuracy);
  json.at("seed").get_to(request.seed);
  request.modes.clear();
  for (const auto& name : json.at("modes")) {
    if (const auto mode = parse_timing_mode(name.get<std::string>())) request.modes.push_back(*mode);
  }
  request.candidates.clear();
  for (const auto& each : json.at("candidates")) {
    SurveyCandidate one;
    each.at("name").get_to(one.name);
    each.at("rival_of").get_to(one.rival_of);
    if (const auto layout = parse_layout(each.at("layout").get<std::string>())) one.layout = *layout;
    each.at("binary").get_to(one.binary);
    each.at("key").get_to(one.key);
    one.launch = each.at("launch");
    each.at("order_nondeterministic").get_to(one.order_nondeterministic);
    each.at("nondeterminism_reason").get_to(one.nondeterminism_reason);
    request.candidates.push_back(std::move(one));
  }
}

void to_json(nlohmann::json& json, const SurveyReport& report) {
  json = {{"modes", report.modes},     {"accuracy", report.accuracy},    {"baseline_choices", report.baseline_choices},
          {"seconds", report.seconds}, {"versions", report.versions},    {"proofs", nlohmann::json::array()},
          {"winners", report.winners}, {"contest_us", report.contest_us}};
  for (const auto& proof : report.proofs) {
    json["proofs"].push_back({{"name", proof.name}, {"gates", proof.gates}, {"crash", proof.crash}});
  }
}

void from_json(const nlohmann::json& json, SurveyReport& report) {
  json.at("modes").get_to(report.modes);
  json.at("winners").get_to(report.winners);
  json.at("contest_us").get_to(report.contest_us);
  report.accuracy = json.at("accuracy");
  report.baseline_choices = json.at("baseline_choices");
  json.at("seconds").get_to(report.seconds);
  json.at("versions").get_to(report.versions);
  report.proofs.clear();
  for (const auto& each : json.at("proofs")) {
    SurveyReport::Proof proof;
    each.at("name").get_to(proof.name);
    each.at("gates").get_to(proof.gates);
    each.at("crash").get_to(proof.crash);
    report.proofs.push_back(std::move(proof));
  }
}

}  // namespace warpsmith
