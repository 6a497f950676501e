// What generated CUDA sources of all families say alike about their results: comment, parameters, the Output value.
#pragma once

#include <string>

#include "codegen/launch.h"
#include "problem/problem.h"

namespace warpsmith {

// "C[m,n] = A[m,k] * B[k,n]", or with the factors.
inline std::string product_text(const Problem& problem) {
  return problem.scaled() ? "C[m,n] = alpha A[m,k] * B[k,n] + beta C[m,n]" : "C[m,n] = A[m,k] * B[k,n]";
}
inline std::string accumulator_text(const Problem& problem) {
  return problem.accumulator == AccumulatorType::f32 ? "FP32" : "FP16";
}

// Kernel parameters after ldc, the last but for these; the device code's Output<kConfig.scaled> made of them; the
// launch arguments that go with them.
inline std::string factor_parameters(const Problem& problem) {
  return problem.scaled() ? ", float alpha, float beta" : "";
}
inline std::string output_argument(const Problem& problem) {
  return problem.scaled() ? "{c, ldc, alpha, beta}" : "{c, ldc}";
}
inline void add_factors(KernelLaunch& launch, const Problem& problem) {
  if (!problem.scaled()) return;
  launch.arguments.push_back(KernelArgument::alpha());
  launch.arguments.push_back(KernelArgument::beta());
}

}  // namespace warpsmith
