// `optimize --task` and `bench --task`: general kernels (docs/tasks.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli.h"
#include "llm_search.h"

namespace warpsmith::cli {

struct TaskArguments {
  std::vector<std::string> tasks;       // directories
  std::vector<std::string> candidates;  // files; empty: those that lie with the task
  DeviceOptions device;
  std::string budget, effort;  // durations; of optimize, of bench
  std::int64_t max_candidates = 0;
  std::string archive, kernels;
  std::uint64_t seed = 1;
  bool torch = false, no_sandbox = false, json = false, quiet = false;
  bool sanitize = false;            // compute-sanitizer over finalists; of bench, over the fastest candidate
  std::optional<LlmOptions> llm{};  // of optimize: language models propose
};

// Each returns an exit code.
Result<int> optimize_task_command(const TaskArguments& arguments);
Result<int> bench_task_command(const TaskArguments& arguments);

}  // namespace warpsmith::cli
