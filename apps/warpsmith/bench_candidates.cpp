// Loading and matching of free-form candidates.
#include "bench_candidates.h"

#include <fmt/format.h>

#include <set>

#include "base/hash.h"

namespace warpsmith::cli {

Result<std::vector<FreeForm>> load_candidates(const std::vector<std::string>& paths) {
  std::vector<FreeForm> forms;
  std::set<std::string> names;
  for (const std::string& path : paths) {
    auto form = load_candidate(path);
    if (!form) return form.error();
    if (!names.insert(form->name).second) {
      return bad_input(fmt::format("{}: /name: another candidate is called '{}'; accepted: names that differ",
                                   form->descriptor.string(), form->name));
    }
    forms.push_back(std::move(*form));
  }
  return forms;
}

Result<std::vector<Entrant>> applicable_candidates(const std::vector<FreeForm>& forms, const Problem& problem,
                                                   const Machine& machine) {
  std::vector<Entrant> entrants;
  for (const FreeForm& form : forms) {
    const auto reason = inapplicable(form, problem, machine);
    if (!reason) return reason.error();
    if (*reason) continue;
    auto candidate = instantiate(form, problem, machine);
    if (!candidate) return candidate.error();
    entrants.push_back({form.name, std::move(*candidate), false});
  }
  return entrants;
}

Result<std::vector<Problem>> claimed_problems(const std::vector<FreeForm>& forms, const std::vector<Problem>& problems,
                                              const Machine& machine, bool json_lines) {
  std::vector<Problem> claimed;
  for (const Problem& problem : problems) {
    nlohmann::json reasons = nlohmann::json::object();
    std::string text;
    for (const FreeForm& form : forms) {
      const auto reason = inapplicable(form, problem, machine);
      if (!reason) return reason.error();
      if (!*reason) continue;
      reasons[form.name] = **reason;
      text += fmt::format("{}{}", text.empty() ? "" : "; ",
                          forms.size() == 1 ? **reason : fmt::format("{}: {}", form.name, **reason));
    }
    if (reasons.size() < forms.size()) {
      claimed.push_back(problem);
    } else if (json_lines) {
      fmt::print("{}\n", nlohmann::json{{"problem", to_string(problem)}, {"not_applicable", reasons}}.dump());
    } else {
      fmt::print("{:<28} not applicable: {}\n", to_string(problem), text);
    }
  }
  if (claimed.empty()) return bad_input("no candidate is applicable to any of the problems; see its \"requires\"");
  return claimed;
}

nlohmann::json identify(const std::vector<FreeForm>& forms) {
  nlohmann::json identity = nlohmann::json::object();
  for (const FreeForm& form : forms) {
    identity[form.name] = {{"source", sha256_hex(form.source)}, {"descriptor", form.descriptor_hash}};
  }
  return identity;
}

}  // namespace warpsmith::cli
