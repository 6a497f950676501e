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
#include "evaluate/cuda/memory_watch.h"
#include "evaluate/cuda/reference.h"
#include "evaluate/cuda/timing_operands.h"

namespace warpsmith::cuda {

// How long the device has rested from work that lowers its clocks, less what it has worked since: problems that follow
// one another share the heating.
class HeatLog {
 public:
  // Such work has just ended.
  void worked(double seconds);
  // How long it has to work now; a rest is made up for by half as much work, and by kPreheatSeconds at most.
  double due() const;

 private:
  std::chrono::steady_clock::time_point last_{};
  double due_ = 0;  // at last_
};

// What outlives a problem. The cuBLAS handle is the baselines' own: its stream and its workspace are set.
struct TimingDevice {
  const Machine& machine;
  cudaStream_t stream;
  cublasHandle_t cublas;
  cublasLtHandle_t cublaslt;
  const DeviceBuffer& baseline_workspace;
  GraphTimer& timer;
  HeatLog& heat;
};

class TimingSteps {
 public:
  TimingSteps(const Problem& problem, std::uint64_t seed, const TimingDevice& device, ReferenceMaker& references);

  // The candidate that is subject 0 from now on; null: none.
  void use(CudaKernel* kernel);
  // Of candidates that are used from now on.
  void change_layout(Layout layout) { problem_ = stored_as(problem_, layout); }
  // Subject 0 gets the number that is returned, -1, -2 .., and stays; there is no subject 0 afterwards.
  int keep(std::unique_ptr<CudaKernel> kernel);

  std::vector<std::string> open_baselines();
  // Which of cuBLASLt's candidates were the fastest, and what is to be tried of them in the next open_baselines().
  const BaselineChoices& baseline_choices() const { return choices_; }
  void suggest_baselines(BaselineChoices choices) { choices_ = std::move(choices); }
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
  // Of a candidate, also whether memory that is not its own was written (CheckReport::strayed).
  CheckReport check_timed_outputs(int subject);
  // Errors on inputs of large magnitude of a candidate and, in its layout, of cuBLASLt with FP32 compute (the tuned
  // choice where it is known) and, for f16, with FP16 compute: {"layout", "ours": error_statistics(), "lt_f32",
  // "lt_f16"}.
  nlohmann::json compare_errors(int candidate);

 private:
  using Key = std::tuple<int, bool, bool>;  // subject, cold, pdl
  struct Call {
    LaunchOnSet launch;
    int inputs = 0, output = 0;
  };
  // A candidate that is timed.
  struct Contender {
    CudaKernel* kernel = nullptr;
    std::unique_ptr<CudaKernel> kept;  // the same, where it is this one's own
    Layout layout = Layout::tn;
    DeviceBuffer workspace;
    CheckReport audit{true, {}, 0, 0, {}};  // of its timed batches and calls; kept where no kernel can reach it
    std::uint64_t audited_batches = 0;
  };
  class Trial;

  Contender& contender(int subject) { return contenders_.at(subject); }
  void forget(int subject);  // what was armed of it
  Baseline& baseline(int subject) { return *baselines_.at(static_cast<std::size_t>(subject - 1)); }
  LaunchOnSet launcher(int subject, bool pdl);
  LaunchOnSet launcher(Baseline& baseline);
  int launches(double batch_us, double launch_us) const;
  // Whatever a candidate could keep something in is put back; baselines are trusted.
  Cleaning cleaning(int subject);
  void wipe(int subject);
  void restore(Contender& one);
  // The operands of a candidate are made, and what it must not write is looked at before it runs.
  void watch(int subject);
  double replay(const ArmedGraph& graph, int subject);
  void heat(const ArmedGraph& graph);  // where the problem is large enough, for as long as it is due
  void note_work(double us);

  std::optional<double> time_unlisted(Baseline& baseline, double batch_us);
  std::unique_ptr<BaselineTrial> try_out(Baseline& baseline, TrialLength length);
  CheckReport judge_outputs(const ArmedGraph& graph, int first, int count, const char* where);
  CheckReport judge_call(const Call& made, const char* where);
  void judge_set(int inputs, int output);
  CheckReport report_of_totals(int outputs, const char* where);
  void look_for_strays(CheckReport& report);
  void audit(Contender& one, CheckReport seen);  // of its last batch or call

  Problem problem_;
  TimingDevice device_;
  ReferenceMaker& references_;
  TimingOperands operands_;
  DeviceBuffer totals_;
  MemoryWatch watch_;
  std::map<int, Contender> contenders_;  // subject 0, and those that were kept
  DeviceBuffer spare_workspace_;         // of the last subject 0, for the next
  std::vector<std::unique_ptr<Baseline>> baselines_;
  BaselineChoices choices_;
  double batch_us_ = 0, launch_us_ = 0;

  std::map<Key, ArmedGraph> armed_;
  const ArmedGraph* replayed_ = nullptr;  // whose outputs are what was timed last

  std::optional<Call> call_;  // that ready_call() has made ready
  int calls_ = 0;             // cold ones, of all subjects
};

}  // namespace warpsmith::cuda
