// `warpsmith bench`: measures given recipes, or a family's starting points, against the baselines.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "base/paths.h"
#include "base/text.h"
#include "cli.h"
#include "devices.h"
#include "problem/grids.h"
#include "progress.h"
#include "search/conclude.h"
#include "search/trials.h"
#include "table.h"

namespace warpsmith::cli {

namespace {

struct BenchArguments {
  ProblemOptions problem;
  DeviceOptions device;
  std::string shapes_file, grid;
  std::string recipe;
  std::string family;
  int first = 4;
  std::string effort = "500ms";
  bool verify = false;
  bool json = false;
  std::uint64_t seed = 1;
};

struct BenchRow {
  Problem problem;
  std::string recipe;                    // short form; empty when the family has none for this problem
  Verdict verdict;                       // of the fastest recipe tried, or of the last that failed
  std::optional<Conclusion> conclusion;  // absent with --verify and when nothing was accepted
};

class BenchCommand {
 public:
  explicit BenchCommand(const BenchArguments& arguments) : arguments_(arguments) {}
  Result<int> run();

 private:
  Result<std::vector<Problem>> problems() const;
  Result<std::vector<Recipe>> recipes_for(const Problem& problem, const OpenDevice& device) const;
  // Compiles everything in parallel; measuring then finds it in the cache.
  void compile_ahead(const std::vector<Problem>& list, const OpenDevice& device, const Compiler& compiler,
                     ProgressLine& line) const;
  Result<BenchRow> measure(const Problem& problem, OpenDevice& device, const Compiler& compiler) const;
  void print_row(const BenchRow& row, const OpenDevice& device) const;

  const BenchArguments& arguments_;
  double effort_seconds_ = 0;
};

Result<std::vector<Problem>> BenchCommand::problems() const {
  const int sources = !arguments_.shapes_file.empty() + !arguments_.grid.empty() +
                      (!arguments_.problem.shape_words.empty() || !arguments_.problem.mnk.empty());
  if (sources > 1) return bad_input("give the shape once: M N K, --shapes FILE or --grid NAME");
  if (sources == 0 || (arguments_.shapes_file.empty() && arguments_.grid.empty())) return arguments_.problem.problems();
  const auto shapes = arguments_.grid.empty() ? load_shapes(arguments_.shapes_file) : named_grid(arguments_.grid);
  if (!shapes) return shapes.error();
  return arguments_.problem.problems_of(*shapes);
}

Result<std::vector<Recipe>> BenchCommand::recipes_for(const Problem& problem, const OpenDevice& device) const {
  if (!arguments_.recipe.empty()) {
    const auto recipe = parse_recipe(arguments_.recipe);
    if (!recipe) return recipe.error();
    return std::vector<Recipe>{*recipe};
  }
  std::vector<Recipe> recipes;
  for (const Family* family : families_for(device.target)) {
    if (!arguments_.family.empty() && family->name != arguments_.family) continue;
    const auto starts = family->starting_points(problem, device.evaluator->machine());
    for (std::size_t i = 0; i < starts.size() && i < static_cast<std::size_t>(arguments_.first); ++i) {
      recipes.push_back(starts[i]);
    }
  }
  return recipes;
}

void BenchCommand::compile_ahead(const std::vector<Problem>& list, const OpenDevice& device, const Compiler& compiler,
                                 ProgressLine& line) const {
  std::map<std::string, Candidate> distinct;  // by source: many problems share one
  for (const Problem& problem : list) {
    const auto recipes = recipes_for(problem, device);
    if (!recipes) continue;
    for (const Recipe& recipe : *recipes) {
      auto candidate = generate(recipe, problem, device.evaluator->machine());
      if (candidate) distinct.try_emplace(candidate->source, std::move(*candidate));
    }
  }
  std::vector<const Candidate*> queue;
  for (const auto& [source, candidate] : distinct) queue.push_back(&candidate);
  std::atomic<std::size_t> taken{0}, done{0};
  std::vector<std::jthread> workers;
  for (int i = 0; i < available_threads(); ++i) {
    workers.emplace_back([&] {
      for (std::size_t at = taken++; at < queue.size() && !interrupted(); at = taken++) {
        // An error comes up again, with its verdict, when the recipe is measured.
        static_cast<void>(compiler.compile(*queue[at]).ok());
        ++done;
      }
    });
  }
  while (done < queue.size() && !interrupted()) {
    line.update(static_cast<double>(done) / static_cast<double>(queue.size()),
                fmt::format("compiling {} of {}", done.load(), queue.size()));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

Result<BenchRow> BenchCommand::measure(const Problem& problem, OpenDevice& device, const Compiler& compiler) const {
  const auto recipes = recipes_for(problem, device);
  if (!recipes) return recipes.error();
  BenchRow row{problem, {}, {}, {}};
  row.verdict.outcome = verdict::Illegal{"starting_points", "no legal recipe for this problem"};
  std::optional<Recipe> best;
  double best_us = 0;
  for (const Recipe& recipe : *recipes) {
    Verdict verdict;
    const auto candidate = generate(recipe, problem, device.evaluator->machine());
    if (!candidate) return candidate.error();
    const auto artifact = compiler.compile(*candidate);
    if (!artifact && artifact.error().kind == ErrorKind::environment) return artifact.error();
    if (artifact && !resource_gate(artifact->resources).passed) {
      verdict.outcome = verdict::Wrong{resource_gate(artifact->resources)};
    } else if (artifact) {
      verdict = device.evaluator->evaluate(problem, *candidate, *artifact, 0, {});
    } else {
      verdict.outcome = verdict::CompileError{artifact.error().message};
    }
    const auto* accepted = verdict.accepted();
    if (accepted == nullptr) {  // a failure is never hidden by a recipe that did better
      row.recipe = to_short_string(recipe);
      row.verdict = verdict;
      return row;
    }
    if (best && !(accepted->measurement.cold.median_us < best_us)) continue;
    best = recipe;
    best_us = accepted->measurement.cold.median_us;
    row.recipe = to_short_string(recipe);
    row.verdict = verdict;
  }
  if (!best || arguments_.verify) return row;
  ConcludeOptions options;
  options.scope = {problem, device.evaluator->machine(), device.target, device.threads};
  options.comparison_effort.seconds = effort_seconds_;
  auto conclusion = conclude_with(*best, options, compiler, *device.evaluator);
  if (!conclusion && conclusion.error().kind == ErrorKind::environment) return conclusion.error();
  if (conclusion) {
    row.conclusion = std::move(*conclusion);
  } else {
    row.verdict.outcome = verdict::Failed{conclusion.error().message};
  }
  return row;
}

void BenchCommand::print_row(const BenchRow& row, const OpenDevice& device) const {
  const auto* accepted = row.verdict.accepted();
  if (arguments_.json) {
    nlohmann::json json = {{"problem", to_string(row.problem)},
                           {"m", row.problem.m},
                           {"n", row.problem.n},
                           {"k", row.problem.k},
                           {"layout", to_string(row.problem.layout)},
                           {"target", to_string(device.target)},
                           {"threads", device.threads},
                           {"recipe", row.recipe},
                           {"verdict", row.verdict}};
    if (row.conclusion) {
      json["conclusion"] = to_json(*row.conclusion);
      const double ours = row.conclusion->candidate().cold.median_us;
      if (const auto* same = row.conclusion->fastest_baseline(to_string(row.problem.layout))) {
        json["fastest_baseline"] = same->subject;
        json["speedup"] = same->cold.median_us / ours;
        json["speedup_warm"] = same->warm.median_us / row.conclusion->candidate().warm.median_us;
      }
      if (const auto* any = row.conclusion->fastest_baseline()) json["speedup_any_layout"] = any->cold.median_us / ours;
    }
    fmt::print("{}\n", json.dump());
  } else {
    std::string text = fmt::format("{:<28} {:<11}", to_string(row.problem), row.verdict.kind());
    if (row.conclusion) {
      const double ours = row.conclusion->candidate().cold.median_us;
      text += fmt::format(" {:>9} us", significant(ours));
      if (const auto* same = row.conclusion->fastest_baseline(to_string(row.problem.layout))) {
        text += fmt::format("  {:.3f} x {:<22}", same->cold.median_us / ours, same->subject);
      }
      text += " " + row.recipe;
    } else if (accepted != nullptr) {
      text += fmt::format(" {:>9} us  {}", significant(accepted->measurement.cold.median_us), row.recipe);
    } else {
      text += fmt::format(" {}  [{}]", row.verdict.describe(), row.recipe);
    }
    fmt::print("{}\n", text);
  }
  std::fflush(stdout);
}

Result<int> BenchCommand::run() {
  const auto list = problems();
  if (!list) return list.error();
  const auto effort = parse_duration(arguments_.effort);
  if (!effort) return effort.error();
  effort_seconds_ = *effort;
  if (!arguments_.family.empty() && find_family(arguments_.family) == nullptr) {
    return bad_input(fmt::format("unknown family '{}'; accepted: {}", printable(arguments_.family), family_names()));
  }
  if (!arguments_.recipe.empty()) {
    if (const auto recipe = parse_recipe(arguments_.recipe); !recipe) return recipe.error();
  }
  auto device = open_device(arguments_.device, arguments_.seed);
  if (!device) return device.error();
  const Compiler compiler({.cache = cache_dir()});
  ProgressLine line(arguments_.json);
  compile_ahead(*list, *device, compiler, line);
  std::size_t done = 0, accepted = 0;
  for (const Problem& problem : *list) {
    if (interrupted()) break;
    line.update(static_cast<double>(done) / static_cast<double>(list->size()), to_string(problem));
    const auto row = measure(problem, *device, compiler);
    if (!row) return row.error();
    line.clear();
    print_row(*row, *device);
    ++done;
    if (row->verdict.accepted() != nullptr) ++accepted;
  }
  if (!arguments_.json && list->size() > 1) fmt::print("{} of {} problems accepted\n", accepted, list->size());
  if (interrupted()) return kExitInterrupted;
  return accepted == list->size() ? kExitOk : kExitFailed;
}

}  // namespace

void add_bench_command(CLI::App& app, Run& run) {
  auto arguments = std::make_shared<BenchArguments>();
  CLI::App* command = app.add_subcommand("bench", "Measure recipes against the baselines");
  command->footer(
      "Proves each recipe (all gates), times it, and compares the fastest one with every baseline, cold and warm,\n"
      "interleaved in one process. Without --recipe, the starting points of the families that the target runs are "
      "taken.");
  arguments->problem.add_to(*command);
  command->add_option("--shapes", arguments->shapes_file, "File with one shape a line");
  command->add_option("--grid", arguments->grid, "Named set of shapes: cuda-l2");
  arguments->device.add_to(*command);
  command->add_option("--recipe", arguments->recipe, "The recipe to measure, in its text form");
  command->add_option("--family", arguments->family, "Only the starting points of this family");
  command->add_option("--first", arguments->first, "How many starting points of each family to try")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--effort", arguments->effort, "Time to spend on each subject of a comparison")
      ->capture_default_str();
  command->add_flag("--verify", arguments->verify, "Gates and a short timing only, no baselines");
  command->add_option("--seed", arguments->seed, "Seed of the inputs")->capture_default_str();
  command->add_flag("--json", arguments->json, "Print one JSON object a problem");
  command->callback([arguments, &run] {
    run = [arguments] {
      const auto code = BenchCommand(*arguments).run();
      return code ? *code : report(code.error());
    };
  });
}

}  // namespace warpsmith::cli
