// The only file that includes toml++.
#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 0
#include "task/toml_reader.h"

#include <fmt/format.h>

#include <toml++/toml.h>

#include "base/text.h"

namespace warpsmith::task {

namespace {

nlohmann::json to_json(const toml::node& node, const std::string& pointer, std::map<std::string, int>& lines) {
  lines[pointer] = static_cast<int>(node.source().begin.line);
  if (const auto* table = node.as_table()) {
    auto json = nlohmann::json::object();
    for (const auto& [key, value] : *table) {
      const std::string name(key.str());
      json[name] = to_json(value, pointer + "/" + name, lines);
    }
    return json;
  }
  if (const auto* array = node.as_array()) {
    auto json = nlohmann::json::array();
    for (std::size_t i = 0; i < array->size(); ++i) {
      json.push_back(to_json(*array->get(i), fmt::format("{}/{}", pointer, i), lines));
    }
    return json;
  }
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto number = node.value_exact<std::int64_t>()) return *number;
  if (const auto real = node.value_exact<double>()) return *real;
  if (const auto boolean = node.value_exact<bool>()) return *boolean;
  return nullptr;  // a date or time
}

}  // namespace

Result<TomlDocument> parse_toml(std::string_view text) {
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return bad_input(fmt::format("line {}: {}", error.source().begin.line, printable(error.description(), 200)));
  }
  TomlDocument document;
  document.root = to_json(parsed.table(), "", document.lines);
  return document;
}

}  // namespace warpsmith::task
