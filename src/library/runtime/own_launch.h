// A kernel of ours, ready to launch on any operands: everything that can be prepared is, so that a launch fills in
// pointers and calls the driver.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "codegen/launch.h"
#include "library/runtime/driver.h"
#include "library/runtime/thread_cache.h"
#include "problem/problem.h"

namespace warpsmith::library {

// What differs from call to call.
struct CallArguments {
  std::array<const void*, 3> operands{};  // A, B, C
  float alpha = 1, beta = 0;
  std::byte* workspace = nullptr;
};

class OwnLaunch {
 public:
  OwnLaunch() = default;

  // dependent: as programmatic dependent launches, where a kernel is made for it. Error: failed where the launch asks
  // for more than this runtime prepares or the driver refuses the kernel, environment where memory ran out.
  static Result<OwnLaunch> prepare(const Driver& cuda, CUmodule module, const CudaLaunch& launch, ElementType element,
                                   bool dependent);

  std::int64_t workspace_bytes() const { return workspace_bytes_; }
  bool zero_workspace() const { return zero_workspace_; }

  // Queues the kernels.
  CUresult run(const Driver& cuda, const CallArguments& arguments, CUstream stream) const;

 private:
  static constexpr std::size_t kMostArguments = 20;

  struct Argument {
    KernelArgument::Kind kind = KernelArgument::Kind::pointer;
    std::uint8_t operand = 0;  // pointer, tensor_map
    std::uint8_t map = 0;      // tensor_map: its place in Kernel::maps
    std::int32_t integer = 0;
    float real = 0;
    std::int64_t offset_bytes = 0;  // workspace
  };
  struct Map {
    std::uint64_t id = 0;
    CUtensorMapDataType type{};
    std::array<cuuint64_t, 2> dims{};
    cuuint64_t stride_bytes = 0;
    std::array<cuuint32_t, 2> box{};
    CUtensorMapSwizzle swizzle{};
    CUtensorMapL2promotion promotion{};
  };
  struct Kernel {
    CUfunction function = nullptr;
    CUlaunchConfig config{};
    std::array<CUlaunchAttribute, 2> attributes{};  // cluster, dependent launch
    std::uint8_t argument_count = 0, map_count = 0;
    std::array<Argument, kMostArguments> arguments{};
    std::array<Map, kMostMaps> maps{};
  };

  static Result<Kernel> prepare_kernel(const Driver& cuda, CUmodule module, const KernelLaunch& launch,
                                       ElementType element, bool dependent);
  static CUresult encode(const Driver& cuda, const Map& map, const void* address, CUtensorMap& out);
  static CUresult run_kernel(const Driver& cuda, const Kernel& kernel, const CallArguments& arguments, CUstream stream);

  std::vector<Kernel> kernels_;
  std::int64_t workspace_bytes_ = 0;
  bool zero_workspace_ = false;
};

}  // namespace warpsmith::library
