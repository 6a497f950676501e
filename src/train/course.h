// The course: which problems are trained on, what is known of each, and the prompts and targets made from that.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "policy/embedded/proposer.h"
#include "train/config.h"
#include "train/environment.h"
#include "train/learner.h"

namespace warpsmith::train {

// A held-out problem is never trained on and never shown. Declared by the environment, or else a share of the shapes,
// chosen by a hash of m, n and k. The shape is held out in all layouts.
std::vector<Problem> held_out_problems(const Environment& environment, double share);
// What tells these problems apart from others: 12 hexadecimal digits. In a model's metadata as "held_out".
std::string held_out_digest(const Environment& environment, double share);

// Training problems nearest to `problem`, itself left out: distance in log2 of m, n and k; another layout, element or
// scaling is further.
std::vector<std::size_t> nearest(const Problem& problem, const std::vector<Problem>& among, std::size_t count);

class Course {
 public:
  Course(Environment& environment, const TrainConfig& config);
  // Error: as of Environment::reference_us; then the course is of no use.
  const Status& status() const { return status_; }

  std::size_t size() const { return lessons_.size(); }
  const Problem& problem(std::size_t index) const { return lessons_[index].problem; }
  const std::vector<KnownRecipe>& known(std::size_t index) const { return lessons_[index].known; }
  double reference_us(std::size_t index) const { return lessons_[index].reference_us; }
  // Of the known ones and of those measured since; 0: none.
  double best_known_us(std::size_t index) const;

  // Recipes that prompts may show, with speed-ups: a spread of what was known, and what was measured since.
  const std::vector<embedded::Exemplar>& pool(std::size_t index) const { return lessons_[index].pool; }
  void add_to_pool(std::size_t index, const Recipe& recipe, double time_us);
  nlohmann::json pools() const;  // what add_to_pool() added, for checkpoints
  Status restore_pools(const nlohmann::json& json);

  // Two of the problem's pool; none where it has too few.
  std::vector<embedded::Exemplar> own_exemplars(std::size_t index, embedded::ExemplarChoice choice, Rng& rng) const;
  // The fastest recipes of two of the nearest problems.
  std::vector<embedded::Exemplar> neighbour_exemplars(std::size_t index, Rng& rng) const;
  // The same for a problem outside the course: of its two nearest.
  std::vector<embedded::Exemplar> neighbours_of(const Problem& problem) const;

  // One supervised example: a winner (or any legal recipe), with own, neighbouring or no exemplars by their shares.
  std::optional<Example> supervised_example(Rng& rng);
  // The grammar that outputs for the problem follow: its recorded space, or all legal recipes.
  embedded::Grammar& grammar(std::size_t index);
  void trim();  // between steps: forgets grammars that take too much room
  embedded::Prompt prompt(std::size_t index, std::vector<embedded::Exemplar> exemplars) const;

 private:
  struct Lesson {
    Problem problem;
    std::vector<KnownRecipe> known;
    double reference_us = 0;
    std::vector<embedded::Exemplar> pool;
    std::vector<std::pair<Recipe, double>> added;
    std::unique_ptr<embedded::Grammar> measurable, legal;
    std::map<std::string, std::vector<std::vector<int>>> masks;  // of taught recipes, by text
  };
  embedded::RuleGrammar& legal_grammar(Lesson& lesson);
  Recipe target(Lesson& lesson, Rng& rng);
  const std::vector<std::vector<int>>* masks_of(Lesson& lesson, const Recipe& recipe);

  Environment& environment_;
  const TrainConfig& config_;
  Status status_ = ok_status();
  const embedded::Vocabulary& vocabulary_ = embedded::Vocabulary::standard();
  std::shared_ptr<embedded::ScopeBook> book_ = std::make_shared<embedded::ScopeBook>();
  std::vector<Lesson> lessons_;
  std::vector<Problem> problems_;
  std::vector<std::vector<std::size_t>> near_;
  std::size_t rule_grammars_ = 0;
};

}  // namespace warpsmith::train
