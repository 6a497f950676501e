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

constexpr std::uint16_t kGap = 0x7fab;  // between rows: NaN

// A matrix as stored, row-major; at(row, column): its elements.
template <class At>
std::vector<std::uint16_t> stored(std::int64_t rows, std::int64_t columns, std::int64_t ld, At at) {
  std::vector<std::uint16_t> values(static_cast<std::size_t>((rows - 1) * ld + columns), kGap);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      values[static_cast<std::size_t>(row * ld + column)] = at(row, column);
    }
  }
  return values;
}

std::vector<std::uint16_t> stored_a(const Problem& problem, const InputSpec& spec) {
  return stored(problem.a_rows(), problem.a_cols(), problem.a_ld(), [&](std::int64_t row, std::int64_t column) {
    return problem.a_is_k_major() ? input_a(spec, row, column) : input_a(spec, column, row);
  });
}

std::vector<std::uint16_t> stored_b(const Problem& problem, const InputSpec& spec) {
  return stored(problem.b_rows(), problem.b_cols(), problem.b_ld(), [&](std::int64_t row, std::int64_t column) {
    return problem.b_is_k_major() ? input_b(spec, column, row) : input_b(spec, row, column);
  });
}

cuda::DeviceBuffer on_device(const std::vector<std::uint16_t>& values) {
  const std::size_t bytes = values.size() * sizeof(std::uint16_t);
  cuda::DeviceBuffer buffer(bytes, cuda::Contents::unwatched);
  cuda::check(cudaMemcpy(buffer.data(), values.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  return buffer;
}

void launch_alone(const Problem& problem, const std::string& cubin, const CudaLaunch& launch) {
  const InputSpec spec{InputKind::normal, 1, problem.m, problem.n, problem.k, problem.element};
  const cuda::DeviceBuffer a = on_device(stored_a(problem, spec)), b = on_device(stored_b(problem, spec));
  // A scaled problem's first launch reads C; initcheck would take uninitialised elements for the kernel's fault.
  const cuda::DeviceBuffer c =
      problem.scaled()
          ? on_device(stored(problem.m, problem.n, problem.c_ld(),
                             [&](std::int64_t row, std::int64_t column) { return input_c(spec, row, column); }))
          : cuda::DeviceBuffer(static_cast<std::size_t>(problem.c_extent()) * sizeof(std::uint16_t),
                               cuda::Contents::unwatched);
  cuda::DeviceBuffer workspace;
  if (launch.workspace_bytes > 0) {
    workspace = cuda::DeviceBuffer(static_cast<std::size_t>(launch.workspace_bytes), cuda::Contents::unwatched);
    if (launch.zero_workspace) {
      cuda::check(cudaMemset(workspace.data(), 0, workspace.bytes()), "cudaMemset");
    }
  }
  const cuda::Stream stream = cuda::make_stream();
  cuda::CudaKernel kernel(cubin, launch, problem.element);
  cuda::OperandSet operands{a.as<std::uint16_t>(), b.as<std::uint16_t>(), c.as<std::uint16_t>()};
  if (problem.scaled()) operands.beta = 0.5F;
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
