// OpenBLAS and oneDNN, opened at run time: a binary starts fast, travels to machines without them, and can choose
// OpenBLAS's core type before the library reads it.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace warpsmith {

// C[m,n] = A[m,k] * B, all row-major FP32, A stored m x k; transpose_b: B stored n x k, else k x n.
class SgemmLibrary {
 public:
  virtual ~SgemmLibrary() = default;
  virtual std::string version() const = 0;
  virtual void set_threads(int threads) = 0;
  virtual void sgemm(bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b,
                     float* c) = 0;
};

// The library, kept open for the rest of the process. Error (environment): not found, or a symbol missing, in the
// loader's words. OpenBLAS reads OPENBLAS_CORETYPE when it is first opened.
Result<SgemmLibrary*> open_openblas();
Result<SgemmLibrary*> open_onednn();

// Forgets settings of the user's that hold the libraries back (thread counts, instruction sets). Call before opening.
void clear_library_environment();

}  // namespace warpsmith
