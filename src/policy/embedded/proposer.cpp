// Prompts and masked decoding.
#include "policy/embedded/proposer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace warpsmith::embedded {

Prompt make_prompt(const Vocabulary& vocabulary, const Problem& problem, const Machine& machine,
                   std::vector<Exemplar> exemplars) {
  std::erase_if(exemplars, [&](const Exemplar& e) { return vocabulary.family_index(e.recipe.family()) < 0; });
  std::stable_sort(exemplars.begin(), exemplars.end(),
                   [](const auto& a, const auto& b) { return a.speedup < b.speedup; });
  if (exemplars.size() > kMostExemplars) {
    exemplars.erase(exemplars.begin(), exemplars.end() - kMostExemplars);
  }
  Prompt prompt;
  const auto add = [&prompt](int token, int segment) {
    prompt.tokens.push_back(token);
    prompt.segments.push_back(segment);
  };
  add(vocabulary.begin(), kTaskSegment);
  const std::vector<int> features = Vocabulary::features(problem, machine);
  for (std::size_t slot = 0; slot < features.size(); ++slot) {
    add(vocabulary.feature(static_cast<int>(slot), features[slot]), kTaskSegment);
  }
  int segment = kTaskSegment;
  for (const Exemplar& exemplar : exemplars) {
    ++segment;
    add(exemplar.neighbour ? vocabulary.neighbour() : vocabulary.exemplar(), segment);
    for (const int token : vocabulary.encode(exemplar.recipe)) add(token, segment);
    add(vocabulary.speedup(speedup_bin(exemplar.speedup)), segment);
  }
  add(vocabulary.analysis(), kAnalysisSegment);
  prompt.exemplars = std::move(exemplars);
  return prompt;
}

std::vector<int> true_analysis(const Vocabulary& vocabulary, const Prompt& prompt) {
  std::vector<int> analysis;
  if (prompt.exemplars.size() < 2) return analysis;
  const Recipe &better = prompt.exemplars.back().recipe, &worse = prompt.exemplars.front().recipe;
  const int family = vocabulary.family_index(better.family());
  if (&better.family() != &worse.family()) return {vocabulary.family(family)};
  for (std::size_t i = 0; i < better.size(); ++i) {
    if (better.choice(i) != worse.choice(i)) analysis.push_back(vocabulary.field(family, i));
  }
  return analysis;
}

OutputWriter::OutputWriter(const Vocabulary& vocabulary, Grammar& grammar, const Prompt& prompt)
    : vocabulary_(vocabulary), grammar_(grammar), cursor_(grammar.start()) {
  if (prompt.exemplars.size() < 2) return;
  const Recipe& better = prompt.exemplars.back().recipe;
  better_family_ = vocabulary.family_index(better.family());
  better_fields_ = better.size();
  other_family_ = &better.family() != &prompt.exemplars.front().recipe.family();
}

std::vector<int> OutputWriter::allowed() {
  std::vector<int> tokens;
  if (!answering_) {
    tokens.push_back(vocabulary_.answer());
    if (better_family_ < 0) return tokens;
    if (other_family_ && output_.tokens.empty()) tokens.push_back(vocabulary_.family(better_family_));
    for (std::size_t i = next_field_; !other_family_ && i < better_fields_; ++i) {
      tokens.push_back(vocabulary_.field(better_family_, i));
    }
    return tokens;
  }
  for (const int choice : cursor_->allowed()) {
    tokens.push_back(family_ < 0 ? vocabulary_.family(
                                       vocabulary_.family_index(*grammar_.families()[static_cast<std::size_t>(choice)]))
                                 : vocabulary_.value(family_, at_, choice));
  }
  return tokens;
}

void OutputWriter::take(int token) {
  output_.tokens.push_back(token);
  output_.segments.push_back(answering_ || token == vocabulary_.answer() ? kAnswerSegment : kAnalysisSegment);
  const Token& meaning = vocabulary_.token(token);
  if (!answering_) {
    answering_ = token == vocabulary_.answer();
    if (!answering_) ++output_.analysis_tokens;
    if (meaning.kind == Token::Kind::field) next_field_ = static_cast<std::size_t>(meaning.field) + 1;
    return;
  }
  if (family_ < 0) {
    family_ = meaning.group;
    const auto& families = grammar_.families();
    const Family* family = vocabulary_.families()[static_cast<std::size_t>(family_)];
    cursor_->take(static_cast<int>(std::find(families.begin(), families.end(), family) - families.begin()));
    return;
  }
  cursor_->take(meaning.value);
  ++at_;
}

Proposer::Proposer(const Transformer& model, const Vocabulary& vocabulary, Grammar& grammar, Prompt prompt)
    : model_(model),
      vocabulary_(vocabulary),
      grammar_(grammar),
      prompt_(std::move(prompt)),
      cache_(model.empty_cache()) {
  last_ = model_.append(cache_, prompt_.tokens, prompt_.segments);
}

// choose: from the allowed tokens and their log-probabilities to the position of one, or a negative number to give up.
template <class Choose>
Proposal Proposer::write(double temperature, const Choose& choose) {
  OutputWriter writer(vocabulary_, grammar_, prompt_);
  Transformer::Cache cache = cache_;
  std::vector<float> last = last_;
  std::vector<std::vector<int>> all_allowed;
  std::vector<float> all_log_p;
  double total = 0;
  std::vector<int> waiting, segments;  // tokens that had no alternative: the model reads them together with the next
  while (!writer.done()) {
    std::vector<int> allowed = writer.allowed();
    std::vector<double> log_p(allowed.size());
    if (allowed.size() > 1) {
      if (!waiting.empty()) last = model_.append(cache, waiting, segments);
      waiting.clear();
      segments.clear();
      double largest = -std::numeric_limits<double>::infinity(), sum = 0;
      for (std::size_t i = 0; i < allowed.size(); ++i) {
        log_p[i] = static_cast<double>(model_.logit(last, allowed[i])) / temperature;
        largest = std::max(largest, log_p[i]);
      }
      for (const double value : log_p) sum += std::exp(value - largest);
      for (double& value : log_p) value -= largest + std::log(sum);
    }
    const int chosen = choose(allowed, log_p);
    if (chosen < 0) return {Recipe(*grammar_.families().front()), {}, -std::numeric_limits<double>::infinity()};
    const auto at = static_cast<std::size_t>(chosen);
    total += log_p[at];
    all_log_p.push_back(static_cast<float>(log_p[at]));
    writer.take(allowed[at]);
    waiting.push_back(allowed[at]);
    segments.push_back(writer.output().segments.back());
    all_allowed.push_back(std::move(allowed));
  }
  Proposal proposal{writer.recipe(), writer.take_output(), total};
  proposal.output.allowed = std::move(all_allowed);
  proposal.output.log_p = std::move(all_log_p);
  return proposal;
}

double Proposal::answer_log_p() const {
  if (output.log_p.empty()) return log_p;
  const auto first = output.log_p.begin() + static_cast<std::ptrdiff_t>(output.analysis_tokens) + 1;  // after the mark
  return std::accumulate(first, output.log_p.end(), 0.0);
}

Proposal Proposer::greedy() {
  return write(1, [](const std::vector<int>&, const std::vector<double>& log_p) {
    return static_cast<int>(std::max_element(log_p.begin(), log_p.end()) - log_p.begin());
  });
}

Proposal Proposer::sample(double temperature, Rng& rng) {
  return write(temperature, [&rng](const std::vector<int>&, const std::vector<double>& log_p) {
    if (log_p.size() == 1) return 0;
    double left = rng.unit();
    for (std::size_t i = 0; i + 1 < log_p.size(); ++i) {
      left -= std::exp(log_p[i]);
      if (left < 0) return static_cast<int>(i);
    }
    return static_cast<int>(log_p.size()) - 1;
  });
}

Proposal Proposer::follow(const std::vector<int>& analysis, const Recipe& recipe, double temperature) {
  std::vector<int> wanted = analysis;
  wanted.push_back(vocabulary_.answer());
  for (const int token : vocabulary_.encode(recipe)) wanted.push_back(token);
  std::size_t next = 0;
  return write(temperature, [&](const std::vector<int>& allowed, const std::vector<double>&) {
    const auto found = std::find(allowed.begin(), allowed.end(), wanted[next++]);
    return found == allowed.end() ? -1 : static_cast<int>(found - allowed.begin());
  });
}

std::optional<Output> teach(const Vocabulary& vocabulary, Grammar& grammar, const Prompt& prompt,
                            const std::vector<int>& analysis, const Recipe& recipe) {
  std::vector<int> wanted = analysis;
  wanted.push_back(vocabulary.answer());
  for (const int token : vocabulary.encode(recipe)) wanted.push_back(token);
  OutputWriter writer(vocabulary, grammar, prompt);
  std::vector<std::vector<int>> all_allowed;
  for (const int token : wanted) {
    if (writer.done()) return std::nullopt;
    std::vector<int> allowed = writer.allowed();
    if (std::find(allowed.begin(), allowed.end(), token) == allowed.end()) return std::nullopt;
    writer.take(token);
    all_allowed.push_back(std::move(allowed));
  }
  if (!writer.done()) return std::nullopt;
  Output output = writer.take_output();
  output.allowed = std::move(all_allowed);
  return output;
}

std::optional<Output> teach(const Vocabulary& vocabulary, const Prompt& prompt, const std::vector<int>& analysis,
                            const Recipe& recipe, const std::vector<std::vector<int>>& masks) {
  ListGrammar only({recipe});
  auto output = teach(vocabulary, only, prompt, analysis, recipe);
  if (!output || analysis.size() + 1 + masks.size() != output->tokens.size()) return std::nullopt;
  std::copy(masks.begin(), masks.end(), output->allowed.begin() + static_cast<std::ptrdiff_t>(analysis.size()) + 1);
  return output;
}

}  // namespace warpsmith::embedded
