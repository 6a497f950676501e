// OpenRLHF's remote-reward protocol: {"query", "prompts", "labels"} in, {"rewards", "scores", "extra_logs"} out, all of
// them lists. Answered when every candidate is measured, so that a trainer's step sees real rewards or none.
#include <fmt/format.h>

#include <utility>

#include "base/text.h"
#include "serve/service.h"

namespace warpsmith::serve {

namespace {

using Json = nlohmann::json;

struct Question {
  std::string_view query, prompt;
  Problem problem;
};

// A list of the request; nullptr: absent or null.
Result<const Json*> list_of(const Json& json, const char* name, std::size_t size) {
  const auto found = json.find(name);
  if (found == json.end() || found->is_null()) return nullptr;
  if (!found->is_array() || found->size() != size) {
    return bad_input(fmt::format("'{}' is not accepted; accepted: a list as long as 'query', or null", name));
  }
  return &*found;
}

// A label names the problem: as text, in an object's "problem", or not at all.
Result<Problem> problem_of(const Json* label, const Site& site) {
  if (label == nullptr || label->is_null()) return read_problem("", site);
  const Json* text = label;
  if (label->is_object() && label->contains("problem")) text = &label->at("problem");
  if (!text->is_string()) return bad_input("a label is not accepted; accepted: a problem's text");
  return read_problem(text->get_ref<const std::string&>(), site);
}

Result<std::vector<Question>> read_questions(const Json& json, const Site& site, std::size_t most) {
  const bool fits = json.is_object() && json.contains("query") && json["query"].is_array() && !json["query"].empty() &&
                    json["query"].size() <= most;
  if (!fits) return bad_input(fmt::format("'query' is not accepted; accepted: a list of 1 to {} texts", most));
  const Json& queries = json["query"];
  const auto prompts = list_of(json, "prompts", queries.size());
  if (!prompts) return prompts.error();
  const auto labels = list_of(json, "labels", queries.size());
  if (!labels) return labels.error();
  std::vector<Question> questions;
  for (std::size_t i = 0; i < queries.size(); ++i) {
    const Json* prompt = *prompts == nullptr || (**prompts)[i].is_null() ? nullptr : &(**prompts)[i];
    if (!queries[i].is_string() || (prompt != nullptr && !prompt->is_string())) {
      return bad_input(fmt::format("query or prompt {} is no text", i));
    }
    auto problem = problem_of(*labels == nullptr ? nullptr : &(**labels)[i], site);
    if (!problem) return bad_input(fmt::format("label {}: {}", i, problem.error().message));
    questions.push_back({queries[i].get_ref<const std::string&>(),
                         prompt == nullptr ? std::string_view() : prompt->get_ref<const std::string&>(), *problem});
  }
  return questions;
}

}  // namespace

void Service::get_reward(const HttpRequest& request, const Reply& reply) {
  const auto json = parse_json(request.body);
  if (!json) return reply(error_response(400, json.error().message));
  const auto questions = read_questions(*json, options_.site, options_.most_candidates);
  if (!questions) return reply(error_response(422, questions.error().message));
  std::vector<Completion> completions;
  std::vector<Submission> submissions;
  std::vector<std::string> ids;
  for (const Question& question : *questions) {
    const std::string_view text = completion_of(question.query, question.prompt);
    auto submission = read_completion(text, question.problem, options_.site);
    if (submission) {
      completions.push_back({submission->id, submission->tokens, {}});
      ids.push_back(submission->id);
      submissions.push_back(std::move(*submission));
    } else {
      metrics_.submitted("malformed");
      completions.push_back({{}, count_tokens(text), submission.error().message});
    }
  }
  if (!submissions.empty()) {
    Acceptance acceptance;
    if (auto refused = accept(submissions, acceptance)) return reply(std::move(*refused));
  }
  dispatcher_.wait_for(std::move(ids), options_.reward_wait_seconds,
                       [this, reply, completions = std::move(completions)](bool /*all*/) {
                         answer_with(reply, [&] { return answer_completions(completions); });
                       });
}

HttpResponse Service::answer_completions(const std::vector<Completion>& completions) {
  Json rewards = Json::array(), scores = Json::array(), verdicts = Json::array(), reasons = Json::array();
  Json accepted = Json::array(), speedups = Json::array(), differences = Json::array(), tokens = Json::array();
  std::size_t unfinished = 0;
  for (const Completion& completion : completions) {
    Reward reward = reward_of_nothing(completion.tokens, options_.reward);
    std::string kind = "malformed", reason = completion.complaint;
    if (!completion.id.empty()) {
      const auto job = store_.find(completion.id);
      if (job && *job && is_final((*job)->state) && (*job)->state != JobState::done) {
        return error_response(
            503, fmt::format("a candidate could not be measured ({}); ask again", to_string((*job)->state)));
      }
      if (!job || !*job || (*job)->state != JobState::done) {
        ++unfinished;
        continue;
      }
      const auto outcome = Json::parse((*job)->outcome).get<Outcome>();
      reward = reward_of(outcome, completion.tokens, options_.reward);
      kind = outcome.verdict.kind();
      reason = outcome.verdict.describe();
    }
    rewards.push_back(reward.reward);
    scores.push_back(reward.score);
    accepted.push_back(kind == "accepted" ? 1 : 0);
    speedups.push_back(reward.speedup);
    differences.push_back(reward.difference);
    tokens.push_back(completion.tokens);
    verdicts.push_back(std::move(kind));
    reasons.push_back(std::move(reason));
  }
  if (unfinished > 0) {
    return error_response(503, fmt::format("{} of {} candidates are not measured yet; ask again, nothing is lost",
                                           unfinished, completions.size()));
  }
  Json logs = {{"accepted", std::move(accepted)},
               {"speedup", std::move(speedups)},
               {"difference", std::move(differences)},
               {"tokens", std::move(tokens)}};
  return json_response(200, {{"rewards", std::move(rewards)},
                             {"scores", std::move(scores)},
                             {"extra_logs", std::move(logs)},
                             {"verdicts", std::move(verdicts)},
                             {"reasons", std::move(reasons)}});
}

}  // namespace warpsmith::serve
