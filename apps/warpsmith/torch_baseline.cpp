// Running the helper and reading its answer.
#include "torch_baseline.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "base/paths.h"
#include "base/subprocess.h"
#include "base/text.h"

namespace warpsmith::cli {

namespace {

constexpr double kLimitSeconds = 300;  // importing PyTorch takes many of them on a cold disk
constexpr std::size_t kReasonLimit = 200;

nlohmann::json not_run(const std::string& reason) { return {{"not_run", printable(reason, kReasonLimit)}}; }

// The last line of what the helper had to say.
std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of("\r\n ");
  if (end == std::string::npos) return {};
  const std::size_t before = text.rfind('\n', end);
  const std::size_t start = before == std::string::npos ? 0 : before + 1;
  return text.substr(start, end - start + 1);
}

bool is_report(const nlohmann::json& report) {
  if (!report.is_object() || !report.contains("subjects") || !report["subjects"].is_array()) return false;
  for (const auto& subject : report["subjects"]) {
    if (!subject.is_object() || !subject.contains("subject") || !subject["subject"].is_string()) return false;
    for (const char* series : {"cold", "warm"}) {
      if (!subject.contains(series) || !(subject[series].value("median_us", 0.0) > 0)) return false;
    }
  }
  return true;
}

}  // namespace

nlohmann::json measure_torch(const Problem& problem, const TorchRequest& request) {
  const char* chosen = std::getenv("WARPSMITH_PYTHON");
  const std::string python = chosen != nullptr && *chosen != '\0' ? chosen : "python3";
  const std::filesystem::path helper = executable_dir() / "torch_baseline.py";
  if (!std::filesystem::exists(helper)) return not_run(fmt::format("{} is missing", helper.string()));
  ProcessRequest process;
  process.argv = {python,
                  helper.string(),
                  fmt::format("{}", problem.m),
                  fmt::format("{}", problem.n),
                  fmt::format("{}", problem.k),
                  "--type",
                  std::string(to_string(problem.element)),
                  "--mode",
                  request.mode,
                  "--qps",
                  fmt::format("{}", request.qps),
                  "--arrivals",
                  fmt::format("{}", request.arrivals),
                  "--seconds",
                  fmt::format("{}", request.seconds),
                  "--seed",
                  fmt::format("{}", request.seed),
                  "--device",
                  fmt::format("{}", request.device)};
  process.limits.wall_seconds = kLimitSeconds;
  const auto output = run_process(process);
  if (!output) return not_run(output.error().message);
  if (!output->status.success()) {
    const std::string said = last_line(output->err);
    return not_run(said.empty() ? output->status.describe() : said);
  }
  auto report = nlohmann::json::parse(output->out, nullptr, false);
  try {
    if (is_report(report)) return report;
  } catch (const nlohmann::json::exception&) {  // a member of another type
  }
  return not_run("the helper's answer is no report: " + last_line(output->out));
}

}  // namespace warpsmith::cli
