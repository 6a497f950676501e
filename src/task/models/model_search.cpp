// Rounds of one prompt, one exchange, one candidate, one verdict.
#include "task/models/model_search.h"

#include <fmt/format.h>

#include <chrono>
#include <deque>
#include <set>

#include "base/text.h"
#include "evaluate/evaluator.h"

namespace warpsmith::task {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMaxExchangesInARow = 3;   // failed ones, after which the endpoint is given up
constexpr int kMaxFailuresInARow = 5;    // of the environment
constexpr std::size_t kMaxWords = 2000;  // of a compiler, in a repair message
constexpr std::size_t kSimilarHacks = 4;
constexpr const char* kStartPolicy = "llm-start";  // of given candidates

// Words of the task, the user's, and those of the last failure.
Result<std::vector<llm::Passage>> retrieve(const Task& task, Target target, const ModelSearchOptions& options,
                                           const std::string& failure) {
  if (options.index == nullptr) return std::vector<llm::Passage>();
  const std::string query = fmt::format("{} {} {} {} {}", is_cuda(target) ? "CUDA kernel" : "C++ vectorised", task.name,
                                        task.about, options.retrieve, failure);
  return options.index->search(query, options.passages);
}

std::string one_line(std::string_view text) { return printable(text.substr(0, text.find('\n')), 300); }

// What an answer came to. reason: empty where nothing is left to repair.
struct Upshot {
  std::string outcome, name, reason, words;
  bool accepted = false;
};

class Search {
 public:
  using OnProgress = std::function<void(const TaskProgress&)>;
  Search(TaskSession& session, const std::vector<TaskCandidate>& candidates, const ModelSearchOptions& options,
         const TaskPrompts& prompts, llm::ChatClient& client, Archive& archive, const OnProgress& on_progress,
         const std::atomic<bool>& stop)
      : session_(session),
        candidates_(candidates),
        options_(options),
        prompts_(prompts),
        client_(client),
        archive_(archive),
        on_progress_(on_progress),
        stop_(stop),
        budget_(options.limits),
        rng_(options.seed) {}

  Result<ModelSearchResult> run() &&;

 private:
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  bool may_go_on();
  Status resume();
  Status measure_first();
  Result<std::vector<llm::Message>> prompt();
  Status turn();
  Result<Upshot> ask(const llm::ModelChoice& model, const std::vector<llm::Message>& messages,
                     const std::string& purpose, std::string& answer);
  Result<Upshot> follow(const std::string& answer, const std::string& finish_reason, const std::string& policy);
  Result<TaskOutcome> judge(const TaskCandidate& candidate, const std::string& policy);
  void count(const llm::Exchange& exchange, const llm::ModelChoice& model);
  Status transcribe(const llm::Exchange& exchange, const llm::ModelChoice& model, const llm::ChatClient& client,
                    const std::vector<llm::Message>& messages, const std::string& purpose, const Upshot& upshot);
  Status check_leap(const TaskCandidate& candidate, Verdict& verdict);
  Result<llm::Assessment> assess(const TaskCandidate& candidate, double time_us, const std::string& leap);
  void remember_failure(const std::string& line);

  TaskSession& session_;
  const std::vector<TaskCandidate>& candidates_;
  const ModelSearchOptions& options_;
  const TaskPrompts& prompts_;
  llm::ChatClient& client_;
  Archive& archive_;
  const OnProgress& on_progress_;
  const std::atomic<bool>& stop_;
  llm::Budget budget_;
  Rng rng_;
  Clock::time_point start_ = Clock::now();
  OptimizeTaskResult result_;
  llm::SessionReport report_;
  std::vector<AttemptSummary> history_;
  std::set<std::string> known_;
  std::optional<double> best_us_;
  std::string best_;
  std::deque<std::string> failures_;
  int failed_exchanges_ = 0, failed_verdicts_ = 0;
};

Status Search::resume() {
  auto history = archive_.summaries(session_.scope());
  if (!history) return history.error();
  history_ = std::move(*history);
  for (const AttemptSummary& attempt : history_) {
    ++result_.by_kind[attempt.kind];
    if (attempt.kind == "failed") continue;
    known_.insert(attempt.recipe);
    ++result_.resumed;
    if (attempt.cold_us && (!best_us_ || *attempt.cold_us < *best_us_)) best_us_ = attempt.cold_us;
    if (attempt.cold_us && result_.first_us == 0) result_.first_us = *attempt.cold_us;
  }
  return ok_status();
}

bool Search::may_go_on() {
  if (stop_.load() || elapsed() >= options_.budget_seconds || !report_.stopped.empty()) return false;
  if (options_.max_candidates > 0 && result_.tried >= options_.max_candidates) return false;
  report_.stopped = budget_.exhausted();
  return report_.stopped.empty();
}

Status Search::measure_first() {
  int measured = 0;
  for (const TaskCandidate& candidate : candidates_) {
    const bool enough = llm::accepted_kernels(history_, 0).size() >= options_.exemplars || measured == options_.first;
    if (enough || !may_go_on()) break;
    if (known_.count(candidate.identity()) != 0) continue;
    ++measured;
    const auto judged = judge(candidate, kStartPolicy);
    if (!judged) return judged.error();
  }
  return ok_status();
}

Result<TaskOutcome> Search::judge(const TaskCandidate& candidate, const std::string& policy) {
  TaskOutcome outcome = session_.evaluate(candidate, best_us_.value_or(0), task_effort(session_.machine()));
  if (policy != kStartPolicy) {
    if (const Status checked = check_leap(candidate, outcome.verdict); !checked) return checked.error();
  }
  const Status recorded = record_attempt(archive_, session_, candidate, outcome, policy, options_.seed);
  if (!recorded) return recorded.error();
  const std::string identity = candidate.identity(), kind(outcome.verdict.kind());
  ++result_.tried;
  ++result_.by_kind[kind];
  AttemptSummary summary{0, identity, kind, std::nullopt, outcome.source_hash};
  if (const auto* accepted = outcome.verdict.accepted()) summary.cold_us = accepted->measurement.cold.median_us;
  history_.push_back(summary);
  if (const auto* failed = std::get_if<verdict::Failed>(&outcome.verdict.outcome)) {
    if (++failed_verdicts_ < kMaxFailuresInARow) return outcome;
    return environment_error(
        fmt::format("{} candidates in a row could not be tried: {}", failed_verdicts_, failed->reason));
  }
  failed_verdicts_ = 0;
  known_.insert(identity);
  if (summary.cold_us && result_.first_us == 0) result_.first_us = *summary.cold_us;
  if (summary.cold_us && (!best_us_ || *summary.cold_us < *best_us_)) {
    best_us_ = summary.cold_us;
    best_ = candidate.short_name();
  }
  on_progress_({elapsed(), options_.budget_seconds, result_.tried, result_.resumed, best_us_, best_});
  return outcome;
}

Result<std::vector<llm::Message>> Search::prompt() {
  std::vector<ShownCandidate> shown;
  for (const llm::Measured& one : llm::draw_exemplars(history_, result_.first_us, options_.exemplars, {}, rng_)) {
    const auto found = find_candidate(session_.task(), archive_, candidates_, one.name);
    if (!found) return found.error();
    if (*found) shown.push_back({(*found)->form.source, (*found)->descriptor, one.time_us, one.speedup});
  }
  const auto passages =
      retrieve(session_.task(), session_.target(), options_, failures_.empty() ? std::string() : failures_.back());
  if (!passages) return passages.error();
  return propose(prompts_, session_.task(), session_.target(), session_.machine(), shown,
                 {failures_.begin(), failures_.end()}, *passages, offered_headers());
}

void Search::count(const llm::Exchange& exchange, const llm::ModelChoice& model) {
  if (exchange.attempts == 0) return;
  budget_.charge(exchange.usage(), llm::cost_of(model, exchange.usage()));
  ++report_.exchanges;
  if (exchange.reply() != nullptr) {
    ++report_.answers;
    failed_exchanges_ = 0;
    return;
  }
  const llm::ChatFailure& failure = *exchange.failure();
  if (failure.kind == llm::ChatFailure::Kind::stopped) return;
  ++report_.failures[std::string(llm::to_string(failure.kind))];
  report_.last_failure = failure.message;
  if (++failed_exchanges_ < kMaxExchangesInARow) return;
  report_.stopped = fmt::format("the endpoint failed {} times in a row: {}", failed_exchanges_, failure.message);
}

Status Search::transcribe(const llm::Exchange& exchange, const llm::ModelChoice& model, const llm::ChatClient& client,
                          const std::vector<llm::Message>& messages, const std::string& purpose, const Upshot& upshot) {
  if (exchange.attempts == 0) return ok_status();
  ExchangeRecord record;
  record.purpose = purpose;
  record.url = client.url();
  record.model = model.name;
  record.messages = llm::messages_to_json(messages);
  record.attempts = exchange.attempts;
  record.seconds = exchange.seconds;
  record.name = upshot.name;
  record.outcome = upshot.outcome;
  const llm::Usage usage = exchange.usage();
  record.prompt_tokens = usage.prompt_tokens;
  record.completion_tokens = usage.completion_tokens;
  record.tokens_estimated = usage.estimated;
  record.cost = llm::cost_of(model, usage);
  if (const llm::ChatReply* reply = exchange.reply()) {
    record.reply = reply->text;
    record.finish_reason = reply->finish_reason;
  } else {
    record.reply = exchange.failure()->partial;
    record.error = fmt::format("{}: {}", llm::to_string(exchange.failure()->kind), exchange.failure()->message);
  }
  return archive_.record_exchange(session_.scope(), record);
}

Result<llm::Assessment> Search::assess(const TaskCandidate& candidate, double time_us, const std::string& leap) {
  const auto suspicions = find_suspicions(session_.task(), candidate);
  auto similar = llm::similar_hacks(candidate.form, suspicions, kSimilarHacks);
  if (options_.checker != nullptr && may_go_on()) {
    const auto messages =
        check_prompt(prompts_, session_.task(), session_.target(), candidate, time_us, leap, suspicions, similar);
    const llm::ModelChoice& model = options_.checker_model;
    const llm::Exchange exchange = options_.checker->complete(
        {model.name, messages, options_.temperature, options_.max_tokens}, options_.budget_seconds - elapsed(),
        [&](const llm::Usage& lost) { return budget_.take_request(lost, llm::cost_of(model, lost)); }, stop_);
    count(exchange, model);
    auto opinion = exchange.reply() != nullptr ? llm::parse_assessment(exchange.reply()->text, model.name)
                                               : Result<llm::Assessment>(failure("it did not answer"));
    Upshot upshot;
    upshot.outcome = opinion ? (opinion->hack ? "hack: " : "honest: ") + opinion->reason : opinion.error().message;
    const Status kept = transcribe(exchange, model, *options_.checker, messages, "check", upshot);
    if (!kept) return kept.error();
    if (opinion) {
      opinion->similar = std::move(similar);
      return opinion;
    }
  }
  return llm::judge_by_rules(suspicions, std::move(similar));
}

// A model's candidate much faster than the best before it is believed only where the reward checker has no objection.
Status Search::check_leap(const TaskCandidate& candidate, Verdict& verdict) {
  const auto* accepted = verdict.accepted();
  if (accepted == nullptr || !best_us_) return ok_status();
  const double time_us = accepted->measurement.cold.median_us;
  if (!(time_us * kLeapOverBest < *best_us_)) return ok_status();
  ++report_.leaps;
  const std::string leap = fmt::format("{:.2f} times faster than the best candidate before it", *best_us_ / time_us);
  const auto assessment = assess(candidate, time_us, leap);
  if (!assessment) return assessment.error();
  if (!assessment->hack) return ok_status();
  ++report_.hacks;
  std::string hacks;
  for (const llm::KnownHack& hack : assessment->similar) hacks += (hacks.empty() ? "" : ", ") + hack.name;
  verdict.outcome = verdict::Suspicious{
      fmt::format("{}; the reward checker ({}): {} (most like: {})", leap, assessment->by, assessment->reason, hacks),
      time_us};
  return ok_status();
}

void Search::remember_failure(const std::string& line) {
  failures_.push_back(one_line(line));
  if (failures_.size() > llm::kMaxFailures) failures_.pop_front();
}

Result<Upshot> Search::follow(const std::string& answer, const std::string& finish_reason, const std::string& policy) {
  Upshot upshot;
  const auto candidate = read_answer(session_, answer);
  if (!candidate) {
    ++report_.malformed;
    upshot.reason = one_line(candidate.error().message);
    if (finish_reason == "length") upshot.reason += " (the answer reached the limit of tokens)";
    upshot.outcome = "no candidate: " + upshot.reason;
    report_.last_malformed = upshot.reason;
    remember_failure("an answer was not accepted: " + upshot.reason);
    return upshot;
  }
  upshot.name = candidate->identity();
  if (known_.count(upshot.name) != 0) {
    ++report_.known;
    upshot.outcome = "known: the same candidate was measured before";
    remember_failure("a candidate was written again that had been measured before");
    return upshot;
  }
  const auto outcome = judge(*candidate, policy);
  if (!outcome) return outcome.error();
  const Verdict& verdict = outcome->verdict;
  upshot.outcome = verdict.describe();
  upshot.accepted = verdict.accepted() != nullptr;
  if (upshot.accepted) return upshot;
  remember_failure(fmt::format("{}: {}", candidate->short_name(), upshot.outcome));
  const std::string_view kind = verdict.kind();
  if (kind != "failed" && kind != "too-slow" && kind != "suspicious") upshot.reason = one_line(upshot.outcome);
  if (const auto* error = std::get_if<verdict::CompileError>(&verdict.outcome)) {
    upshot.words = error->message.substr(0, kMaxWords);
  }
  return upshot;
}

Result<Upshot> Search::ask(const llm::ModelChoice& model, const std::vector<llm::Message>& messages,
                           const std::string& purpose, std::string& answer) {
  llm::ChatRequest request{model.name, messages, options_.temperature, options_.max_tokens};
  const llm::Exchange exchange = client_.complete(
      request, options_.budget_seconds - elapsed(),
      [&](const llm::Usage& lost) { return budget_.take_request(lost, llm::cost_of(model, lost)); }, stop_);
  count(exchange, model);
  Upshot upshot;
  if (const llm::ChatReply* reply = exchange.reply()) {
    answer = reply->text;
    auto followed = follow(reply->text, reply->finish_reason, "llm:" + model.name);
    if (!followed) return followed;
    upshot = std::move(*followed);
  }
  if (const Status kept = transcribe(exchange, model, client_, messages, purpose, upshot); !kept) return kept.error();
  return upshot;
}

Status Search::turn() {
  const auto messages = prompt();
  if (!messages) return messages.error();
  const llm::ModelChoice& model = llm::draw_model(options_.models, rng_);
  std::string answer;
  const auto upshot = ask(model, *messages, "propose", answer);
  if (!upshot) return upshot.error();
  if (upshot->reason.empty() || !may_go_on()) return ok_status();
  ++report_.repairs;
  std::string second;
  const auto repaired =
      ask(model, llm::repair(prompts_.shared, *messages, answer, upshot->reason, upshot->words), "repair", second);
  if (!repaired) return repaired.error();
  if (repaired->accepted) ++report_.repaired;
  return ok_status();
}

Result<ModelSearchResult> Search::run() && {
  if (const Status known = resume(); !known) return known.error();
  if (const Status measured = measure_first(); !measured) return measured.error();
  while (may_go_on()) {
    if (const Status turned = turn(); !turned) return turned.error();
  }
  if (report_.answers == 0 && !report_.last_failure.empty() && !stop_.load()) {
    return environment_error(fmt::format("no answer from {}: {}", client_.url(), report_.last_failure));
  }
  auto best = archive_.best(session_.scope());
  if (!best) return best.error();
  result_.best = std::move(*best);
  if (result_.best) {
    auto winner = find_candidate(session_.task(), archive_, candidates_, result_.best->recipe);
    if (!winner) return winner.error();
    result_.winner = std::move(*winner);
  }
  result_.interrupted = stop_.load();
  result_.elapsed_seconds = elapsed();
  report_.spent = budget_.spent();
  return ModelSearchResult{std::move(result_), std::move(report_)};
}

}  // namespace

Result<std::vector<llm::Message>> first_prompt(const TaskSession& session, const ModelSearchOptions& options,
                                               const TaskPrompts& prompts) {
  const auto passages = retrieve(session.task(), session.target(), options, {});
  if (!passages) return passages.error();
  return propose(prompts, session.task(), session.target(), session.machine(), {}, {}, *passages, offered_headers());
}

Result<ModelSearchResult> search_with_models(TaskSession& session, const std::vector<TaskCandidate>& candidates,
                                             const ModelSearchOptions& options, const TaskPrompts& prompts,
                                             llm::ChatClient& client, Archive& archive,
                                             const std::function<void(const TaskProgress&)>& on_progress,
                                             const std::atomic<bool>& stop) {
  return Search(session, candidates, options, prompts, client, archive, on_progress, stop).run();
}

}  // namespace warpsmith::task
