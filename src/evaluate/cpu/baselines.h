// CPU baselines: what a user has today for half-precision matrices. A library's FP32 product with conversion of the
// operands in and of the result out, all inside the timed call; and oneDNN's product of the halves themselves, where
// it has one for the CPU.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "evaluate/cpu/blas_library.h"
#include "evaluate/cpu/onednn_matmul.h"
#include "evaluate/cpu/thread_pool.h"
#include "problem/problem.h"

namespace warpsmith {

struct CpuBaseline {
  std::string name;            // "openblas-sgemm-nn-1t", "onednn-matmul-nn-1t"
  std::string detail;          // library version, core type, threads, how conversion is threaded
  Layout layout = Layout::nn;  // nn or tn
  int threads = 1;
  bool parallel_conversion = false;
  SgemmLibrary* library = nullptr;  // multiplies in FP32; null: `matmul` takes the operands as they are
  std::unique_ptr<OneDnnMatmul> matmul;
};

class CpuBaselines {
 public:
  // Scratch for one problem's sizes; every library that is there, for NN and TN, with one thread and with all.
  // Error (environment): no library at all.
  static Result<std::unique_ptr<CpuBaselines>> open(const Problem& problem, ThreadPool& pool);

  const std::vector<CpuBaseline>& list() const { return list_; }

  // C[m,n] = A * B with A stored m x k and B as the baseline's layout says.
  void run(const CpuBaseline& baseline, const std::uint16_t* a, const std::uint16_t* b, std::uint16_t* c);

 private:
  CpuBaselines(const Problem& problem, ThreadPool& pool);
  void add_sgemm(const std::string& name, SgemmLibrary* library);
  void add_matmul();
  std::vector<int> thread_counts() const;
  void choose_conversion(CpuBaseline& baseline);

  Problem problem_;
  ThreadPool& pool_;
  std::vector<CpuBaseline> list_;
  std::vector<float> a_, b_, c_;
};

// Names and versions of the libraries found, or why one is missing; also whether oneDNN multiplies halves on this CPU.
std::map<std::string, std::string> baseline_versions();

}  // namespace warpsmith
