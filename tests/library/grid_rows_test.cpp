// Runs over a grid that go on where they stopped.
#include "grid_rows.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <set>

#include "problem/grids.h"

namespace warpsmith::library::testing {
namespace {

namespace fs = std::filesystem;

class GridRowsTest : public ::testing::Test {
 protected:
  GridRowsTest() {
    std::string name = (fs::temp_directory_path() / "warpsmith-rows-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
    folder_ = name;
  }
  ~GridRowsTest() override { fs::remove_all(folder_); }
  fs::path folder_;
};

TEST_F(GridRowsTest, RowsOfEarlierRunsAndOtherShardsAreKnown) {
  {
    GridRows first(folder_ / "library_grid_0.jsonl"), second(folder_ / "library_grid_1.jsonl");
    first.add({{64, 128, 256}, 1.25, 2.5, true, true});
    second.add({{1, 2, 3}, 0.5, 7, false, false});
    std::ofstream(folder_ / "library_grid_0.jsonl", std::ios::app) << R"({"m":8,"n":8,"k":)";  // killed while it wrote
  }
  {
    GridRows next(folder_ / "library_grid_0.jsonl");
    ASSERT_NE(next.find({64, 128, 256}), nullptr);
    EXPECT_EQ(next.find({64, 128, 256})->ratio, 1.25);
    EXPECT_EQ(next.find({64, 128, 256})->us, 2.5);
    EXPECT_TRUE(next.find({64, 128, 256})->own && next.find({64, 128, 256})->right);
    ASSERT_NE(next.find({1, 2, 3}), nullptr);
    EXPECT_FALSE(next.find({1, 2, 3})->own || next.find({1, 2, 3})->right);
    EXPECT_EQ(next.find({8, 8, 8}), nullptr);
    next.add({{8, 8, 8}, 1, 1, true, true});  // not lost behind the broken line
  }
  EXPECT_NE(GridRows(folder_ / "library_grid_1.jsonl").find({8, 8, 8}), nullptr);
}

TEST_F(GridRowsTest, WithoutAFileRowsAreKeptInMemory) {
  GridRows rows({});
  rows.add({{8, 8, 8}, 1, 1, true, true});
  EXPECT_NE(rows.find({8, 8, 8}), nullptr);
}

TEST_F(GridRowsTest, ShardsShareTheGridAndBeginWithASample) {
  const auto grid = named_grid("cuda-l2").value();
  for (const std::size_t step : {std::size_t{1}, std::size_t{97}, std::size_t{10}}) {
    for (const std::size_t shards : {std::size_t{1}, std::size_t{2}, std::size_t{3}}) {
      std::set<std::string> seen;
      std::size_t count = 0;
      for (std::size_t shard = 0; shard < shards; ++shard) {
        for (const Shape& shape : shard_of(grid, step, shard, shards)) {
          seen.insert(shape_name(shape));
          ++count;
        }
      }
      EXPECT_EQ(count, (grid.size() + step - 1) / step);
      EXPECT_EQ(seen.size(), count);
    }
  }
  std::set<std::int64_t> first_rows;
  const auto mine = shard_of(grid, 1, 0, 1);
  for (std::size_t i = 0; i < 30; ++i) first_rows.insert(mine[i].m);
  EXPECT_EQ(first_rows.size(), 10U);
}

TEST(GridRow, ARowThatWasNotTimedNeverPasses) {
  GridRow row;
  EXPECT_FALSE(passes(row, 0));
  row.ratio = 0.4;
  EXPECT_TRUE(passes(row, 0));
  EXPECT_FALSE(passes(row, 0.5));
  row.ratio = 0.5;
  EXPECT_TRUE(passes(row, 0.5));
  row.ratio = std::nan("");
  EXPECT_FALSE(passes(row, 0));
}

}  // namespace
}  // namespace warpsmith::library::testing
