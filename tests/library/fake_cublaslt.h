// A cuBLASLt that runs nothing: it writes down what it is asked to choose and to run. Tests of the runtime open it in
// the place of the real one, through their run path.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fake {

// What has been asked of it since the last reset.
struct LtLog {
  std::int64_t heuristics = 0, runs = 0;
  std::uint32_t alignment = 0;  // of A at the last question; 0: not told
  std::size_t most_bytes = 0;   // of workspace at the last question
  std::size_t run_bytes = 0;    // of workspace at the last run
  const void* run_workspace = nullptr;
};

// Entries, found by dlsym: "fake_lt_log", "fake_lt_reset".
using LtLogFunction = const LtLog& (*)();
using LtResetFunction = void (*)();

// What its only algorithm takes where it may.
inline constexpr std::size_t kLtWantsBytes = 8 << 20;

}  // namespace fake
