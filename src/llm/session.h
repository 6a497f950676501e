// The optimise loop with language models as the policy: prompts out of what is measured, answers into candidates, one
// repair each, verdicts and transcripts into the archive. search/optimize.h is its counterpart for policies over
// recipes.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "archive/archive.h"
#include "base/result.h"
#include "compile/compile.h"
#include "evaluate/evaluator.h"
#include "llm/budget.h"
#include "llm/chat.h"
#include "llm/hack_checker.h"
#include "llm/prompt.h"
#include "llm/template.h"
#include "llm/text_index.h"
#include "search/optimize.h"

namespace warpsmith::llm {

// Who says what a candidate is worth.
class CandidateJudge {
 public:
  virtual ~CandidateJudge() = default;
  virtual Verdict judge(const Candidate& candidate, double best_us) = 0;
};
// Compiler, gates, clock. All must outlive the judge.
std::unique_ptr<CandidateJudge> make_live_judge(const Problem& problem, const Compiler& compiler, Evaluator& evaluator,
                                                const TimingEffort& effort);

struct SessionOptions {
  Archive::Scope scope;
  std::vector<ModelChoice> models;  // at least one
  double temperature = 0.8;
  std::int64_t max_tokens = 8192;
  BudgetLimits limits;
  double budget_seconds = 60;
  std::int64_t max_candidates = 0;  // judged; 0: no limit
  int parallel = 1;                 // prompts that are under way at once
  std::size_t exemplars = 2;
  embedded::BucketOptions buckets;
  int first_recipes = 4;  // starting points, measured where fewer kernels than `exemplars` are known
  std::uint64_t seed = 1;
  double reference_us = 0;  // of the fastest baseline; 0: unknown
  std::string reference;
  TextIndex* index = nullptr;  // to retrieve from; null: nothing is
  std::size_t passages = 3;
  std::string retrieve;  // words to look for besides the problem's
  // How an exemplar's profile reads; absent: none is taken.
  std::function<std::string(const std::string& name)> profile{};
  // Of the reward checker; empty: rules alone.
  ChatClient* checker = nullptr;
  ModelChoice checker_model;
};

// What talking to models came to.
struct SessionReport {
  Spent spent;
  std::int64_t exchanges = 0;                    // requests with an outcome, repetitions not counted
  std::int64_t answers = 0;                      // of them, with text
  std::int64_t malformed = 0;                    // answers without a candidate
  std::int64_t known = 0;                        // candidates that had been judged before
  std::int64_t repairs = 0, repaired = 0;        // second chances; those that ended with an accepted candidate
  std::int64_t leaps = 0, hacks = 0;             // looked at by the reward checker; those it did not believe
  std::map<std::string, std::int64_t> failures;  // of exchanges, by kind
  std::string stopped;       // why the session ended early: "40 requests", "the endpoint ..."; empty: time, candidates
  std::string last_failure;  // of an exchange
  std::string last_malformed;
};

struct SessionResult {
  OptimizeResult search;
  SessionReport report;
};

// Error: bad_input (no legal starting point), environment (archive, device, an endpoint that never answers).
Result<SessionResult> run_session(
    const SessionOptions& options, const Prompts& prompts, ChatClient& client, CandidateJudge& judge, Archive& archive,
    const std::function<void(const OptimizeProgress&, const std::string& doing)>& on_progress,
    const std::atomic<bool>& stop);

// The first prompt, as it would be sent with what the archive holds now.
Result<std::vector<Message>> first_prompt(const SessionOptions& options, const Prompts& prompts, ChatClient& client,
                                          Archive& archive);

nlohmann::json messages_to_json(const std::vector<Message>& messages);
nlohmann::json to_json(const SessionReport& report);

}  // namespace warpsmith::llm
