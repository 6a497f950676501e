// Images of slabs on the host: what is written before a run, what is read after it, and what of it may differ.
#include "task/task_backend.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>
#include <utility>

namespace warpsmith::task {

namespace {

// Slabs whose results are looked at after batches where references are dear, and that are looked at in the end.
constexpr std::size_t kLookedAt = 4, kFinalLooks = 16;
constexpr int kMostSlabs = 256;  // launches of a batch at most
constexpr int kFewestLaunches = 4;
constexpr int kMostEstimates = 3;
constexpr double kWorthAnother = 1.5;  // so many more launches
constexpr std::uint16_t kTimedPoison = kPoisonPatterns[0];
constexpr std::uint64_t kZoneKey = 0x5bd1e9955bd1e995ULL;

std::int64_t size_in_bytes(const Dataset& data) {
  std::size_t bytes = 0;
  for (const auto& input : data.inputs) bytes += input.size();
  for (const auto* lists : {&data.expected, &data.magnitudes}) {
    for (const auto& list : *lists) bytes += list.size() * sizeof(double);
  }
  return static_cast<std::int64_t>(bytes);
}

void set_pattern(std::byte* bytes, std::int64_t count, std::uint16_t pattern) {
  for (std::int64_t i = 0; i + 1 < count; i += 2) std::memcpy(bytes + i, &pattern, 2);
}

}  // namespace

std::vector<GateInput> gates_of(const Task& task, std::uint64_t seed, std::uint64_t fresh_seed) {
  std::vector<GateInput> gates;
  const auto add = [&](std::string gate, InputKind kind, std::uint64_t data_seed, GateStep::Place place) {
    const std::uint16_t poison = kPoisonPatterns[gates.size() % 2];
    gates.push_back({std::move(gate), {kind, data_seed, Criterion::bound, poison, place, {}}});
  };
  add("bound/declared", InputKind::normal, seed, GateStep::Place::fresh);
  for (const InputKind kind : task.data) {
    add(fmt::format("bound/{}", warpsmith::to_string(kind)), kind, seed, GateStep::Place::fresh);
  }
  add("freshness", InputKind::normal, fresh_seed, GateStep::Place::fresh);
  add("state", InputKind::normal, inputs::mix(fresh_seed + 1), GateStep::Place::kept);
  return gates;
}

TaskBackend::TaskBackend(TaskDevice& device, Reference& reference, std::uint64_t timing_seed)
    : device_(device), reference_(reference), timing_seed_(timing_seed), look_generator_(draw_seed()) {}

Status TaskBackend::open(const Instance& instance, std::int64_t workspace_bytes, bool zero_workspace) {
  instance_ = instance;
  layout_ = slab_of(instance, workspace_bytes);
  zero_workspace_ = zero_workspace;
  data_.reset();
  for (auto& order : orders_) order.clear();
  timed_inputs_.reset();
  batch_data_.clear();
  fault_.reset();
  timed_ = {true, {}, 0, 0};
  const double floor_us = std::max(1.0, device_.floor_us(instance, layout_.bytes, kMostSlabs));
  const bool timed = instance.values().timed;
  const int wanted = timed ? static_cast<int>(std::min<double>(kMostSlabs, device_.wanted_batch_us() / floor_us)) : 2;
  const auto room = device_.make_room(layout_.bytes, std::max(wanted, kFewestLaunches));
  if (!room) return room.error();
  slabs_ = *room;
  slab_ = 0;
  slab_seeds_.assign(static_cast<std::size_t>(slabs_), 0);
  slab_order_.resize(static_cast<std::size_t>(slabs_));
  std::iota(slab_order_.begin(), slab_order_.end(), 0);
  // Where data last, so do the slabs whose references are made first.
  std::mt19937_64 generator(device_.remembers() ? draw_seed() : timing_seed_);
  std::shuffle(slab_order_.begin(), slab_order_.end(), generator);
  if (timed) timed_inputs_.emplace(instance_, inputs::mix(timing_seed_));
  return ok_status();
}

Status TaskBackend::prepare(const Problem&, std::uint64_t) { return failure("a task is no matrix product"); }

Status TaskBackend::load(const Artifact& artifact, const nlohmann::json& launch) {
  return device_.load(artifact.binary, launch, instance_, layout_);
}

// --- data ---

std::shared_ptr<const Dataset> TaskBackend::known(const Source& source) const {
  if (passes(source)) {
    const auto found = batch_data_.find(source);
    return found == batch_data_.end() ? nullptr : found->second;
  }
  const auto found = datasets_.find({instance_.setting, source});
  return found == datasets_.end() ? nullptr : found->second;
}

Result<std::shared_ptr<const Dataset>> TaskBackend::dataset(const Source& source) {
  if (auto data = known(source)) return data;
  auto made = make(source);
  if (!made) return made.error();
  return keep(source, std::move(*made));
}

Result<Dataset> TaskBackend::make(const Source& source) {
  Dataset data;
  data.inputs = source.kind ? make_inputs(instance_, *source.kind, source.seed) : timed_inputs_->make(source.seed);
  if (const Status done = reference_.complete(instance_, data); !done) return done.error();
  return data;
}

// What was kept longest goes where memory is short.
std::shared_ptr<const Dataset> TaskBackend::keep(const Source& source, Dataset data) {
  if (passes(source)) return batch_data_[source] = std::make_shared<const Dataset>(std::move(data));
  const DataKey key{instance_.setting, source};
  dataset_bytes_ += size_in_bytes(data);
  // On virtual machines whose memory grows on demand a quarter of what there is now may be little.
  constexpr std::int64_t kLeast = std::int64_t{4} << 30;
  const std::int64_t most = std::max(kLeast, sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 4);
  while (dataset_bytes_ > most && !made_.empty()) {
    const auto oldest = datasets_.find(made_.front());
    dataset_bytes_ -= size_in_bytes(*oldest->second);
    datasets_.erase(oldest);
    made_.pop_front();
  }
  made_.push_back(key);
  return datasets_[key] = std::make_shared<const Dataset>(std::move(data));
}

Status TaskBackend::make_all(const std::vector<Source>& wanted) {
  std::vector<Source> missing;
  for (const Source& source : wanted) {
    const bool listed = std::find(missing.begin(), missing.end(), source) != missing.end();
    if (!listed && known(source) == nullptr) missing.push_back(source);
  }
  std::vector<std::optional<Result<Dataset>>> made(missing.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < missing.size(); i = next++) made[i] = make(missing[i]);
  };
  const std::size_t most = reference_.concurrent() ? std::max(1U, std::thread::hardware_concurrency()) : 1;
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < std::min(most, missing.size()); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < missing.size(); ++i) {
    if (!*made[i]) return made[i]->error();
    keep(missing[i], std::move(**made[i]));
  }
  return ok_status();
}

Status TaskBackend::make_data(const std::vector<GateInput>& gates) {
  std::vector<Source> wanted;
  for (const GateInput& gate : gates) wanted.push_back({gate.step.kind, gate.step.seed});
  return make_all(wanted);
}

// Where every batch has new data there is nothing to make yet.
Status TaskBackend::make_timing_data() {
  if (device_.remembers()) return ok_status();
  std::vector<int> slabs(slab_order_.begin(),
                         slab_order_.begin() + static_cast<std::ptrdiff_t>(std::min(kLookedAt, slab_order_.size())));
  slabs.push_back(0);  // whose inputs warm launches read
  std::vector<Source> wanted;
  for (const int slab : slabs) wanted.push_back({std::nullopt, lasting_seed(slab)});
  return make_all(wanted);
}

std::uint64_t TaskBackend::lasting_seed(int slab) const {
  return inputs::mix(timing_seed_ + static_cast<std::uint64_t>(slab) + 1);
}

Status TaskBackend::fill(InputKind kind, std::uint64_t seed) {
  slab_ = (slab_ + 1) % slabs_;
  return refill(kind, seed);
}

Status TaskBackend::refill(InputKind kind, std::uint64_t seed) {
  auto made = dataset({kind, seed});
  if (!made) return made.error();
  data_ = std::move(*made);
  return ok_status();
}

// --- images ---

TaskBackend::Bytes TaskBackend::image_of(const std::vector<std::vector<std::byte>>& inputs,
                                         std::uint16_t poison) const {
  Bytes image(static_cast<std::size_t>(layout_.bytes));
  const auto paint = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; at += 2) {
      const auto word = static_cast<std::uint16_t>(warpsmith::inputs::mix(kZoneKey + static_cast<std::uint64_t>(at)));
      std::memcpy(image.data() + at, &word, 2);
    }
  };
  std::int64_t at = 0;
  for (std::size_t i = 0; i < instance_.tensors.size(); ++i) {
    paint(at, layout_.tensors[i]);
    if (!is_output(i)) std::memcpy(image.data() + layout_.tensors[i], inputs[i].data(), inputs[i].size());
    at = layout_.tensors[i] + instance_.tensors[i].bytes;
  }
  paint(at, layout_.workspace);
  paint(layout_.workspace + layout_.workspace_bytes, layout_.bytes);
  set_pattern(image.data() + layout_.workspace, layout_.workspace_bytes, zero_workspace_ ? std::uint16_t{0} : poison);
  poison_outputs(image, poison);
  return image;
}

void TaskBackend::poison_outputs(Bytes& image, std::uint16_t poison) const {
  for (std::size_t i = 0; i < instance_.tensors.size(); ++i) {
    if (is_output(i)) set_pattern(image.data() + layout_.tensors[i], instance_.tensors[i].bytes, poison);
  }
}

void TaskBackend::scatter_poison(Bytes& image, std::uint16_t poison, const inputs::Holes& holes) const {
  for (std::size_t i = 0; i < instance_.tensors.size(); ++i) {
    if (!is_output(i)) continue;
    const Tensor& tensor = instance_.tensors[i];
    const std::int64_t size = size_of(tensor.type);
    for (std::int64_t at = 0; at < tensor.elements; ++at) {
      if (holes.at(at, tensor.elements)) set_pattern(image.data() + layout_.tensors[i] + at * size, size, poison);
    }
  }
}

Status TaskBackend::run(std::uint16_t poison, bool keep_workspace, const inputs::Holes* holes) {
  Bytes image = image_of(data_->inputs, poison);
  const auto keep = [&](std::int64_t offset, std::int64_t bytes) {
    std::memcpy(image.data() + offset, result_.data() + offset, static_cast<std::size_t>(bytes));
  };
  if (keep_workspace) keep(layout_.workspace, layout_.workspace_bytes);
  if (holes != nullptr) {
    for (std::size_t i = 0; i < instance_.tensors.size(); ++i) {
      if (is_output(i)) keep(layout_.tensors[i], instance_.tensors[i].bytes);
    }
    scatter_poison(image, poison, *holes);
  }
  image_ = std::move(image);
  result_.resize(image_.size());
  slab_seeds_[static_cast<std::size_t>(slab_)] = 0;
  if (const Status written = device_.write(slab_, image_.data()); !written) return written;
  if (const Status ran = device_.run(slab_); !ran) return ran;
  return device_.read(slab_, result_.data());
}

// --- what a run left ---

CheckReport TaskBackend::judge(const Bytes& slab, const Dataset& data) const {
  CheckReport report{true, {}, 0, 0};
  const std::size_t inputs = data.inputs.size();
  for (std::size_t i = inputs; i < instance_.tensors.size(); ++i) {
    const CheckReport one =
        judge_output(instance_.tensors[i], instance_.task->outputs[i - inputs].tolerance,
                     slab.data() + layout_.tensors[i], data.expected[i - inputs], data.magnitudes[i - inputs]);
    report.worst_error = std::max(report.worst_error, one.worst_error);
    report.bad += one.bad;
    if (report.passed && !one.passed) {
      report.passed = false;
      report.detail = one.detail;
    }
  }
  return report;
}

CheckReport TaskBackend::check(Criterion) { return judge(result_, *data_); }

std::string TaskBackend::place_of(std::int64_t offset) const {
  std::string before = "the start";
  for (std::size_t i = 0; i < instance_.tensors.size(); ++i) {
    const std::int64_t begin = layout_.tensors[i], end = begin + instance_.tensors[i].bytes;
    if (offset < begin) break;
    before = instance_.tensors[i].name;
    if (offset < end) return fmt::format("input {} was changed at byte {}", before, offset - begin);
  }
  if (offset >= layout_.workspace + layout_.workspace_bytes) before = "the workspace";
  return fmt::format("memory behind {} was written", before);
}

CheckReport TaskBackend::compare_untouched(const Bytes& slab, const Bytes& image) const {
  const auto differs = [&](std::int64_t begin, std::int64_t end) -> std::optional<std::int64_t> {
    const auto size = static_cast<std::size_t>(end - begin);
    if (std::memcmp(slab.data() + begin, image.data() + begin, size) == 0) return std::nullopt;
    const auto first = std::mismatch(slab.begin() + begin, slab.begin() + end, image.begin() + begin).first;
    return first - slab.begin();
  };
  std::int64_t at = 0;
  const auto look = [&](std::int64_t end) -> std::optional<CheckReport> {
    const auto place = differs(at, end);
    if (!place) return std::nullopt;
    return CheckReport{false, place_of(*place), 0, 1};
  };
  for (std::size_t i = 0; i < instance_.tensors.size(); ++i) {
    if (!is_output(i)) continue;
    if (const auto damage = look(layout_.tensors[i])) return *damage;
    at = layout_.tensors[i] + instance_.tensors[i].bytes;
  }
  if (const auto damage = look(layout_.workspace)) return *damage;
  at = layout_.workspace + layout_.workspace_bytes;
  if (const auto damage = look(layout_.bytes)) return *damage;
  if (zero_workspace_) {
    const auto begin = slab.begin() + layout_.workspace;
    const bool clear =
        std::all_of(begin, begin + layout_.workspace_bytes, [](std::byte b) { return b == std::byte{0}; });
    if (!clear) return {false, "the workspace was not left cleared", 0, 1};
  }
  return {true, {}, 0, 0};
}

CheckReport TaskBackend::check_untouched() { return compare_untouched(result_, image_); }

std::uint64_t TaskBackend::output_hash() {
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < instance_.tensors.size(); ++i) {
    if (!is_output(i)) continue;
    for (std::int64_t at = 0; at < instance_.tensors[i].bytes; at += 2) {
      std::uint16_t word = 0;
      std::memcpy(&word, result_.data() + layout_.tensors[i] + at, 2);
      hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
      hash ^= hash >> 29;
    }
  }
  return hash;
}

std::int64_t TaskBackend::count_equal_to(std::uint16_t pattern) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < instance_.tensors.size(); ++i) {
    if (!is_output(i)) continue;
    const Tensor& tensor = instance_.tensors[i];
    const std::int64_t size = size_of(tensor.type);
    const std::uint32_t wide = pattern * 0x10001U;
    for (std::int64_t at = 0; at < tensor.elements; ++at) {
      const std::byte* element = result_.data() + layout_.tensors[i] + at * size;
      if (std::memcmp(element, &wide, static_cast<std::size_t>(size)) == 0) ++count;
    }
  }
  return count;
}

// --- timing ---

// No two slabs hold the same data, and where a candidate could remember them no two batches do.
Status TaskBackend::write_timed(const std::vector<int>& slabs, bool renew) {
  for (const int slab : slabs) {
    std::uint64_t& seed = slab_seeds_[static_cast<std::size_t>(slab)];
    if (seed != 0 && !renew) continue;
    const std::uint64_t next = device_.remembers() ? draw_seed() : lasting_seed(slab);
    seed = 0;
    const Bytes image = image_of(timed_inputs_->make(next), kTimedPoison);
    if (const Status written = device_.write(slab, image.data()); !written) return written;
    seed = next;
  }
  return ok_status();
}

// The number of launches follows from what a few of them take. No launch can foresee which operands come next; warm
// ones all read the same.
Result<double> TaskBackend::arm(int, bool cold, bool) {
  const bool warm = !cold;
  timed_ = {true, {}, 0, 0};
  const auto choose = [&](double launches) {
    order(warm).assign(slab_order_.begin(), slab_order_.begin() + static_cast<std::ptrdiff_t>(launches));
    if (cold) std::shuffle(order(warm).begin(), order(warm).end(), look_generator_);
    const Status first = warm ? write_timed({0}, false) : ok_status();  // whose inputs warm launches read
    return first ? write_timed(order(warm), false) : first;
  };
  const double wanted_us = batch_us_ > 0 ? batch_us_ : device_.wanted_batch_us();
  const int few = std::min(kFewestLaunches, slabs_);
  double launches = few;
  for (int look = 0;; ++look) {
    if (const Status written = choose(launches); !written) return written.error();
    const auto estimate = arm_slabs(warm);
    if (!estimate || look == kMostEstimates) return estimate;
    const double better = std::clamp(std::ceil(wanted_us / std::max(*estimate, 1e-3)), static_cast<double>(few),
                                     static_cast<double>(slabs_));
    // The first estimate holds the cost of a start that a batch spreads over its launches.
    if (look > 0 && better < kWorthAnother * launches) return estimate;
    launches = better;
  }
}

// The slabs of the order, of which those stay that will be launched on; the estimate.
Result<double> TaskBackend::arm_slabs(bool warm) {
  const auto armed = device_.arm(order(warm), warm);
  if (!armed) return armed.error();
  order(warm).resize(static_cast<std::size_t>(armed->launches));
  return armed->estimate_us;
}

Status TaskBackend::poison_timed(const std::vector<int>& slabs) {
  for (const int slab : slabs) {
    for (std::size_t i = 0; i < instance_.tensors.size(); ++i) {
      if (!is_output(i)) continue;
      const Status done = device_.fill(slab, layout_.tensors[i], instance_.tensors[i].bytes, kTimedPoison);
      if (!done) return done;
    }
    if (layout_.workspace_bytes == 0) continue;
    const std::uint16_t pattern = zero_workspace_ ? 0 : kTimedPoison;
    const std::int64_t even = layout_.workspace_bytes / 2 * 2;
    if (const Status done = device_.fill(slab, layout_.workspace, even, pattern); !done) return done;
  }
  return ok_status();
}

// A launch of its own fetches what warm launches read. Outputs are poisoned after it, for it may have left results in
// all of them; nothing runs between that and the batch.
Status TaskBackend::make_ready(bool warm) {
  if (device_.remembers()) {
    batch_data_.clear();
    const Status renewed = write_timed(warm ? std::vector<int>{0} : order(warm), true);
    if (!renewed || !warm) return renewed;  // poison came with the data
  }
  if (warm) {
    if (const Status fetched = device_.run(0); !fetched) return fetched;
    if (const Status poisoned = poison_timed({0}); !poisoned) return poisoned;
  }
  return poison_timed(order(warm));
}

// Any of the batch where each has new references anyway; else one of those whose reference is there.
int TaskBackend::slab_to_look_at(bool warm) {
  std::vector<int> slabs = order(warm);
  if (!warm && !device_.remembers()) {
    std::erase_if(slabs, [&](int slab) { return known(timed_source(slab)) == nullptr; });
    if (slabs.empty()) slabs = order(warm);
  }
  return slabs[look_generator_() % slabs.size()];
}

// Looks at one slab's results after every batch.
Result<double> TaskBackend::time_armed(bool warm) {
  last_warm_ = warm;
  const auto time_us = device_.time(warm);
  if (!time_us) return time_us;
  const CheckReport seen = check_timed_slab(slab_to_look_at(warm), warm);
  if (!seen.passed && timed_.passed) timed_ = seen;
  return time_us;
}

Result<double> TaskBackend::time_batch(int, bool cold, bool) {
  if (const Status ready = make_ready(!cold); !ready) return ready.error();
  return time_armed(!cold);
}

CheckReport TaskBackend::failed_reference(const Error& error) {
  if (!fault_) fault_ = error;
  return {false, error.message, 0, 0};
}

CheckReport TaskBackend::check_timed_slab(int slab, bool warm) {
  result_.resize(static_cast<std::size_t>(layout_.bytes));
  if (const Status read = device_.read(slab, result_.data()); !read) return {false, read.error().message, 0, 0};
  const auto data = dataset(timed_source(warm ? 0 : slab));
  if (!data) return failed_reference(data.error());
  const Bytes image = image_of(timed_inputs_->make(timed_source(slab).seed), kTimedPoison);
  CheckReport untouched = compare_untouched(result_, image);
  return untouched.passed ? judge(result_, **data) : untouched;
}

// Of what the last batch left, warm results all, cold ones as many as references are worth.
std::vector<int> TaskBackend::last_looks(bool warm) {
  std::vector<int> slabs = order(warm);
  if (warm || slabs.size() <= kFinalLooks) return slabs;
  std::shuffle(slabs.begin(), slabs.end(), look_generator_);
  slabs.resize(kFinalLooks);
  return slabs;
}

// What the last batch left, then what one more of the other kind leaves, which looks like all before it.
Result<CheckReport> TaskBackend::check_timed_outputs(int) {
  CheckReport report = timed_;
  const bool last = last_warm_;
  for (const bool warm : {last, !last}) {
    if (!report.passed || order(warm).empty()) break;
    if (warm != last) {
      if (const auto timed = time_batch(0, !warm, false); !timed) return timed.error();
    }
    const std::vector<int> slabs = last_looks(warm);
    std::vector<Source> wanted;
    for (const int slab : slabs) wanted.push_back(timed_source(warm ? 0 : slab));
    if (const Status made = make_all(wanted); !made) return failed_reference(made.error());
    for (const int slab : slabs) {
      const CheckReport one = check_timed_slab(slab, warm);
      const double worst = std::max(report.worst_error, one.worst_error);
      report = one;
      report.worst_error = worst;
      if (!report.passed) break;
    }
  }
  return report;
}

Status TaskBackend::ready_call(int, bool cold) {
  const std::size_t some = std::min(kLookedAt, slab_order_.size());  // whose references are there
  const std::vector<int> one = {cold ? slab_order_[look_generator_() % some] : 0};
  if (order(!cold) != one) {
    order(!cold) = one;
    if (const Status written = write_timed(one, false); !written) return written;
    if (const auto armed = arm_slabs(!cold); !armed) return armed.error();
  }
  return make_ready(!cold);
}

Result<double> TaskBackend::call(int, bool cold) { return time_armed(!cold); }

// Warm operands need not come from memory.
std::optional<std::string> TaskBackend::under_floor(const Measurement& measured) const {
  const double cold_us = device_.floor_us(instance_, layout_.bytes, static_cast<int>(orders_[0].size()));
  for (const auto& [name, stats, floor_us] : {std::tuple("cold", measured.cold, cold_us),
                                              std::tuple("warm", measured.warm, device_.machine().launch_floor_us)}) {
    if (stats.samples == 0 || stats.median_us >= floor_us) continue;
    return fmt::format("{} time {:.3f} us is under the physical floor of {:.3f} us", name, stats.median_us, floor_us);
  }
  return std::nullopt;
}

}  // namespace warpsmith::task
