// No kernel of our own runs here: inputs are made on the host.
#include "evaluate/cuda/sanitizer_run.h"

#include <fmt/format.h>

#include <vector>

#include "base/file.h"
#include "codegen/launch.h"
#include "evaluate/cuda/cuda_handles.h"
#include "evaluate/cuda/cuda_kernel.h"
#include "evaluate/inputs.h"
#include "problem/problem.h"

namespace warpsmith {

namespace {

constexpr int kLaunches = 2;

// As stored, row-major.
std::vector<std::uint16_t> stored_a(const Problem& problem, const InputSpec& spec) {
  std::vector<std::uint16_t> values;
  for (std::int64_t row = 0; row < problem.a_rows(); ++row) {
    for (std::int64_t column = 0; column < problem.a_cols(); ++column) {
      values.push_back(problem.a_is_k_major() ? input_a(spec, row, column) : input_a(spec, column, row));
    }
  }
  return values;
}

std::vector<std::uint16_t> stored_b(const Problem& problem, const InputSpec& spec) {
  std::vector<std::uint16_t> values;
  for (std::int64_t row = 0; row < problem.b_rows(); ++row) {
    for (std::int64_t column = 0; column < problem.b_cols(); ++column) {
      values.push_back(problem.b_is_k_major() ? input_b(spec, column, row) : input_b(spec, row, column));
    }
  }
  return values;
}

cuda::DeviceBuffer on_device(const std::vector<std::uint16_t>& values) {
  const std::size_t bytes = values.size() * sizeof(std::uint16_t);
  cuda::DeviceBuffer buffer(bytes);
  cuda::check(cudaMemcpy(buffer.data(), values.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  return buffer;
}

void launch_alone(const Problem& problem, const std::string& cubin, const CudaLaunch& launch) {
  const InputSpec spec{InputKind::normal, 1, problem.m, problem.n, problem.k, problem.element};
  const cuda::DeviceBuffer a = on_device(stored_a(problem, spec)), b = on_device(stored_b(problem, spec));
  const cuda::DeviceBuffer c(static_cast<std::size_t>(problem.m * problem.n) * sizeof(std::uint16_t));
  cuda::DeviceBuffer workspace;
  if (launch.workspace_bytes > 0) {
    workspace = cuda::DeviceBuffer(static_cast<std::size_t>(launch.workspace_bytes));
    if (launch.zero_workspace) {
      cuda::check(cudaMemset(workspace.data(), 0, workspace.bytes()), "cudaMemset");
    }
  }
  const cuda::Stream stream = cuda::make_stream();
  cuda::CudaKernel kernel(cubin, launch, problem.element);
  const cuda::OperandSet operands{a.as<std::uint16_t>(), b.as<std::uint16_t>(), c.as<std::uint16_t>()};
  for (int i = 0; i < kLaunches; ++i) {
    kernel.launch(operands, workspace.data(), false, stream.get());
    cuda::check(cudaStreamSynchronize(stream.get()), "running the kernel");
  }
}

}  // namespace

Status run_for_sanitizer(const nlohmann::json& request, int device) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || device >= count) return environment_error("no such CUDA device");
  try {
    const auto problem = parse_problem(request.at("problem").get<std::string>());
    if (!problem) return problem.error();
    const auto cubin = read_file(request.at("binary").get<std::string>());
    if (!cubin) return cubin.error();
    cuda::check(cudaSetDevice(device), "cudaSetDevice");
    launch_alone(*problem, *cubin, request.at("launch").get<CudaLaunch>());
    return ok_status();
  } catch (const nlohmann::json::exception& error) {
    return bad_input(fmt::format("malformed request: {}", error.what()));
  } catch (const cuda::CudaError& error) {
    return error.out_of_memory() ? environment_error(error.what()) : failure(error.what());
  }
}

}  // namespace warpsmith
