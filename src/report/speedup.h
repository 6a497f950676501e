// Speed-ups of many problems against each baseline: layout-matched ratios first, then best over best, summed up over
// all problems and per size bucket.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "report/statistics.h"
#include "report/table.h"

namespace warpsmith {

// Buckets of log2(m n k): below 24, 24 to 28, 28 to 32, 32 to 36, from 36 on. A lower edge belongs to its bucket.
inline constexpr std::array<std::string_view, 5> kSizeBuckets = {"< 24", "24-28", "28-32", "32-36", ">= 36"};
std::size_t size_bucket(std::int64_t m, std::int64_t n, std::int64_t k);  // index into kSizeBuckets

// The name of a subject without its layout, and the layout: "cublaslt-auto-tn" is {"cublaslt-auto", "tn"},
// "openblas-sgemm-nn-2t" is {"openblas-sgemm-2t", "nn"}. Empty layout: the name holds none.
struct SubjectName {
  std::string group, layout;
};
SubjectName split_subject(std::string_view subject);

// Times of one shape. Microseconds.
struct ShapeTimes {
  struct Baseline {
    std::string subject;
    double time_us = 0;
    bool interleaved = true;  // false: measured in another process, and then not a candidate for `fastest`
  };
  // One comparison in one process: ours in one layout, the baselines in any.
  struct Set {
    std::string layout;
    double ours_us = 0;
    std::vector<Baseline> baselines;
  };
  std::int64_t m = 0, n = 0, k = 0;
  std::vector<Set> sets;  // one for each layout that we were measured in
};

// What a ratio compares. layouts: "nn" (ours-NN over theirs-NN), "tn" ..., or "best": our faster layout over their
// faster one, for shapes that we were measured on in both NN and TN. Both times come from the same set.
struct SpeedupKey {
  std::string baseline, layouts;
  bool operator==(const SpeedupKey&) const = default;
};
inline constexpr std::string_view kFastest = "fastest";  // of all interleaved baselines

struct SpeedupRow {
  std::int64_t m = 0, n = 0, k = 0;
  std::vector<std::pair<SpeedupKey, double>> ratios;  // their time over ours
};

// Layout-matched ratios, then best over best; for each baseline group and for the fastest of all.
// Error: a time that is not positive and finite.
Result<SpeedupRow> speedup_row(const ShapeTimes& times);

struct SpeedupStatistics {
  int count = 0;
  double mean = 0, geometric_mean = 0, median = 0, p5 = 0, p95 = 0, min = 0, max = 0;
  double win_rate = 0;        // share above 1
  double clear_win_rate = 0;  // share above 1.01
  // Absent for a single ratio.
  std::optional<double> standard_deviation;
  std::optional<stats::Interval> mean_interval, geometric_mean_interval, median_interval;
  stats::SignedRankTest wilcoxon;  // of the logarithms
};

struct SpeedupGroup {
  SpeedupKey key;
  std::string bucket;  // "all", or of kSizeBuckets
  SpeedupStatistics statistics;
};

// How many candidates were refused, and how many measured again, by gate and by attack.
struct RejectionCounts {
  std::map<std::string, std::int64_t> rejected_by_gate, rejected_by_attack, rescored_by_gate, rescored_by_attack;
};

struct SpeedupReport {
  std::string label;                 // what the rows have in common: "offline f16"
  std::vector<SpeedupGroup> groups;  // for each key, layout-matched ones first: "all", then the buckets that have rows
  RejectionCounts counts;
};

Result<SpeedupStatistics> speedup_statistics(stats::Values ratios, const stats::BootstrapOptions& options = {});

// Error: a ratio that is not positive and finite, naming its shape.
Result<SpeedupReport> speedup_report(const std::vector<SpeedupRow>& rows, RejectionCounts counts = {},
                                     const stats::BootstrapOptions& options = {});

// The groups of all reports; `provenance`, if any, stands with each row.
Table speedup_table(const std::vector<SpeedupReport>& reports, std::shared_ptr<const Provenance> provenance = nullptr);
Table rejection_table(const RejectionCounts& counts);

}  // namespace warpsmith
