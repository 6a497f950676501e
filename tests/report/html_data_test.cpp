// From the CSV files to the report's figures: golden values by hand, and what is refused.
#include "report/html_data.h"

#include <gtest/gtest.h>

#include <cmath>

#include "html_samples.h"

namespace warpsmith {
namespace {

ReportInputs offline_only(const std::string& text) {
  ReportInputs inputs;
  inputs.offline = ReportFile{"runs/grid-offline.csv", text};
  return inputs;
}

const ReportComparison* comparison(const ReportData& data, const std::string& id) {
  for (const ReportComparison& each : data.comparisons) {
    if (each.id == id) return &each;
  }
  return nullptr;
}

const ReportComparison::Group* group(const ReportData& data, const std::string& id, const std::string& bucket) {
  const ReportComparison* found = comparison(data, id);
  if (found == nullptr) return nullptr;
  for (const ReportComparison::Group& each : found->groups) {
    if (each.bucket == bucket) return &each;
  }
  return nullptr;
}

std::string refusal(const ReportInputs& inputs) {
  const auto data = report_data(inputs);
  if (data) return "taken";
  EXPECT_EQ(data.error().kind, ErrorKind::bad_input);
  EXPECT_EQ(data.error().message.find('\n'), std::string::npos);
  return data.error().message;
}

TEST(HtmlData, GoldenFiguresOfAHandMadeGrid) {
  const auto data = report_data(offline_only(hand_made_offline()));
  ASSERT_TRUE(data.ok()) << data.error().message;
  const ReportComparison::Group* all = group(*data, "cold-auto", "all");
  ASSERT_NE(all, nullptr);
  EXPECT_EQ(all->count, 5);
  EXPECT_NEAR(all->geometric_mean, 1.0, 1e-12);  // 2 * 0.5 * 1.25 * 0.8 * 1 = 1
  EXPECT_DOUBLE_EQ(all->median, 1.0);
  EXPECT_DOUBLE_EQ(all->min, 0.5);
  EXPECT_DOUBLE_EQ(all->max, 2.0);
  EXPECT_DOUBLE_EQ(all->wins, 0.4);
  EXPECT_DOUBLE_EQ(all->clear_wins, 0.4);
  EXPECT_DOUBLE_EQ(all->clear_losses, 0.4);
  EXPECT_DOUBLE_EQ(all->p5, 0.5 + 0.2 * 0.3);     // position 0.2 between 0.5 and 0.8
  EXPECT_DOUBLE_EQ(all->p95, 1.25 + 0.8 * 0.75);  // position 3.8 between 1.25 and 2
  ASSERT_TRUE(all->interval.has_value());
  EXPECT_LT(all->interval->low, 1.0);
  EXPECT_GT(all->interval->high, 1.0);

  const ReportComparison::Group* small = group(*data, "cold-auto", "< 24");
  ASSERT_NE(small, nullptr);
  EXPECT_EQ(small->count, 2);
  EXPECT_NEAR(small->geometric_mean, 1.0, 1e-12);
  EXPECT_NEAR(group(*data, "cold-auto", "24-28")->geometric_mean, 1.25, 1e-12);  // 256^3 is 2^24: the upper bucket
  EXPECT_FALSE(group(*data, "cold-auto", "24-28")->interval.has_value());
  EXPECT_NEAR(group(*data, "cold-auto", "28-32")->geometric_mean, 0.8, 1e-12);
  EXPECT_EQ(group(*data, "cold-auto", "32-36"), nullptr);
  EXPECT_NEAR(group(*data, "cold-auto", ">= 36")->geometric_mean, 1.0, 1e-12);
}

TEST(HtmlData, ShapesWithoutATimeAreLeftOutOfThatComparison) {
  const auto data = report_data(offline_only(hand_made_offline()));
  ASSERT_TRUE(data.ok()) << data.error().message;
  EXPECT_EQ(group(*data, "warm-auto", "all")->count, 4);
  EXPECT_NEAR(group(*data, "warm-auto", "all")->geometric_mean, std::pow(3.0, 0.25), 1e-12);
  EXPECT_NEAR(group(*data, "pdl-auto", "all")->geometric_mean, std::pow(4 * 1.25 * 1 * 1, 0.25), 1e-12);
  EXPECT_NEAR(group(*data, "cold-heuristic", "all")->geometric_mean, std::pow(2 * 1.5 * 0.8, 0.25), 1e-12);
  EXPECT_NEAR(group(*data, "cold-cublas", "all")->geometric_mean, std::pow(4 * 2 * 0.8, 0.25), 1e-12);
  EXPECT_NEAR(group(*data, "nn-auto", "24-28")->geometric_mean, 5.0 / 6, 1e-12);
  EXPECT_NEAR(group(*data, "tn-auto", "24-28")->geometric_mean, 6.0 / 4, 1e-12);
  EXPECT_EQ(comparison(*data, "call-auto"), nullptr);
  EXPECT_EQ(comparison(*data, "server-auto"), nullptr);
}

TEST(HtmlData, FilesAreJoinedByShape) {
  ReportInputs inputs = offline_only(hand_made_offline());
  // In another order, with a shape that the offline table lacks.
  inputs.call = ReportFile{"grid-call.csv",
                           "m,n,k,ours_us,lt_auto_us,lt_heuristic_us,cublas_us\n"
                           "256,256,256,10,15,20,\n32,32,32,5,5,5,5\n"};
  inputs.server = ReportFile{"grid-server.csv",
                             "m,n,k,ours_us,lt_auto_us,lt_heuristic_us,cublas_us,ours_p95_us,lt_auto_p95_us\n"
                             "64,64,64,30,60,61,62,40,100\n"};
  const auto data = report_data(inputs);
  ASSERT_TRUE(data.ok()) << data.error().message;
  ASSERT_EQ(data->shapes.size(), 6u);
  EXPECT_EQ(data->shapes[0], (ReportShape{32, 32, 32}));
  EXPECT_EQ(data->shapes[2], (ReportShape{64, 128, 64}));
  EXPECT_EQ(data->times.at("call.ours_us")[3], 10.0);
  EXPECT_EQ(data->times.at("call.cublas_us")[3], std::nullopt);
  EXPECT_EQ(data->times.at("call.ours_us")[1], std::nullopt);
  EXPECT_EQ(data->times.at("offline.ours_us")[0], std::nullopt);
  EXPECT_EQ(data->texts.at("offline.recipe")[3], "sm90 tile=128x64x64, \"odd\"");
  EXPECT_EQ(data->texts.at("offline.recipe")[0], "");
  EXPECT_NEAR(group(*data, "call-auto", "all")->geometric_mean, std::sqrt(1.5), 1e-12);
  EXPECT_NEAR(group(*data, "server-auto", "all")->geometric_mean, 2.0, 1e-12);
  EXPECT_NEAR(group(*data, "server-p95-auto", "all")->geometric_mean, 2.5, 1e-12);
  EXPECT_EQ(comparison(*data, "server-p95-cublas"), nullptr);
  ASSERT_EQ(data->files.size(), 3u);
  EXPECT_EQ(data->files[0].name, "grid-offline.csv");
  EXPECT_EQ(data->files[0].facts[0].value, "NVIDIA H200");
  EXPECT_EQ(data->files[0].facts[3].key, "");
}

TEST(HtmlData, TablesThatComeAlong) {
  ReportInputs inputs = offline_only(hand_made_offline());
  inputs.llm = ReportFile{"llm-shapes.csv",
                          "model,m,n,k,ours_us,lt_auto_us,lt_heuristic_us\nL,1,4096,4096,2,3,\nL,7,4096,4096,2,4,5\n"};
  inputs.accuracy = ReportFile{"grid-accuracy.csv", "m,n,k,ours_max\n64,64,64,1e-3\n"};
  inputs.summary = ReportFile{"grid-summary.json", R"({"shapes": 5, "rejected": {"bound": 2}})"};
  const auto data = report_data(inputs);
  ASSERT_TRUE(data.ok()) << data.error().message;
  ASSERT_EQ(data->llm_comparisons.size(), 2u);
  EXPECT_EQ(data->llm_comparisons[0].id, "cold-auto");
  EXPECT_NEAR(data->llm_comparisons[0].groups[0].geometric_mean, std::sqrt(3.0), 1e-12);
  EXPECT_EQ(data->llm_comparisons[1].id, "cold-heuristic");
  EXPECT_NEAR(data->llm_comparisons[1].groups[0].geometric_mean, 2.5, 1e-12);  // one row has no such time
  const nlohmann::json json = to_page_json(*data);
  EXPECT_EQ(json["llm"]["rows"].size(), 2u);
  EXPECT_EQ(json["accuracy"]["columns"][3], "ours_max");
  EXPECT_EQ(json["summary"]["rejected"]["bound"], 2);
}

TEST(HtmlData, PageJson) {
  const auto data = report_data(offline_only(hand_made_offline()));
  ASSERT_TRUE(data.ok()) << data.error().message;
  const nlohmann::json json = to_page_json(*data);
  EXPECT_EQ(json["m"], nlohmann::json({64, 64, 256, 1024, 16384}));
  EXPECT_EQ(json["bucket"], nlohmann::json({0, 0, 1, 2, 4}));
  EXPECT_EQ(json["times"]["offline.ours_warm_us"], nlohmann::json({1.0, nullptr, 4.0, 10.0, 100.0}));
  EXPECT_EQ(json["texts"]["offline.recipe"]["index"], nlohmann::json({0, 0, 1, 2, 2}));
  EXPECT_EQ(json["texts"]["offline.gates"]["values"], nlohmann::json({"passed 17", "passed 16"}));
  EXPECT_EQ(json["comparisons"][0]["id"], "cold-auto");
  EXPECT_EQ(json["comparisons"][0]["groups"][0]["bucket"], "all");
  EXPECT_FALSE(json.contains("llm"));
  EXPECT_FALSE(json.contains("summary"));
}

TEST(HtmlData, RefusesWithFileAndLine) {
  const std::string head = "# device: x\nm,n,k,ours_us,lt_auto_us,cublas_us\n";
  const auto refused = [&head](const std::string& rows) { return refusal(offline_only(head + rows)); };
  EXPECT_EQ(refusal({}), "no grid to report on; accepted: an offline, call or server table");
  EXPECT_EQ(refused(""), "runs/grid-offline.csv: no shapes, only a header");
  EXPECT_EQ(refused("64,64,64,1,2\n"), "runs/grid-offline.csv:3: 5 fields in a table of 6 columns");
  EXPECT_EQ(refused("64,64,64,1,2,3\n64,0,64,1,2,3\n"), "runs/grid-offline.csv:4: n is '0'; accepted: 1 to 1048576");
  EXPECT_EQ(refused("6.5,64,64,1,2,3\n"), "runs/grid-offline.csv:3: m is '6.5'; accepted: 1 to 1048576");
  const std::string number = "accepted: a positive number of microseconds, or nothing";
  EXPECT_EQ(refused("64,64,64,-1,2,3\n"), "runs/grid-offline.csv:3: ours_us is '-1'; " + number);
  EXPECT_EQ(refused("64,64,64,,2,3\n"), "no shape has a time of ours and one of theirs to compare it with");
  EXPECT_EQ(refused("64,64,64,1,nan,3\n"), "runs/grid-offline.csv:3: lt_auto_us is 'nan'; " + number);
  EXPECT_EQ(refused("64,64,64,1,2,inf\n"), "runs/grid-offline.csv:3: cublas_us is 'inf'; " + number);
  EXPECT_EQ(refused("64,64,64,1,2,3us\n"), "runs/grid-offline.csv:3: cublas_us is '3us'; " + number);
  EXPECT_EQ(refused("64,64,64,1,2,3\n64,64,64,1,2,3\n"), "runs/grid-offline.csv:4: 64x64x64 again, as in line 3");
  EXPECT_EQ(refusal(offline_only("m,n,k,ours_us\n1,1,1,1\n")),
            "runs/grid-offline.csv: no column 'lt_auto_us'; needed: m, n, k, ours_us, lt_auto_us");
  ReportInputs inputs = offline_only(head + "64,64,64,1,2,3\n");
  inputs.accuracy = ReportFile{"a.csv", "m,n\n1,1\n"};
  EXPECT_EQ(refusal(inputs), "a.csv: no column 'k'; needed: m, n, k");
  inputs.accuracy.reset();
  inputs.summary = ReportFile{"s.json", "{\"a\": 1,\n \"b\": }\n"};
  EXPECT_EQ(refusal(inputs), "s.json:2: not a JSON object");
  inputs.summary = ReportFile{"s.json", "[1]"};
  EXPECT_EQ(refusal(inputs), "s.json:1: not a JSON object");
  inputs.summary.reset();
  EXPECT_EQ(refusal(inputs), "taken");
}

}  // namespace
}  // namespace warpsmith
