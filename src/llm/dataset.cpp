// Rows out of scopes, kernels, exchanges and passages.
#include "llm/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <sstream>

#include "base/file.h"
#include "base/hash.h"
#include "evaluate/verdict.h"
#include "llm/prompt.h"
#include "llm/session.h"
#include "report/table.h"
#include "search/conclude.h"
#include "search/named_candidate.h"

namespace warpsmith::llm {

namespace {

using nlohmann::json;

constexpr std::size_t kExemplars = 2;
constexpr std::size_t kPassages = 3;

std::string unended(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// Equal but for blanks.
std::string fingerprint(const json& row) {
  std::string text;
  for (const char byte : row.dump(-1, ' ', false, json::error_handler_t::replace)) {
    if (std::isspace(static_cast<unsigned char>(byte)) == 0) text.push_back(byte);
  }
  return sha256_hex(text);
}

// One scope of the archive with what rows are made of.
struct Record {
  Archive::Scope scope;
  std::vector<AttemptSummary> history;
  std::vector<Measured> kernels;  // accepted, fastest first
  double reference_us = 0;
  std::string reference;
  std::map<std::string, std::string> replies;  // a candidate's name -> the answer that held it
};

class Maker {
 public:
  Maker(DatasetRows& rows, Archive& archive, const Prompts& prompts, TextIndex* index, const DatasetOptions& options)
      : rows_(rows), archive_(archive), prompts_(prompts), index_(index), options_(options) {}

  Status make(DatasetKind kind);

 private:
  Result<Record> read(const Archive::Scope& scope);
  Status add_sft(const Record& record);
  Status add_preferences(const Record& record);
  Status add_prompts(const Record& record);
  Status add_kernels(const Record& record);
  Status add_passages();

  // The prompt that shows kernels slower than `than_us`, or any where that is 0.
  Result<std::vector<Message>> prompt(const Record& record, double than_us, Rng& rng, std::vector<Exemplar>* shown);
  // The answer that holds a kernel: a model's own words where there are some. Nothing: it is too long to be one.
  Result<std::optional<std::string>> answer(const Record& record, const std::string& name,
                                            const std::vector<Exemplar>& shown);

  DatasetRows& rows_;
  Archive& archive_;
  const Prompts& prompts_;
  TextIndex* index_;
  const DatasetOptions& options_;
};

std::string sizes_of(const Problem& problem) { return fmt::format("{}x{}x{}", problem.m, problem.n, problem.k); }

Result<Record> Maker::read(const Archive::Scope& scope) {
  Record record;
  record.scope = scope;
  auto history = archive_.summaries(scope);
  if (!history) return history.error();
  record.history = std::move(*history);
  const auto comparison = archive_.last_comparison(scope);
  if (!comparison) return comparison.error();
  if (*comparison && (*comparison)->result.contains("subjects")) {
    const auto subjects = (*comparison)->result["subjects"].get<std::vector<Measurement>>();
    if (const Measurement* fastest = fastest_of(subjects, to_string(scope.problem.layout))) {
      record.reference_us = fastest->cold.median_us;
      record.reference = fastest->subject;
    }
  }
  record.kernels = accepted_kernels(record.history, record.reference_us);
  const auto exchanges = archive_.exchanges(scope);
  if (!exchanges) return exchanges.error();
  for (const ExchangeRecord& exchange : *exchanges) {
    if (!exchange.name.empty()) record.replies.emplace(exchange.name, exchange.reply);
  }
  return record;
}

Result<std::vector<Message>> Maker::prompt(const Record& record, double than_us, Rng& rng,
                                           std::vector<Exemplar>* shown) {
  std::vector<AttemptSummary> slower;
  for (const AttemptSummary& attempt : record.history) {
    if (attempt.kind == "wrong" || !attempt.cold_us || *attempt.cold_us > than_us) slower.push_back(attempt);
  }
  PromptFacts facts;
  facts.scope = record.scope;
  facts.reference_us = record.reference_us;
  facts.reference = record.reference;
  for (const Measured& measured : draw_exemplars(slower, record.reference_us, kExemplars, {}, rng)) {
    auto exemplar = llm::show(measured, record.scope, archive_);
    if (!exemplar && exemplar.error().kind == ErrorKind::environment) return exemplar.error();
    if (exemplar) facts.exemplars.push_back(std::move(*exemplar));
  }
  if (shown != nullptr) *shown = facts.exemplars;
  return propose(prompts_, facts);
}

// Tokens of a recipe that differ: "stages 2 -> 4, tile ... -> ...".
std::string difference(const std::string& before, const std::string& after) {
  std::istringstream first(before), second(after);
  std::string text, a, b;
  while (first >> a && second >> b) {
    if (a == b) continue;
    const std::size_t equals = std::min(b.find('='), b.size());
    const bool same_knob = a.compare(0, equals, b, 0, equals) == 0 && equals < b.size();
    text += fmt::format(
        "{}{}", text.empty() ? "" : ", ",
        same_knob ? fmt::format("{} {} -> {}", b.substr(0, equals), a.substr(equals + 1), b.substr(equals + 1))
                  : fmt::format("{} -> {}", a, b));
  }
  return text;
}

Result<std::optional<std::string>> Maker::answer(const Record& record, const std::string& name,
                                                 const std::vector<Exemplar>& shown) {
  if (const auto reply = record.replies.find(name); reply != record.replies.end()) return std::optional(reply->second);
  std::string analysis = "No kernel was measured before; this one is a first guess from sizes and hardware.";
  std::string design = "A kernel for these sizes.";
  if (shown.size() >= 2) {
    const Exemplar &slow = shown.front(), &fast = shown.back();
    analysis = fmt::format("Kernel {} is {:.2f} times as fast as kernel 1 ({} us, {} us).", shown.size(),
                           slow.measured.time_us / fast.measured.time_us, significant(fast.measured.time_us),
                           significant(slow.measured.time_us));
    const std::string differing = difference(slow.measured.name, fast.measured.name);
    if (!fast.recipe.empty() && !slow.recipe.empty() && !differing.empty()) {
      analysis += fmt::format(" They differ in {}.", differing);
    }
  }
  const bool recipe = !is_free_form_name(name);
  if (!shown.empty() && recipe && !shown.back().recipe.empty()) {
    design = fmt::format("Relative to the fastest kernel shown: {}.", difference(shown.back().measured.name, name));
  }
  std::string code = fmt::format("```recipe\n{}\n```", name);
  if (is_cuda(record.scope.target)) {
    const auto candidate = named_candidate(name, record.scope, &archive_);
    if (!candidate) return std::optional<std::string>();
    if (candidate->source.size() > options_.max_source_bytes) {
      rows_.leave_out_too_long();
      return std::optional<std::string>();
    }
    const json descriptor = describe_candidate(*candidate, "kernel", record.scope.problem, nullptr);
    code = fmt::format("```cuda\n{}\n```\n```json\n{}\n```", unended(candidate->source), descriptor.dump(2));
  }
  return std::optional(written_answer(analysis, design, code));
}

Status Maker::add_sft(const Record& record) {
  for (std::size_t i = 0; i < std::min(record.kernels.size(), options_.per_problem); ++i) {
    const Measured& kernel = record.kernels[i];
    Rng rng(options_.seed ^ hash64(kernel.name));
    std::vector<Exemplar> shown;
    const auto messages = prompt(record, kernel.time_us, rng, &shown);
    if (!messages) return messages.error();
    const auto text = answer(record, kernel.name, shown);
    if (!text) return text.error();
    if (!*text) continue;
    json chat = messages_to_json(*messages);
    chat.push_back(chat_message("assistant", **text));
    rows_.add({{"messages", std::move(chat)},
               {"problem", to_string(record.scope.problem)},
               {"task", ""},
               {"target", to_string(record.scope.target)},
               {"time_us", kernel.time_us}},
              sizes_of(record.scope.problem));
  }
  return ok_status();
}

Status Maker::add_preferences(const Record& record) {
  std::vector<std::pair<std::string, std::string>> failed;  // name, verdict
  std::set<std::string> accepted;
  for (const Measured& kernel : record.kernels) accepted.insert(kernel.name);
  for (const AttemptSummary& attempt : record.history) {
    const bool bad = attempt.kind == "wrong" || attempt.kind == "compile-error" || attempt.kind == "crashed" ||
                     attempt.kind == "timed-out";
    if (bad && accepted.count(attempt.recipe) == 0) failed.emplace_back(attempt.recipe, attempt.kind);
  }
  const std::size_t count = std::min(record.kernels.size(), options_.per_problem);
  for (std::size_t i = 0; i < count; ++i) {
    const Measured& chosen = record.kernels[i];
    // Against its mirror image in the list, where that is slower by the ratio, and against one that failed.
    std::vector<std::pair<std::string, json>> rejected;
    const std::size_t partner = record.kernels.size() - 1 - i;
    if (partner > i && record.kernels[partner].time_us >= chosen.time_us * options_.least_ratio) {
      rejected.push_back({record.kernels[partner].name, {{"rejected_us", record.kernels[partner].time_us}}});
    }
    if (i < failed.size()) rejected.push_back({failed[i].first, {{"rejected_verdict", failed[i].second}}});
    for (const auto& [name, facts] : rejected) {
      Rng rng(options_.seed ^ hash64(chosen.name + name));
      std::vector<Exemplar> shown;
      const auto messages = prompt(record, chosen.time_us, rng, &shown);
      if (!messages) return messages.error();
      const auto good = answer(record, chosen.name, shown), bad = answer(record, name, shown);
      if (!good) return good.error();
      if (!bad) return bad.error();
      if (!*good || !*bad) continue;
      json row = {{"prompt", messages_to_json(*messages)},
                  {"chosen", json::array({chat_message("assistant", **good)})},
                  {"rejected", json::array({chat_message("assistant", **bad)})},
                  {"problem", to_string(record.scope.problem)},
                  {"task", ""},
                  {"target", to_string(record.scope.target)},
                  {"chosen_us", chosen.time_us}};
      row.update(facts);
      rows_.add(std::move(row), sizes_of(record.scope.problem));
    }
  }
  return ok_status();
}

// The fields by which verl, OpenRLHF and TRL find the prompt and what the reward server has to know.
Status Maker::add_prompts(const Record& record) {
  const std::string problem = to_string(record.scope.problem);
  for (std::size_t i = 0; i < options_.per_problem; ++i) {
    Rng rng(options_.seed ^ hash64(fmt::format("{}/{}", problem, i)));
    const auto messages = prompt(record, 0, rng, nullptr);
    if (!messages) return messages.error();
    rows_.add({{"prompt", messages_to_json(*messages)},
               {"label", problem},
               {"problem", problem},
               {"task", ""},
               {"target", to_string(record.scope.target)},
               {"data_source", "warpsmith"},
               {"ability", "code"},
               {"reward_model", {{"style", "rule"}, {"ground_truth", problem}}},
               {"extra_info", {{"problem", problem}, {"target", to_string(record.scope.target)}}}},
              sizes_of(record.scope.problem));
  }
  return ok_status();
}

Status Maker::add_kernels(const Record& record) {
  for (std::size_t i = 0; i < std::min(record.kernels.size(), options_.per_problem); ++i) {
    const auto candidate = named_candidate(record.kernels[i].name, record.scope, &archive_);
    if (!candidate) continue;
    if (candidate->source.size() > options_.max_source_bytes) {
      rows_.leave_out_too_long();
      continue;
    }
    const Problem& problem = record.scope.problem;
    const std::string instruction = fmt::format(
        "Write a {} kernel that computes C[{}, {}] = A B with k = {}, layout {}, {} elements and {} sums, for {}.",
        is_cuda(record.scope.target) ? "CUDA" : "C++", problem.m, problem.n, problem.k, to_string(problem.layout),
        to_string(problem.element), to_string(problem.accumulator), record.scope.machine.name);
    rows_.add({{"instruction", instruction},
               {"context", retrieved_context(index_, instruction, {})},
               {"code", candidate->source},
               {"place", fmt::format("archive:{}", to_string(problem))}},
              sizes_of(problem));
  }
  return ok_status();
}

// The comment that a piece of code opens with, as one line; empty: it has none.
std::string opening_comment(std::string_view code) {
  std::string text;
  std::istringstream lines{std::string(code)};
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find_first_not_of(" \t");
    if (first == std::string::npos && text.empty()) continue;
    const bool slashes = first != std::string::npos && line.compare(first, 2, "//") == 0;
    const bool hash = first != std::string::npos && line[first] == '#' && line.compare(first, 2, "# ") == 0;
    if (!slashes && !hash) break;
    const std::size_t begin = line.find_first_not_of("/#! \t", first);
    if (begin != std::string::npos) text += (text.empty() ? "" : " ") + line.substr(begin);
  }
  return text;
}

bool is_code(const std::string& place) {
  std::filesystem::path path(place.substr(0, place.find(':')));
  static const std::set<std::string> kEndings = {".h",  ".hpp", ".hh",  ".cuh", ".cu", ".c",
                                                 ".cc", ".cpp", ".cxx", ".inl", ".py", ".ptx"};
  return kEndings.count(path.extension().string()) != 0;
}

Status Maker::add_passages() {
  if (index_ == nullptr) return ok_status();
  std::vector<Passage> passages;
  const Status read = index_->each([&](const Passage& passage) {
    if (is_code(passage.place)) passages.push_back(passage);
  });
  if (!read) return read.error();
  for (const Passage& passage : passages) {
    const std::string file = passage.place.substr(0, passage.place.find(':'));
    const std::string comment = opening_comment(passage.text);
    const std::string name = std::filesystem::path(file).filename().string();
    const std::string instruction = comment.empty() ? fmt::format("Write a part of {}.", name)
                                                    : fmt::format("Write a part of {}: {}", name, comment);
    rows_.add({{"instruction", instruction},
               {"context", retrieved_context(index_, passage.text, passage.place)},
               {"code", passage.text},
               {"place", passage.place}},
              file);
  }
  return ok_status();
}

Status Maker::make(DatasetKind kind) {
  const auto scopes = archive_.scopes();
  if (!scopes) return scopes.error();
  for (const Archive::Scope& scope : *scopes) {
    if (options_.target && scope.target != *options_.target) continue;
    const auto record = read(scope);
    if (!record) return record.error();
    const Status status = kind == DatasetKind::sft          ? add_sft(*record)
                          : kind == DatasetKind::preference ? add_preferences(*record)
                          : kind == DatasetKind::prompts    ? add_prompts(*record)
                                                            : add_kernels(*record);
    if (!status) return status.error();
  }
  return kind == DatasetKind::pretrain ? add_passages() : ok_status();
}

std::string lines_of(const std::vector<json>& rows) {
  std::string text;
  for (const json& row : rows) text += row.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  return text;
}

}  // namespace

std::string_view to_string(DatasetKind kind) {
  switch (kind) {
    case DatasetKind::sft:
      return "sft";
    case DatasetKind::preference:
      return "preference";
    case DatasetKind::prompts:
      return "prompts";
    case DatasetKind::pretrain:
      return "pretrain";
  }
  return "";
}

void DatasetRows::add(json row, const std::string& group) {
  json compared = row;
  for (const char* volatile_field : {"time_us", "chosen_us", "rejected_us"}) compared.erase(volatile_field);
  if (!seen_.insert(fingerprint(compared)).second) {
    ++dataset_.duplicates;
    return;
  }
  const double draw = static_cast<double>(hash64(fmt::format("{}/{}", seed_, group)) >> 11) * 0x1p-53;
  (draw < held_out_ ? dataset_.held_out : dataset_.train).push_back(std::move(row));
}

json chat_message(const char* role, const std::string& content) { return {{"role", role}, {"content", content}}; }

std::string written_answer(const std::string& analysis, const std::string& design, const std::string& code) {
  return fmt::format("## Performance analysis\n{}\n\n## Algorithm design\n{}\n\n## Code\n{}\n", analysis, design, code);
}

std::string retrieved_context(TextIndex* index, const std::string& query, const std::string& but_not) {
  std::string text;
  if (index == nullptr) return text;
  const auto passages = index->search(query, kPassages + 1, 1);
  if (!passages) return text;
  std::size_t count = 0;
  for (const Passage& passage : *passages) {
    if (passage.place == but_not || count == kPassages) continue;
    text += fmt::format("{}// {}\n{}\n", text.empty() ? "" : "\n", passage.place, unended(passage.text));
    ++count;
  }
  return text;
}

Status add_problems(DatasetRows& rows, DatasetKind kind, Archive& archive, const Prompts& prompts, TextIndex* index,
                    const DatasetOptions& options) {
  return Maker(rows, archive, prompts, index, options).make(kind);
}

Result<Dataset> make_dataset(DatasetKind kind, Archive& archive, const Prompts& prompts, TextIndex* index,
                             const DatasetOptions& options) {
  DatasetRows rows(options);
  if (const Status added = add_problems(rows, kind, archive, prompts, index, options); !added) return added.error();
  return std::move(rows).take();
}

std::filesystem::path held_out_path(const std::filesystem::path& path) {
  std::filesystem::path result = path;
  result.replace_extension("held-out" + path.extension().string());
  return result;
}

Status write_dataset(const Dataset& dataset, const std::filesystem::path& path) {
  if (const Status status = write_file_atomic(path, lines_of(dataset.train)); !status) return status.error();
  return write_file_atomic(held_out_path(path), lines_of(dataset.held_out));
}

}  // namespace warpsmith::llm
