// The CPU worker, but a recipe with preload=pages gets a kernel that crashes and one with preload=b a kernel that
// computes something else: candidates that no recipe of the family describes. Both come from modules beside this
// program.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "base/paths.h"
#include "evaluate/cpu/cpu_backend.h"
#include "evaluate/cpu/openblas_coretype.h"

namespace warpsmith {
namespace {

constexpr std::size_t kPreload = 7;  // its place among the launch's parameters

class SwappingBackend final : public CpuBackend {
 public:
  using CpuBackend::CpuBackend;
  Status load(const Artifact& artifact, const nlohmann::json& launch) override {
    Artifact other = artifact;
    const int preload = launch.at("parameters").at(kPreload).get<int>();
    if (preload == 1) other.binary = executable_dir() / "crashing_kernel.so";
    if (preload == 2) other.binary = executable_dir() / "wrong_kernel.so";
    return CpuBackend::load(other, launch);
  }
};

}  // namespace
}  // namespace warpsmith

#ifdef __SANITIZE_ADDRESS__
// As in the real worker: a crash is the signal that it is.
extern "C" const char* __asan_default_options() {
  return "handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0";
}
#endif

int main(int argc, char** argv) {
  CLI::App app{"Worker process with kernels that crash or are wrong"};
  int threads = 1;
  bool probe = false, identify = false;
  app.add_option("--threads", threads)->check(CLI::Range(1, 1024));
  app.add_flag(warpsmith::kProbeFlag, probe);
  app.add_flag(warpsmith::kIdentifyFlag, identify);
  CLI11_PARSE(app, argc, argv);
  if (probe) return warpsmith::probe_openblas();
  if (identify) return warpsmith::identify_openblas();
  try {
    warpsmith::SwappingBackend backend(threads);
    return warpsmith::serve_worker(backend);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
}
