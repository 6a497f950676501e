// Declared spaces as a file, and as what a table holds out.
#include "evaluate/replay/declared.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "archive/archive.h"
#include "base/file.h"
#include "evaluate/replay/replay.h"

namespace warpsmith {
namespace {

namespace fs = std::filesystem;

Machine make_machine() {
  Machine machine;
  machine.name = "test CPU";
  machine.kind = "cpu";
  return machine;
}

// Legality is not asked for here: any choices do.
Recipe variant(int number) {
  Recipe recipe(cpu_family());
  for (std::size_t field = 0; number > 0 && field < recipe.size(); ++field) {
    const auto count = static_cast<int>(recipe.family().fields()[field]->values.size());
    recipe.set_choice(field, number % count);
    number /= count;
  }
  return recipe;
}

class Declared : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(directory_); }
  void TearDown() override { fs::remove_all(directory_); }

  void expect_error(const std::string& text, const std::string& message) {
    std::ofstream(directory_ / "bad") << text;
    const auto loaded = DeclaredSpaces::load(directory_ / "bad");
    ASSERT_FALSE(loaded.ok()) << text;
    EXPECT_EQ(loaded.error().kind, ErrorKind::bad_input);
    EXPECT_NE(loaded.error().message.find(message), std::string::npos) << loaded.error().message;
  }

  fs::path directory_ = fs::path(::testing::TempDir()) / ("declared" + std::to_string(getpid()));
  Problem first_{.m = 64, .n = 64, .k = 64, .layout = Layout::tn}, second_{.m = 65, .n = 64, .k = 64};
};

TEST_F(Declared, KeepsSpacesInAFile) {
  DeclaredSpaces spaces("test CPU", Target::cpu, 7, {{"note", "test"}});
  ASSERT_TRUE(spaces.declare(first_, {variant(3), variant(4), variant(5), variant(9)}).ok());
  ASSERT_TRUE(spaces.declare(second_, {variant(11), variant(5), variant(3)}).ok());
  EXPECT_FALSE(spaces.declare(second_, {variant(1)}).ok());
  EXPECT_FALSE(spaces.declare({.m = 1, .n = 1, .k = 1}, {}).ok());
  EXPECT_FALSE(spaces.declare({.m = 1, .n = 1, .k = 1}, {variant(1), variant(1)}).ok());
  ASSERT_TRUE(spaces.save(directory_ / "spaces").ok());
  const auto loaded = DeclaredSpaces::load(directory_ / "spaces");
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(loaded->machine(), "test CPU");
  EXPECT_EQ(loaded->target(), Target::cpu);
  EXPECT_EQ(loaded->seed(), 7u);
  EXPECT_EQ(loaded->provenance().at("note"), "test");
  EXPECT_EQ(loaded->problems(), (std::vector<Problem>{first_, second_}));
  for (const Problem& problem : loaded->problems()) EXPECT_EQ(loaded->space(problem), spaces.space(problem));
  EXPECT_EQ(loaded->space(second_).size(), 3u);
  EXPECT_TRUE(loaded->space({.m = 1, .n = 1, .k = 1}).empty());
}

TEST_F(Declared, SaysWhatIsWrongAndWhere) {
  const std::string header = R"({"warpsmith_spaces":1,"machine":"test CPU","target":"cpu","seed":1})"
                             "\n";
  const std::string recipe = "{\"recipe\":\"" + to_string(variant(0)) + "\"}\n";
  const std::string space = R"({"problem":"8x8x8 nn f16 f32","space":[0]})"
                            "\n";
  expect_error("", ":1: no problem");
  expect_error("{}\n", ":1: no declared spaces");
  expect_error(R"({"warpsmith_spaces":2})", "format version 2 is not known; accepted: 1");
  expect_error(header + recipe, "no problem");
  expect_error(header + "{\"recipe\":\"sm70 a=1\"}\n", ":2: unknown family");
  expect_error(header + space, ":2: 0 to 0 are not recipes; 0 stand above");
  expect_error(header + recipe + space + space, ":4: a second space for 8x8x8");
  expect_error(header + recipe + R"({"problem":"8x8x8 nn f16 f32","space":[0,[0,0]]})", ":3: the space of 8x8x8");
  expect_error(header + recipe + R"({"problem":"8x8x8 nn f16 f32","space":["a"]})", ":3: ");
  expect_error(header + recipe + R"({"problem":"8x8x8 nn f16 f32","space":[-1]})", ":3: ");
}

TEST_F(Declared, IsWhatATableHoldsOut) {
  DeclaredSpaces spaces("test CPU", Target::cpu, 1);
  ASSERT_TRUE(spaces.declare(first_, {variant(1), variant(2)}).ok());
  const auto record = [&](Archive& archive, const Problem& problem, int number, double time_us) {
    AttemptRecord attempt;
    attempt.recipe = to_string(variant(number));
    Measurement measurement;
    measurement.cold.median_us = time_us;
    attempt.verdict.outcome = verdict::Accepted{measurement};
    ASSERT_TRUE(archive.record({problem, make_machine(), Target::cpu, 1}, attempt).ok());
  };
  auto tuned = Archive::open(directory_ / "tuned"), swept = Archive::open(directory_ / "swept");
  ASSERT_TRUE(tuned.ok() && swept.ok());
  record(**tuned, first_, 1, 9);
  record(**tuned, first_, 3, 1);  // not declared
  record(**tuned, second_, 3, 2);
  record(**swept, first_, 1, 8);
  ReplaySelection selection{make_machine().id(), Target::cpu, 1};
  selection.spaces = &spaces;
  const auto table = export_replay_table({tuned->get(), swept->get()}, selection);
  ASSERT_TRUE(table.ok()) << table.error().message;
  ASSERT_TRUE(table->save(directory_ / "table").ok());
  const auto loaded = ReplayTable::load(directory_ / "table");
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(loaded->held_out(), (std::vector<Problem>{first_}));
  EXPECT_EQ(loaded->declared(first_), 2u);
  EXPECT_EQ(loaded->declared(second_), 0u);
  EXPECT_EQ(loaded->entries(first_), 1u);
  EXPECT_EQ(loaded->entries(second_), 1u);
  EXPECT_EQ(loaded->lookup(first_, variant(1)).accepted()->measurement.cold.median_us, 8);
  EXPECT_FALSE(loaded->contains(first_, variant(3)));
  EXPECT_TRUE(loaded->contains(second_, variant(3)));
}

}  // namespace
}  // namespace warpsmith
