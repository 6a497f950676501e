// Choice by measurements, choice without, and the file of the baselines' choices.
#include "survey_recipes.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "codegen/generate.h"
#include "library/choice.h"
#include "library/wisdom_index.h"
#include "recipe/knob.h"
#include "search/starting_points.h"

namespace warpsmith::cli {

namespace {

constexpr const char* kPdlKnob = "pdl";

std::string source_hash(const Recipe& recipe, const Problem& problem, const Machine& machine) {
  const auto candidate = generate(recipe, problem, machine);
  return candidate ? sha256_hex(candidate->source) : std::string();
}

// Layouts of a shape share the choice.
std::string shape_key(const Problem& problem) {
  Problem shape = problem;
  shape.layout = Layout::nn;
  return to_string(shape);
}

}  // namespace

struct RecipeSource::Unmeasured {
  library::Chooser chooser;
};

RecipeSource::RecipeSource(const Machine& machine, Target target, int threads, std::optional<Wisdom> wisdom,
                           Archive* archive, bool unmeasured)
    : machine_(machine), target_(target), threads_(threads), wisdom_(std::move(wisdom)), archive_(archive) {
  if (!unmeasured) return;
  std::shared_ptr<const library::WisdomIndex> shared =
      wisdom_ ? std::make_shared<library::WisdomIndex>(*wisdom_) : nullptr;
  std::shared_ptr<const library::Ranking> ranking = library::model_ranking();
  unmeasured_ = std::make_unique<Unmeasured>(Unmeasured{{machine_, std::move(shared), std::move(ranking)}});
}

RecipeSource::~RecipeSource() = default;

Result<std::vector<ChosenRecipe>> RecipeSource::choose(const Problem& problem) const {
  std::vector<ChosenRecipe> list;
  const auto add = [&](const Recipe& recipe, std::string origin) {
    const bool known = std::any_of(list.begin(), list.end(), [&](const auto& one) { return one.recipe == recipe; });
    if (!known && list.size() < kMostChosen && is_legal(recipe, problem, machine_)) {
      list.push_back({recipe, std::move(origin), 0, {}});
    }
  };
  if (!unmeasured_) {
    auto best = measured(problem);
    if (!best || !best->empty()) return best;
    // The other layout's kernels are the next best guess.
    Problem other = problem;
    other.layout = problem.layout == Layout::nn ? Layout::tn : Layout::nn;
    const auto known = measured(other);
    if (!known) return known;
    for (const ChosenRecipe& one : *known)
      add(one.recipe, fmt::format("{} of {}", one.origin, to_string(other.layout)));
  } else {
    const std::lock_guard lock(mutex_);
    for (const library::Choice& choice : unmeasured_->chooser.choose(problem, WARPSMITH_MODE_OFFLINE)) {
      if (!choice.recipe) continue;
      add(*choice.recipe, choice.matched.empty() ? std::string(library::to_string(choice.source))
                                                 : fmt::format("nearest {}", choice.matched));
    }
  }
  const StartingPoints starts = find_starting_points(problem, machine_, target_);
  for (const Recipe& recipe : starts.ranked) add(recipe, "model");
  for (const Recipe& recipe : starts.best) add(recipe, "starting point");
  return list;
}

// What the archive holds of today's sources (of earlier ones where there is nothing else), the latest time of each
// recipe, beside wisdom's entry.
Result<std::vector<ChosenRecipe>> RecipeSource::measured(const Problem& problem) const {
  std::vector<ChosenRecipe> list;
  const auto add = [&](const std::string& text, const char* origin, double cold_us, const std::string& pdl) {
    const auto recipe = parse_recipe(text);
    if (!recipe || !is_legal(*recipe, problem, machine_)) return;
    for (const ChosenRecipe& one : list) {
      if (one.recipe == *recipe) return;
    }
    list.push_back({*recipe, origin, cold_us, pdl});
  };
  if (const WisdomEntry* entry = wisdom_ ? wisdom_->find(problem) : nullptr) {
    add(entry->recipe, "wisdom", entry->cold_us, entry->pdl_recipe);
  }
  if (archive_ != nullptr) {
    const auto attempts = [&] {
      const std::lock_guard lock(mutex_);
      return archive_->summaries({problem, machine_, target_, threads_});
    }();
    if (!attempts) return attempts.error();
    std::map<std::string, const AttemptSummary*> latest;
    for (const AttemptSummary& attempt : *attempts) {
      if (attempt.kind != "failed") latest[attempt.recipe] = &attempt;
    }
    std::vector<const AttemptSummary*> fastest;
    for (const auto& [recipe, attempt] : latest) {
      if (attempt->kind == "accepted" && attempt->cold_us && *attempt->cold_us > 0) fastest.push_back(attempt);
    }
    std::sort(fastest.begin(), fastest.end(), [](const auto* x, const auto* y) { return *x->cold_us < *y->cold_us; });
    std::vector<const AttemptSummary*> stale;
    std::size_t taken = 0;
    for (const AttemptSummary* attempt : fastest) {
      if (taken == kMostChosen) break;
      const auto recipe = parse_recipe(attempt->recipe);
      if (!recipe) continue;
      if (source_hash(*recipe, problem, machine_) != attempt->source_hash) {
        stale.push_back(attempt);
        continue;
      }
      add(attempt->recipe, "archive", *attempt->cold_us, {});
      ++taken;
    }
    if (stale.size() > kMostChosen) stale.resize(kMostChosen);
    for (const AttemptSummary* attempt : stale) {
      if (taken == 0) add(attempt->recipe, "archive, of an earlier source", *attempt->cold_us, {});
    }
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const ChosenRecipe& x, const ChosenRecipe& y) { return x.cold_us < y.cold_us; });
  if (list.size() > kMostChosen) list.erase(list.begin() + kMostChosen, list.end());
  return list;
}

std::optional<Recipe> with_dependent_launch(const Recipe& recipe, const Problem& problem, const Machine& machine) {
  for (const KnobField* field : recipe.family().fields()) {
    if (field->name != kPdlKnob || recipe.get(kPdlKnob) != field->default_value) continue;
    for (const int value : field->values) {
      Recipe variant = recipe;
      variant.set(kPdlKnob, value);
      if (value != field->default_value && is_legal(variant, problem, machine)) return variant;
    }
  }
  return std::nullopt;
}

Result<BaselineChoiceFile> BaselineChoiceFile::open(const std::filesystem::path& path, const Machine& machine) {
  BaselineChoiceFile file;
  file.path_ = path;
  file.key_ = {{"device", machine.name}};
  for (const char* name : {"driver", "cublaslt"}) {
    const auto version = machine.versions.find(name);
    file.key_[name] = version == machine.versions.end() ? std::string("unknown") : version->second;
  }
  if (path.empty() || !std::filesystem::exists(path)) return file;
  const auto text = read_file(path);
  if (!text) return text.error();
  std::size_t number = 0;
  for (std::size_t at = 0; at < text->size();) {
    const std::size_t end = std::min(text->find('\n', at), text->size());
    const auto line = nlohmann::json::parse(text->substr(at, end - at), nullptr, false);
    at = end + 1;
    ++number;
    if (!line.is_object() || !line.contains("on") || !line.contains("problem") || !line.contains("choices")) {
      if (end == text->size()) break;  // cut short
      return bad_input(fmt::format("{}:{}: no choice of a baseline", printable(path.string(), 200), number));
    }
    if (line["on"] == file.key_ && line["problem"].is_string()) file.choices_[line["problem"]] = line["choices"];
  }
  return file;
}

nlohmann::json BaselineChoiceFile::find(const Problem& problem) const {
  const std::lock_guard lock(*mutex_);
  const auto found = choices_.find(shape_key(problem));
  return found == choices_.end() ? nlohmann::json() : found->second;
}

Status BaselineChoiceFile::keep(const Problem& problem, const nlohmann::json& choices) {
  if (choices.is_null()) return ok_status();
  const std::lock_guard lock(*mutex_);
  nlohmann::json& known = choices_[shape_key(problem)];
  if (known == choices) return ok_status();
  known = choices;
  if (path_.empty()) return ok_status();
  std::error_code ignored;  // opening says what is wrong
  if (path_.has_parent_path()) std::filesystem::create_directories(path_.parent_path(), ignored);
  std::ofstream out(path_, std::ios::app);
  out << nlohmann::json({{"on", key_}, {"problem", shape_key(problem)}, {"choices", choices}}).dump() << std::endl;
  return out ? ok_status() : Status(environment_error(fmt::format("cannot write {}", path_.string())));
}

}  // namespace warpsmith::cli
