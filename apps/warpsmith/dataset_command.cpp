// `warpsmith dataset replay`: the archive's measurements as a table that searches can be replayed on; `import` is the
// way back.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "archive/archive.h"
#include "base/file.h"
#include "base/paths.h"
#include "baseline_times.h"
#include "cli.h"
#include "dataset_llm.h"
#include "dataset_spaces.h"
#include "evaluate/replay/kernel_tuner.h"
#include "evaluate/replay/replay.h"

namespace warpsmith::cli {

namespace {

struct ReplayArguments {
  std::vector<std::string> archives;
  std::string out;
  std::string spaces;
  std::vector<std::string> references;
  std::string machine;
  std::string target;
  int threads = 0;
};

// The archives' machine, target and thread count when they hold one choice only, or the one that the options single
// out.
Result<ReplaySelection> select(const std::vector<Archive*>& archives, const ReplayArguments& arguments) {
  std::vector<ReplaySelection> found;
  std::string listing;
  for (Archive* archive : archives) {
    const auto scopes = archive->scopes();
    if (!scopes) return scopes.error();
    for (const Archive::Scope& scope : *scopes) {
      const ReplaySelection selection{scope.machine.id(), scope.target, scope.threads};
      const bool wanted = (arguments.machine.empty() || arguments.machine == selection.machine) &&
                          (arguments.target.empty() || arguments.target == to_string(selection.target)) &&
                          (arguments.threads == 0 || arguments.threads == selection.threads);
      const bool known = std::any_of(found.begin(), found.end(), [&](const ReplaySelection& other) {
        return other.machine == selection.machine && other.target == selection.target &&
               other.threads == selection.threads;
      });
      if (!wanted || known) continue;
      found.push_back(selection);
      listing += fmt::format("{}--machine '{}' --target {} --threads {}", listing.empty() ? "" : "; ",
                             selection.machine, to_string(selection.target), selection.threads);
    }
  }
  if (found.empty()) return bad_input("the archive holds nothing that fits --machine, --target and --threads");
  if (found.size() > 1) return bad_input("the archive holds several machines or targets; choose one of: " + listing);
  return found.front();
}

// What a survey measured of the tuned baseline, for packed FP16 problems that the table has.
Status add_references(const std::string& path, ReplayTable& table) {
  const auto times = load_baseline_times(path);
  if (!times) return times.error();
  for (const Problem& problem : table.problems()) {
    const bool plain = problem.element == ElementType::f16 && problem.packed() && !problem.scaled();
    const auto found = plain ? times->find(baseline_key(problem)) : times->end();
    if (found == times->end()) continue;
    if (const Status status = table.set_reference(problem, found->second); !status) return status;
  }
  return ok_status();
}

void print_unfinished(const ReplayTable& table) {
  std::size_t whole = 0;
  std::string unfinished;
  for (const Problem& problem : table.held_out()) {
    const std::size_t entries = table.entries(problem), declared = table.declared(problem);
    whole += entries >= declared ? 1 : 0;
    if (entries < declared) unfinished += fmt::format("  {}: {} of {}\n", to_string(problem), entries, declared);
  }
  fmt::print("held out: {} problems, {} measured whole\n", table.held_out().size(), whole);
  if (!unfinished.empty()) fmt::print("not measured whole, to be left out of comparisons:\n{}", unfinished);
}

Result<int> export_replay(const ReplayArguments& arguments) {
  std::vector<std::string> paths = arguments.archives;
  if (paths.empty()) paths.push_back((data_dir() / "archive.sqlite").string());
  std::vector<std::unique_ptr<Archive>> opened;
  std::vector<Archive*> archives;
  for (const std::string& path : paths) {
    if (!std::filesystem::exists(path)) return bad_input(fmt::format("there is no archive {}", path));
    auto archive = Archive::open(path);
    if (!archive) return archive.error();
    archives.push_back(archive->get());
    opened.push_back(std::move(*archive));
  }
  auto selection = select(archives, arguments);
  if (!selection) return selection.error();
  std::optional<DeclaredSpaces> spaces;
  if (!arguments.spaces.empty()) {
    auto loaded = DeclaredSpaces::load(arguments.spaces);
    if (!loaded) return loaded.error();
    spaces = std::move(*loaded);
    selection->spaces = &*spaces;
  }
  auto table = export_replay_table(archives, *selection, {{"exported_by", "warpsmith " WARPSMITH_VERSION}});
  if (!table) return table.error();
  for (const std::string& path : arguments.references) {
    if (const Status status = add_references(path, *table); !status) return status.error();
  }
  if (const Status status = table->save(arguments.out); !status) return status.error();
  fmt::print("{}: {} measurements of {} problems\n", arguments.out, table->size(), table->problems().size());
  const auto problems = table->problems();
  const auto referred = std::count_if(problems.begin(), problems.end(),
                                      [&](const Problem& problem) { return table->reference_us(problem) > 0; });
  if (referred > 0 && referred < static_cast<std::ptrdiff_t>(problems.size())) {
    fmt::print("{} of {} problems have a baseline's time: training refers to the physical floor unless all have one\n",
               referred, problems.size());
  }
  if (spaces) print_unfinished(*table);
  return kExitOk;
}

struct ImportArguments {
  std::string replay, archive;
};

Result<int> import_replay(const ImportArguments& arguments) {
  const auto table = ReplayTable::load(arguments.replay);
  if (!table) return table.error();
  const std::string path = arguments.archive.empty() ? (data_dir() / "archive.sqlite").string() : arguments.archive;
  const auto archive = Archive::open(path);
  if (!archive) return archive.error();
  const auto added = import_replay_table(**archive, *table);
  if (!added) return added.error();
  fmt::print("{}: {} of {} measurements were new\n", path, *added, table->size());
  return kExitOk;
}

struct KernelTunerArguments {
  std::string replay, problem, out;
};

Result<int> export_kernel_tuner(const KernelTunerArguments& arguments) {
  const auto problem = parse_problem(arguments.problem);
  if (!problem) return problem.error();
  const auto table = ReplayTable::load(arguments.replay);
  if (!table) return table.error();
  const auto cache = kernel_tuner_cache(*table, *problem);
  if (!cache) return cache.error();
  const Status status = write_file_atomic(arguments.out, kernel_tuner_text(*cache));
  if (!status) return status.error();
  fmt::print("{}: {} recipes of {}\n", arguments.out, cache->at("cache").size(), to_string(*problem));
  return kExitOk;
}

}  // namespace

void add_dataset_command(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("dataset", "Export what the archive holds, and import");
  command->require_subcommand(1);
  add_language_datasets(*command, run);
  add_spaces_dataset(*command, run);
  auto arguments = std::make_shared<ReplayArguments>();
  CLI::App* replay = command->add_subcommand("replay", "Measurements as a table for --target replay:FILE");
  replay->add_option("--out", arguments->out, "File to write (JSON lines)")->required();
  replay->add_option("--archive", arguments->archives,
                     "Archive file, again for each: later ones count before earlier ones; default: archive.sqlite in "
                     "the data directory");
  replay->add_option("--spaces", arguments->spaces,
                     "Declared spaces: their problems are held out, and of these only what was declared is taken");
  replay->add_option("--references", arguments->references,
                     "PREFIX-offline.csv of a survey, again for each: its tuned baselines are what speed-ups refer to");
  replay->add_option("--machine", arguments->machine, "Machine, where the archive knows several");
  replay->add_option("--target", arguments->target, "Target, where the archive knows several");
  replay->add_option("--threads", arguments->threads, "Thread count, where the archive knows several");
  replay->callback([arguments, &run] {
    run = [arguments] {
      const auto code = export_replay(*arguments);
      return code ? *code : report(code.error());
    };
  });
  auto from = std::make_shared<ImportArguments>();
  CLI::App* back = command->add_subcommand(
      "import", "A replay table's measurements into an archive, for tune and survey to begin from");
  back->add_option("--replay", from->replay, "Replay table")->required();
  back->add_option("--archive", from->archive, "Archive file; default: archive.sqlite in the data directory");
  back->callback([from, &run] {
    run = [from] {
      const auto code = import_replay(*from);
      return code ? *code : report(code.error());
    };
  });
  auto tuner = std::make_shared<KernelTunerArguments>();
  CLI::App* cache =
      command->add_subcommand("kernel-tuner", "One problem of a replay table as Kernel Tuner's cache file");
  cache->add_option("--replay", tuner->replay, "Replay table")->required();
  cache->add_option("--problem", tuner->problem, "As in the table: \"64x64x64 tn f16 f32\"")->required();
  cache->add_option("--out", tuner->out, "File to write (JSON)")->required();
  cache->callback([tuner, &run] {
    run = [tuner] {
      const auto code = export_kernel_tuner(*tuner);
      return code ? *code : report(code.error());
    };
  });
}

}  // namespace warpsmith::cli
