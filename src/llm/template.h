// Prompt templates: text with {{name}}, {{#name}} ... {{/name}} (kept where the value is not empty), {{^name}} ...
// {{/name}} (kept where it is), and {{! comments }}. Files that a user edits, so every mistake is named with its line.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warpsmith::llm {

using TemplateValues = std::map<std::string, std::string>;

class Template {
 public:
  Template() = default;
  // `names` are the values that the program gives. Error (bad_input): "FILE:LINE: ..." with what is accepted.
  static Result<Template> parse(std::string_view text, const std::string& file, const std::vector<std::string>& names);

  // A line that holds nothing but a tag leaves no line behind. Names without a value are empty.
  std::string render(const TemplateValues& values) const;

 private:
  struct Piece {
    enum class Kind { text, value, when, unless, end };
    Kind kind = Kind::text;
    std::string text;  // or the value's name
  };
  std::vector<Piece> pieces_;
};

// The templates of prompts/, version 1. Its names are part of the version.
struct Prompts {
  Template system, cuda, cpu, exemplar, repair, checker;
  std::filesystem::path directory;
  std::string hash;  // of all texts

  // Error: bad_input with the file and line; environment for a file that cannot be read.
  static Result<Prompts> load(const std::filesystem::path& directory);
  // From `chosen`, else from prompts/ in the data directory, beside the program, or where it is installed.
  static Result<Prompts> find(const std::string& chosen);
};

}  // namespace warpsmith::llm
