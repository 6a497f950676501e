// Policy `llm` of `optimize`: its options, and the search that they describe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "archive/archive.h"
#include "base/result.h"
#include "cli.h"
#include "compile/compile.h"
#include "evaluate/evaluator.h"
#include "llm/session.h"

namespace warpsmith::cli {

struct LlmOptions {
  static constexpr const char* kGroup = "Policy llm";  // of its options in the help
  std::string url, checker_url;
  std::vector<std::string> models;  // NAME or NAME:WEIGHT
  std::string checker_model;
  std::string key_variable = "WARPSMITH_LLM_KEY", checker_key_variable;
  std::vector<std::string> prices;
  llm::BudgetLimits limits;
  double temperature = 0.8;
  std::int64_t max_tokens = 8192;
  int parallel = 2;
  int exemplars = 2;
  int first_recipes = 4;
  bool no_stream = false;
  std::string timeout = "15m";
  std::string prompts, index, retrieve;
  int passages = 3;
  bool profile = false;
  bool dry_run = false;

  void add_to(CLI::App& command);
};

// What is measured and with which effort, besides LlmOptions.
struct LlmScope {
  Archive::Scope scope;
  double budget_seconds = 60;
  std::int64_t max_candidates = 0;
  std::uint64_t seed = 1;
  double reference_us = 0;
  std::string reference;
  std::string archive_path;  // for messages
};

class LlmSearch {
 public:
  // Error: bad_input for what cannot be meant, environment where something is missing.
  static Result<std::unique_ptr<LlmSearch>> prepare(const LlmOptions& options);

  Result<llm::SessionResult> run(const LlmScope& scope, const Compiler& compiler, Evaluator& evaluator,
                                 Archive& archive, bool quiet);
  // The prompt that would be sent first, as a person reads it.
  Result<std::string> dry_run(const LlmScope& scope, Archive& archive);

  // What searches over tasks need of it.
  llm::ChatClient& client() { return *client_; }
  const std::vector<llm::ModelChoice>& models() const { return models_; }
  llm::TextIndex* index() { return index_.get(); }
  llm::ChatClient* checker() { return checker_.get(); }  // null: there is none
  const llm::ModelChoice& checker_model() const { return checker_model_; }

 private:
  Status set_prices();
  llm::SessionOptions session(const LlmScope& scope) const;
  std::string profile(const LlmScope& scope, const std::string& name, Archive& archive, bool quiet);

  LlmOptions options_;
  std::vector<llm::ModelChoice> models_;
  llm::ModelChoice checker_model_;
  std::optional<llm::Prompts> prompts_;
  std::unique_ptr<llm::ChatClient> client_, checker_;
  std::unique_ptr<llm::TextIndex> index_;
  std::string transport_;
  std::map<std::string, std::string> profiles_;  // of a problem and a kernel, as prompts show them
  bool profiling_failed_ = false;                // said once
};

}  // namespace warpsmith::cli
