// Metrics by name, and the CSV of Nsight Compute.
#include "llm/profile.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "report/csv.h"

namespace warpsmith::llm {

const std::vector<ProfileMetric>& profile_metrics() {
  static const std::vector<ProfileMetric> kMetrics = {
      {"gpu__time_duration.sum", "duration, warm"},
      {"sm__throughput.avg.pct_of_peak_sustained_elapsed", "multiprocessor throughput"},
      {"sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active", "tensor pipes busy"},
      {"dram__throughput.avg.pct_of_peak_sustained_elapsed", "DRAM throughput"},
      {"lts__t_sectors.avg.pct_of_peak_sustained_elapsed", "L2 throughput"},
      {"lts__t_sector_hit_rate.pct", "L2 hit rate"},
      {"l1tex__t_sector_hit_rate.pct", "L1 hit rate"},
      {"sm__warps_active.avg.pct_of_peak_sustained_active", "occupancy"},
      {"smsp__issue_active.avg.pct_of_peak_sustained_active", "issue slots busy"},
      {"launch__waves_per_multiprocessor", "waves"},
      {"launch__registers_per_thread", "registers a thread"},
      {"smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio", "stalls on memory per issue"},
      {"smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio", "stalls at barriers per issue"},
      {"smsp__average_warps_issue_stalled_wait_per_issue_active.ratio", "stalls on fixed latency per issue"}};
  return kMetrics;
}

namespace {

std::string unit_text(const std::string& unit) {
  if (unit.empty() || unit == "ratio" || unit == "inst" || unit == "register/thread") return {};
  return " " + unit;
}

}  // namespace

Result<std::string> describe_profile(std::string_view ncu_output) {
  const std::size_t start = ncu_output.find("\"ID\",");
  if (start == std::string_view::npos) {
    const std::size_t error = std::min(ncu_output.find("==ERROR=="), ncu_output.size());
    const std::string_view words = ncu_output.substr(error);
    return bad_input(words.empty() ? std::string("ncu printed no table")
                                   : "ncu: " + printable(words.substr(0, words.find('\n')), 200));
  }
  const auto table = parse_csv(ncu_output.substr(start), "ncu");
  if (!table) return table.error();
  const auto id = table->column("ID"), name = table->column("Metric Name"), unit = table->column("Metric Unit"),
             value = table->column("Metric Value");
  if (!id || !name || !unit || !value)
    return bad_input("ncu's table lacks one of ID, Metric Name, Metric Unit, Metric Value");
  std::string text;
  for (const ProfileMetric& metric : profile_metrics()) {
    for (const CsvTable::Row& row : table->rows) {
      if (row.cells[*name] != metric.name || row.cells[*id] != table->rows.front().cells[*id]) continue;
      text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", metric.meaning, row.cells[*value],
                          unit_text(row.cells[*unit]));
      break;
    }
  }
  if (text.empty()) return bad_input("ncu's table holds none of the metrics that were asked for");
  return text;
}

std::vector<std::string> profile_command(const std::string& ncu, const std::vector<std::string>& kernels, int skip,
                                         const std::vector<std::string>& command) {
  std::string names, metrics;
  for (const std::string& kernel : kernels) names += (names.empty() ? "" : "|") + kernel;
  for (const ProfileMetric& metric : profile_metrics())
    metrics += (metrics.empty() ? "" : ",") + std::string(metric.name);
  std::vector<std::string> arguments = {ncu,
                                        "--clock-control",
                                        "none",
                                        "--cache-control",
                                        "none",
                                        "--target-processes",
                                        "all",
                                        "--csv",
                                        "--metrics",
                                        metrics,
                                        "--launch-skip",
                                        std::to_string(skip),
                                        "--launch-count",
                                        "1",
                                        "--kernel-name",
                                        "regex:^(" + names + ")$"};
  arguments.insert(arguments.end(), command.begin(), command.end());
  return arguments;
}

}  // namespace warpsmith::llm
