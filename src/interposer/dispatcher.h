// Decides for each call whether libwarpsmith runs it, and runs it. One library handle a device and one plan a distinct
// problem, made at the first call of their kind and kept until the process ends.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>

#include "interposer/call_log.h"
#include "interposer/product.h"

namespace warpsmith::interposer {

// The environment's say, read once.
struct Settings {
  bool enabled = true;       // WARPSMITH_INTERPOSE=0 turns all off
  bool compile = true;       // WARPSMITH_INTERPOSE_COMPILE=0: kernels come from the pack and the disk cache alone
  bool share = false;        // WARPSMITH_SHARING=any: no kernels whose blocks wait for one another
  std::FILE* log = nullptr;  // WARPSMITH_INTERPOSE_LOG
};
Settings read_settings();

struct Scalars {
  float alpha = 1, beta = 0;
};
struct Operands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* d = nullptr;
};

class Dispatcher {
 public:
  explicit Dispatcher(const Settings& settings);

  bool enabled() const { return settings_.enabled; }
  // Null: the product is queued on the stream. Else the reason why cuBLAS has to run it: nothing was queued.
  const char* run(const Product& product, const Scalars& scalars, const Operands& operands, cudaStream_t stream);
  // For the log alone.
  void note(const char* function, const Product& product, const char* reason);
  bool logs() const { return log_.enabled(); }
  void finish() { log_.write_totals(); }

 private:
  static constexpr int kMostDevices = 64;
  static constexpr std::size_t kMostPlans = 1 << 16;  // problems beyond these are cuBLAS's

  struct Key {
    int device = 0;
    warpsmith_problem_t problem{};
    bool operator==(const Key& other) const;
  };
  struct HashKey {
    std::size_t operator()(const Key& key) const;
  };
  // Of one problem. `reason` is null where the plan is to be used.
  struct Entry {
    std::atomic<bool> claimed{false};  // a thread prepares it, or has
    std::atomic<bool> ready{false};
    warpsmith_plan_t plan = nullptr;
    const char* reason = nullptr;
  };
  struct Recent {
    const Dispatcher* owner = nullptr;
    Key key;
    Entry* entry = nullptr;
  };

  Entry* find(const Key& key, std::size_t hash, cudaStream_t stream, const char*& reason);
  bool prepare(const Key& key, Entry& entry);
  warpsmith_handle_t handle_of(int device, bool& short_of_memory);
  std::string explain(const Product& product);

  Settings settings_;
  CallLog log_;
  std::shared_mutex mutex_;  // of entries_
  std::unordered_map<Key, std::unique_ptr<Entry>, HashKey> entries_;
  std::mutex handle_mutex_;
  std::array<warpsmith_handle_t, kMostDevices> handles_{};
  std::array<bool, kMostDevices>
      tried_{};  // a device that gave no handle, for another reason than memory, is not asked again
};

// The process's own; its totals are written at exit.
Dispatcher& dispatcher();

// While one lives, calls of its thread reach the real library: what cuBLAS and libwarpsmith call themselves is theirs.
class Inside {
 public:
  Inside() { ++depth(); }
  ~Inside() { --depth(); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  static bool now() { return depth() > 0; }

 private:
  static int& depth() {
    static thread_local int value = 0;
    return value;
  }
};

}  // namespace warpsmith::interposer
