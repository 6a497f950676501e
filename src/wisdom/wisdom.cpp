// Reading, merging and writing wisdom.
#include "wisdom/wisdom.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/file.h"
#include "base/text.h"
#include "recipe/recipe.h"

namespace warpsmith {

namespace {

constexpr int kVersion = 1;

// By size, so that the file reads like a grid.
std::string sort_key(const Problem& problem) {
  return fmt::format("{:>8}x{:>8}x{:>8} {}", problem.m, problem.n, problem.k, to_string(problem));
}

nlohmann::json to_json_object(const WisdomHeader& header) {
  return {{"warpsmith_wisdom", kVersion},
          {"machine", header.machine},
          {"compute_capability", header.compute_capability},
          {"units", header.units},
          {"target", to_string(header.target)},
          {"threads", header.threads},
          {"versions", header.versions}};
}

Result<WisdomHeader> parse_header(const nlohmann::json& json) {
  if (!json.is_object() || !json.contains("warpsmith_wisdom")) return bad_input("is no header of a wisdom file");
  if (json["warpsmith_wisdom"] != kVersion) {
    return bad_input(fmt::format("has format version {}; this program reads version {}",
                                 printable(json["warpsmith_wisdom"].dump()), kVersion));
  }
  const auto target = parse_target(json.at("target").get<std::string>());
  if (!target) return target.error();
  WisdomHeader header;
  header.machine = json.at("machine").get<std::string>();
  header.compute_capability = json.at("compute_capability").get<int>();
  header.units = json.at("units").get<int>();
  header.target = *target;
  header.threads = json.at("threads").get<int>();
  header.versions = json.at("versions").get<std::map<std::string, std::string>>();
  return header;
}

bool positive(double value) { return std::isfinite(value) && value > 0; }

// An entry whose recipe this program does not know is kept: another version of the program may.
Result<WisdomEntry> parse_entry(const nlohmann::json& json) {
  if (!json.is_object() || !json.contains("problem")) return bad_input("is no wisdom entry");
  if (const auto problem = parse_problem(json["problem"].get<std::string>()); !problem) return problem.error();
  auto entry = json.get<WisdomEntry>();
  if (!positive(entry.cold_us)) return bad_input("cold_us is not a positive number");
  return entry;
}

}  // namespace

Result<WisdomHeader> parse_wisdom_header(const std::string& line) {
  try {
    return parse_header(nlohmann::json::parse(line, nullptr, false));
  } catch (const nlohmann::json::exception& error) {
    return bad_input(printable(error.what(), 120));
  }
}

Result<WisdomEntry> parse_wisdom_entry(const std::string& line) {
  try {
    return parse_entry(nlohmann::json::parse(line, nullptr, false));
  } catch (const nlohmann::json::exception& error) {
    return bad_input(printable(error.what(), 120));
  }
}

bool WisdomHeader::same_machine(const WisdomHeader& other) const {
  return machine == other.machine && compute_capability == other.compute_capability && units == other.units &&
         target == other.target && threads == other.threads;
}

WisdomHeader wisdom_header(const Machine& machine, Target target, int threads) {
  return {machine.name, machine.compute_capability, machine.units, target, threads, machine.versions};
}

void to_json(nlohmann::json& json, const WisdomEntry& entry) {
  json = {{"problem", to_string(entry.problem)},
          {"recipe", entry.recipe},
          {"source_hash", entry.source_hash},
          {"cold_us", entry.cold_us},
          {"warm_us", entry.warm_us},
          {"gates_passed", entry.gates_passed},
          {"date", entry.date},
          {"commit", entry.commit},
          {"provenance", entry.provenance}};
  if (entry.pdl_us > 0) {
    json["pdl_us"] = entry.pdl_us;
    json["pdl_recipe"] = entry.pdl_recipe;
  }
  if (entry.server_us > 0) {
    json["server_us"] = entry.server_us;
    json["server_recipe"] = entry.server_recipe;
    if (entry.baseline_server_us > 0) json["baseline_server_us"] = entry.baseline_server_us;
  }
  if (entry.baseline.empty()) return;
  json["baseline"] = entry.baseline;
  json["baseline_us"] = entry.baseline_us;
  json["baseline_warm_us"] = entry.baseline_warm_us;
  if (!entry.baseline_setting.empty()) json["baseline_setting"] = entry.baseline_setting;
  json["ratio"] = entry.baseline_us / entry.cold_us;
}

void from_json(const nlohmann::json& json, WisdomEntry& entry) {
  if (const auto problem = parse_problem(json.at("problem").get<std::string>())) entry.problem = *problem;
  entry.recipe = json.at("recipe").get<std::string>();
  entry.source_hash = json.at("source_hash").get<std::string>();
  entry.cold_us = json.at("cold_us").get<double>();
  entry.warm_us = json.at("warm_us").get<double>();
  entry.pdl_us = json.value("pdl_us", 0.0);
  entry.pdl_recipe = json.value("pdl_recipe", std::string());
  entry.baseline = json.value("baseline", std::string());
  entry.baseline_us = json.value("baseline_us", 0.0);
  entry.baseline_warm_us = json.value("baseline_warm_us", 0.0);
  entry.baseline_setting = json.value("baseline_setting", std::string());
  entry.server_us = json.value("server_us", 0.0);
  entry.baseline_server_us = json.value("baseline_server_us", 0.0);
  entry.server_recipe = json.value("server_recipe", std::string());
  entry.gates_passed = json.at("gates_passed").get<int>();
  entry.date = json.at("date").get<std::string>();
  entry.commit = json.at("commit").get<std::string>();
  entry.provenance = json.at("provenance").get<std::map<std::string, std::string>>();
}

bool supersedes(const WisdomEntry& fresh, const WisdomEntry& known) {
  if (!positive(fresh.cold_us)) return false;
  const bool same_kernel = fresh.recipe == known.recipe && fresh.source_hash == known.source_hash;
  if (same_kernel) return fresh.date > known.date;  // ISO 8601 in UTC sorts as text
  if (fresh.ratio() && known.ratio() && fresh.baseline == known.baseline) return *fresh.ratio() > *known.ratio();
  return fresh.cold_us < known.cold_us;
}

Result<Wisdom> Wisdom::load(const std::filesystem::path& path) {
  const auto text = read_file(path);
  if (!text) return text.error();
  std::optional<Wisdom> wisdom;
  std::size_t start = 0, number = 0;
  while (start < text->size()) {
    const std::size_t end = std::min(text->find('\n', start), text->size());
    const std::string line = text->substr(start, end - start);
    start = end + 1;
    ++number;
    if (line.empty()) continue;
    const auto wrong = [&](const std::string& what) {
      return bad_input(fmt::format("{}:{}: {}", path.string(), number, what));
    };
    if (!wisdom) {
      auto header = parse_wisdom_header(line);
      if (!header) return wrong(header.error().message);
      wisdom.emplace(std::move(*header));
      continue;
    }
    auto entry = parse_wisdom_entry(line);
    if (!entry) return wrong(entry.error().message);
    if (!wisdom->entries_.emplace(sort_key(entry->problem), *entry).second) {
      return wrong("a second entry of " + to_string(entry->problem));
    }
  }
  if (!wisdom) return bad_input(fmt::format("{} is no wisdom file: it is empty", path.string()));
  return std::move(*wisdom);
}

Status Wisdom::save(const std::filesystem::path& path) const {
  std::string text = to_json_object(header_).dump() + "\n";
  for (const auto& [key, entry] : entries_) text += nlohmann::json(entry).dump() + "\n";
  return write_file_atomic(path, text);
}

bool Wisdom::merge(const WisdomEntry& entry) {
  const auto [found, is_new] = entries_.try_emplace(sort_key(entry.problem), entry);
  if (is_new) return true;
  if (!supersedes(entry, found->second)) return false;
  found->second = entry;
  return true;
}

const WisdomEntry* Wisdom::find(const Problem& problem) const {
  const auto found = entries_.find(sort_key(problem));
  return found == entries_.end() ? nullptr : &found->second;
}

std::vector<WisdomEntry> Wisdom::entries() const {
  std::vector<WisdomEntry> list;
  for (const auto& [key, entry] : entries_) list.push_back(entry);
  return list;
}

std::string wisdom_name(const WisdomHeader& header) {
  std::string name;
  for (const char c : header.machine) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (plain) {
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  if (name.rfind("nvidia-", 0) == 0) name.erase(0, 7);
  if (name.empty()) name = "unknown";
  if (!is_cuda(header.target)) name += fmt::format("-{}t", header.threads);
  return name;
}

}  // namespace warpsmith
