// Gates and timing on a CUDA device. CUDA errors travel as exceptions inside and become Errors or failed checks here.
#include "evaluate/cuda/cuda_backend.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <tuple>

#include "base/file.h"
#include "codegen/launch.h"
#include "evaluate/cuda/cublas_baselines.h"
#include "evaluate/cuda/cuda_handles.h"
#include "evaluate/cuda/cuda_kernel.h"
#include "evaluate/cuda/device_work.h"
#include "evaluate/cuda/gate_operands.h"
#include "evaluate/cuda/graph_timer.h"
#include "evaluate/cuda/machine_facts.h"
#include "evaluate/cuda/reference.h"
#include "evaluate/cuda/timing_operands.h"

namespace warpsmith {

namespace cuda {
namespace {

constexpr double kReferenceShare = 0.35;  // of the device's memory, for the gates' references
constexpr std::uint16_t kTimedPoison = 0x7fab;
constexpr int kTuningReplays = 3;
// A problem this large draws enough power to lower the clocks: it is timed at the clocks it settles at.
constexpr double kPreheatFlops = 8.6e9;  // 2^33
constexpr double kPreheatSeconds = 3;
constexpr double kCoolSeconds = 2;  // without work, after which preheating is due again

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string element_text(std::uint16_t bits, ElementType type) {
  return fmt::format("{:g} (0x{:04x})", element_to_double(bits, type), bits);
}

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(int device)
      : machine_(describe_device(device)),
        clocks_(device),
        stream_(make_stream()),
        totals_(sizeof(Totals)),
        audit_(sizeof(Totals)),
        hash_(sizeof(unsigned long long)),
        baseline_workspace_(kBaselineWorkspaceBytes),
        timer_(stream_.get(), machine_.l2_bytes) {
    check(cublasCreate(cublas_.out()), "cublasCreate");
    check(cublasLtCreate(cublaslt_.out()), "cublasLtCreate");
    references_.emplace(cublas_.get(), stream_.get());
    check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
  }

  const Machine& machine() const override { return machine_; }

  Status prepare(const Problem& problem, std::uint64_t seed) override {
    return guarded([&] {
      unload();
      drop_problem();
      std::size_t free_bytes = 0, total_bytes = 0;
      check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
      references_->reset(static_cast<std::size_t>(kReferenceShare * static_cast<double>(total_bytes)));
      problem_ = problem;
      gate_operands_.emplace(problem, 0, stream_.get());
      launches_ = GraphTimer::launches_for(physical_floor_us(problem, machine_, true));
      timing_operands_.emplace(problem, seed, launches_, machine_.l2_bytes, *references_, stream_.get());
      timing_operands_->operands(problem.layout, 0);
      check(cudaStreamSynchronize(stream_.get()), "preparing the problem");
    });
  }

  Status load(const Artifact& artifact, const nlohmann::json& launch) override {
    unload();
    const Result<std::string> cubin = read_file(artifact.binary);
    if (!cubin.ok()) return cubin.error();
    return guarded([&] {
      auto descriptor = launch.get<CudaLaunch>();
      const std::int64_t workspace = descriptor.workspace_bytes;
      kernel_ = std::make_unique<CudaKernel>(*cubin, std::move(descriptor), problem_.element);
      if (workspace != gate_operands_->workspace_bytes()) {
        gate_operands_.reset();
        gate_operands_.emplace(problem_, workspace, stream_.get());
      }
      if (static_cast<std::int64_t>(workspace_.bytes()) < workspace) {
        workspace_ = {};
        workspace_ = DeviceBuffer(static_cast<std::size_t>(workspace));
      }
      if (workspace > 0) {
        check(cudaMemsetAsync(workspace_.data(), 0, workspace_.bytes(), stream_.get()), "cudaMemsetAsync");
      }
      clear_totals(audit_.as<Totals>(), stream_.get());
      check(cudaStreamSynchronize(stream_.get()), "loading the kernel");
    });
  }

  void unload() override {
    std::erase_if(armed_, [](const auto& entry) { return std::get<0>(entry.first) == 0; });
    kernel_.reset();
  }

  Status fill(InputKind kind, std::uint64_t seed) override {
    return guarded([&] {
      spec_ = {kind, seed, problem_.m, problem_.n, problem_.k, problem_.element};
      reference_ = references_->get(spec_);
      gate_operands_->arrange(spec_, ++arrangements_);
      check(cudaStreamSynchronize(stream_.get()), "filling the operands");
    });
  }

  Status run_once(std::uint16_t poison) override {
    return guarded([&] {
      gate_operands_->poison(poison, kernel_->descriptor().zero_workspace);
      kernel_->launch(gate_operands_->operands(), gate_operands_->workspace(), false, stream_.get());
      check(cudaStreamSynchronize(stream_.get()), "running the kernel");
    });
  }

  CheckReport check(Criterion criterion) override {
    return checked([&] {
      clear_totals(totals_.as<Totals>(), stream_.get());
      return judge(gate_operands_->operands().c, *reference_, criterion, totals_.as<Totals>());
    });
  }

  CheckReport check_untouched() override {
    return checked([&] { return gate_operands_->check_untouched(kernel_ && kernel_->descriptor().zero_workspace); });
  }

  std::uint64_t output_hash() override {
    unsigned long long hash = 0;
    demand([&] {
      check(cudaMemsetAsync(hash_.data(), 0, sizeof hash, stream_.get()), "cudaMemsetAsync");
      hash_output(gate_operands_->operands().c, output_count(), hash_.as<unsigned long long>(), stream_.get());
      read(hash, hash_.data());
    });
    return hash;
  }

  std::int64_t count_equal_to(std::uint16_t pattern) override {
    Totals totals{};
    demand([&] {
      clear_totals(totals_.as<Totals>(), stream_.get());
      count_equal(gate_operands_->operands().c, output_count(), pattern, totals_.as<Totals>(), stream_.get());
      read(totals, totals_.data());
    });
    return static_cast<std::int64_t>(totals.bad);
  }

  Result<std::vector<std::string>> open_baselines() override {
    std::vector<std::string> names;
    const Status opened = guarded([&] {
      baselines_ = make_cublas_baselines(problem_, cublas_.get(), cublaslt_.get(), baseline_workspace_,
                                         [&](Baseline& baseline) { return time_unlisted(baseline); });
      for (const auto& baseline : baselines_) names.push_back(baseline->name());
    });
    if (!opened.ok()) return opened.error();
    return names;
  }

  std::string baseline_detail(int subject) override { return baseline(subject).detail(); }

  Result<double> arm(int subject, bool cold, bool pdl) override {
    double time_us = 0;
    const Status armed = guarded([&] {
      ArmedGraph graph = timer_.arm(launcher(subject, pdl), launches_, cold, *timing_operands_);
      if (subject > 0 && problem_.flops() >= kPreheatFlops && seconds_since(last_work_) > kCoolSeconds) {
        timer_.preheat(graph, kPreheatSeconds);
      }
      time_us = timer_.replay(graph, *timing_operands_, kTimedPoison);
      last_work_ = std::chrono::steady_clock::now();
      armed_[{subject, cold, pdl}] = std::move(graph);
    });
    if (!armed.ok()) return armed.error();
    return time_us;
  }

  Result<double> time_batch(int subject, bool cold, bool pdl) override {
    double time_us = 0;
    const Status timed = guarded([&] {
      const ArmedGraph& graph = armed_.at({subject, cold, pdl});
      time_us = timer_.replay(graph, *timing_operands_, kTimedPoison);
      last_work_ = std::chrono::steady_clock::now();
      if (subject == 0) audit_one_set(graph);
    });
    if (!timed.ok()) return timed.error();
    return time_us;
  }

  int launches_per_batch(int subject, bool cold, bool pdl) override {
    const auto found = armed_.find({subject, cold, pdl});
    return found == armed_.end() ? 0 : found->second.launches;
  }

  double clock_mhz() override { return clocks_.mhz(); }

  // What the timed batches left was sampled after each of them; now every mode is replayed once more, and every set
  // that a replay writes is judged.
  CheckReport check_timed_outputs(int subject) override {
    return checked([&] {
      CheckReport report{true, {}, 0, 0};
      if (subject == 0) {
        Totals audited{};
        read(audited, audit_.data());
        merge(report, audited, "after a timed batch");
        if (!report.passed) return report;
      }
      for (const auto& [key, graph] : armed_) {
        if (std::get<0>(key) != subject) continue;
        timer_.replay(graph, *timing_operands_, kTimedPoison);
        merge(report, judge_all_sets(graph));
        if (!report.passed) return report;
      }
      return report;
    });
  }

 private:
  // Runs `body`; a CUDA error becomes an Error. Memory that the machine lacks is the environment's fault.
  template <class Body>
  static Status guarded(Body body) {
    try {
      body();
      return ok_status();
    } catch (const CudaError& error) {
      if (error.out_of_memory()) return environment_error(fmt::format("not enough device memory: {}", error.what()));
      return failure(context_is_lost() ? fmt::format("{}; the CUDA context is lost", error.what()) : error.what());
    } catch (const nlohmann::json::exception& error) {
      return failure(fmt::format("malformed launch descriptor: {}", error.what()));
    }
  }

  template <class Body>
  static CheckReport checked(Body body) {
    CheckReport report;
    const Status status = guarded([&] { report = body(); });
    return status.ok() ? report : CheckReport{false, status.error().message, 0, 0};
  }

  template <class Body>
  static void demand(Body body) {
    const Status status = guarded(body);
    if (!status.ok()) throw EnvironmentError(status.error().message);
  }

  template <class T>
  void read(T& value, const void* device) {
    check(cudaMemcpyAsync(&value, device, sizeof value, cudaMemcpyDeviceToHost, stream_.get()), "cudaMemcpyAsync");
    check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
  }

  static void check(cudaError_t status, const char* call) { cuda::check(status, call); }
  static void check(cublasStatus_t status, const char* call) { cuda::check(status, call); }

  void drop_problem() {
    armed_.clear();
    baselines_.clear();
    reference_.reset();
    gate_operands_.reset();
    timing_operands_.reset();
    workspace_ = {};
  }

  std::int64_t output_count() const { return problem_.m * problem_.n; }
  Baseline& baseline(int subject) { return *baselines_.at(static_cast<std::size_t>(subject - 1)); }

  LaunchOnSet launcher(int subject, bool pdl) {
    if (subject > 0) return launcher(baseline(subject));
    return [this, pdl](int set, cudaStream_t stream) {
      kernel_->launch(timing_operands_->operands(problem_.layout, set), workspace_.data(), pdl, stream);
    };
  }
  LaunchOnSet launcher(Baseline& baseline) {
    return [this, &baseline](int set, cudaStream_t stream) {
      baseline.launch(timing_operands_->operands(baseline.layout(), set), stream);
    };
  }

  // A baseline that fails or is wrong is no baseline.
  std::optional<double> time_unlisted(Baseline& baseline) {
    try {
      const ArmedGraph graph = timer_.arm(launcher(baseline), launches_, true, *timing_operands_);
      double best_us = timer_.replay(graph, *timing_operands_, kTimedPoison);
      if (!judge_all_sets(graph).passed) return std::nullopt;
      for (int i = 1; i < kTuningReplays; ++i) {
        best_us = std::min(best_us, timer_.replay(graph, *timing_operands_, kTimedPoison));
      }
      return best_us;
    } catch (const CudaError&) {
      if (context_is_lost()) throw;
      return std::nullopt;
    }
  }

  std::uint16_t* output(int set) { return timing_operands_->operands(problem_.layout, set).c; }

  // One set after each timed batch, in turn; the counts add up on the device and are read at the end.
  void audit_one_set(const ArmedGraph& graph) {
    const int sets = graph.sets_written(timing_operands_->count());
    const int set = static_cast<int>(audited_batches_++ % static_cast<std::uint64_t>(sets));
    const Reference& reference = timing_operands_->reference(set);
    judge_output(output(set), reference.c64.as<double>(), reference.magnitudes.as<double>(), reference.spec,
                 Criterion::bound, audit_.as<Totals>(), stream_.get());
  }

  CheckReport judge_all_sets(const ArmedGraph& graph) {
    CheckReport report{true, {}, 0, 0};
    const int sets = graph.sets_written(timing_operands_->count());
    clear_totals(totals_.as<Totals>(), stream_.get());
    for (int set = 0; set < sets; ++set) {
      const Reference& reference = timing_operands_->reference(set);
      judge_output(output(set), reference.c64.as<double>(), reference.magnitudes.as<double>(), reference.spec,
                   Criterion::bound, totals_.as<Totals>(), stream_.get());
    }
    Totals totals{};
    read(totals, totals_.data());
    merge(report, totals, "in the outputs of a timed replay");
    return report;
  }

  void merge(CheckReport& report, const Totals& totals, const char* where) const {
    report.worst_error = std::max(report.worst_error, double_from_bits(totals.worst_bits));
    if (totals.bad == 0) return;
    report.passed = false;
    report.bad += static_cast<std::int64_t>(totals.bad);
    const auto first = static_cast<std::int64_t>(totals.first);
    report.detail = fmt::format("{} wrong elements {}, the first at ({}, {})", totals.bad, where, first / problem_.n,
                                first % problem_.n);
  }
  static void merge(CheckReport& report, const CheckReport& other) {
    report.worst_error = std::max(report.worst_error, other.worst_error);
    report.bad += other.bad;
    if (other.passed) return;
    report.passed = false;
    report.detail = other.detail;
  }

  CheckReport judge(const std::uint16_t* c, const Reference& reference, Criterion criterion, Totals* totals) {
    judge_output(c, reference.c64.as<double>(), reference.magnitudes.as<double>(), reference.spec, criterion, totals,
                 stream_.get());
    Totals found{};
    read(found, totals);
    CheckReport report{found.bad == 0, {}, double_from_bits(found.worst_bits), static_cast<std::int64_t>(found.bad)};
    if (!report.passed) report.detail = describe_bad(c, reference, criterion, found);
    return report;
  }

  std::string describe_bad(const std::uint16_t* c, const Reference& reference, Criterion criterion,
                           const Totals& totals) {
    const auto index = static_cast<std::int64_t>(totals.first);
    std::uint16_t got = 0;
    double expected = 0, magnitude = 0;
    read(got, c + index);
    read(expected, reference.c64.as<double>() + index);
    read(magnitude, reference.magnitudes.as<double>() + index);
    const ElementType type = problem_.element;
    const AcceptableRange range = acceptable_range(criterion, expected, magnitude, problem_.k, type);
    const std::string allowed =
        range.nan ? "NaN" : fmt::format("{} to {}", element_text(range.lo, type), element_text(range.hi, type));
    return fmt::format("{} of {} elements wrong, the first at ({}, {}): got {}, expected {:g}, allowed {}", totals.bad,
                       output_count(), index / problem_.n, index % problem_.n, element_text(got, type), expected,
                       allowed);
  }

  Machine machine_;
  ClockReader clocks_;
  Stream stream_;
  CublasHandle cublas_;
  CublasLtHandle cublaslt_;
  DeviceBuffer totals_, audit_, hash_, baseline_workspace_;
  GraphTimer timer_;
  std::optional<ReferenceMaker> references_;

  Problem problem_;
  int launches_ = 1;  // per replay
  std::optional<GateOperands> gate_operands_;
  std::optional<TimingOperands> timing_operands_;
  std::uint64_t arrangements_ = 0;
  InputSpec spec_;  // of the gate operands
  std::shared_ptr<const Reference> reference_;

  DeviceBuffer workspace_;  // of the candidate, while it is timed
  std::unique_ptr<CudaKernel> kernel_;
  std::vector<std::unique_ptr<Baseline>> baselines_;
  std::map<std::tuple<int, bool, bool>, ArmedGraph> armed_;  // subject, cold, pdl
  std::uint64_t audited_batches_ = 0;
  std::chrono::steady_clock::time_point last_work_{};
};

// The runtime reports a missing driver as one that is too old.
std::string reason_for_no_device(cudaError_t status) {
  if (status == cudaSuccess) return "no device";
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY);
  if (driver == nullptr) return "no NVIDIA driver is installed";
  dlclose(driver);
  return cudaGetErrorString(status);
}

}  // namespace
}  // namespace cuda

Result<std::unique_ptr<Backend>> make_cuda_backend(int device) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    return environment_error(fmt::format("no CUDA GPU: {}", cuda::reason_for_no_device(status)));
  }
  if (device < 0 || device >= count) {
    return environment_error(fmt::format("no CUDA device {}: this machine has {}", device, count));
  }
  try {
    cuda::check(cudaSetDevice(device), "cudaSetDevice");
    cuda::check(cudaFree(nullptr), "starting the device");
    return std::unique_ptr<Backend>(std::make_unique<cuda::CudaBackend>(device));
  } catch (const cuda::CudaError& error) {
    return environment_error(fmt::format("CUDA device {} cannot be used: {}", device, error.what()));
  }
}

}  // namespace warpsmith
