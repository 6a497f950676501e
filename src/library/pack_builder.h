// Which kernels a pack holds, and their compilation in parallel. Needs a compiler and no GPU.
#pragma once

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/generate.h"
#include "compile/compile.h"
#include "library/pack.h"
#include "problem/machine.h"
#include "wisdom/wisdom.h"

namespace warpsmith::library {

// The machine of a wisdom file as the library describes it where it runs, so that choices are the same: with the limits
// of its compute capability, and of a known machine (model/known_machines.h) with what only the device can tell.
Machine machine_of(const WisdomHeader& header);

struct PackVariants {
  bool scaled = true;                   // kernels with alpha and beta beside the plain ones
  std::vector<ElementType> elements{};  // empty: each entry's own
  std::string arch{};                   // kernels of this architecture alone; empty: all
};

struct PackPlan {
  std::map<std::string, Candidate> kernels;  // by kernel_key()
  std::size_t entries = 0;                   // of the wisdom file
  std::vector<std::string> left_out;         // "problem: reason", one a recipe that has no kernel here
};

// The kernels that calls of exactly the tuned problems use, in every variant asked for, and those that the library
// would choose for `problems`, whatever the options of its handle. Entries that cuBLASLt won count too: their
// neighbours may want the kernel.
PackPlan plan_pack(const Wisdom& wisdom, const Machine& machine, const PackVariants& variants,
                   const std::vector<Problem>& problems);

struct PackProgress {
  std::size_t done = 0, total = 0, failed = 0, from_cache = 0;
};
struct PackReport {
  PackProgress progress;
  std::vector<std::string> failures;  // "key: the compiler's words", at most kMostFailures
  std::uintmax_t file_bytes = 0;
};
inline constexpr std::size_t kMostFailures = 8;

// Compiles with `jobs` compilers at a time and writes the pack when none failed for lack of a compiler. A kernel that
// does not compile is left out and reported. Error: environment; failed when `stop` was set.
Result<PackReport> build_pack(const PackPlan& plan, const Compiler& compiler, int jobs, nlohmann::json metadata,
                              const std::filesystem::path& output, const std::atomic<bool>& stop,
                              const std::function<void(const PackProgress&)>& on_progress);

}  // namespace warpsmith::library
