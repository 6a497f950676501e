// `warpsmith audit`: judges foreign kernels, given as shared objects or CUDA sources with a C entry, and prints a
// report card for each. The work is done by warpsmith-audit-judge; nothing foreign is loaded here.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>

#include "audit/build_candidate.h"
#include "audit/elf_inspect.h"
#include "audit/judge_client.h"
#include "audit/report_card.h"
#include "audit_journal.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/paths.h"
#include "base/scratch.h"
#include "base/text.h"
#include "build_commit.h"
#include "cli.h"
#include "problem/grids.h"
#include "progress.h"

namespace warpsmith::cli {

namespace fs = std::filesystem;

namespace {

constexpr const char* kEntry = "warpsmith_candidate";
// One shape for each size bucket (log2(MNK) below 24, 28, 32, 36, and beyond), and one that no tile divides.
constexpr Shape kDefaultShapes[] = {{128, 128, 128},    {512, 512, 512},    {1024, 1024, 1024},
                                    {2048, 2048, 2048}, {8192, 8192, 8192}, {777, 555, 333}};

struct AuditArguments {
  std::string path;
  ProblemOptions problem;
  std::string shapes_file, grid, output, effort = "1s", time_limit = "20s";
  std::vector<std::string> includes, readable, flags;
  std::uint64_t seed = 1;
  int device = 0, workspace_mib = 64;
  bool json = false, no_sandbox = false, no_timing = false, resume = false;

  fs::path partial() const { return output + ".partial"; }
};

bool is_candidate(const fs::path& path) { return path.extension() == ".so" || path.extension() == ".cu"; }

class AuditCommand {
 public:
  explicit AuditCommand(const AuditArguments& arguments) : arguments_(arguments), line_(arguments.json) {}

  Result<int> run();

 private:
  Status read_options();
  Status check_output() const;
  Result<std::vector<fs::path>> candidates() const;
  Result<std::vector<Problem>> problems() const;
  Status open_journal(const Machine& machine);
  Result<audit::ReportCard> audit_one(const fs::path& path, audit::JudgeClient& judge);
  Status judge_problems(const fs::path& path, const fs::path& scratch, audit::JudgeClient& judge,
                        audit::ReportCard& card);
  Result<fs::path> make_object(const fs::path& path, audit::ReportCard& card, const fs::path& scratch) const;
  bool knows_everything(const audit::ReportCard& card) const;
  void show(const audit::ReportCard& card, std::size_t number, std::size_t count);
  void print(const std::vector<audit::ReportCard>& cards) const;
  Status save(const std::vector<audit::ReportCard>& cards) const;

  AuditArguments arguments_;
  audit::AuditOptions options_;
  double limit_seconds_ = 0;
  std::vector<Problem> problems_;
  AuditJournal journal_;
  bool many_ = false;  // a directory
  ProgressLine line_;
};

Status AuditCommand::check_output() const {
  if (arguments_.resume && arguments_.output.empty()) return bad_input("--resume goes with --output FILE");
  if (arguments_.output.empty()) return ok_status();
  if (fs::is_directory(arguments_.output)) {
    return bad_input(fmt::format("--output {} is a directory; accepted: a file", printable(arguments_.output, 200)));
  }
  if (!arguments_.resume && fs::exists(arguments_.partial())) {
    return bad_input(
        fmt::format("{} holds results of an audit that did not end; --resume goes on with it, or remove it",
                    printable(arguments_.partial().string(), 200)));
  }
  return ok_status();
}

// Results of two runs stand in one file where nothing differs that they depend on. Problems and candidates may be
// added.
Status AuditCommand::open_journal(const Machine& machine) {
  if (arguments_.output.empty()) return ok_status();
  nlohmann::json options = options_;
  options["include"] = arguments_.includes;
  options["nvcc_flags"] = arguments_.flags;
  auto journal = AuditJournal::open(arguments_.partial(), {{"warpsmith_audit", 1},
                                                           {"options", options},
                                                           {"commit", kBuildCommit},
                                                           {"machine", machine.id()},
                                                           {"versions", machine.versions}});
  if (!journal) return journal.error();
  journal_ = std::move(*journal);
  return ok_status();
}

Status AuditCommand::read_options() {
  if (const Status output = check_output(); !output) return output;
  const auto effort = parse_duration(arguments_.effort);
  if (!effort) return effort.error();
  const auto limit = parse_duration(arguments_.time_limit);
  if (!limit) return limit.error();
  options_.seed = arguments_.seed;
  options_.effort_seconds = *effort;
  options_.limit_seconds = *limit;
  options_.workspace_bytes = static_cast<std::int64_t>(arguments_.workspace_mib) << 20;
  options_.sandbox = !arguments_.no_sandbox;
  options_.timing = !arguments_.no_timing;
  for (const std::string& path : arguments_.readable) {
    if (!fs::exists(path)) return bad_input(fmt::format("--readable '{}': no such file or directory", printable(path)));
    options_.readable.push_back(fs::absolute(path).string());
  }
  for (std::string& path : arguments_.includes) {
    if (!fs::is_directory(path)) return bad_input(fmt::format("--include '{}': no such directory", printable(path)));
    path = fs::absolute(path).string();
  }
  auto list = problems();
  if (!list) return list.error();
  problems_ = std::move(*list);
  return ok_status();
}

Result<std::vector<fs::path>> AuditCommand::candidates() const {
  const fs::path path = arguments_.path;
  std::error_code error;
  if (!fs::exists(path, error))
    return bad_input(fmt::format("'{}': no such file or directory", printable(arguments_.path, 200)));
  if (!fs::is_directory(path)) {
    if (!is_candidate(path)) {
      return bad_input(fmt::format("'{}'; accepted: a shared object (.so), a CUDA source (.cu), or a directory of them",
                                   printable(arguments_.path, 200)));
    }
    return std::vector<fs::path>{path};
  }
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.is_regular_file() && is_candidate(entry.path())) found.push_back(entry.path());
  }
  if (found.empty())
    return bad_input(fmt::format("'{}' holds no .so and no .cu file", printable(arguments_.path, 200)));
  std::sort(found.begin(), found.end());
  return found;
}

Result<std::vector<Problem>> AuditCommand::problems() const {
  const bool words = !arguments_.problem.shape_words.empty() || !arguments_.problem.mnk.empty();
  if (!arguments_.shapes_file.empty() + !arguments_.grid.empty() + words > 1) {
    return bad_input("give the shape once: M N K, --shapes FILE or --grid NAME");
  }
  if (arguments_.problem.layout == "nt" || arguments_.problem.layout == "tt") {
    return bad_input("the entry takes A stored m x k; accepted for --layout: nn, tn, both");
  }
  if (arguments_.problem.scaled || !arguments_.problem.leading_dimensions.empty() ||
      arguments_.problem.accumulator != "f32") {
    return bad_input(
        "the entry takes packed operands and no factors, and promises FP32 sums; accepted: no --scaled, no "
        "--ld, --acc f32");
  }
  if (words) return arguments_.problem.problems();
  Result<std::vector<Shape>> shapes = std::vector<Shape>(std::begin(kDefaultShapes), std::end(kDefaultShapes));
  if (!arguments_.grid.empty()) shapes = named_grid(arguments_.grid);
  if (!arguments_.shapes_file.empty()) shapes = load_shapes(arguments_.shapes_file);
  if (!shapes) return shapes.error();
  return arguments_.problem.problems_of(*shapes);
}

// What is loaded, with what the file itself shows. Error (failed): it is rejected, with the reason.
Result<fs::path> AuditCommand::make_object(const fs::path& path, audit::ReportCard& card,
                                           const fs::path& scratch) const {
  fs::path object = fs::absolute(path);
  if (path.extension() == ".cu") {
    audit::BuildOptions build;
    if (options_.sandbox) build.launcher = executable_dir() / "warpsmith-sandbox";
    build.scratch = scratch;
    build.compute_capability = card.machine.compute_capability;
    build.include_directories = arguments_.includes;
    build.flags = arguments_.flags;
    build.wall_seconds = std::max(120.0, options_.limit_seconds);
    const auto built = audit::build_candidate(path, build);
    if (!built) return built.error();
    object = built->object;
    card.candidate.compiler = built->command;
    card.candidate.compile_seconds = built->seconds;
  }
  const auto facts = audit::inspect_elf_file(object);
  if (!facts) return failure(facts.error().message);
  card.candidate.needed = facts->needed;
  card.candidate.findings = audit::judge_elf(*facts);
  if (!facts->gives(kEntry)) return failure(fmt::format("has no function {} that C can call", kEntry));
  return object;
}

bool AuditCommand::knows_everything(const audit::ReportCard& card) const {
  return std::all_of(problems_.begin(), problems_.end(),
                     [&](const Problem& problem) { return journal_.report(card.candidate, problem) != nullptr; });
}

Result<audit::ReportCard> AuditCommand::audit_one(const fs::path& path, audit::JudgeClient& judge) {
  const auto scratch = ScratchDirectory::create();
  if (!scratch) return scratch.error();
  const auto bytes = read_file(path);
  if (!bytes) return bytes.error();
  audit::ReportCard card;
  card.machine = judge.machine();
  card.wanted = problems_.size();
  card.candidate.path = path.string();
  card.candidate.sha256 = sha256_hex(*bytes);
  card.candidate.kind = path.extension() == ".cu" ? "cuda-source" : "shared-object";
  const AuditJournal::Candidate* known = journal_.candidate(card.candidate.path, card.candidate.sha256);
  if (known != nullptr) {
    card.candidate = known->facts;
    card.rejected = known->rejected;
  }
  if (!card.rejected.empty()) return card;
  if (const Status judged = judge_problems(path, scratch->path(), judge, card); !judged) return judged.error();
  return card;
}

// The object is made only where something is left to judge.
Status AuditCommand::judge_problems(const fs::path& path, const fs::path& scratch, audit::JudgeClient& judge,
                                    audit::ReportCard& card) {
  fs::path object;
  if (!knows_everything(card)) {
    line_.update(0, fmt::format("{}: reading", path.filename().string()));
    const auto made = make_object(path, card, scratch);
    if (!made && made.error().kind == ErrorKind::environment) return made.error();
    if (!made) card.rejected = made.error().message;
    if (const Status kept = journal_.add({card.candidate, card.rejected}); !kept) return kept;
    if (!made) return ok_status();
    object = *made;
  }
  for (std::size_t i = 0; i < problems_.size() && !interrupted(); ++i) {
    if (const auto* known = journal_.report(card.candidate, problems_[i])) {
      card.problems.push_back(*known);
      continue;
    }
    const double done = static_cast<double>(i) / static_cast<double>(problems_.size());
    auto report = judge.audit(object, problems_[i], options_, [&](const std::string& stage) {
      line_.update(done, fmt::format("{} {}: {}", path.filename().string(), to_string(problems_[i]), stage));
    });
    if (!report) return report.error();
    if (card.candidate.kind == "shared-object" && card.candidate.findings.empty() && i == 0) {
      const auto facts = audit::inspect_elf_file(object);
      if (facts && facts->runtime_is_static()) {
        report->not_run["symbols"] = "the CUDA runtime is linked statically: its references hide the kernel's own";
      }
    }
    if (const Status kept = journal_.add(card.candidate, *report); !kept) return kept;
    card.problems.push_back(std::move(*report));
  }
  return ok_status();
}

// One of many, as soon as it is judged.
void AuditCommand::show(const audit::ReportCard& card, std::size_t number, std::size_t count) {
  if (!many_) return;
  line_.clear();
  if (arguments_.json) {
    fmt::print("{}\n", audit::to_json(card).dump());
    std::fflush(stdout);
  } else {
    fmt::print(stderr, "{}/{} {}: {}\n", number, count, card.candidate.path, card.verdict());
  }
}

void AuditCommand::print(const std::vector<audit::ReportCard>& cards) const {
  if (many_ && arguments_.json) return;  // shown as they came
  if (many_) {
    fmt::print("{}", audit::to_table(cards).text());
  } else if (arguments_.json) {
    fmt::print("{}\n", audit::to_json(cards.front()).dump(2));
  } else {
    fmt::print("{}", audit::to_text(cards.front()));
  }
}

Status AuditCommand::save(const std::vector<audit::ReportCard>& cards) const {
  if (arguments_.output.empty()) return ok_status();
  nlohmann::json list = nlohmann::json::array();
  for (const audit::ReportCard& card : cards) list.push_back(audit::to_json(card));
  return write_file_atomic(arguments_.output, (many_ ? list : list.front()).dump(2) + "\n");
}

Result<int> AuditCommand::run() {
  const auto paths = candidates();
  if (!paths) return paths.error();
  if (const Status read = read_options(); !read) return read.error();
  many_ = fs::is_directory(arguments_.path);
  auto judge = audit::JudgeClient::start(arguments_.device);
  if (!judge) return judge.error();
  if (const Status opened = open_journal(judge->machine()); !opened) return opened.error();
  std::vector<audit::ReportCard> cards;
  std::optional<Error> failed;
  for (const fs::path& path : *paths) {
    if (interrupted() || failed) break;
    auto card = audit_one(path, *judge);
    if (card) {
      cards.push_back(std::move(*card));
      show(cards.back(), cards.size(), paths->size());
    } else {
      failed = card.error();
    }
  }
  line_.clear();
  if (!cards.empty()) {
    print(cards);
    if (const Status saved = save(cards); !saved) return saved.error();
  }
  if (failed) return *failed;
  if (interrupted()) return kExitInterrupted;
  journal_.remove();
  const bool honest =
      std::all_of(cards.begin(), cards.end(), [](const auto& card) { return card.verdict() == "honest"; });
  return honest ? kExitOk : kExitFailed;
}

}  // namespace

void add_audit_command(CLI::App& app, Run& run) {
  auto arguments = std::make_shared<AuditArguments>();
  arguments->problem.layout = "both";
  CLI::App* command = app.add_subcommand("audit", "Judge foreign kernels: right, honest, how fast");
  command->footer(
      "PATH is a shared object, a .cu file (compiled by nvcc), or a directory of them, with the C function\n"
      "  int warpsmith_candidate(const void* a, const void* b, void* c, int m, int n, int k, int b_is_col_major,\n"
      "                          void* workspace, size_t workspace_bytes, cudaStream_t stream);\n"
      "which queues C = A B (f16, FP32 sums) on the stream and returns 0, or 801 for what it does not support.\n"
      "A .cu file finds headers in its own directory and in --include ones. Without a shape: six shapes, 128 to 8192.\n"
      "It runs in a sandboxed process. Exit code 0: right and honest; 1: wrong, suspicious, rejected or unsupported;\n"
      "2: bad input; 3: no GPU, no compiler, no sandbox; 130: interrupted. docs/audit.md has an example and every "
      "check.");
  command->add_option("path", arguments->path, "Shared object, CUDA source, or a directory of them")
      ->type_name("PATH")
      ->required();
  arguments->problem.add_to(*command);
  command->add_option("--shapes", arguments->shapes_file, "File with one shape a line");
  command->add_option("--grid", arguments->grid, "Named set of shapes: cuda-l2");
  command->add_option("--device", arguments->device, "CUDA device number")
      ->check(CLI::Range(0, 1023))
      ->capture_default_str();
  command->add_option("--effort", arguments->effort, "Time to spend on timing each problem")->capture_default_str();
  command->add_option("--time-limit", arguments->time_limit, "Longest that one step of the candidate may take")
      ->capture_default_str();
  command->add_option("--workspace", arguments->workspace_mib, "Workspace that the candidate is given, MiB")
      ->check(CLI::Range(0, 16384))
      ->capture_default_str();
  command->add_option("--include", arguments->includes, "Include directory for a .cu file (may be repeated)")
      ->allow_extra_args(false);
  command->add_option("--nvcc-flag", arguments->flags, "Further flag for nvcc (may be repeated)")
      ->allow_extra_args(false);
  command->add_option("--readable", arguments->readable, "Path that the candidate may read (may be repeated)")
      ->allow_extra_args(false);
  command->add_flag("--no-timing", arguments->no_timing, "Checks only");
  command->add_flag("--no-sandbox", arguments->no_sandbox, "Run it unconfined, as you: only what you trust");
  command->add_option("--seed", arguments->seed, "Seed of the inputs")->capture_default_str();
  command->add_flag("--json", arguments->json, "Print JSON: the card, or one card a line for a directory");
  command
      ->add_option("--output", arguments->output,
                   "Also write the JSON to this file; results are kept in FILE.partial until all are there")
      ->type_name("FILE");
  command->add_flag("--resume", arguments->resume, "Go on with FILE.partial of an earlier audit, if there is one");
  command->callback([arguments, &run] {
    run = [arguments] {
      const auto code = AuditCommand(*arguments).run();
      return code ? *code : report(code.error());
    };
  });
}

}  // namespace warpsmith::cli
