// A task opened on a device, for whoever proposes candidates: text in, verdict out. The search over shipped candidates
// uses it, and so may a language model's loop: statement() says what is wanted, parse() reads an answer's two texts,
// evaluate() judges.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "archive/archive.h"
#include "base/result.h"
#include "compile/compile.h"
#include "evaluate/sanitizer.h"
#include "evaluate/task_judge.h"
#include "task/service.h"
#include "task/task.h"

namespace warpsmith::task {

// A candidate with values for its tuned macros.
struct TaskCandidate {
  FreeForm form;
  std::vector<std::pair<std::string, std::int64_t>> chosen;
  std::string descriptor{};  // the JSON text of `form`

  // Its identity in the archive: "free HASH NAME", then MACRO=VALUE of every tuned macro.
  std::string identity() const;
  std::string short_name() const;  // without the hash
};

// Both texts of a candidate. Error (bad_input): one line.
Result<TaskCandidate> parse_task_candidate(const Task& task, std::string source, const std::string& descriptor);
// Its descriptor with the macros at the values that were chosen.
nlohmann::json chosen_descriptor(const TaskCandidate& candidate);

struct SessionOptions {
  EvaluatorOptions evaluator;  // target, threads, device, limits, worker, seed
  CompilerOptions compiler;
  bool confined = true;  // C++ candidates
};

struct TaskOutcome {
  Verdict verdict;
  std::string source_hash;  // of what was compiled for the timed setting; empty: nothing was
};

class TaskSession {
 public:
  // Compiles the reference and starts a worker. Error: bad_input of a reference that does not compile; environment.
  static Result<std::unique_ptr<TaskSession>> open(Task task, const SessionOptions& options);

  const Task& task() const { return task_; }
  const Machine& machine() const { return judge_->device(); }
  Target target() const { return options_.evaluator.target; }
  Archive::Scope scope() const;
  std::string statement() const { return statement_of(task_, target()); }

  Result<TaskCandidate> parse(std::string source, const std::string& descriptor) const {
    return parse_task_candidate(task_, std::move(source), descriptor);
  }
  // Compiled for every setting, proved at every one, timed at the timed one. best_us, effort: as of Evaluator.
  TaskOutcome evaluate(const TaskCandidate& candidate, double best_us, const TimingEffort& effort);
  // compute-sanitizer over the candidate at every setting whose tensors are of moderate size; CUDA targets only.
  SanitizerReport sanitize(const TaskCandidate& candidate, SanitizerOptions options);
  // The sources of every setting, for reading and for writing winners.
  Result<Candidate> instantiate(const TaskCandidate& candidate, int setting) const;

 private:
  TaskSession(Task task, SessionOptions options)
      : task_(std::move(task)), options_(std::move(options)), compiler_(options_.compiler) {}
  EvaluationRequest request_for_task() const;  // without a candidate
  Status compile_all(const TaskCandidate& candidate, EvaluationRequest& request, TaskOutcome& outcome,
                     ResourceReport& resources);

  Task task_;
  SessionOptions options_;
  Compiler compiler_;
  std::unique_ptr<TaskJudge> judge_;
  Status compile_reference();

  std::string reference_;  // the compiled reference; empty: it is CUDA code, with a binary for every setting
  std::vector<CompiledSetting> references_;
};

// What a search spends on a candidate.
TimingEffort task_effort(const Machine& machine);

}  // namespace warpsmith::task
