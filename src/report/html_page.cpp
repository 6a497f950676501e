// Puts the page together: the template's {{NAME}} are replaced by text, styles, scripts and data.
#include "report/html_page.h"

#include <algorithm>

#include "report/html_files.h"

namespace warpsmith {

namespace {

// In the order in which the browser runs them.
constexpr const char* kScripts[] = {"html/model.js",  "html/elements.js", "html/heatmap.js", "html/curves.js",
                                    "html/tables.js", "html/detail.js",   "html/main.js"};

std::string_view file(const std::string& path) { return html_files().at(path); }

// The first value of a fact among the files; empty: none has it.
std::string fact(const ReportData& data, std::string_view key) {
  for (const ReportData::File& each : data.files) {
    for (const CsvFact& known : each.facts) {
      if (known.key == key) return known.value;
    }
  }
  return {};
}

// One pass, so that nothing inside what is put in is replaced again.
std::string filled(std::string_view text, const std::map<std::string, std::string>& values) {
  std::string result;
  while (true) {
    const std::size_t open = std::min(text.find("{{"), text.size());
    result += text.substr(0, open);
    text.remove_prefix(open);
    const std::size_t close = text.find("}}");
    if (text.empty() || close == std::string_view::npos) return result += text;
    result += values.at(std::string(text.substr(2, close - 2)));
    text.remove_prefix(close + 2);
  }
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string escaped;
  for (const char byte : text) {
    switch (byte) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += byte;
    }
  }
  return escaped;
}

std::string script_json(const nlohmann::json& json) {
  // "<" occurs in JSON only inside strings, where the escape means the same.
  std::string text;
  for (const char byte : json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)) {
    if (byte == '<') {
      text += "\\u003c";
    } else {
      text += byte;
    }
  }
  return text;
}

std::string html_page(const ReportData& data) {
  const std::string device = fact(data, "device");
  std::string scripts;
  for (const char* path : kScripts) {
    scripts += "<script>\n";
    scripts += file(path);
    scripts += "</script>\n";
  }
  return filled(file("html/page.html"), {{"title", html_text("HGEMM" + (device.empty() ? "" : " on " + device))},
                                         {"style", std::string(file("html/style.css"))},
                                         {"scripts", scripts},
                                         {"data", script_json(to_page_json(data))}});
}

}  // namespace warpsmith
