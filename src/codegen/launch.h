// Launch descriptor: all that is needed to run a compiled kernel on a problem, as data (no host code).
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
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
  std::array<int, 2> box{};            // columns, rows of the box
  int swizzle_bytes = 128;             // 0, 32, 64 or 128
  int l2_promotion_bytes = 256;        // 0, 64, 128 or 256
};

// A kernel argument, in parameter order.
struct KernelArgument {
  enum class Kind { pointer, workspace, int32, tensor_map } kind = Kind::pointer;
  Operand operand = Operand::a;  // pointer
  std::int32_t value = 0;        // int32
  TensorMap map;                 // tensor_map, passed by value as a 128-byte __grid_constant__ parameter

  static KernelArgument pointer_to(Operand operand) { return {Kind::pointer, operand, 0, {}}; }
  static KernelArgument workspace_pointer() { return {Kind::workspace, Operand::a, 0, {}}; }
  static KernelArgument integer(std::int32_t value) { return {Kind::int32, Operand::a, value, {}}; }
  static KernelArgument tensor(const TensorMap& map) { return {Kind::tensor_map, map.operand, 0, map}; }
};

// A CUDA kernel launch.
struct CudaLaunch {
  std::string entry;  // extern "C" name
  std::array<int, 3> grid{1, 1, 1}, block{1, 1, 1}, cluster{1, 1, 1};
  int dynamic_smem_bytes = 0;
  std::int64_t workspace_bytes = 0;
  bool zero_workspace = false;  // cleared once when allocated; the kernel leaves it cleared
  bool programmatic_dependent_launch = false;
  std::vector<KernelArgument> arguments;
};

// A CPU kernel call: `entry` has the signature of CpuKernel in cpu/kernel_abi.h and is called once per thread.
struct CpuLaunch {
  std::string entry;
  int threads = 1;
  std::int64_t workspace_bytes = 0;      // shared by all threads, 4096-byte aligned
  std::vector<std::int64_t> parameters;  // run-time knobs (cache blocks), in the order the kernel documents
};

void to_json(nlohmann::json& json, const CudaLaunch& launch);
void from_json(const nlohmann::json& json, CudaLaunch& launch);
void to_json(nlohmann::json& json, const CpuLaunch& launch);
void from_json(const nlohmann::json& json, CpuLaunch& launch);

}  // namespace warpsmith
