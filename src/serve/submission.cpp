// Reading submissions.
#include "serve/submission.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/hash.h"
#include "base/text.h"
#include "codegen/descriptor.h"
#include "codegen/nearest.h"
#include "llm/answer.h"
#include "recipe/recipe.h"

namespace warpsmith::serve {

namespace {

using Json = nlohmann::json;

// Members of an object by name; the first complaint is kept.
class Members {
 public:
  explicit Members(const Json& object) : object_(object) {}

  const std::optional<std::string>& complaint() const { return complaint_; }
  bool has(const char* name) const { return object_.contains(name); }
  const Json& at(const char* name) const { return object_.at(name); }

  std::string text(const char* name) {
    if (!has(name)) return {};
    if (!at(name).is_string()) return complain(name, "text"), std::string();
    return at(name).get<std::string>();
  }
  bool flag(const char* name) {
    if (!has(name)) return false;
    if (!at(name).is_boolean()) return complain(name, "true or false"), false;
    return at(name).get<bool>();
  }
  int priority(const char* name) {
    if (!has(name)) return 0;
    const Json& value = at(name);
    // The library compares a large unsigned number with a negative one as if it were negative itself.
    const bool small = !value.is_number_unsigned() || value.get<std::uint64_t>() <= std::uint64_t{kMostPriority};
    const bool fits = value.is_number_integer() && small && value.get<std::int64_t>() <= kMostPriority &&
                      value.get<std::int64_t>() >= -kMostPriority;
    if (!fits) return complain(name, fmt::format("a whole number from {} to {}", -kMostPriority, kMostPriority)), 0;
    return value.get<int>();
  }
  std::optional<double> seconds(const char* name) {
    if (!has(name)) return std::nullopt;
    const Json& value = at(name);
    const double number = value.is_number() ? value.get<double>() : -1;
    if (!(number > 0) || number > kMostDeadlineSeconds) {
      complain(name, fmt::format("seconds, more than 0 and at most {:g}", kMostDeadlineSeconds));
      return std::nullopt;
    }
    return number;
  }
  void complain(const char* name, const std::string& accepted) {
    if (!complaint_) complaint_ = fmt::format("'{}' is not accepted; accepted: {}", name, accepted);
  }

 private:
  const Json& object_;
  std::optional<std::string> complaint_;
};

Status check_members(const Json& candidate) {
  static const std::vector<std::string_view> kNames = {
      "problem", "recipe", "source", "descriptor", "answer", "priority", "deadline_seconds", "remeasure", "device"};
  if (!candidate.is_object())
    return bad_input("a candidate is not an object; accepted: {\"problem\", \"recipe\", ...}");
  for (const auto& [name, value] : candidate.items()) {
    if (std::find(kNames.begin(), kNames.end(), name) == kNames.end()) {
      return bad_input(unknown_name("member", name, kNames));
    }
  }
  const auto kinds = candidate.count("recipe") + candidate.count("answer") + candidate.count("source");
  if (kinds != 1 || candidate.count("descriptor") != candidate.count("source")) {
    return bad_input("a candidate needs exactly one of \"recipe\", \"answer\", or \"source\" with \"descriptor\"");
  }
  return ok_status();
}

Result<Submission> with_recipe(const std::string& text, const Problem& problem, const Site& site) {
  const auto recipe = parse_recipe(text);
  if (!recipe) return recipe.error();
  if (is_cuda(recipe->family().target) != is_cuda(site.target)) {
    return bad_input(fmt::format("family '{}' is not one of target {}", recipe->family().name, to_string(site.target)));
  }
  Submission submission;
  submission.problem = problem;
  submission.name = to_string(*recipe);
  submission.tokens = count_tokens(to_short_string(*recipe));
  submission.id = identity(submission.problem, submission.name, site);
  return submission;
}

Result<Submission> with_source(std::string source, std::string descriptor, const Problem& problem, const Site& site) {
  if (!is_cuda(site.target)) {
    return bad_input(
        "\"source\" is not accepted on target cpu, where a kernel would be host code; accepted: \"recipe\"");
  }
  if (source.size() > kMaxSourceBytes || descriptor.size() > kMaxDescriptorBytes) {
    return bad_input(fmt::format("the source has {} bytes and the descriptor {}; at most {} and {} are accepted",
                                 source.size(), descriptor.size(), kMaxSourceBytes, kMaxDescriptorBytes));
  }
  if (const auto parsed = parse_json(descriptor); !parsed) return bad_input("descriptor: " + parsed.error().message);
  const auto form = parse_candidate(descriptor, source, "candidate.json");
  if (!form) return form.error();
  Submission submission;
  submission.problem = problem;
  submission.name = llm::free_form_name(source, descriptor);
  submission.tokens = count_tokens(source);
  submission.source = std::move(source);
  submission.descriptor = std::move(descriptor);
  submission.id = identity(submission.problem, submission.name, site);
  return submission;
}

// A descriptor is an object, or its text.
Result<std::string> descriptor_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_object()) return bad_input("'descriptor' is not accepted; accepted: an object, or its text");
  return value.dump();
}

Result<Submission> read_candidate(Members& members, const Problem& problem, const Site& site) {
  if (members.has("recipe")) {
    const std::string text = members.text("recipe");
    if (members.complaint()) return bad_input(*members.complaint());
    return with_recipe(text, problem, site);
  }
  if (members.has("answer")) {
    const std::string text = members.text("answer");
    if (members.complaint()) return bad_input(*members.complaint());
    return read_completion(text, problem, site);
  }
  std::string source = members.text("source");
  if (members.complaint()) return bad_input(*members.complaint());
  auto descriptor = descriptor_text(members.at("descriptor"));
  if (!descriptor) return descriptor.error();
  return with_source(std::move(source), std::move(*descriptor), problem, site);
}

}  // namespace

std::string identity(const Problem& problem, const std::string& name, const Site& site) {
  HashInput input;
  input.add("warpsmith candidate 1").add(site.machine.id()).add(to_string(site.target));
  input.add(std::to_string(site.threads)).add(to_string(problem)).add(name);
  return input.hex();
}

Result<Submission> read_submission(const Json& candidate, const Site& site) {
  if (const Status status = check_members(candidate); !status) return status.error();
  Members members(candidate);
  Submission options;
  options.priority = members.priority("priority");
  options.deadline_seconds = members.seconds("deadline_seconds");
  options.remeasure = members.flag("remeasure");
  options.device = members.text("device");
  const std::string problem_text = members.text("problem");
  if (members.complaint()) return bad_input(*members.complaint());
  const auto problem = read_problem(problem_text, site);
  if (!problem) return problem.error();
  auto submission = read_candidate(members, *problem, site);
  if (!submission) return submission.error();
  submission->priority = options.priority;
  submission->deadline_seconds = options.deadline_seconds;
  submission->remeasure = options.remeasure;
  submission->device = options.device;
  return submission;
}

Result<Submission> read_completion(std::string_view text, const Problem& problem, const Site& site) {
  auto answer = llm::parse_answer(text, problem, site.machine, site.target);
  if (!answer) return answer.error();
  llm::Written& written = answer->written;
  if (written.recipe) return with_recipe(written.name, problem, site);
  return with_source(std::move(written.form->source), std::move(written.descriptor), problem, site);
}

Result<Problem> read_problem(std::string_view text, const Site& site) {
  if (text.empty() && site.problem) return *site.problem;
  if (text.empty())
    return bad_input("no problem is named; accepted: \"MxNxK LAYOUT TYPE ACC\", such as 64x64x64 nn f16");
  const auto problem = parse_problem(text);
  if (!problem) return problem.error();
  if (site.most_flops > 0 && problem->flops() > site.most_flops) {
    return bad_input(fmt::format("problem {} has {:.3g} flops; this server accepts at most {:.3g}", to_string(*problem),
                                 problem->flops(), site.most_flops));
  }
  return problem;
}

std::string_view completion_of(std::string_view query, std::string_view prompt) {
  // At the front; behind what a chat template has put before it where it is not. Its words may well occur again.
  if (const std::size_t at = query.find(prompt); at != std::string_view::npos) query.remove_prefix(at + prompt.size());
  for (;;) {
    while (!query.empty() && std::isspace(static_cast<unsigned char>(query.back())) != 0) query.remove_suffix(1);
    const std::string_view token = llm::special_token_at_end(query);
    if (token.empty()) return query;
    query.remove_suffix(token.size());
  }
}

std::int64_t count_tokens(std::string_view text) {
  const auto in_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || (static_cast<unsigned char>(c) & 0x80) != 0;
  };
  std::int64_t count = 0;
  bool word = false;
  for (const char c : text) {
    const bool inside = in_word(c);
    if (inside ? !word : std::isspace(static_cast<unsigned char>(c)) == 0) ++count;
    word = inside;
  }
  return count;
}

Result<Json> parse_json(std::string_view text) {
  // Deeper structures would exhaust the stack of whoever walks them.
  int depth = 0;
  bool quoted = false, escaped = false;
  for (const char c : text) {
    if (quoted) {
      quoted = escaped || c != '"';
      escaped = !escaped && c == '\\';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMostDepth) return bad_input(fmt::format("the JSON has more than {} levels", kMostDepth));
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    // Of "[json.exception.parse_error.101] parse error at line 1, column 2: ...".
    std::string words = printable(error.what(), 200);
    if (const std::size_t end = words.find("] "); end != std::string::npos) words.erase(0, end + 2);
    return bad_input("the body is not JSON: " + words);
  }
}

}  // namespace warpsmith::serve
