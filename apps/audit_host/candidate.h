// The foreign kernel: its entry, and calling it on registered operands. Throws std::runtime_error.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

// int warpsmith_candidate(a, b, c, m, n, k, b_is_col_major, workspace, workspace_bytes, stream)
using CandidateEntry = int (*)(const void*, const void*, void*, int, int, int, int, void*, std::size_t, cudaStream_t);

class Candidate {
 public:
  // Runs the object's constructors.
  void load(const std::string& object);
  CandidateEntry entry() const { return entry_; }
  const std::string& nondeterminism() const { return nondeterminism_; }

 private:
  CandidateEntry entry_ = nullptr;
  std::string nondeterminism_;  // its declared reason; empty: it declares none
};

// Operand sets of one problem, by byte offset in the shared memory.
struct CallTable {
  struct Set {
    std::uint64_t a = 0, b = 0, c = 0;
  };
  std::vector<Set> sets;
  int m = 0, n = 0, k = 0, b_is_col_major = 0;
  std::uint64_t workspace = 0, workspace_bytes = 0;
};

// One call. Whatever the candidate throws becomes std::runtime_error.
int call_candidate(CandidateEntry entry, char* memory, const CallTable& table, std::size_t set, cudaStream_t stream);
