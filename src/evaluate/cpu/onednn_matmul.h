// oneDNN's matmul primitive on 16-bit (or, for tests, FP32) operands, through warpsmith-onednn.so.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/result.h"
#include "evaluate/cpu/onednn_module.h"

namespace warpsmith {

class OneDnnMatmul {
 public:
  // Asks the library. Error (environment): no module or library beside this executable, or oneDNN has no
  // implementation of this type for this CPU.
  static Result<std::unique_ptr<OneDnnMatmul>> create(const OneDnnMatmulSpec& spec);

  OneDnnMatmul(const OneDnnMatmul&) = delete;
  OneDnnMatmul& operator=(const OneDnnMatmul&) = delete;
  ~OneDnnMatmul();

  std::string version() const { return module_->version(); }             // "oneDNN 3.1.1"
  const std::string& implementation() const { return implementation_; }  // oneDNN's name of it

  // Operands as the specification says, on the thread that created this. Throws EnvironmentError where oneDNN fails.
  void run(const void* a, const void* b, void* c) const;

 private:
  OneDnnMatmul(const OneDnnModule* module, void* matmul, std::string implementation)
      : module_(module), matmul_(matmul), implementation_(std::move(implementation)) {}

  const OneDnnModule* module_;
  void* matmul_;
  std::string implementation_;
};

}  // namespace warpsmith
