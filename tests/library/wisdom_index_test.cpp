// The index of a wisdom file against the file itself, and what damage does to it.
#include "library/wisdom_index.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "recipe/recipe.h"

namespace warpsmith::library {
namespace {

namespace fs = std::filesystem;

class WisdomIndexTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "warpsmith-index-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    path_ = fs::path(name) / "wisdom.jsonl";
    WisdomHeader header;
    header.machine = "NVIDIA H200";
    header.compute_capability = 90;
    header.target = Target::sm90;
    wisdom_.emplace(header);
    for (const char* text :
         {"64x64x64 tn f16 f32", "128x256x512 nn bf16 f32", "1024x64x64 tn f16 f32 scaled ld=72,0,0"}) {
      WisdomEntry entry;
      entry.problem = parse_problem(text).value();
      entry.recipe = to_string(Recipe(sm90_family()));
      entry.cold_us = 1 + static_cast<double>(entry.problem.m);
      entry.provenance = {{"note", "says \"problem\": \"1x1x1 tn f16 f32\""}};
      wisdom_->merge(entry);
    }
    ASSERT_TRUE(wisdom_->save(path_).ok());
  }
  void TearDown() override { fs::remove_all(path_.parent_path()); }

  void write(const std::string& text) const { ASSERT_TRUE(write_file_atomic(path_, text).ok()); }

  fs::path path_;
  std::optional<Wisdom> wisdom_;
};

TEST_F(WisdomIndexTest, HoldsWhatTheFileHolds) {
  const auto from_file = WisdomIndex::load(path_);
  ASSERT_TRUE(from_file) << from_file.error().message;
  const WisdomIndex from_wisdom(*wisdom_);
  for (const WisdomIndex* index : {&*from_file, &from_wisdom}) {
    EXPECT_EQ(index->header().machine, "NVIDIA H200");
    ASSERT_EQ(index->size(), wisdom_->size());
    for (std::size_t i = 0; i < index->size(); ++i) {
      const auto entry = index->entry(i);
      ASSERT_TRUE(entry);
      const WisdomEntry* known = wisdom_->find(index->problem(i));
      ASSERT_NE(known, nullptr);
      EXPECT_EQ(entry->recipe, known->recipe);
      EXPECT_EQ(entry->cold_us, known->cold_us);
    }
  }
}

TEST_F(WisdomIndexTest, SpacesAreNoDamage) {
  write(
      "{\"warpsmith_wisdom\": 1, \"machine\": \"x\", \"compute_capability\": 90, \"units\": 1, \"target\": \"sm90\", "
      "\"threads\": 1, \"versions\": {}}\n\n{\"problem\" : \"64x64x64 tn f16 f32\"}\n");
  const auto index = WisdomIndex::load(path_);
  ASSERT_TRUE(index) << index.error().message;
  EXPECT_EQ(index->size(), 1U);
}

TEST_F(WisdomIndexTest, ADamagedEntryIsReportedOnce) {
  std::string text = read_file(path_).value();
  for (std::size_t at = 0; (at = text.find("\"cold_us\"", at)) != std::string::npos; ++at) text[at + 1] = 'g';
  write(text);
  std::vector<std::string> said;
  const auto index = WisdomIndex::load(path_, [&](const std::string& message) { said.push_back(message); });
  ASSERT_TRUE(index);
  for (std::size_t i = 0; i < index->size(); ++i) EXPECT_FALSE(index->entry(i));
  ASSERT_EQ(said.size(), 1U);
  EXPECT_NE(said.front().find("wisdom.jsonl:2: is damaged"), std::string::npos) << said.front();
}

TEST_F(WisdomIndexTest, ADamagedFileIsRefused) {
  const std::string text = read_file(path_).value();
  const auto refused = [&](const std::string& altered) {
    write(altered);
    return !WisdomIndex::load(path_);
  };
  EXPECT_TRUE(refused(""));
  EXPECT_TRUE(refused("nonsense\n"));
  EXPECT_TRUE(refused(text + "{\"recipe\": \"sm90\"}\n"));
  EXPECT_TRUE(refused(text.substr(0, text.size() - 10)));  // cut off
  EXPECT_TRUE(refused(text.substr(text.find('\n') + 1)));  // no header
  std::string other = text;
  other.replace(other.find("128x256x512"), 11, "128x256x0x0");
  EXPECT_TRUE(refused(other));
  fs::remove(path_);
  EXPECT_FALSE(WisdomIndex::load(path_));
}

}  // namespace
}  // namespace warpsmith::library
