// The end of a search on a task: its fastest candidates are measured again and watched by the sanitizer, and the first
// one that holds is what was found.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "archive/archive.h"
#include "base/result.h"
#include "evaluate/sanitizer.h"
#include "task/session.h"

namespace warpsmith::task {

struct FinishOptions {
  std::size_t finalists = 3;
  double seconds = 1;  // of timing, for each
  std::uint64_t seed = 1;
  // TaskSession::sanitize(), or what stands for it.
  std::function<SanitizerReport(const TaskCandidate&)> sanitize;
};

struct TaskConclusion {
  TaskCandidate winner;
  Verdict verdict;  // of its last measurement: accepted
  SanitizerReport sanitizer;
};

// Every verdict is a row of the archive (policy finalist). `known`: candidates of the search; others come from the
// archive. Error: failed, with the last reason, where none holds; environment.
Result<TaskConclusion> finish(TaskSession& session, Archive& archive, const std::vector<TaskCandidate>& known,
                              const FinishOptions& options, const std::function<void(const std::string&)>& on_step);

}  // namespace warpsmith::task
