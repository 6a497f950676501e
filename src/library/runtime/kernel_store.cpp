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
    if (!compiled) return compiled.error();
    artifact = std::move(*compiled);
    origin = CubinOrigin::compiled;
  } else {
    return environment_error("the kernel is in neither the pack nor the cache, and compiling is off");
  }
  return read_file(artifact->binary);
}

Result<CUmodule> KernelStore::fetch(const std::string& key, const Candidate& candidate, CubinOrigin& origin) {
  const Result<std::string> cubin = cubin_of(key, candidate, origin);
  if (!cubin) return cubin.error();
  CUmodule module = nullptr;
  const CUresult loaded = cuda_.module_load(&module, cubin->data());
  if (loaded != CUDA_SUCCESS) return failure(fmt::format("cuModuleLoadData: {}", describe(cuda_, loaded)));
  return module;
}

Result<CUmodule> KernelStore::get(const Candidate& candidate) {
  const std::string key = kernel_key(candidate.arch, candidate.source);
  std::unique_lock lock(mutex_);
  Slot& slot = slots_[key];  // its place is final
  fetched_.wait(lock, [&] { return !slot.busy; });
  if (slot.module) return *slot.module;
  slot.busy = true;
  lock.unlock();
  CubinOrigin origin = CubinOrigin::missing;
  const Result<CUmodule> module = fetch(key, candidate, origin);
  lock.lock();
  slot.busy = false;
  if (module || module.error().kind != ErrorKind::environment) {
    slot.module = module;
    slot.origin = origin;
  }
  lock.unlock();
  fetched_.notify_all();
  return module;
}

CubinOrigin KernelStore::origin(const Candidate& candidate) {
  const std::string key = kernel_key(candidate.arch, candidate.source);
  {
    const std::lock_guard lock(mutex_);
    const auto found = slots_.find(key);
    if (found != slots_.end() && found->second.module) return found->second.origin;
  }
  if (pack_ && pack_->contains(key)) return CubinOrigin::pack;
  return compiler_.find(candidate) ? CubinOrigin::cache : CubinOrigin::missing;
}

}  // namespace warpsmith::library
