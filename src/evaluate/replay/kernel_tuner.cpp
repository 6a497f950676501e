// Export to Kernel Tuner.
#include "evaluate/replay/kernel_tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace warpsmith {

namespace {

nlohmann::json value_of(const KnobField& field, int choice) {
  const auto at = static_cast<std::size_t>(choice);
  if (field.words.empty()) return field.values[at];
  return field.words[at];
}

struct Column {
  std::string name;
  const Family* family = nullptr;  // null: the column of families
  const KnobField* field = nullptr;
  std::size_t position = 0;
};

std::vector<Column> columns_of(const std::vector<const Family*>& families) {
  std::vector<Column> columns;
  const bool several = families.size() > 1;
  if (several) columns.push_back({"family", nullptr, nullptr, 0});
  for (const Family* family : families) {
    const auto fields = family->fields();
    for (std::size_t i = 0; i < fields.size(); ++i) {
      columns.push_back({several ? family->name + "." + fields[i]->name : fields[i]->name, family, fields[i], i});
    }
  }
  // Kernel Tuner wants one order everywhere, and JSON objects are written by name.
  std::sort(columns.begin(), columns.end(), [](const Column& a, const Column& b) { return a.name < b.name; });
  return columns;
}

nlohmann::json cell(const Column& column, const Recipe& recipe) {
  if (column.family == nullptr) return recipe.family().name;
  if (column.family == &recipe.family()) return value_of(*column.field, recipe.choice(column.position));
  return value_of(*column.field, Recipe(*column.family).choice(column.position));
}

// Kernel Tuner's words for a configuration that has no time.
const char* error_mark(std::string_view kind) {
  if (kind == "illegal") return "InvalidConfig";
  return kind == "compile-error" ? "CompilationFailedConfig" : "RuntimeFailedConfig";
}

std::string text_of(const nlohmann::json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

}  // namespace

Result<nlohmann::json> kernel_tuner_cache(const ReplayTable& table, const Problem& problem) {
  const std::vector<Recipe> recipes = table.recipes(problem);
  if (recipes.empty()) return bad_input(fmt::format("the table holds nothing for {}", to_string(problem)));
  std::vector<const Family*> families;
  for (const Recipe& recipe : recipes) {
    if (std::find(families.begin(), families.end(), &recipe.family()) == families.end())
      families.push_back(&recipe.family());
  }
  const std::vector<Column> columns = columns_of(families);
  nlohmann::json parameters = nlohmann::json::object(), keys = nlohmann::json::array(),
                 cache = nlohmann::json::object();
  std::vector<std::set<std::string>> seen(columns.size());
  for (const Column& column : columns) {
    keys.push_back(column.name);
    parameters[column.name] = nlohmann::json::array();
  }
  for (const Recipe& recipe : recipes) {
    nlohmann::json entry = nlohmann::json::object();
    std::string key;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const nlohmann::json value = cell(columns[i], recipe);
      entry[columns[i].name] = value;
      key += (i == 0 ? "" : ",") + text_of(value);
      if (seen[i].insert(text_of(value)).second) parameters[columns[i].name].push_back(value);
    }
    const Verdict verdict = table.lookup(problem, recipe);
    if (const auto time_us = right_time_us(verdict)) {
      entry["time"] = *time_us / 1e3;
    } else {
      entry["time"] = error_mark(verdict.kind());
    }
    cache[key] = std::move(entry);
  }
  for (auto& [name, values] : parameters.items()) {
    if (!values.empty() && values.front().is_number()) std::sort(values.begin(), values.end());
  }
  return nlohmann::json{{"device_name", table.machine().name},
                        {"kernel_name", "warpsmith"},
                        {"problem_size", {problem.m, problem.n, problem.k}},
                        {"tune_params_keys", keys},
                        {"tune_params", parameters},
                        {"objective", "time"},
                        {"cache", cache}};
}

std::string kernel_tuner_text(const nlohmann::json& cache) {
  nlohmann::json header = cache;
  header.erase("cache");
  std::string text = header.dump();
  text.pop_back();
  return text + ",\"cache\":" + cache.at("cache").dump() + "}";
}

}  // namespace warpsmith
