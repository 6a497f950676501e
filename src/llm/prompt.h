// What a model is told: problem, machine, measured kernels in contrast, recent failures, retrieved text; and the one
// message after an answer that failed.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "archive/archive.h"
#include "base/result.h"
#include "llm/chat.h"
#include "llm/template.h"
#include "policy/embedded/exemplars.h"
#include "policy/rng.h"

namespace warpsmith::llm {

inline constexpr std::size_t kMaxExemplarSourceBytes = 32 << 10;  // a longer source is named, not shown
inline constexpr std::size_t kMaxFailures = 4;

// A measured kernel. Its text is looked up when it is shown.
struct Measured {
  std::string name;  // a recipe's text form or a free form's name
  double time_us = 0;
  double speedup = 0;  // over the reference
};

struct Exemplar {
  Measured measured;
  std::string recipe;              // empty: a free form
  std::string source, descriptor;  // empty on the CPU target, and where the source is too long
  std::string omitted;             // then: what is not shown
  std::string metrics;             // of a profiler, as text; empty: not profiled
};

struct PromptFacts {
  Archive::Scope scope;
  double reference_us = 0;          // of the fastest baseline; 0: unknown
  std::string reference;            // its name
  std::vector<Exemplar> exemplars;  // slowest first
  std::vector<std::string> failures;
  std::vector<std::pair<std::string, std::string>> retrieved;  // where, text
  std::string headers;                                         // as offered_headers() says
};

// `count` of the accepted kernels, each once at its best time, from distinct buckets of speed-up; slowest first.
std::vector<Measured> draw_exemplars(const std::vector<AttemptSummary>& history, double reference_us, std::size_t count,
                                     const embedded::BucketOptions& options, Rng& rng);
// The accepted kernels of a history, each once at its best time, without those that were ever found wrong; fastest
// first.
std::vector<Measured> accepted_kernels(const std::vector<AttemptSummary>& history, double reference_us);

// With what a prompt shows of it. Error: a name that stands for nothing; environment, bad_input of the archive.
Result<Exemplar> show(const Measured& measured, const Archive::Scope& scope, Archive& archive);

std::vector<Message> propose(const Prompts& prompts, const PromptFacts& facts);
// After the messages and the answer that failed. words: of a compiler, several lines; may be empty.
std::vector<Message> repair(const Prompts& prompts, std::vector<Message> messages, const std::string& answer,
                            const std::string& reason, const std::string& words);

// Values that templates of proposals and of checks share.
TemplateValues problem_values(const Archive::Scope& scope);

}  // namespace warpsmith::llm
