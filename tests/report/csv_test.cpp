// The CSV reader: what it takes, and that everything else is refused with its line.
#include "report/csv.h"

#include <gtest/gtest.h>

namespace warpsmith {
namespace {

std::string refusal(const std::string& text) {
  const auto table = parse_csv(text, "grid.csv");
  if (table) return "taken";
  EXPECT_EQ(table.error().kind, ErrorKind::bad_input);
  EXPECT_EQ(table.error().message.find('\n'), std::string::npos);
  return table.error().message;
}

TEST(Csv, QuotedFieldsCommentsAndLines) {
  const auto table = parse_csv(
      "\xef\xbb\xbf# device: NVIDIA H200\r\n#times: median\n# a, b: both\n"
      "m,recipe,\"two, words\"\r\n"
      "1,\"say \"\"hi\"\", then\nleave\",x\r\n"
      "\n"
      "2,,",
      "grid.csv");
  ASSERT_TRUE(table.ok()) << table.error().message;
  EXPECT_EQ(table->comments, (std::vector<std::string>{"device: NVIDIA H200", "times: median", "a, b: both"}));
  EXPECT_EQ(table->columns, (std::vector<std::string>{"m", "recipe", "two, words"}));
  ASSERT_EQ(table->rows.size(), 2u);
  EXPECT_EQ(table->rows[0].cells, (std::vector<std::string>{"1", "say \"hi\", then\nleave", "x"}));
  EXPECT_EQ(table->rows[0].line, 5u);
  EXPECT_EQ(table->rows[1].cells, (std::vector<std::string>{"2", "", ""}));
  EXPECT_EQ(table->place(table->rows[1]), "grid.csv:8");
  EXPECT_EQ(table->column("recipe"), 1u);
  EXPECT_EQ(table->column("none"), std::nullopt);
}

TEST(Csv, EmptyFieldsStay) {
  const auto table = parse_csv("a,b,c\n,,\n\"\",1,\"\"\n", "grid.csv");
  ASSERT_TRUE(table.ok()) << table.error().message;
  EXPECT_EQ(table->rows[0].cells, (std::vector<std::string>{"", "", ""}));
  EXPECT_EQ(table->rows[1].cells, (std::vector<std::string>{"", "1", ""}));
}

TEST(Csv, RefusesWhatIsNotWellFormed) {
  EXPECT_EQ(refusal(""), "grid.csv:1: no header line");
  EXPECT_EQ(refusal("# device: x\n"), "grid.csv:2: no header line");
  EXPECT_EQ(refusal("a,b\n1,2\n3\n"), "grid.csv:3: 1 fields in a table of 2 columns");
  EXPECT_EQ(refusal("a,b\n\"1\n\",2,3\n"), "grid.csv:2: 3 fields in a table of 2 columns");
  EXPECT_EQ(refusal("a,b\n1,2\n\n# late: comment\n"), "grid.csv:4: 1 fields in a table of 2 columns");
  EXPECT_EQ(refusal("# x\na,,c\n"), "grid.csv:2: column 2 has no name");
  EXPECT_EQ(refusal("a,b,a\n"), "grid.csv:1: column 'a' occurs twice");
  EXPECT_NE(refusal("a,b\n1,2\"3\n").find("grid.csv:2: a quote inside the unquoted field '2'"), std::string::npos);
  EXPECT_NE(refusal("a,b\n1,\"2\"3\n").find("grid.csv:2: text after the closing quote of '2'"), std::string::npos);
  EXPECT_EQ(refusal("a,b\n1,\"2\n3,4\n"), "grid.csv:2: a quoted field that is not closed");
}

TEST(Csv, FactsOfComments) {
  EXPECT_EQ(fact_of_comment("device: NVIDIA H200").key, "device");
  EXPECT_EQ(fact_of_comment("date: 2026-01-31T12:00:00Z").value, "2026-01-31T12:00:00Z");
  EXPECT_EQ(fact_of_comment("c++:").value, "");
  EXPECT_EQ(fact_of_comment("lt_auto_us, cublas_us: the faster").key, "");
  EXPECT_EQ(fact_of_comment("lt_auto_us, cublas_us: the faster").value, "lt_auto_us, cublas_us: the faster");
  EXPECT_EQ(fact_of_comment("10 of 1000 shapes").value, "10 of 1000 shapes");
  EXPECT_EQ(fact_of_comment("").value, "");
}

}  // namespace
}  // namespace warpsmith
