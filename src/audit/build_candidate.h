// From a `.cu` file to a shared object: nvcc in a confined child that reads the system, the source's directory and the
// include directories that the user names, writes only its scratch directory, and is limited in time and memory.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace warpsmith::audit {

struct BuildOptions {
  std::filesystem::path launcher;  // warpsmith-sandbox; empty: nvcc runs unconfined
  std::filesystem::path scratch;   // the object goes here
  std::filesystem::path nvcc;      // empty: $PATH, then /usr/local/cuda/bin
  int compute_capability = 90;
  std::vector<std::string> include_directories;
  std::vector<std::string> flags;  // further ones
  double wall_seconds = 120;
  std::uint64_t memory_bytes = 16ULL << 30;  // of address space, each process
};

struct BuiltCandidate {
  std::filesystem::path object;
  std::string command;  // as run, for the report
  double seconds = 0;
};

// Error: environment without nvcc or sandbox; failed, with the compiler's first errors, where it does not compile.
Result<BuiltCandidate> build_candidate(const std::filesystem::path& source, const BuildOptions& options);

// nvcc on $PATH or in /usr/local/cuda/bin; empty: none.
std::filesystem::path find_nvcc();

// "sm_90a" for 90: architecture-specific instructions where there are any.
std::string architecture_name(int compute_capability);

}  // namespace warpsmith::audit
