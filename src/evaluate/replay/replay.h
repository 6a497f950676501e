// Replay target: measurements recorded on a real machine, looked up instead of made. Search and learning can then be
// studied, and repeated exactly, where that machine is not at hand.
//
// The file is JSON lines. The first line is the header
//   {"warpsmith_replay": 1, "machine": {...}, "target": "sm90", "threads": 1, "provenance": {...}}
// to which may be added "references", the time of the fastest baseline in us by problem, and "held_out", the problems
// that nothing may be trained on;
// where their spaces were declared (declared.h), "declared" has the number of recipes of each: a problem with fewer
// entries was not measured whole. "spaces" is that file's SHA-256. And every further one an entry
//   {"problem": "64x64x64 tn f16 f32", "recipe": "sm90 ...", "kind": "accepted", "cold_us": 2.1, "warm_us": 1.8}
// cold_us: of accepted entries, and of too-slow or suspicious ones where known; warm_us: of accepted entries;
// "error": of accepted entries, where known, the worst error that the gates met over their bound. Absent knobs of a
// recipe take their defaults.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "archive/archive.h"
#include "base/result.h"
#include "evaluate/replay/declared.h"
#include "evaluate/verdict.h"
#include "problem/machine.h"
#include "problem/problem.h"
#include "recipe/recipe.h"

namespace warpsmith {

class ReplayTable {
 public:
  struct Entry {
    std::string kind;  // Verdict::kind(), never "failed"
    std::optional<double> cold_us, warm_us;
    std::optional<double> error{};
  };

  ReplayTable(Machine machine, Target target, int threads, nlohmann::json provenance = nlohmann::json::object());

  // Error: bad_input with "file:line: ...", environment when the file cannot be read.
  static Result<ReplayTable> load(const std::filesystem::path& path);
  // Entries sorted by problem and recipe, so that equal tables are equal files.
  Status save(const std::filesystem::path& path) const;

  // `recipe` in text form, as in the file. Error (bad_input): a malformed or second entry.
  Status add(const Problem& problem, std::string_view recipe, const Entry& entry);

  // What was recorded; a recipe that was not is Failed("not recorded ...").
  Verdict lookup(const Problem& problem, const Recipe& recipe) const;

  const Machine& machine() const { return machine_; }
  Target target() const { return target_; }
  int threads() const { return threads_; }
  const nlohmann::json& provenance() const { return provenance_; }
  std::vector<Problem> problems() const;
  std::vector<Recipe> recipes(const Problem& problem) const;  // recorded for the problem
  std::size_t size() const;

  // Of the fastest baseline; 0: not known. Error (bad_input) of the setter: not a positive number.
  double reference_us(const Problem& problem) const;
  Status set_reference(const Problem& problem, double time_us);
  // As declared by the table's maker; empty: no declaration.
  std::vector<Problem> held_out() const { return held_out_; }
  void set_held_out(std::vector<Problem> problems) { held_out_ = std::move(problems); }
  // Holds out the problems of the declared spaces. Entries of these problems outside their spaces must not have been
  // added: what is best of a problem is best of what was declared.
  void set_declared(const DeclaredSpaces& spaces);
  void set_declared(const Problem& problem, std::size_t recipes, std::string digest);
  std::size_t declared(const Problem& problem) const;  // recipes of its declared space; 0: none was declared
  std::size_t entries(const Problem& problem) const;   // recorded ones
  bool contains(const Problem& problem, const Recipe& recipe) const;

 private:
  using Entries = std::map<std::string, Entry>;  // by full text form of the recipe

  Machine machine_;
  Target target_;
  int threads_;
  nlohmann::json provenance_;
  std::map<std::string, Entries> problems_;   // by text form of the problem
  std::map<std::string, double> references_;  // likewise
  std::vector<Problem> held_out_;
  std::map<std::string, std::size_t> declared_;  // likewise
  std::string spaces_digest_;
};

// The cold time of a kernel that passed the gates, us: of an accepted one, or of one that was stopped for being slow
// where its time is known.
std::optional<double> right_time_us(const Verdict& verdict);

// Which of an archive's scopes to export.
struct ReplaySelection {
  std::string machine;  // Machine::id()
  Target target = Target::cpu;
  int threads = 1;
  std::vector<Problem> problems{};  // empty: all
  // The problems that it names are held out, and of them only what was declared is exported. Null: none.
  const DeclaredSpaces* spaces = nullptr;
};

// Everything recorded in the selected scopes. Of a recipe tried several times the latest verdict counts; environment
// failures and recipes of a knob table that has changed since are left out. Error: bad_input when nothing was recorded
// for the selection, naming what is there.
Result<ReplayTable> export_replay_table(Archive& archive, const ReplaySelection& selection,
                                        nlohmann::json provenance = nlohmann::json::object());
// Of several archives; what a later one holds counts before the same of an earlier one.
Result<ReplayTable> export_replay_table(const std::vector<Archive*>& archives, const ReplaySelection& selection,
                                        nlohmann::json provenance = nlohmann::json::object());

// Records what the archive lacks of the table's entries, as attempts without a source: known times to begin from, which
// whoever tunes measures again before relying on them. Returns how many were added; a second import adds none.
Result<std::int64_t> import_replay_table(Archive& archive, const ReplayTable& table);

}  // namespace warpsmith
