// Files of this folder that are part of the program.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace warpsmith {

// By name relative to src/: "serve/openapi.json".
const std::map<std::string, std::string_view>& serve_files();

}  // namespace warpsmith
