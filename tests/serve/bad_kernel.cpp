// A CPU kernel that writes the same number everywhere or, compiled with CRASHES, to nowhere.
#include <csignal>

#include "cpu/kernel_abi.h"

extern "C" void warpsmith_kernel(const WarpsmithCpuArguments* arguments, int thread) {
#ifdef CRASHES
  raise(SIGSEGV);
#endif
  if (thread != 0) return;
  for (std::int64_t i = 0; i < arguments->m; ++i) {
    for (std::int64_t j = 0; j < arguments->n; ++j) arguments->c[i * arguments->ldc + j] = 0x3c00;
  }
}
