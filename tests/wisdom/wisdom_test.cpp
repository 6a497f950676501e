// Wisdom files: round trip, what replaces what, and files that are refused.
#include "wisdom/wisdom.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "base/file.h"

namespace warpsmith {
namespace {

namespace fs = std::filesystem;

WisdomHeader header() {
  WisdomHeader header;
  header.machine = "NVIDIA H200";
  header.compute_capability = 90;
  header.units = 132;
  header.target = Target::sm90;
  header.versions = {{"driver", "580.1"}};
  return header;
}

WisdomEntry entry(double cold_us, double baseline_us, const std::string& recipe = "tiny a=1",
                  const std::string& date = "2026-01-02T00:00:00Z") {
  WisdomEntry entry;
  entry.problem = {64, 128, 256, Layout::tn};
  entry.recipe = recipe;
  entry.source_hash = "abc";
  entry.cold_us = cold_us;
  entry.warm_us = cold_us / 2;
  if (baseline_us > 0) {
    entry.baseline = "cublaslt-auto-tn";
    entry.baseline_us = baseline_us;
    entry.baseline_warm_us = baseline_us / 2;
  }
  entry.gates_passed = 17;
  entry.date = date;
  entry.commit = "0123456789ab";
  entry.provenance = {{"driver", "580.1"}};
  return entry;
}

class WisdomFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "warpsmith-wisdom-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    path_ = directory_ / "wisdom" / "h200.jsonl";
  }
  void TearDown() override { fs::remove_all(directory_); }

  void expect_refused(const std::string& text, const std::string& part) {
    ASSERT_TRUE(write_file_atomic(path_, text).ok());
    const auto loaded = Wisdom::load(path_);
    ASSERT_FALSE(loaded.ok()) << text;
    EXPECT_EQ(loaded.error().kind, ErrorKind::bad_input);
    EXPECT_NE(loaded.error().message.find(part), std::string::npos) << loaded.error().message;
  }

  fs::path directory_, path_;
};

TEST_F(WisdomFile, RoundTrips) {
  Wisdom wisdom(header());
  WisdomEntry first = entry(2, 3);
  first.pdl_us = 1.5;
  first.pdl_recipe = "tiny a=1 pdl=1";
  WisdomEntry large = entry(5, 0);
  large.problem.m = 8192;
  EXPECT_TRUE(wisdom.merge(large));
  EXPECT_TRUE(wisdom.merge(first));
  ASSERT_TRUE(wisdom.save(path_).ok());
  const auto loaded = Wisdom::load(path_);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_TRUE(loaded->header().same_machine(header()));
  EXPECT_EQ(loaded->header().versions.at("driver"), "580.1");
  const auto entries = loaded->entries();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].problem.m, 64);  // by size
  const WisdomEntry* found = loaded->find(first.problem);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(nlohmann::json(*found), nlohmann::json(first));
  EXPECT_DOUBLE_EQ(*found->ratio(), 1.5);
  EXPECT_EQ(loaded->find({1, 2, 3}), nullptr);
}

TEST_F(WisdomFile, ABetterKernelReplacesAWorseOne) {
  Wisdom wisdom(header());
  EXPECT_TRUE(wisdom.merge(entry(2.0, 3.0)));
  // By the ratio, where both have one: clocks differ between runs.
  EXPECT_FALSE(wisdom.merge(entry(1.9, 2.7, "tiny a=2", "2026-02-01T00:00:00Z")));
  EXPECT_TRUE(wisdom.merge(entry(2.1, 3.3, "tiny a=2", "2026-01-01T00:00:00Z")));
  EXPECT_EQ(wisdom.find(entry(1, 1).problem)->recipe, "tiny a=2");
  // By the time, where one has none.
  EXPECT_FALSE(wisdom.merge(entry(2.2, 0, "tiny a=3")));
  EXPECT_TRUE(wisdom.merge(entry(2.0, 0, "tiny a=3")));
  EXPECT_FALSE(wisdom.merge(entry(0, 0, "tiny a=4")));
  EXPECT_EQ(wisdom.size(), 1u);
}

TEST_F(WisdomFile, OfOneKernelTheNewestMeasurementCounts) {
  Wisdom wisdom(header());
  EXPECT_TRUE(wisdom.merge(entry(2.0, 3.0)));
  EXPECT_TRUE(wisdom.merge(entry(2.5, 3.0, "tiny a=1", "2026-03-01T00:00:00Z")));  // slower, but newer
  EXPECT_FALSE(wisdom.merge(entry(1.5, 3.0, "tiny a=1", "2026-02-01T00:00:00Z")));
  EXPECT_DOUBLE_EQ(wisdom.find(entry(1, 1).problem)->cold_us, 2.5);
  // The same recipe from another source is another kernel.
  WisdomEntry changed = entry(2.2, 3.0, "tiny a=1", "2026-01-01T00:00:00Z");
  changed.source_hash = "def";
  EXPECT_TRUE(wisdom.merge(changed));
}

TEST_F(WisdomFile, RefusesWhatIsNoWisdom) {
  Wisdom wisdom(header());
  ASSERT_TRUE(wisdom.merge(entry(2, 3)));
  ASSERT_TRUE(wisdom.save(path_).ok());
  const std::string good = *read_file(path_);
  const std::string first_line = good.substr(0, good.find('\n') + 1), entry_line = good.substr(first_line.size());
  expect_refused("", "is empty");
  expect_refused("{}\n", ":1: is no header");
  expect_refused("{\"warpsmith_wisdom\": 2}\n", "format version 2");
  expect_refused(first_line + "nonsense\n", ":2: is no wisdom entry");
  expect_refused(first_line + entry_line + entry_line, ":3: a second entry of 64x128x256 tn");
  expect_refused(first_line + "{\"problem\": \"64x64x64 nn\"}\n", ":2: ");
  EXPECT_EQ(Wisdom::load(directory_ / "none").error().kind, ErrorKind::environment);
}

TEST(WisdomName, ComesFromTheDevice) {
  EXPECT_EQ(wisdom_name(header()), "h200");
  WisdomHeader other = header();
  other.machine = "NVIDIA H100 80GB HBM3";
  EXPECT_EQ(wisdom_name(other), "h100-80gb-hbm3");
  other.machine = "AMD EPYC 9B14";
  other.target = Target::cpu;
  other.threads = 2;
  EXPECT_EQ(wisdom_name(other), "amd-epyc-9b14-2t");
  EXPECT_FALSE(other.same_machine(header()));
}

}  // namespace
}  // namespace warpsmith
