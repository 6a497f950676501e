// Ratios of a shape, their statistics over many, and the tables.
#include "report/speedup.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace warpsmith {

namespace {

constexpr std::array<std::string_view, 4> kLayouts = {"nn", "tn", "nt", "tt"};
constexpr std::string_view kBest = "best";

// nn, tn, nt, tt, best.
std::size_t layout_order(const std::string& layouts) {
  return static_cast<std::size_t>(std::find(kLayouts.begin(), kLayouts.end(), layouts) - kLayouts.begin());
}

bool is_time(double time_us) { return time_us > 0 && std::isfinite(time_us); }

// Lowest time of each baseline group and layout; kFastest is one more group.
using GroupTimes = std::vector<std::pair<std::string, std::map<std::string, double>>>;

void lower(GroupTimes& groups, std::string_view group, const std::string& layout, double time_us) {
  auto at = std::find_if(groups.begin(), groups.end(), [&](const auto& entry) { return entry.first == group; });
  if (at == groups.end()) at = groups.insert(groups.end(), {std::string(group), {}});
  const auto [entry, added] = at->second.try_emplace(layout, time_us);
  if (!added) entry->second = std::min(entry->second, time_us);
}

double lowest(const std::map<std::string, double>& by_layout) {
  return std::min_element(by_layout.begin(), by_layout.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->second;
}

// kFastest first.
GroupTimes group_times(const ShapeTimes::Set& set) {
  GroupTimes groups;
  for (const ShapeTimes::Baseline& baseline : set.baselines) {
    if (baseline.interleaved) lower(groups, kFastest, split_subject(baseline.subject).layout, baseline.time_us);
  }
  for (const ShapeTimes::Baseline& baseline : set.baselines) {
    const SubjectName name = split_subject(baseline.subject);
    lower(groups, name.group, name.layout, baseline.time_us);
  }
  return groups;
}

Status check_times(const ShapeTimes& times, const ShapeTimes::Set& set) {
  const auto wrong = [&](std::string_view subject, double time_us) {
    return failure(fmt::format("{}x{}x{} {}: a time of {} us", times.m, times.n, times.k, subject, time_us));
  };
  if (!is_time(set.ours_us)) return wrong(set.layout, set.ours_us);
  for (const ShapeTimes::Baseline& baseline : set.baselines) {
    if (!is_time(baseline.time_us)) return wrong(baseline.subject, baseline.time_us);
  }
  return ok_status();
}

}  // namespace

std::size_t size_bucket(std::int64_t m, std::int64_t n, std::int64_t k) {
  const double product = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  std::size_t bucket = 0;
  for (const int edge : {24, 28, 32, 36}) bucket += product >= std::ldexp(1.0, edge) ? 1 : 0;
  return bucket;
}

SubjectName split_subject(std::string_view subject) {
  for (const std::string_view layout : kLayouts) {
    const std::string word = "-" + std::string(layout);
    for (std::size_t at = subject.find(word); at != std::string_view::npos; at = subject.find(word, at + 1)) {
      const std::size_t end = at + word.size();
      if (end != subject.size() && subject[end] != '-') continue;
      return {std::string(subject.substr(0, at)) + std::string(subject.substr(end)), std::string(layout)};
    }
  }
  return {std::string(subject), {}};
}

Result<SpeedupRow> speedup_row(const ShapeTimes& times) {
  SpeedupRow row{times.m, times.n, times.k, {}};
  const ShapeTimes::Set* best = nullptr;
  bool nn = false, tn = false;
  for (const ShapeTimes::Set& set : times.sets) {
    if (const Status status = check_times(times, set); !status) return status.error();
    for (const auto& [group, by_layout] : group_times(set)) {
      const auto same = by_layout.find(set.layout);
      if (same != by_layout.end()) row.ratios.push_back({{group, set.layout}, same->second / set.ours_us});
    }
    nn = nn || set.layout == "nn";
    tn = tn || set.layout == "tn";
    if (best == nullptr || set.ours_us < best->ours_us) best = &set;
  }
  if (!nn || !tn) return row;
  for (const auto& [group, by_layout] : group_times(*best)) {
    row.ratios.push_back({{group, std::string(kBest)}, lowest(by_layout) / best->ours_us});
  }
  return row;
}

Result<SpeedupStatistics> speedup_statistics(stats::Values ratios, const stats::BootstrapOptions& options) {
  SpeedupStatistics result;
  const auto geometric = stats::geometric_mean(ratios);
  if (!geometric) return geometric.error();
  result.count = static_cast<int>(ratios.size());
  result.geometric_mean = *geometric;
  result.mean = *stats::mean(ratios);
  result.median = *stats::median(ratios);
  result.p5 = *stats::percentile(ratios, 0.05);
  result.p95 = *stats::percentile(ratios, 0.95);
  result.min = *std::min_element(ratios.begin(), ratios.end());
  result.max = *std::max_element(ratios.begin(), ratios.end());
  result.win_rate = *stats::share_above(ratios, 1);
  result.clear_win_rate = *stats::share_above(ratios, 1.01);
  std::vector<double> logarithms;
  for (const double ratio : ratios) logarithms.push_back(std::log(ratio));
  result.wilcoxon = *stats::wilcoxon_signed_rank(logarithms);
  if (ratios.size() < 2) return result;
  const auto mean = stats::bootstrap_mean(ratios, options);
  if (!mean) return mean.error();
  result.standard_deviation = *stats::standard_deviation(ratios);
  result.mean_interval = *mean;
  result.geometric_mean_interval = *stats::bootstrap_geometric_mean(ratios, options);
  result.median_interval = *stats::bootstrap_median(ratios, options);
  return result;
}

Result<SpeedupReport> speedup_report(const std::vector<SpeedupRow>& rows, RejectionCounts counts,
                                     const stats::BootstrapOptions& options) {
  struct Ratios {
    SpeedupKey key;
    std::vector<double> all;
    std::array<std::vector<double>, kSizeBuckets.size()> by_bucket;
  };
  std::vector<Ratios> found;
  for (const SpeedupRow& row : rows) {
    for (const auto& [key, ratio] : row.ratios) {
      if (!is_time(ratio)) {
        return failure(fmt::format("{}x{}x{} over {}: a ratio of {}", row.m, row.n, row.k, key.baseline, ratio));
      }
      auto at = std::find_if(found.begin(), found.end(), [&](const Ratios& entry) { return entry.key == key; });
      if (at == found.end()) at = found.insert(found.end(), {key, {}, {}});
      at->all.push_back(ratio);
      at->by_bucket[size_bucket(row.m, row.n, row.k)].push_back(ratio);
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const Ratios& a, const Ratios& b) {
    return layout_order(a.key.layouts) < layout_order(b.key.layouts);
  });
  SpeedupReport report;
  report.counts = std::move(counts);
  for (const Ratios& ratios : found) {
    const auto add = [&](std::string_view bucket, const std::vector<double>& values) -> Status {
      const auto statistics = speedup_statistics(values, options);
      if (!statistics) return statistics.error();
      report.groups.push_back({ratios.key, std::string(bucket), *statistics});
      return ok_status();
    };
    if (const Status status = add("all", ratios.all); !status) return status.error();
    for (std::size_t i = 0; i < kSizeBuckets.size(); ++i) {
      if (ratios.by_bucket[i].empty()) continue;
      if (const Status status = add(kSizeBuckets[i], ratios.by_bucket[i]); !status) return status.error();
    }
  }
  return report;
}

Table speedup_table(const std::vector<SpeedupReport>& reports, std::shared_ptr<const Provenance> provenance) {
  using Style = Column::Style;
  Table table("Speed-up (baseline's time over ours) by log2(m n k), 95 % bootstrap intervals",
              {{"label", "measured", "", Style::text},
               {"baseline", "baseline", "", Style::text},
               {"layouts", "layouts", "", Style::text},
               {"log2_mnk", "log2 mnk", "", Style::text},
               {"count", "n", "", Style::number},
               {"geometric_mean", "geo. mean", "", Style::fixed, 3},
               {"geometric_mean_low", "from", "", Style::fixed, 3},
               {"geometric_mean_high", "to", "", Style::fixed, 3},
               {"mean", "mean", "", Style::fixed, 3},
               {"mean_low", "from", "", Style::fixed, 3, true},
               {"mean_high", "to", "", Style::fixed, 3, true},
               {"median", "median", "", Style::fixed, 3},
               {"median_low", "from", "", Style::fixed, 3, true},
               {"median_high", "to", "", Style::fixed, 3, true},
               {"standard_deviation", "std. dev.", "", Style::fixed, 3},
               {"p5", "p5", "", Style::fixed, 3},
               {"p95", "p95", "", Style::fixed, 3},
               {"min", "min", "", Style::fixed, 3, true},
               {"max", "max", "", Style::fixed, 3, true},
               {"win_rate", "> 1", "", Style::percent, 1},
               {"clear_win_rate", "> 1.01", "", Style::percent, 1},
               {"wilcoxon_p", "Wilcoxon p", "", Style::probability}});
  const auto low = [](const auto& interval) { return interval ? Cell(interval->low) : Cell(); };
  const auto high = [](const auto& interval) { return interval ? Cell(interval->high) : Cell(); };
  for (const SpeedupReport& report : reports) {
    for (const auto& [key, bucket, s] : report.groups) {
      table.add({report.label,
                 key.baseline,
                 key.layouts,
                 bucket,
                 std::int64_t{s.count},
                 s.geometric_mean,
                 low(s.geometric_mean_interval),
                 high(s.geometric_mean_interval),
                 s.mean,
                 low(s.mean_interval),
                 high(s.mean_interval),
                 s.median,
                 low(s.median_interval),
                 high(s.median_interval),
                 cell_of(s.standard_deviation),
                 s.p5,
                 s.p95,
                 s.min,
                 s.max,
                 s.win_rate,
                 s.clear_win_rate,
                 s.wilcoxon.p},
                provenance);
    }
  }
  return table;
}

Table rejection_table(const RejectionCounts& counts) {
  using Style = Column::Style;
  Table table("Candidates rejected or measured again", {{"what", "what", "", Style::text},
                                                        {"by", "by", "", Style::text},
                                                        {"name", "name", "", Style::text},
                                                        {"count", "count", "", Style::number}});
  const auto add = [&table](const char* what, const char* by, const std::map<std::string, std::int64_t>& entries) {
    for (const auto& [name, count] : entries) table.add({std::string(what), std::string(by), name, count});
  };
  add("rejected", "gate", counts.rejected_by_gate);
  add("rejected", "attack", counts.rejected_by_attack);
  add("measured again", "gate", counts.rescored_by_gate);
  add("measured again", "attack", counts.rescored_by_attack);
  return table;
}

}  // namespace warpsmith
