// From a replay table to an archive's attempts.
#include <set>

#include "evaluate/replay/replay.h"

namespace warpsmith {

Result<std::int64_t> import_replay_table(Archive& archive, const ReplayTable& table) {
  std::int64_t added = 0;
  for (const Problem& problem : table.problems()) {
    const Archive::Scope scope{problem, table.machine(), table.target(), table.threads()};
    const auto present = archive.summaries(scope);
    if (!present) return present.error();
    std::set<std::string> known;
    for (const AttemptSummary& attempt : *present) {
      // Text forms are compared in full, absent knobs filled in.
      if (const auto recipe = parse_recipe(attempt.recipe)) known.insert(to_string(*recipe));
    }
    std::vector<AttemptRecord> attempts;
    for (const Recipe& recipe : table.recipes(problem)) {
      AttemptRecord attempt;
      attempt.recipe = to_string(recipe);
      if (known.count(attempt.recipe) != 0) continue;
      attempt.policy = "imported";
      attempt.verdict = table.lookup(problem, recipe);
      attempts.push_back(std::move(attempt));
    }
    if (const Status recorded = archive.record_all(scope, attempts); !recorded) return recorded.error();
    added += static_cast<std::int64_t>(attempts.size());
  }
  return added;
}

}  // namespace warpsmith
