// Compiled kernels of one context: from the kernel pack, the disk cache or the compiler, each loaded once.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/result.h"
#include "codegen/generate.h"
#include "compile/compile.h"
#include "library/pack.h"
#include "library/runtime/driver.h"

namespace warpsmith::library {

enum class CubinOrigin { pack, cache, compiled, missing };
const char* to_string(CubinOrigin origin);

class KernelStore {
 public:
  // pack may be null. compiles: whether a kernel that is nowhere may be compiled.
  KernelStore(const Driver& cuda, std::shared_ptr<const Pack> pack, CompilerOptions compiler, bool compiles);
  KernelStore(const KernelStore&) = delete;
  KernelStore& operator=(const KernelStore&) = delete;
  ~KernelStore();  // unloads all; the context is current

  // The candidate's module in the current context. A thread that asks for a kernel that another one is fetching waits
  // for it; no lock is held meanwhile, so all other kernels go on. Error: environment (no compiler, no memory) or
  // failed; it is remembered, except for environment errors. short_of_memory: set to whether the device had no memory
  // for the module, as it may have another time.
  Result<CUmodule> get(const Candidate& candidate, bool& short_of_memory);

  // Where get() would find the kernel now; nothing is compiled or loaded. Loaded ones count as where they came from;
  // `missing`: it would be compiled. Nothing: get() would fail.
  std::optional<CubinOrigin> origin(const Candidate& candidate);

 private:
  class Fetching;
  struct Slot {
    bool busy = false;
    std::optional<Result<CUmodule>> module;
    CubinOrigin origin = CubinOrigin::missing;
  };

  Result<CUmodule> fetch(const std::string& key, const Candidate& candidate, CubinOrigin& origin,
                         bool& short_of_memory);
  Result<std::string> cubin_of(const std::string& key, const Candidate& candidate, CubinOrigin& origin);

  void warn_of_compiler();

  const Driver& cuda_;
  std::shared_ptr<const Pack> pack_;
  Compiler compiler_;
  bool compiles_;
  std::mutex mutex_;
  std::condition_variable fetched_;
  std::unordered_map<std::string, Slot> slots_;  // by kernel_key()
  bool warned_pack_ = false, warned_compiler_ = false;
};

}  // namespace warpsmith::library
