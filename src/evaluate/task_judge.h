// Tasks (general kernels) beside matrix products: the worker's side and the parent's. What a task is, is known to those
// who implement TaskService and write its requests (task/); here a request is an object that is passed on.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "evaluate/backend.h"
#include "evaluate/effort.h"
#include "evaluate/evaluator.h"
#include "evaluate/verdict.h"
#include "problem/machine.h"

namespace warpsmith {

// What one evaluation of a task's candidate is asked for.
struct TaskRequest {
  nlohmann::json task;
  std::uint64_t seed = 1;
  TimingEffort effort;
  double best_us = 0, too_slow_us = 0;  // as of Evaluator::evaluate()
};

// What the service says while it works.
struct WorkerNotices {
  std::function<void(const char* stage)> announce;
  std::function<void()> poisoned;  // this process is not to be used again
};

// Proves and times candidates for tasks, in the worker.
class TaskService {
 public:
  virtual ~TaskService() = default;
  virtual Result<Verdict> evaluate(const TaskRequest& request, const WorkerNotices& notices) = 0;
};

// As serve_worker(backend), with tasks.
int serve_worker(Backend& backend, TaskService& tasks);

// The parent's side: limits, crashes and leaps become verdicts as they do for matrix products.
class TaskJudge {
 public:
  // Starts a worker, which must serve tasks. Error: environment.
  static Result<std::unique_ptr<TaskJudge>> start(const EvaluatorOptions& options);
  virtual ~TaskJudge() = default;

  virtual const Machine& device() const = 0;
  // identity: of the task and what is timed of it. Never fails: what goes wrong is the verdict.
  virtual Verdict judge_task(const std::string& identity, const nlohmann::json& task, double best_us,
                             const TimingEffort& effort) = 0;
};

}  // namespace warpsmith
