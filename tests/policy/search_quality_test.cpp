// Evolution earns its keep: on made-up landscapes with noise and broken regions it finds faster recipes than random
// search with the same number of trials. Seeds are fixed, so the outcome is too.
#include <gtest/gtest.h>

#include <cmath>

#include "landscape.h"
#include "policy/evolution.h"
#include "policy/random_policy.h"

namespace warpsmith {
namespace {

using testing::make_context;
using testing::measure;
using testing::run_time;
using testing::search;

struct Contest {
  int wins = 0, rounds = 0;
  double mean_ratio = 0;  // geometric mean of random's best time over evolution's
};

Contest compete(int trials) {
  Contest contest;
  double log_sum = 0;
  for (std::uint64_t variant = 0; variant < 10; ++variant) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      RandomPolicy random(make_context(seed));
      EvolutionPolicy evolution(make_context(seed));
      const double random_us = search(random, variant, trials), evolution_us = search(evolution, variant, trials);
      contest.wins += evolution_us < random_us ? 1 : 0;
      log_sum += std::log(random_us / evolution_us);
      ++contest.rounds;
    }
  }
  contest.mean_ratio = std::exp(log_sum / contest.rounds);
  return contest;
}

TEST(SearchQuality, EvolutionBeatsRandomWithin200Trials) {
  const Contest contest = compete(200);
  EXPECT_GE(contest.wins, contest.rounds * 9 / 10);
  EXPECT_GT(contest.mean_ratio, 1.08);
}

TEST(SearchQuality, EvolutionBeatsRandomWithin80Trials) {
  const Contest contest = compete(80);
  EXPECT_GE(contest.wins, contest.rounds * 8 / 10);
  EXPECT_GT(contest.mean_ratio, 1.05);
}

// A run that is told an earlier run's history goes on from there instead of beginning anew.
TEST(SearchQuality, ResumingContinuesFromHistory) {
  double log_gain = 0;
  for (std::uint64_t variant = 0; variant < 10; ++variant) {
    EvolutionPolicy first(make_context(1));
    std::vector<std::pair<Recipe, Outcome>> history;
    Rng noise(variant);
    double before_us = 1e9;
    for (int i = 0; i < 60; ++i) {
      const Recipe recipe = first.ask().value();
      const Outcome outcome = measure(recipe, variant, noise);
      if (outcome.time_us) before_us = std::min(before_us, *run_time(recipe, variant));
      first.tell(recipe, outcome);
      history.emplace_back(recipe, outcome);
    }
    EvolutionPolicy resumed(make_context(1)), fresh(make_context(1));
    for (const auto& [recipe, outcome] : history) resumed.tell(recipe, outcome);
    const double resumed_us = std::min(before_us, search(resumed, variant, 40));
    EXPECT_LE(resumed_us, before_us);
    log_gain += std::log(search(fresh, variant, 40) / resumed_us);
  }
  EXPECT_GT(std::exp(log_gain / 10), 1.05) << "40 trials after 60 of history beat 40 trials from nothing";
}

// A value that never works is met now and then, not over and over.
TEST(SearchQuality, BrokenValuesAreAvoided) {
  EvolutionPolicy policy(make_context(1));
  Rng noise(1);
  int late_rejections = 0;
  for (int i = 0; i < 200; ++i) {
    const Recipe recipe = policy.ask().value();
    const Outcome outcome = measure(recipe, 1, noise);
    if (i >= 50 && !outcome.time_us) ++late_rejections;
    policy.tell(recipe, outcome);
  }
  EXPECT_LT(late_rejections, 15);  // of 150; one of the six values of stages is broken
}

}  // namespace
}  // namespace warpsmith
