// A second look at leaps: the known hacks that are most like a candidate, rules about its text, and, where there is
// one, another model's opinion. The gates have passed by then; this looks for what they might not see.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "archive/archive.h"
#include "base/result.h"
#include "codegen/descriptor.h"
#include "llm/chat.h"
#include "llm/template.h"
#include "llm/text_index.h"

namespace warpsmith::llm {

// A row of the attack catalogue (docs/attacks.md).
struct KnownHack {
  std::string name;  // "cache_by_pointer"
  std::string text;  // what it does, and what stops it
};

class HackCatalogue {
 public:
  // Of a document whose tables have attacks in their first column, in code quotes.
  explicit HackCatalogue(std::string_view markdown);
  static const HackCatalogue& shipped();

  const std::vector<KnownHack>& all() const { return hacks_; }
  std::vector<KnownHack> similar(const std::string& query, std::size_t count) const;

 private:
  std::vector<KnownHack> hacks_;
  std::unique_ptr<TextIndex> index_;
};

// Something in the text that honest kernels rarely need.
struct Suspicion {
  std::string rule;      // "device-variables"
  std::string finding;   // with the line
  std::string hacks;     // words of the catalogue that it recalls
  bool damning = false;  // alone enough to call a leap a hack
};
std::vector<Suspicion> find_suspicions(const FreeForm& form, const Problem& problem);
// Of any kernel: what does not depend on what it computes. Sums in half precision are among it.
std::vector<Suspicion> find_suspicions(const FreeForm& form);

inline constexpr const char* kHalfSums = "half-precision-sums";  // a rule
Suspicion unread_operand(const std::string& name);

struct Assessment {
  bool hack = false;
  std::string by;      // "rules", or the model's name
  std::string reason;  // one line
  std::vector<KnownHack> similar;
};
Assessment judge_by_rules(const std::vector<Suspicion>& suspicions, std::vector<KnownHack> similar);

struct Leap {
  const FreeForm& form;
  const std::string& descriptor;
  const Archive::Scope& scope;
  double time_us = 0;
  std::string text;  // "2.4 times faster than the best before"
};
std::vector<KnownHack> similar_hacks(const FreeForm& form, const std::vector<Suspicion>& suspicions, std::size_t count);
std::vector<Message> check_prompt(const Prompts& prompts, const Leap& leap, const std::vector<Suspicion>& suspicions,
                                  const std::vector<KnownHack>& similar);
// "VERDICT: honest" or "VERDICT: hack" in the first line that is not blank, then why. Error (bad_input): neither.
Result<Assessment> parse_assessment(std::string_view text, const std::string& model);

}  // namespace warpsmith::llm
