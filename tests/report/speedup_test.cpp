// Ratios of shapes, size buckets, and the report over many of them.
#include "report/speedup.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "samples.h"

namespace warpsmith {
namespace {

double ratio_of(const SpeedupRow& row, const std::string& baseline, const std::string& layouts) {
  for (const auto& [key, ratio] : row.ratios) {
    if (key == SpeedupKey{baseline, layouts}) return ratio;
  }
  return 0;
}

TEST(Speedup, SizeBucketEdges) {
  EXPECT_EQ(size_bucket(256, 256, 255), 0u);
  EXPECT_EQ(size_bucket(256, 256, 256), 1u);  // 2^24
  EXPECT_EQ(size_bucket(1 << 14, 1 << 14, 1), 2u);
  EXPECT_EQ(size_bucket((1 << 14) - 1, 1 << 14, 1), 1u);
  EXPECT_EQ(size_bucket(1 << 16, 1 << 16, 1), 3u);
  EXPECT_EQ(size_bucket(4096, 4096, 4096), 4u);  // 2^36
  EXPECT_EQ(size_bucket(4096, 4096, 4095), 3u);
  EXPECT_EQ(size_bucket(1, 1, 1), 0u);
  EXPECT_EQ(size_bucket(1 << 20, 1 << 20, 1 << 20), 4u);  // 2^60
}

TEST(Speedup, SubjectNames) {
  const struct {
    const char *subject, *group, *layout;
  } known[] = {{"cublaslt-auto-tn", "cublaslt-auto", "tn"},
               {"openblas-sgemm-nn-2t", "openblas-sgemm-2t", "nn"},
               {"torch-matmul-nn", "torch-matmul", "nn"},
               {"plain", "plain", ""},
               {"annt-nnx-tn", "annt-nnx", "tn"}};
  for (const auto& [subject, group, layout] : known) {
    EXPECT_EQ(split_subject(subject).group, group);
    EXPECT_EQ(split_subject(subject).layout, layout);
  }
}

// Layouts meet their like; the best of ours meets the best of theirs from the same process.
TEST(Speedup, LayoutMatchedThenBest) {
  const ShapeTimes times{64,
                         64,
                         64,
                         {{"nn", 10, {{"cublaslt-auto-nn", 12}, {"cublaslt-auto-tn", 11}, {"cublas-nn", 15}}},
                          {"tn", 8, {{"cublaslt-auto-nn", 13}, {"cublaslt-auto-tn", 9}, {"cublas-nn", 8.8}}}}};
  const auto row = speedup_row(times);
  ASSERT_TRUE(row.ok());
  EXPECT_DOUBLE_EQ(ratio_of(*row, "cublaslt-auto", "nn"), 12.0 / 10);
  EXPECT_DOUBLE_EQ(ratio_of(*row, "cublaslt-auto", "tn"), 9.0 / 8);
  EXPECT_DOUBLE_EQ(ratio_of(*row, "cublas", "nn"), 15.0 / 10);
  EXPECT_EQ(ratio_of(*row, "cublas", "tn"), 0) << "was not measured";
  EXPECT_DOUBLE_EQ(ratio_of(*row, "fastest", "nn"), 12.0 / 10);
  EXPECT_DOUBLE_EQ(ratio_of(*row, "fastest", "tn"), 9.0 / 8);
  EXPECT_DOUBLE_EQ(ratio_of(*row, "cublaslt-auto", "best"), 9.0 / 8);
  EXPECT_DOUBLE_EQ(ratio_of(*row, "cublas", "best"), 8.8 / 8);
  EXPECT_DOUBLE_EQ(ratio_of(*row, "fastest", "best"), 8.8 / 8);
}

TEST(Speedup, OneLayoutHasNoBest) {
  const auto row = speedup_row({64, 64, 64, {{"nn", 10, {{"x-nn", 12}, {"x-tn", 5}}}}});
  EXPECT_DOUBLE_EQ(ratio_of(*row, "x", "nn"), 1.2);
  EXPECT_EQ(ratio_of(*row, "x", "best"), 0);
  EXPECT_EQ(row->ratios.size(), 2u);
}

// A time from another process is a ratio of its own, and never the fastest.
TEST(Speedup, OtherProcessesStandApart) {
  const auto row = speedup_row({64, 64, 64, {{"nn", 10, {{"cublas-nn", 12}, {"torch-matmul-nn", 9, false}}}}});
  EXPECT_DOUBLE_EQ(ratio_of(*row, "torch-matmul", "nn"), 0.9);
  EXPECT_DOUBLE_EQ(ratio_of(*row, "fastest", "nn"), 1.2);
}

TEST(Speedup, RefusesTimesThatAreNone) {
  for (const double bad :
       {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const auto ours = speedup_row({64, 32, 16, {{"nn", bad, {{"x-nn", 1}}}}});
    const auto theirs = speedup_row({64, 32, 16, {{"nn", 1, {{"x-nn", bad}}}}});
    ASSERT_FALSE(ours.ok());
    ASSERT_FALSE(theirs.ok());
    EXPECT_NE(ours.error().message.find("64x32x16 nn"), std::string::npos) << ours.error().message;
    EXPECT_NE(theirs.error().message.find("64x32x16 x-nn"), std::string::npos) << theirs.error().message;
    const auto report = speedup_report({{64, 32, 16, {{{"x", "nn"}, bad}}}});
    ASSERT_FALSE(report.ok());
    EXPECT_NE(report.error().message.find("64x32x16"), std::string::npos);
  }
}

// The values are those of the statistics' own tests.
TEST(Speedup, StatisticsOfKnownRatios) {
  const auto s = speedup_statistics(kRatios);
  ASSERT_TRUE(s.ok());
  EXPECT_EQ(s->count, 12);
  EXPECT_NEAR(s->mean, 1.1291666666666667, 1e-12);
  EXPECT_NEAR(s->geometric_mean, 1.1198624320722115, 1e-12);
  EXPECT_NEAR(s->median, 1.095, 1e-12);
  EXPECT_NEAR(*s->standard_deviation, 0.15424056377993278, 1e-12);
  EXPECT_NEAR(s->p5, 0.952, 1e-12);
  EXPECT_NEAR(s->p95, 1.3685, 1e-12);
  EXPECT_EQ(s->min, 0.93);
  EXPECT_EQ(s->max, 1.44);
  EXPECT_DOUBLE_EQ(s->win_rate, 9.0 / 12);
  EXPECT_DOUBLE_EQ(s->clear_win_rate, 9.0 / 12);
  EXPECT_NEAR(s->wilcoxon.p, 0.01611328125, 1e-12);
  EXPECT_NEAR(s->geometric_mean_interval->low, std::exp(0.0462), 0.006);
  EXPECT_NEAR(s->geometric_mean_interval->high, std::exp(0.1917), 0.006);
  EXPECT_LT(s->mean_interval->low, s->mean);
  EXPECT_GT(s->median_interval->high, s->median);
}

TEST(Speedup, OneRatioHasNoSpread) {
  const auto s = speedup_statistics(std::vector<double>{1.5});
  ASSERT_TRUE(s.ok());
  EXPECT_EQ(s->median, 1.5);
  EXPECT_FALSE(s->standard_deviation || s->mean_interval || s->median_interval || s->geometric_mean_interval);
  EXPECT_EQ(s->wilcoxon.p, 1);
  EXPECT_FALSE(speedup_statistics({}).ok());
}

std::vector<SpeedupRow> many_rows() {
  std::vector<SpeedupRow> rows;
  for (int i = 0; i < 60; ++i) {
    const std::int64_t size = std::int64_t{64} << (i % 8);
    SpeedupRow row{size, size, size, {}};
    for (const char* layouts : {"best", "tn", "nn"}) row.ratios.push_back({{"x", layouts}, 1 + 0.01 * (i % 13) - 0.03});
    rows.push_back(std::move(row));
  }
  return rows;
}

TEST(Speedup, GroupsInOrder) {
  const auto report = speedup_report(many_rows());
  ASSERT_TRUE(report.ok());
  std::vector<std::string> order;
  int in_buckets = 0;
  for (const SpeedupGroup& group : report->groups) {
    order.push_back(group.key.layouts + " " + group.bucket);
    if (group.key.layouts == "nn" && group.bucket != "all") in_buckets += group.statistics.count;
  }
  const std::vector<std::string> expected = {"nn all",     "nn < 24",    "nn 24-28",  "nn 28-32",  "nn 32-36",
                                             "nn >= 36",   "tn all",     "tn < 24",   "tn 24-28",  "tn 28-32",
                                             "tn 32-36",   "tn >= 36",   "best all",  "best < 24", "best 24-28",
                                             "best 28-32", "best 32-36", "best >= 36"};
  EXPECT_EQ(order, expected);
  EXPECT_EQ(in_buckets, 60);
}

TEST(Speedup, DoesNotDependOnTheOrderOfRows) {
  auto rows = many_rows();
  const auto report = speedup_report(rows);
  std::shuffle(rows.begin(), rows.end(), std::mt19937(1));
  const auto again = speedup_report(rows);
  ASSERT_EQ(report->groups.size(), again->groups.size());
  for (std::size_t i = 0; i < report->groups.size(); ++i) {
    const SpeedupStatistics &a = report->groups[i].statistics, &b = again->groups[i].statistics;
    EXPECT_EQ(report->groups[i].bucket, again->groups[i].bucket);
    EXPECT_NEAR(a.geometric_mean, b.geometric_mean, 1e-12);
    EXPECT_EQ(a.median, b.median);
    EXPECT_NEAR(a.wilcoxon.p, b.wilcoxon.p, 1e-12);
    // Resampling draws by position: the ends move by what is left of its randomness.
    EXPECT_NEAR(a.geometric_mean_interval->low, b.geometric_mean_interval->low, 0.003);
  }
}

TEST(Speedup, TablesHoldEveryFigure) {
  auto report = speedup_report(many_rows(), {{{"exact", 3}}, {{"forged-result", 1}}, {{"physics", 2}}, {}});
  ASSERT_TRUE(report.ok());
  report->label = "offline f16";
  const auto json = speedup_table({*report}).json();
  ASSERT_EQ(json.size(), report->groups.size());
  const SpeedupStatistics& first = report->groups.front().statistics;
  EXPECT_EQ(json[0]["label"], "offline f16");
  EXPECT_EQ(json[0]["log2_mnk"], "all");
  EXPECT_EQ(json[0]["count"], 60);
  EXPECT_EQ(json[0]["geometric_mean"], first.geometric_mean);
  EXPECT_EQ(json[0]["geometric_mean_low"], first.geometric_mean_interval->low);
  EXPECT_EQ(json[0]["mean_high"], first.mean_interval->high);
  EXPECT_EQ(json[0]["median_low"], first.median_interval->low);
  EXPECT_EQ(json[0]["standard_deviation"], *first.standard_deviation);
  EXPECT_EQ(json[0]["win_rate"], first.win_rate);
  EXPECT_EQ(json[0]["clear_win_rate"], first.clear_win_rate);
  EXPECT_EQ(json[0]["wilcoxon_p"], first.wilcoxon.p);
  EXPECT_EQ(json[0]["p5"], first.p5);
  EXPECT_EQ(json[0]["p95"], first.p95);
  EXPECT_EQ(rejection_table(report->counts).csv(),
            "what,by,name,count\r\nrejected,gate,exact,3\r\nrejected,attack,forged-result,1\r\n"
            "measured again,gate,physics,2\r\n");
}

}  // namespace
}  // namespace warpsmith
