// JSON as the text of a record: whatever a verdict holds becomes valid JSON that can be read back.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace warpsmith {

// JSON has neither infinities nor NaN; the largest number of the sign stands in (errors and times: worse than any
// other). Compiler messages may hold bytes that are not UTF-8; they are replaced, never a reason to lose a record.
std::string record_text(nlohmann::json json);

}  // namespace warpsmith
