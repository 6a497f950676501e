// The page's text: nothing in the data can leave its place, nothing outside is asked for, and it stays small.
#include "report/html_page.h"

#include <gtest/gtest.h>

#include <regex>

#include "html_samples.h"
#include "report/html_files.h"

namespace warpsmith {
namespace {

constexpr const char* kNasty = R"(sm90 <b>&amp;</b> "x" 'y' </script><script>alert(1)</script> <!-- {{data}} \u003c \)";

// One shape whose recipe, gates and device are nasty.
ReportData nasty() {
  std::string quoted;
  for (const char* at = kNasty; *at != '\0'; ++at) quoted += *at == '"' ? "\"\"" : std::string(1, *at);
  ReportInputs inputs;
  inputs.offline = ReportFile{"grid-offline.csv", std::string("# device: ") + kNasty +
                                                      "\nm,n,k,ours_us,lt_auto_us,recipe,gates\n64,64,64,1,2,\"" +
                                                      quoted + "\",\"" + quoted + "\"\n"};
  const auto data = report_data(inputs);
  EXPECT_TRUE(data.ok());
  return *data;
}

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// What stands between the data element's tags.
std::string data_text(const std::string& page) {
  const std::string open = R"(<script type="application/json" id="data">)";
  const std::size_t from = page.find(open) + open.size();
  return page.substr(from, page.find("</script>", from) - from);
}

TEST(HtmlPage, NastyTextsStayData) {
  const std::string page = html_page(nasty());
  const std::string data = data_text(page);
  EXPECT_EQ(data.find('<'), std::string::npos);
  const nlohmann::json json = nlohmann::json::parse(data, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << data;
  EXPECT_EQ(json["texts"]["offline.recipe"]["values"][0], kNasty);
  EXPECT_EQ(json["files"][0]["facts"][0][1], kNasty);
  EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos);
  // As many elements as the template has: the data's, and one a script file.
  EXPECT_EQ(occurrences(page, "<script"), 8u);
  EXPECT_EQ(occurrences(page, "</script>"), 8u);
  EXPECT_NE(page.find("<title>HGEMM on sm90 &lt;b&gt;&amp;amp;&lt;/b&gt; &quot;x&quot; &#39;y&#39; &lt;/script&gt;"),
            std::string::npos);
}

TEST(HtmlPage, EscapesTextAndJson) {
  EXPECT_EQ(html_text(R"(a<b> & "c" 'd')"), "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
  EXPECT_EQ(script_json({{"a", "</script>"}}), R"({"a":"\u003c/script>"})");
  EXPECT_EQ(nlohmann::json::parse(script_json("<!--\\u003c\"")), nlohmann::json("<!--\\u003c\""));
  EXPECT_EQ(script_json("\xff"), "\"\xef\xbf\xbd\"");  // no UTF-8
}

TEST(HtmlPage, AsksForNothingOutside) {
  const auto data = report_data(three_panels());
  ASSERT_TRUE(data.ok()) << data.error().message;
  const std::string page = html_page(*data);
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  // The only addresses are of the SVG namespace and the empty icon.
  EXPECT_EQ(occurrences(page, "://"), occurrences(page, "http://www.w3.org/2000/svg"));
  EXPECT_FALSE(std::regex_search(page, std::regex(R"((src|srcset|action|poster)\s*=)")));
  EXPECT_FALSE(std::regex_search(page, std::regex(R"(@import|url\(|fetch\(|XMLHttpRequest|WebSocket|import\s*\()")));
  EXPECT_EQ(occurrences(page, "<link"), 1u);
  EXPECT_NE(page.find("<link rel=\"icon\" href=\"data:,\">"), std::string::npos);
}

// The scripts set text, never markup.
TEST(HtmlPage, ScriptsMakeNoMarkupOfText) {
  int scripts = 0;
  for (const auto& [path, text] : html_files()) {
    if (!path.ends_with(".js")) continue;
    ++scripts;
    for (const char* word :
         {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"}) {
      EXPECT_EQ(text.find(word), std::string_view::npos) << path << ": " << word;
    }
  }
  EXPECT_EQ(scripts, 7);
}

TEST(HtmlPage, StaysSmallWithAThousandShapes) {
  std::string text = std::string("# device: NVIDIA H200\n") + kOfflineHeader;
  const std::string knobs(300, 'x');
  for (int i = 0; i < 1000; ++i) {
    text += fmt::format("{},{},{},{}", 64 << (i % 10), 64 << (i / 10 % 10), 64 << (i / 100), 1.2345 + i);
    for (int column = 0; column < 10; ++column) text += fmt::format(",{:.4f}", 1.5 + i + 0.1 * column);
    text += fmt::format(",sm90 a={} b={},passed 17\n", i, knobs);
  }
  ReportInputs inputs;
  inputs.offline = ReportFile{"grid-offline.csv", text};
  const auto data = report_data(inputs);
  ASSERT_TRUE(data.ok()) << data.error().message;
  EXPECT_LT(html_page(*data).size(), 700'000u);
}

}  // namespace
}  // namespace warpsmith
