// Scopes of rules, the search for legal completions, and grammars over declared sets.
#include "policy/embedded/grammar.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <stdexcept>

#include "policy/rng.h"

namespace warpsmith::embedded {

namespace {

constexpr int kProbeSteps = 24;                  // bases of a walk from a problem's starting points
constexpr std::int64_t kSearchWork = 100'000;    // rule queries of one search
constexpr std::size_t kMostAnswers = 1'000'000;  // of one rule, remembered before they are forgotten
constexpr std::size_t kMostFound = 200'000;      // prefixes remembered before they are forgotten

std::vector<int> radices_of(const Family& family) {
  std::vector<int> radices;
  for (const KnobField* field : family.fields()) radices.push_back(static_cast<int>(field->values.size()));
  return radices;
}

// Sizes at which rules about problems start and stop to hold.
const std::vector<Problem>& probe_problems() {
  static const std::vector<Problem> kProblems = {
      {.m = 64, .n = 64, .k = 64},
      {.m = 8, .n = 4096, .k = 1024, .layout = Layout::tn},
      {.m = 4096, .n = 4096, .k = 4096},
      {.m = 1000, .n = 1000, .k = 504, .layout = Layout::tn},
      {.m = 256, .n = 384, .k = 8192, .layout = Layout::tt},
      {.m = 16384, .n = 24, .k = 256},
      {.m = 33, .n = 35, .k = 37, .layout = Layout::nt},
  };
  return kProblems;
}

class Prober {
 public:
  Prober(const Family& family, const Machine& machine)
      : family_(family), machine_(machine), radices_(radices_of(family)), scopes_(family.rules.size()), rng_(1) {}

  std::vector<std::vector<std::size_t>> probe() {
    for (const Problem& problem : probe_problems()) {
      std::vector<Recipe> bases =
          family_.starting_points ? family_.starting_points(problem, machine_) : std::vector<Recipe>();
      if (bases.empty()) bases.push_back(Recipe(family_));
      Recipe at = bases.front();
      for (int step = 0; step < kProbeSteps; ++step) {
        look_around(at, problem);
        at = next(bases[rng_.index(bases.size())], at, problem);
      }
    }
    std::vector<std::vector<std::size_t>> scopes;
    for (const auto& fields : scopes_) scopes.emplace_back(fields.begin(), fields.end());
    return scopes;
  }

 private:
  bool passes(std::size_t rule, const Recipe& recipe, const Problem& problem) const {
    return !family_.rules[rule].check(recipe, &problem, machine_).has_value();
  }

  void look_around(const Recipe& base, const Problem& problem) {
    for (std::size_t rule = 0; rule < scopes_.size(); ++rule) {
      probe_rule(rule, base, problem);
      if (scopes_[rule].empty()) continue;
      // Along one field of the scope, on both sides of where the answer changes: there further fields have their say.
      const std::vector<std::size_t> known(scopes_[rule].begin(), scopes_[rule].end());
      const std::size_t field = known[rng_.index(known.size())];
      Recipe last = base, next = base;
      last.set_choice(field, 0);
      bool passed = passes(rule, last, problem);
      for (int value = 1, edges = 0; value < radices_[field] && edges < 2; ++value) {
        next.set_choice(field, value);
        const bool passes_now = passes(rule, next, problem);
        if (passes_now != passed) {
          probe_rule(rule, last, problem);
          probe_rule(rule, next, problem);
          ++edges;
        }
        passed = passes_now;
        last = next;
      }
    }
  }

  // Adds the fields that alone change the rule's answer here.
  void probe_rule(std::size_t rule, const Recipe& base, const Problem& problem) {
    const bool passed = passes(rule, base, problem);
    for (std::size_t field = 0; field < radices_.size(); ++field) {
      if (scopes_[rule].count(field) != 0) continue;
      Recipe changed = base;
      for (int value = 0; value < radices_[field]; ++value) {
        changed.set_choice(field, value);
        if (passes(rule, changed, problem) == passed) continue;
        scopes_[rule].insert(field);
        break;
      }
    }
  }

  // By turns near a starting point, further from where it was, and anywhere.
  Recipe next(const Recipe& start, const Recipe& at, const Problem& problem) {
    const std::uint64_t kind = rng_.below(4);
    Recipe recipe = kind == 0 ? start : at;
    std::uint64_t changes = kind == 3 ? radices_.size() : 1 + rng_.below(4);
    for (int attempt = 0; attempt < 8; ++attempt) {
      Recipe moved = recipe;
      for (std::uint64_t i = 0; i < changes; ++i) {
        const std::size_t field = rng_.index(radices_.size());
        moved.set_choice(field, static_cast<int>(rng_.index(static_cast<std::size_t>(radices_[field]))));
      }
      if (kind == 3 || is_legal(moved, problem, machine_)) return moved;
    }
    return start;
  }

  const Family& family_;
  const Machine& machine_;
  std::vector<int> radices_;
  std::vector<std::set<std::size_t>> scopes_;
  Rng rng_;
};

std::string prefix_key(const Recipe& recipe, std::size_t fixed) {
  std::string key;
  key.reserve(fixed);
  for (std::size_t i = 0; i < fixed; ++i) key.push_back(static_cast<char>(recipe.choice(i)));
  return key;
}

}  // namespace

std::shared_ptr<FamilyFacts> ScopeBook::of(const Family& family, const Machine& machine) {
  const std::lock_guard lock(mutex_);
  auto& facts = known_[{&family, machine.id()}];
  if (facts) return facts;
  facts = std::make_shared<FamilyFacts>();
  facts->scopes = Prober(family, machine).probe();
  facts->passed.resize(family.rules.size());
  for (const Rule& rule : family.rules) facts->needs_problem.push_back(rule.needs_problem);
  return facts;
}

RuleGrammar::RuleGrammar(const Problem& problem, const Machine& machine, std::vector<const Family*> families,
                         std::shared_ptr<ScopeBook> book)
    : problem_(problem), machine_(machine), families_(std::move(families)) {
  for (const Family* family : families_) {
    Space space;
    space.family = family;
    space.radices = radices_of(*family);
    if (space.radices.size() > 64) throw std::logic_error("a family has more than 64 fields");
    space.facts = book->of(*family, machine_);
    space.scopes = space.facts->scopes;
    space.passed.resize(family->rules.size());
    index_rules(space);
    spaces_.push_back(std::move(space));
  }
  for (std::size_t i = 0; i < spaces_.size(); ++i) {
    Space& space = spaces_[i];
    if (space.family->starting_points) {
      const auto starts = space.family->starting_points(problem_, machine_);
      if (!starts.empty() && is_legal(starts.front(), problem_, machine_)) space.any = starts.front();
    }
    if (!space.any) space.any = complete(space, Recipe(*space.family), 0);
    if (space.any) first_allowed_.push_back(static_cast<int>(i));
  }
}

void RuleGrammar::index_rules(Space& space) {
  space.rules_of.assign(space.radices.size(), {});
  for (std::size_t rule = 0; rule < space.scopes.size(); ++rule) {
    for (const std::size_t field : space.scopes[rule]) space.rules_of[field].push_back(rule);
  }
}

bool RuleGrammar::passes(Space& space, std::size_t rule, const Recipe& recipe) {
  std::string key;
  for (const std::size_t field : space.scopes[rule]) key.push_back(static_cast<char>(recipe.choice(field)));
  const auto ask = [&] { return !space.family->rules[rule].check(recipe, &problem_, machine_).has_value(); };
  const auto look_up = [&](std::unordered_map<std::string, bool>& answers) {
    if (answers.size() >= kMostAnswers) answers.clear();
    const auto [entry, fresh] = answers.try_emplace(std::move(key), false);
    if (fresh) entry->second = ask();
    return entry->second;
  };
  const bool shared =
      !space.facts->needs_problem[rule] && space.scopes[rule].size() == space.facts->scopes[rule].size();
  if (!shared) return look_up(space.passed[rule]);
  const std::lock_guard lock(space.facts->mutex);
  return look_up(space.facts->passed[rule]);
}

// The rules themselves have the last word. False: a scope was too narrow, and has been widened.
bool RuleGrammar::legal_but_for(Space& space, const Recipe& recipe) {
  std::string key = prefix_key(recipe, recipe.size());
  if (space.legal.count(key) != 0) return true;
  if (is_legal(recipe, problem_, machine_)) {
    if (space.legal.size() >= kMostFound) space.legal.clear();
    space.legal.insert(std::move(key));
    return true;
  }
  learn_contradiction(space, recipe);
  return false;
}

// The fields that alone change the rule's answer here belong to its scope; where there is none, all may.
void RuleGrammar::learn_contradiction(Space& space, const Recipe& recipe) {
  for (std::size_t rule = 0; rule < space.scopes.size(); ++rule) {
    const auto broken = [&](const Recipe& at) {
      return space.family->rules[rule].check(at, &problem_, machine_).has_value();
    };
    if (!broken(recipe) || !passes(space, rule, recipe)) continue;
    std::set<std::size_t> scope(space.scopes[rule].begin(), space.scopes[rule].end());
    const std::size_t before = scope.size();
    for (std::size_t field = 0; field < space.radices.size(); ++field) {
      Recipe changed = recipe;
      for (int value = 0; value < space.radices[field] && scope.count(field) == 0; ++value) {
        changed.set_choice(field, value);
        if (!broken(changed)) scope.insert(field);
      }
    }
    const bool grew = scope.size() > before;
    for (std::size_t field = 0; !grew && field < space.radices.size(); ++field) scope.insert(field);
    space.scopes[rule].assign(scope.begin(), scope.end());
    space.passed[rule].clear();
  }
  index_rules(space);
  space.found.clear();
}

std::optional<Recipe> RuleGrammar::complete(Space& space, const Recipe& start, std::size_t fixed) {
  const std::string key = prefix_key(start, fixed);
  if (const auto known = space.found.find(key); known != space.found.end()) return known->second;
  std::vector<bool> is_fixed(space.radices.size(), false);
  std::fill_n(is_fixed.begin(), fixed, true);
  std::int64_t work = kSearchWork;
  auto witness = search(space, start, is_fixed, work).recipe;
  if (work <= 0 && !witness) ++abandoned_;
  if (space.found.size() >= kMostFound) space.found.clear();
  space.found.emplace(key, witness);
  return witness;
}

RuleGrammar::Found RuleGrammar::search(Space& space, const Recipe& recipe, std::vector<bool> fixed,
                                       std::int64_t& work) {
  const auto bit = [](std::size_t field) { return std::uint64_t{1} << field; };
  // Of the broken rules the one with the fewest combinations left: it fails, or narrows the search, the soonest.
  std::size_t chosen = 0;
  double fewest = 0;
  std::vector<std::size_t> open;
  std::uint64_t blame = 0;  // fixed fields of the chosen rule
  for (std::size_t rule = 0; rule < space.scopes.size(); ++rule) {
    if (passes(space, rule, recipe)) continue;
    double combinations = 1;
    std::vector<std::size_t> free;
    std::uint64_t bound = 0;
    for (const std::size_t field : space.scopes[rule]) {
      if (fixed[field]) {
        bound |= bit(field);
        continue;
      }
      free.push_back(field);
      combinations *= space.radices[field];
    }
    if (free.empty()) return {std::nullopt, bound};
    if (!open.empty() && combinations >= fewest) continue;
    chosen = rule;
    fewest = combinations;
    open = std::move(free);
    blame = bound;
  }
  if (open.empty()) {
    if (legal_but_for(space, recipe)) return {recipe, 0};
    if (--work <= 0) return {std::nullopt, ~std::uint64_t{0}};
    return search(space, recipe, std::move(fixed), work);  // with the wider scope
  }
  std::uint64_t opened = 0;
  for (const std::size_t field : open) {
    fixed[field] = true;
    opened |= bit(field);
  }
  // True: the search is over, and `end` is its result: found, or failed whatever the open fields are.
  Found end;
  const auto attempt = [&](const Recipe& candidate) {
    --work;
    if (!passes(space, chosen, candidate)) return false;
    end = search(space, candidate, fixed, work);
    if (end.recipe || (end.blame & opened) == 0) return true;
    blame |= end.blame;
    return false;
  };
  // One change first: most often it is enough.
  for (const std::size_t field : open) {
    Recipe candidate = recipe;
    for (int value = 0; value < space.radices[field] && work > 0; ++value) {
      if (value == recipe.choice(field)) continue;
      candidate.set_choice(field, value);
      if (attempt(candidate)) return end;
    }
  }
  // Then all combinations, counted up from where they are, the last field quickest.
  Recipe candidate = recipe;
  while (work > 0) {
    std::size_t at = open.size();
    while (at > 0) {
      const std::size_t field = open[at - 1];
      const int next = (candidate.choice(field) + 1) % space.radices[field];
      candidate.set_choice(field, next);
      if (next != recipe.choice(field)) break;
      --at;
    }
    if (at == 0) return {std::nullopt, blame & ~opened};  // counted round
    if (attempt(candidate)) return end;
  }
  return {std::nullopt, ~std::uint64_t{0}};
}

class RuleCursor : public Cursor {
 public:
  explicit RuleCursor(RuleGrammar& grammar) : grammar_(grammar) {}

  bool done() const override { return space_ != nullptr && at_ == space_->radices.size(); }

  const std::vector<int>& allowed() override {
    if (space_ == nullptr) return grammar_.first_allowed_;
    if (!asked_) ask();
    return allowed_;
  }

  void take(int choice) override {
    if (space_ == nullptr) {
      space_ = &grammar_.spaces_[static_cast<std::size_t>(choice)];
      witness_ = space_->any;
      return;
    }
    if (!asked_) ask();
    for (std::size_t i = 0; i < allowed_.size(); ++i) {
      if (allowed_[i] == choice) witness_ = completions_[i];
    }
    ++at_;
    asked_ = false;
  }

  const Recipe& recipe() const override { return *witness_; }

 private:
  // A value is allowed when the witness, with it, is legal, or can be changed further on so that it is.
  void ask() {
    allowed_.clear();
    completions_.clear();
    for (int value = 0; value < space_->radices[at_]; ++value) {
      std::optional<Recipe> completion = *witness_;
      completion->set_choice(at_, value);
      const auto& rules = space_->rules_of[at_];
      const bool kept = value == witness_->choice(at_) ||
                        std::all_of(rules.begin(), rules.end(),
                                    [&](std::size_t rule) { return grammar_.passes(*space_, rule, *completion); });
      // The witness was asked of the rules when it was found; what only the scopes vouch for is asked now.
      if (!kept || (value != witness_->choice(at_) && !grammar_.legal_but_for(*space_, *completion))) {
        completion = grammar_.complete(*space_, *completion, at_ + 1);
      }
      if (!completion) continue;
      allowed_.push_back(value);
      completions_.push_back(std::move(completion));
    }
    asked_ = true;
  }

  RuleGrammar& grammar_;
  RuleGrammar::Space* space_ = nullptr;
  std::optional<Recipe> witness_;
  std::size_t at_ = 0;  // next field
  bool asked_ = false;
  std::vector<int> allowed_;
  std::vector<std::optional<Recipe>> completions_;
};

std::unique_ptr<Cursor> RuleGrammar::start() { return std::make_unique<RuleCursor>(*this); }

namespace {

class ListCursor : public Cursor {
 public:
  ListCursor(const std::vector<std::vector<Recipe>>& sorted) : sorted_(sorted) {
    for (std::size_t i = 0; i < sorted.size(); ++i) allowed_.push_back(static_cast<int>(i));
  }

  bool done() const override { return list_ != nullptr && at_ == list_->front().size(); }
  const std::vector<int>& allowed() override { return allowed_; }

  void take(int choice) override {
    if (list_ == nullptr) {
      list_ = &sorted_[static_cast<std::size_t>(choice)];
      low_ = 0;
      high_ = list_->size();
    } else {
      const auto begins = [this](const Recipe& recipe, int value) { return recipe.choice(at_) < value; };
      const auto first = list_->begin() + static_cast<std::ptrdiff_t>(low_),
                 last = list_->begin() + static_cast<std::ptrdiff_t>(high_);
      const auto low = std::lower_bound(first, last, choice, begins),
                 high = std::lower_bound(low, last, choice + 1, begins);
      low_ = static_cast<std::size_t>(low - list_->begin());
      high_ = static_cast<std::size_t>(high - list_->begin());
      ++at_;
    }
    allowed_.clear();
    for (std::size_t i = low_; i < high_ && !done(); ++i) {
      const int value = (*list_)[i].choice(at_);
      if (allowed_.empty() || allowed_.back() != value) allowed_.push_back(value);
    }
  }

  const Recipe& recipe() const override { return (*list_)[low_]; }

 private:
  const std::vector<std::vector<Recipe>>& sorted_;
  const std::vector<Recipe>* list_ = nullptr;
  std::size_t low_ = 0, high_ = 0, at_ = 0;
  std::vector<int> allowed_;
};

bool comes_first(const Recipe& a, const Recipe& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a.choice(i) != b.choice(i)) return a.choice(i) < b.choice(i);
  }
  return false;
}

}  // namespace

ListGrammar::ListGrammar(const std::vector<Recipe>& recipes) {
  for (const Recipe& recipe : recipes) {
    auto at =
        static_cast<std::size_t>(std::find(families_.begin(), families_.end(), &recipe.family()) - families_.begin());
    if (at == families_.size()) {
      families_.push_back(&recipe.family());
      sorted_.emplace_back();
    }
    sorted_[at].push_back(recipe);
  }
  for (auto& list : sorted_) {
    std::sort(list.begin(), list.end(), comes_first);
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
}

void ListGrammar::remove(const Recipe& recipe) {
  const auto family = std::find(families_.begin(), families_.end(), &recipe.family());
  if (family == families_.end()) return;
  const auto list = sorted_.begin() + (family - families_.begin());
  const auto found = std::lower_bound(list->begin(), list->end(), recipe, comes_first);
  if (found == list->end() || *found != recipe) return;
  list->erase(found);
  if (!list->empty()) return;
  families_.erase(family);
  sorted_.erase(list);
}

std::unique_ptr<Cursor> ListGrammar::start() { return std::make_unique<ListCursor>(sorted_); }

}  // namespace warpsmith::embedded
