// A small lexer of translation phases 2 and 3: line splices, comments, strings and directives. Where compilers may read
// a text in two ways, it takes the way that refuses.
#include "compile/source_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace warpsmith {

namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\v' || c == '\f' || c == '\r'; }
bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$';
}

Error refuse(int line, std::string_view what) {
  return failure(
      fmt::format("line {}: {} is not accepted: a candidate may not make the compiler read files", line, what));
}

// Walks the source once. `text_` is the source after splicing; a splice leaves no newline behind, so `lines_` keeps the
// original line of every character.
class Guard {
 public:
  Guard(std::string_view source, Includes allowed) : source_(source), allowed_(allowed) {}

  Status run() {
    if (Status spliced = splice(); !spliced.ok()) return spliced;
    while (at_ < text_.size()) {
      Status step = token();
      if (!step.ok()) return step;
    }
    return ok_status();
  }

 private:
  Status splice() {
    int line = 1;
    for (std::size_t i = 0; i < source_.size(); ++i) {
      const char c = source_[i];
      if (c == '\0') return refuse(line, "a NUL character");
      const std::string_view ahead = source_.substr(i, 3);
      if (ahead == "?\?=" || ahead == "?\?/") return refuse(line, "a trigraph for # or \\");
      if (c == '\\') {
        std::size_t end = i + 1;
        while (end < source_.size() && is_blank(source_[end])) ++end;
        if (end < source_.size() && source_[end] == '\n') {
          // Some compilers splice over trailing blanks and some do not.
          const bool plain = end == i + 1 || (end == i + 2 && source_[i + 1] == '\r');
          if (!plain) return refuse(line, "a backslash with blanks before the end of its line");
          i = end;
          ++line;
          continue;
        }
      }
      if (c == '\r' && (i + 1 == source_.size() || source_[i + 1] != '\n'))
        return refuse(line, "a lone carriage return");
      text_ += c;
      lines_.push_back(line);
      if (c == '\n') ++line;
    }
    return ok_status();
  }

  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  int line() const { return lines_.empty() ? 1 : lines_[std::min(at_, lines_.size() - 1)]; }

  Status token() {
    const char c = peek();
    if (c == '\n') {
      ++at_;
      line_start_ = true;
      return ok_status();
    }
    if (is_blank(c)) {
      ++at_;
      return ok_status();
    }
    if (c == '/' && (peek(1) == '/' || peek(1) == '*')) {
      skip_comment();
      return ok_status();
    }
    const bool hash = c == '#' || (c == '%' && peek(1) == ':');
    if (hash && line_start_) return directive();
    line_start_ = false;
    if (c == '"' || c == '\'') return quoted(c);
    if (is_word(c)) return word();
    // No honest text spells identifiers in universal character names.
    if (c == '\\') return refuse(line(), "a backslash outside literals");
    if (allowed_ == Includes::system && c == '#' && peek(1) == '#') return refuse(line(), "##");
    joined_.clear();
    ++at_;
    return ok_status();
  }

  void skip_comment() {
    const bool block = peek(1) == '*';
    const std::size_t end = text_.find(block ? "*/" : "\n", at_ + 2);
    at_ = end == std::string::npos ? text_.size() : (block ? end + 2 : end);
  }

  void skip_blanks_and_comments() {
    for (;;) {
      if (is_blank(peek())) {
        ++at_;
      } else if (peek() == '/' && peek(1) == '*') {
        skip_comment();
      } else {
        return;
      }
    }
  }

  std::string_view take_word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    return std::string_view(text_).substr(begin, at_ - begin);
  }

  Status directive() {
    const int where = line();
    at_ += peek() == '#' ? 1 : 2;
    line_start_ = false;
    skip_blanks_and_comments();
    const std::string_view name = take_word();
    if (name == "include" && allowed_ != Includes::none) return system_include(where);
    if (name == "pragma") return pragma(where);
    constexpr std::array<std::string_view, 4> kReaders = {"include", "include_next", "import", "embed"};
    for (const std::string_view reader : kReaders) {
      if (name == reader) return refuse(where, fmt::format("#{}", reader));
    }
    return ok_status();
  }

  // `#pragma GCC dependency` and `pch_preprocess` open the file that they name.
  Status pragma(int where) {
    while (at_ < text_.size() && text_[at_] != '\n') {
      skip_blanks_and_comments();
      const std::string_view name = take_word();
      if (name == "dependency" || name == "pch_preprocess" || name == "include_alias") {
        return refuse(where, fmt::format("#pragma {}", name));
      }
      if (name.empty() && at_ < text_.size() && text_[at_] != '\n') ++at_;
    }
    return ok_status();
  }

  // The assembler behind a C++ compiler reads files (.incbin, .include), and macros and escapes can spell that in any
  // way: only an empty text, a barrier to the optimiser, is accepted. PTX has no such directives.
  Status assembly(int where) {
    skip_blanks_and_comments();
    const std::size_t begin = at_;
    const std::string_view word = take_word();
    if (word != "volatile" && word != "__volatile__") at_ = begin;
    skip_blanks_and_comments();
    if (!std::string_view(text_).substr(at_).starts_with("(\"\"")) return refuse(where, "asm with a text");
    at_ += 3;
    skip_blanks_and_comments();
    return peek() == ')' || peek() == ':' ? ok_status() : Status(refuse(where, "asm with a text"));
  }

  // <name> with no absolute path and no way up.
  Status system_include(int where) {
    skip_blanks_and_comments();
    const std::size_t end = text_.find_first_of(">\n", at_);
    if (peek() != '<' || end == std::string::npos || text_[end] != '>') {
      return refuse(where, "#include of anything but <a header>");
    }
    const std::string_view name = std::string_view(text_).substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    bool plain = !name.empty() && name.front() != '/' && name.find("..") == std::string_view::npos;
    for (const char c : name) plain = plain && (is_word(c) || c == '/' || c == '.' || c == '-' || c == '+');
    return plain ? ok_status() : Status(refuse(where, fmt::format("#include <{}>", name)));
  }

  Status word() {
    const int where = line();
    const std::string_view name = take_word();
    // `import "file";` is a preprocessing directive of C++20, and compilers open the file even where it is an error.
    constexpr std::array<std::string_view, 5> kReaders = {"__has_include", "__has_include_next", "__has_embed",
                                                          "incbin", "import"};
    for (const std::string_view reader : kReaders) {
      if (name == reader) return refuse(where, reader);
    }
    if (allowed_ == Includes::system) {
      if (name == "_Pragma") return refuse(where, name);
      if (name == "asm" || name == "__asm" || name == "__asm__") return assembly(where);
    }
    const bool raw = name == "R" || name == "u8R" || name == "uR" || name == "UR" || name == "LR";
    if (raw && peek() == '"') return raw_string(where);
    if (peek() != '"') joined_.clear();  // else the word is the literal's prefix
    return ok_status();
  }

  Status quoted(char quote) {
    const int where = line();
    ++at_;
    std::string content;
    while (at_ < text_.size() && text_[at_] != quote && text_[at_] != '\n') {
      if (text_[at_] == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] != '\n') content += text_[at_++];
      content += text_[at_++];
    }
    if (peek() == quote) ++at_;
    return quote == '"' ? literal(where, content) : ok_status();
  }

  // Splices inside a raw string are undone by the compiler; a directive inside one is refused, because scanners of
  // skipped groups differ in whether they know raw strings.
  Status raw_string(int where) {
    const std::size_t open = text_.find('(', at_);
    if (open == std::string::npos || open - at_ > 18) return refuse(where, "a malformed raw string");
    const std::string close = fmt::format("){}\"", text_.substr(at_ + 1, open - at_ - 1));
    const std::size_t end = text_.find(close, open + 1);
    if (end == std::string::npos) return refuse(where, "an unterminated raw string");
    const std::string content = text_.substr(open + 1, end - open - 1);
    at_ = end + close.size();
    if (content.find("include") != std::string::npos || content.find("embed") != std::string::npos ||
        content.find("import") != std::string::npos) {
      return refuse(where, "a raw string that holds a directive's name");
    }
    return literal(where, content);
  }

  // Adjacent literals are one string to the compiler: `joined_` grows until another token comes.
  Status literal(int where, const std::string& content) {
    joined_ += content;
    if (joined_.find("incbin") != std::string::npos) return refuse(where, ".incbin");
    return ok_status();
  }

  std::string_view source_;
  Includes allowed_;
  std::string text_;
  std::vector<int> lines_;
  std::size_t at_ = 0;
  bool line_start_ = true;
  std::string joined_;
};

}  // namespace

Status check_self_contained(std::string_view source, Includes allowed) { return Guard(source, allowed).run(); }

}  // namespace warpsmith
