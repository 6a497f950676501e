// Rewards, running normalisation and group advantages against values worked out by hand.
#include "train/reward.h"

#include <gtest/gtest.h>

#include <cmath>

#include "train/trainer.h"

namespace warpsmith::train {
namespace {

TEST(Reward, IsSpeedupLessDifferenceLessLength) {
  const RewardConfig config{0.1, 0.01, 1.5};
  // 10 us over 8 us = 1.25; 0.1 * 0.5 = 0.05; 0.01 * 20 = 0.2.
  EXPECT_NEAR(raw_reward({"accepted", 8.0, 0.5}, 10, 20, config), 1.0, 1e-12);
  EXPECT_NEAR(raw_reward({"wrong", std::nullopt, 0}, 10, 20, config), -0.2, 1e-12);
  EXPECT_NEAR(raw_reward({"wrong", 0.0, 0}, 10, 0, config), 0, 1e-12);
}

TEST(Reward, RunningMomentsAreThoseOfAllValues) {
  RunningMoments moments;
  EXPECT_EQ(moments.deviation(), 0);
  for (const double value : {2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0}) moments.add(value);
  EXPECT_NEAR(moments.mean, 5, 1e-12);
  EXPECT_NEAR(moments.deviation(), 2, 1e-12);
  EXPECT_NEAR(smoothed(6, moments, 1.5), 0.5, 1e-12);
  EXPECT_NEAR(smoothed(100, moments, 1.5), 1.5, 1e-12);
  EXPECT_NEAR(smoothed(-100, moments, 1.5), -1.5, 1e-12);
  EXPECT_EQ(smoothed(3, {}, 1.5), 0);
}

TEST(Reward, AdvantagesHaveMeanZeroAndDeviationOne) {
  // 1, 2, 3, 4: mean 2.5, deviation sqrt(1.25).
  const auto advantages = group_advantages({1, 2, 3, 4});
  const double unit = 1 / std::sqrt(1.25);
  EXPECT_NEAR(advantages[0], -1.5 * unit, 1e-12);
  EXPECT_NEAR(advantages[1], -0.5 * unit, 1e-12);
  EXPECT_NEAR(advantages[3], 1.5 * unit, 1e-12);
  EXPECT_EQ(group_advantages({0.3, 0.3, 0.3}), (std::vector<double>{0, 0, 0}));
  EXPECT_TRUE(group_advantages({}).empty());
}

TEST(Reward, ALeapCountsNoMoreThanTheClip) {
  RunningMoments calm;
  for (int i = 0; i < 100; ++i) calm.add(1 + 0.01 * (i % 3));
  RunningMoments with_leap = calm, without = calm;
  const auto leap = advantages_of({1.0, 1.01, 1.02, 1000}, with_leap, 1.5);
  const auto good = advantages_of({1.0, 1.01, 1.02, 1.05}, without, 1.5);
  EXPECT_LE(leap[3], 1.74);
  EXPECT_GT(leap[3], leap[2]);
  EXPECT_GT(good[3], good[2]);
}

}  // namespace
}  // namespace warpsmith::train
