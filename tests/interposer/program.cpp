// Runs the cases: linked with them, or opening the file that is named as its argument as Python opens its extensions.
#include <dlfcn.h>

#include <cstdio>

#ifdef WARPSMITH_LINKED
extern "C" int run_cases();
int main() { return run_cases(); }
#else
int main(int argc, char** argv) {
  void* cases = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
  auto* run_cases = cases == nullptr ? nullptr : reinterpret_cast<int (*)()>(dlsym(cases, "run_cases"));
  if (run_cases == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 3;
  }
  return run_cases();
}
#endif
