// Collecting rows, printing them, and the files they go to.
#include "bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/file.h"
#include "bench_tables.h"
#include "build_commit.h"

namespace warpsmith::cli {

namespace {

// What has to agree for rows of two runs to stand in one file.
nlohmann::json identity_of(const nlohmann::json& measuring, Provenance provenance) {
  provenance.date.clear();
  provenance.clock_mhz = 0;
  return {{"warpsmith_bench", 1}, {"options", measuring}, {"provenance", provenance}};
}

ReportFormat format_of_extension(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  if (extension == ".csv") return ReportFormat::csv;
  if (extension == ".json") return ReportFormat::json;
  if (extension == ".md") return ReportFormat::markdown;
  return ReportFormat::table;
}

// "runs/h200.csv" to "runs/h200-summary.csv": a CSV file holds one table.
std::filesystem::path summary_path(const std::filesystem::path& output) {
  std::filesystem::path path = output;
  path.replace_filename(output.stem().string() + "-summary" + output.extension().string());
  return path;
}

// What a terminal shows of a summary: against the fastest baseline and against auto-tuned cuBLASLt.
std::vector<SpeedupReport> headlines(std::vector<SpeedupReport> reports) {
  for (SpeedupReport& report : reports) {
    std::erase_if(report.groups, [](const SpeedupGroup& group) {
      return group.key.baseline != kFastest && group.key.baseline != "cublaslt-auto";
    });
  }
  return reports;
}

}  // namespace

nlohmann::json row_to_json(const BenchRow& row, const OpenDevice& device) {
  nlohmann::json json = {{"problem", to_string(row.problem)},
                         {"m", row.problem.m},
                         {"n", row.problem.n},
                         {"k", row.problem.k},
                         {"layout", to_string(row.problem.layout)},
                         {"target", to_string(device.target)},
                         {"threads", device.threads},
                         {"recipe", row.recipe},
                         {"verdict", row.verdict}};
  if (!row.torch.is_null()) json["torch"] = row.torch;
  if (!row.conclusion) return json;
  json["conclusion"] = to_json(*row.conclusion);
  const double ours = row.conclusion->candidate().cold.median_us;
  if (const auto* same = row.conclusion->fastest_baseline(to_string(row.problem.layout))) {
    json["fastest_baseline"] = same->subject;
    json["speedup"] = same->cold.median_us / ours;
    json["speedup_warm"] = same->warm.median_us / row.conclusion->candidate().warm.median_us;
  }
  if (const auto* any = row.conclusion->fastest_baseline()) json["speedup_any_layout"] = any->cold.median_us / ours;
  return json;
}

void ReportOptions::add_to(CLI::App& command) {
  command.add_option(
      "--format", format,
      "Form of the report: table, csv (everything measured, a row a subject), json, markdown; default: by "
      "the extension of --output, else table");
  command
      .add_option("--output", output, "Write the report to this file; rows are kept in FILE.partial until it is done")
      ->type_name("FILE");
  command.add_flag("--resume", resume, "Go on with FILE.partial of an earlier run, if there is one");
  command.add_flag("--json", json_lines, "Print one JSON object a problem, as they come");
}

Result<ReportFormat> ReportOptions::check() const {
  if (resume && output.empty()) return bad_input("--resume goes with --output FILE");
  if (json_lines && output.empty() && !format.empty()) {
    return bad_input("--json prints a line a problem, --format a whole report; give one of them, or --output FILE");
  }
  if (!output.empty() && std::filesystem::is_directory(output)) {
    return bad_input(fmt::format("--output {} is a directory; accepted: a file", output));
  }
  if (!output.empty() && !resume && std::filesystem::exists(partial())) {
    return bad_input(fmt::format("{} holds rows of a run that did not end; --resume goes on with it, or remove it",
                                 partial().string()));
  }
  if (format.empty()) return format_of_extension(output);
  return parse_report_format(format);
}

nlohmann::json measuring_options(const CLI::App& command) {
  const std::set<std::string> apart = {"help", "shape", "mnk", "shapes", "grid", "format", "output", "resume", "json"};
  nlohmann::json options = nlohmann::json::object();
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_single_name();
    if (apart.contains(name)) continue;
    const std::vector<std::string>& given = option->results();
    std::string value = given.empty() ? option->get_default_str() : given.front();
    for (std::size_t i = 1; i < given.size(); ++i) value += " " + given[i];
    if (!value.empty()) options[name] = value;
  }
  return options;
}

Result<BenchReport> BenchReport::open(const ReportOptions& options, const nlohmann::json& measuring,
                                      const Provenance& provenance) {
  const auto format = options.check();
  if (!format) return format.error();
  BenchReport report(options, *format, provenance);
  if (options.output.empty()) return report;
  auto file = RowFile::open(options.partial(), identity_of(measuring, provenance));
  if (!file) return file.error();
  for (const nlohmann::json& row : file->rows()) {
    if (row["verdict"]["kind"] == "failed") continue;  // measured again
    report.known_.insert(row["problem"].get<std::string>());
    report.rows_.push_back(row);
  }
  report.file_.emplace(std::move(*file));
  return report;
}

std::size_t BenchReport::accepted() const {
  return static_cast<std::size_t>(std::count_if(
      rows_.begin(), rows_.end(), [](const nlohmann::json& row) { return row["verdict"]["kind"] == "accepted"; }));
}

void BenchReport::print_live(const nlohmann::json& row) const {
  if (options_.json_lines) {
    fmt::print("{}\n", row.dump());
  } else if (!options_.output.empty() || format_ == ReportFormat::table) {
    fmt::print("{}\n", live_line(row));
  }
  std::fflush(stdout);
}

Status BenchReport::add(nlohmann::json row, Provenance provenance) {
  provenance_ = provenance;
  provenance.date = utc_now();
  if (row.contains("conclusion")) provenance.clock_mhz = row["conclusion"]["subjects"][0].value("clock_mhz", 0.0);
  row["provenance"] = provenance;
  print_live(row);
  known_.insert(row["problem"].get<std::string>());
  rows_.push_back(std::move(row));
  return file_ ? file_->append(rows_.back()) : ok_status();
}

Status BenchReport::finish(bool complete) {
  if (options_.json_lines && !file_) return ok_status();  // the lines were all
  const auto summaries = summarize_rows(rows_);
  if (!summaries) return summaries.error();
  Provenance now = provenance_;
  now.date = utc_now();
  const Table summary = speedup_table(*summaries, std::make_shared<const Provenance>(now));
  const Table rejections = rejection_table(count_rejections(rows_));
  const auto whole = [&](ReportFormat format) -> std::string {
    if (format == ReportFormat::csv) return subject_table(rows_).csv();
    if (format == ReportFormat::json) {
      return nlohmann::json({{"rows", rows_}, {"summary", summary.json()}, {"rejections", rejections.json()}}).dump(2) +
             "\n";
    }
    std::string text = problem_table(rows_).print(format);
    for (const Table& table : {speedup_table(*summaries), rejections}) {  // the rows say where and with what
      if (table.size() > 0) text += "\n" + table.print(format);
    }
    return text;
  };
  const bool text_on_stdout = !options_.json_lines && (!options_.output.empty() || format_ == ReportFormat::table);
  if (text_on_stdout && rows_.size() > 1) {
    for (const Table& table :
         {speedup_table(headlines(*summaries), std::make_shared<const Provenance>(now)), rejections}) {
      if (table.size() > 0) fmt::print("\n{}", table.text());
    }
    fmt::print("\n{} of {} problems accepted\n", accepted(), rows_.size());
  } else if (!options_.json_lines && !text_on_stdout) {
    fmt::print("{}", whole(format_));
  }
  std::fflush(stdout);
  if (!file_ || !complete) return ok_status();
  if (const Status status = write_file_atomic(options_.output, whole(format_)); !status) return status;
  if (format_ == ReportFormat::csv && summary.size() > 0) {
    if (const Status status = write_file_atomic(summary_path(options_.output), summary.csv()); !status) return status;
  }
  file_->remove();
  return ok_status();
}

}  // namespace warpsmith::cli
