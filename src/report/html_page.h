// The HTML report: one file that opens offline, with its data, style and script inside.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "report/html_data.h"

namespace warpsmith {

std::string html_page(const ReportData& data);

// Text between tags or in a double-quoted attribute.
std::string html_text(std::string_view text);

// Compact JSON that may stand inside a <script> element: no "<", so that nothing in it can end the element or begin a
// comment. Bytes that are not UTF-8 become U+FFFD.
std::string script_json(const nlohmann::json& json);

}  // namespace warpsmith
