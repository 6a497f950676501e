// The optimise loop on a task with language models: prompts out of what is measured, answers into candidates, one
// repair each, verdicts and transcripts into the archive. llm/session.h is its counterpart for matrix products.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "archive/archive.h"
#include "base/result.h"
#include "llm/budget.h"
#include "llm/chat.h"
#include "llm/session.h"
#include "task/models/task_prompts.h"
#include "task/optimize.h"
#include "task/session.h"

namespace warpsmith::task {

struct ModelSearchOptions {
  std::vector<llm::ModelChoice> models;  // at least one
  double temperature = 0.8;
  std::int64_t max_tokens = 8192;
  llm::BudgetLimits limits;
  double budget_seconds = 60;
  std::int64_t max_candidates = 0;  // judged; 0: no limit
  std::size_t exemplars = 2;
  int first = 2;  // of the given candidates, measured before the first prompt where fewer than `exemplars` are known
  std::uint64_t seed = 1;
  llm::TextIndex* index = nullptr;  // to retrieve from; null: nothing is
  std::size_t passages = 3;
  std::string retrieve;  // words to look for besides the task's
  // Of the reward checker; null: rules alone.
  llm::ChatClient* checker = nullptr;
  llm::ModelChoice checker_model;
};

// The first prompt, as it would be sent where nothing was measured yet.
Result<std::vector<llm::Message>> first_prompt(const TaskSession& session, const ModelSearchOptions& options,
                                               const TaskPrompts& prompts);

struct ModelSearchResult {
  OptimizeTaskResult search;
  llm::SessionReport report;
};

// Error: environment (archive, device, an endpoint that never answers).
Result<ModelSearchResult> search_with_models(TaskSession& session, const std::vector<TaskCandidate>& candidates,
                                             const ModelSearchOptions& options, const TaskPrompts& prompts,
                                             llm::ChatClient& client, Archive& archive,
                                             const std::function<void(const TaskProgress&)>& on_progress,
                                             const std::atomic<bool>& stop);

}  // namespace warpsmith::task
