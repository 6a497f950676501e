// What a language model is told of a task: templates of their own (prompts/task_*.md) beside those of matrix products.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "llm/chat.h"
#include "llm/hack_checker.h"
#include "llm/prompt.h"
#include "llm/template.h"
#include "llm/text_index.h"
#include "task/session.h"

namespace warpsmith::task {

struct TaskPrompts {
  llm::Template system, cuda, cpu, checker;
  llm::Prompts shared;  // exemplars, repair

  // As llm::Prompts::find().
  static Result<TaskPrompts> find(const std::string& chosen);
};

// A measured candidate, as a prompt shows it.
struct ShownCandidate {
  std::string source, descriptor;
  double time_us = 0, speedup = 0;  // over the first candidate; 0: unknown
};

std::vector<llm::Message> propose(const TaskPrompts& prompts, const Task& task, Target target, const Machine& machine,
                                  const std::vector<ShownCandidate>& exemplars,  // slowest first
                                  const std::vector<std::string>& failures,
                                  const std::vector<llm::Passage>& retrieved = {},
                                  const std::string& headers = {});  // as offered_headers() says

// A candidate whose time is a leap, as a second model is asked about it.
std::vector<llm::Message> check_prompt(const TaskPrompts& prompts, const Task& task, Target target,
                                       const TaskCandidate& candidate, double time_us, const std::string& leap,
                                       const std::vector<llm::Suspicion>& suspicions,
                                       const std::vector<llm::KnownHack>& similar);
// What rules find in a candidate's text, and inputs that it does not read.
std::vector<llm::Suspicion> find_suspicions(const Task& task, const TaskCandidate& candidate);

// The blocks of an answer's code section as a candidate. Error (bad_input): one line.
Result<TaskCandidate> read_answer(const TaskSession& session, const std::string& text);

}  // namespace warpsmith::task
