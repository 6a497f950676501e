// Text of the page's parts under src/report/html, by path relative to src/report ("html/page.html").
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace warpsmith {

const std::map<std::string, std::string_view>& html_files();

}  // namespace warpsmith
