// Launch descriptor: all that is needed to run compiled kernels on a problem, as data (no host code).
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "problem/problem.h"

namespace warpsmith {

enum class Operand { a, b, c };

// A two-dimensional tiled tensor map (CUDA driver API, cuTensorMapEncodeTiled) over an operand as stored, row-major.
// dims, box: innermost first, in elements. Out-of-bounds reads give zeros.
struct TensorMap {
  Operand operand = Operand::a;
  std::array<std::int64_t, 2> dims{};  // columns, rows of the operand
  std::int64_t ld = 0;                 // elements from row to row
  std::array<int, 2> box{};            // columns, rows of the box
  int swizzle_bytes = 128;             // 0, 32, 64 or 128
  int l2_promotion_bytes = 256;        // 0, 64, 128 or 256

  bool operator==(const TensorMap&) const = default;
};

// A kernel argument, in parameter order.
struct KernelArgument {
  // alpha, beta: float32, given with each call; of problems with Scaling::alpha_beta alone.
  enum class Kind { pointer, workspace, int32, float32, alpha, beta, tensor_map } kind = Kind::pointer;
  Operand operand = Operand::a;   // pointer
  std::int32_t value = 0;         // int32
  float real = 0;                 // float32
  std::int64_t offset_bytes = 0;  // workspace: from its start
  TensorMap map;                  // tensor_map, passed by value as a 128-byte __grid_constant__ parameter

  bool operator==(const KernelArgument&) const = default;

  static KernelArgument pointer_to(Operand operand) {
    KernelArgument argument;
    argument.operand = operand;
    return argument;
  }
  static KernelArgument workspace_pointer(std::int64_t offset_bytes = 0) {
    KernelArgument argument;
    argument.kind = Kind::workspace;
    argument.offset_bytes = offset_bytes;
    return argument;
  }
  static KernelArgument integer(std::int32_t value) {
    KernelArgument argument;
    argument.kind = Kind::int32;
    argument.value = value;
    return argument;
  }
  static KernelArgument number(float value) {
    KernelArgument argument;
    argument.kind = Kind::float32;
    argument.real = value;
    return argument;
  }
  static KernelArgument alpha() {
    KernelArgument argument;
    argument.kind = Kind::alpha;
    return argument;
  }
  static KernelArgument beta() {
    KernelArgument argument;
    argument.kind = Kind::beta;
    return argument;
  }
  static KernelArgument tensor(const TensorMap& map) {
    KernelArgument argument;
    argument.kind = Kind::tensor_map;
    argument.operand = map.operand;
    argument.map = map;
    return argument;
  }
};

// The launch of one kernel.
struct KernelLaunch {
  std::string entry;  // extern "C" name
  std::array<int, 3> grid{1, 1, 1}, block{1, 1, 1}, cluster{1, 1, 1};
  int dynamic_smem_bytes = 0;
  bool programmatic_dependent_launch = false;  // made to start while the kernel before it still runs
  std::vector<KernelArgument> arguments;

  bool operator==(const KernelLaunch&) const = default;
};

inline constexpr std::size_t kMaxKernels = 8;  // of one candidate

// A CUDA candidate's call: its kernels, 1 to kMaxKernels, in order on one stream, sharing one workspace.
struct CudaLaunch {
  std::vector<KernelLaunch> kernels;
  std::int64_t workspace_bytes = 0;
  bool zero_workspace = false;  // cleared once when allocated; the kernels leave it cleared

  bool operator==(const CudaLaunch&) const = default;
  bool offers_programmatic_dependent_launch() const;
  bool takes_scaling() const;  // an argument is alpha or beta
};

// A CPU kernel call: `entry` has the signature of CpuKernel in cpu/kernel_abi.h and is called once per thread.
struct CpuLaunch {
  std::string entry;
  int threads = 1;
  std::int64_t workspace_bytes = 0;      // shared by all threads, 4096-byte aligned
  std::vector<std::int64_t> parameters;  // run-time knobs (cache blocks), in the order the kernel documents
};

std::string_view to_string(Operand operand);

// The JSON form of a CUDA launch is that of a candidate's descriptor (docs/candidates.md) with every expression
// replaced by its value.
void to_json(nlohmann::json& json, const CudaLaunch& launch);
void from_json(const nlohmann::json& json, CudaLaunch& launch);
void to_json(nlohmann::json& json, const CpuLaunch& launch);
void from_json(const nlohmann::json& json, CpuLaunch& launch);

// Of a launch of either kind, as JSON.
bool offers_programmatic_dependent_launch(const nlohmann::json& launch);

}  // namespace warpsmith
