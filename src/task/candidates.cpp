// Files, and hill climbing over small grids.
#include "task/candidates.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"

namespace warpsmith::task {

namespace {

constexpr std::size_t kParents = 4;  // of the fastest, whose neighbours are tried
constexpr double kElsewhere = 0.25;  // share of proposals with all macros drawn anew
constexpr int kTries = 200;          // to find one that was not proposed

}  // namespace

Result<TaskCandidate> load_candidate_file(const Task& task, const std::filesystem::path& path) {
  auto form = load_candidate(path, task.names());
  if (!form) return form.error();
  auto descriptor = read_file(form->descriptor);
  if (!descriptor) return descriptor.error();
  TaskCandidate candidate{std::move(*form), {}, std::move(*descriptor)};
  for (const Tunable& tunable : candidate.form.tune) candidate.chosen.emplace_back(tunable.macro, tunable.values[0]);
  return candidate;
}

Result<std::vector<TaskCandidate>> load_candidates(const Task& task, const std::filesystem::path& directory,
                                                   Target target) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<TaskCandidate> candidates;
  for (const auto& path : paths) {
    auto candidate = load_candidate_file(task, path);
    if (!candidate) return candidate.error();
    if ((candidate->form.language == Language::cuda) == is_cuda(target)) candidates.push_back(std::move(*candidate));
  }
  return candidates;
}

TunedProposals::TunedProposals(std::vector<TaskCandidate> candidates, std::uint64_t seed)
    : candidates_(std::move(candidates)), rng_(seed) {}

std::optional<TaskCandidate> TunedProposals::ask() {
  while (next_ < candidates_.size()) {
    const TaskCandidate& candidate = candidates_[next_++];
    if (proposed_.insert(candidate.identity()).second) return candidate;
  }
  return neighbour();
}

std::optional<TaskCandidate> TunedProposals::neighbour() {
  for (int i = 0; i < kTries && !candidates_.empty(); ++i) {
    const bool near = !known_.empty() && !rng_.chance(kElsewhere);
    TaskCandidate candidate = near ? known_[rng_.index(std::min(kParents, known_.size()))].candidate
                                   : candidates_[rng_.index(candidates_.size())];
    const auto& tune = candidate.form.tune;
    if (tune.empty()) continue;
    const auto draw = [&](std::size_t which) {
      candidate.chosen[which].second = tune[which].values[rng_.index(tune[which].values.size())];
    };
    if (near) {
      draw(rng_.index(tune.size()));
    } else {
      for (std::size_t which = 0; which < tune.size(); ++which) draw(which);
    }
    if (proposed_.insert(candidate.identity()).second) return candidate;
  }
  return std::nullopt;
}

void TunedProposals::tell(const TaskCandidate& candidate, std::optional<double> time_us) {
  if (!time_us) return;
  const auto place =
      std::find_if(known_.begin(), known_.end(), [&](const Known& one) { return *time_us < one.time_us; });
  known_.insert(place, {candidate, *time_us});
}

}  // namespace warpsmith::task
