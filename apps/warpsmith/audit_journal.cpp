// Rows: {"candidate": facts, "rejected": why or ""}, and {"path", "sha256", "report": of one problem}.
#include "audit_journal.h"

#include <fmt/format.h>

namespace warpsmith::cli {

Result<AuditJournal> AuditJournal::open(const std::filesystem::path& path, const nlohmann::json& identity) {
  auto file = RowFile::open(path, identity);
  if (!file) return file.error();
  AuditJournal journal;
  try {
    for (const nlohmann::json& row : file->rows()) {
      if (row.contains("report")) {
        const Key key{row.at("path").get<std::string>(), row.at("sha256").get<std::string>()};
        auto report = row.at("report").get<audit::ProblemReport>();
        if (report.status == audit::Outcome::failed) continue;  // judged again
        journal.reports_[{key, to_string(report.problem)}] = std::move(report);
      } else {
        Candidate known{row.at("candidate").get<audit::CandidateFacts>(), row.at("rejected").get<std::string>()};
        const Key key{known.facts.path, known.facts.sha256};
        journal.candidates_[key] = std::move(known);
      }
    }
  } catch (const std::exception& error) {
    return bad_input(fmt::format("{} holds a row that is none of an audit ({}); remove the file to start anew",
                                 path.string(), error.what()));
  }
  journal.file_.emplace(std::move(*file));
  return journal;
}

const AuditJournal::Candidate* AuditJournal::candidate(const std::string& path, const std::string& sha256) const {
  const auto found = candidates_.find({path, sha256});
  return found == candidates_.end() ? nullptr : &found->second;
}

const audit::ProblemReport* AuditJournal::report(const audit::CandidateFacts& candidate, const Problem& problem) const {
  const auto found = reports_.find({{candidate.path, candidate.sha256}, to_string(problem)});
  return found == reports_.end() ? nullptr : &found->second;
}

Status AuditJournal::keep(nlohmann::json row) { return file_ ? file_->append(row) : ok_status(); }

Status AuditJournal::add(const Candidate& candidate) {
  return keep({{"candidate", candidate.facts}, {"rejected", candidate.rejected}});
}

Status AuditJournal::add(const audit::CandidateFacts& candidate, const audit::ProblemReport& report) {
  return keep({{"path", candidate.path}, {"sha256", candidate.sha256}, {"report", report}});
}

void AuditJournal::remove() {
  if (file_) file_->remove();
}

}  // namespace warpsmith::cli
