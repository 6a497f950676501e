// The interface of warpsmith-onednn.so, the only piece that is compiled against oneDNN's headers: their API changed
// between versions 2 and 3, and a worker must start where the library is missing. The worker loads the module when it
// opens its baselines. Plain C types only.
#pragma once

#include <cstddef>
#include <cstdint>

namespace warpsmith {

enum class OneDnnType : int { f32, f16, bf16 };

// C[m,n] = A[m,k] * B, all of one type and row-major without gaps; transpose_b: B stored n x k, else k x n. Sums are
// FP32. Precondition: sizes and threads are at least 1.
struct OneDnnMatmulSpec {
  std::int64_t m, n, k;
  bool transpose_b;
  OneDnnType type;
  int threads;
};

struct OneDnnModule {
  // "oneDNN 3.1.1", of the library that was loaded.
  const char* (*version)();
  // A primitive, and in `text` the name of oneDNN's implementation; or null, and in `text` the reason.
  void* (*create)(const OneDnnMatmulSpec* spec, char* text, std::size_t text_bytes);
  // On the thread that created it. False: oneDNN failed.
  bool (*run)(void* matmul, const void* a, const void* b, void* c);
  void (*destroy)(void* matmul);
};

// The module's one symbol, a function: const OneDnnModule* warpsmith_onednn_module().
inline constexpr const char* kOneDnnModuleSymbol = "warpsmith_onednn_module";
inline constexpr const char* kOneDnnModuleFile = "warpsmith-onednn.so";

}  // namespace warpsmith
