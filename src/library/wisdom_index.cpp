// Scanning wisdom files for their problems.
#include "library/wisdom_index.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"

namespace warpsmith::library {

namespace {

// The value of the line's key "problem". Quotes inside other strings are escaped, so the key is found only as a key.
std::optional<Problem> problem_in(const std::string& line) {
  constexpr std::string_view kKey = "\"problem\"";
  std::size_t at = line.find(kKey);
  if (at == std::string::npos) return std::nullopt;
  at = line.find_first_not_of(" \t", at + kKey.size());
  if (at == std::string::npos || line[at] != ':') return std::nullopt;
  at = line.find_first_not_of(" \t", at + 1);
  if (at == std::string::npos || line[at] != '"') return std::nullopt;
  const std::size_t end = line.find('"', at + 1);
  if (end == std::string::npos) return std::nullopt;
  auto problem = parse_problem(std::string_view(line).substr(at + 1, end - at - 1));
  return problem ? std::optional(*problem) : std::nullopt;
}

}  // namespace

Result<WisdomIndex> WisdomIndex::load(const std::filesystem::path& path,
                                      std::function<void(const std::string&)> on_damage) {
  const auto text = read_file(path);
  if (!text) return text.error();
  std::optional<WisdomIndex> index;
  std::size_t start = 0, number = 0;
  while (start < text->size()) {
    const std::size_t end = std::min(text->find('\n', start), text->size());
    std::string line = text->substr(start, end - start);
    start = end + 1;
    ++number;
    if (line.empty()) continue;
    if (!index) {
      auto header = parse_wisdom_header(line);
      if (!header) return bad_input(fmt::format("{}:{}: {}", path.string(), number, header.error().message));
      index = WisdomIndex(std::move(*header));
      continue;
    }
    const std::optional<Problem> problem = problem_in(line);
    if (!problem || line.back() != '}') {
      return bad_input(fmt::format("{}:{}: is no wisdom entry", path.string(), number));
    }
    index->items_.push_back({*problem, number, std::move(line)});
  }
  if (!index) return bad_input(fmt::format("{} is no wisdom file: it is empty", path.string()));
  index->path_ = path;
  index->on_damage_ = std::move(on_damage);
  return std::move(*index);
}

WisdomIndex::WisdomIndex(const Wisdom& wisdom) : header_(wisdom.header()) {
  for (const WisdomEntry& entry : wisdom.entries()) items_.push_back({entry.problem, 0, nlohmann::json(entry).dump()});
}

std::optional<WisdomEntry> WisdomIndex::entry(std::size_t index) const {
  const Item& item = items_[index];
  auto entry = parse_wisdom_entry(item.line);
  if (entry && entry->problem == item.problem) return std::move(*entry);
  if (on_damage_ && !reported_->exchange(true)) {
    on_damage_(fmt::format("{}:{}: is damaged and not used: {}", path_.string(), item.line_number,
                           entry ? "two problems" : entry.error().message));
  }
  return std::nullopt;
}

}  // namespace warpsmith::library
