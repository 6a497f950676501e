// The four forms of one table: what they round, what they quote, where provenance stands.
#include "report/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace warpsmith {
namespace {

using Style = Column::Style;

Table sample() {
  return Table("Times", {{"subject", "subject", "", Style::text},
                         {"cold_us", "cold", "us", Style::number},
                         {"speedup", "speed-up", "", Style::fixed, 3},
                         {"share", "share", "", Style::percent, 1},
                         {"raw", "raw", "", Style::number, 0, true}});
}

std::shared_ptr<const Provenance> provenance(double clock_mhz = 1980, const char* date = "2026-01-31T12:00:00Z") {
  Provenance value;
  value.device = "NVIDIA H200";
  value.driver = "580.1";
  value.cuda = "13.0";
  value.cublas = "13.1.0";
  value.clock_mhz = clock_mhz;
  value.date = date;
  value.commit = "abc123";
  value.mode = "offline";
  value.seed = "1";
  value.other = {{"nvrtc", "13.0"}};
  return std::make_shared<const Provenance>(value);
}

TEST(Table, TextIsAlignedAndRounded) {
  Table table = sample();
  table.add({std::string("a"), 1234.5678, 1.23456, 0.5, std::int64_t{1}});
  table.add({std::string("longer name"), 0.98765, Cell(), 1.0, std::int64_t{2}});
  EXPECT_EQ(table.text(),
            "Times\n"
            "  subject      cold us  speed-up    share\n"
            "  -----------  -------  --------  -------\n"
            "  a               1235     1.235   50.0 %\n"
            "  longer name    0.988            100.0 %\n");
}

TEST(Table, WidthCountsCharactersNotBytes) {
  Table table("", {{"name", "name", "", Style::text}, {"x", "x", "", Style::number}});
  table.add({std::string("µs"), std::int64_t{1}});
  table.add({std::string("abcd"), std::int64_t{2}});
  EXPECT_EQ(table.text(), "  name  x\n  ----  -\n  µs    1\n  abcd  2\n");
}

TEST(Table, Markdown) {
  Table table = sample();
  table.add({std::string("a|b<c"), 2.0, 1.0, 0.25, Cell()});
  EXPECT_EQ(table.markdown(),
            "### Times\n\n"
            "| subject | cold us | speed-up | share |\n"
            "|---|---:|---:|---:|\n"
            "| a\\|b\\<c | 2.00 | 1.000 | 25.0 % |\n");
}

TEST(Table, CsvKeepsDigitsAndQuotes) {
  Table table = sample();
  table.add({std::string("say \"hi\", you\nthere"), 1234.56789, 1.0 / 3, 0.5, std::int64_t{7}});
  table.add({std::string("plain"), Cell(), Cell(), Cell(), Cell()});
  EXPECT_EQ(table.csv(),
            "subject,cold_us,speedup,share,raw\r\n"
            "\"say \"\"hi\"\", you\nthere\",1234.56789,0.3333333333333333,0.5,7\r\n"
            "plain,,,,\r\n");
}

// RFC 4180, section 2, rules 5 to 7.
TEST(Table, CsvFields) {
  EXPECT_EQ(csv_field("aaa"), "aaa");
  EXPECT_EQ(csv_field(""), "");
  EXPECT_EQ(csv_field("b \r\nbb"), "\"b \r\nbb\"");
  EXPECT_EQ(csv_field("b\"bb"), "\"b\"\"bb\"");
  EXPECT_EQ(csv_field("b,bb"), "\"b,bb\"");
  EXPECT_EQ(csv_field("\""), "\"\"\"\"");
}

TEST(Table, JsonKeepsTypes) {
  Table table("", {{"text", "", "", Style::text},
                   {"whole", "", "", Style::number},
                   {"real", "", "", Style::fixed, 1},
                   {"yes", "", "", Style::text},
                   {"none", "", "", Style::number},
                   {"nan", "", "", Style::number}});
  table.add({std::string("x"), std::int64_t{1} << 60, 0.1, true, Cell(), std::numeric_limits<double>::quiet_NaN()});
  const auto json = nlohmann::json::parse(table.print(ReportFormat::json));
  EXPECT_EQ(json[0]["text"], "x");
  EXPECT_EQ(json[0]["whole"], std::int64_t{1} << 60);
  EXPECT_EQ(json[0]["real"], 0.1);
  EXPECT_EQ(json[0]["yes"], true);
  EXPECT_TRUE(json[0]["none"].is_null());
  EXPECT_TRUE(json[0]["nan"].is_null());
  EXPECT_FALSE(json[0].contains("provenance"));
}

TEST(Table, ProvenanceInEveryForm) {
  Table table("", {{"x", "x", "", Style::number}});
  table.add({std::int64_t{1}}, provenance(1980));
  table.add({std::int64_t{2}}, provenance(1755, "2026-01-31T12:00:09Z"));
  EXPECT_EQ(table.csv(),
            "x,device,driver,cuda,cublas,clock_mhz,date,commit,mode,seed,nvrtc\r\n"
            "1,NVIDIA H200,580.1,13.0,13.1.0,1980,2026-01-31T12:00:00Z,abc123,offline,1,13.0\r\n"
            "2,NVIDIA H200,580.1,13.0,13.1.0,1755,2026-01-31T12:00:09Z,abc123,offline,1,13.0\r\n");
  EXPECT_EQ(table.json()[1]["provenance"].get<Provenance>(), *provenance(1755, "2026-01-31T12:00:09Z"));
  for (const std::string& text : {table.text(), table.markdown()}) {
    for (const char* part : {"NVIDIA H200", "1755 to 1980", "2026-01-31T12:00:00Z to 2026-01-31T12:00:09Z", "abc123"}) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    }
    const auto first = text.find("NVIDIA H200");
    EXPECT_EQ(text.find("NVIDIA H200", first + 1), std::string::npos) << "said once:\n" << text;
  }
}

// Rows of runs that differ, one without provenance, and a fact named like a column.
TEST(Table, MixedProvenance) {
  Table table("", {{"mode", "mode", "", Style::text}});
  Provenance other = *provenance();
  other.mode = "call";
  other.other.clear();
  table.add({std::string("a")}, provenance());
  table.add({std::string("b")}, std::make_shared<const Provenance>(other));
  table.add({std::string("c")});
  EXPECT_NE(table.text().find("offline; call"), std::string::npos) << table.text();
  const std::string csv = table.csv();
  EXPECT_EQ(csv.rfind("mode,device,driver,cuda,cublas,clock_mhz,date,commit,provenance_mode,seed,nvrtc\r\n", 0), 0u)
      << csv;
  EXPECT_NE(csv.find("\r\nc,,,,,,,,,,\r\n"), std::string::npos) << csv;
}

// Whatever a cell holds, every form has as many lines as rows.
TEST(Table, CellsCannotBreakLines) {
  Table table("", {{"x", "x", "", Style::text}});
  table.add({std::string("a\nb\r\tc\x1b[2J")});
  EXPECT_EQ(table.text(), "  x\n  ----------\n  a b  c [2J\n");
  const std::string markdown = table.markdown();
  EXPECT_EQ(std::count(markdown.begin(), markdown.end(), '\n'), 3);
}

TEST(Table, RefusesRaggedRows) { EXPECT_THROW(sample().add({std::string("a")}), std::logic_error); }

TEST(Table, NumberFormats) {
  Table table("", {{"p", "p", "", Style::probability}, {"n", "n", "", Style::number}, {"f", "f", "", Style::fixed, 2}});
  table.add({0.0004, std::int64_t{123456}, std::int64_t{2}});
  table.add({0.0416, 0.0, -1.005});
  EXPECT_EQ(table.text(),
            "        p       n      f\n"
            "  -------  ------  -----\n"
            "  < 0.001  123456   2.00\n"
            "    0.042       0  -1.00\n");
}

TEST(Table, Significant) {
  const std::pair<double, const char*> known[] = {{0.012345, "0.0123"}, {1.2345, "1.23"}, {12.345, "12.3"},
                                                  {123.45, "123"},      {12345, "12345"}, {-1.5, "-1.50"}};
  for (const auto& [value, text] : known) EXPECT_EQ(significant(value), text);
}

TEST(ReportFormat, Words) {
  EXPECT_EQ(*parse_report_format("csv"), ReportFormat::csv);
  const auto refused = parse_report_format("xml");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::bad_input);
  EXPECT_EQ(refused.error().message, "unknown format 'xml'; accepted: table, csv, json, markdown");
}

TEST(Provenance, DateIsUtc) {
  const std::string now = utc_now();
  ASSERT_EQ(now.size(), 20u) << now;
  EXPECT_EQ(now.back(), 'Z');
  EXPECT_EQ(now[10], 'T');
  EXPECT_GT(now, "2024-01-01T00:00:00Z");
}

}  // namespace
}  // namespace warpsmith
