// The knob table: every tunable of a kernel family is declared here once, with its values, default and meaning.
// Parser, printer, legality, policies, command-line help and documents derive from it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "problem/machine.h"
#include "problem/problem.h"

namespace warpsmith {

class Recipe;

// One scalar choice among finitely many values.
struct KnobField {
  std::string name;                // "tile_m"; unique in its family
  std::vector<int> values;         // in ascending or natural order: neighbours are similar, which mutation relies on
  int default_value = 0;           // one of values
  std::vector<std::string> words;  // text of each value; empty: the decimal number
};

// A point of a knob's space that goes by a name: printed by it, and accepted in place of the fields.
struct KnobPoint {
  std::string name;
  std::vector<int> values;  // of the fields, in order
};

// What one `key=value` of the text form holds: one field, or several joined by 'x' ("tile=128x256x64").
struct Knob {
  std::string name;     // "tile"
  std::string meaning;  // one line, with units
  std::vector<KnobField> fields;
  std::vector<KnobPoint> points{};
};

// A named reason for which a recipe cannot be built or run. `check` returns the reason, with numbers, or nothing.
// Rules may read the problem only when `needs_problem` is set; it is null when legality is asked for the recipe alone.
struct Rule {
  std::string name;     // "shared_memory"
  std::string meaning;  // one line
  bool needs_problem = false;
  std::function<std::optional<std::string>(const Recipe&, const Problem*, const Machine&)> check;
};

// A kernel family: its knobs in text order, its rules, and good starting points for a problem.
struct Family {
  std::string name;     // "sm90", the first word of the text form
  std::string meaning;  // one line
  Target target = Target::cpu;
  std::vector<Knob> knobs;
  std::vector<Rule> rules;
  // Recipes worth trying first, best guess first; at least one legal one whenever the family fits the problem at all.
  std::function<std::vector<Recipe>(const Problem&, const Machine&)> starting_points;

  // Flattened fields, in text order; a recipe stores one value index per entry.
  std::vector<const KnobField*> fields() const;
};

// All families, and the one of a name (null if unknown).
const std::vector<const Family*>& families();
const Family* find_family(std::string_view name);
std::string family_names();                              // "cpu, sm90, sm80", for messages
std::vector<const Family*> families_for(Target target);  // a compute-capability 9.0 target runs sm80's families too

// Defined beside their rules, in <name>_family.cpp.
const Family& cpu_family();
const Family& sm90_family();
const Family& sm80_family();
const Family& tiny_family();
const Family& skinny_family();

}  // namespace warpsmith
