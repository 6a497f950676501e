// Prepared calls by key: reads take no lock, entries stay where they are until the table goes.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "library/call.h"

namespace warpsmith::library {

// Entry has members `key` (CallKey) and `hash` (hash_of(key)).
template <class Entry>
class CallTable {
 public:
  CallTable() { grow(kFirstSlots); }
  CallTable(const CallTable&) = delete;
  CallTable& operator=(const CallTable&) = delete;

  const Entry* find(const CallKey& key, std::uint64_t hash) const {
    const Slots& slots = *current_.load(std::memory_order_acquire);
    for (std::size_t at = hash & slots.mask;; at = (at + 1) & slots.mask) {
      const Entry* entry = slots.entries[at].load(std::memory_order_acquire);
      if (entry == nullptr || (entry->hash == hash && entry->key == key)) return entry;
    }
  }

  // The entry that stands under the key from now on: this one, or the one that another thread put there first. Null
  // when the table is full (kMostEntries); the entry is then given back.
  const Entry* insert(std::unique_ptr<Entry>& entry) {
    const std::lock_guard lock(mutex_);
    if (const Entry* first = find(entry->key, entry->hash)) return first;
    if (entries_.size() == kMostEntries) return nullptr;
    if (2 * (entries_.size() + 1) > current_.load(std::memory_order_relaxed)->mask) {
      grow(2 * (current_.load(std::memory_order_relaxed)->mask + 1));
    }
    entries_.push_back(std::move(entry));
    place(*current_.load(std::memory_order_relaxed), entries_.back().get());
    return entries_.back().get();
  }

  static constexpr std::size_t kMostEntries = 1 << 16;

 private:
  static constexpr std::size_t kFirstSlots = 1 << 11;

  struct Slots {
    explicit Slots(std::size_t count) : mask(count - 1), entries(count) {}
    std::size_t mask;
    std::vector<std::atomic<const Entry*>> entries;  // at most half are taken
  };

  static void place(Slots& slots, const Entry* entry) {
    std::size_t at = entry->hash & slots.mask;
    while (slots.entries[at].load(std::memory_order_relaxed) != nullptr) at = (at + 1) & slots.mask;
    slots.entries[at].store(entry, std::memory_order_release);
  }

  // Readers may still be in the old slots: those stay.
  void grow(std::size_t count) {
    auto slots = std::make_unique<Slots>(count);
    for (const auto& entry : entries_) place(*slots, entry.get());
    current_.store(slots.get(), std::memory_order_release);
    all_.push_back(std::move(slots));
  }

  std::atomic<Slots*> current_{nullptr};
  std::mutex mutex_;
  std::vector<std::unique_ptr<Slots>> all_;
  std::vector<std::unique_ptr<Entry>> entries_;
};

}  // namespace warpsmith::library
