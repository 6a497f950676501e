// A survey of one shape over a scripted backend: who is proved, timed and left out.
#include "evaluate/survey.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "fake_backend.h"

namespace warpsmith {
namespace {

// Keeps candidates; their times go by the artifact's key, which is a number of microseconds.
class SurveyBackend : public FakeBackend {
 public:
  SurveyBackend() { failing_subject = 1000; }
  Status prepare(const Problem& next, std::uint64_t seed) override {
    layouts.push_back(next.layout);
    return FakeBackend::prepare(next, seed);
  }
  Status change_layout(Layout layout) override {
    layouts.push_back(layout);
    problem.layout = layout;
    return ok_status();
  }
  Status load(const Artifact& artifact, const nlohmann::json&) override {
    if (artifact.key == "crash") return failure("an illegal address");
    loaded_ = artifact.key;
    kernel = [wrong = artifact.key == "wrong"](FakeBackend& self) {
      self.multiply();
      if (wrong) self.c.front() ^= 0x0400;
    };
    return ok_status();
  }
  Result<int> keep_candidate() override {
    kept.push_back(std::stod(loaded_));
    return -static_cast<int>(kept.size());
  }
  void suggest_baselines(const nlohmann::json& choices) override { suggested = choices; }
  nlohmann::json baseline_choices() override { return {{"nn", {"algorithm 7"}}}; }
  Result<std::vector<std::string>> open_baselines() override {
    return std::vector<std::string>{"cublas-nn", "cublaslt-auto-nn", "cublas-tn", "cublaslt-auto-tn"};
  }
  Result<double> arm(int subject, bool, bool pdl) override { return time_of(subject, pdl); }
  Result<double> time_batch(int subject, bool cold, bool pdl) override {
    timed.insert({subject, cold});
    clock_seconds += 1e-3;
    return time_of(subject, pdl);
  }
  Result<double> call(int subject, bool) override {
    called.insert(subject);
    clock_seconds += 1e-5;
    return 20 + time_of(subject, false);
  }
  Result<nlohmann::json> compare_errors(int candidate) override { return nlohmann::json{{"of", candidate}}; }

  std::vector<Layout> layouts;
  std::vector<double> kept;
  nlohmann::json suggested;
  std::set<std::pair<int, bool>> timed;
  std::set<int> called;
  double noise = 0;

 private:
  double time_of(int subject, bool pdl) {
    const double base = subject < 0 ? kept[static_cast<std::size_t>(-subject - 1)] : 10.0 + subject;
    return (base - (pdl ? 1 : 0)) * (1 + noise * static_cast<double>(++draws_ % 5));
  }
  std::string loaded_;
  int draws_ = 0;
};

SurveyCandidate candidate(const std::string& name, Layout layout, const std::string& key) {
  SurveyCandidate one;
  one.name = name;
  one.layout = layout;
  one.key = key;
  one.launch = nlohmann::json::object();
  return one;
}

SurveyRequest request_of(std::vector<SurveyCandidate> candidates, std::vector<TimingMode> modes) {
  SurveyRequest request;
  request.problem = {6, 10, 64};
  request.candidates = std::move(candidates);
  request.modes = std::move(modes);
  request.server.arrivals = 4;
  request.seconds = 0.01;
  return request;
}

struct Watched {
  std::vector<std::string> stages;
  bool poisoned = false;
  SurveyHooks hooks() {
    return {[this](const char* stage) { stages.emplace_back(stage); }, [this] { poisoned = true; }};
  }
};

std::vector<std::string> names_of(const std::vector<Measurement>& subjects) {
  std::vector<std::string> names;
  for (const Measurement& one : subjects) names.push_back(one.subject);
  return names;
}

TEST(Survey, TimesBothLayoutsBesideAllBaselinesInOneRun) {
  SurveyBackend backend;
  Watched watched;
  const auto report = survey_shape(
      backend,
      request_of({candidate("ours-nn", Layout::nn, "9"), candidate("ours-tn", Layout::tn, "8")}, {TimingMode::offline}),
      watched.hooks());
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(backend.layouts, (std::vector<Layout>{Layout::nn, Layout::tn}));
  const auto& subjects = report->modes.at("offline");
  EXPECT_EQ(names_of(subjects), (std::vector<std::string>{"ours-nn", "ours-tn", "cublas-nn", "cublaslt-auto-nn",
                                                          "cublas-tn", "cublaslt-auto-tn"}));
  EXPECT_DOUBLE_EQ(subjects[0].cold.median_us, 9);
  EXPECT_DOUBLE_EQ(subjects[1].cold.median_us, 8);
  EXPECT_GE(subjects[1].cold.samples, 7);
  // Warm: ours and the tuned baselines.
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    const bool wanted = subjects[i].subject.find("cublas-") == std::string::npos;
    EXPECT_EQ(subjects[i].warm.samples > 0, wanted) << subjects[i].subject;
  }
  ASSERT_EQ(report->proofs.size(), 2u);
  EXPECT_TRUE(report->proofs[0].holds());
  const auto& gates = report->proofs[1].gates;
  for (const char* gate : {"coverage", "accumulator", "timed-outputs", "physics"}) {
    EXPECT_TRUE(std::any_of(gates.begin(), gates.end(), [&](const auto& one) { return one.gate == gate; })) << gate;
  }
  EXPECT_FALSE(watched.poisoned);
  EXPECT_EQ(report->baseline_choices.at("nn").at(0), "algorithm 7");
}

TEST(Survey, LeavesOutWhatIsWrongAndGoesOn) {
  SurveyBackend backend;
  Watched watched;
  const auto report =
      survey_shape(backend,
                   request_of({candidate("ours-nn", Layout::nn, "wrong"), candidate("ours-tn", Layout::tn, "8")},
                              {TimingMode::offline}),
                   watched.hooks());
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_FALSE(report->proof("ours-nn")->holds());
  EXPECT_TRUE(report->proof("ours-tn")->holds());
  EXPECT_EQ(names_of(report->modes.at("offline")).front(), "ours-tn");
}

TEST(Survey, EndsAtACrashAndSaysWhose) {
  SurveyBackend backend;
  Watched watched;
  const auto report =
      survey_shape(backend,
                   request_of({candidate("ours-nn", Layout::nn, "crash"), candidate("ours-tn", Layout::tn, "8")},
                              {TimingMode::offline}),
                   watched.hooks());
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->proof("ours-nn")->crash, "an illegal address");
  EXPECT_TRUE(report->modes.empty());
  EXPECT_TRUE(watched.poisoned);
}

TEST(Survey, CallsWhatWasFasterOffline) {
  SurveyBackend backend;
  Watched watched;
  auto request = request_of({candidate("ours-nn", Layout::nn, "9"), candidate("ours-nn-pdl", Layout::nn, "5"),
                             candidate("ours-tn", Layout::tn, "8")},
                            {TimingMode::offline, TimingMode::call, TimingMode::server});
  request.accuracy = true;
  const auto report = survey_shape(backend, request, watched.hooks());
  ASSERT_TRUE(report.ok()) << report.error().message;
  // Timed with dependent launch alone, which it does not offer.
  EXPECT_EQ(report->modes.at("offline")[1].subject, "ours-nn-pdl");
  EXPECT_EQ(report->modes.at("offline")[1].cold.samples, 0);
  const std::vector<std::string> fastest = {"ours-tn", "cublas-nn", "cublaslt-auto-nn"};
  EXPECT_EQ(names_of(report->modes.at("call")), fastest);
  EXPECT_EQ(names_of(report->modes.at("server")), fastest);
  EXPECT_EQ(report->modes.at("server")[0].cold.samples, 4);
  EXPECT_EQ(report->modes.at("server")[0].warm.samples, 0);
  EXPECT_EQ(backend.called, (std::set<int>{-3, 1, 2}));
  EXPECT_EQ(report->accuracy.at("of"), -3);
}

TEST(Survey, CallsWhatItIsTold) {
  SurveyBackend backend;
  Watched watched;
  auto request = request_of({candidate("ours-nn", Layout::nn, "9")}, {TimingMode::server});
  request.call_subjects = {"ours-nn", "cublaslt-auto-tn"};
  request.baseline_choices = {{"tn", {"algorithm 3"}}};
  const auto report = survey_shape(backend, request, watched.hooks());
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(names_of(report->modes.at("server")), request.call_subjects);
  EXPECT_EQ(backend.suggested, request.baseline_choices);
  EXPECT_TRUE(backend.timed.empty());
}

SurveyCandidate rival(const std::string& name, const std::string& of, Layout layout, const std::string& key) {
  SurveyCandidate one = candidate(name, layout, key);
  one.rival_of = of;
  return one;
}

TEST(Survey, TheFasterRivalTakesThePlaceAndTheNameFromAContestOfItsOwn) {
  SurveyBackend backend;
  Watched watched;
  const auto report =
      survey_shape(backend,
                   request_of({candidate("ours-nn", Layout::nn, "9"), rival("ours-nn~2", "ours-nn", Layout::nn, "7"),
                               rival("ours-nn~3", "ours-nn", Layout::nn, "8"), candidate("ours-tn", Layout::tn, "5"),
                               rival("ours-tn~2", "ours-tn", Layout::tn, "6")},
                              {TimingMode::offline}),
                   watched.hooks());
  ASSERT_TRUE(report.ok()) << report.error().message;
  const auto& subjects = report->modes.at("offline");
  EXPECT_EQ(names_of(subjects), (std::vector<std::string>{"ours-nn", "ours-tn", "cublas-nn", "cublaslt-auto-nn",
                                                          "cublas-tn", "cublaslt-auto-tn"}));
  EXPECT_DOUBLE_EQ(subjects[0].cold.median_us, 7);
  EXPECT_DOUBLE_EQ(subjects[1].cold.median_us, 5);
  EXPECT_EQ(report->winners, (std::map<std::string, std::string>{{"ours-nn", "ours-nn~2"}, {"ours-tn", "ours-tn"}}));
  EXPECT_EQ(report->contest_us,
            (std::map<std::string, double>{
                {"ours-nn", 9}, {"ours-nn~2", 7}, {"ours-nn~3", 8}, {"ours-tn", 5}, {"ours-tn~2", 6}}));
  // The contest is cold; of what was timed warm, losers are no part.
  EXPECT_TRUE(backend.timed.contains({-1, true}));
  EXPECT_FALSE(backend.timed.contains({-1, false}));
  EXPECT_TRUE(backend.timed.contains({-2, false}));
  // The winner's proof has the name, and goes on to the outputs of its timed launches.
  ASSERT_EQ(report->proofs.size(), 5u);
  EXPECT_EQ(report->proofs[1].name, "ours-nn");
  EXPECT_EQ(report->proofs[0].name, "ours-nn~2");
  EXPECT_GT(report->proofs[1].gates.size(), report->proofs[0].gates.size());
}

TEST(Survey, ARivalTakesThePlaceOfOneThatDoesNotHold) {
  SurveyBackend backend;
  Watched watched;
  const auto report = survey_shape(
      backend,
      request_of({candidate("ours-nn", Layout::nn, "wrong"), rival("ours-nn~2", "ours-nn", Layout::nn, "7")},
                 {TimingMode::offline}),
      watched.hooks());
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_TRUE(report->proof("ours-nn")->holds());
  EXPECT_FALSE(report->proof("ours-nn~2")->holds());
  EXPECT_EQ(report->winners.at("ours-nn"), "ours-nn~2");
  EXPECT_TRUE(report->contest_us.empty());
  EXPECT_DOUBLE_EQ(report->modes.at("offline").front().cold.median_us, 7);
}

TEST(Survey, MeasuresOnWhileTheRatioIsUncertain) {
  const auto samples = [](double noise) {
    SurveyBackend backend;
    backend.noise = noise;
    Watched watched;
    const auto report = survey_shape(
        backend, request_of({candidate("ours-nn", Layout::nn, "9")}, {TimingMode::offline}), watched.hooks());
    return report.ok() ? report->modes.at("offline")[0].cold.samples : 0;
  };
  EXPECT_EQ(samples(0), 7);
  EXPECT_GT(samples(0.2), 7);
}

TEST(RatioUncertainty, IsTheHalfWidthOfAnIntervalOfTheMedian) {
  const std::vector<double> ones(9, 1.0);
  EXPECT_TRUE(std::isinf(ratio_uncertainty({1, 2, 3}, {1, 1, 1})));
  EXPECT_DOUBLE_EQ(ratio_uncertainty(ones, ones), 0);
  // Nine pairs: the first and the ninth of the ordered ratios, 1.00 ... 1.08, around 1.04.
  std::vector<double> ratios;
  for (int i = 0; i < 9; ++i) ratios.push_back(1 + 0.01 * i);
  EXPECT_NEAR(ratio_uncertainty(ratios, ones), 0.04 / 1.04, 1e-12);
  // A hundred: ranks 40 and 61.
  std::vector<double> many, hundred(100, 1.0);
  for (int i = 1; i <= 100; ++i) many.push_back(i);
  EXPECT_NEAR(ratio_uncertainty(many, hundred), (61.0 - 40.0) / 2 / 50.5, 1e-12);
}

TEST(Survey, RequestAndReportSurviveJson) {
  auto request = request_of({candidate("ours-tn", Layout::tn, "8"), rival("ours-tn~2", "ours-tn", Layout::tn, "9")},
                            {TimingMode::offline, TimingMode::server});
  request.call_subjects = {"ours-tn"};
  request.accuracy = true;
  request.precision = 0.01;
  const auto again = nlohmann::json::parse(nlohmann::json(request).dump()).get<SurveyRequest>();
  EXPECT_EQ(nlohmann::json(again), nlohmann::json(request));
  SurveyReport report;
  report.proofs = {{"ours-tn", {{"exact", true, {}, 0}}, {}}, {"ours-nn", {}, "gone"}};
  report.modes["offline"] = {Measurement{}};
  report.seconds = {{"gates", 0.5}};
  report.winners = {{"ours-tn", "ours-tn~2"}};
  report.contest_us = {{"ours-tn", 2}, {"ours-tn~2", 1.5}};
  const auto back = nlohmann::json::parse(nlohmann::json(report).dump()).get<SurveyReport>();
  EXPECT_EQ(nlohmann::json(back), nlohmann::json(report));
  EXPECT_TRUE(back.proof("ours-tn")->holds());
  EXPECT_FALSE(back.proof("ours-nn")->holds());
}

}  // namespace
}  // namespace warpsmith
