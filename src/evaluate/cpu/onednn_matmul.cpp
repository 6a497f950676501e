// Opens the module beside this executable, once per process.
#include "evaluate/cpu/onednn_matmul.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "base/paths.h"

namespace warpsmith {

namespace {

Result<const OneDnnModule*> load_module() {
  const auto file = executable_dir() / kOneDnnModuleFile;
  std::error_code error;
  if (!std::filesystem::exists(file, error)) {
    return environment_error(fmt::format("{} is not there: it is built where oneDNN's headers are", file.string()));
  }
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return environment_error(dlerror());
  const auto entry = reinterpret_cast<const OneDnnModule* (*)()>(dlsym(library, kOneDnnModuleSymbol));
  if (entry == nullptr) return environment_error(dlerror());
  return entry();
}

}  // namespace

Result<std::unique_ptr<OneDnnMatmul>> OneDnnMatmul::create(const OneDnnMatmulSpec& spec) {
  static const auto module = load_module();
  if (!module) return module.error();
  std::array<char, 256> text{};
  void* matmul = (*module)->create(&spec, text.data(), text.size());
  if (matmul == nullptr) return environment_error(fmt::format("{}: {}", (*module)->version(), text.data()));
  return std::unique_ptr<OneDnnMatmul>(new OneDnnMatmul(*module, matmul, text.data()));
}

OneDnnMatmul::~OneDnnMatmul() { module_->destroy(matmul_); }

void OneDnnMatmul::run(const void* a, const void* b, void* c) const {
  if (!module_->run(matmul_, a, b, c)) throw EnvironmentError("oneDNN's matmul failed");
}

}  // namespace warpsmith
