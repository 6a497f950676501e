// Rounds of prompts, exchanges, candidates and verdicts.
#include "llm/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <future>
#include <set>
#include <utility>

#include "base/hash.h"
#include "base/text.h"
#include "llm/answer.h"
#include "report/table.h"
#include "search/candidate_trial.h"
#include "search/named_candidate.h"
#include "search/starting_points.h"

namespace warpsmith::llm {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMaxFailuresInARow = 5;    // of the environment, as in search/optimize.cpp
constexpr int kMaxExchangesInARow = 3;   // failed ones, after which the endpoint is given up
constexpr std::size_t kMaxWords = 2000;  // of a compiler, in a repair message

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::string one_line(std::string_view text, std::size_t limit = 300) {
  return printable(text.substr(0, text.find('\n')), limit);
}

class LiveJudge final : public CandidateJudge {
 public:
  LiveJudge(const Problem& problem, const Compiler& compiler, Evaluator& evaluator, const TimingEffort& effort)
      : problem_(problem), compiler_(compiler), evaluator_(evaluator), effort_(effort) {}

  Verdict judge(const Candidate& candidate, double best_us) override {
    return judge_candidate(compile_candidate(candidate, compiler_), problem_, evaluator_, best_us, effort_);
  }

 private:
  Problem problem_;
  const Compiler& compiler_;
  Evaluator& evaluator_;
  TimingEffort effort_;
};

// One prompt on its way to a verdict.
struct Turn {
  ModelChoice model;
  std::vector<Message> messages;
  std::string purpose = "propose";
};

// What an answer came to, for the next message. reason: empty where nothing is left to repair.
struct Upshot {
  std::string outcome;  // for the transcript
  std::string name;     // of the candidate
  std::string reason, words;
  bool accepted = false;
};

class Session {
 public:
  using OnProgress = std::function<void(const OptimizeProgress&, const std::string&)>;
  Session(const SessionOptions& options, const Prompts& prompts, ChatClient& client, CandidateJudge* judge,
          Archive& archive, const OnProgress& on_progress, const std::atomic<bool>& stop)
      : options_(options),
        prompts_(prompts),
        client_(client),
        judge_(judge),
        archive_(archive),
        on_progress_(on_progress),
        stop_(stop),
        budget_(options.limits),
        rng_(options.seed) {}

  Status resume();
  Status measure_first_recipes();
  Result<std::vector<Message>> prompt();
  Status run();
  Result<SessionResult> finish();

 private:
  double left() const { return options_.budget_seconds - seconds_since(start_); }
  bool may_go_on();
  void show(const std::string& doing);
  std::string query() const;
  Exchange send(const Turn& turn, ChatClient& client);
  Status take(const Turn& turn, const Exchange& exchange);
  Status repair_once(const Turn& turn, const Exchange& exchange, const Upshot& upshot);
  Result<Upshot> follow(const Exchange& exchange, const std::string& policy);
  Result<Upshot> judge_written(const Written& written, const std::string& policy);
  void count(const Exchange& exchange, const ModelChoice& model);
  Status transcribe(const Turn& turn, const Exchange& exchange, const ChatClient& client, const Upshot& upshot);
  Status check_leap(const Written& written, double time_us, Verdict& verdict);
  Result<Assessment> assess(const Leap& leap);
  Status absorb(const std::string& name, const std::string& policy, const Candidate& candidate, const Verdict& verdict);
  void remember_failure(const std::string& line);

  const SessionOptions& options_;
  const Prompts& prompts_;
  ChatClient& client_;
  CandidateJudge* judge_;
  Archive& archive_;
  const OnProgress& on_progress_;
  const std::atomic<bool>& stop_;
  Budget budget_;
  Rng rng_;
  Clock::time_point start_ = Clock::now();
  OptimizeResult result_;
  SessionReport report_;
  std::vector<AttemptSummary> history_;
  std::set<std::string> known_;
  std::optional<double> best_us_;
  std::string best_name_;
  std::deque<std::string> failures_;  // the latest, for prompts
  int failed_exchanges_in_a_row_ = 0, failed_verdicts_in_a_row_ = 0;
  double busy_seconds_ = 0;  // waiting for models and verdicts
};

Status Session::resume() {
  auto history = archive_.summaries(options_.scope);
  if (!history) return history.error();
  history_ = std::move(*history);
  for (const AttemptSummary& attempt : history_) {
    ++result_.by_kind[attempt.kind];
    if (attempt.kind == "failed") continue;
    known_.insert(attempt.recipe);
    ++result_.resumed;
    if (attempt.cold_us && (!best_us_ || *attempt.cold_us < *best_us_)) {
      best_us_ = attempt.cold_us;
      best_name_ = short_name(attempt.recipe);
    }
  }
  return ok_status();
}

bool Session::may_go_on() {
  if (stop_.load() || !(left() > 0) || !report_.stopped.empty()) return false;
  if (options_.max_candidates > 0 && result_.tried >= options_.max_candidates) return false;
  if (const std::string used = budget_.exhausted(); !used.empty()) {
    report_.stopped = used + (used.back() == 's' ? " are used up" : " is used up");
    return false;
  }
  return true;
}

void Session::show(const std::string& doing) {
  on_progress_({seconds_since(start_), options_.budget_seconds, result_.tried, result_.resumed, best_us_, best_name_},
               doing);
}

Status Session::measure_first_recipes() {
  const auto known = accepted_kernels(history_, options_.reference_us);
  if (known.size() >= options_.exemplars) return ok_status();
  const StartingPoints starts =
      find_starting_points(options_.scope.problem, options_.scope.machine, options_.scope.target);
  int measured = 0;
  for (const Recipe& recipe : starts.all()) {
    if (measured == options_.first_recipes || !may_go_on()) break;
    const std::string name = to_string(recipe);
    if (known_.count(name) != 0) continue;
    auto candidate = generate(recipe, options_.scope.problem, options_.scope.machine);
    if (!candidate) continue;
    show("measuring a first kernel: " + to_short_string(recipe));
    ++measured;
    const Verdict verdict = judge_->judge(*candidate, best_us_.value_or(0));
    if (const Status status = absorb(name, "llm-start", *candidate, verdict); !status) return status.error();
  }
  return ok_status();
}

// What to retrieve: words of the problem, the user's, and those of the last failure.
std::string Session::query() const {
  const Problem& problem = options_.scope.problem;
  std::string words = is_cuda(options_.scope.target)
                          ? fmt::format(
                                "HGEMM GEMM matrix multiplication tensor core mma ldmatrix shared memory swizzle "
                                "pipeline stages occupancy {} ",
                                options_.scope.target == Target::sm90 ? "sm90 Hopper wgmma TMA mbarrier cluster"
                                                                      : "sm80 Ampere cp.async")
                          : std::string("HGEMM GEMM matrix multiplication CPU cache blocking AVX-512 packing threads ");
  words += problem.m * problem.n <= 256 * 256 ? "small split-k latency " : "large tile raster ";
  words += options_.retrieve;
  if (!failures_.empty()) words += " " + failures_.back();
  return words;
}

Result<std::vector<Message>> Session::prompt() {
  PromptFacts facts;
  facts.scope = options_.scope;
  if (is_cuda(facts.scope.target)) facts.headers = offered_headers();
  facts.reference_us = options_.reference_us;
  facts.reference = options_.reference;
  facts.failures.assign(failures_.begin(), failures_.end());
  for (const Measured& measured :
       draw_exemplars(history_, options_.reference_us, options_.exemplars, options_.buckets, rng_)) {
    auto exemplar = llm::show(measured, options_.scope, archive_);
    if (!exemplar && exemplar.error().kind == ErrorKind::environment) return exemplar.error();
    if (!exemplar) continue;  // of a knob table that has changed since
    if (options_.profile) exemplar->metrics = options_.profile(measured.name);
    facts.exemplars.push_back(std::move(*exemplar));
  }
  if (options_.index != nullptr) {
    const auto passages = options_.index->search(query(), options_.passages);
    if (!passages) return passages.error();
    for (const Passage& passage : *passages) facts.retrieved.emplace_back(passage.place, passage.text);
  }
  return propose(prompts_, facts);
}

Exchange Session::send(const Turn& turn, ChatClient& client) {
  return client.complete(
      {turn.model.name, turn.messages, options_.temperature, options_.max_tokens}, left(),
      [&](const Usage& lost) { return budget_.take_request(lost, cost_of(turn.model, lost)); }, stop_);
}

void Session::count(const Exchange& exchange, const ModelChoice& model) {
  if (exchange.attempts == 0) return;
  budget_.charge(exchange.usage(), cost_of(model, exchange.usage()));
  ++report_.exchanges;
  if (exchange.reply() != nullptr) {
    ++report_.answers;
    failed_exchanges_in_a_row_ = 0;
    return;
  }
  const ChatFailure& failure = *exchange.failure();
  if (failure.kind == ChatFailure::Kind::stopped) return;
  ++report_.failures[std::string(to_string(failure.kind))];
  report_.last_failure = failure.message;
  if (++failed_exchanges_in_a_row_ >= kMaxExchangesInARow) {
    report_.stopped =
        fmt::format("the endpoint failed {} times in a row: {}", failed_exchanges_in_a_row_, failure.message);
  }
}

Status Session::transcribe(const Turn& turn, const Exchange& exchange, const ChatClient& client, const Upshot& upshot) {
  if (exchange.attempts == 0) return ok_status();
  ExchangeRecord record;
  record.purpose = turn.purpose;
  record.url = client.url();
  record.model = turn.model.name;
  record.messages = messages_to_json(turn.messages);
  record.attempts = exchange.attempts;
  record.seconds = exchange.seconds;
  record.name = upshot.name;
  record.outcome = upshot.outcome;
  const Usage usage = exchange.usage();
  record.prompt_tokens = usage.prompt_tokens;
  record.completion_tokens = usage.completion_tokens;
  record.tokens_estimated = usage.estimated;
  record.cost = cost_of(turn.model, usage);
  if (const ChatReply* reply = exchange.reply()) {
    record.reply = reply->text;
    record.finish_reason = reply->finish_reason;
  } else {
    record.reply = exchange.failure()->partial;
    record.error = fmt::format("{}: {}", to_string(exchange.failure()->kind), exchange.failure()->message);
  }
  return archive_.record_exchange(options_.scope, record);
}

void Session::remember_failure(const std::string& line) {
  failures_.push_back(one_line(line));
  if (failures_.size() > kMaxFailures) failures_.pop_front();
}

Status Session::absorb(const std::string& name, const std::string& policy, const Candidate& candidate,
                       const Verdict& verdict) {
  AttemptRecord attempt;
  attempt.recipe = name;
  attempt.source_hash = sha256_hex(candidate.source);
  attempt.policy = policy;
  attempt.seed = options_.seed;
  attempt.verdict = verdict;
  if (const Status status = archive_.record(options_.scope, attempt); !status) return status.error();
  busy_seconds_ += verdict.compile_seconds + verdict.prepare_seconds + verdict.gate_seconds + verdict.timing_seconds;
  const std::string kind(verdict.kind());
  ++result_.tried;
  ++result_.by_kind[kind];
  if (const auto* wrong = std::get_if<verdict::Wrong>(&verdict.outcome)) ++result_.wrong_by_gate[wrong->gate.gate];
  if (const auto* failed = std::get_if<verdict::Failed>(&verdict.outcome)) {
    if (++failed_verdicts_in_a_row_ < kMaxFailuresInARow) return ok_status();
    return environment_error(
        fmt::format("{} candidates in a row could not be tried: {}", failed_verdicts_in_a_row_, failed->reason));
  }
  failed_verdicts_in_a_row_ = 0;
  known_.insert(name);
  AttemptSummary summary{0, name, kind, std::nullopt, attempt.source_hash};
  if (const auto* accepted = verdict.accepted()) {
    summary.cold_us = accepted->measurement.cold.median_us;
    if (!best_us_ || *summary.cold_us < *best_us_) {
      best_us_ = summary.cold_us;
      best_name_ = short_name(name);
    }
  }
  history_.push_back(std::move(summary));
  return ok_status();
}

Result<Assessment> Session::assess(const Leap& leap) {
  const auto suspicions = find_suspicions(leap.form, options_.scope.problem);
  auto similar = similar_hacks(leap.form, suspicions, 4);
  if (options_.checker != nullptr && may_go_on()) {
    Turn turn{options_.checker_model, check_prompt(prompts_, leap, suspicions, similar), "check"};
    show("having a leap checked by " + turn.model.name);
    const Exchange exchange = send(turn, *options_.checker);
    count(exchange, turn.model);
    Upshot upshot;
    auto opinion = exchange.reply() != nullptr ? parse_assessment(exchange.reply()->text, turn.model.name)
                                               : Result<Assessment>(failure(exchange.failure()->message));
    upshot.outcome = opinion ? (opinion->hack ? "hack: " : "honest: ") + opinion->reason : opinion.error().message;
    if (const Status status = transcribe(turn, exchange, *options_.checker, upshot); !status) {
      return status.error();
    }
    if (opinion) {
      opinion->similar = std::move(similar);
      return opinion;
    }
  }
  return judge_by_rules(suspicions, std::move(similar));
}

// A free form much faster than anything known is believed only where the reward checker has no objection.
Status Session::check_leap(const Written& written, double time_us, Verdict& verdict) {
  const bool over_best = best_us_ && time_us * kLeapOverBest < *best_us_;
  const bool over_reference = options_.reference_us > 0 && time_us * kLeapOverBaseline < options_.reference_us;
  if (!written.form || (!over_best && !over_reference)) return ok_status();
  ++report_.leaps;
  const double known = over_best ? *best_us_ : options_.reference_us;
  const Leap leap{*written.form, written.descriptor, options_.scope, time_us,
                  fmt::format("{:.2f} times faster than {}", known / time_us,
                              over_best ? "the best kernel before it" : "the fastest library")};
  const auto assessment = assess(leap);
  if (!assessment) return assessment.error();
  if (!assessment->hack) return ok_status();
  ++report_.hacks;
  std::string hacks;
  for (const KnownHack& hack : assessment->similar) hacks += (hacks.empty() ? "" : ", ") + hack.name;
  verdict.outcome = verdict::Suspicious{fmt::format("{}; the reward checker ({}): {} (most like: {})", leap.text,
                                                    assessment->by, assessment->reason, hacks),
                                        time_us};
  return ok_status();
}

Result<Upshot> Session::judge_written(const Written& written, const std::string& policy) {
  Upshot upshot;
  upshot.name = written.name;
  if (!known_.insert(written.name).second) {
    ++report_.known;
    upshot.outcome = "known: it was judged before";
    return upshot;
  }
  if (written.form) {
    const Status status = archive_.record_free_form({written.name, written.form->source, written.descriptor});
    if (!status) return status.error();
  }
  show("judging " + short_name(written.name));
  Verdict verdict = judge_->judge(written.candidate, best_us_.value_or(0));
  if (const auto* accepted = verdict.accepted()) {
    const double time_us = accepted->measurement.cold.median_us;
    if (const Status status = check_leap(written, time_us, verdict); !status) return status.error();
  }
  if (const Status status = absorb(written.name, policy, written.candidate, verdict); !status) return status.error();
  upshot.outcome = verdict.describe();
  upshot.accepted = verdict.accepted() != nullptr;
  if (upshot.accepted) return upshot;
  remember_failure(fmt::format("{}: {}", short_name(written.name), upshot.outcome));
  const bool mendable = verdict.kind() != "failed" && verdict.kind() != "too-slow" && verdict.kind() != "suspicious";
  if (mendable) upshot.reason = one_line(upshot.outcome);
  if (const auto* error = std::get_if<verdict::CompileError>(&verdict.outcome)) {
    upshot.words = error->message.substr(0, kMaxWords);
  }
  return upshot;
}

Result<Upshot> Session::follow(const Exchange& exchange, const std::string& policy) {
  const ChatReply* reply = exchange.reply();
  if (reply == nullptr) return Upshot{};
  const Archive::Scope& scope = options_.scope;
  const auto answer = parse_answer(reply->text, scope.problem, scope.machine, scope.target);
  if (answer) return judge_written(answer->written, policy);
  ++report_.malformed;
  Upshot upshot;
  upshot.reason = one_line(answer.error().message);
  if (reply->finish_reason == "length") upshot.reason += " (the answer reached the limit of tokens)";
  upshot.outcome = "no candidate: " + upshot.reason;
  report_.last_malformed = upshot.reason;
  remember_failure("an answer was not accepted: " + upshot.reason);
  return upshot;
}

Status Session::repair_once(const Turn& turn, const Exchange& exchange, const Upshot& upshot) {
  ++report_.repairs;
  Turn again{turn.model, repair(prompts_, turn.messages, exchange.reply()->text, upshot.reason, upshot.words),
             "repair"};
  show("having it repaired by " + turn.model.name);
  const Exchange second = send(again, client_);
  busy_seconds_ += second.seconds;
  count(second, turn.model);
  const auto repaired = follow(second, "llm:" + turn.model.name);
  if (!repaired) return repaired.error();
  if (repaired->accepted) ++report_.repaired;
  return transcribe(again, second, client_, *repaired);
}

Status Session::take(const Turn& turn, const Exchange& exchange) {
  busy_seconds_ += exchange.seconds;
  count(exchange, turn.model);
  const auto upshot = follow(exchange, "llm:" + turn.model.name);
  if (!upshot) return upshot.error();
  if (const Status status = transcribe(turn, exchange, client_, *upshot); !status) return status.error();
  show("");
  if (upshot->reason.empty() || !may_go_on()) return ok_status();
  return repair_once(turn, exchange, *upshot);
}

Status Session::run() {
  while (may_go_on()) {
    std::vector<Turn> turns;
    std::vector<std::future<Exchange>> exchanges;
    for (int i = 0; i < std::max(1, options_.parallel); ++i) {
      auto messages = prompt();
      if (!messages) return messages.error();
      turns.push_back({draw_model(options_.models, rng_), std::move(*messages), "propose"});
    }
    for (const Turn& turn : turns) {
      exchanges.push_back(std::async(std::launch::async, [this, &turn] { return send(turn, client_); }));
    }
    for (std::size_t i = 0; i < turns.size(); ++i) {
      while (exchanges[i].wait_for(std::chrono::milliseconds(200)) != std::future_status::ready) {
        show("waiting for " + turns[i].model.name);
      }
      if (const Status status = take(turns[i], exchanges[i].get()); !status) return status.error();
    }
  }
  return ok_status();
}

Result<SessionResult> Session::finish() {
  if (report_.answers == 0 && !report_.last_failure.empty() && !stop_.load()) {
    return environment_error(fmt::format("no answer from {}: {}", client_.url(), report_.last_failure));
  }
  auto best = archive_.best(options_.scope);
  if (!best) return best.error();
  result_.best = std::move(*best);
  result_.interrupted = stop_.load();
  result_.elapsed_seconds = seconds_since(start_);
  if (result_.tried > 0) {
    result_.bookkeeping_ms =
        1e3 * std::max(0.0, result_.elapsed_seconds - busy_seconds_) / static_cast<double>(result_.tried);
  }
  report_.spent = budget_.spent();
  return SessionResult{std::move(result_), std::move(report_)};
}

}  // namespace

std::unique_ptr<CandidateJudge> make_live_judge(const Problem& problem, const Compiler& compiler, Evaluator& evaluator,
                                                const TimingEffort& effort) {
  return std::make_unique<LiveJudge>(problem, compiler, evaluator, effort);
}

Result<SessionResult> run_session(
    const SessionOptions& options, const Prompts& prompts, ChatClient& client, CandidateJudge& judge, Archive& archive,
    const std::function<void(const OptimizeProgress&, const std::string& doing)>& on_progress,
    const std::atomic<bool>& stop) {
  Session session(options, prompts, client, &judge, archive, on_progress, stop);
  if (const Status status = session.resume(); !status) return status.error();
  if (const Status status = session.measure_first_recipes(); !status) return status.error();
  if (const Status status = session.run(); !status) return status.error();
  return session.finish();
}

Result<std::vector<Message>> first_prompt(const SessionOptions& options, const Prompts& prompts, ChatClient& client,
                                          Archive& archive) {
  const std::function<void(const OptimizeProgress&, const std::string&)> quiet = [](const auto&, const auto&) {};
  const std::atomic<bool> stop{false};
  Session session(options, prompts, client, nullptr, archive, quiet, stop);
  if (const Status status = session.resume(); !status) return status.error();
  return session.prompt();
}

nlohmann::json messages_to_json(const std::vector<Message>& messages) {
  nlohmann::json list = nlohmann::json::array();
  for (const Message& message : messages) list.push_back({{"role", message.role}, {"content", message.content}});
  return list;
}

nlohmann::json to_json(const SessionReport& report) {
  return {{"requests", report.spent.requests},
          {"prompt_tokens", report.spent.prompt_tokens},
          {"completion_tokens", report.spent.completion_tokens},
          {"tokens_estimated", report.spent.estimated},
          {"cost", report.spent.cost},
          {"exchanges", report.exchanges},
          {"answers", report.answers},
          {"malformed", report.malformed},
          {"known", report.known},
          {"repairs", report.repairs},
          {"repaired", report.repaired},
          {"leaps", report.leaps},
          {"hacks", report.hacks},
          {"failures", report.failures},
          {"stopped", report.stopped},
          {"last_failure", report.last_failure},
          {"last_malformed", report.last_malformed}};
}

}  // namespace warpsmith::llm
