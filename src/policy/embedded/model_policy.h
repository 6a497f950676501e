// The embedded policy: proposes what the model writes, shown the task and two measured recipes from distinct
// performance buckets, and shares the later proposals with evolution. Where recipes' expected times are known, it
// writes several and proposes the one for which both speak.
#pragma once

#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "policy/embedded/exemplars.h"
#include "policy/embedded/proposer.h"
#include "policy/policy.h"
#include "policy/sampler.h"

namespace warpsmith::embedded {

// A model ready to be asked, shared by the policies of many problems.
struct LoadedModel {
  Transformer transformer;
  const Vocabulary* vocabulary = nullptr;
  std::map<std::string, std::string> metadata;
  std::shared_ptr<ScopeBook> book = std::make_shared<ScopeBook>();
};
Result<std::shared_ptr<const LoadedModel>> load_shared_model(const std::filesystem::path& path);

// What happened to one output.
struct Lesson {
  Prompt prompt;
  Output output;
  std::optional<double> time_us;  // nothing: rejected
};

// Learns while a search runs. Implemented where training is; the policy only hands over what it was told.
class InRunLearner {
 public:
  virtual ~InRunLearner() = default;
  // New weights from a group of lessons on one problem. An error ends learning, not the search.
  virtual Result<std::vector<float>> learn(const std::vector<Lesson>& group, double reference_us) = 0;
};

enum class ExemplarChoice { none, random, buckets };

struct ModelPolicyOptions {
  double temperature = 1.0;
  std::size_t alone = 5;     // first proposals, all the model's; later ones alternate with evolution's
  double model_share = 0.5;  // of later proposals
  ExemplarChoice exemplars = ExemplarChoice::buckets;
  BucketOptions buckets;
  std::size_t learn_group = 16;  // lessons of one update, where there is a learner
  // Recipes of nearby problems that were measured in training, shown until two of this problem are known.
  std::vector<Exemplar> neighbours;
  std::vector<Recipe> space;  // a declared sub-space; empty: all legal recipes
  // Where the context tells what recipes are expected to take: weight of the logarithm of that beside the model's
  // log-probability, of which no more than log_p_floor below the highest counts. 0: the model's word alone.
  double estimate_weight = 30;
  double log_p_floor = 4;
};

class ModelPolicy : public Policy {
 public:
  ModelPolicy(PolicyContext context, std::shared_ptr<const LoadedModel> model, ModelPolicyOptions options = {});
  ~ModelPolicy() override;

  std::string_view name() const override { return "model"; }
  std::optional<Recipe> ask() override;
  void tell(const Recipe& recipe, const Outcome& outcome) override;
  std::int64_t updates() const { return updates_; }  // of the weights, in this run
  const std::string& learning_error() const { return learning_error_; }

 private:
  struct Measured {
    Recipe recipe;
    double speedup = 0;
  };
  // An output that is not proposed yet.
  struct Kept {
    Recipe recipe;
    double log_p = 0, expected_us = 0;
    std::optional<Lesson> lesson;  // of what the model wrote of itself, where somebody learns
  };
  std::vector<Exemplar> draw_exemplars();
  Prompt prompt();
  std::optional<Recipe> written();
  std::optional<Recipe> best_written();
  void keep(const Proposer& proposer, Proposal proposal, bool own);
  double score(const Kept& kept, double highest_log_p) const;
  void meet(const Recipe& recipe);
  void learn(const Recipe& recipe, const Outcome& outcome);

  PolicyContext context_;
  std::shared_ptr<const LoadedModel> model_;
  ModelPolicyOptions options_;
  Transformer transformer_;
  std::unique_ptr<Grammar> grammar_;
  ListGrammar* list_ = nullptr;  // grammar_ itself, of a declared space
  SearchSpace space_;
  std::unique_ptr<Policy> evolution_;
  Rng rng_;
  double reference_us_ = 0;
  std::size_t asked_ = 0;
  std::vector<Recipe> favourites_;  // of the expected times, the fastest first
  double least_expected_us_ = 0;    // of those
  std::size_t considered_ = 0;      // of those
  std::vector<Kept> kept_;
  std::vector<Measured> measured_;
  std::vector<std::pair<Recipe, Lesson>> pending_;
  std::vector<Lesson> lessons_;
  std::int64_t updates_ = 0;
  std::string learning_error_;
};

// The time that speed-ups in prompts refer to: the context's, or else the physical floor, or else 1 us.
double reference_time_us(const Problem& problem, const Machine& machine, double known_us);

}  // namespace warpsmith::embedded
