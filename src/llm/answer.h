// A language model's answer as text: three sections, the last of which holds a candidate. From text to what the
// evaluator takes, with one precise line where that is impossible. docs/llm.md describes the format.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codegen/descriptor.h"
#include "codegen/generate.h"
#include "problem/machine.h"
#include "problem/problem.h"
#include "recipe/recipe.h"

namespace warpsmith::llm {

inline constexpr std::size_t kMaxAnswerBytes = 1 << 20;

// A fenced block: ```info ... ```
struct CodeBlock {
  std::string info;  // lower case: "cuda", "json", "recipe"; may be empty
  std::string text;  // with its last newline
};

struct Sections {
  std::string analysis;           // "## Performance analysis"
  std::string design;             // "## Algorithm design"
  std::string code;               // "## Code", its text as it is
  std::vector<CodeBlock> blocks;  // the fenced blocks of "## Code"
};

// What precedes the first section (and a <think> part) is dropped. Error (bad_input): a section that is missing, empty
// or there twice; a block that never ends, as in an answer that was cut off; more than kMaxAnswerBytes.
Result<Sections> split_sections(std::string_view text);

// A special token of a tokenizer as which the text ends ("<|im_end|>", DeepSeek's with full-width bars, "</s>" ...);
// empty: it ends otherwise.
std::string_view special_token_at_end(std::string_view text);

// A candidate as it was written.
struct Written {
  // Its identity in the archive: a recipe's text form, or "free HASH" (free_form_name()).
  std::string name;
  std::optional<Recipe> recipe;
  std::optional<FreeForm> form;
  std::string descriptor;  // the JSON text of `form`
  Candidate candidate;     // made for the problem on the machine
};

// "free " and the SHA-256 of both texts.
std::string free_form_name(std::string_view source, std::string_view descriptor);

// One line of a recipe on any target; on CUDA targets also device source with its launch descriptor. Error (bad_input):
// what of it is not accepted, and what would be.
Result<Written> write_recipe(std::string_view line, const Problem& problem, const Machine& machine, Target target);
Result<Written> write_free_form(std::string source, std::string descriptor, const Problem& problem,
                                const Machine& machine);

struct Answer {
  Sections sections;
  Written written;
};

// Sections and candidate of a whole completion.
Result<Answer> parse_answer(std::string_view text, const Problem& problem, const Machine& machine, Target target);

}  // namespace warpsmith::llm
