// The table of prepared calls: look-up, growth, and reads beside writes.
#include "library/runtime/call_table.h"

#include <gtest/gtest.h>

#include <thread>

namespace warpsmith::library {
namespace {

struct Entry {
  CallKey key;
  std::uint64_t hash = 0;
};

CallKey key(std::int64_t m) {
  CallKey made;
  made.m = m;
  return made;
}

std::unique_ptr<Entry> entry(std::int64_t m) {
  auto made = std::make_unique<Entry>();
  made->key = key(m);
  made->hash = hash_of(made->key);
  return made;
}

TEST(CallTable, FindsWhatWasInserted) {
  CallTable<Entry> table;
  EXPECT_EQ(table.find(key(1), hash_of(key(1))), nullptr);
  for (std::int64_t m = 0; m < 5000; ++m) {
    auto fresh = entry(m);
    const Entry* raw = fresh.get();
    EXPECT_EQ(table.insert(fresh), raw);
    EXPECT_EQ(fresh, nullptr);
  }
  for (std::int64_t m = 0; m < 5000; ++m) {
    const Entry* found = table.find(key(m), hash_of(key(m)));
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->key.m, m);
  }
  EXPECT_EQ(table.find(key(5000), hash_of(key(5000))), nullptr);
}

TEST(CallTable, TheFirstOfAKeyStays) {
  CallTable<Entry> table;
  auto first = entry(1), second = entry(1);
  const Entry* raw = first.get();
  table.insert(first);
  EXPECT_EQ(table.insert(second), raw);
  EXPECT_NE(second, nullptr);
}

TEST(CallTable, KeysOfOneHashAreTwoKeys) {
  CallTable<Entry> table;
  auto first = entry(1), second = entry(2);
  second->hash = first->hash;
  const std::uint64_t hash = first->hash;
  table.insert(first);
  table.insert(second);
  EXPECT_EQ(table.find(key(2), hash)->key.m, 2);
  EXPECT_EQ(table.find(key(1), hash)->key.m, 1);
}

TEST(CallTable, IsFullAtItsLimit) {
  CallTable<Entry> table;
  for (std::size_t m = 0; m < CallTable<Entry>::kMostEntries; ++m) {
    auto fresh = entry(static_cast<std::int64_t>(m));
    ASSERT_NE(table.insert(fresh), nullptr);
  }
  auto last = entry(-1);
  EXPECT_EQ(table.insert(last), nullptr);
  EXPECT_NE(last, nullptr);  // given back
}

TEST(CallTable, ReadersSeeWholeEntriesBesideWriters) {
  CallTable<Entry> table;
  constexpr std::int64_t kKeys = 20000;
  const auto work = [&](std::int64_t from) {
    for (std::int64_t i = 0; i < kKeys; ++i) {
      const std::int64_t m = (from + i) % kKeys;
      const Entry* found = table.find(key(m), hash_of(key(m)));
      if (found == nullptr) {
        auto fresh = entry(m);
        found = table.insert(fresh);
      }
      ASSERT_EQ(found->key.m, m);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work, i * kKeys / 4);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace warpsmith::library
