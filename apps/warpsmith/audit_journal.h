// What an audit has found so far, in a file: an interrupted audit of many candidates on many problems loses nothing.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "audit/report_card.h"
#include "base/result.h"
#include "row_file.h"

namespace warpsmith::cli {

class AuditJournal {
 public:
  AuditJournal() = default;  // remembers nothing
  // Goes on with an earlier run's file, which must have had the same `identity`, or starts one. Error: as
  // RowFile::open().
  static Result<AuditJournal> open(const std::filesystem::path& path, const nlohmann::json& identity);

  // What the file itself showed, and why it was rejected, if it was.
  struct Candidate {
    audit::CandidateFacts facts;
    std::string rejected;
  };
  // Null: not known. A file is the same where path and bytes are.
  const Candidate* candidate(const std::string& path, const std::string& sha256) const;
  // Null: not known. Reports of a machine that failed are not kept.
  const audit::ProblemReport* report(const audit::CandidateFacts& candidate, const Problem& problem) const;

  Status add(const Candidate& candidate);
  Status add(const audit::CandidateFacts& candidate, const audit::ProblemReport& report);
  void remove();

 private:
  using Key = std::pair<std::string, std::string>;  // path, sha256
  Status keep(nlohmann::json row);

  std::optional<RowFile> file_;
  std::map<Key, Candidate> candidates_;
  std::map<std::pair<Key, std::string>, audit::ProblemReport> reports_;  // by problem
};

}  // namespace warpsmith::cli
