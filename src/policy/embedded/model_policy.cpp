// The embedded policy's state machine.
#include "policy/embedded/model_policy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "policy/evolution.h"

namespace warpsmith::embedded {

namespace {

constexpr int kTries = 6;         // outputs written for one proposal before evolution steps in
constexpr double kWarmer = 1.25;  // factor on the temperature after an output that was met before
constexpr std::size_t kMeasuredKept = 256;
// With expected times: outputs written, and favourites of theirs considered, for the first proposal and for each later
// one, which takes about twice as long as a single output.
constexpr int kFirstOutputs = 16, kMoreOutputs = 1;
constexpr std::size_t kFirstFavourites = 16, kMoreFavourites = 1;
constexpr std::ptrdiff_t kKept = 128;

std::vector<const Family*> known_families(const PolicyContext& context, const Vocabulary& vocabulary) {
  std::vector<const Family*> known;
  for (const Family* family : context.families) {
    if (vocabulary.family_index(*family) >= 0) known.push_back(family);
  }
  return known;
}

}  // namespace

Result<std::shared_ptr<const LoadedModel>> load_shared_model(const std::filesystem::path& path) {
  auto model = load_model(path, Vocabulary::standard());
  if (!model) return model.error();
  return std::shared_ptr<const LoadedModel>(std::make_shared<LoadedModel>(LoadedModel{
      Transformer(model->shape, std::move(model->weights)), &Vocabulary::standard(), std::move(model->metadata)}));
}

double reference_time_us(const Problem& problem, const Machine& machine, double known_us) {
  if (known_us > 0) return known_us;
  const double floor_us = physical_floor_us(problem, machine, true);
  return floor_us > 0 ? floor_us : 1;
}

ModelPolicy::ModelPolicy(PolicyContext context, std::shared_ptr<const LoadedModel> model, ModelPolicyOptions options)
    : context_(std::move(context)),
      model_(std::move(model)),
      options_(std::move(options)),
      transformer_(model_->transformer),
      space_(context_.problem, context_.machine, context_.families),
      rng_(mix64(context_.seed) ^ 0x6d6f64656c),
      reference_us_(reference_time_us(context_.problem, context_.machine, context_.reference_us)) {
  if (options_.space.empty()) {
    grammar_ = std::make_unique<RuleGrammar>(context_.problem, context_.machine,
                                             known_families(context_, *model_->vocabulary), model_->book);
  } else {
    auto list = std::make_unique<ListGrammar>(options_.space);
    list_ = list.get();
    grammar_ = std::move(list);
  }
  if (options_.model_share < 1) evolution_ = std::make_unique<EvolutionPolicy>(context_);
  if (!context_.expected_us || options_.estimate_weight == 0) return;
  std::vector<std::pair<double, const Recipe*>> ranked;
  for (const Recipe& recipe : options_.space.empty() ? context_.starting_points : options_.space) {
    if (const double time_us = context_.expected_us(recipe); time_us > 0) ranked.emplace_back(time_us, &recipe);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [time_us, recipe] : ranked) favourites_.push_back(*recipe);
  if (!ranked.empty()) least_expected_us_ = ranked.front().first;
}

ModelPolicy::~ModelPolicy() = default;

std::vector<Exemplar> ModelPolicy::draw_exemplars() {
  if (options_.exemplars == ExemplarChoice::none) return {};
  std::vector<double> speedups;
  for (const Measured& each : measured_) speedups.push_back(each.speedup);
  const auto drawn = options_.exemplars == ExemplarChoice::buckets
                         ? draw_by_buckets(speedups, 2, options_.buckets, rng_)
                         : draw_at_random(speedups, 2, rng_);
  if (drawn.size() < 2) return options_.neighbours;
  std::vector<Exemplar> exemplars;
  for (const std::size_t i : drawn) exemplars.push_back({measured_[i].recipe, measured_[i].speedup, false});
  return exemplars;
}

Prompt ModelPolicy::prompt() {
  return make_prompt(*model_->vocabulary, context_.problem, context_.machine, draw_exemplars());
}

std::optional<Recipe> ModelPolicy::written() {
  if (grammar_->empty()) return std::nullopt;
  if (!favourites_.empty()) {
    if (auto best = best_written()) return best;
  }
  Proposer proposer(transformer_, *model_->vocabulary, *grammar_, prompt());
  double temperature = options_.temperature;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    Proposal proposal = asked_ == 1 && attempt == 0 ? proposer.greedy() : proposer.sample(temperature, rng_);
    if (!space_.met(proposal.recipe)) {
      if (context_.learner) pending_.push_back({proposal.recipe, {proposer.prompt(), std::move(proposal.output), {}}});
      return proposal.recipe;
    }
    temperature *= kWarmer;
  }
  return std::nullopt;
}

std::optional<Recipe> ModelPolicy::best_written() {
  Proposer proposer(transformer_, *model_->vocabulary, *grammar_, prompt());
  const bool first = considered_ == 0;
  if (first) keep(proposer, proposer.greedy(), true);
  for (int i = 0; i < (first ? kFirstOutputs : kMoreOutputs); ++i) keep(proposer, proposer.sample(1, rng_), true);
  const std::vector<int> analysis = true_analysis(*model_->vocabulary, proposer.prompt());
  const std::size_t until = considered_ + (first ? kFirstFavourites : kMoreFavourites);
  for (; considered_ < std::min(until, favourites_.size()); ++considered_) {
    const Recipe& recipe = favourites_[considered_];
    if (!space_.met(recipe)) keep(proposer, proposer.follow(analysis, recipe), false);
  }
  if (kept_.empty()) return std::nullopt;
  double highest = -std::numeric_limits<double>::infinity();
  for (const Kept& one : kept_) highest = std::max(highest, one.log_p);
  std::stable_sort(kept_.begin(), kept_.end(),
                   [&](const Kept& a, const Kept& b) { return score(a, highest) > score(b, highest); });
  if (std::ssize(kept_) > kKept) kept_.erase(kept_.begin() + kKept, kept_.end());
  Kept best = std::move(kept_.front());
  kept_.erase(kept_.begin());
  if (best.lesson) pending_.push_back({best.recipe, std::move(*best.lesson)});
  return best.recipe;
}

void ModelPolicy::keep(const Proposer& proposer, Proposal proposal, bool own) {
  const double log_p = proposal.answer_log_p();
  if (!std::isfinite(log_p) || space_.met(proposal.recipe)) return;
  const auto known =
      std::find_if(kept_.begin(), kept_.end(), [&](const Kept& one) { return one.recipe == proposal.recipe; });
  if (known != kept_.end()) {
    known->log_p = log_p;  // what was measured since may have changed the model's mind
    return;
  }
  Kept kept{proposal.recipe, log_p, context_.expected_us(proposal.recipe), {}};
  if (own && context_.learner) kept.lesson = Lesson{proposer.prompt(), std::move(proposal.output), {}};
  kept_.push_back(std::move(kept));
}

// A recipe of which nothing is expected is taken to be as fast as the best of the others: the model alone speaks.
double ModelPolicy::score(const Kept& kept, double highest_log_p) const {
  const double expected = kept.expected_us > 0 ? std::log(kept.expected_us / least_expected_us_) : 0;
  return std::max(kept.log_p - highest_log_p, -options_.log_p_floor) - options_.estimate_weight * expected;
}

std::optional<Recipe> ModelPolicy::ask() {
  ++asked_;
  std::optional<Recipe> recipe;
  const bool own_turn = asked_ <= options_.alone || !evolution_ || rng_.chance(options_.model_share);
  if (own_turn) recipe = written();
  for (int attempt = 0; !recipe && evolution_ && attempt < kTries; ++attempt) {
    recipe = evolution_->ask();
    if (!recipe) break;
    if (space_.met(*recipe)) recipe.reset();
  }
  if (!recipe && !own_turn) recipe = written();
  if (!recipe && list_ == nullptr) {
    Sampler sampler(space_, rng_.bits());
    recipe = sampler.draw(rng_);
  }
  if (recipe) meet(*recipe);
  return recipe;
}

// What was tried is not tried again. A declared space is drawn from without replacement, so that the model goes on
// choosing among what is left of it.
void ModelPolicy::meet(const Recipe& recipe) {
  space_.mark(recipe);
  std::erase_if(kept_, [&](const Kept& one) { return one.recipe == recipe; });
  if (list_ != nullptr) list_->remove(recipe);
}

void ModelPolicy::tell(const Recipe& recipe, const Outcome& outcome) {
  meet(recipe);
  if (evolution_) evolution_->tell(recipe, outcome);
  // Of a recipe that was measured before, the latest outcome counts.
  if (outcome.kind != "failed") std::erase_if(measured_, [&](const Measured& one) { return one.recipe == recipe; });
  if (outcome.time_us) {
    measured_.push_back({recipe, reference_us_ / *outcome.time_us});
    if (measured_.size() > kMeasuredKept) measured_.erase(measured_.begin());
  }
  if (context_.learner) learn(recipe, outcome);
}

void ModelPolicy::learn(const Recipe& recipe, const Outcome& outcome) {
  const auto found =
      std::find_if(pending_.begin(), pending_.end(), [&](const auto& entry) { return entry.first == recipe; });
  if (found == pending_.end()) return;
  lessons_.push_back(std::move(found->second));
  lessons_.back().time_us = outcome.time_us;
  pending_.erase(found);
  if (lessons_.size() < options_.learn_group) return;
  auto weights = context_.learner->learn(lessons_, reference_us_);
  lessons_.clear();
  if (!weights) {
    learning_error_ = weights.error().message;
    context_.learner.reset();
    return;
  }
  transformer_ = Transformer(transformer_.shape(), std::move(*weights));
  ++updates_;
}

}  // namespace warpsmith::embedded
