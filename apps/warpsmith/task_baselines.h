// PyTorch's ways to run a task's expression, and cuDNN's operator where it has one: a Python helper measures them in a
// process of its own.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "task/task.h"

namespace warpsmith::cli {

struct TaskBaselineRequest {
  double seconds = 0.5;  // of timing, for each
  std::uint64_t seed = 1;
  int device = 0;
};

// {"subjects": [{"subject": "torch-eager", "cold": {...}} or {"subject": ..., "not_run": reason}], "versions": {...}},
// or
// {"not_run": reason} where nothing can be had. The interpreter is $WARPSMITH_PYTHON, else python3 on the PATH; the
// helper is torch_task.py beside this program.
nlohmann::json measure_task_baselines(const task::Task& task, Target target, const TaskBaselineRequest& request);

}  // namespace warpsmith::cli
