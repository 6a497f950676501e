// Parsing and rendering of templates, and where they are found.
#include "llm/template.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "base/hash.h"
#include "base/paths.h"
#include "base/text.h"

namespace warpsmith::llm {

namespace {

constexpr std::string_view kVersion = "{{! warpsmith prompt, version 1:";

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  return first == std::string_view::npos ? std::string_view()
                                         : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

bool starts_line(std::string_view text, std::size_t at) { return at == 0 || text[at - 1] == '\n'; }

}  // namespace

Result<Template> Template::parse(std::string_view text, const std::string& file,
                                 const std::vector<std::string>& names) {
  Template result;
  std::vector<std::string> open;
  std::size_t at = 0;
  const auto refuse = [&](std::size_t place, const std::string& what) {
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(place), '\n');
    return bad_input(fmt::format("{}:{}: {}", file, line, what));
  };
  while (at < text.size()) {
    const std::size_t begin = text.find("{{", at);
    if (begin != at) result.pieces_.push_back({Piece::Kind::text, std::string(text.substr(at, begin - at))});
    if (begin == std::string_view::npos) break;
    const std::size_t end = text.find("}}", begin);
    if (end == std::string_view::npos) return refuse(begin, "'{{' without '}}'");
    std::string_view tag = trim(text.substr(begin + 2, end - begin - 2));
    at = end + 2;
    const char sign = tag.empty() ? ' ' : tag.front();
    const bool block = sign == '#' || sign == '^' || sign == '/';
    if ((block || sign == '!') && starts_line(text, begin) && at < text.size() && text[at] == '\n') ++at;
    if (sign == '!') continue;
    const std::string name(trim(block ? tag.substr(1) : tag));
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      return refuse(begin, fmt::format("unknown name '{}'; accepted: {}", printable(name), fmt::join(names, ", ")));
    }
    if (sign == '/') {
      if (open.empty() || open.back() != name) return refuse(begin, fmt::format("'{{{{/{}}}}}' closes nothing", name));
      open.pop_back();
    } else if (block) {
      open.push_back(name);
    }
    result.pieces_.push_back({sign == '#'   ? Piece::Kind::when
                              : sign == '^' ? Piece::Kind::unless
                              : sign == '/' ? Piece::Kind::end
                                            : Piece::Kind::value,
                              name});
  }
  if (!open.empty()) return refuse(text.size(), fmt::format("'{{{{#{}}}}}' is never closed", open.back()));
  return result;
}

std::string Template::render(const TemplateValues& values) const {
  std::string text;
  std::vector<bool> kept{true};
  for (const Piece& piece : pieces_) {
    const auto value = values.find(piece.text);
    const bool empty = value == values.end() || value->second.empty();
    switch (piece.kind) {
      case Piece::Kind::text:
        if (kept.back()) text += piece.text;
        break;
      case Piece::Kind::value:
        if (kept.back() && !empty) text += value->second;
        break;
      case Piece::Kind::when:
        kept.push_back(kept.back() && !empty);
        break;
      case Piece::Kind::unless:
        kept.push_back(kept.back() && empty);
        break;
      case Piece::Kind::end:
        kept.pop_back();
        break;
    }
  }
  return text;
}

Result<Prompts> Prompts::load(const std::filesystem::path& directory) {
  const std::vector<std::string> problem = {"m", "n", "k", "layout", "element", "accumulator"};
  std::vector<std::string> task = problem;
  for (const char* name : {"storage", "scaling", "flops", "bytes", "machine", "reference", "floor", "exemplars",
                           "failures", "retrieved", "headers", "arch", "knobs"}) {
    task.emplace_back(name);
  }
  std::vector<std::string> check = problem;
  for (const char* name : {"time", "leap", "source", "descriptor", "hacks", "rules"}) check.emplace_back(name);
  struct Entry {
    const char* file;
    Template* place;
    std::vector<std::string> names;
  };
  Prompts prompts;
  prompts.directory = directory;
  HashInput hash;
  for (const Entry& entry : {Entry{"system.md", &prompts.system, {}},
                             {"cuda.md", &prompts.cuda, task},
                             {"cpu.md", &prompts.cpu, task},
                             {"exemplar.md",
                              &prompts.exemplar,
                              {"number", "time", "speedup", "recipe", "metrics", "source", "descriptor", "omitted"}},
                             {"repair.md", &prompts.repair, {"reason", "words"}},
                             {"checker.md", &prompts.checker, check}}) {
    const std::filesystem::path path = directory / entry.file;
    const auto text = read_file(path);
    if (!text) return text.error();
    if (text->rfind(kVersion, 0) != 0) {
      return bad_input(fmt::format("{}:1: not a prompt template of version 1; accepted first line: {} PURPOSE }}}}",
                                   path.string(), kVersion));
    }
    auto parsed = Template::parse(*text, path.string(), entry.names);
    if (!parsed) return parsed.error();
    *entry.place = std::move(*parsed);
    hash.add(*text);
  }
  prompts.hash = hash.hex();
  return prompts;
}

Result<Prompts> Prompts::find(const std::string& chosen) {
  std::error_code missing;
  if (!chosen.empty() && !std::filesystem::exists(std::filesystem::path(chosen) / "system.md", missing)) {
    return bad_input(fmt::format("there are no prompt templates in {}; accepted: a directory like {}",
                                 printable(chosen), (executable_dir() / "prompts").string()));
  }
  if (!chosen.empty()) return load(chosen);
  std::string tried;
  for (const std::filesystem::path& place : {data_dir() / "prompts", executable_dir() / "prompts",
                                             executable_dir().parent_path() / "share" / "warpsmith" / "prompts"}) {
    std::error_code error;
    if (std::filesystem::exists(place / "system.md", error)) return load(place);
    tried += (tried.empty() ? "" : ", ") + place.string();
  }
  return environment_error("there are no prompt templates in any of " + tried);
}

}  // namespace warpsmith::llm
