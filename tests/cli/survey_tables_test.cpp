// The CSV files of a survey.
#include "survey_tables.h"

#include <gtest/gtest.h>

#include <string>

namespace warpsmith::cli {
namespace {

using nlohmann::json;

json subject(const std::string& name, double cold_us, double warm_us = 0, double pdl_us = 0) {
  json one = {{"subject", name},
              {"detail", "algo 1, tile 2"},
              {"clock_mhz", 1980.0},
              {"cold", {{"median_us", cold_us}, {"p95_us", 2 * cold_us}, {"samples", 9}}}};
  if (warm_us > 0) one["warm"] = {{"median_us", warm_us}};
  if (pdl_us > 0) one["cold_pdl"] = {{"median_us", pdl_us}};
  return one;
}

json row(int m, const std::string& mode, json subjects) {
  return {{"m", m},
          {"n", 64},
          {"k", 64},
          {"mode", mode},
          {"subjects", std::move(subjects)},
          {"ours",
           {{"ours-nn", {{"recipe", "tiny tile=1,2"}, {"gates", "passed 16"}, {"origin", "wisdom"}}},
            {"ours-tn", {{"recipe", "sm90"}, {"gates", "passed 17"}, {"origin", "archive"}}}}},
          {"provenance", {{"device", "NVIDIA H200"}, {"date", "2026-01-02T00:00:00Z"}}}};
}

std::string line_of(const std::string& csv, const std::string& start) {
  const auto at = csv.find("\n" + start);
  return at == std::string::npos ? std::string() : csv.substr(at + 1, csv.find('\n', at + 1) - at - 1);
}

TEST(SurveyTables, OfflineHasTheFasterLayoutAndEachLayout) {
  const SurveyRows rows = {
      row(128, "offline",
          {subject("ours-nn", 2, 1.5), subject("ours-tn", 3, 1.25), subject("ours-nn-pdl", 1.75, 1.6, 1.5),
           subject("cublas-nn", 5), subject("cublaslt-auto-nn", 4, 3.5), subject("cublaslt-auto-tn", 3.5, 3.25),
           subject("cublaslt-heuristic-tn", 3.75)}),
      {{"m", 64}, {"n", 64}, {"k", 64}, {"mode", "offline"}, {"failed", "no kernel"}}};
  const std::string csv = survey_csv(rows, "offline", 3);
  EXPECT_EQ(csv.substr(0, csv.find('\n')), "# 1 of 3 shapes");
  EXPECT_NE(csv.find("# device: NVIDIA H200\n"), std::string::npos);
  const std::string columns =
      "m,n,k,ours_us,ours_nn_us,ours_tn_us,ours_warm_us,ours_pdl_us,lt_auto_us,lt_auto_nn_us,lt_auto_tn_us,"
      "lt_auto_warm_us,lt_heuristic_us,cublas_us,recipe,gates,";
  EXPECT_EQ(line_of(csv, "m,n,k").substr(0, columns.size()), columns);
  const std::string figures =
      "128,64,64,2.0000,2.0000,3.0000,1.2500,1.5000,3.5000,4.0000,3.5000,3.2500,3.7500,5.0000,\"tiny tile=1,2\",passed "
      "16,";
  EXPECT_EQ(line_of(csv, "128").substr(0, figures.size()), figures);
  EXPECT_EQ(line_of(csv, "64,"), "");
  EXPECT_EQ(survey_line(rows[0]), "128x64x64 offline  ours-nn 2.00 us  cublaslt-auto 3.50 us  1.750x  [pdl 1.50 us]");
  EXPECT_EQ(survey_line(rows[1]), "64x64x64 offline  failed: no kernel");
}

TEST(SurveyTables, ALayoutThatWasNotMeasuredIsEmpty) {
  const std::string csv =
      survey_csv({row(64, "offline", {subject("ours-tn", 3), subject("cublas-nn", 5)})}, "offline", 1);
  EXPECT_EQ(line_of(csv, "64,").substr(0, 47), "64,64,64,3.0000,,3.0000,,,,,,,,5.0000,sm90,pass");
}

TEST(SurveyTables, ServerHasPercentilesAndTheLatestRowCounts) {
  const SurveyRows rows = {row(64, "server", {subject("ours-tn", 99)}),
                           row(64, "server",
                               {subject("ours-tn", 20), subject("cublaslt-auto-nn", 60),
                                subject("cublaslt-heuristic-nn", 61), subject("cublas-tn", 70)}),
                           row(64, "call", {subject("ours-tn", 1)})};
  const std::string csv = survey_csv(rows, "server", 1);
  const std::string columns =
      "m,n,k,ours_us,lt_auto_us,lt_heuristic_us,cublas_us,ours_p95_us,lt_auto_p95_us,lt_heuristic_p95_us,cublas_p95_"
      "us,";
  EXPECT_EQ(line_of(csv, "m,n,k").substr(0, columns.size()), columns);
  const std::string figures = "64,64,64,20.0000,60.0000,61.0000,70.0000,40.0000,120.0000,122.0000,140.0000,";
  EXPECT_EQ(line_of(csv, "64,").substr(0, figures.size()), figures);
  EXPECT_EQ(csv.find("99.0"), std::string::npos);
}

TEST(SurveyTables, AccuracyHasEveryFigure) {
  json accuracy = row(64, "accuracy", json());
  accuracy["errors"] = {
      {"layout", "tn"},
      {"ours", {{"max_error", 16.0}, {"p99_error", 8.5}, {"max_ulp", 0.5}, {"p99_ulp", 0.49}, {"overflowed", 0}}},
      {"lt_f16", {{"max_error", "inf"}, {"overflowed", 3}}}};
  const std::string csv = survey_csv({accuracy}, "accuracy", 1);
  EXPECT_EQ(line_of(csv, "64,"), "64,64,64,16,8.5,0.5,0.49,0,,,,,,inf,,,,3,tn,sm90");
}

TEST(SurveyTables, DatesBecomeARange) {
  json later = row(128, "call", {subject("ours-tn", 1)});
  later["provenance"]["date"] = "2026-01-03T00:00:00Z";
  const std::string csv = survey_csv({row(64, "call", {subject("ours-tn", 1)}), later}, "call", 2);
  EXPECT_NE(csv.find("# date: 2026-01-02T00:00:00Z to 2026-01-03T00:00:00Z\n"), std::string::npos);
  EXPECT_TRUE(survey_csv({}, "call", 2).empty());
}

}  // namespace
}  // namespace warpsmith::cli
