// No kernel of our own runs here: inputs are made on the host.
#include "task/cuda/task_sanitizer_run.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "evaluate/cuda/cuda_handles.h"
#include "evaluate/cuda/cuda_kernel.h"
#include "task/data.h"
#include "task/service.h"

namespace warpsmith::task {

namespace {

using cuda::check;

constexpr int kLaunches = 2;

// Pointers as distances from `base`, wherever what they point to was allocated.
CudaLaunch with_addresses(CudaLaunch launch, const SlabLayout& layout, const std::vector<cuda::DeviceBuffer>& tensors,
                          const cuda::DeviceBuffer& workspace, const void* base) {
  const auto distance = [base](const cuda::DeviceBuffer& buffer) {
    return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(buffer.data()) -
                                     reinterpret_cast<std::uintptr_t>(base));
  };
  for (KernelLaunch& kernel : launch.kernels) {
    for (KernelArgument& argument : kernel.arguments) {
      if (argument.kind != KernelArgument::Kind::workspace) continue;
      if (const auto tensor = tensor_at(layout, argument.offset_bytes)) {
        argument.offset_bytes = distance(tensors[*tensor]);
      } else {
        argument.offset_bytes = distance(workspace) + argument.offset_bytes - layout.workspace;
      }
    }
  }
  return launch;
}

void launch_alone(const Instance& instance, const CompiledSetting& setting, const std::string& cubin) {
  const auto inputs = make_inputs(instance, InputKind::normal, 1);
  std::vector<cuda::DeviceBuffer> tensors;
  for (std::size_t i = 0; i < instance.tensors.size(); ++i) {
    cuda::DeviceBuffer& buffer =
        tensors.emplace_back(static_cast<std::size_t>(instance.tensors[i].bytes), cuda::Contents::unwatched);
    if (i < inputs.size()) {
      check(cudaMemcpy(buffer.data(), inputs[i].data(), inputs[i].size(), cudaMemcpyHostToDevice), "cudaMemcpy");
    }
  }
  cuda::DeviceBuffer workspace;
  if (setting.workspace_bytes > 0) {
    workspace = cuda::DeviceBuffer(static_cast<std::size_t>(setting.workspace_bytes), cuda::Contents::unwatched);
    if (setting.zero_workspace) check(cudaMemset(workspace.data(), 0, workspace.bytes()), "cudaMemset");
  }
  void* base = tensors.front().data();
  const SlabLayout layout = slab_of(instance, setting.workspace_bytes);
  const cuda::Stream stream = cuda::make_stream();
  cuda::CudaKernel kernel(cubin, with_addresses(setting.launch.get<CudaLaunch>(), layout, tensors, workspace, base),
                          ElementType::f16);
  for (int i = 0; i < kLaunches; ++i) {
    kernel.launch({}, base, false, stream.get());
    check(cudaStreamSynchronize(stream.get()), "running the kernel");
  }
}

}  // namespace

Status run_for_sanitizer(const nlohmann::json& request, int device) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || device >= count) return environment_error("no such CUDA device");
  try {
    const auto asked = request.get<EvaluationRequest>();
    const auto task = load_task(asked.directory);
    if (!task) return task.error();
    if (task->identity != asked.identity) return environment_error("the task's files have changed since");
    check(cudaSetDevice(device), "cudaSetDevice");
    for (const CompiledSetting& setting : asked.settings) {
      const auto cubin = read_file(setting.binary);
      if (!cubin) return cubin.error();
      launch_alone(instance_of(*task, setting.setting), setting, *cubin);
    }
    return ok_status();
  } catch (const nlohmann::json::exception& error) {
    return bad_input(fmt::format("malformed request: {}", error.what()));
  } catch (const cuda::CudaError& error) {
    return error.out_of_memory() ? environment_error(error.what()) : failure(error.what());
  }
}

}  // namespace warpsmith::task
