// Hashes of all watched buffers, in few launches.
#include "evaluate/cuda/memory_watch.h"

#include <algorithm>
#include <map>
#include <utility>

#include "evaluate/cuda/device_work.h"
#include "evaluate/gates.h"

namespace warpsmith::cuda {

namespace {

constexpr std::size_t kMoreHashes = 256;  // than are needed at once

}  // namespace

MemoryWatch::MemoryWatch(cudaStream_t stream, std::size_t most_bytes)
    : stream_(stream), most_bytes_(most_bytes), key_(draw_seed()) {}

void MemoryWatch::forget() {
  std::erase_if(known_, [](const Seen& seen) { return !seen.range.fixed; });
  forgot_ = true;
}

void MemoryWatch::accept() {
  known_.clear();
  forgot_ = true;
  look();
}

std::vector<MemoryWatch::Seen> MemoryWatch::refresh() {
  // The hashes' own buffer is one of those that are watched: it is renewed before they are listed.
  const std::size_t needed = (watched_memory().size() + 1) * sizeof(unsigned long long);
  if (hashes_.bytes() < needed) {
    hashes_ = {};
    hashes_ = DeviceBuffer(needed + kMoreHashes * sizeof(unsigned long long), Contents::changing);
  }
  std::map<void*, WatchedRange> ranges = watched_memory();
  std::vector<Seen> kept, fresh;
  for (const Seen& seen : known_) {
    const auto range = ranges.find(seen.begin);
    if (range == ranges.end() || range->second.serial != seen.range.serial) continue;  // freed, or another's now
    kept.push_back(seen);
    ranges.erase(range);
  }
  known_ = std::move(kept);
  for (const auto& [begin, range] : ranges) fresh.push_back({begin, range, 0});
  return fresh;
}

std::size_t MemoryWatch::look() {
  if (!forgot_ && looked_at_ == watched_memory_version()) return 0;
  std::vector<Seen> fresh = refresh();
  looked_at_ = watched_memory_version();
  if (share_ == 0) {
    double bytes = 1;
    for (const Seen& seen : fresh) bytes += static_cast<double>(seen.range.bytes);
    share_ = std::min(1.0, static_cast<double>(most_bytes_) / bytes);
  }
  // What is known was looked at after the last launch, unless others have run since.
  std::vector<Seen> places = forgot_ ? known_ : std::vector<Seen>();
  const std::size_t first_fresh = places.size();
  places.insert(places.end(), fresh.begin(), fresh.end());
  const std::vector<unsigned long long> hashes = hashes_of(places);
  const std::size_t changed = forgot_ ? changed_bytes(hashes) : 0;
  for (std::size_t i = 0; i < fresh.size(); ++i) fresh[i].hash = hashes[first_fresh + i];
  known_.insert(known_.end(), fresh.begin(), fresh.end());
  forgot_ = changed > 0;  // or the next one to look would not hear of it
  return changed;
}

std::size_t MemoryWatch::changed_bytes() {
  if (forgot_ || looked_at_ != watched_memory_version()) refresh();
  return changed_bytes(hashes_of(known_));
}

std::size_t MemoryWatch::changed_bytes(const std::vector<unsigned long long>& now) const {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < known_.size(); ++i) bytes += now[i] == known_[i].hash ? 0 : known_[i].range.bytes;
  return bytes;
}

std::vector<unsigned long long> MemoryWatch::hashes_of(const std::vector<Seen>& places) {
  std::vector<unsigned long long> hashes(places.size());
  if (places.empty()) return hashes;
  const std::size_t bytes = hashes.size() * sizeof(unsigned long long);
  check(cudaMemsetAsync(hashes_.data(), 0, bytes, stream_), "cudaMemsetAsync");
  for (std::size_t first = 0; first < places.size(); first += HashRanges::kMost) {
    HashRanges some;
    for (std::size_t i = first; i < std::min(first + HashRanges::kMost, places.size()); ++i) {
      some.add(places[i].begin, static_cast<std::int64_t>(places[i].range.bytes / sizeof(std::uint64_t)));
    }
    hash_ranges(some, key_, share_, hashes_.as<unsigned long long>() + first, stream_);
  }
  check(cudaMemcpyAsync(hashes.data(), hashes_.data(), bytes, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync");
  check(cudaStreamSynchronize(stream_), "hashing device memory");
  return hashes;
}

}  // namespace warpsmith::cuda
