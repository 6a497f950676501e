// What a device must offer so that a task's gates and timing are written once: slabs of memory that hold all tensors of
// one call, a candidate that runs on them, and a clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "evaluate/backend.h"
#include "task/task.h"

namespace warpsmith::task {

class TaskDevice {
 public:
  virtual ~TaskDevice() = default;
  virtual const Machine& machine() const = 0;

  // Slabs of `bytes` each, `wanted` of them or as many as memory allows, two at least. What they held is gone. Returns
  // how many there are.
  virtual Result<int> make_room(std::int64_t bytes, int wanted) = 0;

  // A compiled candidate; only one is loaded at a time. Error: failed, the device's words.
  virtual Status load(const std::filesystem::path& binary, const nlohmann::json& launch, const Instance& instance,
                      const SlabLayout& layout) = 0;
  virtual void unload() = 0;
  // A candidate that crashed has harmed nothing but itself.
  virtual bool outlives_crashes() const = 0;
  // A candidate may keep what it saw from one batch to the next: data that it met before prove nothing of its time.
  virtual bool remembers() const = 0;

  virtual Status write(int slab, const std::byte* bytes) = 0;  // a whole slab
  virtual Status read(int slab, std::byte* bytes) = 0;
  // So many bytes from `offset` on, a multiple of 2, become the pattern.
  virtual Status fill(int slab, std::int64_t offset, std::int64_t bytes, std::uint16_t pattern) = 0;

  virtual Status run(int slab) = 0;       // once, and waits
  virtual CheckReport check_state() = 0;  // the candidate's variables are those after its first run

  // Makes ready one launch on each of these slabs, or on the first ones alone where all would take too long. Warm: all
  // of them read the inputs of slab 0, and write what is theirs in the slab. Armed launches of either kind stay beside
  // those of the other.
  struct Armed {
    double estimate_us = 0;  // per launch
    int launches = 0;
  };
  virtual Result<Armed> arm(const std::vector<int>& slabs, bool warm) = 0;
  // These launches; microseconds per launch. The candidate's variables are as after loading. Not warm: caches hold
  // nothing of the slabs as far as the device can see to it.
  virtual Result<double> time(bool warm) = 0;
  // Which times are too short to be true, of so many slabs: bytes through memory count only where caches cannot hold
  // them.
  virtual double floor_us(const Instance& instance, std::int64_t slab_bytes, int slabs) const = 0;
  virtual double wanted_batch_us() const = 0;

  virtual double clock_mhz() { return 0; }
  virtual std::vector<std::string> throttle_reasons() { return {}; }
};

}  // namespace warpsmith::task
