// What the backend does for timing: graphs and single calls of the candidate and the baselines of one problem, on
// operands that are made for it, and the judging of what they wrote. Throws CudaError.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "evaluate/backend.h"
#include "evaluate/cuda/cublas_baselines.h"
#include "evaluate/cuda/cuda_handles.h"
#include "evaluate/cuda/cuda_kernel.h"
#include "evaluate/cuda/device_work.h"
#include "evaluate/cuda/graph_timer.h"
#include "evaluate/cuda/reference.h"
#include "evaluate/cuda/timing_operands.h"

namespace warpsmith::cuda {

// What outlives a problem. The cuBLAS handle is the baselines' own: its stream and its workspace are set.
struct TimingDevice {
  const Machine& machine;
  cudaStream_t stream;
  cublasHandle_t cublas;
  cublasLtHandle_t cublaslt;
  const DeviceBuffer& baseline_workspace;
  GraphTimer& timer;
};

class TimingSteps {
 public:
  TimingSteps(const Problem& problem, std::uint64_t seed, const TimingDevice& device, ReferenceMaker& references);

  // The candidate that is subject 0 from now on; null: none.
  void use(CudaKernel* kernel);

  std::vector<std::string> open_baselines();
  std::vector<std::string> open_exhaustive(double seconds, const WorkProgress& progress);
  std::string baseline_detail(int subject) { return baseline(subject).detail(); }

  double arm(int subject, bool cold, bool pdl);
  void set_batch(double batch_us, double launch_us) {
    batch_us_ = batch_us;
    launch_us_ = launch_us;
  }
  double time_batch(int subject, bool cold, bool pdl);
  int launches_per_batch(int subject, bool cold, bool pdl) const;
  void preheat(int subject);
  void ready_call(int subject, bool cold);
  double call(int subject, bool cold);
  CheckReport check_timed_outputs(int subject);

 private:
  using Key = std::tuple<int, bool, bool>;  // subject, cold, pdl
  struct Call {
    LaunchOnSet launch;
    int inputs = 0, output = 0;
  };

  Baseline& baseline(int subject) { return *baselines_.at(static_cast<std::size_t>(subject - 1)); }
  LaunchOnSet launcher(int subject, bool pdl);
  LaunchOnSet launcher(Baseline& baseline);
  int launches(double batch_us, double launch_us) const;
  // What the candidate could keep is put back; empty for baselines.
  std::function<void()> restorer(int subject);
  double replay(const ArmedGraph& graph, int subject);
  void heat(const ArmedGraph& graph);  // where the problem is large enough, and it is due
  void note_work();

  std::optional<double> time_unlisted(Baseline& baseline, double batch_us);
  CheckReport judge_outputs(const ArmedGraph& graph, int first, int count, const char* where);
  CheckReport judge_call(const Call& made, const char* where);
  void judge_set(int inputs, int output);
  CheckReport report_of_totals(int outputs, const char* where);

  Problem problem_;
  TimingDevice device_;
  TimingOperands operands_;
  DeviceBuffer totals_, workspace_;
  CheckReport audit_;  // of the candidate's timed batches and calls; kept where no kernel can reach it
  CudaKernel* kernel_ = nullptr;
  std::vector<std::unique_ptr<Baseline>> baselines_;
  double batch_us_ = 0, launch_us_ = 0;

  std::map<Key, ArmedGraph> armed_;
  const ArmedGraph* replayed_ = nullptr;  // whose outputs are what was timed last
  std::uint64_t audited_batches_ = 0;

  std::optional<Call> call_;  // that ready_call() has made ready
  int calls_ = 0;             // cold ones, of all subjects

  bool heated_ = false;
  std::chrono::steady_clock::time_point last_work_{};
};

}  // namespace warpsmith::cuda
