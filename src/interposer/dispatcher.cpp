// Plans, handles and the way to them.
#include "interposer/dispatcher.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

#include "interposer/driver_state.h"

namespace warpsmith::interposer {

namespace {

bool is(const char* variable, std::string_view wanted) {
  const char* value = std::getenv(variable);
  return value != nullptr && value == wanted;
}

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
  return hash ^ (hash >> 29);
}

}  // namespace

Settings read_settings() {
  Settings settings;
  settings.enabled = !is("WARPSMITH_INTERPOSE", "0");
  settings.compile = !is("WARPSMITH_INTERPOSE_COMPILE", "0");
  settings.share = is("WARPSMITH_SHARING", "any");
  const char* log = std::getenv("WARPSMITH_INTERPOSE_LOG");
  if (log == nullptr || *log == '\0') return settings;
  if (std::string_view(log) == "stderr") {
    settings.log = stderr;
    return settings;
  }
  settings.log = std::fopen(log, "a");
  if (settings.log == nullptr) fmt::print(stderr, "warpsmith: cannot write WARPSMITH_INTERPOSE_LOG={}\n", log);
  return settings;
}

bool Dispatcher::Key::operator==(const Key& other) const {
  return device == other.device && std::memcmp(&problem, &other.problem, sizeof problem) == 0;
}

// Every member has a word of its own or shares one with its neighbour: there is no padding to compare.
static_assert(sizeof(warpsmith_problem_t) == 4 * sizeof(int) + 14 * sizeof(std::int64_t));

std::size_t Dispatcher::HashKey::operator()(const Key& key) const {
  const warpsmith_problem_t& p = key.problem;
  const auto ops = static_cast<std::uint64_t>(p.op_a) | static_cast<std::uint64_t>(p.op_b) << 1 |
                   static_cast<std::uint64_t>(p.type) << 2 | static_cast<std::uint64_t>(key.device) << 3;
  std::uint64_t hash = ops;
  for (const std::int64_t value :
       {p.m, p.n, p.k, p.lda, p.ldb, p.ldc, p.stride_a, p.stride_b, p.stride_c, p.batch_count}) {
    hash = mix(hash, static_cast<std::uint64_t>(value));
  }
  return static_cast<std::size_t>(hash);
}

Dispatcher::Dispatcher(const Settings& settings) : settings_(settings), log_(settings.log) {}

warpsmith_handle_t Dispatcher::handle_of(int device, bool& short_of_memory) {
  if (device < 0 || device >= kMostDevices) return nullptr;
  const auto index = static_cast<std::size_t>(device);
  const std::lock_guard lock(handle_mutex_);
  if (tried_[index]) return handles_[index];
  tried_[index] = true;
  warpsmith_options_t options{};
  options.fallback = WARPSMITH_FALLBACK_NONE;  // what cuBLAS does better goes to the one that the program loaded
  options.compile = settings_.compile ? WARPSMITH_COMPILE_WHEN_MISSING : WARPSMITH_COMPILE_NEVER;
  options.sharing = settings_.share ? WARPSMITH_SHARING_ANY : WARPSMITH_SHARING_EQUAL;
  const warpsmith_status_t status = warpsmith_create_with_options(&handles_[index], &options);
  if (status != WARPSMITH_STATUS_SUCCESS) {
    handles_[index] = nullptr;
    short_of_memory = status == WARPSMITH_STATUS_OUT_OF_MEMORY;
    tried_[index] = !short_of_memory;
    if (short_of_memory) return nullptr;
    fmt::print(stderr, "warpsmith: device {} keeps to cuBLAS: {}\n", device, warpsmith_status_string(status));
  }
  return handles_[index];
}

// False where memory ran out: another time there may be some.
bool Dispatcher::prepare(const Key& key, Entry& entry) {
  const RelaxedCapture relaxed;
  const Inside inside;
  bool short_of_memory = false;
  const warpsmith_handle_t handle = handle_of(key.device, short_of_memory);
  if (short_of_memory) return false;
  if (handle == nullptr) {
    entry.reason = "no warpsmith handle";
  } else {
    const warpsmith_status_t status = warpsmith_plan_create(handle, &key.problem, &entry.plan);
    if (status == WARPSMITH_STATUS_OUT_OF_MEMORY) return false;
    if (status == WARPSMITH_STATUS_NOT_COVERED) {
      entry.reason = "cuBLAS is the better choice";
    } else if (status != WARPSMITH_STATUS_SUCCESS) {
      entry.reason = warpsmith_status_string(status);
    }
  }
  entry.ready.store(true, std::memory_order_release);
  return true;
}

// The problem's entry once it is ready; else null and the reason.
Dispatcher::Entry* Dispatcher::find(const Key& key, std::size_t hash, cudaStream_t stream, const char*& reason) {
  thread_local std::array<Recent, 64> recent;
  Recent& slot = recent[hash % recent.size()];
  if (slot.owner == this && slot.key == key) return slot.entry;
  Entry* entry = nullptr;
  {
    const std::shared_lock lock(mutex_);
    const auto found = entries_.find(key);
    if (found != entries_.end()) entry = found->second.get();
  }
  if (entry == nullptr) {
    const std::unique_lock lock(mutex_);
    if (entries_.size() >= kMostPlans) {
      reason = "too many distinct problems";
      return nullptr;
    }
    auto& place = entries_[key];
    if (place == nullptr) place = std::make_unique<Entry>();
    entry = place.get();
  }
  if (!entry->ready.load(std::memory_order_acquire)) {
    if (is_capturing(stream)) {
      reason = "first call of its kind, in a stream capture";
      return nullptr;
    }
    if (entry->claimed.exchange(true)) {
      reason = "another thread is preparing it";
      return nullptr;
    }
    if (!prepare(key, *entry)) {
      entry->claimed = false;
      reason = "out of memory";
      return nullptr;
    }
  }
  slot = {this, key, entry};
  return entry;
}

const char* Dispatcher::run(const Product& product, const Scalars& scalars, const Operands& operands,
                            cudaStream_t stream) {
  const RowMajor mapped = to_row_major(product);
  if (mapped.refusal != nullptr) return mapped.refusal;
  const auto device = current_device();
  if (!device) return "no current device";
  const Key key{*device, mapped.problem};
  const char* reason = nullptr;
  const Entry* entry = find(key, HashKey()(key), stream, reason);
  if (entry == nullptr) return reason;
  if (entry->reason != nullptr) return entry->reason;
  const Inside inside;
  const void* left = mapped.swapped ? operands.b : operands.a;
  const void* right = mapped.swapped ? operands.a : operands.b;
  const warpsmith_status_t status =
      warpsmith_plan_run(entry->plan, scalars.alpha, left, right, scalars.beta, operands.d, stream);
  return status == WARPSMITH_STATUS_SUCCESS ? nullptr : warpsmith_status_string(status);
}

std::string Dispatcher::explain(const Product& product) {
  const RowMajor mapped = to_row_major(product);
  const auto device = current_device();
  if (mapped.refusal != nullptr || !device || *device < 0 || *device >= kMostDevices) return {};
  const Inside inside;
  warpsmith_handle_t handle = nullptr;
  {
    const std::lock_guard lock(handle_mutex_);
    handle = handles_[static_cast<std::size_t>(*device)];
  }
  std::string text(8192, '\0');
  if (handle == nullptr ||
      warpsmith_explain(handle, &mapped.problem, text.data(), text.size()) != WARPSMITH_STATUS_SUCCESS) {
    return {};
  }
  return text.c_str();
}

void Dispatcher::note(const char* function, const Product& product, const char* reason) {
  log_.record(function, product, reason, [&] { return explain(product); });
}

// Never destroyed: calls may come until the process is gone.
Dispatcher& dispatcher() {
  static Dispatcher& instance = *[] {
    auto* made = new Dispatcher(read_settings());
    std::atexit([] { dispatcher().finish(); });
    return made;
  }();
  return instance;
}

}  // namespace warpsmith::interposer
