// Fetching, loading and sharing modules.
#include "library/runtime/kernel_store.h"

#include <fmt/format.h>

#include <utility>

#include "base/file.h"
#include "library/runtime/errors.h"

namespace warpsmith::library {

const char* to_string(CubinOrigin origin) {
  switch (origin) {
    case CubinOrigin::pack:
      return "pack";
    case CubinOrigin::cache:
      return "cache";
    case CubinOrigin::compiled:
      return "compiled";
    case CubinOrigin::missing:
      break;
  }
  return "missing";
}

// Marks a slot as being fetched until it goes, whichever way that is: others wait for it.
class KernelStore::Fetching {
 public:
  Fetching(KernelStore& store, Slot& slot) : store_(store), slot_(slot) { slot_.busy = true; }  // under the lock
  Fetching(const Fetching&) = delete;
  Fetching& operator=(const Fetching&) = delete;
  ~Fetching() {
    {
      const std::lock_guard lock(store_.mutex_);
      slot_.busy = false;
    }
    store_.fetched_.notify_all();
  }

 private:
  KernelStore& store_;
  Slot& slot_;
};

KernelStore::KernelStore(const Driver& cuda, std::shared_ptr<const Pack> pack, CompilerOptions compiler, bool compiles)
    : cuda_(cuda), pack_(std::move(pack)), compiler_(std::move(compiler)), compiles_(compiles) {}

KernelStore::~KernelStore() {
  for (auto& [key, slot] : slots_) {
    if (slot.module && slot.module->ok()) cuda_.module_unload(slot.module->value());
  }
}

Result<std::string> KernelStore::cubin_of(const std::string& key, const Candidate& candidate, CubinOrigin& origin) {
  if (pack_) {
    auto packed = pack_->find(key);
    if (packed && packed->has_value()) {
      origin = CubinOrigin::pack;
      return std::move(**packed);
    }
    if (!packed) {
      const std::lock_guard lock(mutex_);
      if (!std::exchange(warned_pack_, true)) warn(packed.error().message + "; such kernels are compiled instead");
    }
  }
  std::optional<Artifact> artifact = compiler_.find(candidate);
  if (artifact) {
    origin = CubinOrigin::cache;
  } else if (compiles_) {
    auto compiled = compiler_.compile(candidate);
    if (!compiled) {
      warn_of_compiler();
      return compiled.error();
    }
    artifact = std::move(*compiled);
    origin = CubinOrigin::compiled;
  } else {
    return environment_error("the kernel is in neither the pack nor the cache, and compiling is off");
  }
  return read_file(artifact->binary);
}

// Without one the calls still run, and nothing else would tell why they are not ours.
void KernelStore::warn_of_compiler() {
  const Status available = compiler_.available(Language::cuda);
  if (available) return;
  const std::lock_guard lock(mutex_);
  if (std::exchange(warned_compiler_, true)) return;
  const std::string& reason = available.error().message;
  warn(fmt::format("no compiler ({}): cuBLASLt runs what the kernel pack lacks; set WARPSMITH_NVRTC",
                   reason.substr(0, reason.find('\n'))));
}

Result<CUmodule> KernelStore::fetch(const std::string& key, const Candidate& candidate, CubinOrigin& origin,
                                    bool& short_of_memory) {
  const Result<std::string> cubin = cubin_of(key, candidate, origin);
  if (!cubin) return cubin.error();
  CUmodule module = nullptr;
  const CUresult loaded = cuda_.module_load(&module, cubin->data());
  short_of_memory = loaded == CUDA_ERROR_OUT_OF_MEMORY;
  if (loaded != CUDA_SUCCESS) return cuda_error(cuda_, "cuModuleLoadData", loaded);
  return module;
}

Result<CUmodule> KernelStore::get(const Candidate& candidate, bool& short_of_memory) {
  short_of_memory = false;
  const std::string key = kernel_key(candidate.arch, candidate.source);
  std::unique_lock lock(mutex_);
  Slot& slot = slots_[key];  // its place is final
  fetched_.wait(lock, [&] { return !slot.busy; });
  if (slot.module) return *slot.module;
  const Fetching fetching(*this, slot);
  lock.unlock();
  CubinOrigin origin = CubinOrigin::missing;
  const Result<CUmodule> module = fetch(key, candidate, origin, short_of_memory);
  if (module || module.error().kind != ErrorKind::environment) {
    lock.lock();
    slot.module = module;
    slot.origin = origin;
    lock.unlock();
  }
  return module;
}

std::optional<CubinOrigin> KernelStore::origin(const Candidate& candidate) {
  const std::string key = kernel_key(candidate.arch, candidate.source);
  {
    const std::lock_guard lock(mutex_);
    const auto found = slots_.find(key);
    if (found != slots_.end() && found->second.module) {
      return *found->second.module ? std::optional(found->second.origin) : std::nullopt;
    }
  }
  if (pack_ && pack_->contains(key)) return CubinOrigin::pack;
  if (compiler_.find(candidate)) return CubinOrigin::cache;
  return compiles_ && compiler_.available(Language::cuda) ? std::optional(CubinOrigin::missing) : std::nullopt;
}

}  // namespace warpsmith::library
