// The summary of a survey, from CSV files whose means are known.
#include "report/grid_summary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace warpsmith {
namespace {

CsvTable table_of(const std::string& text) {
  auto table = parse_csv(text, "grid.csv");
  EXPECT_TRUE(table.ok()) << table.error().message;
  return table.ok() ? std::move(*table) : CsvTable{};
}

// Two small shapes at ratios 2 and 0.5, one large at 1.1 (NN 1.1, TN not measured).
const char* kOffline =
    "# device: NVIDIA H200\n# driver: 580.1\n# times: median us\n"
    "m,n,k,ours_us,ours_nn_us,ours_tn_us,ours_warm_us,ours_pdl_us,lt_auto_us,lt_auto_nn_us,lt_auto_tn_us,"
    "lt_auto_warm_us,lt_heuristic_us,cublas_us,recipe,gates,clock_mhz\n"
    "64,64,64,1,1,2,1,0.5,2,2,3,4,3,4,\"tiny a,b\",passed 16,1980\n"
    "64,64,128,4,5,4,2,2,2,2.5,2,2,2,2,tiny,passed 16,1975\n"
    "8192,8192,8192,1000,1000,,900,,1100,1100,1200,990,1100,1200,sm90,passed 16,1500\n";

TEST(GridSummary, GeometricMeansPerBucket) {
  SurveyFiles files;
  files.offline = table_of(kOffline);
  const auto summary = grid_summary(files);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  const auto& cold = summary->at("offline").at("cold");
  EXPECT_NEAR(cold.at("best").at("all").at("geometric_mean").get<double>(), std::cbrt(2 * 0.5 * 1.1), 1e-12);
  EXPECT_NEAR(cold.at("best").at("< 24").at("geometric_mean").get<double>(), 1, 1e-12);
  EXPECT_EQ(cold.at("best").at("< 24").at("count"), 2);
  EXPECT_NEAR(cold.at("best").at(">= 36").at("geometric_mean").get<double>(), 1.1, 1e-12);
  EXPECT_FALSE(cold.at("best").contains("24-28"));
  EXPECT_NEAR(cold.at("best").at("all").at("win_rate").get<double>(), 2.0 / 3, 1e-12);
  EXPECT_NEAR(cold.at("nn").at("all").at("geometric_mean").get<double>(), std::cbrt(2 * 0.5 * 1.1), 1e-12);
  EXPECT_EQ(cold.at("tn").at("all").at("count"), 2);  // the third was not measured
  EXPECT_NEAR(cold.at("tn").at("all").at("geometric_mean").get<double>(), std::sqrt(1.5 * 0.5), 1e-12);
  const auto& offline = summary->at("offline");
  EXPECT_NEAR(offline.at("warm").at("best").at("all").at("geometric_mean").get<double>(), std::cbrt(4 * 1 * 1.1),
              1e-12);
  EXPECT_NEAR(offline.at("pdl").at("best").at("all").at("geometric_mean").get<double>(), std::sqrt(4 * 1.0), 1e-12);
  EXPECT_NEAR(offline.at("cold_over_cublas").at("best").at(">= 36").at("geometric_mean").get<double>(), 1.2, 1e-12);
  // A single ratio has no interval; several have one around the mean.
  EXPECT_TRUE(cold.at("best").at(">= 36").at("geometric_mean_interval").is_null());
  EXPECT_LE(cold.at("best").at("all").at("geometric_mean_interval").at(0).get<double>(), std::cbrt(1.1));
  EXPECT_EQ(summary->at("shapes").at("offline"), 3);
  EXPECT_EQ(summary->at("provenance").at("offline").at("device"), "NVIDIA H200");
  EXPECT_EQ(summary->at("provenance").at("offline").at("clock_mhz").at("median"), 1975);
}

TEST(GridSummary, CallsServerAndAccuracy) {
  SurveyFiles files;
  files.call = table_of("m,n,k,ours_us,lt_auto_us,lt_heuristic_us,cublas_us\n64,64,64,10,12,13,14\n");
  files.server = table_of(
      "m,n,k,ours_us,lt_auto_us,lt_heuristic_us,cublas_us,ours_p95_us,lt_auto_p95_us,lt_heuristic_p95_us,cublas_p95_"
      "us\n"
      "64,64,64,20,60,60,80,30,90,90,90\n");
  files.accuracy = table_of(
      "m,n,k,ours_max_error,ours_p99_error,lt_f32_max_error,lt_f32_p99_error\n"
      "64,64,64,16,8,16,16\n64,64,128,32,8,16,8\n64,64,256,inf,8,16,8\n");
  const auto summary = grid_summary(files);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_NEAR(summary->at("call").at("lt_auto").at("all").at("geometric_mean").get<double>(), 1.2, 1e-12);
  EXPECT_NEAR(summary->at("server").at("cublas").at("all").at("geometric_mean").get<double>(), 4, 1e-12);
  EXPECT_NEAR(summary->at("server").at("lt_auto_p95").at("all").at("geometric_mean").get<double>(), 3, 1e-12);
  const auto& largest = summary->at("accuracy").at("max_error");
  EXPECT_EQ(largest.at("no_worse"), 1);
  EXPECT_EQ(largest.at("finite"), 2);
  EXPECT_NEAR(largest.at("geometric_mean_over_lt_f32").get<double>(), std::sqrt(2.0), 1e-12);
  EXPECT_EQ(summary->at("accuracy").at("p99_error").at("no_worse"), 3);
}

TEST(GridSummary, SaysWhatIsWrongAndWhere) {
  SurveyFiles files;
  files.call = table_of("m,n,k,ours_us,lt_auto_us,lt_heuristic_us\n64,64,64,10,12,13\n");
  auto summary = grid_summary(files);
  ASSERT_FALSE(summary.ok());
  EXPECT_EQ(summary.error().message, "grid.csv: there is no column cublas_us");
  files.call = table_of("m,n,k,ours_us,lt_auto_us,lt_heuristic_us,cublas_us\n64,64,64,10,-12,13,14\n");
  summary = grid_summary(files);
  ASSERT_FALSE(summary.ok());
  EXPECT_EQ(summary.error().kind, ErrorKind::bad_input);
  EXPECT_EQ(summary.error().message, "grid.csv:2: lt_auto_us is '-12'; accepted: a positive number, or nothing");
}

}  // namespace
}  // namespace warpsmith
