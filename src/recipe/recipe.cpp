// Recipe storage, its text form and the legality query. All of it derives from the family's knob table.
#include "recipe/recipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "base/text.h"

namespace warpsmith {

namespace {

// Rules ask for fields by name millions of times, and names of one length mostly differ in their last letter.
bool is_named(const KnobField& field, std::string_view name) {
  return field.name.size() == name.size() && field.name.back() == name.back() && field.name == name;
}

int index_of(const KnobField& field, int value) {
  const auto found = std::find(field.values.begin(), field.values.end(), value);
  return found == field.values.end() ? -1 : static_cast<int>(found - field.values.begin());
}

std::string value_text(const KnobField& field, int choice) {
  const auto at = static_cast<std::size_t>(choice);
  return field.words.empty() ? std::to_string(field.values[at]) : field.words[at];
}

// Index of the value that `text` names, or -1.
int parse_value(const KnobField& field, std::string_view text) {
  if (!field.words.empty()) {
    const auto found = std::find(field.words.begin(), field.words.end(), text);
    return found == field.words.end() ? -1 : static_cast<int>(found - field.words.begin());
  }
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return -1;
  return index_of(field, value);
}

// The point whose values a recipe has at the fields from `first` on, or null.
const KnobPoint* point_of(const Knob& knob, const Recipe& recipe, std::size_t first) {
  for (const KnobPoint& point : knob.points) {
    bool same = true;
    for (std::size_t f = 0; f < knob.fields.size(); ++f) {
      same = same && recipe.choice(first + f) == index_of(knob.fields[f], point.values[f]);
    }
    if (same) return &point;
  }
  return nullptr;
}

std::string point_names(const Knob& knob) {
  std::string text;
  for (const KnobPoint& point : knob.points) text += (text.empty() ? "" : ", ") + point.name;
  return text;
}

std::string accepted_values(const KnobField& field) {
  std::string text;
  constexpr std::size_t kShown = 12;  // keeps the error on one line
  for (std::size_t i = 0; i < field.values.size(); ++i) {
    if (i == kShown && field.values.size() > kShown + 1) {
      return text + ", ... " + value_text(field, static_cast<int>(field.values.size()) - 1);
    }
    text += i == 0 ? "" : ", ";
    text += value_text(field, static_cast<int>(i));
  }
  return text;
}

std::string knob_names(const Family& family) {
  std::vector<std::string> names;
  for (const Knob& knob : family.knobs) names.push_back(knob.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string print(const Recipe& recipe, bool only_changed) {
  std::string text = recipe.family().name;
  std::size_t at = 0;
  for (const Knob& knob : recipe.family().knobs) {
    std::string value;
    bool changed = false;
    const KnobPoint* point = point_of(knob, recipe, at);
    for (const KnobField& field : knob.fields) {
      value += value.empty() ? "" : "x";
      value += value_text(field, recipe.choice(at));
      changed = changed || recipe.choice(at) != index_of(field, field.default_value);
      ++at;
    }
    if (point != nullptr) value = point->name;
    if (changed || !only_changed) text += " " + knob.name + "=" + value;
  }
  return text;
}

// Sets the fields from `first` on to what `text` says: a point's name, or every field's value.
Status parse_knob_value(const Knob& knob, std::size_t first, std::string_view text, Recipe& recipe) {
  for (const KnobPoint& point : knob.points) {
    if (point.name != text) continue;
    for (std::size_t f = 0; f < knob.fields.size(); ++f) {
      recipe.set_choice(first + f, index_of(knob.fields[f], point.values[f]));
    }
    return ok_status();
  }
  std::string_view rest = text;
  for (std::size_t f = 0; f < knob.fields.size(); ++f) {
    const bool last = f + 1 == knob.fields.size();
    const std::size_t cut = last ? std::string_view::npos : rest.find('x');
    const int choice = parse_value(knob.fields[f], rest.substr(0, cut));
    if (choice < 0 || (!last && cut == std::string_view::npos)) {
      std::string accepted = accepted_values(knob.fields[f]);
      if (!knob.points.empty()) {
        accepted = fmt::format("{}; or by field, where {} is {}", point_names(knob), knob.fields[f].name, accepted);
      }
      return bad_input(fmt::format("{}: '{}' is not a value of {}; accepted: {}", knob.name, printable(text),
                                   knob.fields[f].name, accepted));
    }
    recipe.set_choice(first + f, choice);
    if (!last) rest = rest.substr(cut + 1);
  }
  return ok_status();
}

// Parses one `name=value` word into `recipe`; `seen` marks knobs that were already given.
Status parse_knob(std::string_view word, Recipe& recipe, std::vector<bool>& seen) {
  const Family& family = recipe.family();
  const std::size_t equals = word.find('=');
  const std::string_view name = word.substr(0, equals);
  std::size_t first_field = 0;
  for (std::size_t i = 0; i < family.knobs.size(); first_field += family.knobs[i].fields.size(), ++i) {
    const Knob& knob = family.knobs[i];
    if (knob.name != name) continue;
    if (equals == std::string_view::npos) return bad_input(fmt::format("knob '{}' has no value", knob.name));
    if (seen[i]) return bad_input(fmt::format("knob '{}' is given twice", knob.name));
    seen[i] = true;
    return parse_knob_value(knob, first_field, word.substr(equals + 1), recipe);
  }
  return bad_input(
      fmt::format("unknown knob '{}' of family {}; accepted: {}", printable(name), family.name, knob_names(family)));
}

}  // namespace

Recipe::Recipe(const Family& family) : family_(&family) {
  for (const KnobField* field : family.fields()) choices_.push_back(index_of(*field, field->default_value));
}

int Recipe::get(std::string_view name) const {
  std::size_t at = 0;
  for (const Knob& knob : family_->knobs) {
    for (const KnobField& field : knob.fields) {
      if (is_named(field, name)) return field.values[static_cast<std::size_t>(choices_[at])];
      ++at;
    }
  }
  throw std::out_of_range(fmt::format("family {} has no field {}", family_->name, name));
}

Recipe& Recipe::set(std::string_view name, int value) {
  std::size_t at = 0;
  for (const Knob& knob : family_->knobs) {
    for (const KnobField& field : knob.fields) {
      if (is_named(field, name)) {
        const int index = index_of(field, value);
        if (index < 0) throw std::out_of_range(fmt::format("{} is not a value of {}", value, name));
        choices_[at] = index;
        return *this;
      }
      ++at;
    }
  }
  throw std::out_of_range(fmt::format("family {} has no field {}", family_->name, name));
}

std::string to_string(const Recipe& recipe) { return print(recipe, false); }
std::string to_short_string(const Recipe& recipe) { return print(recipe, true); }

Result<Recipe> parse_recipe(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = text.find_first_not_of(" \t", at);
    if (begin == std::string_view::npos) break;
    const std::size_t end = std::min(text.find_first_of(" \t", begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    at = end;
  }
  if (words.empty()) return bad_input("empty recipe; expected: FAMILY knob=value ...");
  const Family* family = find_family(words[0]);
  if (family == nullptr) {
    return bad_input(fmt::format("unknown family '{}'; accepted: {}", printable(words[0]), family_names()));
  }
  Recipe recipe(*family);
  std::vector<bool> seen(family->knobs.size(), false);
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (const Status status = parse_knob(words[i], recipe, seen); !status) return status.error();
  }
  return recipe;
}

std::optional<Violation> find_violation(const Recipe& recipe, const Problem* problem, const Machine& machine) {
  for (const Rule& rule : recipe.family().rules) {
    if (rule.needs_problem && problem == nullptr) continue;
    if (auto reason = rule.check(recipe, problem, machine)) return Violation{rule.name, std::move(*reason)};
  }
  return std::nullopt;
}

std::string knob_table_markdown(const Family& family) {
  std::string text = fmt::format("### `{}`: {}\n\n| knob | values | default | meaning |\n| --- | --- | --- | --- |\n",
                                 family.name, family.meaning);
  for (const Knob& knob : family.knobs) {
    std::string values, defaults;
    for (const KnobField& field : knob.fields) {
      const std::string accepted = accepted_values(field);
      values += values.empty() ? "" : " x ";
      values += knob.fields.size() > 1 ? fmt::format("{{{}}}", accepted) : accepted;
      defaults += defaults.empty() ? "" : "x";
      defaults += value_text(field, index_of(field, field.default_value));
    }
    std::string meaning = knob.meaning;
    for (const KnobPoint& point : knob.points) {
      std::vector<std::string> words;
      for (std::size_t f = 0; f < knob.fields.size(); ++f) {
        words.push_back(value_text(knob.fields[f], index_of(knob.fields[f], point.values[f])));
      }
      meaning += fmt::format("{} `{}` = {}", &point == &knob.points.front() ? "; by name:" : ",", point.name,
                             fmt::join(words, "x"));
    }
    text += fmt::format("| `{}` | {} | {} | {} |\n", knob.name, values, defaults, meaning);
  }
  text += "\n| rule | meaning |\n| --- | --- |\n";
  for (const Rule& rule : family.rules) text += fmt::format("| `{}` | {} |\n", rule.name, rule.meaning);
  return text;
}

}  // namespace warpsmith
