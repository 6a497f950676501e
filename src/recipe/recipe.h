// Recipe: a kernel described by its family's knobs, with a one-line text form that round-trips.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "recipe/knob.h"

namespace warpsmith {

class Recipe {
 public:
  explicit Recipe(const Family& family);  // every knob at its default

  const Family& family() const { return *family_; }
  std::size_t size() const { return choices_.size(); }  // number of fields
  int choice(std::size_t field) const { return choices_[field]; }
  void set_choice(std::size_t field, int index) { choices_[field] = index; }

  // By field name. Precondition: the field exists (and, for set, the value is one of its values); throws
  // std::out_of_range otherwise, since that is a programming error.
  int get(std::string_view field) const;
  Recipe& set(std::string_view field, int value);

  bool operator==(const Recipe&) const = default;

 private:
  const Family* family_;
  std::vector<int> choices_;
};

// "sm90 tile=128x256x64 cluster=2x1 ...": every knob in table order, or, where the caller wants it short, only those
// that differ from the default.
std::string to_string(const Recipe& recipe);
std::string to_short_string(const Recipe& recipe);

// Accepts both forms; knobs in any order, each at most once, absent ones at their default. Error (bad_input): the
// unknown family, knob or value, with what is accepted.
Result<Recipe> parse_recipe(std::string_view text);

struct Violation {
  std::string rule;    // name of the broken rule
  std::string reason;  // with numbers
};
// The first broken rule, or nothing when the recipe is legal. `problem` may be null: only rules about the recipe alone
// are then asked.
std::optional<Violation> find_violation(const Recipe& recipe, const Problem* problem, const Machine& machine);
inline bool is_legal(const Recipe& recipe, const Problem& problem, const Machine& machine) {
  return !find_violation(recipe, &problem, machine);
}

// The knob table as Markdown, for the documentation.
std::string knob_table_markdown(const Family& family);

}  // namespace warpsmith
