// Slabs in memory that is shared with the process of the candidate; the clock is this process's.
#include "task/cpu_device.h"

#include <fmt/format.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

namespace warpsmith::task {

namespace {

constexpr std::int64_t kMostBytes = 1LL << 30;  // of all slabs
constexpr int kOverheadSamples = 15;
constexpr double kBatchUs = 2000;
constexpr double kFloorTolerance = 0.75;  // measured peaks of a CPU drift
constexpr std::int64_t kLineBytes = 64;
constexpr std::int64_t kColdFactor = 2;  // slabs together exceed the last cache level so many times

#if defined(__x86_64__)
bool has_clflushopt() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_CLFLUSHOPT) != 0;
}
__attribute__((target("clflushopt"))) void flush_lines(std::byte* data, std::int64_t bytes) {
  for (std::int64_t at = 0; at < bytes; at += kLineBytes) _mm_clflushopt(data + at);
}
// Out of all caches of the machine, those of other cores too (Intel SDM, CLFLUSHOPT): data that were just written are
// as cold as any.
void evict(std::byte* data, std::int64_t bytes) {
  static const bool able = has_clflushopt();
  if (able) flush_lines(data, bytes);
  _mm_mfence();
}
#else
void evict(std::byte*, std::int64_t) {}
#endif

// Orders that the candidate's process keeps beside each other.
enum Slot { kCold, kWarm, kOnce };

class CpuTaskDevice final : public TaskDevice {
 public:
  CpuTaskDevice(const Machine& machine, ForeignHost::Options options)
      : machine_(machine), options_(std::move(options)) {}

  const Machine& machine() const override { return machine_; }

  Result<int> make_room(std::int64_t bytes, int wanted) override {
    unload();
    const std::int64_t free_bytes = sysconf(_SC_AVPHYS_PAGES) * sysconf(_SC_PAGESIZE) / 2;
    const std::int64_t most = std::max<std::int64_t>(2, std::min(kMostBytes, free_bytes) / bytes);
    const int slabs = static_cast<int>(std::clamp<std::int64_t>(wanted, 2, most));
    if (memory_ && slab_bytes_ == bytes && slabs_ == slabs) return slabs;
    memory_.reset();
    auto memory = SharedMemory::create(bytes * slabs);
    if (!memory) return memory.error();
    memory_ = std::move(*memory);
    slab_bytes_ = bytes;
    slabs_ = slabs;
    return slabs;
  }

  Status load(const std::filesystem::path& binary, const nlohmann::json& launch, const Instance& instance,
              const SlabLayout& layout) override {
    unload();
    auto host = ForeignHost::start(options_, *memory_, binary);
    if (!host) return host.error();
    host_ = std::move(*host);
    // Before any foreign code is there that could make it look longer.
    if (const Status measured = measure_overhead(); !measured) return measured;
    if (const Status loaded = host_->load(launch.at("entry").get<std::string>()); !loaded) return loaded;
    std::vector<ArgumentTable> tables;
    for (const bool warm : {false, true}) {
      for (int slab = 0; slab < slabs_; ++slab) tables.push_back(table_of(slab, warm ? 0 : slab, instance, layout));
    }
    return host_->set_tables(tables);
  }

  void unload() override {
    host_.reset();
    ran_ = false;
    first_state_.reset();
    orders_ = {};
  }

  bool outlives_crashes() const override { return true; }
  bool remembers() const override { return true; }

  Status write(int slab, const std::byte* bytes) override {
    std::memcpy(at(slab), bytes, static_cast<std::size_t>(slab_bytes_));
    return ok_status();
  }
  Status read(int slab, std::byte* bytes) override {
    std::memcpy(bytes, at(slab), static_cast<std::size_t>(slab_bytes_));
    return take_first_state();
  }
  Status fill(int slab, std::int64_t offset, std::int64_t bytes, std::uint16_t pattern) override {
    auto* words = reinterpret_cast<std::uint16_t*>(at(slab) + offset);
    std::fill(words, words + bytes / 2, pattern);
    return ok_status();
  }

  Status run(int slab) override {
    if (const Status set = set_order(kOnce, {slab}); !set) return set;
    const auto ran = host_->run(kOnce);
    if (!ran) return ran.error();
    ran_ = true;
    return ok_status();
  }

  CheckReport check_state() override {
    if (!first_state_) return {true, {}, 0, 0};
    const auto state = host_->state();
    if (!state) return {false, state.error().message, 0, 0};
    if (*state == *first_state_) return {true, {}, 0, 0};
    return {false, "the candidate's own variables differ from what they were after its first run", 0, 0};
  }

  Result<Armed> arm(const std::vector<int>& slabs, bool warm) override {
    const Slot slot = warm ? kWarm : kCold;
    std::vector<int> tables = slabs;
    if (warm) {
      for (int& table : tables) table += slabs_;
    }
    if (const Status set = set_order(slot, tables); !set) return set.error();
    const auto ran = host_->run(slot);
    if (!ran) return ran.error();
    return Armed{per_launch(*ran, slabs.size()), static_cast<int>(slabs.size())};
  }

  Result<double> time(bool warm) override {
    const Slot slot = warm ? kWarm : kCold;
    if (!warm) {
      for (const int slab : orders_[slot]) evict(at(slab), slab_bytes_);
    }
    const auto ran = host_->run(slot);
    if (!ran) return ran.error();
    return per_launch(*ran, orders_[slot].size());
  }

  double floor_us(const Instance& instance, std::int64_t slab_bytes, int slabs) const override {
    const std::int64_t caches = std::max(machine_.l2_bytes, machine_.l3_bytes);
    if (slab_bytes * slabs < kColdFactor * caches || machine_.peak_gb_per_s <= 0) return 0;
    return kFloorTolerance * static_cast<double>(instance.read_bytes) / (machine_.peak_gb_per_s * 1e3);
  }
  double wanted_batch_us() const override { return kBatchUs; }

 private:
  std::byte* at(int slab) const { return memory_->data() + slab * slab_bytes_; }

  double per_launch(double seconds, std::size_t launches) const {
    return std::max(1e-3, (seconds * 1e6 - overhead_us_) / static_cast<double>(launches));
  }

  // What the candidate's process is told between two batches is said here, before a slab holds anything that is timed.
  Status set_order(Slot slot, const std::vector<int>& tables) {
    if (orders_[slot] == tables) return ok_status();
    orders_[slot] = tables;
    return host_->set_order(slot, tables);
  }

  // Of a command that runs nothing: the least of several, so that no launch gains by it.
  Status measure_overhead() {
    if (const Status set = host_->set_order(kOnce, {}); !set) return set;
    overhead_us_ = 1e9;
    for (int i = 0; i < kOverheadSamples; ++i) {
      const auto ran = host_->run(kOnce);
      if (!ran) return ran.error();
      overhead_us_ = std::min(overhead_us_, *ran * 1e6);
    }
    return ok_status();
  }

  // After results were read, so that the process cannot mend them meanwhile.
  Status take_first_state() {
    if (!ran_ || first_state_) return ok_status();
    const auto state = host_->state();
    if (!state) return state.error();
    first_state_ = *state;
    return ok_status();
  }

  ArgumentTable table_of(int slab, int inputs, const Instance& instance, const SlabLayout& layout) const {
    ArgumentTable table;
    const std::int64_t base = slab * slab_bytes_;
    for (std::size_t i = 0; i < layout.tensors.size(); ++i) {
      const std::int64_t from = instance.tensors[i].output ? base : inputs * slab_bytes_;
      table.push_back({Word::Kind::address, from + layout.tensors[i], 0});
    }
    std::size_t integer = 0, real = 0;
    for (const Constant& constant : instance.task->constants) {
      table.push_back(constant.real ? Word{Word::Kind::real, 0, instance.values().reals[real++]}
                                    : Word{Word::Kind::integer, instance.values().integers[integer++], 0});
    }
    table.push_back({Word::Kind::address, base + layout.workspace, 0});
    return table;
  }

  Machine machine_;
  ForeignHost::Options options_;
  std::optional<SharedMemory> memory_;
  std::optional<ForeignHost> host_;
  std::int64_t slab_bytes_ = 0;
  int slabs_ = 0;
  std::array<std::vector<int>, 3> orders_;  // of tables: a slab's, or slabs_ more for the one with the inputs of slab 0
  bool ran_ = false;
  std::optional<std::uint64_t> first_state_;
  double overhead_us_ = 0;
};

}  // namespace

std::unique_ptr<TaskDevice> make_cpu_task_device(const Machine& machine, ForeignHost::Options options) {
  return std::make_unique<CpuTaskDevice>(machine, std::move(options));
}

}  // namespace warpsmith::task
