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
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '$'; }
bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

template <std::size_t count>
bool is_one_of(std::string_view name, const std::array<std::string_view, count>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Attributes whose text compilers put into the assembly as it is, lines and all.
constexpr std::array<std::string_view, 12> kAssemblyAttributes = {"section",
                                                                  "__section__",
                                                                  "alias",
                                                                  "__alias__",
                                                                  "weakref",
                                                                  "__weakref__",
                                                                  "ifunc",
                                                                  "__ifunc__",
                                                                  "symver",
                                                                  "__symver__",
                                                                  "patchable_function_entry",
                                                                  "__patchable_function_entry__"};

// Macros of system headers that paste tokens, or make assembly or pragmas of their arguments.
constexpr std::array<std::string_view, 8> kPastingMacros = {
    "__CONCAT", "__REDIRECT", "__ASMNAME", "__LDBL_REDIR", "__MATH", "__glibc_macro_warning", "_PSTL_PRAGMA", "BOOST_"};

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
  bool starts_with(std::string_view text) const { return std::string_view(text_).substr(at_).starts_with(text); }
  int line() const { return lines_.empty() ? 1 : lines_[std::min(at_, lines_.size() - 1)]; }

  Status token() {
    const char c = peek();
    if (c == '\n') {
      ++at_;
      line_start_ = true;
      in_directive_ = in_pragma_ = false;
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
    if (is_digit(c) || (c == '.' && is_digit(peek(1)))) return number();
    if (is_word(c)) return word();
    // No honest text spells identifiers in universal character names, and compilers differ in which letters beyond
    // ASCII belong to one.
    if (c == '\\') return refuse(line(), "a backslash outside literals");
    if (!is_ascii(c)) return refuse(line(), "a character beyond ASCII outside literals and comments");
    if (allowed_ == Includes::system && starts_with("##")) return refuse(line(), "##");
    if (allowed_ == Includes::system && starts_with("%:%:")) return refuse(line(), "%:%:, which is ##,");
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

  // A preprocessing number: it may hold quotes and letters that would begin a literal elsewhere.
  Status number() {
    ++at_;
    for (;;) {
      const char c = peek();
      const char before = text_[at_ - 1];
      const bool exponent = before == 'e' || before == 'E' || before == 'p' || before == 'P';
      if (c == '\'' && !is_word(peek(1))) return refuse(line(), "a number that ends in a quote");
      if (!is_word(c) && c != '.' && c != '\'' && !(exponent && (c == '+' || c == '-'))) break;
      ++at_;
    }
    joined_.clear();
    return ok_status();
  }

  Status directive() {
    const int where = line();
    at_ += peek() == '#' ? 1 : 2;
    line_start_ = false;
    in_directive_ = true;
    skip_blanks_and_comments();
    const std::string_view name = take_word();
    if (name == "include" && allowed_ != Includes::none) return system_include(where);
    if (name == "line") return line_directive(where);
    if (name == "define") return definition(where);
    if (name == "pragma") in_pragma_ = true;
    // The rest of what compilers know reads files (#include_next, #import, #embed), names them (# 1 "file") or writes
    // into the assembly (#ident).
    constexpr std::array<std::string_view, 13> kHarmless = {"if",       "ifdef", "ifndef", "elif",  "elifdef",
                                                            "elifndef", "else",  "endif",  "undef", "warning",
                                                            "pragma",   "error", "define"};
    const bool nothing = name.empty() && (at_ >= text_.size() || peek() == '\n' || starts_with("//"));
    return nothing || is_one_of(name, kHarmless) ? ok_status() : Status(refuse(where, fmt::format("#{}", name)));
  }

  // Compilers quote lines of the file that #line names. One is accepted, of a name without directories, as it stands
  // before a candidate's own text: the compiler's working directory holds nothing but that text.
  Status line_directive(int where) {
    const Error refused = refuse(where, "#line");
    if (lines_named_) return refused;
    lines_named_ = true;
    if (!starts_with(" 1 \"")) return refused;
    at_ += 4;
    while (is_ascii(peek()) && (is_word(peek()) || peek() == '.' || peek() == '-' || peek() == '+')) ++at_;
    if (!starts_with("\"\n")) return refused;
    ++at_;
    return ok_status();
  }

  // `asm volatile("")` is accepted, so the word in it has to be the language's own.
  Status definition(int where) {
    skip_blanks_and_comments();
    const std::size_t begin = at_;
    const std::string_view name = take_word();
    if (name == "volatile" || name == "__volatile__") return refuse(where, fmt::format("#define {}", name));
    at_ = begin;
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
    const std::size_t begin = at_;
    const std::string_view name = take_word();
    // `import "file";` is a preprocessing directive of C++20, and compilers open the file even where it is an error.
    constexpr std::array<std::string_view, 5> kReaders = {"__has_include", "__has_include_next", "__has_embed",
                                                          "incbin", "import"};
    if (is_one_of(name, kReaders)) return refuse(where, name);
    // Pragmas that open the file that they name, load modules, or write names into the assembly or the object.
    constexpr std::array<std::string_view, 6> kPragmas = {"dependency",    "pch_preprocess", "include_alias",
                                                          "extern_prefix", "comment",        "module"};
    if (in_pragma_ && is_one_of(name, kPragmas)) return refuse(where, fmt::format("#pragma {}", name));
    if (allowed_ == Includes::system) {
      if (name == "_Pragma" || is_one_of(name, kAssemblyAttributes)) return refuse(where, name);
      for (const std::string_view macro : kPastingMacros) {
        if (name.starts_with(macro)) return refuse(where, name);
      }
      if (name == "asm" || name == "__asm" || name == "__asm__") return assembly(where);
    }
    const bool raw = name == "R" || name == "u8R" || name == "uR" || name == "UR" || name == "LR";
    // "a"R"(": R is the suffix of a literal to some and the prefix of one to others.
    if (raw && peek() == '"' && begin == literal_end_) return refuse(where, "a raw string right behind a literal");
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
    literal_end_ = at_;
    return quote == '"' ? literal(where, content) : ok_status();
  }

  // Splices inside a raw string are undone by the compiler, so that it would end elsewhere; a directive inside one is
  // refused, because scanners of skipped groups differ in whether they know raw strings.
  Status raw_string(int where) {
    const std::size_t open = text_.find('(', at_);
    if (open == std::string::npos || open - at_ > 18) return refuse(where, "a malformed raw string");
    const std::string delimiter = text_.substr(at_ + 1, open - at_ - 1);
    if (!std::all_of(delimiter.begin(), delimiter.end(), is_word)) return refuse(where, "a malformed raw string");
    const std::string close = fmt::format("){}\"", delimiter);
    const std::size_t end = text_.find(close, open + 1);
    if (end == std::string::npos) return refuse(where, "an unterminated raw string");
    const std::string content = text_.substr(open + 1, end - open - 1);
    const auto newlines = std::count(content.begin(), content.end(), '\n');
    at_ = end + close.size();
    if (lines_[at_ - 1] != where + newlines) return refuse(where, "a raw string with a spliced line");
    if (in_directive_ && newlines > 0) return refuse(where, "a directive with a raw string of several lines");
    literal_end_ = at_;
    if (content.find("include") != std::string::npos || content.find("embed") != std::string::npos ||
        content.find("import") != std::string::npos || has_directive(content)) {
      return refuse(where, "a raw string that holds a directive");
    }
    return literal(where, content);
  }

  static bool has_directive(std::string_view content) {
    for (std::size_t at = content.find('\n'); at != std::string_view::npos; at = content.find('\n', at)) {
      while (at < content.size() && (content[at] == '\n' || is_blank(content[at]))) ++at;
      if (content.substr(at).starts_with('#') || content.substr(at).starts_with("%:")) return true;
    }
    return false;
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
  bool in_directive_ = false;
  bool in_pragma_ = false;
  bool lines_named_ = false;
  std::size_t literal_end_ = std::string::npos;  // where the last literal ended
  std::string joined_;
};

}  // namespace

Status check_self_contained(std::string_view source, Includes allowed) { return Guard(source, allowed).run(); }

}  // namespace warpsmith
