// The recorded environment.
#include <algorithm>
#include <map>

#include "policy/embedded/model_policy.h"
#include "train/environment.h"

namespace warpsmith::train {

namespace {

Measured to_measured(const Verdict& verdict) {
  Measured measured{std::string(verdict.kind()), right_time_us(verdict), 0};
  for (const GateResult& gate : verdict.gates) measured.difference = std::max(measured.difference, gate.worst_error);
  return measured;
}

class ReplayEnvironment : public Environment {
 public:
  ReplayEnvironment(ReplayTable table, std::string name) : table_(std::move(table)), name_(std::move(name)) {
    for (const Problem& problem : table_.problems()) {
      Entries entries;
      entries.recipes = table_.recipes(problem);
      for (const Recipe& recipe : entries.recipes) {
        const Measured measured = to_measured(table_.lookup(problem, recipe));
        if (measured.time_us) entries.known.push_back({recipe, *measured.time_us});
      }
      std::stable_sort(entries.known.begin(), entries.known.end(),
                       [](const auto& a, const auto& b) { return a.time_us < b.time_us; });
      if (entries.known.empty()) continue;  // nothing to learn from, nothing to compare with
      problems_.push_back(problem);
      all_have_references_ = all_have_references_ && table_.reference_us(problem) > 0;
      entries_.emplace(to_string(problem), std::move(entries));
    }
  }

  std::string name() const override { return name_; }
  const Machine& machine() const override { return table_.machine(); }
  Target target() const override { return table_.target(); }
  std::vector<Problem> problems() const override { return problems_; }
  std::vector<Problem> held_out() const override { return table_.held_out(); }

  std::vector<KnownRecipe> known(const Problem& problem) const override {
    const auto found = entries_.find(to_string(problem));
    return found == entries_.end() ? std::vector<KnownRecipe>() : found->second.known;
  }

  std::vector<Recipe> space(const Problem& problem) const override {
    const auto found = entries_.find(to_string(problem));
    return found == entries_.end() ? std::vector<Recipe>() : found->second.recipes;
  }

  std::size_t declared(const Problem& problem) const override { return table_.declared(problem); }

  Result<double> reference_us(const Problem& problem) override {
    const double known_us = all_have_references_ ? table_.reference_us(problem) : 0;
    return embedded::reference_time_us(problem, table_.machine(), known_us);
  }
  std::string reference_kind() const override { return all_have_references_ ? "baseline" : "floor"; }

  Result<std::vector<Measured>> measure(const Problem& problem, const std::vector<Recipe>& recipes, double) override {
    std::vector<Measured> results;
    for (const Recipe& recipe : recipes) results.push_back(to_measured(table_.lookup(problem, recipe)));
    return results;
  }

 private:
  struct Entries {
    std::vector<Recipe> recipes;
    std::vector<KnownRecipe> known;
  };
  ReplayTable table_;
  std::string name_;
  std::vector<Problem> problems_;
  bool all_have_references_ = true;  // one kind of reference for all problems: speed-ups must mean the same
  std::map<std::string, Entries> entries_;
};

}  // namespace

std::unique_ptr<Environment> make_replay_environment(ReplayTable table, std::string name) {
  return std::make_unique<ReplayEnvironment>(std::move(table), std::move(name));
}

}  // namespace warpsmith::train
