// Declared sub-spaces as a file.
#include "evaluate/replay/declared.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"

namespace warpsmith {

namespace {

constexpr int kFormatVersion = 1;

nlohmann::json ranges_of(const std::vector<std::uint32_t>& numbers) {
  nlohmann::json ranges = nlohmann::json::array();
  for (std::size_t first = 0, end = 0; first < numbers.size(); first = end) {
    for (end = first + 1; end < numbers.size() && numbers[end] == numbers[end - 1] + 1; ++end) {
    }
    if (end == first + 1) {
      ranges.push_back(numbers[first]);
    } else {
      ranges.push_back({numbers[first], numbers[end - 1]});
    }
  }
  return ranges;
}

Result<DeclaredSpaces> parse_header(const nlohmann::json& json) {
  if (!json.is_object() || !json.contains("warpsmith_spaces")) {
    return bad_input("no declared spaces; the first line must be {\"warpsmith_spaces\": 1, \"machine\": ...}");
  }
  if (const auto& version = json.at("warpsmith_spaces"); version != kFormatVersion) {
    return bad_input(fmt::format("format version {:.20} is not known; accepted: {}", version.dump(), kFormatVersion));
  }
  const auto target = parse_target(json.at("target").get<std::string>());
  if (!target) return target.error();
  return DeclaredSpaces(json.at("machine").get<std::string>(), *target, json.at("seed").get<std::uint64_t>(),
                        json.value("provenance", nlohmann::json::object()));
}

// Error: bad_input where a number has no recipe.
Result<std::vector<Recipe>> chosen(const nlohmann::json& ranges, const std::vector<Recipe>& listed) {
  std::vector<Recipe> recipes;
  for (const auto& range : ranges) {
    const auto first = (range.is_array() ? range.at(0) : range).get<std::uint32_t>();
    const auto last = (range.is_array() ? range.at(1) : range).get<std::uint32_t>();
    if (first > last || last >= listed.size()) {
      return bad_input(fmt::format("{} to {} are not recipes; {} stand above", first, last, listed.size()));
    }
    recipes.insert(recipes.end(), listed.begin() + first, listed.begin() + last + 1);
  }
  return recipes;
}

// One line of the file; `spaces` is empty until the header was read.
Status parse_line(std::string_view line, std::optional<DeclaredSpaces>& spaces, std::vector<Recipe>& listed) {
  try {
    const auto json = nlohmann::json::parse(line);
    if (!spaces) {
      auto header = parse_header(json);
      if (!header) return header.error();
      spaces = std::move(*header);
      return ok_status();
    }
    if (json.contains("recipe")) {
      auto recipe = parse_recipe(json.at("recipe").get<std::string>());
      if (!recipe) return recipe.error();
      listed.push_back(std::move(*recipe));
      return ok_status();
    }
    const auto problem = parse_problem(json.at("problem").get<std::string>());
    if (!problem) return problem.error();
    const auto recipes = chosen(json.at("space"), listed);
    if (!recipes) return recipes.error();
    return spaces->declare(*problem, *recipes);
  } catch (const nlohmann::json::exception& error) {
    return bad_input(error.what());
  }
}

}  // namespace

DeclaredSpaces::DeclaredSpaces(std::string machine, Target target, std::uint64_t seed, nlohmann::json provenance)
    : machine_(std::move(machine)), target_(target), seed_(seed), provenance_(std::move(provenance)) {}

Result<DeclaredSpaces> DeclaredSpaces::load(const std::filesystem::path& path) {
  const auto text = read_file(path);
  if (!text) return text.error();
  std::optional<DeclaredSpaces> spaces;
  std::vector<Recipe> listed;
  std::size_t number = 0;
  for (std::size_t at = 0; at < text->size();) {
    const std::size_t end = std::min(text->find('\n', at), text->size());
    const std::string_view line = std::string_view(*text).substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (const Status status = parse_line(line, spaces, listed); !status) {
      return bad_input(fmt::format("{}:{}: {}", path.string(), number, printable(status.error().message, 240)));
    }
  }
  if (!spaces || spaces->problems().empty()) {
    return bad_input(
        fmt::format("{}:{}: no problem; expected declared spaces", path.string(), std::max<std::size_t>(number, 1)));
  }
  return std::move(*spaces);
}

std::uint32_t DeclaredSpaces::number_of(const Recipe& recipe) {
  const auto [found, is_new] = numbers_.try_emplace(to_string(recipe), static_cast<std::uint32_t>(recipes_.size()));
  if (is_new) recipes_.push_back(recipe);
  return found->second;
}

Status DeclaredSpaces::declare(const Problem& problem, const std::vector<Recipe>& recipes) {
  const std::string name = to_string(problem);
  if (recipes.empty()) return bad_input(fmt::format("the space of {} is empty", name));
  if (spaces_.count(name) != 0) return bad_input(fmt::format("a second space for {}", name));
  std::vector<std::uint32_t> numbers;
  for (const Recipe& recipe : recipes) numbers.push_back(number_of(recipe));
  std::sort(numbers.begin(), numbers.end());
  if (const auto twice = std::adjacent_find(numbers.begin(), numbers.end()); twice != numbers.end()) {
    return bad_input(fmt::format("the space of {} holds a recipe twice: {}", name, to_short_string(recipes_[*twice])));
  }
  problems_.push_back(problem);
  spaces_.emplace(name, std::move(numbers));
  return ok_status();
}

std::vector<Recipe> DeclaredSpaces::space(const Problem& problem) const {
  std::vector<Recipe> recipes;
  const auto found = spaces_.find(to_string(problem));
  if (found == spaces_.end()) return recipes;
  for (const std::uint32_t number : found->second) recipes.push_back(recipes_[number]);
  return recipes;
}

std::string DeclaredSpaces::text() const {
  std::string text = nlohmann::json({{"warpsmith_spaces", kFormatVersion},
                                     {"machine", machine_},
                                     {"target", to_string(target_)},
                                     {"seed", seed_},
                                     {"provenance", provenance_}})
                         .dump() +
                     "\n";
  for (const Recipe& recipe : recipes_) text += nlohmann::json({{"recipe", to_string(recipe)}}).dump() + "\n";
  for (const Problem& problem : problems_) {
    const std::string name = to_string(problem);
    text += nlohmann::json({{"problem", name}, {"space", ranges_of(spaces_.at(name))}}).dump() + "\n";
  }
  return text;
}

std::string DeclaredSpaces::digest() const { return sha256_hex(text()); }

Status DeclaredSpaces::save(const std::filesystem::path& path) const { return write_file_atomic(path, text()); }

}  // namespace warpsmith
