// Every verdict survives the trip through JSON and describes itself in one line.
#include "evaluate/verdict.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace warpsmith {
namespace {

Verdict round_trip(const Verdict& verdict) {
  return nlohmann::json::parse(nlohmann::json(verdict).dump()).get<Verdict>();
}

Measurement measurement() {
  Measurement value;
  value.subject = "candidate";
  value.cold = {3.5, 3.25, 3.3, 4.0, 12, 160};
  value.warm = {2.5, 2.25, 2.3, 3.0, 13, 200};
  value.warm_pdl = TimingStats{1.5, 1.25, 1.3, 2.0, 14, 300};
  value.detail = "detail";
  value.clock_mhz = 1980;
  value.clock_min_mhz = 1755;
  value.throttle = {"power cap"};
  value.mode = "server";
  value.server = ServerFacts{100, 50, 7};
  value.warm.mean_us = 2.75;
  return value;
}

TEST(Verdict, AnErrorWithoutBoundSurvivesJson) {
  for (const double worst_error : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    Verdict verdict;
    verdict.outcome = verdict::Wrong{{"bound/large", false, "C(0, 0) = inf", worst_error}};
    verdict.gates = {{"bound/large", false, "C(0, 0) = inf", worst_error}};
    const Verdict back = round_trip(verdict);
    EXPECT_EQ(back.kind(), "wrong");
    EXPECT_EQ(back.gates.at(0).worst_error, std::numeric_limits<double>::max());
  }
}

TEST(Verdict, EveryCaseRoundTrips) {
  const std::vector<std::pair<std::string, decltype(Verdict::outcome)>> cases = {
      {"illegal", verdict::Illegal{"shared_memory", "needs 300 KiB"}},
      {"compile-error", verdict::CompileError{"line 1\nline 2"}},
      {"wrong", verdict::Wrong{{"accumulator", false, "C(1, 2) = 4", 17.5}}},
      {"crashed", verdict::Crashed{"gates", "signal 11"}},
      {"timed-out", verdict::TimedOut{"timing", 60}},
      {"too-slow", verdict::TooSlow{30, 10}},
      {"suspicious", verdict::Suspicious{"under the floor", 0.02}},
      {"accepted", verdict::Accepted{measurement()}},
      {"failed", verdict::Failed{"no memory"}},
  };
  for (const auto& [kind, outcome] : cases) {
    Verdict verdict;
    verdict.outcome = outcome;
    verdict.gates = {{"coverage", true, "", 0}, {"exact", false, "off by one", 2}};
    verdict.resources = ResourceReport{};
    verdict.resources->registers = 168;
    verdict.compile_seconds = 1.5;
    verdict.gate_seconds = 0.25;
    verdict.prepare_seconds = 1.5;
    verdict.timing_seconds = 0.125;
    EXPECT_EQ(verdict.kind(), kind);
    const Verdict back = round_trip(verdict);
    EXPECT_EQ(nlohmann::json(back), nlohmann::json(verdict)) << kind;
    EXPECT_EQ(back.kind(), kind);
    EXPECT_EQ(back.describe(), verdict.describe());
    EXPECT_EQ(verdict.describe().find('\n'), std::string::npos) << kind;
    EXPECT_EQ(back.accepted() != nullptr, kind == "accepted");
    ASSERT_TRUE(back.resources.has_value());
    EXPECT_EQ(back.resources->registers, 168);
  }
}

TEST(Verdict, KeepsOptionalTimings) {
  Verdict verdict;
  verdict.outcome = verdict::Accepted{measurement()};
  const Verdict back = round_trip(verdict);
  ASSERT_NE(back.accepted(), nullptr);
  EXPECT_FALSE(back.accepted()->measurement.cold_pdl.has_value());
  ASSERT_TRUE(back.accepted()->measurement.warm_pdl.has_value());
  EXPECT_EQ(back.accepted()->measurement.warm_pdl->launches_per_sample, 300);
  EXPECT_FALSE(back.resources.has_value());
}

// As the archive holds them from before modes, clocks and means were recorded.
TEST(Verdict, ReadsOldMeasurements) {
  nlohmann::json json = measurement();
  for (const char* key : {"clock_min_mhz", "throttle", "mode", "server"}) json.erase(key);
  json["cold"].erase("mean_us");
  const auto old = json.get<Measurement>();
  EXPECT_EQ(old.mode, "offline");
  EXPECT_FALSE(old.server.has_value());
  EXPECT_TRUE(old.throttle.empty());
  EXPECT_EQ(old.clock_min_mhz, 0);
  EXPECT_EQ(old.cold.mean_us, 0);
  EXPECT_EQ(old.cold.median_us, 3.5);
}

TEST(Verdict, RejectsWhatItDoesNotKnow) {
  auto json = nlohmann::json(Verdict{});
  json["kind"] = "splendid";
  EXPECT_THROW(json.get<Verdict>(), nlohmann::json::exception);
  json.erase("kind");
  EXPECT_THROW(json.get<Verdict>(), nlohmann::json::exception);
}

}  // namespace
}  // namespace warpsmith
