// Replay tables: loading with located errors, saving, and look-ups.
#include "evaluate/replay/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/file.h"
#include "base/text.h"

namespace warpsmith {

namespace {

constexpr int kFormatVersion = 1;
constexpr std::array<std::string_view, 8> kKinds = {"illegal",   "compile-error", "wrong",      "crashed",
                                                    "timed-out", "too-slow",      "suspicious", "accepted"};

bool is_positive(const std::optional<double>& value) { return value && std::isfinite(*value) && *value > 0; }

// The times an entry must and may have for its kind; nothing is wrong: empty.
std::string find_fault(const ReplayTable::Entry& entry) {
  if (std::find(kKinds.begin(), kKinds.end(), entry.kind) == kKinds.end()) {
    return fmt::format("unknown kind '{}'; accepted: {}", printable(entry.kind), fmt::join(kKinds, ", "));
  }
  for (const auto* time : {&entry.cold_us, &entry.warm_us}) {
    if (*time && !is_positive(*time)) return "cold_us and warm_us must be positive numbers";
  }
  if (entry.kind == "accepted" && !entry.cold_us) return "an accepted entry needs cold_us";
  if (entry.error && !(std::isfinite(*entry.error) && *entry.error >= 0)) return "error must not be negative";
  return {};
}

TimingStats recorded_time(double time_us) {
  TimingStats stats;
  stats.median_us = stats.min_us = stats.p5_us = stats.p95_us = time_us;
  stats.samples = stats.launches_per_sample = 1;
  return stats;
}

Verdict to_verdict(const ReplayTable::Entry& entry) {
  constexpr auto kReason = "as recorded";
  Verdict verdict;
  if (entry.kind == "accepted") {
    Measurement measurement;
    measurement.subject = "candidate";
    measurement.cold = recorded_time(entry.cold_us.value_or(0));
    if (entry.warm_us) measurement.warm = recorded_time(*entry.warm_us);
    measurement.detail = kReason;
    if (entry.error) verdict.gates.push_back({"bound/recorded", true, kReason, *entry.error});
    verdict.outcome = verdict::Accepted{std::move(measurement)};
  } else if (entry.kind == "illegal") {
    verdict.outcome = verdict::Illegal{"replay", kReason};
  } else if (entry.kind == "compile-error") {
    verdict.outcome = verdict::CompileError{kReason};
  } else if (entry.kind == "wrong") {
    verdict.outcome = verdict::Wrong{{"replay", false, kReason, 0}};
  } else if (entry.kind == "crashed") {
    verdict.outcome = verdict::Crashed{"replay", kReason};
  } else if (entry.kind == "timed-out") {
    verdict.outcome = verdict::TimedOut{"replay", 0};
  } else if (entry.kind == "too-slow") {
    verdict.outcome = verdict::TooSlow{entry.cold_us.value_or(0), 0};
  } else if (entry.kind == "suspicious") {
    verdict.outcome = verdict::Suspicious{kReason, entry.cold_us.value_or(0)};
  }
  return verdict;
}

std::optional<double> optional_number(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return std::nullopt;
  return found->get<double>();
}

Result<ReplayTable> parse_header(const nlohmann::json& json) {
  if (!json.is_object() || !json.contains("warpsmith_replay")) {
    return bad_input("not a replay table; its first line must be {\"warpsmith_replay\": 1, \"machine\": ...}");
  }
  if (const auto& version = json.at("warpsmith_replay"); version != kFormatVersion) {
    return bad_input(fmt::format("format version {:.20} is not known; accepted: {}", version.dump(), kFormatVersion));
  }
  const auto target = parse_target(json.at("target").get<std::string>());
  if (!target) return target.error();
  const int threads = json.value("threads", 1);
  if (threads < 1) return bad_input(fmt::format("threads = {} must be positive", threads));
  ReplayTable table(json.at("machine").get<Machine>(), *target, threads,
                    json.value("provenance", nlohmann::json::object()));
  if (json.contains("references")) {
    for (const auto& [text, time_us] : json.at("references").items()) {
      const auto problem = parse_problem(text);
      if (!problem) return problem.error();
      if (const Status status = table.set_reference(*problem, time_us.get<double>()); !status) return status.error();
    }
  }
  std::vector<Problem> held_out;
  for (const auto& text : json.value("held_out", nlohmann::json::array())) {
    const auto problem = parse_problem(text.get<std::string>());
    if (!problem) return problem.error();
    held_out.push_back(*problem);
  }
  table.set_held_out(std::move(held_out));
  const auto declared = json.value("declared", nlohmann::json::object());
  for (const auto& [text, count] : declared.items()) {
    const auto problem = parse_problem(text);
    if (!problem) return problem.error();
    table.set_declared(*problem, count.get<std::size_t>(), json.value("spaces", ""));
  }
  return table;
}

Status parse_entry(const nlohmann::json& json, ReplayTable& table) {
  const auto problem = parse_problem(json.at("problem").get<std::string>());
  if (!problem) return problem.error();
  const ReplayTable::Entry entry{json.at("kind").get<std::string>(), optional_number(json, "cold_us"),
                                 optional_number(json, "warm_us"), optional_number(json, "error")};
  return table.add(*problem, json.at("recipe").get<std::string>(), entry);
}

// One line of the file into the table; `table` is empty until the header was read.
Status parse_line(std::string_view line, std::optional<ReplayTable>& table) {
  try {
    const auto json = nlohmann::json::parse(line);
    if (table) return parse_entry(json, *table);
    auto header = parse_header(json);
    if (!header) return header.error();
    table = std::move(*header);
    return ok_status();
  } catch (const nlohmann::json::exception& error) {
    return bad_input(error.what());
  }
}

}  // namespace

ReplayTable::ReplayTable(Machine machine, Target target, int threads, nlohmann::json provenance)
    : machine_(std::move(machine)), target_(target), threads_(threads), provenance_(std::move(provenance)) {}

Result<ReplayTable> ReplayTable::load(const std::filesystem::path& path) {
  const auto text = read_file(path);
  if (!text) return text.error();
  std::optional<ReplayTable> table;
  std::size_t number = 0;
  for (std::size_t at = 0; at < text->size();) {
    const std::size_t end = std::min(text->find('\n', at), text->size());
    const std::string_view line = std::string_view(*text).substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (const Status status = parse_line(line, table); !status) {
      return bad_input(fmt::format("{}:{}: {}", path.string(), number, printable(status.error().message, 240)));
    }
  }
  if (!table) return bad_input(fmt::format("{}:1: empty file; expected a replay table", path.string()));
  return std::move(*table);
}

Status ReplayTable::save(const std::filesystem::path& path) const {
  nlohmann::json header = {{"warpsmith_replay", kFormatVersion},
                           {"machine", machine_},
                           {"target", to_string(target_)},
                           {"threads", threads_},
                           {"provenance", provenance_}};
  if (!references_.empty()) header["references"] = references_;
  for (const Problem& problem : held_out_) header["held_out"].push_back(to_string(problem));
  if (!declared_.empty()) {
    header["declared"] = declared_;
    header["spaces"] = spaces_digest_;
  }
  std::string text = header.dump() + "\n";
  for (const auto& [problem, entries] : problems_) {
    for (const auto& [recipe, entry] : entries) {
      nlohmann::json line = {{"problem", problem}, {"recipe", recipe}, {"kind", entry.kind}};
      if (entry.cold_us) line["cold_us"] = *entry.cold_us;
      if (entry.warm_us) line["warm_us"] = *entry.warm_us;
      if (entry.error) line["error"] = *entry.error;
      text += line.dump() + "\n";
    }
  }
  return write_file_atomic(path, text);
}

Status ReplayTable::add(const Problem& problem, std::string_view recipe, const Entry& entry) {
  if (const std::string fault = find_fault(entry); !fault.empty()) return bad_input(fault);
  const auto parsed = parse_recipe(recipe);
  if (!parsed) return parsed.error();
  const std::string problem_text = to_string(problem);
  if (!problems_[problem_text].emplace(to_string(*parsed), entry).second) {
    return bad_input(fmt::format("a second entry for {}: {}", problem_text, to_short_string(*parsed)));
  }
  return ok_status();
}

Verdict ReplayTable::lookup(const Problem& problem, const Recipe& recipe) const {
  if (const auto entries = problems_.find(to_string(problem)); entries != problems_.end()) {
    if (const auto found = entries->second.find(to_string(recipe)); found != entries->second.end()) {
      return to_verdict(found->second);
    }
  }
  Verdict verdict;
  verdict.outcome = verdict::Failed{fmt::format("not recorded for {}", to_string(problem))};
  return verdict;
}

double ReplayTable::reference_us(const Problem& problem) const {
  const auto found = references_.find(to_string(problem));
  return found == references_.end() ? 0 : found->second;
}

Status ReplayTable::set_reference(const Problem& problem, double time_us) {
  if (!is_positive(time_us)) return bad_input(fmt::format("the reference of {} must be positive", to_string(problem)));
  references_[to_string(problem)] = time_us;
  return ok_status();
}

void ReplayTable::set_declared(const DeclaredSpaces& spaces) {
  held_out_ = spaces.problems();
  const std::string digest = spaces.digest();
  for (const Problem& problem : held_out_) set_declared(problem, spaces.space(problem).size(), digest);
}

void ReplayTable::set_declared(const Problem& problem, std::size_t recipes, std::string digest) {
  declared_[to_string(problem)] = recipes;
  spaces_digest_ = std::move(digest);
}

std::size_t ReplayTable::declared(const Problem& problem) const {
  const auto found = declared_.find(to_string(problem));
  return found == declared_.end() ? 0 : found->second;
}

std::size_t ReplayTable::entries(const Problem& problem) const {
  const auto found = problems_.find(to_string(problem));
  return found == problems_.end() ? 0 : found->second.size();
}

bool ReplayTable::contains(const Problem& problem, const Recipe& recipe) const {
  const auto found = problems_.find(to_string(problem));
  return found != problems_.end() && found->second.count(to_string(recipe)) != 0;
}

std::vector<Problem> ReplayTable::problems() const {
  std::vector<Problem> problems;
  for (const auto& [text, entries] : problems_) problems.push_back(parse_problem(text).value());
  return problems;
}

std::vector<Recipe> ReplayTable::recipes(const Problem& problem) const {
  std::vector<Recipe> recipes;
  const auto entries = problems_.find(to_string(problem));
  if (entries == problems_.end()) return recipes;
  for (const auto& [text, entry] : entries->second) recipes.push_back(parse_recipe(text).value());
  return recipes;
}

std::size_t ReplayTable::size() const {
  std::size_t entries = 0;
  for (const auto& [problem, recipes] : problems_) entries += recipes.size();
  return entries;
}

std::optional<double> right_time_us(const Verdict& verdict) {
  if (const auto* accepted = verdict.accepted()) return accepted->measurement.cold.median_us;
  const auto* slow = std::get_if<verdict::TooSlow>(&verdict.outcome);
  return slow != nullptr && slow->time_us > 0 ? std::optional(slow->time_us) : std::nullopt;
}

}  // namespace warpsmith
