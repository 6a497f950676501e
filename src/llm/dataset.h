// What the archive and the index know as training data: answers to imitate, pairs to prefer, prompts to learn on, and
// code with its context. One JSON object a row, without duplicates, problems held out whole. Matrix products here;
// task/models/task_dataset.h adds rows of tasks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "archive/archive.h"
#include "base/result.h"
#include "llm/template.h"
#include "llm/text_index.h"

namespace warpsmith::llm {

enum class DatasetKind { sft, preference, prompts, pretrain };
std::string_view to_string(DatasetKind kind);

struct DatasetOptions {
  double held_out = 0.1;         // share of the problems, by a hash of their sizes
  std::size_t per_problem = 8;   // rows of a problem: its fastest kernels; prompts: so many draws of exemplars
  double least_ratio = 1.1;      // preference: of the times of a pair
  std::optional<Target> target;  // only problems of this target
  std::size_t max_source_bytes = 64 << 10;  // a longer kernel is left out
  std::uint64_t seed = 1;
};

struct Dataset {
  std::vector<nlohmann::json> train, held_out;
  std::size_t duplicates = 0;  // rows left out
  std::size_t too_long = 0;    // kernels left out
};

// Rows as they are made, without those that are there already, dealt into the two parts.
class DatasetRows {
 public:
  explicit DatasetRows(const DatasetOptions& options) : held_out_(options.held_out), seed_(options.seed) {}

  // group: what is held out whole: a problem's sizes, a task's name, a file.
  void add(nlohmann::json row, const std::string& group);
  void leave_out_too_long() { ++dataset_.too_long; }
  Dataset take() && { return std::move(dataset_); }

 private:
  double held_out_;
  std::uint64_t seed_;
  Dataset dataset_;
  std::set<std::string> seen_;
};

// What an answer in text form holds beside its code.
std::string written_answer(const std::string& analysis, const std::string& design, const std::string& code);
nlohmann::json chat_message(const char* role, const std::string& content);
// Passages of the index (may be null) that are nearest to the query, as text; not those of the place `but_not`.
std::string retrieved_context(TextIndex* index, const std::string& query, const std::string& but_not);

Status add_problems(DatasetRows& rows, DatasetKind kind, Archive& archive, const Prompts& prompts, TextIndex* index,
                    const DatasetOptions& options);
// The same alone. `index` may be null; the kind pretrain then has the archive's kernels alone, without context. Error:
// as of the archive and the index.
Result<Dataset> make_dataset(DatasetKind kind, Archive& archive, const Prompts& prompts, TextIndex* index,
                             const DatasetOptions& options);

// "x.jsonl" and "x.held-out.jsonl".
std::filesystem::path held_out_path(const std::filesystem::path& path);
Status write_dataset(const Dataset& dataset, const std::filesystem::path& path);

}  // namespace warpsmith::llm
