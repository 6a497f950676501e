// Candidate -> one self-contained CUDA file: the kernel's source, a host function that launches it, and a self-check
// that compiles in where WARPSMITH_EXPORT_MAIN is defined. docs/export.md describes what comes out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/generate.h"
#include "problem/problem.h"

namespace warpsmith {

struct ExportOptions {
  std::vector<std::string> notes;              // lines of the header comment, after what the file computes
  bool programmatic_dependent_launch = false;  // launched so, where the candidate offers it
};

struct ExportedKernel {
  std::string name;         // of the host function, and of the file without its extension
  std::string declaration;  // of the host function
  std::string source;
  std::int64_t workspace_bytes = 0;
};

// "warpsmith_hgemm_64x4096x64_nn"; what differs from packed f16 operands without scaling follows: "_bf16", "_scaled",
// "_ld264_264_520".
std::string exported_name(const Problem& problem);

// Error (bad_input): a candidate for the CPU; (failed): a kernel whose declaration does not take what the launch gives.
Result<ExportedKernel> export_cuda(const Candidate& candidate, const Problem& problem, const ExportOptions& options);

// A header that declares exported host functions.
std::string export_header(const std::vector<ExportedKernel>& kernels);

}  // namespace warpsmith
