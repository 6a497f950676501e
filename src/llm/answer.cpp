// Sections, fenced blocks, and the candidate in the last section.
#include "llm/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/hash.h"
#include "base/text.h"

namespace warpsmith::llm {

namespace {

constexpr std::size_t kMaxTokenBytes = 48;  // of a special token
constexpr std::string_view kAccepted = "'## Performance analysis', '## Algorithm design' and '## Code', in Markdown";

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n\v\f";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& byte : result) byte = static_cast<char>(std::tolower(static_cast<unsigned char>(byte)));
  return result;
}

// The words of a Markdown heading, "## 3. **Code:**" as "code"; empty: the line is none.
std::string heading(std::string_view line) {
  line = trim(line);
  const bool marked = !line.empty() && line.front() == '#';
  const bool bold = line.size() > 4 && line.substr(0, 2) == "**" && line.substr(line.size() - 2) == "**";
  if (!marked && !bold) return {};
  constexpr std::string_view kOrnaments = "#*_`:.) \t0123456789";
  const std::size_t first = line.find_first_not_of(kOrnaments);
  if (first == std::string_view::npos) return {};
  return lower(line.substr(first, line.find_last_not_of("#*_`:. \t") - first + 1));
}

// The length of a fence that opens or closes here, with its character; 0: none.
struct Fence {
  char character = 0;
  std::size_t length = 0;
  std::string_view info;
};
Fence fence_of(std::string_view line) {
  line = trim(line);
  if (line.empty() || (line.front() != '`' && line.front() != '~')) return {};
  Fence fence{line.front(), std::min(line.find_first_not_of(line.front()), line.size()), {}};
  fence.info = trim(line.substr(fence.length));
  const bool inline_code = fence.character == '`' && fence.info.find('`') != std::string_view::npos;
  return fence.length < 3 || inline_code ? Fence{} : fence;
}

// Special tokens that a tokenizer left in the text stand where the answer ends: behind its last fence.
bool is_one_token(std::string_view text) {
  return text.size() > 2 && text.size() <= kMaxTokenBytes && text.front() == '<' && text.back() == '>' &&
         text.find_first_of("<> \t`", 1) == text.size() - 1;
}

// Reads lines, telling those within fenced blocks from the others.
class SectionReader {
 public:
  Result<Sections> read(std::string_view text);

 private:
  struct Part {
    std::string_view title;
    std::string text;
    bool seen = false;
  };
  Status take(std::string_view line);
  Status check() const;

  std::array<Part, 3> parts_{
      Part{"Performance analysis", {}, false}, {"Algorithm design", {}, false}, {"Code", {}, false}};
  Part* part_ = nullptr;
  Fence open_;
  CodeBlock block_;
  std::vector<CodeBlock> blocks_;
};

Status SectionReader::take(std::string_view line) {
  const Fence fence = fence_of(line);
  if (open_.length > 0) {
    const bool closes = fence.character == open_.character && fence.length >= open_.length &&
                        (fence.info.empty() || is_one_token(fence.info));
    if (closes) {
      if (part_ == &parts_[2]) blocks_.push_back(block_);
      open_ = {};
    } else {
      block_.text.append(line).push_back('\n');
    }
  } else if (fence.length > 0) {
    open_ = fence;
    block_ = {lower(fence.info), {}};
  } else {
    const std::string words = heading(line);
    const auto found =
        std::find_if(parts_.begin(), parts_.end(), [&](const Part& p) { return lower(p.title) == words; });
    if (found != parts_.end()) {
      if (found->seen) return bad_input(fmt::format("section '## {}' is there twice", found->title));
      found->seen = true;
      part_ = &*found;
      return ok_status();
    }
  }
  if (part_ != nullptr) part_->text.append(line).push_back('\n');
  return ok_status();
}

Status SectionReader::check() const {
  for (const Part& part : parts_) {
    if (!part.seen) return bad_input(fmt::format("section '## {}' is missing; accepted: {}", part.title, kAccepted));
    if (open_.length == 0 && trim(part.text).empty()) {
      return bad_input(fmt::format("section '## {}' is empty", part.title));
    }
  }
  if (open_.length > 0) {
    return bad_input(fmt::format("the block that begins with {}{} never ends: the answer was cut off",
                                 std::string(open_.length, open_.character), printable(block_.info)));
  }
  return ok_status();
}

Result<Sections> SectionReader::read(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (const Status status = take(line); !status) return status.error();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (const Status status = check(); !status) return status.error();
  const auto trimmed = [](const Part& part) { return std::string(trim(part.text)); };
  return Sections{trimmed(parts_[0]), trimmed(parts_[1]), trimmed(parts_[2]), std::move(blocks_)};
}

bool is_source(const CodeBlock& block) { return block.info != "json" && block.info != "recipe"; }

// A recipe's line: the only line of the only block, or of a section without blocks.
Result<std::string> recipe_line(const Sections& sections) {
  std::string_view text = sections.blocks.empty() ? std::string_view(sections.code) : sections.blocks.front().text;
  text = trim(text);
  if (sections.blocks.empty() && text.size() > 2 && text.front() == '`' && text.back() == '`') {
    text = trim(text.substr(1, text.size() - 2));
  }
  if (sections.blocks.size() > 1 || text.find('\n') != std::string_view::npos) {
    return bad_input("section '## Code' holds more than a recipe; accepted: one ```recipe block with one line");
  }
  return std::string(text);
}

Result<Written> write(const Sections& sections, const Problem& problem, const Machine& machine, Target target) {
  const std::vector<CodeBlock>& blocks = sections.blocks;
  const auto sources = std::count_if(blocks.begin(), blocks.end(), is_source);
  const auto descriptors =
      std::count_if(blocks.begin(), blocks.end(), [](const CodeBlock& block) { return block.info == "json"; });
  const bool labelled = !blocks.empty() && blocks.front().info == "recipe";
  if (!is_cuda(target) && descriptors > 0) {
    return bad_input("section '## Code' holds a launch descriptor; accepted on target cpu: one ```recipe block");
  }
  if (!is_cuda(target) || labelled || (blocks.empty() && sections.code.find('\n') == std::string::npos)) {
    const auto line = recipe_line(sections);
    if (!line) return line.error();
    return write_recipe(*line, problem, machine, target);
  }
  if (sources != 1 || descriptors != 1) {
    return bad_input(
        fmt::format("section '## Code' has {} blocks of source and {} of JSON; accepted: one ```cuda block "
                    "with the device source and one ```json block with its launch descriptor",
                    sources, descriptors));
  }
  const auto source = std::find_if(blocks.begin(), blocks.end(), is_source);
  const auto descriptor =
      std::find_if(blocks.begin(), blocks.end(), [](const CodeBlock& b) { return b.info == "json"; });
  return write_free_form(source->text, descriptor->text, problem, machine);
}

}  // namespace

std::string_view special_token_at_end(std::string_view text) {
  constexpr std::string_view kBars[] = {"|", "\xef\xbd\x9c"};  // the second: FULLWIDTH VERTICAL LINE
  constexpr std::string_view kWords[] = {"</s>", "<s>", "<bos>", "<eos>", "<pad>", "<unk>", "<EOT>", "<end_of_turn>"};
  const std::size_t open = text.rfind('<');
  if (open == std::string_view::npos) return {};
  const std::string_view token = text.substr(open);
  if (!is_one_token(token)) return {};
  const auto has_bars = [&](std::string_view bar) {
    return token.size() > 2 * bar.size() + 2 && token.substr(1).starts_with(bar) &&
           token.substr(0, token.size() - 1).ends_with(bar);
  };
  const bool special = std::any_of(std::begin(kBars), std::end(kBars), has_bars) ||
                       std::find(std::begin(kWords), std::end(kWords), token) != std::end(kWords);
  return special ? token : std::string_view();
}

Result<Sections> split_sections(std::string_view text) {
  if (text.size() > kMaxAnswerBytes) {
    return bad_input(fmt::format("the answer has {} bytes; at most {} are accepted", text.size(), kMaxAnswerBytes));
  }
  constexpr std::string_view kThought = "</think>";
  if (const std::size_t end = text.rfind(kThought); end != std::string_view::npos) {
    text.remove_prefix(end + kThought.size());
  } else if (trim(text).rfind("<think>", 0) == 0) {
    return bad_input("the answer ends within its <think> part");
  }
  if (trim(text).empty()) return bad_input(fmt::format("the answer is empty; accepted: {}", kAccepted));
  return SectionReader().read(text);
}

std::string free_form_name(std::string_view source, std::string_view descriptor) {
  return "free " + HashInput().add(source).add(descriptor).hex();
}

Result<Written> write_recipe(std::string_view line, const Problem& problem, const Machine& machine, Target target) {
  const auto recipe = parse_recipe(line);
  if (!recipe) return recipe.error();
  if ((recipe->family().name == "cpu") == is_cuda(target)) {
    return bad_input(fmt::format("family '{}' is not one of target {}", recipe->family().name, to_string(target)));
  }
  auto candidate = generate(*recipe, problem, machine);
  if (!candidate) return candidate.error();
  return Written{to_string(*recipe), *recipe, std::nullopt, {}, std::move(*candidate)};
}

Result<Written> write_free_form(std::string source, std::string descriptor, const Problem& problem,
                                const Machine& machine) {
  if (descriptor.size() > kMaxDescriptorBytes) {
    return bad_input(
        fmt::format("answer.json: {} bytes; at most {} are accepted", descriptor.size(), kMaxDescriptorBytes));
  }
  const std::string name = free_form_name(source, descriptor);
  auto form = parse_candidate(descriptor, std::move(source), "answer.json");
  if (!form) return form.error();
  auto candidate = instantiate(*form, problem, machine);
  if (!candidate) return candidate.error();
  return Written{name, std::nullopt, std::move(*form), std::move(descriptor), std::move(*candidate)};
}

Result<Answer> parse_answer(std::string_view text, const Problem& problem, const Machine& machine, Target target) {
  auto sections = split_sections(text);
  if (!sections) return sections.error();
  auto written = write(*sections, problem, machine, target);
  if (!written) return written.error();
  return Answer{std::move(*sections), std::move(*written)};
}

}  // namespace warpsmith::llm
