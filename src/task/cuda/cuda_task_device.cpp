// Slabs in device memory, launches through CudaKernel (outputs and workspace of a call lie in what it takes for the
// workspace, inputs in what it takes for A), batches as CUDA graphs. CUDA errors become Errors here.
#include "task/cuda/cuda_task_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/file.h"
#include "evaluate/cuda/cuda_handles.h"
#include "evaluate/cuda/cuda_kernel.h"
#include "evaluate/cuda/device_work.h"
#include "evaluate/cuda/graph_timer.h"
#include "evaluate/cuda/machine_facts.h"

namespace warpsmith::task {

namespace {

using cuda::check;

constexpr double kMemoryShare = 0.4;  // of what is free, for slabs
constexpr double kBatchUs = 500;

template <class Body>
Status guarded(Body body) {
  try {
    body();
    return ok_status();
  } catch (const cuda::CudaError& error) {
    if (error.environment()) return environment_error(error.what());
    if (error.out_of_memory()) return environment_error(fmt::format("not enough device memory: {}", error.what()));
    return failure(cuda::context_is_lost() ? fmt::format("{}; the CUDA context is lost", error.what()) : error.what());
  } catch (const nlohmann::json::exception& error) {
    return failure(fmt::format("malformed launch descriptor: {}", error.what()));
  }
}

template <class T, class Body>
Result<T> valued(Body body) {
  std::optional<T> value;
  const Status status = guarded([&] { value = body(); });
  if (!status.ok()) return status.error();
  return std::move(*value);
}

std::unique_ptr<cuda::CudaKernel> load_kernel(const std::string& cubin, const nlohmann::json& launch) {
  return std::make_unique<cuda::CudaKernel>(cubin, launch.get<CudaLaunch>(), ElementType::f16);
}

// Inputs become parts of operand A, which may be in another slab than the rest.
CudaLaunch with_inputs_apart(CudaLaunch launch, const Instance& instance, const SlabLayout& layout) {
  for (KernelLaunch& kernel : launch.kernels) {
    for (KernelArgument& argument : kernel.arguments) {
      if (argument.kind != KernelArgument::Kind::workspace) continue;
      const auto tensor = tensor_at(layout, argument.offset_bytes);
      if (!tensor || instance.tensors[*tensor].output) continue;
      argument.kind = KernelArgument::Kind::pointer;
      argument.operand = Operand::a;
    }
  }
  return launch;
}

class CudaTaskDevice final : public TaskDevice {
 public:
  CudaTaskDevice(const Machine& machine, int device)
      : machine_(machine), clocks_(device), stream_(cuda::make_stream()), timer_(stream_.get(), machine.l2_bytes) {}

  const Machine& machine() const override { return machine_; }

  Result<int> make_room(std::int64_t bytes, int wanted) override {
    return valued<int>([&] {
      std::size_t free_bytes = 0, total_bytes = 0;
      check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
      const double room = kMemoryShare * static_cast<double>(free_bytes + memory_.bytes());
      const auto most = static_cast<std::int64_t>(room / static_cast<double>(bytes));
      const int slabs = static_cast<int>(std::clamp<std::int64_t>(wanted, 2, std::max<std::int64_t>(2, most)));
      const auto needed = static_cast<std::size_t>(bytes * slabs);
      for (auto& graph : graphs_) graph.reset();
      if (memory_.bytes() < needed) {
        memory_ = cuda::DeviceBuffer();
        memory_ = cuda::DeviceBuffer(needed);
      }
      slab_bytes_ = bytes;
      return slabs;
    });
  }

  Status load(const std::filesystem::path& binary, const nlohmann::json& launch, const Instance& instance,
              const SlabLayout& layout) override {
    unload();
    const Result<std::string> cubin = read_file(binary);
    if (!cubin.ok()) return cubin.error();
    return guarded([&] {
      const CudaLaunch apart = with_inputs_apart(launch.get<CudaLaunch>(), instance, layout);
      kernel_ = std::make_unique<cuda::CudaKernel>(*cubin, apart, ElementType::f16);
      kernel_->limit_local_memory();
      wait("loading the kernel");
    });
  }

  void unload() override {
    for (auto& graph : graphs_) graph.reset();
    kernel_.reset();
  }

  bool outlives_crashes() const override { return false; }
  bool remembers() const override { return false; }  // its variables are put back before every batch

  Status write(int slab, const std::byte* bytes) override {
    return guarded([&] {
      const auto size = static_cast<std::size_t>(slab_bytes_);
      check(cudaMemcpyAsync(at(slab), bytes, size, cudaMemcpyHostToDevice, stream_.get()), "cudaMemcpyAsync");
      wait("writing the operands");
    });
  }
  Status read(int slab, std::byte* bytes) override {
    return guarded([&] {
      const auto size = static_cast<std::size_t>(slab_bytes_);
      check(cudaMemcpyAsync(bytes, at(slab), size, cudaMemcpyDeviceToHost, stream_.get()), "cudaMemcpyAsync");
      wait("reading the results");
    });
  }
  Status fill(int slab, std::int64_t offset, std::int64_t bytes, std::uint16_t pattern) override {
    return guarded([&] {
      cuda::set_pattern(reinterpret_cast<std::uint16_t*>(at(slab) + offset), bytes / 2, pattern, stream_.get());
    });
  }

  Status run(int slab) override {
    return guarded([&] {
      cuda::scrub_shared_memory(machine_.units, machine_.smem_bytes_per_block, stream_.get());
      launch(slab, slab, stream_.get());
      wait("running the kernel");
      kernel_->globals().remember_first(stream_.get());
    });
  }

  CheckReport check_state() override {
    CheckReport report;
    const Status compared = guarded([&] { report = kernel_->globals().compare(stream_.get()); });
    return compared.ok() ? report : CheckReport{false, compared.error().message, 0, 0};
  }

  Result<Armed> arm(const std::vector<int>& slabs, bool warm) override {
    return valued<Armed>([&] {
      // The timer counts launches; cold ones it shuffles, warm ones all get its input set 0.
      const auto on_slabs = [this, slabs, warm](int inputs, int output, cudaStream_t stream) {
        const int slab = slabs[static_cast<std::size_t>(warm ? output : inputs)];
        launch(warm ? 0 : slab, slab, stream);
      };
      std::optional<cuda::ArmedGraph>& graph = graphs_[warm ? 1 : 0];
      graph = timer_.arm(on_slabs, static_cast<int>(slabs.size()), !warm, kernel_->descriptor().kernels.size());
      return Armed{graph->estimate_us, graph->launches};
    });
  }

  Result<double> time(bool warm) override {
    return valued<double>(
        [&] { return timer_.replay(*graphs_[warm ? 1 : 0], [&] { clear_what_launches_leave(warm); }); });
  }

  // What is written may stay in L2; what is read comes from memory, which is flushed before each batch.
  double floor_us(const Instance& instance, std::int64_t, int slabs) const override {
    if (machine_.peak_gb_per_s <= 0) return machine_.launch_floor_us;
    const std::int64_t bytes = std::max(instance.read_bytes, instance.traffic_bytes - machine_.l2_bytes / slabs);
    return std::max(machine_.launch_floor_us, static_cast<double>(bytes) / (machine_.peak_gb_per_s * 1e3));
  }
  double wanted_batch_us() const override { return kBatchUs; }

  double clock_mhz() override { return clocks_.mhz(); }
  std::vector<std::string> throttle_reasons() override { return clocks_.throttle_reasons(); }

 private:
  std::byte* at(int slab) const { return memory_.as<std::byte>(static_cast<std::size_t>(slab * slab_bytes_)); }
  void clear_what_launches_leave(bool keep_l2) {
    kernel_->globals().restore(stream_.get());
    cuda::scrub_shared_memory(machine_.units, machine_.smem_bytes_per_block, stream_.get());
    if (kernel_->uses_local_memory() && !keep_l2) cuda::scrub_local_memory(machine_.units, stream_.get());
  }
  void wait(const char* what) { check(cudaStreamSynchronize(stream_.get()), what); }
  void launch(int inputs, int rest, cudaStream_t stream) {
    cuda::OperandSet operands;
    operands.a = reinterpret_cast<std::uint16_t*>(at(inputs));
    kernel_->launch(operands, at(rest), false, stream);
  }

  Machine machine_;
  cuda::ClockReader clocks_;
  cuda::Stream stream_;
  cuda::GraphTimer timer_;
  cuda::DeviceBuffer memory_;
  std::int64_t slab_bytes_ = 0;
  std::unique_ptr<cuda::CudaKernel> kernel_;
  std::array<std::optional<cuda::ArmedGraph>, 2> graphs_;  // cold, warm
};

// In double precision on the device, by the user's own kernels.
class CudaReference final : public Reference {
 public:
  explicit CudaReference(std::vector<CompiledSetting> settings)
      : settings_(std::move(settings)), stream_(cuda::make_stream()) {}

  Status complete(const Instance& instance, Dataset& dataset) override {
    const auto compiled = std::find_if(settings_.begin(), settings_.end(),
                                       [&](const CompiledSetting& one) { return one.setting == instance.setting; });
    if (compiled == settings_.end()) return failure("the reference was not compiled for " + instance.describe());
    const Result<std::string> cubin = read_file(compiled->binary);
    if (!cubin.ok()) return cubin.error();
    const ReferenceLayout layout = reference_layout(instance);
    std::vector<std::byte> memory(static_cast<std::size_t>(layout.bytes));
    write_reference_inputs(instance, dataset, layout, memory.data());
    const Status ran = guarded([&] {
      const auto kernel = load_kernel(*cubin, compiled->launch);
      const auto workspace = static_cast<std::size_t>(std::max<std::int64_t>(compiled->workspace_bytes, 1));
      const cuda::DeviceBuffer slab(memory.size() + workspace);
      check(cudaMemcpy(slab.data(), memory.data(), memory.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
      check(cudaMemset(slab.as<std::byte>(memory.size()), 0, workspace), "cudaMemset");
      kernel->launch({}, slab.data(), false, stream_.get());
      check(cudaStreamSynchronize(stream_.get()), "running the reference");
      check(cudaMemcpy(memory.data(), slab.data(), memory.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
    });
    const Status read = ran ? read_reference_outputs(instance, layout, memory.data(), dataset) : ran;
    if (read) return read;
    return Error{read.error().kind, fmt::format("the reference of {}: {}", instance.describe(), read.error().message)};
  }

 private:
  std::vector<CompiledSetting> settings_;
  cuda::Stream stream_;
};

class CudaFactory final : public DeviceFactory {
 public:
  CudaFactory(const Machine& machine, int device) : machine_(machine), device_(device) {}

  Result<std::unique_ptr<TaskDevice>> device(const EvaluationRequest&) override {
    return valued<std::unique_ptr<TaskDevice>>([&] { return std::make_unique<CudaTaskDevice>(machine_, device_); });
  }

  Result<std::unique_ptr<Reference>> reference(const Task& task, const EvaluationRequest& request) override {
    if (task.reference_descriptor.empty()) return open_cpp_reference(task, request);
    return valued<std::unique_ptr<Reference>>([&] { return std::make_unique<CudaReference>(request.references); });
  }

 private:
  Machine machine_;
  int device_;
};

}  // namespace

std::unique_ptr<DeviceFactory> make_cuda_factory(const Machine& machine, int device) {
  return std::make_unique<CudaFactory>(machine, device);
}

}  // namespace warpsmith::task
