// warpsmith-worker-cpu: proves and times CPU candidates for a parent process, over file descriptor 3. Not for people.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "evaluate/backend.h"
#include "evaluate/cpu/cpu_backend.h"
#include "evaluate/cpu/machine_facts.h"
#include "evaluate/cpu/openblas_coretype.h"
#include "evaluate/task_judge.h"
#include "task/service.h"

#ifdef __SANITIZE_ADDRESS__
// A candidate's crash reaches the parent as the signal that it is, in this build too.
extern "C" const char* __asan_default_options() {
  return "handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0";
}
#endif

int main(int argc, char** argv) {
  CLI::App app{"Worker process of warpsmith for CPU kernels; started by warpsmith"};
  int threads = 1;
  bool probe = false, identify = false;
  app.add_option("--threads", threads, "Threads a kernel may use")->check(CLI::Range(1, 1024));
  app.add_flag(warpsmith::kProbeFlag, probe, "Measure OpenBLAS under the current environment");
  app.add_flag(warpsmith::kIdentifyFlag, identify, "Print OpenBLAS's version");
  CLI11_PARSE(app, argc, argv);
  if (probe) return warpsmith::probe_openblas();
  if (identify) return warpsmith::identify_openblas();
  if (const auto able = warpsmith::require_cpu_features(); !able) {
    std::fprintf(stderr, "%s\n", able.error().message.c_str());
    return 3;
  }
  try {
    warpsmith::CpuBackend backend(threads);
    const auto tasks = warpsmith::task::make_task_service(warpsmith::task::make_cpu_factory(backend.machine()));
    return warpsmith::serve_worker(backend, *tasks);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
}
