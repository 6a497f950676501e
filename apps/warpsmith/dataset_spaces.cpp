// Declared spaces from a list of shapes, with what they will cost: kernels to compile.
#include "dataset_spaces.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/text.h"
#include "codegen/generate.h"
#include "devices.h"
#include "evaluate/replay/replay.h"
#include "model/known_machines.h"
#include "problem/grids.h"
#include "search/declare.h"

namespace warpsmith::cli {

namespace {

constexpr std::size_t kOwnBest = 8;  // recorded recipes of a problem that are in its space in any case

struct SpacesArguments {
  ProblemOptions problem;
  std::string shapes_file, machine, winners, out;
  std::string target = "sm90";
  std::size_t recipes = 1500;
  std::uint64_t seed = 1;
};

// Recipes of a problem, the fastest first, so many at most.
std::vector<Recipe> fastest_of(const ReplayTable& table, const Problem& problem, std::size_t most) {
  std::vector<std::pair<double, Recipe>> timed;
  for (Recipe& recipe : table.recipes(problem)) {
    const Verdict verdict = table.lookup(problem, recipe);
    const auto* accepted = verdict.accepted();
    if (accepted != nullptr) timed.emplace_back(accepted->measurement.cold.median_us, std::move(recipe));
  }
  std::stable_sort(timed.begin(), timed.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
  std::vector<Recipe> fastest;
  for (auto& [time_us, recipe] : timed) {
    if (fastest.size() < most) fastest.push_back(std::move(recipe));
  }
  return fastest;
}

// The fastest recipe of every problem of another shape than these, the most frequent first.
std::vector<Recipe> winners_of(const ReplayTable& table, const std::vector<Problem>& held_out) {
  std::map<std::string, int> counts;
  for (const Problem& problem : table.problems()) {
    const bool known = std::any_of(held_out.begin(), held_out.end(), [&](const Problem& other) {
      return other.m == problem.m && other.n == problem.n && other.k == problem.k;
    });
    if (known) continue;
    for (const Recipe& best : fastest_of(table, problem, 1)) ++counts[to_string(best)];
  }
  std::vector<std::pair<std::string, int>> order(counts.begin(), counts.end());
  std::stable_sort(order.begin(), order.end(), [](const auto& x, const auto& y) { return x.second > y.second; });
  std::vector<Recipe> winners;
  for (const auto& [text, count] : order) winners.push_back(parse_recipe(text).value());
  return winners;
}

// By family: distinct sources, each of which is compiled once.
std::map<std::string, std::size_t> count_sources(const DeclaredSpaces& spaces, const Machine& machine) {
  using Sources = std::map<std::string, std::set<std::string>>;
  const auto& problems = spaces.problems();
  const auto threads = static_cast<std::size_t>(std::max(1, available_threads()));
  std::vector<std::future<Sources>> parts;
  for (std::size_t first = 0; first < threads; ++first) {
    parts.push_back(std::async(std::launch::async, [&, first] {
      Sources sources;
      for (std::size_t i = first; i < problems.size(); i += threads) {
        for (const Recipe& recipe : spaces.space(problems[i])) {
          const auto candidate = generate(recipe, problems[i], machine);
          if (candidate) sources[recipe.family().name].insert(sha256_hex(candidate->source));
        }
      }
      return sources;
    }));
  }
  Sources all;
  for (auto& part : parts) {
    for (auto& [family, sources] : part.get()) all[family].merge(sources);
  }
  std::map<std::string, std::size_t> counts;
  for (const auto& [family, sources] : all) counts[family] = sources.size();
  return counts;
}

Status choose_machine(const SpacesArguments& arguments, DeclareOptions& options) {
  if (!arguments.winners.empty()) {
    const auto table = ReplayTable::load(arguments.winners);
    if (!table) return table.error();
    options.machine = table->machine();
    options.target = table->target();
    options.winners = winners_of(*table, options.problems);
    for (const Problem& problem : options.problems) options.best.push_back(fastest_of(*table, problem, kOwnBest));
    return ok_status();
  }
  const auto target = parse_target(arguments.target);
  if (!target) return target.error();
  const auto machine = model::known_machine(arguments.machine);
  if (!machine) {
    return bad_input(fmt::format("unknown machine '{}'; accepted: {}, or --winners TABLE", printable(arguments.machine),
                                 model::known_machine_names()));
  }
  options.target = *target;
  options.machine = *machine;
  return ok_status();
}

Result<int> declare(const SpacesArguments& arguments) {
  const auto shapes = load_shapes(arguments.shapes_file);
  if (!shapes) return shapes.error();
  auto problems = arguments.problem.problems_of(*shapes);
  if (!problems) return problems.error();
  DeclareOptions options;
  std::set<std::string> seen;
  for (Problem& problem : *problems) {
    if (seen.insert(to_string(problem)).second) options.problems.push_back(std::move(problem));
  }
  options.recipes = arguments.recipes;
  options.seed = arguments.seed;
  if (const Status chosen = choose_machine(arguments, options); !chosen) return chosen.error();
  const auto file_name = [](const std::string& path) { return std::filesystem::path(path).filename().string(); };
  options.provenance = {{"shapes", file_name(arguments.shapes_file)}, {"recipes", arguments.recipes}};
  if (!arguments.winners.empty()) options.provenance["winners"] = file_name(arguments.winners);
  const auto spaces = declare_spaces(options);
  if (!spaces) return spaces.error();
  if (const Status saved = spaces->save(arguments.out); !saved) return saved.error();
  std::size_t sources = 0;
  std::string families;
  for (const auto& [family, count] : count_sources(*spaces, options.machine)) {
    sources += count;
    families += fmt::format("{}{} {}", families.empty() ? "" : ", ", family, count);
  }
  fmt::print("{}: {} recipes of each of {} problems, {} in all; kernels to compile: {} ({})\n", arguments.out,
             arguments.recipes, spaces->problems().size(), spaces->recipes().size(), sources, families);
  return kExitOk;
}

}  // namespace

void add_spaces_dataset(CLI::App& dataset, Run& run) {
  auto arguments = std::make_shared<SpacesArguments>();
  CLI::App* command = dataset.add_subcommand("spaces", "Declare the recipes that a dense sweep measures");
  command->footer(
      "Of each problem so many legal recipes, good and poor, from the performance model, what won elsewhere, "
      "neighbours\n"
      "of these and chance; most are shared by all problems. The same options make the same file. `warpsmith sweep`\n"
      "measures it, `warpsmith dataset replay --spaces` makes the table.");
  arguments->problem.layout = "tn";
  command->add_option("--shapes", arguments->shapes_file, "File with one shape a line")->required();
  command->add_option("--layout", arguments->problem.layout, "nn, tn, nt, tt or both")->capture_default_str();
  command->add_option("--type", arguments->problem.element, "f16 or bf16")->capture_default_str();
  command->add_option("--acc", arguments->problem.accumulator, "f32 or f16")->capture_default_str();
  command->add_option("--recipes", arguments->recipes, "Of each problem")
      ->check(CLI::Range(std::size_t{1}, std::size_t{100000}))
      ->capture_default_str();
  command->add_option("--seed", arguments->seed, "Seed of what is drawn by chance")->capture_default_str();
  command->add_option("--winners", arguments->winners,
                      "Replay table: its machine and target, and what did best on its problems");
  command->add_option("--machine", arguments->machine,
                      "Without --winners: what is legal on " + model::known_machine_names());
  command->add_option("--target", arguments->target, "Without --winners: sm90 or sm80")->capture_default_str();
  command->add_option("--out", arguments->out, "File to write (JSON lines)")->required();
  command->callback([arguments, &run] {
    run = [arguments] {
      const auto code = declare(*arguments);
      return code ? *code : report(code.error());
    };
  });
}

}  // namespace warpsmith::cli
