// What a backend does unless its device knows better: the host's clock, waiting, no exhaustive search.
#include "evaluate/backend.h"

#include <chrono>
#include <thread>

namespace warpsmith {

namespace {

constexpr double kSpinSeconds = 5e-4;  // a sleeper wakes up late by less than this, mostly

}  // namespace

double Backend::now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The end is spent spinning: a host that has just woken up calls more slowly.
void Backend::idle(double seconds) {
  const double until = now_seconds() + seconds;
  if (seconds > kSpinSeconds) std::this_thread::sleep_for(std::chrono::duration<double>(seconds - kSpinSeconds));
  while (now_seconds() < until) {
  }
}

Status Backend::change_layout(Layout) { return failure("this device surveys one layout at a time"); }

Result<int> Backend::keep_candidate() { return failure("this device times one candidate at a time"); }

Result<nlohmann::json> Backend::compare_errors(int) { return failure("errors are compared on CUDA devices only"); }

Result<std::vector<std::string>> Backend::open_exhaustive(double, const WorkProgress&) {
  return failure("an exhaustive search of library configurations exists for cuBLASLt, on CUDA devices, only");
}

}  // namespace warpsmith
