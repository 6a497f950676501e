// Choice of the baseline, and its samples over the candidate's, round by round.
#include "evaluate/paired_score.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/robust_score.h"

namespace warpsmith {

namespace {

bool names_layout(const std::string& baseline, std::string_view layout) {
  return baseline.find(fmt::format("-{}", layout)) != std::string::npos;
}

double median_of(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return percentile(samples, 0.5);
}

// Index of the subject; 0: there is none.
std::size_t fastest_baseline(const TimingRounds& rounds, const std::vector<TimingSubject>& subjects,
                             std::string_view layout) {
  std::size_t fastest = 0;
  double fastest_us = 0;
  for (std::size_t i = 1; i < subjects.size(); ++i) {
    if (rounds[i].empty() || (!layout.empty() && !names_layout(subjects[i].name, layout))) continue;
    const double time_us = median_of(rounds[i]);
    if (fastest != 0 && !(time_us < fastest_us)) continue;
    fastest = i;
    fastest_us = time_us;
  }
  return fastest;
}

}  // namespace

std::optional<PairedScore> paired_score(const TimingRounds& rounds, const std::vector<TimingSubject>& subjects,
                                        std::string_view layout) {
  if (subjects.empty() || subjects.front().number != 0) return std::nullopt;
  std::size_t fastest = fastest_baseline(rounds, subjects, layout);
  if (fastest == 0) fastest = fastest_baseline(rounds, subjects, {});
  if (fastest == 0) return std::nullopt;
  const std::vector<double>& ours = rounds.front();
  std::vector<double> ratios(ours.size());
  for (std::size_t i = 0; i < ours.size(); ++i) ratios[i] = rounds[fastest][i] / ours[i];
  PairedScore score;
  score.baseline = subjects[fastest].name;
  score.rounds = static_cast<int>(ratios.size());
  const auto robust = stats::robust_score(ratios);
  if (!robust) return score;
  score.value = robust->score;
  score.buckets.assign(robust->bucket_means.begin(), robust->bucket_means.end());
  score.variance = robust->variance;
  score.usable = robust->usable;
  return score;
}

}  // namespace warpsmith
