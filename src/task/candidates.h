// The candidates that lie with a task, and a search over them and over the values of their tuned macros.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "policy/rng.h"
#include "task/session.h"

namespace warpsmith::task {

// Every candidate under `directory` (its *.json files, by name) that is for the target's language. Error: the first one
// that cannot be read.
Result<std::vector<TaskCandidate>> load_candidates(const Task& task, const std::filesystem::path& directory,
                                                   Target target);
// One, by its source or descriptor.
Result<TaskCandidate> load_candidate_file(const Task& task, const std::filesystem::path& path);

// Ask and tell: every candidate as it is written first, then neighbours of the fast ones, one macro changed at a time.
class TunedProposals {
 public:
  TunedProposals(std::vector<TaskCandidate> candidates, std::uint64_t seed);

  // Nothing: all combinations have been proposed, or none can be found that was not.
  std::optional<TaskCandidate> ask();
  // time_us: absent where it was not accepted.
  void tell(const TaskCandidate& candidate, std::optional<double> time_us);
  // Known from earlier runs: not proposed again.
  void forget(const std::string& identity) { proposed_.insert(identity); }

 private:
  struct Known {
    TaskCandidate candidate;
    double time_us = 0;
  };
  std::optional<TaskCandidate> neighbour();

  std::vector<TaskCandidate> candidates_;
  std::size_t next_ = 0;
  std::vector<Known> known_;  // accepted, fastest first
  std::set<std::string> proposed_;
  Rng rng_;
};

}  // namespace warpsmith::task
