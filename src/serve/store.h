// The store: every submission that was accepted, with its state and outcome, in one SQLite file. What accept() reports
// is on disk before it returns, and a store opened after any end of the process goes on where it was.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "serve/submission.h"

namespace warpsmith::serve {

// queued -> running -> done; a deadline that passes in the queue ends in expired, an environment that failed (or ended
// the process) kMostTries times in a row in failed. Submitting an expired or failed candidate again queues it again.
enum class JobState { queued, running, done, expired, failed };
std::string_view to_string(JobState state);
inline bool is_final(JobState state) { return state != JobState::queued && state != JobState::running; }

inline constexpr int kMostTries = 3;

struct Job {
  std::string id, device;
  Problem problem;
  std::string name, source, descriptor;  // as in Submission
  std::int64_t tokens = 0;
  int priority = 0;
  std::optional<double> deadline;  // Unix time
  JobState state = JobState::queued;
  int tries = 0;              // starts without an outcome since the last one
  std::int64_t measured = 0;  // outcomes so far
  double accepted = 0;        // Unix time
  std::optional<double> finished;
  std::string outcome;  // JSON, of state done; of failed, the reason
};

struct Receipt {
  std::string id;
  JobState state = JobState::queued;
  bool duplicate = false;  // nothing was queued for it
};

struct Acceptance {
  std::vector<Receipt> receipts;  // one a submission, in order; empty when the queue is full
  std::int64_t queued = 0;        // jobs of this site that wait, these included
};

class Store {
 public:
  // Opens or creates; jobs that ran when the process ended are queued again. Jobs belong to the machine, target and
  // number of threads that they were accepted for: those of `site` on devices that are not among `devices` (nor will
  // be) move to the first, those of other sites wait for a server of theirs. Error: bad_input for a file that is no
  // queue, is damaged, or is another server's; environment.
  static Result<std::unique_ptr<Store>> open(const std::filesystem::path& path, const Site& site,
                                             const std::vector<std::string>& devices);
  virtual ~Store() = default;

  // All or none, by one transaction. A candidate that is known is not queued again unless it asks to be measured again;
  // one that still waits takes the higher priority and the later deadline of both.
  virtual Result<Acceptance> accept(const std::vector<Submission>& submissions, std::int64_t most_queued) = 0;
  // The next job of a device, now running: highest priority, then nearest deadline, then first come.
  virtual Result<std::optional<Job>> claim(const std::string& device) = 0;
  virtual Status finish(const std::string& id, const std::string& outcome) = 0;
  // The environment failed: queued again, or failed for good. The state that follows.
  virtual Result<JobState> give_up(const std::string& id, const std::string& reason) = 0;
  virtual Status release(const std::string& id) = 0;  // claimed but not begun: queued again

  virtual Result<std::optional<Job>> find(const std::string& id) = 0;
  virtual Result<std::optional<JobState>> state(const std::string& id) = 0;
  virtual Result<std::vector<std::string>> expire() = 0;  // ids of jobs whose deadline has passed
  // Jobs of this site that wait and run, by device.
  virtual Result<std::map<std::string, std::pair<std::int64_t, std::int64_t>>> counts() = 0;
  // Jobs that wait for a server of another site, by that site in words.
  virtual Result<std::map<std::string, std::int64_t>> elsewhere() = 0;

  // What speed-ups of a problem refer to, once measured for good: rewards stay comparable over restarts.
  struct Reference {
    double time_us = 0;
    std::string name;
  };
  virtual Result<std::optional<Reference>> reference(const std::string& machine, const std::string& problem) = 0;
  virtual Status keep_reference(const std::string& machine, const std::string& problem, const Reference& reference) = 0;
};

double unix_now();

}  // namespace warpsmith::serve
