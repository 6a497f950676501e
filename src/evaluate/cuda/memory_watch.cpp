// Hashes of all watched buffers, in few launches.
#include "evaluate/cuda/memory_watch.h"

#include <algorithm>
#include <vector>

#include "evaluate/cuda/device_work.h"
#include "evaluate/gates.h"

namespace warpsmith::cuda {

namespace {

constexpr std::size_t kMoreHashes = 256;  // than are needed at once

}  // namespace

MemoryWatch::MemoryWatch(cudaStream_t stream) : stream_(stream) {}

void MemoryWatch::look() {
  if (!known_.empty() && looked_at_ == watched_memory_version()) return;
  std::map<void*, std::size_t> ranges = list();
  looked_at_ = watched_memory_version();
  std::erase_if(known_, [&](const auto& seen) {  // freed since, or freed and another's now
    const auto range = ranges.find(seen.first);
    return range == ranges.end() || range->second != seen.second.bytes;
  });
  if (known_.empty()) {
    std::size_t bytes = 0;
    for (const auto& range : ranges) bytes += range.second;
    key_ = draw_seed();
    share_ = std::min(1.0, static_cast<double>(kMostBytes) / static_cast<double>(std::max<std::size_t>(bytes, 1)));
  }
  std::erase_if(ranges, [&](const auto& range) { return known_.contains(range.first); });
  known_.merge(hashes_of(ranges));
}

std::size_t MemoryWatch::changed_bytes() {
  std::map<void*, std::size_t> ranges = list();
  std::erase_if(ranges, [&](const auto& range) {
    const auto seen = known_.find(range.first);
    return seen == known_.end() || seen->second.bytes != range.second;
  });
  std::size_t bytes = 0;
  for (const auto& [begin, now] : hashes_of(ranges)) {
    if (now.hash != known_.at(begin).hash) bytes += now.bytes;
  }
  return bytes;
}

// The hashes' own buffer is one of those that are watched: it is renewed before it is listed.
std::map<void*, std::size_t> MemoryWatch::list() {
  const std::size_t needed = (watched_memory().size() + 1) * sizeof(unsigned long long);
  if (hashes_.bytes() < needed) {
    hashes_ = {};
    hashes_ = DeviceBuffer(needed + kMoreHashes * sizeof(unsigned long long), Contents::changing);
  }
  return watched_memory();
}

std::map<void*, MemoryWatch::Seen> MemoryWatch::hashes_of(const std::map<void*, std::size_t>& ranges) {
  std::map<void*, Seen> seen;
  if (ranges.empty()) return seen;
  const std::vector<std::pair<void*, std::size_t>> list(ranges.begin(), ranges.end());
  const std::size_t hash_bytes = list.size() * sizeof(unsigned long long);
  check(cudaMemsetAsync(hashes_.data(), 0, hash_bytes, stream_), "cudaMemsetAsync");
  for (std::size_t first = 0; first < list.size(); first += HashRanges::kMost) {
    HashRanges some;
    for (std::size_t i = first; i < std::min(first + HashRanges::kMost, list.size()); ++i) {
      some.add(list[i].first, static_cast<std::int64_t>(list[i].second / sizeof(std::uint64_t)));
    }
    hash_ranges(some, key_, share_, hashes_.as<unsigned long long>() + first, stream_);
  }
  std::vector<unsigned long long> values(list.size());
  check(cudaMemcpyAsync(values.data(), hashes_.data(), hash_bytes, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync");
  check(cudaStreamSynchronize(stream_), "hashing device memory");
  for (std::size_t i = 0; i < list.size(); ++i) seen[list[i].first] = {list[i].second, values[i]};
  return seen;
}

}  // namespace warpsmith::cuda
