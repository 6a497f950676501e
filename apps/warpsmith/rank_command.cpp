// `warpsmith rank`: what the performance model makes of a problem, or how it compares with measurements.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <set>

#include "archive/archive.h"
#include "base/text.h"
#include "choice_report.h"
#include "cli.h"
#include "devices.h"
#include "evaluate/replay/replay.h"
#include "library/wisdom_index.h"
#include "model/known_machines.h"
#include "model/rank.h"
#include "report/table.h"
#include "search/model_report.h"

namespace warpsmith::cli {

namespace {

struct RankArguments {
  ProblemOptions problem;
  DeviceOptions device;
  std::string machine, against, wisdom;
  std::vector<std::string> recipes;
  int count = 16;
  bool json = false;
};

struct Place {
  Machine machine;
  Target target = Target::sm90;
};

// The machine to estimate for: of --machine, of a replay table, or the device.
Result<Place> find_place(const RankArguments& arguments) {
  const std::string& target_name = arguments.device.target;
  if (target_name.rfind("replay:", 0) == 0) {
    if (!arguments.machine.empty()) return bad_input("--machine and --target replay:FILE name two machines; give one");
    const auto table = ReplayTable::load(target_name.substr(7));
    if (!table) return table.error();
    return Place{table->machine(), table->target()};
  }
  if (!arguments.machine.empty()) {
    const auto machine = model::known_machine(arguments.machine);
    if (!machine) {
      return bad_input(fmt::format("unknown machine '{}'; accepted: {}", printable(arguments.machine),
                                   model::known_machine_names()));
    }
    const auto target = target_name == "auto" ? Result<Target>(Target::sm90) : parse_target(target_name);
    if (!target) return target.error();
    return Place{*machine, *target};
  }
  const auto device = open_device(arguments.device, 1);
  if (!device) return device.error();
  if (!is_cuda(device->target) && !device->note.empty()) {
    return environment_error(
        fmt::format("{}; --machine {} estimates for one that is not here", device->note, model::known_machine_names()));
  }
  return Place{device->evaluator->machine(), device->target};
}

// Given ones, else the model's own.
Result<std::vector<model::Ranked>> ranked_recipes(const RankArguments& arguments, const Problem& problem,
                                                  const Place& place) {
  if (arguments.recipes.empty()) {
    return model::rank(problem, place.machine, place.target, static_cast<std::size_t>(arguments.count));
  }
  std::vector<model::Ranked> list;
  for (const std::string& text : arguments.recipes) {
    const auto recipe = parse_recipe(text);
    if (!recipe) return recipe.error();
    if (!model::covers(recipe->family())) {
      return bad_input(fmt::format("the model knows CUDA kernels, not the {} family", recipe->family().name));
    }
    if (const auto violation = find_violation(*recipe, &problem, place.machine)) {
      return bad_input(
          fmt::format("'{}' is not legal for {}: {}", to_short_string(*recipe), to_string(problem), violation->reason));
    }
    list.push_back({*recipe, model::estimate(*recipe, problem, place.machine)});
  }
  return list;
}

Table rank_table(const Problem& problem, const std::vector<model::Ranked>& list) {
  using Style = Column::Style;
  const auto time = [](const char* key, const char* title) { return Column{key, title, "us", Style::fixed, 2}; };
  Table table(to_string(problem), {{"rank", "#", "", Style::number},
                                   time("time_us", "time"),
                                   {"limiter", "limiter", "", Style::text},
                                   time("tensor_us", "tensor"),
                                   time("l2_us", "L2"),
                                   time("dram_us", "DRAM"),
                                   time("reduce_us", "reduce"),
                                   time("epilogue_us", "epilogue"),
                                   time("latency_us", "latency"),
                                   {"occupancy", "blocks/SM", "", Style::fixed},
                                   {"waves", "waves", "", Style::fixed, 2},
                                   {"recipe", "recipe", "", Style::text}});
  std::int64_t place = 0;
  for (const model::Ranked& each : list) {
    const model::Estimate& e = each.estimate;
    table.add({++place, e.time_us, e.limiter, e.tensor_us, e.l2_us, e.dram_us, e.reduce_us, e.epilogue_us, e.latency_us,
               e.occupancy, e.waves, to_short_string(each.recipe)});
  }
  return table;
}

Table agreement_table(const std::vector<ModelReportRow>& rows) {
  using Style = Column::Style;
  const auto ratio = [](const char* key, const char* title) { return Column{key, title, "", Style::fixed, 3}; };
  const auto number = [](const char* key, const char* title) { return Column{key, title, "", Style::number}; };
  Table table("best measured time over that of the model's choice",
              {{"log2_mnk", "log2(MNK)", "", Style::text},
               number("problems", "problems"),
               number("recipes", "recipes"),
               ratio("best_over_first", "first"),
               ratio("best_over_top16", "first 16"),
               ratio("worst_first", "worst first"),
               ratio("bias", "bias"),
               ratio("spread", "error"),
               number("ranked_first_problems", "rank 1 measured"),
               ratio("best_over_ranked_first", "rank 1"),
               number("ranked_top16_problems", "ranks 1-16 measured"),
               ratio("best_over_ranked_top16", "ranks 1-16")});
  const auto count = [](std::size_t value) { return static_cast<std::int64_t>(value); };
  const auto shown = [](std::size_t problems, double value) { return problems > 0 ? Cell(value) : Cell(); };
  for (const ModelReportRow& row : rows) {
    table.add({row.bucket, count(row.problems), count(row.recipes), row.best_over_first, row.best_over_top,
               row.worst_first, row.bias, row.spread, count(row.ranked_first),
               shown(row.ranked_first, row.best_over_ranked_first), count(row.ranked_top),
               shown(row.ranked_top, row.best_over_ranked_top)});
  }
  return table;
}

bool is_archive(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string head(15, '\0');
  return file.read(head.data(), 15) && head == "SQLite format 3";
}

// A replay table, or an archive of one CUDA machine and target.
Result<ReplayTable> load_measurements(const std::string& path) {
  if (!is_archive(path)) return ReplayTable::load(path);
  const auto archive = Archive::open(path);
  if (!archive) return archive.error();
  const auto scopes = (*archive)->scopes();
  if (!scopes) return scopes.error();
  std::set<std::string> names;
  ReplaySelection selection;
  for (const Archive::Scope& scope : *scopes) {
    if (!is_cuda(scope.target)) continue;
    names.insert(fmt::format("{} {}", scope.machine.id(), to_string(scope.target)));
    selection = {scope.machine.id(), scope.target, scope.threads};
  }
  if (names.empty()) return bad_input(fmt::format("{} holds no measurement of a CUDA device", path));
  if (names.size() > 1) {
    return bad_input(
        fmt::format("{} holds several machines or targets; choose one with `warpsmith dataset replay`", path));
  }
  return export_replay_table(**archive, selection);
}

Result<Table> judge_choices(const ReplayTable& table, const std::string& path) {
  auto wisdom = library::WisdomIndex::load(path);
  if (!wisdom) return wisdom.error();
  if (!wisdom->header().same_machine(wisdom_header(table.machine(), table.target(), table.threads()))) {
    return bad_input(fmt::format("{} is of another machine or target than {}", path, table.machine().name));
  }
  const auto rows = report_choices(table, std::make_shared<const library::WisdomIndex>(std::move(*wisdom)));
  if (rows.empty()) return bad_input(fmt::format("no problem that was measured has an entry in {}", path));
  return choice_table(rows);
}

Result<int> print_agreement(const RankArguments& arguments) {
  const auto table = load_measurements(arguments.against);
  if (!table) return table.error();
  const auto rows = report_model(*table);
  if (rows.empty()) {
    return bad_input(fmt::format("{} holds no time of a recipe that the model knows", arguments.against));
  }
  const Table shown = agreement_table(rows);
  std::optional<Table> choices;
  if (!arguments.wisdom.empty()) {
    const auto judged = judge_choices(*table, arguments.wisdom);
    if (!judged) return judged.error();
    choices = *judged;
  }
  if (arguments.json) {
    nlohmann::json json = {{"machine", table->machine().name}, {"agreement", shown.json()}};
    if (choices) json["choices"] = choices->json();
    fmt::print("{}\n", json.dump());
  } else {
    fmt::print("{}", shown.text());
    if (choices) fmt::print("\n{}", choices->text());
  }
  return kExitOk;
}

Result<int> run_rank(const RankArguments& arguments) {
  if (arguments.count < 1) return bad_input(fmt::format("--count {}; accepted: 1 or more", arguments.count));
  if (!arguments.against.empty()) {
    if (!arguments.problem.shape_words.empty() || !arguments.problem.mnk.empty() || !arguments.recipes.empty()) {
      return bad_input("--against judges all problems that the file holds: give no shape and no --recipe");
    }
    return print_agreement(arguments);
  }
  if (!arguments.wisdom.empty()) return bad_input("--wisdom is judged by measurements: give --against too");
  const auto problems = arguments.problem.problems();
  if (!problems) return problems.error();
  const auto place = find_place(arguments);
  if (!place) return place.error();
  if (!is_cuda(place->target)) return bad_input("the model knows CUDA kernels; accepted for --target: sm90, sm80");
  bool empty = false;
  for (const Problem& problem : *problems) {
    const auto list = ranked_recipes(arguments, problem, *place);
    if (!list) return list.error();
    empty = empty || list->empty();
    const Table table = rank_table(problem, *list);
    if (arguments.json) {
      fmt::print(
          "{}\n",
          nlohmann::json({{"problem", to_string(problem)}, {"machine", place->machine.name}, {"recipes", table.json()}})
              .dump());
    } else {
      fmt::print("{}", table.text());
    }
  }
  return empty ? kExitFailed : kExitOk;  // some problem is beyond all families
}

}  // namespace

void add_rank_command(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("rank", "What the performance model expects of recipes, without running them");
  auto arguments = std::make_shared<RankArguments>();
  arguments->problem.add_to(*command);
  arguments->device.add_to(*command);
  command->add_option("--machine", arguments->machine,
                      "Estimate for this machine, whether it is here or not: " + model::known_machine_names());
  command->add_option("--count", arguments->count, "Recipes to rank")->capture_default_str();
  command->add_option("--recipe", arguments->recipes, "Explain this recipe instead; may be given several times");
  command->add_option("--against", arguments->against,
                      "Compare the model with the measurements of an archive or a replay table");
  command->add_option("--wisdom", arguments->wisdom,
                      "With --against: also judge what the library would choose by this file for shapes that it lacks");
  command->add_flag("--json", arguments->json, "Print as JSON");
  command->callback([arguments, &run] {
    run = [arguments] {
      const auto code = run_rank(*arguments);
      return code ? *code : report(code.error());
    };
  });
}

}  // namespace warpsmith::cli
