// Problems, pools, prompts and targets.
#include "train/course.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/hash.h"

namespace warpsmith::train {

namespace {

constexpr std::size_t kPoolFromKnown = 48;  // of what was known: a spread over the ranking
constexpr std::size_t kPoolMost = 128;
constexpr std::size_t kNear = 6;
constexpr std::size_t kRuleGrammarsKept = 4096;  // each takes some 200 KB, and some milliseconds to make
constexpr double kHashRange = 1e6;

double distance(const Problem& a, const Problem& b) {
  const auto octaves = [](std::int64_t x, std::int64_t y) {
    const double d = std::log2(static_cast<double>(x) / static_cast<double>(y));
    return d * d;
  };
  double squared = octaves(a.m, b.m) + octaves(a.n, b.n) + octaves(a.k, b.k);
  if (a.layout != b.layout) squared += 0.5;
  if (a.element != b.element || a.scaling != b.scaling) squared += 0.5;
  if (a.accumulator != b.accumulator) squared += 100;
  return squared;
}

}  // namespace

std::vector<Problem> held_out_problems(const Environment& environment, double share) {
  std::vector<Problem> declared = environment.held_out();
  if (!declared.empty()) return declared;
  std::vector<Problem> chosen;
  for (const Problem& problem : environment.problems()) {
    const std::uint64_t hash = hash64(fmt::format("held out {} {} {}", problem.m, problem.n, problem.k));
    if (static_cast<double>(hash % static_cast<std::uint64_t>(kHashRange)) < share * kHashRange)
      chosen.push_back(problem);
  }
  return chosen;
}

std::string held_out_digest(const Environment& environment, double share) {
  std::set<std::string> texts;
  for (const Problem& problem : held_out_problems(environment, share)) texts.insert(to_string(problem));
  return sha256_hex(fmt::format("{}", fmt::join(texts, "\n"))).substr(0, 12);
}

std::vector<std::size_t> nearest(const Problem& problem, const std::vector<Problem>& among, std::size_t count) {
  std::vector<std::pair<double, std::size_t>> ranked;
  for (std::size_t i = 0; i < among.size(); ++i) {
    if (!(among[i] == problem)) ranked.emplace_back(distance(problem, among[i]), i);
  }
  const std::size_t kept = std::min(count, ranked.size());
  std::partial_sort(ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(kept), ranked.end());
  std::vector<std::size_t> list;
  for (std::size_t i = 0; i < kept; ++i) list.push_back(ranked[i].second);
  return list;
}

Course::Course(Environment& environment, const TrainConfig& config) : environment_(environment), config_(config) {
  const std::vector<Problem> excluded = held_out_problems(environment, config.held_out_share);
  for (const Problem& problem : environment.problems()) {
    const auto same_shape = [&](const Problem& other) {
      return other.m == problem.m && other.n == problem.n && other.k == problem.k;
    };
    if (std::any_of(excluded.begin(), excluded.end(), same_shape)) continue;
    Lesson lesson;
    lesson.problem = problem;
    lesson.known = environment.known(problem);
    const auto reference_us = environment.reference_us(problem);
    if (!reference_us) {
      status_ = reference_us.error();
      return;
    }
    lesson.reference_us = *reference_us;
    // Every so many of the ranking, so that the pool holds fast and slow ones.
    const std::size_t count = std::min(kPoolFromKnown, lesson.known.size());
    for (std::size_t i = 0; i < count; ++i) {
      const KnownRecipe& known = lesson.known[i * lesson.known.size() / count];
      lesson.pool.push_back({known.recipe, lesson.reference_us / known.time_us, false});
    }
    problems_.push_back(problem);
    lessons_.push_back(std::move(lesson));
  }
  for (const Problem& problem : problems_) near_.push_back(nearest(problem, problems_, kNear));
}

double Course::best_known_us(std::size_t index) const {
  const Lesson& lesson = lessons_[index];
  double best_us = lesson.known.empty() ? 0 : lesson.known.front().time_us;
  for (const auto& [recipe, time_us] : lesson.added) {
    if (best_us == 0 || time_us < best_us) best_us = time_us;
  }
  return best_us;
}

void Course::add_to_pool(std::size_t index, const Recipe& recipe, double time_us) {
  Lesson& lesson = lessons_[index];
  const auto known = [&](const auto& entry) { return entry.recipe == recipe; };
  if (std::find_if(lesson.pool.begin(), lesson.pool.end(), known) != lesson.pool.end()) return;
  lesson.pool.push_back({recipe, lesson.reference_us / time_us, false});
  lesson.added.emplace_back(recipe, time_us);
  if (lesson.pool.size() <= kPoolMost) return;
  // The oldest goes, unless it is the fastest.
  const auto fastest = std::max_element(lesson.pool.begin(), lesson.pool.end(),
                                        [](const auto& a, const auto& b) { return a.speedup < b.speedup; });
  lesson.pool.erase(fastest == lesson.pool.begin() ? lesson.pool.begin() + 1 : lesson.pool.begin());
}

nlohmann::json Course::pools() const {
  nlohmann::json json = nlohmann::json::object();
  for (const Lesson& lesson : lessons_) {
    if (lesson.added.empty()) continue;
    auto& list = json[to_string(lesson.problem)];
    for (const auto& [recipe, time_us] : lesson.added) list.push_back({to_short_string(recipe), time_us});
  }
  return json;
}

Status Course::restore_pools(const nlohmann::json& json) {
  for (std::size_t i = 0; i < lessons_.size(); ++i) {
    const auto found = json.find(to_string(lessons_[i].problem));
    if (found == json.end()) continue;
    for (const auto& entry : *found) {
      const auto recipe = parse_recipe(entry.at(0).get<std::string>());
      if (!recipe) return recipe.error();
      add_to_pool(i, *recipe, entry.at(1).get<double>());
    }
  }
  return ok_status();
}

std::vector<embedded::Exemplar> Course::own_exemplars(std::size_t index, embedded::ExemplarChoice choice,
                                                      Rng& rng) const {
  const auto& pool = lessons_[index].pool;
  if (choice == embedded::ExemplarChoice::none) return {};
  std::vector<double> speedups;
  for (const auto& entry : pool) speedups.push_back(entry.speedup);
  const auto drawn = choice == embedded::ExemplarChoice::buckets
                         ? embedded::draw_by_buckets(speedups, 2, config_.buckets(), rng)
                         : embedded::draw_at_random(speedups, 2, rng);
  std::vector<embedded::Exemplar> exemplars;
  for (const std::size_t i : drawn) exemplars.push_back(pool[i]);
  if (exemplars.size() < 2) exemplars.clear();
  return exemplars;
}

std::vector<embedded::Exemplar> Course::neighbour_exemplars(std::size_t index, Rng& rng) const {
  std::vector<std::size_t> near = near_[index];
  rng.shuffle(near);
  std::vector<embedded::Exemplar> exemplars;
  for (const std::size_t i : near) {
    const Lesson& lesson = lessons_[i];
    if (lesson.known.empty() || exemplars.size() == 2) continue;
    exemplars.push_back({lesson.known.front().recipe, lesson.reference_us / lesson.known.front().time_us, true});
  }
  if (exemplars.size() < 2) exemplars.clear();
  return exemplars;
}

std::vector<embedded::Exemplar> Course::neighbours_of(const Problem& problem) const {
  std::vector<embedded::Exemplar> exemplars;
  for (const std::size_t i : nearest(problem, problems_, 2)) {
    const Lesson& lesson = lessons_[i];
    if (lesson.known.empty()) continue;
    exemplars.push_back({lesson.known.front().recipe, lesson.reference_us / lesson.known.front().time_us, true});
  }
  if (exemplars.size() < 2) exemplars.clear();
  return exemplars;
}

embedded::RuleGrammar& Course::legal_grammar(Lesson& lesson) {
  if (!lesson.legal) {
    ++rule_grammars_;
    lesson.legal = std::make_unique<embedded::RuleGrammar>(lesson.problem, environment_.machine(),
                                                           families_for(environment_.target()), book_);
  }
  return static_cast<embedded::RuleGrammar&>(*lesson.legal);
}

void Course::trim() {
  if (rule_grammars_ <= kRuleGrammarsKept) return;
  for (Lesson& lesson : lessons_) lesson.legal.reset();
  rule_grammars_ = 0;
}

embedded::Grammar& Course::grammar(std::size_t index) {
  Lesson& lesson = lessons_[index];
  if (!lesson.measurable) {
    const auto space = environment_.space(lesson.problem);
    if (space.empty()) return legal_grammar(lesson);
    lesson.measurable = std::make_unique<embedded::ListGrammar>(space);
  }
  return *lesson.measurable;
}

embedded::Prompt Course::prompt(std::size_t index, std::vector<embedded::Exemplar> exemplars) const {
  return embedded::make_prompt(vocabulary_, lessons_[index].problem, environment_.machine(), std::move(exemplars));
}

// A winner by P ~ exp((t_best / t - 1) / temperature), or any legal recipe.
Recipe Course::target(Lesson& lesson, Rng& rng) {
  const auto& known = lesson.known;
  if (known.empty() || rng.chance(config_.supervised.legal_share)) {
    const auto starts = known.empty() ? legal_grammar(lesson).families().front()->starting_points(
                                            lesson.problem, environment_.machine())
                                      : std::vector<Recipe>();
    if (!starts.empty() && rng.chance(0.5)) return starts[rng.index(starts.size())];
    const auto cursor = legal_grammar(lesson).start();
    while (!cursor->done()) {
      const auto& allowed = cursor->allowed();
      cursor->take(allowed[rng.index(allowed.size())]);
    }
    return cursor->recipe();
  }
  std::vector<double> weights;
  double sum = 0;
  for (const KnownRecipe& each : known) {
    weights.push_back(std::exp((known.front().time_us / each.time_us - 1) / config_.supervised.winner_temperature));
    sum += weights.back();
  }
  double at = rng.unit() * sum;
  std::size_t chosen = 0;
  while (chosen + 1 < weights.size() && (at -= weights[chosen]) >= 0) ++chosen;
  return known[chosen].recipe;
}

// What was allowed at each token of a recipe; null where the grammar does not let it through (it was recorded before a
// rule changed).
const std::vector<std::vector<int>>* Course::masks_of(Lesson& lesson, const Recipe& recipe) {
  const auto [entry, fresh] = lesson.masks.try_emplace(to_short_string(recipe));
  if (fresh) {
    const auto bare = embedded::make_prompt(vocabulary_, lesson.problem, environment_.machine(), {});
    auto taught = embedded::teach(vocabulary_, legal_grammar(lesson), bare, {}, recipe);
    if (taught) entry->second.assign(taught->allowed.begin() + 1, taught->allowed.end());
  }
  return entry->second.empty() ? nullptr : &entry->second;
}

std::optional<Example> Course::supervised_example(Rng& rng) {
  const std::size_t index = rng.index(lessons_.size());
  Lesson& lesson = lessons_[index];
  const double kind = rng.unit();
  std::vector<embedded::Exemplar> exemplars;
  if (kind < config_.exemplars.own_share) {
    exemplars = own_exemplars(index, config_.exemplar_choice(), rng);
  } else if (kind < config_.exemplars.own_share + config_.exemplars.neighbour_share &&
             config_.exemplar_choice() != embedded::ExemplarChoice::none) {
    exemplars = neighbour_exemplars(index, rng);
  }
  if (legal_grammar(lesson).empty()) return std::nullopt;
  const Recipe recipe = target(lesson, rng);
  const auto* masks = masks_of(lesson, recipe);
  if (masks == nullptr) return std::nullopt;
  Example example{prompt(index, std::move(exemplars)), {}, 1, 0};
  const std::vector<int> analysis = embedded::true_analysis(vocabulary_, example.prompt);
  auto output = embedded::teach(vocabulary_, example.prompt, analysis, recipe, *masks);
  if (!output) return std::nullopt;
  example.output = std::move(*output);
  return example;
}

}  // namespace warpsmith::train
