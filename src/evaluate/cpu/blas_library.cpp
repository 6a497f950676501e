// dlopen and dlsym behind one interface. The C prototypes are the libraries' published ones.
#include "evaluate/cpu/blas_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <memory>

namespace warpsmith {

namespace {

// CBLAS enumerators.
constexpr int kRowMajor = 101;
constexpr int kNoTranspose = 111;
constexpr int kTranspose = 112;

template <class Function>
bool find_symbol(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

class OpenBlas final : public SgemmLibrary {
 public:
  static Result<std::unique_ptr<OpenBlas>> open() {
    void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return environment_error(fmt::format("OpenBLAS: {}", dlerror()));
    auto result = std::make_unique<OpenBlas>();
    if (!find_symbol(library, "cblas_sgemm", result->sgemm_) ||
        !find_symbol(library, "openblas_set_num_threads", result->set_num_threads_) ||
        !find_symbol(library, "openblas_get_config", result->get_config_) ||
        !find_symbol(library, "openblas_get_corename", result->get_corename_)) {
      return environment_error(fmt::format("OpenBLAS: {}", dlerror()));
    }
    return result;
  }

  std::string version() const override { return fmt::format("{} core {}", get_config_(), get_corename_()); }
  void set_threads(int threads) override { set_num_threads_(threads); }
  void sgemm(bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b,
             float* c) override {
    sgemm_(kRowMajor, kNoTranspose, transpose_b ? kTranspose : kNoTranspose, static_cast<int>(m), static_cast<int>(n),
           static_cast<int>(k), 1.0f, a, static_cast<int>(k), b, static_cast<int>(transpose_b ? k : n), 0.0f, c,
           static_cast<int>(n));
  }

 private:
  void (*sgemm_)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*,
                 int) = nullptr;
  void (*set_num_threads_)(int) = nullptr;
  char* (*get_config_)() = nullptr;
  char* (*get_corename_)() = nullptr;
};

class OneDnn final : public SgemmLibrary {
 public:
  static Result<std::unique_ptr<OneDnn>> open() {
    void* library = dlopen("libdnnl.so.3", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) library = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return environment_error(fmt::format("oneDNN: {}", dlerror()));
    auto result = std::make_unique<OneDnn>();
    if (!find_symbol(library, "dnnl_sgemm", result->sgemm_) ||
        !find_symbol(library, "dnnl_version", result->version_)) {
      return environment_error(fmt::format("oneDNN: {}", dlerror()));
    }
    // Found through oneDNN's own dependencies; a build on another threading runtime has none.
    find_symbol(library, "omp_set_num_threads", result->set_num_threads_);
    return result;
  }

  std::string version() const override {
    const Version* version = version_();
    return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
  }
  void set_threads(int threads) override {
    if (set_num_threads_ != nullptr) set_num_threads_(threads);
  }
  void sgemm(bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b,
             float* c) override {
    sgemm_('N', transpose_b ? 'T' : 'N', m, n, k, 1.0f, a, k, b, transpose_b ? k : n, 0.0f, c, n);
  }

 private:
  struct Version {  // the head of dnnl_version_t
    int major, minor, patch;
  };
  int (*sgemm_)(char, char, std::int64_t, std::int64_t, std::int64_t, float, const float*, std::int64_t, const float*,
                std::int64_t, float, float*, std::int64_t) = nullptr;
  const Version* (*version_)() = nullptr;
  void (*set_num_threads_)(int) = nullptr;
};

}  // namespace

Result<SgemmLibrary*> open_openblas() {
  static const auto library = OpenBlas::open();
  if (!library) return library.error();
  return static_cast<SgemmLibrary*>(library.value().get());
}

Result<SgemmLibrary*> open_onednn() {
  static const auto library = OneDnn::open();
  if (!library) return library.error();
  return static_cast<SgemmLibrary*>(library.value().get());
}

void clear_library_environment() {
  for (const char* name : {"OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS", "OMP_THREAD_LIMIT",
                           "DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA"}) {
    unsetenv(name);
  }
}

}  // namespace warpsmith
