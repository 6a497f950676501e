// Traffic of waves of tiles, counted by hand.
#include <gtest/gtest.h>

#include "model/traffic.h"

namespace warpsmith::model {
namespace {

TEST(Patch, CoversWhatRunsAtOnce) {
  // Bands of 8 rows: 32 tiles are 8 x 4.
  EXPECT_EQ(patch_of({.along = 16, .across = 16, .group = 8}, 32).along, 8);
  EXPECT_EQ(patch_of({.along = 16, .across = 16, .group = 8}, 32).across, 4);
  // The band is lower than its group.
  EXPECT_EQ(patch_of({.along = 4, .across = 100, .group = 8}, 32).along, 4);
  EXPECT_EQ(patch_of({.along = 4, .across = 100, .group = 8}, 32).across, 8);
  // 64 tiles fill two bands of 8 x 4.
  EXPECT_EQ(patch_of({.along = 16, .across = 4, .group = 8}, 64).along, 16);
  EXPECT_EQ(patch_of({.along = 16, .across = 4, .group = 8}, 64).across, 4);
  // More at once than there are.
  EXPECT_EQ(patch_of({.along = 3, .across = 2, .group = 8}, 132).along, 3);
  EXPECT_EQ(patch_of({.along = 3, .across = 2, .group = 8}, 132).across, 2);
}

TEST(OperandTraffic, OnceWhereTheCacheKeepsIt) {
  const Raster raster = {.along = 16, .across = 16, .group = 8};
  EXPECT_EQ(operand_dram_bytes(raster, 1000, 2000, 32, 1e6), 16 * 1000 + 16 * 2000);
}

TEST(OperandTraffic, OnceAWaveWhereItKeepsNothing) {
  const Raster raster = {.along = 16, .across = 16, .group = 8};
  // 8 waves of 8 rows and 4 columns.
  EXPECT_EQ(operand_dram_bytes(raster, 1000, 2000, 32, 0), 8 * (8 * 1000 + 4 * 2000));
  // One wave reads everything once, whatever the cache.
  EXPECT_EQ(operand_dram_bytes(raster, 1000, 2000, 256, 0), 16 * 1000 + 16 * 2000);
}

TEST(OperandTraffic, GrowsAsTheCacheShrinks) {
  const Raster raster = {.along = 64, .across = 64, .group = 8};
  double last = 0;
  for (const double kept : {1e9, 1e7, 5e6, 1e6, 1e5, 0.0}) {
    const double bytes = operand_dram_bytes(raster, 1e5, 1e5, 132, kept);
    EXPECT_GE(bytes, last);
    last = bytes;
  }
  // Bands of one tile share less than bands of eight.
  EXPECT_GT(operand_dram_bytes({.along = 64, .across = 64, .group = 1}, 1e5, 1e5, 60, 0),
            operand_dram_bytes({.along = 64, .across = 64, .group = 8}, 1e5, 1e5, 60, 0));
}

}  // namespace
}  // namespace warpsmith::model
