// Submissions: what a client asks to be measured, read from JSON or from the text of a model's completion, checked, and
// given an identity by its content.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "problem/machine.h"
#include "problem/problem.h"

namespace warpsmith::serve {

inline constexpr int kMostPriority = 100;  // priorities are -100 to 100
inline constexpr double kMostDeadlineSeconds = 30 * 24 * 3600.0;

// What the server measures on, and what it asks of requests.
struct Site {
  Machine machine;
  Target target = Target::cpu;
  int threads = 1;                 // that a kernel may use; 1 on CUDA targets
  std::optional<Problem> problem;  // of requests that name none
  double most_flops = 0;           // of a problem; 0: no limit
};

struct Submission {
  std::string id;  // SHA-256 over machine, target, threads, problem and candidate
  Problem problem;
  std::string name;                // the candidate's identity in the archive: a recipe's text form, or "free HASH"
  std::string source, descriptor;  // of a free-form candidate; empty: a recipe
  std::int64_t tokens = 0;         // length of what the model wrote as code
  int priority = 0;                // higher first
  std::optional<double> deadline_seconds;  // from its acceptance; not measured when it has passed
  bool remeasure = false;                  // although a result is known
  std::string device;                      // empty: the one with the shortest queue
};

// SHA-256 over all that tells candidates apart; `name` as in Submission.
std::string identity(const Problem& problem, const std::string& name, const Site& site);

// The members of a candidate: problem; recipe, or source with descriptor, or answer (a completion's text); priority,
// deadline_seconds, remeasure, device. Error (bad_input): what is not accepted, and what is.
Result<Submission> read_submission(const nlohmann::json& json, const Site& site);

// The candidate in a completion's text (llm/answer.h).
Result<Submission> read_completion(std::string_view text, const Problem& problem, const Site& site);

// A problem as text ("64x64x64 nn f16 f32"), within the site's limit.
Result<Problem> read_problem(std::string_view text, const Site& site);

// The part of an OpenRLHF query that the model wrote: without the prompt, and without the special tokens at its end.
std::string_view completion_of(std::string_view query, std::string_view prompt);

// Words, numbers and signs; blanks do not count. What beta is multiplied with.
std::int64_t count_tokens(std::string_view text);

// Parses JSON with at most kMostDepth levels. Error (bad_input), with the place.
inline constexpr int kMostDepth = 32;
Result<nlohmann::json> parse_json(std::string_view text);

}  // namespace warpsmith::serve
