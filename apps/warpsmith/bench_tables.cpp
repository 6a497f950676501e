// Rows to tables.
#include "bench_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "evaluate/verdict.h"
#include "problem/problem.h"

namespace warpsmith::cli {

namespace {

using Style = Column::Style;

std::shared_ptr<const Provenance> provenance_in(const nlohmann::json& row) {
  return std::make_shared<const Provenance>(row.at("provenance").get<Provenance>());
}

// The candidate's file, or its recipe.
std::string label_of(const nlohmann::json& row) { return row.value("candidate", row.value("recipe", std::string())); }

// Of the comparison, the candidate first, and of helpers with processes of their own; without a comparison the
// candidate alone, and nothing for a candidate that was refused.
std::vector<nlohmann::json> subjects_of(const nlohmann::json& row) {
  std::vector<nlohmann::json> subjects;
  if (row.contains("conclusion")) {
    for (const auto& subject : row["conclusion"]["subjects"]) subjects.push_back(subject);
  } else if (row["verdict"]["kind"] == "accepted") {
    subjects.push_back(row["verdict"]["measurement"]);
  }
  if (row.contains("torch") && row["torch"].contains("subjects")) {
    for (const auto& subject : row["torch"]["subjects"]) subjects.push_back(subject);
  }
  return subjects;
}

bool is_candidate(const nlohmann::json& subject) { return subject["subject"] == "candidate"; }

Cell time_cell(const nlohmann::json& subject, const char* series, const std::string& statistic) {
  const auto found = subject.find(series);
  if (found == subject.end() || !found->is_object() || found->value("samples", 0) == 0) return {};
  return found->value(statistic, 0.0);
}

// Theirs over ours, where both were measured.
Cell ratio_cell(const nlohmann::json& theirs, const nlohmann::json& ours, const char* series) {
  const Cell a = time_cell(theirs, series, "median_us"), b = time_cell(ours, series, "median_us");
  const double* over = std::get_if<double>(&a);
  const double* under = std::get_if<double>(&b);
  if (over == nullptr || under == nullptr || !(*under > 0)) return {};
  return *over / *under;
}

Cell member_cell(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return {};
  if (found->is_string()) return found->get<std::string>();
  if (found->is_boolean()) return found->get<bool>();
  if (found->is_number_integer()) return found->get<std::int64_t>();
  return found->get<double>();
}

// What may be summarised together: element type, accumulator where it is not FP32, scaling, leading dimensions.
std::string kind_of(const Problem& problem) {
  std::string kind(to_string(problem.element));
  if (problem.accumulator != AccumulatorType::f32) kind += fmt::format(" {} sums", to_string(problem.accumulator));
  if (problem.scaled()) kind += " scaled";
  if (!problem.packed()) kind += " padded";
  return kind;
}

}  // namespace

double quoted_us(const nlohmann::json& subject) {
  for (const char* series : {"cold", "warm"}) {
    const Cell cell = time_cell(subject, series, "median_us");
    if (const double* time_us = std::get_if<double>(&cell)) return *time_us;
  }
  return 0;
}

std::string live_line(const nlohmann::json& row) {
  const std::string kind = row["verdict"]["kind"];
  std::string text = fmt::format("{:<28} {:<11}", row["problem"].get<std::string>(), kind);
  const auto subjects = subjects_of(row);
  if (kind != "accepted" || subjects.empty()) {
    return text + fmt::format(" {}  [{}]", row["verdict"].get<Verdict>().describe(), label_of(row));
  }
  text += fmt::format(" {:>9} us", significant(quoted_us(subjects.front())));
  if (row.contains("speedup")) {
    text += fmt::format("  {:.3f} x {:<22}", row["speedup"].get<double>(), row["fastest_baseline"].get<std::string>());
  }
  text += " " + label_of(row);
  if (row.contains("torch") && row["torch"].contains("not_run")) {
    text += "  [torch not run: " + row["torch"]["not_run"].get<std::string>() + "]";
  }
  return text;
}

Table problem_table(const BenchRows& rows) {
  Table table("Problems", {{"problem", "problem", "", Style::text},
                           {"verdict", "verdict", "", Style::text},
                           {"cold_us", "cold", "us", Style::number},
                           {"warm_us", "warm", "us", Style::number},
                           {"tflops", "cold", "TFLOP/s", Style::number},
                           {"fastest_baseline", "fastest baseline", "", Style::text},
                           {"speedup", "speed-up", "", Style::fixed, 3},
                           {"speedup_warm", "(warm)", "", Style::fixed, 3},
                           {"speedup_any_layout", "(any layout)", "", Style::fixed, 3},
                           {"recipe", "recipe", "", Style::text}});
  for (const auto& row : rows) {
    const auto subjects = subjects_of(row);
    const bool accepted = row["verdict"]["kind"] == "accepted" && !subjects.empty();
    const nlohmann::json ours = accepted ? subjects.front() : nlohmann::json::object();
    const double time_us = quoted_us(ours);
    const auto problem = parse_problem(row["problem"].get<std::string>());
    const Cell tflops = time_us > 0 && problem ? Cell(problem->flops() / time_us * 1e-6) : Cell();
    table.add({row["problem"].get<std::string>(),
               accepted ? std::string("accepted") : row["verdict"].get<Verdict>().describe(),
               time_cell(ours, "cold", "median_us"), time_cell(ours, "warm", "median_us"), tflops,
               member_cell(row, "fastest_baseline"), member_cell(row, "speedup"), member_cell(row, "speedup_warm"),
               member_cell(row, "speedup_any_layout"), label_of(row)},
              provenance_in(row));
  }
  return table;
}

Table subject_table(const BenchRows& rows) {
  std::vector<Column> columns = {{"problem", "problem", "", Style::text},
                                 {"m", "m", "", Style::number},
                                 {"n", "n", "", Style::number},
                                 {"k", "k", "", Style::number},
                                 {"layout", "layout", "", Style::text},
                                 {"target", "target", "", Style::text},
                                 {"threads", "threads", "", Style::number},
                                 {"verdict", "verdict", "", Style::text},
                                 {"verdict_detail", "detail", "", Style::text},
                                 {"recipe", "recipe", "", Style::text},
                                 {"subject", "subject", "", Style::text},
                                 {"interleaved", "interleaved", "", Style::text}};
  constexpr const char* kSeries[] = {"cold", "warm", "cold_pdl", "warm_pdl"};
  constexpr const char* kStatistics[] = {"median", "min", "p5", "p95", "mean"};
  for (const char* series : kSeries) {
    for (const char* statistic : kStatistics) {
      columns.push_back({fmt::format("{}_{}_us", series, statistic), fmt::format("{} {}", series, statistic), "us",
                         Style::number, 0});
    }
    columns.push_back({fmt::format("{}_samples", series), series, "samples", Style::number});
  }
  columns.push_back({"speedup", "speed-up", "", Style::fixed, 3});
  columns.push_back({"speedup_warm", "(warm)", "", Style::fixed, 3});
  columns.push_back({"subject_clock_mhz", "clock", "MHz", Style::number});
  columns.push_back({"subject_detail", "setting", "", Style::text});
  Table table("Subjects", columns);
  for (const auto& row : rows) {
    const auto provenance = provenance_in(row);
    auto subjects = subjects_of(row);
    if (subjects.empty()) subjects.push_back({{"subject", ""}});  // a refused candidate has its row, too
    if (row.contains("torch") && row["torch"].contains("not_run")) {
      const std::string reason = row["torch"]["not_run"];
      subjects.push_back({{"subject", "torch-matmul"}, {"interleaved", false}, {"detail", "not run: " + reason}});
    }
    for (const auto& subject : subjects) {
      std::vector<Cell> cells = {row["problem"].get<std::string>()};
      for (const char* key : {"m", "n", "k", "layout", "target", "threads"}) cells.push_back(member_cell(row, key));
      cells.push_back(row["verdict"]["kind"].get<std::string>());
      cells.push_back(row["verdict"].get<Verdict>().describe());
      cells.push_back(label_of(row));
      cells.push_back(member_cell(subject, "subject"));
      cells.push_back(subject.value("interleaved", true));
      for (const char* series : kSeries) {
        for (const char* statistic : kStatistics) {
          cells.push_back(time_cell(subject, series, fmt::format("{}_us", statistic)));
        }
        const auto found = subject.find(series);
        cells.push_back(found == subject.end() ? Cell() : member_cell(*found, "samples"));
      }
      cells.push_back(ratio_cell(subject, subjects.front(), "cold"));
      cells.push_back(ratio_cell(subject, subjects.front(), "warm"));
      cells.push_back(member_cell(subject, "clock_mhz"));
      cells.push_back(member_cell(subject, "detail"));
      table.add(std::move(cells), provenance);
    }
  }
  return table;
}

Result<std::vector<SpeedupReport>> summarize_rows(const BenchRows& rows) {
  // Shapes by mode and element type; the layouts of a shape come together.
  std::map<std::string, std::vector<ShapeTimes>> by_label;
  for (const auto& row : rows) {
    if (!row.contains("conclusion")) continue;
    const auto problem = parse_problem(row["problem"].get<std::string>());
    if (!problem) return problem.error();
    const auto subjects = subjects_of(row);
    ShapeTimes::Set set{std::string(to_string(problem->layout)), quoted_us(subjects.front()), {}};
    for (const auto& subject : subjects) {
      if (is_candidate(subject) || !(quoted_us(subject) > 0)) continue;
      set.baselines.push_back({subject["subject"], quoted_us(subject), subject.value("interleaved", true)});
    }
    auto& shapes = by_label[fmt::format("{} {}", subjects.front().value("mode", "offline"), kind_of(*problem))];
    const auto same = std::find_if(shapes.begin(), shapes.end(), [&](const ShapeTimes& shape) {
      return shape.m == problem->m && shape.n == problem->n && shape.k == problem->k;
    });
    if (same != shapes.end()) {
      same->sets.push_back(std::move(set));
    } else {
      shapes.push_back({problem->m, problem->n, problem->k, {std::move(set)}});
    }
  }
  std::vector<SpeedupReport> summaries;
  for (const auto& [label, shapes] : by_label) {
    std::vector<SpeedupRow> ratios;
    for (const ShapeTimes& shape : shapes) {
      auto row = speedup_row(shape);
      if (!row) return row.error();
      ratios.push_back(std::move(*row));
    }
    auto report = speedup_report(ratios);
    if (!report) return report.error();
    report->label = label;
    summaries.push_back(std::move(*report));
  }
  return summaries;
}

RejectionCounts count_rejections(const BenchRows& rows) {
  RejectionCounts counts;
  for (const auto& row : rows) {
    const auto& verdict = row["verdict"];
    const std::string kind = verdict["kind"];
    if (kind == "accepted" || kind == "failed") continue;  // what failed says nothing about the candidate
    ++counts.rejected_by_gate[kind == "wrong" ? verdict["gate"]["gate"].get<std::string>() : kind];
  }
  return counts;
}

}  // namespace warpsmith::cli
