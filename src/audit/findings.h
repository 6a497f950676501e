// From facts to findings: what is suspicious about a candidate, and why. Pure functions; the facts come from the ELF
// file, from the watch on the driver's calls inside the foreign process, and from /proc.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "audit/elf_inspect.h"

namespace warpsmith::audit {

enum class Severity {
  note,        // worth knowing; honest kernels do it too
  suspicious,  // breaks the contract of the entry or hides what is measured
  wrong,       // results are wrong, or work is not done when it is said to be
};
std::string_view to_string(Severity severity);

struct Finding {
  Severity severity = Severity::note;
  std::string check;  // "side-stream", "threads", "library-call", ...
  std::string detail;
  bool operator==(const Finding&) const = default;
};
void to_json(nlohmann::json& json, const Finding& finding);
void from_json(const nlohmann::json& json, Finding& finding);

// What the watch saw during some calls of the entry.
struct CallFacts {
  int calls = 0;
  std::map<std::string, int> driver_calls;  // by name, without version suffixes
  std::map<std::string, int> kernels;       // launches by kernel name
  int launches_on_given_stream = 0;
  int launches_on_default_stream = 0;  // legacy or per-thread
  int launches_on_other_streams = 0;
  std::vector<int> launches_by_call;
  std::vector<int> limits_set;     // CUlimit values given to cuCtxSetLimit
  int persisting_windows = 0;      // stream, launch or graph attributes that ask for persisting lines
  int launches_outside_calls = 0;  // from other threads, or after the call had returned
  int early_launches = 0;          // a call's first launch, made to start before what the stream held already is done
};
// Error (failed): not such an object, or numbers that cannot be; the process is not to be believed.
Result<CallFacts> call_facts_from(const nlohmann::json& json);

// `first`: the first call of a process, which may initialise; `later`: further ones on other data.
std::vector<Finding> judge_calls(const CallFacts& first, const CallFacts& later);

// Thread counts seen from outside: once CUDA ran and before the candidate was loaded, and the most seen since.
std::vector<Finding> judge_threads(int before, int most);

std::vector<Finding> judge_elf(const ElfFacts& facts);

// The library whose kernel this is, by its name: "cuBLAS", "cuDNN"; empty: no library's.
std::string library_of_kernel(std::string_view kernel);

}  // namespace warpsmith::audit
