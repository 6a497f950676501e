// Finds compute-sanitizer, runs it around the worker, and reads its findings.
#include "evaluate/sanitizer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <regex>
#include <sstream>

#include "base/file.h"
#include "base/paths.h"
#include "base/scratch.h"

namespace warpsmith {

namespace fs = std::filesystem;

namespace {

constexpr const char* kProgram = "compute-sanitizer";
constexpr std::int64_t kLargestUnchanged = 1023;
constexpr std::int64_t kModuli[] = {512, 1024, 2048};
constexpr int kEnvironmentFault = 3;  // exit code of the worker without a usable device
constexpr std::size_t kFindingLines = 3;

std::optional<fs::path> find_program() {
  std::vector<fs::path> places;
  if (const char* path = std::getenv("PATH"); path != nullptr) {
    std::istringstream directories(path);
    for (std::string directory; std::getline(directories, directory, ':');) places.emplace_back(directory);
  }
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* toolkit = std::getenv(name); toolkit != nullptr) places.push_back(fs::path(toolkit) / "bin");
  }
  places.emplace_back("/usr/local/cuda/bin");
  for (const fs::path& place : places) {
    const fs::path program = place / kProgram;
    if (access(program.c_str(), X_OK) == 0) return program;
  }
  return std::nullopt;
}

// The tool's lines without their "========= ".
std::vector<std::string> tool_lines(const std::string& output) {
  constexpr std::string_view kMark = "=========";
  std::vector<std::string> lines;
  std::istringstream text(output);
  for (std::string line; std::getline(text, line);) {
    if (!line.starts_with(kMark)) continue;
    line.erase(0, kMark.size());
    if (!line.empty() && line.front() == ' ') line.erase(0, 1);
    lines.push_back(line);
  }
  return lines;
}

// Errors that the closing line counts; racecheck counts warnings too, which are not hazards between two threads'
// accesses with different results. nullopt: there is no such line.
std::optional<long> counted_errors(const std::vector<std::string>& lines) {
  static const std::regex kErrors(R"(ERROR SUMMARY: (\d+) error)");
  static const std::regex kHazards(R"(RACECHECK SUMMARY: \d+ hazards? displayed \((\d+) error)");
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    std::smatch match;
    if (std::regex_search(*line, match, kErrors) || std::regex_search(*line, match, kHazards)) {
      return std::stol(match[1]);
    }
  }
  return std::nullopt;
}

bool is_heading(const std::string& line) {
  return !line.empty() && line.front() != ' ' && line.find("COMPUTE-SANITIZER") == std::string::npos &&
         line.find("SUMMARY") == std::string::npos && !line.starts_with("Warning:") && !line.starts_with("Info:");
}

std::string trimmed(const std::string& line) {
  const auto begin = line.find_first_not_of(" \t\r");
  return begin == std::string::npos ? "" : line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
}

// The first finding and where it is: its heading and the lines below that say the place.
std::string first_finding(const std::vector<std::string>& lines) {
  const auto heading = std::find_if(lines.begin(), lines.end(), is_heading);
  std::string text;
  for (auto line = heading; line != lines.end() && line < heading + kFindingLines; ++line) {
    const std::string part = trimmed(*line);
    if (line != heading && (part.empty() || is_heading(*line) || part.starts_with("Saved host backtrace"))) break;
    text += (text.empty() ? "" : " ") + part;
  }
  return text;
}

SanitizerCheck check_with(const std::string& tool, const fs::path& program, const fs::path& worker,
                          const fs::path& request, const SanitizerOptions& options) {
  ProcessRequest process;
  process.argv = {program.string(),
                  "--tool",
                  tool,
                  "--report-api-errors",
                  "no",
                  "--print-limit",
                  "10",
                  worker.string(),
                  "--device",
                  std::to_string(options.device),
                  "--sanitize",
                  request.string()};
  process.limits.wall_seconds = options.seconds;
  const auto output = run_process(process);
  if (!output) return {tool, SanitizerCheck::Outcome::not_run, output.error().message, 0};
  SanitizerCheck check = read_sanitizer_output(tool, output->out + "\n" + output->err, output->status);
  if (output->status.timed_out) check.detail = fmt::format("no end within {:g} s", options.seconds);
  check.seconds = output->seconds;
  return check;
}

}  // namespace

std::string_view to_string(SanitizerCheck::Outcome outcome) {
  switch (outcome) {
    case SanitizerCheck::Outcome::passed:
      return "passed";
    case SanitizerCheck::Outcome::failed:
      return "failed";
    case SanitizerCheck::Outcome::not_run:
      return "not run";
  }
  return "unknown";
}

const SanitizerCheck* SanitizerReport::first_failure() const {
  const auto failed = std::find_if(checks.begin(), checks.end(), [](const SanitizerCheck& check) {
    return check.outcome == SanitizerCheck::Outcome::failed;
  });
  return failed == checks.end() ? nullptr : &*failed;
}

std::string SanitizerReport::describe() const {
  std::string text;
  for (std::size_t i = 0; i < checks.size();) {
    std::string tools = checks[i].tool;
    std::size_t next = i + 1;
    while (next < checks.size() && checks[next].outcome == checks[i].outcome && checks[next].detail == checks[i].detail)
      tools += ", " + checks[next++].tool;
    text += fmt::format("{}{} {}", text.empty() ? "" : "; ", tools, to_string(checks[i].outcome));
    if (!checks[i].detail.empty()) text += fmt::format(" ({})", checks[i].detail);
    i = next;
  }
  return text;
}

void to_json(nlohmann::json& json, const SanitizerReport& report) {
  nlohmann::json checks = nlohmann::json::array();
  for (const SanitizerCheck& check : report.checks) {
    checks.push_back({{"gate", "sanitizer/" + check.tool},
                      {"outcome", to_string(check.outcome)},
                      {"detail", check.detail},
                      {"seconds", check.seconds}});
  }
  json = {{"problem", report.problem}, {"checks", std::move(checks)}};
}

std::vector<Problem> sanitizer_problems(const Problem& problem) {
  std::vector<Problem> result;
  if (problem.m > kLargestUnchanged || problem.n > kLargestUnchanged || problem.k > kLargestUnchanged) {
    for (const std::int64_t modulus : kModuli) {
      const auto shrunk = [modulus](std::int64_t size) {
        return size <= kLargestUnchanged ? size : std::min(size, modulus + size % modulus);
      };
      Problem smaller = problem;
      smaller.m = shrunk(problem.m);
      smaller.n = shrunk(problem.n);
      smaller.k = shrunk(problem.k);
      // Gaps between rows keep their widths.
      smaller.lda = smaller.a_cols() + problem.a_ld() - problem.a_cols();
      smaller.ldb = smaller.b_cols() + problem.b_ld() - problem.b_cols();
      smaller.ldc = smaller.n + problem.c_ld() - problem.n;
      if (smaller == problem) break;
      if (result.empty() || !(result.back() == smaller)) result.push_back(smaller);
    }
  }
  result.push_back(problem);
  return result;
}

SanitizerReport sanitizer_not_run(const std::string& reason) {
  SanitizerReport report;
  for (const char* tool : kSanitizerTools) report.checks.push_back({tool, SanitizerCheck::Outcome::not_run, reason, 0});
  return report;
}

SanitizerReport run_sanitizer(const Problem& problem, const Candidate& candidate, const Artifact& artifact,
                              const SanitizerOptions& options) {
  const auto* launch = std::get_if<CudaLaunch>(&candidate.launch);
  if (launch == nullptr) return sanitizer_not_run("it watches CUDA kernels only");
  const std::string name = to_string(problem);
  return run_sanitizer(name, {{"problem", name}, {"binary", artifact.binary.string()}, {"launch", *launch}}, options);
}

SanitizerReport run_sanitizer(const std::string& problem, const nlohmann::json& request,
                              const SanitizerOptions& options) {
  const std::optional<fs::path> program = options.program.empty() ? find_program() : options.program;
  if (!program) return sanitizer_not_run("compute-sanitizer is not installed");
  const fs::path worker = options.worker.empty() ? executable_dir() / "warpsmith-worker-cuda" : options.worker;
  const auto scratch = ScratchDirectory::create();
  if (!scratch) return sanitizer_not_run(scratch.error().message);
  const fs::path file = scratch->path() / "request.json";
  if (const Status written = write_file_atomic(file, request.dump()); !written) {
    return sanitizer_not_run(written.error().message);
  }
  SanitizerReport report;
  report.problem = problem;
  for (const char* tool : kSanitizerTools) {
    report.checks.push_back(check_with(tool, *program, worker, file, options));
  }
  return report;
}

SanitizerCheck read_sanitizer_output(const std::string& tool, const std::string& output,
                                     const ExitStatus& exit_status) {
  SanitizerCheck check{tool, SanitizerCheck::Outcome::not_run, {}, 0};
  const std::vector<std::string> lines = tool_lines(output);
  const std::optional<long> errors = counted_errors(lines);
  const std::string finding = first_finding(lines);
  const auto own_words = [&] {  // what the watched program said, or the tool where it said nothing
    std::istringstream text(output);
    for (std::string line; std::getline(text, line);) {
      if (!line.starts_with("=========") && !trimmed(line).empty()) return trimmed(line);
    }
    return finding.empty() ? exit_status.describe() : finding;
  };
  if (!errors || exit_status.timed_out || exit_status.exit_code == kEnvironmentFault) {
    check.detail = own_words();
  } else if (*errors > 0) {
    check.outcome = SanitizerCheck::Outcome::failed;
    check.detail = fmt::format("{} ({} in all)", finding, *errors);
  } else if (!exit_status.success()) {
    check.outcome = SanitizerCheck::Outcome::failed;
    check.detail = "the run itself failed: " + own_words();
  } else {
    check.outcome = SanitizerCheck::Outcome::passed;
  }
  return check;
}

}  // namespace warpsmith
