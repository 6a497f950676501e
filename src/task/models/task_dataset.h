// Training data out of a task's attempts: rows as llm/dataset.h makes them of matrix products, with the prompts that
// search_with_models() sends. "task" names the task in each, "problem" its timed setting.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "archive/archive.h"
#include "base/result.h"
#include "llm/dataset.h"
#include "llm/text_index.h"
#include "task/models/task_prompts.h"
#include "task/task.h"

namespace warpsmith::task {

// The tasks in these directories, each of which is a task or holds some. Error: bad_input of the first that is none.
Result<std::vector<Task>> load_tasks(const std::vector<std::filesystem::path>& directories);

// Adds the rows of every task in the archive that is one of `tasks`, by its identity. Returns the identities of the
// others, of which the archive alone does not say what they ask for. A task is held out whole, by its name. `index` may
// be null.
Result<std::set<std::string>> add_tasks(llm::DatasetRows& rows, llm::DatasetKind kind, Archive& archive,
                                        const std::vector<Task>& tasks, const TaskPrompts& prompts,
                                        llm::TextIndex* index, const llm::DatasetOptions& options);

}  // namespace warpsmith::task
