// Grids of shapes by name and from files.
#include "problem/grids.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <tuple>

namespace warpsmith {
namespace {

class ShapeFile : public ::testing::Test {
 protected:
  ~ShapeFile() override { std::filesystem::remove(path_); }
  Result<std::vector<Shape>> load(const std::string& text) {
    std::ofstream(path_) << text;
    return load_shapes(path_);
  }
  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / fmt::format("warpsmith-shapes-{}.txt", ::getpid());
};

TEST(NamedGrid, PapersGridHasAThousandShapes) {
  const auto grid = named_grid("cuda-l2").value();
  ASSERT_EQ(grid.size(), 1000u);
  EXPECT_EQ(grid[0], (Shape{64, 64, 64}));
  EXPECT_EQ(grid[1], (Shape{64, 64, 128}));
  EXPECT_EQ(grid[10], (Shape{64, 128, 64}));
  EXPECT_EQ(grid[999], (Shape{16384, 16384, 16384}));
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> distinct;
  for (const Shape& shape : grid) distinct.emplace(shape.m, shape.n, shape.k);
  EXPECT_EQ(distinct.size(), 1000u);
}

TEST(NamedGrid, RefusesUnknownNames) {
  const auto grid = named_grid("cuda-l3");
  ASSERT_FALSE(grid.ok());
  EXPECT_EQ(grid.error().kind, ErrorKind::bad_input);
  EXPECT_NE(grid.error().message.find("cuda-l2"), std::string::npos) << grid.error().message;
}

TEST_F(ShapeFile, ReadsShapesBlankLinesAndComments) {
  const auto shapes = load("# a list\n64 64 64\n\n128x256x512  # with a remark\n1_2_3\n").value();
  EXPECT_EQ(shapes, (std::vector<Shape>{{64, 64, 64}, {128, 256, 512}, {1, 2, 3}}));
}

TEST_F(ShapeFile, NamesFileAndLineOfAnError) {
  const auto shapes = load("64 64 64\n64 0 64\n");
  ASSERT_FALSE(shapes.ok());
  EXPECT_EQ(shapes.error().kind, ErrorKind::bad_input);
  EXPECT_NE(shapes.error().message.find(path_.string() + ":2"), std::string::npos) << shapes.error().message;
}

TEST_F(ShapeFile, MissingFileIsAnEnvironmentError) {
  const auto shapes = load_shapes("/nonexistent/shapes.txt");
  ASSERT_FALSE(shapes.ok());
  EXPECT_EQ(shapes.error().kind, ErrorKind::environment);
}

}  // namespace
}  // namespace warpsmith
