// Grammar: which recipes may be written for a problem, asked value by value, so that a policy that picks only allowed
// values always ends with a legal recipe and can end with any of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "problem/machine.h"
#include "problem/problem.h"
#include "recipe/knob.h"
#include "recipe/recipe.h"

namespace warpsmith::embedded {

// One recipe being written: first its family (a position in Grammar::families()), then each field's value in text
// order.
class Cursor {
 public:
  virtual ~Cursor() = default;
  virtual bool done() const = 0;
  // The choices from which a recipe of the grammar can be completed, ascending; never empty before done().
  virtual const std::vector<int>& allowed() = 0;
  virtual void take(int choice) = 0;         // precondition: one of allowed()
  virtual const Recipe& recipe() const = 0;  // precondition: the family was taken; complete when done()
};

class Grammar {
 public:
  virtual ~Grammar() = default;
  virtual const std::vector<const Family*>& families() const = 0;
  virtual bool empty() const = 0;  // no recipe at all
  virtual std::unique_ptr<Cursor> start() = 0;
};

// What is known of a family's rules on a machine, whatever the problem.
struct FamilyFacts {
  // The fields that each rule depends on, by rule, ascending.
  std::vector<std::vector<std::size_t>> scopes;
  std::vector<bool> needs_problem;  // by rule
  // Answers of the rules that ask for no problem, by rule and the values of the scope.
  std::vector<std::unordered_map<std::string, bool>> passed;
  std::mutex mutex;  // of `passed`
};

// Finds the scopes of rules by trying: around recipes near the edge of legality, every field is set to every value, and
// a field that changes a rule's answer belongs to its scope. One book serves all problems; safe from several threads.
class ScopeBook {
 public:
  std::shared_ptr<FamilyFacts> of(const Family& family, const Machine& machine);

 private:
  std::mutex mutex_;
  std::map<std::pair<const Family*, std::string>, std::shared_ptr<FamilyFacts>> known_;
};

// All legal recipes of some families for a problem on a machine. A value is allowed when a search finds a legal recipe
// that begins with what was written and this value (the witness is asked of all rules, so a wrong scope can never let
// an illegal recipe through). The search takes a broken rule, tries all values of the fields in its scope that are
// still open and goes on with the next broken rule, and after a failure returns to the last choice that had a part in
// it: within scopes it is exhaustive, up to a bound on its work. A rule that contradicts its scope gets a wider one.
class RuleGrammar : public Grammar {
 public:
  RuleGrammar(const Problem& problem, const Machine& machine, std::vector<const Family*> families,
              std::shared_ptr<ScopeBook> book);

  const std::vector<const Family*>& families() const override { return families_; }
  bool empty() const override { return first_allowed_.empty(); }
  std::unique_ptr<Cursor> start() override;
  std::int64_t abandoned() const { return abandoned_; }  // searches given up at the bound: their value was not allowed

 private:
  friend class RuleCursor;
  struct Space {
    const Family* family = nullptr;
    std::vector<int> radices;
    std::shared_ptr<FamilyFacts> facts;
    std::vector<std::vector<std::size_t>> scopes;                  // of the facts, widened where they proved too narrow
    std::vector<std::vector<std::size_t>> rules_of;                // by field
    std::vector<std::unordered_map<std::string, bool>> passed;     // by rule: answers that hold for this problem
    std::unordered_map<std::string, std::optional<Recipe>> found;  // by prefix: its witness, or that there is none
    std::unordered_set<std::string> legal;                         // recipes that all rules have passed
    std::optional<Recipe> any;                                     // a legal recipe
  };

  bool passes(Space& space, std::size_t rule, const Recipe& recipe);
  bool legal_but_for(Space& space, const Recipe& recipe);
  void learn_contradiction(Space& space, const Recipe& recipe);
  void index_rules(Space& space);
  std::optional<Recipe> complete(Space& space, const Recipe& start, std::size_t fixed);
  struct Found {
    std::optional<Recipe> recipe;
    std::uint64_t blame = 0;  // fields whose fixed values rule a completion out; bit i: field i
  };
  Found search(Space& space, const Recipe& recipe, std::vector<bool> fixed, std::int64_t& work);

  Problem problem_;
  Machine machine_;
  std::vector<const Family*> families_;
  std::vector<Space> spaces_;
  std::vector<int> first_allowed_;
  std::int64_t abandoned_ = 0;
};

// A declared set of recipes: the sub-space of a problem that was measured.
class ListGrammar : public Grammar {
 public:
  explicit ListGrammar(const std::vector<Recipe>& recipes);
  const std::vector<const Family*>& families() const override { return families_; }
  bool empty() const override { return families_.empty(); }
  std::unique_ptr<Cursor> start() override;
  // The recipe is not written any more. Not while a cursor is in use.
  void remove(const Recipe& recipe);

 private:
  std::vector<const Family*> families_;
  std::vector<std::vector<Recipe>> sorted_;  // by family, by choices
};

}  // namespace warpsmith::embedded
