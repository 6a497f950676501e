// The robust score of paired rounds: which baseline counts, and when it is usable.
#include "evaluate/paired_score.h"

#include <gtest/gtest.h>

namespace warpsmith {
namespace {

const std::vector<TimingSubject> kSubjects = {
    {0, "candidate", false}, {1, "cublas-nn", false}, {2, "cublaslt-auto-nn", false}, {3, "cublaslt-auto-tn", false}};

TimingRounds rounds_of(std::vector<double> times, int count) {
  TimingRounds rounds;
  for (const double time_us : times) rounds.emplace_back(count, time_us);
  return rounds;
}

TEST(PairedScoreTest, ComparesWithTheFastestOfTheLayout) {
  const TimingRounds rounds = rounds_of({10, 13, 12, 11}, 21);
  const auto nn = paired_score(rounds, kSubjects, "nn");
  ASSERT_TRUE(nn.has_value());
  EXPECT_EQ(nn->baseline, "cublaslt-auto-nn");
  EXPECT_DOUBLE_EQ(nn->value, 1.2);
  EXPECT_EQ(nn->buckets.size(), 7u);
  EXPECT_EQ(nn->rounds, 21);
  EXPECT_TRUE(nn->usable);
  EXPECT_EQ(paired_score(rounds, kSubjects, "tn")->baseline, "cublaslt-auto-tn");
  EXPECT_EQ(paired_score(rounds, kSubjects, "tt")->baseline, "cublaslt-auto-tn") << "none has it: any counts";
}

// Rounds in which both are slow leave the ratio alone; a candidate that is slow by itself in some does not.
TEST(PairedScoreTest, DriftCancelsAndUnsteadinessShows) {
  TimingRounds drift = rounds_of({10, 13, 12, 11}, 21);
  for (std::size_t i = 0; i < 21; ++i) {
    for (auto& series : drift) series[i] *= 1.0 + 0.05 * static_cast<double>(i);
  }
  EXPECT_TRUE(paired_score(drift, kSubjects, "nn")->usable);
  EXPECT_DOUBLE_EQ(paired_score(drift, kSubjects, "nn")->value, 1.2);
  TimingRounds unsteady = rounds_of({10, 13, 12, 11}, 21);
  for (std::size_t i = 0; i < 21; i += 7) unsteady[0][i] = 20;  // one bucket of seven
  EXPECT_FALSE(paired_score(unsteady, kSubjects, "nn")->usable);
}

TEST(PairedScoreTest, TooFewRoundsAreNotUsable) {
  const auto score = paired_score(rounds_of({10, 13, 12, 11}, 6), kSubjects, "nn");
  ASSERT_TRUE(score.has_value());
  EXPECT_FALSE(score->usable);
  EXPECT_EQ(score->rounds, 6);
}

TEST(PairedScoreTest, NeedsACandidateAndABaseline) {
  EXPECT_FALSE(paired_score({}, {}, "nn").has_value());
  EXPECT_FALSE(paired_score(rounds_of({10}, 9), {{0, "candidate", false}}, "nn").has_value());
  EXPECT_FALSE(paired_score(rounds_of({13, 12}, 9), {kSubjects[1], kSubjects[2]}, "nn").has_value());
}

TEST(PairedScoreTest, SurvivesJson) {
  const auto score = paired_score(rounds_of({10, 13, 12, 11}, 21), kSubjects, "nn");
  EXPECT_EQ(nlohmann::json(nlohmann::json(*score).get<PairedScore>()), nlohmann::json(*score));
}

}  // namespace
}  // namespace warpsmith
