// task.toml as a tree of JSON values with the line of every one, so that nothing else sees the TOML library.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace warpsmith::task {

struct TomlDocument {
  nlohmann::json root;
  std::map<std::string, int> lines;  // JSON pointer -> line
};

// Error (bad_input): "line 3: ...", in the parser's words.
Result<TomlDocument> parse_toml(std::string_view text);

}  // namespace warpsmith::task
