// Kernel packs: round trip, damage at any place, other versions.
#include "library/pack.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"

namespace warpsmith::library {
namespace {

namespace fs = std::filesystem;

class PackTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "warpsmith-pack-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    for (int i = 0; i < 20; ++i) {
      keys_.push_back(kernel_key("sm_90a", "source " + std::to_string(i)));
      cubins_.push_back(std::string(static_cast<std::size_t>(37 * i + 1), static_cast<char>('A' + i)));
    }
    PackWriter writer(nlohmann::json{{"gpu", "NVIDIA H200"}});
    for (std::size_t i = 0; i < keys_.size(); ++i) writer.add(keys_[i], cubins_[i]);
    ASSERT_TRUE(writer.write(path()).ok());
    bytes_ = read_file(path()).value();
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path path() const { return folder_ / "test.wspack"; }

  // The pack with other bytes: nothing when it is refused.
  std::optional<Error> refused(const std::string& bytes) const {
    fs::remove(folder_ / "altered.wspack");  // a new file: some file systems write a truncated one out at once
    std::ofstream(folder_ / "altered.wspack", std::ios::binary) << bytes;
    const auto pack = Pack::open(folder_ / "altered.wspack");
    return pack ? std::nullopt : std::optional(pack.error());
  }

  fs::path folder_;
  std::vector<std::string> keys_, cubins_;
  std::string bytes_;
};

TEST_F(PackTest, RoundTrip) {
  const auto pack = Pack::open(path());
  ASSERT_TRUE(pack) << pack.error().message;
  EXPECT_EQ(pack->size(), keys_.size());
  EXPECT_EQ(pack->metadata()["gpu"], "NVIDIA H200");
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    EXPECT_TRUE(pack->contains(keys_[i]));
    const auto found = pack->find(keys_[i]);
    ASSERT_TRUE(found && found->has_value());
    EXPECT_EQ(**found, cubins_[i]);
  }
  const auto absent = pack->find(kernel_key("sm_90a", "no such source"));
  ASSERT_TRUE(absent);
  EXPECT_FALSE(absent->has_value());
  EXPECT_FALSE(pack->contains("not a key"));
}

TEST_F(PackTest, TheKeyIsOfArchitectureAndSource) {
  EXPECT_NE(kernel_key("sm_90a", "x"), kernel_key("sm_80", "x"));
  EXPECT_NE(kernel_key("sm_90a", "x"), kernel_key("sm_90a", "y"));
  EXPECT_NE(kernel_key("sm_9", "0ax"), kernel_key("sm_90a", "x"));
}

TEST_F(PackTest, AnEmptyPackIsAPack) {
  ASSERT_TRUE(PackWriter(nlohmann::json::object()).write(folder_ / "empty.wspack").ok());
  const auto pack = Pack::open(folder_ / "empty.wspack");
  ASSERT_TRUE(pack);
  EXPECT_EQ(pack->size(), 0U);
  EXPECT_FALSE(pack->contains(keys_.front()));
}

// Every byte is either covered by the index's checksum or by that of one cubin.
TEST_F(PackTest, NoAlteredByteGoesUnnoticed) {
  std::size_t at_open = 0, at_fetch = 0;
  for (std::size_t at = 0; at < bytes_.size(); at += at < 200 ? 1 : 5) {
    std::string altered = bytes_;
    altered[at] = static_cast<char>(altered[at] ^ 0x20);
    if (refused(altered)) {
      ++at_open;
      continue;
    }
    const auto pack = Pack::open(folder_ / "altered.wspack");
    ASSERT_TRUE(pack);
    std::size_t damaged = 0;
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      const auto found = pack->find(keys_[i]);
      if (!found) {
        ++damaged;
        EXPECT_NE(found.error().message.find("altered"), std::string::npos);
      } else {
        EXPECT_EQ(**found, cubins_[i]);
      }
    }
    EXPECT_EQ(damaged, 1U) << "byte " << at;
    ++at_fetch;
  }
  EXPECT_GT(at_open, 0U);
  EXPECT_GT(at_fetch, 0U);
}

TEST_F(PackTest, NoTruncationGoesUnnoticed) {
  for (std::size_t size = 0; size < bytes_.size(); size += 13) {
    const auto error = refused(bytes_.substr(0, size));
    ASSERT_TRUE(error) << size;
    EXPECT_EQ(error->kind, ErrorKind::bad_input);
  }
  EXPECT_TRUE(refused(bytes_ + "x"));
}

TEST_F(PackTest, AnotherVersionIsNamed) {
  std::string other = bytes_;
  other[8] = 2;
  const auto error = refused(other);
  ASSERT_TRUE(error);
  EXPECT_NE(error->message.find("format 2"), std::string::npos) << error->message;
}

TEST_F(PackTest, OtherFilesAreNoPacks) {
  EXPECT_EQ(Pack::open(folder_ / "absent").error().kind, ErrorKind::environment);
  EXPECT_EQ(Pack::open(folder_).error().kind, ErrorKind::bad_input);
  const auto error = refused(std::string(4096, 'x'));
  ASSERT_TRUE(error);
  EXPECT_NE(error->message.find("no kernel pack"), std::string::npos);
}

}  // namespace
}  // namespace warpsmith::library
