// What warpsmith_explain says, as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "library/call.h"
#include "library/choice.h"

namespace warpsmith::library {

struct Explanation {
  std::vector<Choice> choices;  // in order of preference; empty: the problem needs no choice (see `note`)
  std::size_t chosen = 0;       // which of them runs the call; choices.size(): none can
  std::string kernel_key;       // of the chosen recipe's source; empty for cuBLASLt
  std::string arch;             // likewise
  std::string cubin;            // "pack", "cache", "compiled", "missing" (the call compiles it) or ""
  std::string note;             // anything that the choice alone does not tell
};

// docs/library.md lists the fields.
nlohmann::json explain(const CallKey& key, const Explanation& explanation, const Machine& machine,
                       warpsmith_mode_t mode, bool has_wisdom, bool has_pack);

}  // namespace warpsmith::library
