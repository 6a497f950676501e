// `warpsmith export`: tuned kernels as self-contained CUDA files.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "archive/archive.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/paths.h"
#include "cli.h"
#include "codegen/export_cuda.h"
#include "library/pack_builder.h"
#include "problem/grids.h"
#include "recipe/recipe.h"
#include "search/kernel_files.h"
#include "search/named_candidate.h"
#include "wisdom/wisdom.h"

namespace warpsmith::cli {

namespace {

struct ExportArguments {
  ProblemOptions problem;
  std::string shapes, grid, wisdom, archive, output = ".";
  bool pdl = false, candidate = false, json = false;
};

// What is known of one problem's kernel.
struct Known {
  WisdomEntry entry;
  Machine machine;
  Target target = Target::sm90;
};

class ExportCommand {
 public:
  explicit ExportCommand(const ExportArguments& arguments) : arguments_(arguments) {}
  Result<int> run();

 private:
  Status open_wisdom();
  Status open_archive();
  Result<std::vector<Problem>> wanted() const;
  Result<std::optional<Known>> lookup(const Problem& problem);
  Result<std::optional<Known>> lookup_archive(const Problem& problem);
  Status write_one(const Known& known);
  int finish(std::size_t asked) const;

  const ExportArguments& arguments_;
  std::filesystem::path wisdom_path_;
  std::optional<Wisdom> wisdom_;
  std::unique_ptr<Archive> archive_;
  std::vector<Archive::Scope> scopes_;
  std::vector<ExportedKernel> kernels_;
  std::vector<std::string> written_;
  std::vector<std::string> missing_;
  std::size_t bytes_ = 0;
};

// --wisdom, else the only wisdom file of a CUDA device in wisdom/.
Status ExportCommand::open_wisdom() {
  std::vector<std::filesystem::path> paths;
  if (!arguments_.wisdom.empty()) {
    paths = {arguments_.wisdom};
  } else {
    std::error_code none;
    for (const auto& file : std::filesystem::directory_iterator("wisdom", none)) {
      if (file.path().extension() == ".jsonl") paths.push_back(file.path());
    }
  }
  std::string names;
  for (const auto& path : paths) {
    auto wisdom = Wisdom::load(path);
    if (!wisdom) return wisdom.error();
    if (!is_cuda(wisdom->header().target)) {
      if (arguments_.wisdom.empty()) continue;
      return bad_input(fmt::format("{} is of a CPU; accepted: wisdom of a CUDA device", path.string()));
    }
    names += (names.empty() ? "" : ", ") + path.string();
    if (wisdom_) return bad_input(fmt::format("several wisdom files are here; choose one with --wisdom: {}", names));
    wisdom_ = std::move(*wisdom);
    wisdom_path_ = path;
  }
  return ok_status();
}

Status ExportCommand::open_archive() {
  const std::filesystem::path path =
      arguments_.archive.empty() ? data_dir() / "archive.sqlite" : std::filesystem::path(arguments_.archive);
  if (!std::filesystem::exists(path)) {
    if (arguments_.archive.empty()) return ok_status();
    return bad_input(fmt::format("there is no archive {}", path.string()));
  }
  auto archive = Archive::open(path);
  if (!archive) return archive.error();
  archive_ = std::move(*archive);
  auto scopes = archive_->scopes();
  if (!scopes) return scopes.error();
  scopes_ = std::move(*scopes);
  return ok_status();
}

// The problems that the options name; without any, all of the wisdom file.
Result<std::vector<Problem>> ExportCommand::wanted() const {
  const bool named = !arguments_.problem.shape_words.empty() || !arguments_.problem.mnk.empty();
  if (static_cast<int>(named) + static_cast<int>(!arguments_.shapes.empty()) +
          static_cast<int>(!arguments_.grid.empty()) >
      1) {
    return bad_input("give one of: a shape, --shapes FILE, --grid cuda-l2");
  }
  if (named) return arguments_.problem.problems();
  if (!arguments_.shapes.empty() || !arguments_.grid.empty()) {
    const auto shapes = arguments_.grid.empty() ? load_shapes(arguments_.shapes) : named_grid(arguments_.grid);
    if (!shapes) return shapes.error();
    return arguments_.problem.problems_of(*shapes);
  }
  if (arguments_.wisdom.empty()) {
    return bad_input("nothing to export; accepted: M N K, --mnk M_N_K, --shapes FILE, --grid cuda-l2, --wisdom FILE");
  }
  std::vector<Problem> problems;
  for (const WisdomEntry& entry : wisdom_->entries()) problems.push_back(entry.problem);
  return problems;
}

// The fastest accepted kernel of the latest CUDA machine that the archive knows the problem of.
Result<std::optional<Known>> ExportCommand::lookup_archive(const Problem& problem) {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (!is_cuda(scope->target) || !(scope->problem == problem)) continue;
    const auto best = archive_->best(*scope);
    if (!best) return best.error();
    if (!*best) continue;
    Known known;
    known.machine = scope->machine;
    known.target = scope->target;
    known.entry.problem = problem;
    known.entry.recipe = (*best)->recipe;
    known.entry.source_hash = (*best)->attempt.source_hash;
    known.entry.cold_us = (*best)->cold_us;
    known.entry.date = (*best)->attempt.created;
    known.entry.gates_passed = static_cast<int>((*best)->attempt.verdict.gates.size());
    if (const auto* accepted = (*best)->attempt.verdict.accepted(); accepted != nullptr) {
      known.entry.warm_us = accepted->measurement.warm.median_us;
    }
    return std::optional(known);
  }
  return std::optional<Known>();
}

Result<std::optional<Known>> ExportCommand::lookup(const Problem& problem) {
  if (wisdom_) {
    if (const WisdomEntry* entry = wisdom_->find(problem); entry != nullptr) {
      return std::optional(Known{*entry, library::machine_of(wisdom_->header()), wisdom_->header().target});
    }
  }
  return lookup_archive(problem);
}

std::vector<std::string> notes_of(const Known& known, const std::string& kernel, const std::string& source, bool pdl) {
  const WisdomEntry& entry = known.entry;
  std::vector<std::string> notes;
  const auto add = [&](const char* name, const std::string& text) {
    if (!text.empty()) notes.push_back(fmt::format("{:<12} {}", name, text));
  };
  add(is_free_form_name(kernel) ? "Candidate" : "Recipe", kernel);
  if (pdl) {
    add("Measured",
        fmt::format("{:.4g} us with programmatic dependent launch, operands out of the caches", entry.pdl_us));
  }
  std::string warm;
  if (entry.warm_us > 0) warm = fmt::format(", {:.4g} us with them in the caches", entry.warm_us);
  add(pdl ? "Without" : "Measured", fmt::format("{:.4g} us, operands out of the caches{}", entry.cold_us, warm));
  if (const auto ratio = entry.ratio()) {
    add("Baseline", fmt::format("{}, the fastest library call of this layout: {:.4g} us, {:.4g} us; speed-up {:.3f}",
                                entry.baseline, entry.baseline_us, entry.baseline_warm_us, *ratio));
  }
  add("Gates", entry.gates_passed > 0 ? fmt::format("{} passed", entry.gates_passed) : "");
  add("Device", known.machine.name);
  std::string provenance = entry.date;
  for (const auto& [name, value] : entry.provenance) provenance += fmt::format(", {} {}", name, value);
  if (!entry.commit.empty()) provenance += ", commit " + entry.commit;
  add("Of", provenance);
  const std::string hash = sha256_hex(source);
  if (!pdl && !entry.source_hash.empty() && hash != entry.source_hash) {
    add("Note", "the building blocks have changed since: what was measured is " + entry.source_hash);
  }
  add("Source", fmt::format("SHA-256 {}, of the kernel below before its name got the problem's sizes", hash));
  add("Exported by", "warpsmith " WARPSMITH_VERSION);
  return notes;
}

Status ExportCommand::write_one(const Known& known) {
  const Problem& problem = known.entry.problem;
  const bool pdl = arguments_.pdl && !known.entry.pdl_recipe.empty();
  const std::string& name = pdl ? known.entry.pdl_recipe : known.entry.recipe;
  const Archive::Scope scope{problem, known.machine, known.target, 1};
  const auto candidate = named_candidate(name, scope, archive_.get());
  if (!candidate) return failure(fmt::format("{}: {}", to_string(problem), candidate.error().message));
  if (arguments_.candidate) {
    const auto path = write_kernel(arguments_.output, scope, name, *candidate, archive_.get());
    if (!path) return path.error();
    written_.push_back(path->string());
    bytes_ += candidate->source.size();
    return ok_status();
  }
  auto kernel = export_cuda(*candidate, problem, {notes_of(known, name, candidate->source, pdl), pdl});
  if (!kernel) return kernel.error();
  const std::filesystem::path path = std::filesystem::path(arguments_.output) / (kernel->name + ".cu");
  if (const Status status = write_file_atomic(path, kernel->source); !status) return status;
  written_.push_back(path.string());
  bytes_ += kernel->source.size();
  kernel->source.clear();
  kernels_.push_back(std::move(*kernel));
  return ok_status();
}

int ExportCommand::finish(std::size_t asked) const {
  if (arguments_.json) {
    fmt::print("{}\n", nlohmann::json{{"written", written_}, {"bytes", bytes_}, {"missing", missing_}}.dump());
  } else if (asked == 1 && !written_.empty()) {
    fmt::print("{}\n", written_.front());
  } else {
    fmt::print("{}: {} of {} kernels, {:.1f} MB\n", arguments_.output, written_.size(), asked,
               static_cast<double>(bytes_) / 1e6);
  }
  if (missing_.empty()) return kExitOk;
  const std::string where =
      wisdom_ ? fmt::format("{} or the archive", wisdom_path_.string()) : std::string("the archive");
  return report(
      failure(fmt::format("no kernel of {}{} in {}; find one with warpsmith optimize or tune", missing_.front(),
                          missing_.size() > 1 ? fmt::format(" and {} more", missing_.size() - 1) : "", where)));
}

Result<int> ExportCommand::run() {
  if (arguments_.pdl && arguments_.candidate) return bad_input("--pdl and --candidate exclude one another");
  if (const Status status = open_wisdom(); !status) return status.error();
  const auto problems = wanted();
  if (!problems) return problems.error();
  if (const Status status = open_archive(); !status) return status.error();
  for (const Problem& problem : *problems) {
    if (interrupted()) return kExitInterrupted;
    const auto known = lookup(problem);
    if (!known) return known.error();
    if (!*known) {
      missing_.push_back(to_string(problem));
    } else if (const Status status = write_one(**known); !status) {
      return status.error();
    }
  }
  if (kernels_.size() > 1) {
    const auto path = std::filesystem::path(arguments_.output) / "warpsmith_kernels.h";
    if (const Status status = write_file_atomic(path, export_header(kernels_)); !status) return status.error();
  }
  return finish(problems->size());
}

}  // namespace

void add_export_command(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("export", "Write tuned kernels as self-contained CUDA files");
  auto arguments = std::make_shared<ExportArguments>();
  arguments->problem.add_to(*command);
  command->add_option("--shapes", arguments->shapes, "File of shapes, one a line");
  command->add_option("--grid", arguments->grid, "Named set of shapes: cuda-l2");
  command->add_option("--wisdom", arguments->wisdom,
                      "Wisdom file; without a shape, all of it. Default: the only one in wisdom/, then the archive");
  command->add_option("--archive", arguments->archive, "Archive file; default: archive.sqlite in the data directory");
  command->add_option("--output", arguments->output, "Directory to write to")->capture_default_str();
  command->add_flag(
      "--pdl", arguments->pdl,
      "The kernel that is fastest with programmatic dependent launch, launched so, where one was measured");
  command->add_flag("--candidate", arguments->candidate,
                    "Device source and launch descriptor (JSON), for bench --candidate, in place of a CUDA file");
  command->add_flag("--json", arguments->json, "What was written as JSON");
  command->callback([arguments, &run] {
    run = [arguments] {
      const auto code = ExportCommand(*arguments).run();
      return code ? *code : report(code.error());
    };
  });
}

}  // namespace warpsmith::cli
