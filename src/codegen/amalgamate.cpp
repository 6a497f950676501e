// Textual inclusion of embedded building blocks, once each.
#include "codegen/amalgamate.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "codegen/embedded.h"

namespace warpsmith {

namespace {

// The path of an `#include "path"` line, or empty.
std::string_view included_path(std::string_view line) {
  constexpr std::string_view kDirective = "#include \"";
  if (line.substr(0, kDirective.size()) != kDirective) return {};
  line.remove_prefix(kDirective.size());
  return line.substr(0, line.find('"'));
}

Status append(std::string_view source, std::set<std::string>& seen, std::string& out) {
  for (std::size_t at = 0; at < source.size();) {
    const std::size_t end = std::min(source.find('\n', at), source.size());
    const std::string_view line = source.substr(at, end - at);
    at = end + 1;
    if (line == "#pragma once") continue;
    const std::string path(included_path(line));
    if (path.empty()) {
      out.append(line);
      out.push_back('\n');
      continue;
    }
    if (!seen.insert(path).second) continue;
    const auto& sources = embedded_sources();
    const auto found = sources.find(path);
    if (found == sources.end()) return failure(fmt::format("no building block is named '{}'", path));
    if (const Status status = append(found->second, seen, out); !status) return status.error();
  }
  return ok_status();
}

}  // namespace

Result<std::string> amalgamate(std::string_view source) {
  std::string out;
  std::set<std::string> seen;
  if (const Status status = append(source, seen, out); !status) return status.error();
  return out;
}

}  // namespace warpsmith
