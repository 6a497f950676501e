// The log that WARPSMITH_INTERPOSE_LOG asks for: one JSON line for each distinct call, and totals at exit.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "interposer/product.h"

namespace warpsmith::interposer {

class CallLog {
 public:
  explicit CallLog(std::FILE* file) : file_(file) {}  // null: nothing is written

  bool enabled() const { return file_ != nullptr; }
  // `reason`: why cuBLAS ran it; null: libwarpsmith did. `explain` gives the JSON of warpsmith_explain() for a call
  // that is new, or an empty text.
  void record(const char* function, const Product& product, const char* reason,
              const std::function<std::string()>& explain);
  void write_totals();

 private:
  using Key = std::pair<std::string, std::string>;  // call, reason

  std::FILE* file_;
  std::mutex mutex_;
  std::map<Key, std::int64_t> calls_;
};

// Everything that tells calls apart, as JSON.
std::string describe(const Product& product);

}  // namespace warpsmith::interposer
