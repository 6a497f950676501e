// `warpsmith report`: the HTML page of a grid run, from its CSV files.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/file.h"
#include "base/text.h"
#include "cli.h"
#include "report/html_page.h"

namespace warpsmith::cli {

namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultDirectory = "results/h200";

struct ReportArguments {
  std::string directory, output;
  // In the order of kParts.
  std::array<std::string, 6> files;
};

struct Part {
  const char* option;
  const char* name;  // in a directory
  const char* help;
  std::optional<ReportFile> ReportInputs::*member;
};
constexpr std::array<Part, 6> kParts = {{
    {"--offline", "grid-offline.csv", "Grid, back-to-back launches", &ReportInputs::offline},
    {"--call", "grid-call.csv", "Grid, single calls", &ReportInputs::call},
    {"--server", "grid-server.csv", "Grid, calls at random intervals", &ReportInputs::server},
    {"--summary", "grid-summary.json", "The run's own summary", &ReportInputs::summary},
    {"--llm", "llm-shapes.csv", "Shapes of LLM layers, off the grid", &ReportInputs::llm},
    {"--accuracy", "grid-accuracy.csv", "Errors against FP64", &ReportInputs::accuracy},
}};

// The files that were named, and those of the directory under their usual names: a directory's may be missing.
Result<ReportInputs> read_inputs(const ReportArguments& arguments, const std::string& directory) {
  ReportInputs inputs;
  if (!directory.empty() && !fs::is_directory(directory)) {
    return bad_input(
        fmt::format("{} is no directory; accepted: one with grid-offline.csv, grid-call.csv or "
                    "grid-server.csv, or --offline, --call, --server FILE",
                    printable(directory, 200)));
  }
  for (std::size_t i = 0; i < kParts.size(); ++i) {
    fs::path path = arguments.files[i];
    if (path.empty()) {
      if (directory.empty()) continue;
      path = fs::path(directory) / kParts[i].name;
      if (!fs::exists(path)) continue;
    }
    auto text = read_file(path);
    if (!text) return text.error();
    inputs.*kParts[i].member = ReportFile{path.string(), std::move(*text)};
  }
  if (!inputs.offline && !inputs.call && !inputs.server) {
    return bad_input(
        fmt::format("no grid to report on{}; accepted: a directory with grid-offline.csv, grid-call.csv "
                    "or grid-server.csv, or --offline, --call, --server FILE",
                    directory.empty() ? "" : " in " + printable(directory, 200)));
  }
  return inputs;
}

int run_report(const ReportArguments& arguments) {
  const bool named =
      std::any_of(arguments.files.begin(), arguments.files.end(), [](const auto& file) { return !file.empty(); });
  const std::string directory = arguments.directory.empty() && !named ? kDefaultDirectory : arguments.directory;
  const auto inputs = read_inputs(arguments, directory);
  if (!inputs) return report(inputs.error());
  const auto data = report_data(*inputs);
  if (!data) return report(data.error());
  const fs::path output = arguments.output.empty() ? fs::path(directory) / "report.html" : fs::path(arguments.output);
  const std::string page = html_page(*data);
  if (const Status status = write_file_atomic(output, page); !status) return report(status.error());
  fmt::print("{}: {} shapes, {:.0f} kB\n", output.string(), data->shapes.size(),
             static_cast<double>(page.size()) / 1e3);
  for (const ReportComparison& comparison : data->comparisons) {
    if (comparison.baseline != "auto") continue;
    const ReportComparison::Group& all = comparison.groups.front();
    fmt::print("{:<10}  {:.3f} over auto-tuned cuBLASLt (geometric mean of {}), faster on {:.1f} %\n", comparison.mode,
               all.geometric_mean, all.count, 100 * all.wins);
  }
  return kExitOk;
}

}  // namespace

void add_report_command(CLI::App& app, Run& run) {
  auto arguments = std::make_shared<ReportArguments>();
  CLI::App* command = app.add_subcommand("report", "One HTML page with the plots and tables of a grid run");
  command->add_option(
      "directory", arguments->directory,
      fmt::format("Holds the files under their usual names; default, unless files are named: {}", kDefaultDirectory));
  for (std::size_t i = 0; i < kParts.size(); ++i) {
    command->add_option(kParts[i].option, arguments->files[i], fmt::format("{} ({})", kParts[i].help, kParts[i].name))
        ->type_name("FILE");
  }
  command->add_option("--output", arguments->output, "The page; default: report.html in the directory")
      ->type_name("FILE");
  command->callback([arguments, &run] { run = [arguments] { return run_report(*arguments); }; });
}

}  // namespace warpsmith::cli
