// Gates and timing on a CUDA device. CUDA errors travel as exceptions inside and become Errors or failed checks here.
#include "evaluate/cuda/cuda_backend.h"

#include <fmt/format.h>

#include <cstring>
#include <optional>

#include "base/file.h"
#include "codegen/launch.h"
#include "evaluate/cuda/cuda_handles.h"
#include "evaluate/cuda/cuda_kernel.h"
#include "evaluate/cuda/device_work.h"
#include "evaluate/cuda/gate_steps.h"
#include "evaluate/cuda/machine_facts.h"
#include "evaluate/cuda/reference.h"
#include "evaluate/cuda/timing_steps.h"

namespace warpsmith {

namespace cuda {
namespace {

constexpr double kReferenceShare = 0.45;    // of the device's memory, for the gates' references
constexpr double kArrangementShare = 0.05;  // for operands that stay filled from candidate to candidate

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(int device)
      : device_(device),
        machine_(describe_device(device)),
        clocks_(device),
        stream_(make_stream()),
        baseline_workspace_(kBaselineWorkspaceBytes, Contents::changing),
        timer_(stream_.get(), machine_.l2_bytes) {
    check(cublasCreate(cublas_.out()), "cublasCreate");
    check(cublasLtCreate(cublaslt_.out()), "cublasLtCreate");
    check(cublasCreate(baseline_cublas_.out()), "cublasCreate");
    check(cublasSetStream(baseline_cublas_.get(), stream_.get()), "cublasSetStream");
    check(cublasSetWorkspace(baseline_cublas_.get(), baseline_workspace_.data(), baseline_workspace_.bytes()),
          "cublasSetWorkspace");
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
      open_gates();
      timing_.emplace(problem, seed,
                      TimingDevice{machine_, stream_.get(), baseline_cublas_.get(), cublaslt_.get(),
                                   baseline_workspace_, timer_, heat_},
                      *references_);
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
      kernel_->limit_local_memory();
      gates_->set_workspace(workspace, kernel_->descriptor().zero_workspace);
      timing_->use(kernel_.get());
      check(cudaStreamSynchronize(stream_.get()), "loading the kernel");
    });
  }

  void unload() override {
    if (timing_) timing_->use(nullptr);
    kernel_.reset();
  }

  Status change_layout(Layout layout) override {
    return guarded([&] {
      unload();
      problem_ = stored_as(problem_, layout);
      gates_.reset();
      open_gates();
      timing_->change_layout(layout);
    });
  }

  Result<int> keep_candidate() override {
    return valued<int>([&] { return timing_->keep(std::move(kernel_)); });
  }

  Status fill(InputKind kind, std::uint64_t seed) override {
    return guarded([&] {
      gates_->arrange(kind, seed);
      check(cudaStreamSynchronize(stream_.get()), "filling the operands");
    });
  }

  Status refill(InputKind kind, std::uint64_t seed) override {
    return guarded([&] {
      gates_->refill(kind, seed);
      check(cudaStreamSynchronize(stream_.get()), "filling the operands");
    });
  }

  GateObservation run_step(const GateStep& step) override {
    GateObservation seen;
    const Status placed = guarded([&] {
      if (step.place == GateStep::Place::fresh) gates_->arrange(step.kind, step.seed);
      if (step.place == GateStep::Place::kept) gates_->refill(step.kind, step.seed);
    });
    if (!placed.ok()) {
      seen.fault = placed.error().message;
      return seen;
    }
    Observation left{};
    const Status ran = guarded([&] {
      left = run_and_look(step);
      if (gates_->is_void(left)) left = run_and_look(step);
    });
    if (!ran.ok()) {
      (ran.error().kind == ErrorKind::environment ? seen.fault : seen.crash) = ran.error().message;
      return seen;
    }
    const Status described = guarded([&] { seen = gates_->describe(left, step.criterion); });
    if (!described.ok()) seen.fault = described.error().message;
    return seen;
  }

  Status run_once(std::uint16_t poison) override { return run_for_a_gate(GateStep::Place::repeat, poison); }
  Status run_kept(std::uint16_t poison) override { return run_for_a_gate(GateStep::Place::kept, poison); }
  Status run_stale(std::uint16_t poison, const inputs::Holes& holes) override {
    return run_for_a_gate(GateStep::Place::stale, poison, holes);
  }

  CheckReport check(Criterion criterion) override {
    return checked([&] { return gates_->describe(gates_->look(criterion, 0), criterion).judged; });
  }

  CheckReport check_untouched() override {
    return checked([&] { return gates_->describe(gates_->look(Criterion::bound, 0), Criterion::bound).untouched; });
  }

  std::uint64_t output_hash() override {
    std::uint64_t hash = 0;
    demand([&] { hash = gates_->look(Criterion::bound, 0).output_hash; });
    return hash;
  }

  std::int64_t count_equal_to(std::uint16_t pattern) override {
    std::int64_t count = 0;
    demand([&] { count = static_cast<std::int64_t>(gates_->look(Criterion::bound, pattern).unwritten); });
    return count;
  }

  Result<CheckReport> check_state() override {
    return valued<CheckReport>([&] { return kernel_->globals().compare(stream_.get()); });
  }

  bool offers_dependent_launch() const override { return kernel_->descriptor().offers_programmatic_dependent_launch(); }
  Result<CheckReport> check_dependent_launch() override {
    const auto launch = [this](bool dependent) {
      return [this, dependent](const OperandSet& operands, void* workspace) {
        kernel_->launch(operands, workspace, dependent, stream_.get());
      };
    };
    return valued<CheckReport>([&] { return gates_->check_dependent_launch(launch(false), launch(true)); });
  }

  Result<std::vector<std::string>> open_baselines() override {
    return valued<std::vector<std::string>>([&] { return timing_->open_baselines(); });
  }
  Result<std::vector<std::string>> open_exhaustive(double seconds, const WorkProgress& progress) override {
    return valued<std::vector<std::string>>([&] { return timing_->open_exhaustive(seconds, progress); });
  }
  nlohmann::json baseline_choices() override { return timing_->baseline_choices(); }
  void suggest_baselines(const nlohmann::json& choices) override {
    timing_->suggest_baselines(choices.is_object() ? choices.get<BaselineChoices>() : BaselineChoices());
  }
  std::string baseline_detail(int subject) override { return timing_->baseline_detail(subject); }

  Result<double> arm(int subject, bool cold, bool pdl) override {
    return valued<double>([&] { return timing_->arm(subject, cold, pdl); });
  }
  void set_batch(double batch_us, double launch_us) override { timing_->set_batch(batch_us, launch_us); }
  Result<double> time_batch(int subject, bool cold, bool pdl) override {
    return valued<double>([&] { return timing_->time_batch(subject, cold, pdl); });
  }
  int launches_per_batch(int subject, bool cold, bool pdl) override {
    return timing_->launches_per_batch(subject, cold, pdl);
  }
  Status preheat(int subject) override {
    return guarded([&] { timing_->preheat(subject); });
  }
  Status ready_call(int subject, bool cold) override {
    return guarded([&] { timing_->ready_call(subject, cold); });
  }
  Result<double> call(int subject, bool cold) override {
    return valued<double>([&] { return timing_->call(subject, cold); });
  }
  Result<nlohmann::json> compare_errors(int candidate) override {
    return valued<nlohmann::json>([&] { return timing_->compare_errors(candidate); });
  }
  double clock_mhz() override { return clocks_.mhz(); }
  std::vector<std::string> throttle_reasons() override { return clocks_.throttle_reasons(); }
  std::vector<int> peers() const override { return devices_like(device_); }
  Result<CheckReport> check_timed_outputs(int subject) override {
    return valued<CheckReport>([&] { return timing_->check_timed_outputs(subject); });
  }

 private:
  // Runs `body`; a CUDA error becomes an Error. Memory that the machine lacks is the environment's fault.
  template <class Body>
  static Status guarded(Body body) {
    try {
      body();
      return ok_status();
    } catch (const CudaError& error) {
      if (error.environment()) return environment_error(error.what());
      if (error.out_of_memory()) return environment_error(fmt::format("not enough device memory: {}", error.what()));
      return failure(context_is_lost() ? fmt::format("{}; the CUDA context is lost", error.what()) : error.what());
    } catch (const nlohmann::json::exception& error) {
      return failure(fmt::format("malformed launch descriptor: {}", error.what()));
    }
  }

  template <class T, class Body>
  static Result<T> valued(Body body) {
    std::optional<T> value;
    const Status status = guarded([&] { value = body(); });
    if (!status.ok()) return status.error();
    return std::move(*value);
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

  static void check(cudaError_t status, const char* call) { cuda::check(status, call); }
  static void check(cublasStatus_t status, const char* call) { cuda::check(status, call); }

  void open_gates() {
    std::size_t free_bytes = 0, total_bytes = 0;
    check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
    gates_.emplace(problem_, machine_, static_cast<std::int64_t>(kArrangementShare * static_cast<double>(total_bytes)),
                   *references_, stream_.get());
  }

  void drop_problem() {
    gates_.reset();
    timing_.reset();
  }

  void queue_for_a_gate(const GateStep& step) {
    const auto launch = [&](const OperandSet& operands, void* workspace) {
      kernel_->launch(operands, workspace, false, stream_.get());
    };
    gates_->run(step, launch);
  }

  Observation run_and_look(const GateStep& step) {
    queue_for_a_gate(step);
    const Observation left = gates_->look(step.criterion, step.poison);
    kernel_->globals().remember_first(stream_.get());
    return left;
  }

  Status run_for_a_gate(GateStep::Place place, std::uint16_t poison, const inputs::Holes& holes = {}) {
    GateStep step;
    step.place = place;
    step.poison = poison;
    step.holes = holes;
    return guarded([&] {
      queue_for_a_gate(step);
      check(cudaStreamSynchronize(stream_.get()), "running the kernel");
      kernel_->globals().remember_first(stream_.get());
    });
  }

  int device_;
  Machine machine_;
  ClockReader clocks_;
  Stream stream_;
  CublasHandle cublas_, baseline_cublas_;  // of the references; of the baselines
  CublasLtHandle cublaslt_;
  DeviceBuffer baseline_workspace_;
  GraphTimer timer_;
  HeatLog heat_;
  std::optional<ReferenceMaker> references_;

  Problem problem_;
  std::optional<GateSteps> gates_;
  std::optional<TimingSteps> timing_;
  std::unique_ptr<CudaKernel> kernel_;
};

}  // namespace
}  // namespace cuda

Result<std::unique_ptr<Backend>> make_cuda_backend(int device) {
  if (const Status started = cuda::start_device(device); !started) return started.error();
  try {
    return std::unique_ptr<Backend>(std::make_unique<cuda::CudaBackend>(device));
  } catch (const cuda::CudaError& error) {
    return environment_error(fmt::format("CUDA device {} cannot be used: {}", device, error.what()));
  }
}

}  // namespace warpsmith
