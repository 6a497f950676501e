// From a task and exemplars to a recipe: the prompt, masked decoding, and what a training step needs of each token.
#pragma once

#include <vector>

#include "policy/embedded/grammar.h"
#include "policy/embedded/transformer.h"
#include "policy/embedded/vocabulary.h"
#include "policy/rng.h"

namespace warpsmith::embedded {

// A recipe that was measured, with its speed-up over the reference time of its own problem.
struct Exemplar {
  Recipe recipe;
  double speedup = 0;
  bool neighbour = false;  // measured for another problem
};

// Tokens with their segments. The task's features, the exemplars (worst first), and the mark that starts the analysis.
struct Prompt {
  std::vector<int> tokens, segments;
  std::vector<Exemplar> exemplars;
};
// At most kMostExemplars exemplars, of families of the vocabulary; sorted here.
Prompt make_prompt(const Vocabulary& vocabulary, const Problem& problem, const Machine& machine,
                   std::vector<Exemplar> exemplars);

// What the model says: the analysis (in which knobs the better exemplar differs from the worse), the mark, the recipe.
// allowed[i]: the tokens that output[i] was chosen from; log_p[i]: its log-probability among them.
struct Output {
  std::vector<int> tokens, segments;
  std::vector<std::vector<int>> allowed;
  std::vector<float> log_p;
  std::size_t analysis_tokens = 0;  // without the mark
};

// The state of an output being written: what may come next. Analysis first: nothing without two exemplars; otherwise
// the better exemplar's family word if the two differ in it, or else some of its knobs in text order; then the mark.
class OutputWriter {
 public:
  OutputWriter(const Vocabulary& vocabulary, Grammar& grammar, const Prompt& prompt);
  bool done() const { return cursor_->done(); }
  std::vector<int> allowed();
  void take(int token);
  const Recipe& recipe() const { return cursor_->recipe(); }
  const Output& output() const { return output_; }
  Output take_output() { return std::move(output_); }

 private:
  const Vocabulary& vocabulary_;
  Grammar& grammar_;
  std::unique_ptr<Cursor> cursor_;
  Output output_;
  int better_family_ = -1;  // -1: no analysis
  bool other_family_ = false;
  std::size_t next_field_ = 0, better_fields_ = 0;
  bool answering_ = false;
  int family_ = -1;  // of the answer
  std::size_t at_ = 0;
};

// The analysis that is true: the family word, or the knobs in which the better exemplar differs from the worse.
std::vector<int> true_analysis(const Vocabulary& vocabulary, const Prompt& prompt);

struct Proposal {
  Recipe recipe;
  Output output;
  double log_p = 0;             // of the whole output
  double answer_log_p() const;  // of its recipe, whatever was said before; minus infinity as log_p is
};

// Writes outputs for one prompt, whose keys and values are computed once.
class Proposer {
 public:
  // The grammar must not be empty; all must outlive the proposer.
  Proposer(const Transformer& model, const Vocabulary& vocabulary, Grammar& grammar, Prompt prompt);

  Proposal greedy();
  // From the distribution whose logits are divided by the temperature; log_p is that distribution's.
  Proposal sample(double temperature, Rng& rng);
  // A given analysis and recipe; log_p is minus infinity, and the recipe any, when the mask does not let them through.
  Proposal follow(const std::vector<int>& analysis, const Recipe& recipe, double temperature = 1);
  double log_probability(const std::vector<int>& analysis, const Recipe& recipe, double temperature = 1) {
    return follow(analysis, recipe, temperature).log_p;
  }
  const Prompt& prompt() const { return prompt_; }

 private:
  template <class Choose>
  Proposal write(double temperature, const Choose& choose);

  const Transformer& model_;
  const Vocabulary& vocabulary_;
  Grammar& grammar_;
  Prompt prompt_;
  Transformer::Cache cache_;
  std::vector<float> last_;
};

// The output that a teacher wants, with what was allowed at each token. Nothing when the mask does not let it through.
std::optional<Output> teach(const Vocabulary& vocabulary, Grammar& grammar, const Prompt& prompt,
                            const std::vector<int>& analysis, const Recipe& recipe);
// The same where the masks of the recipe's tokens are known already.
std::optional<Output> teach(const Vocabulary& vocabulary, const Prompt& prompt, const std::vector<int>& analysis,
                            const Recipe& recipe, const std::vector<std::vector<int>>& masks);

}  // namespace warpsmith::embedded
