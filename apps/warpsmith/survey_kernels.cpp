// Building, variants with dependent launch, and wisdom.
#include "survey_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "evaluate/resource_gate.h"
#include "report/speedup.h"
#include "search/conclude.h"

namespace warpsmith::cli {

namespace {

constexpr double kNearTie = 1.05;  // of the fastest entrant's time: dependent launch is timed of those as well
constexpr double kRival = 1.06;    // of the fastest time of a search: who is compared again

const Measurement* subject_of(const std::vector<Measurement>& subjects, const std::string& name) {
  for (const Measurement& one : subjects) {
    if (one.subject == name) return &one;
  }
  return nullptr;
}

}  // namespace

SurveyCandidate survey_candidate(const SurveyKernel& entrant) {
  SurveyCandidate candidate;
  candidate.name = entrant.name;
  candidate.rival_of = entrant.rival_of;
  candidate.layout = entrant.problem.layout;
  candidate.binary = entrant.artifact.binary.string();
  candidate.key = entrant.artifact.key;
  std::visit([&](const auto& launch) { candidate.launch = launch; }, entrant.candidate.launch);
  candidate.order_nondeterministic = entrant.candidate.order_nondeterministic;
  candidate.nondeterminism_reason = entrant.candidate.nondeterminism_reason;
  return candidate;
}

Result<SurveyKernel> KernelBuilder::build(const Problem& problem, const ChosenRecipe& chosen, const std::string& name) {
  auto candidate = generate(chosen.recipe, problem, machine_);
  if (!candidate) return candidate.error();
  SurveyKernel entrant;
  entrant.name = name;
  entrant.problem = problem;
  entrant.recipe = to_string(chosen.recipe);
  entrant.source_hash = sha256_hex(candidate->source);
  entrant.origin = chosen.origin;
  entrant.pdl_recipe = chosen.pdl_recipe;
  entrant.known_us = chosen.cold_us;
  entrant.candidate = std::move(*candidate);
  auto artifact = compiled(entrant.source_hash, entrant.candidate);
  if (!artifact) return artifact.error();
  const GateResult resources = resource_gate(artifact->resources);
  if (!resources.passed) return failure(fmt::format("{}: {}", resources.gate, resources.detail));
  entrant.artifact = std::move(*artifact);
  return entrant;
}

Result<SurveyKernel> KernelBuilder::build_first(const Problem& problem, const std::vector<ChosenRecipe>& chosen,
                                                const std::string& name) {
  Error last = failure("no kernel is known for it");
  for (auto one = chosen.begin(); one != chosen.end(); ++one) {
    auto entrant = build(problem, *one, name);
    if (entrant) {
      entrant->others.assign(one + 1, chosen.end());
      return entrant;
    }
    if (entrant.error().kind == ErrorKind::environment) return entrant;
    last = failure(entrant.error().message);
  }
  return last;
}

Result<std::vector<SurveyKernel>> KernelBuilder::build_contest(const Problem& problem,
                                                               const std::vector<ChosenRecipe>& chosen,
                                                               const std::string& name, Rivals rivals) {
  std::vector<SurveyKernel> entrants;
  auto first = build_first(problem, chosen, name);
  if (!first) return first.error();
  entrants.push_back(std::move(*first));
  if (rivals == Rivals::none) return entrants;
  const double limit_us = kRival * entrants.front().known_us;
  for (const ChosenRecipe& one : std::vector<ChosenRecipe>(entrants.front().others)) {
    const bool first_timed = limit_us > 0, timed = one.cold_us > 0;
    if (timed != first_timed || one.cold_us > limit_us) continue;
    auto rival = build(problem, one, fmt::format("{}~{}", name, entrants.size() + 1));
    if (!rival && rival.error().kind == ErrorKind::environment) return rival.error();
    if (!rival) continue;
    rival->rival_of = name;
    entrants.push_back(std::move(*rival));
  }
  return entrants;
}

Result<Artifact> KernelBuilder::compiled(const std::string& hash, const Candidate& candidate) {
  std::promise<Result<Artifact>> promise;
  std::shared_future<Result<Artifact>> future;
  bool mine = false;
  {
    const std::lock_guard lock(mutex_);
    const auto [found, is_new] = known_.try_emplace(hash);
    if (is_new) found->second = promise.get_future().share();
    future = found->second;
    mine = is_new;
  }
  if (mine) {
    try {
      promise.set_value(compiler_.compile(candidate));
    } catch (...) {
      promise.set_exception(std::current_exception());
    }
  }
  return future.get();
}

// Nothing where it is the entrant itself.
std::optional<Recipe> KernelBuilder::dependent_launch_of(const SurveyKernel& entrant) const {
  if (const auto known = parse_recipe(entrant.pdl_recipe); known && is_legal(*known, entrant.problem, machine_)) {
    return to_string(*known) == entrant.recipe ? std::nullopt : std::optional(*known);
  }
  const auto recipe = parse_recipe(entrant.recipe);
  return recipe ? with_dependent_launch(*recipe, entrant.problem, machine_) : std::nullopt;
}

void KernelBuilder::add_variants(std::vector<SurveyKernel>& entrants) {
  double best_us = 0;
  for (const SurveyKernel& one : entrants) {
    if (one.known_us > 0 && (best_us == 0 || one.known_us < best_us)) best_us = one.known_us;
  }
  std::vector<SurveyKernel> all;
  for (SurveyKernel& one : entrants) {
    std::optional<SurveyKernel> variant;
    const bool near = one.rival_of.empty() && (best_us == 0 || one.known_us == 0 || one.known_us <= kNearTie * best_us);
    if (const auto pdl = near ? dependent_launch_of(one) : std::nullopt) {
      auto built = build(one.problem, {*pdl, one.origin, 0, {}}, one.name + "-pdl");
      if (built) variant = std::move(*built);
    }
    all.push_back(std::move(one));
    if (variant) all.push_back(std::move(*variant));
  }
  entrants = std::move(all);
}

nlohmann::json settle_contests(std::vector<SurveyKernel>& entrants, const SurveyReport& report) {
  for (const auto& [name, winner] : report.winners) {
    if (winner == name) continue;
    for (SurveyKernel& one : entrants) {
      if (one.name == winner) {
        one.name = name;
        one.rival_of.clear();
      } else if (one.name == name) {
        one.name = winner;
        one.rival_of = name;
      }
    }
  }
  nlohmann::json lost = nlohmann::json::object();
  for (const SurveyKernel& one : entrants) {
    const auto winner = report.winners.find(one.rival_of);
    if (winner == report.winners.end()) continue;
    // Its name in the request: they may have changed places.
    const auto time = report.contest_us.find(winner->second == one.name ? one.rival_of : one.name);
    nlohmann::json cold_us = time == report.contest_us.end() ? nlohmann::json() : nlohmann::json(time->second);
    lost[one.rival_of].push_back({{"recipe", one.recipe}, {"source_hash", one.source_hash}, {"cold_us", cold_us}});
  }
  std::erase_if(entrants, [](const SurveyKernel& one) { return !one.rival_of.empty(); });
  return lost;
}

std::vector<std::string> faster_subjects(const nlohmann::json& row) {
  std::map<std::string, std::pair<double, std::string>> fastest;
  for (const auto& subject : row.at("subjects")) {
    const auto name = subject.at("subject").get<std::string>();
    if (name.ends_with("-pdl")) continue;
    const double time_us = subject.at("cold").at("median_us").get<double>();
    auto& best = fastest[name.starts_with("ours-") ? "ours" : split_subject(name).group];
    if (best.second.empty() || time_us < best.first) best = {time_us, name};
  }
  std::vector<std::string> names;
  for (const auto& [group, best] : fastest) names.push_back(best.second);
  return names;
}

Result<std::vector<SurveyKernel>> entrants_of(const nlohmann::json& row, const std::vector<std::string>& names,
                                              const Problem& shape, KernelBuilder& builder) {
  std::vector<SurveyKernel> entrants;
  for (const std::string& name : names) {
    if (!row.at("ours").contains(name)) continue;
    const auto& ours = row.at("ours").at(name);
    const auto recipe = parse_recipe(ours.at("recipe").get<std::string>());
    const auto layout = parse_layout(name.substr(name.find('-') + 1));
    if (!recipe || !layout) return failure("the row of mode offline is garbled");
    Problem problem = shape;
    problem.layout = *layout;
    auto entrant = builder.build(problem, {*recipe, ours.value("origin", std::string()), 0, {}}, name);
    if (!entrant) return entrant.error();
    entrants.push_back(std::move(*entrant));
  }
  return entrants;
}

std::vector<WisdomEntry> wisdom_entries(const std::vector<SurveyKernel>& entrants, const SurveyReport& report,
                                        const Provenance& provenance) {
  std::vector<WisdomEntry> entries;
  const auto offline = report.modes.find("offline");
  if (offline == report.modes.end()) return entries;
  std::vector<Measurement> baselines = offline->second;
  std::erase_if(baselines, [](const Measurement& one) { return one.subject.starts_with("ours-"); });
  for (const SurveyKernel& one : entrants) {
    const Measurement* measured = subject_of(offline->second, one.name);
    if (one.is_variant() || measured == nullptr) continue;
    WisdomEntry entry;
    entry.problem = one.problem;
    entry.recipe = one.recipe;
    entry.source_hash = one.source_hash;
    entry.cold_us = measured->cold.median_us;
    entry.warm_us = measured->warm.median_us;
    for (const SurveyKernel& with_pdl : entrants) {
      const Measurement* pdl = subject_of(offline->second, with_pdl.name);
      if (with_pdl.problem.layout != one.problem.layout || pdl == nullptr || !pdl->cold_pdl) continue;
      if (entry.pdl_us > 0 && entry.pdl_us <= pdl->cold_pdl->median_us) continue;
      entry.pdl_us = pdl->cold_pdl->median_us;
      entry.pdl_recipe = with_pdl.recipe;
    }
    if (const Measurement* baseline = fastest_of(baselines, to_string(one.problem.layout))) {
      entry.baseline = baseline->subject;
      entry.baseline_us = baseline->cold.median_us;
      entry.baseline_warm_us = baseline->warm.median_us;
      entry.baseline_setting = baseline->detail;
    }
    entry.gates_passed = static_cast<int>(report.proof(one.name)->gates.size());
    entry.date = provenance.date;
    entry.commit = provenance.commit;
    for (const auto& [key, value] : provenance.facts()) {
      if (key == "driver" || key == "cuda" || key == "cublas" || key == "nvrtc") entry.provenance[key] = value;
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace warpsmith::cli
