// Preparing launches, tensor maps and parameters.
#include "library/runtime/own_launch.h"

#include <fmt/format.h>

#include "codegen/tensor_map_codes.h"

namespace warpsmith::library {

namespace {

constexpr int kPortableCluster = 8;  // blocks; larger clusters need the kernel's consent
constexpr std::uint64_t kElementBytes = 2;

static_assert(swizzle_code(0) == CU_TENSOR_MAP_SWIZZLE_NONE && swizzle_code(32) == CU_TENSOR_MAP_SWIZZLE_32B &&
              swizzle_code(64) == CU_TENSOR_MAP_SWIZZLE_64B && swizzle_code(128) == CU_TENSOR_MAP_SWIZZLE_128B);
static_assert(l2_promotion_code(0) == CU_TENSOR_MAP_L2_PROMOTION_NONE &&
              l2_promotion_code(64) == CU_TENSOR_MAP_L2_PROMOTION_L2_64B &&
              l2_promotion_code(128) == CU_TENSOR_MAP_L2_PROMOTION_L2_128B &&
              l2_promotion_code(256) == CU_TENSOR_MAP_L2_PROMOTION_L2_256B);

}  // namespace

Result<OwnLaunch> OwnLaunch::prepare(const Driver& cuda, CUmodule module, const CudaLaunch& launch, ElementType element,
                                     bool dependent) {
  OwnLaunch own;
  own.workspace_bytes_ = launch.workspace_bytes;
  own.zero_workspace_ = launch.zero_workspace;
  for (const KernelLaunch& kernel : launch.kernels) {
    auto prepared = prepare_kernel(cuda, module, kernel, element, dependent);
    if (!prepared) return prepared.error();
    own.kernels_.push_back(*prepared);
  }
  return own;
}

Result<OwnLaunch::Kernel> OwnLaunch::prepare_kernel(const Driver& cuda, CUmodule module, const KernelLaunch& launch,
                                                    ElementType element, bool dependent) {
  Kernel kernel;
  const auto refused = [&](const char* what, CUresult error) {
    return cuda_error(cuda, fmt::format("{} ({})", what, launch.entry), error);
  };
  if (const CUresult found = cuda.module_function(&kernel.function, module, launch.entry.c_str())) {
    return refused("cuModuleGetFunction", found);
  }
  if (launch.dynamic_smem_bytes > 0) {
    if (const CUresult set = cuda.function_set(kernel.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                               launch.dynamic_smem_bytes)) {
      return refused("cuFuncSetAttribute", set);
    }
  }
  const int cluster_blocks = launch.cluster[0] * launch.cluster[1] * launch.cluster[2];
  if (cluster_blocks > kPortableCluster) {
    if (const CUresult set =
            cuda.function_set(kernel.function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)) {
      return refused("cuFuncSetAttribute", set);
    }
  }
  const auto extent = [](int value) { return static_cast<unsigned>(value); };
  CUlaunchConfig& config = kernel.config;
  config.gridDimX = extent(launch.grid[0]);
  config.gridDimY = extent(launch.grid[1]);
  config.gridDimZ = extent(launch.grid[2]);
  config.blockDimX = extent(launch.block[0]);
  config.blockDimY = extent(launch.block[1]);
  config.blockDimZ = extent(launch.block[2]);
  config.sharedMemBytes = extent(launch.dynamic_smem_bytes);
  if (cluster_blocks > 1) {
    CUlaunchAttribute& cluster = kernel.attributes[config.numAttrs++];
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim.x = extent(launch.cluster[0]);
    cluster.value.clusterDim.y = extent(launch.cluster[1]);
    cluster.value.clusterDim.z = extent(launch.cluster[2]);
  }
  if (dependent && launch.programmatic_dependent_launch) {
    CUlaunchAttribute& serialization = kernel.attributes[config.numAttrs++];
    serialization.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    serialization.value.programmaticStreamSerializationAllowed = 1;
  }
  if (launch.arguments.size() > kMostArguments) return failure("a kernel with too many arguments");
  for (const KernelArgument& given : launch.arguments) {
    Argument& argument = kernel.arguments[kernel.argument_count++];
    argument.kind = given.kind;
    argument.operand = static_cast<std::uint8_t>(given.operand);
    argument.integer = given.value;
    argument.real = given.real;
    argument.offset_bytes = given.offset_bytes;
    if (given.kind != KernelArgument::Kind::tensor_map) continue;
    if (kernel.map_count == kMostMaps) return failure("a kernel with too many tensor maps");
    argument.operand = static_cast<std::uint8_t>(given.map.operand);
    argument.map = kernel.map_count;
    Map& map = kernel.maps[kernel.map_count++];
    map.id = next_map_id();
    map.type = element == ElementType::f16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    map.dims = {static_cast<cuuint64_t>(given.map.dims[0]), static_cast<cuuint64_t>(given.map.dims[1])};
    map.stride_bytes = static_cast<cuuint64_t>(given.map.ld) * kElementBytes;
    map.box = {static_cast<cuuint32_t>(given.map.box[0]), static_cast<cuuint32_t>(given.map.box[1])};
    map.swizzle = static_cast<CUtensorMapSwizzle>(swizzle_code(given.map.swizzle_bytes));
    map.promotion = static_cast<CUtensorMapL2promotion>(l2_promotion_code(given.map.l2_promotion_bytes));
  }
  return kernel;
}

CUresult OwnLaunch::encode(const Driver& cuda, const Map& map, const void* address, CUtensorMap& out) {
  constexpr std::array<cuuint32_t, 2> kSteps = {1, 1};
  return cuda.encode_tiled(&out, map.type, 2, const_cast<void*>(address), map.dims.data(), &map.stride_bytes,
                           map.box.data(), kSteps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, map.swizzle, map.promotion,
                           CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

CUresult OwnLaunch::run_kernel(const Driver& cuda, const Kernel& kernel, const CallArguments& call, CUstream stream) {
  std::array<void*, kMostArguments> parameters;
  std::array<std::byte*, kMostArguments> spaces;  // workspace pointers
  MapCache* const cache = kernel.map_count > 0 ? thread_map_cache() : nullptr;
  if (kernel.map_count > 0 && cache == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  const auto address_of = [](const auto& value) {
    return const_cast<void*>(static_cast<const void*>(&value));  // the driver only reads parameters
  };
  for (std::size_t i = 0; i < kernel.argument_count; ++i) {
    const Argument& argument = kernel.arguments[i];
    switch (argument.kind) {
      case KernelArgument::Kind::pointer:
        parameters[i] = address_of(call.operands[argument.operand]);
        break;
      case KernelArgument::Kind::workspace:
        spaces[i] = call.workspace + argument.offset_bytes;
        parameters[i] = &spaces[i];
        break;
      case KernelArgument::Kind::int32:
        parameters[i] = address_of(argument.integer);
        break;
      case KernelArgument::Kind::float32:
        parameters[i] = address_of(argument.real);
        break;
      case KernelArgument::Kind::alpha:
        parameters[i] = address_of(call.alpha);
        break;
      case KernelArgument::Kind::beta:
        parameters[i] = address_of(call.beta);
        break;
      case KernelArgument::Kind::tensor_map: {
        const Map& map = kernel.maps[argument.map];
        const void* operand = call.operands[argument.operand];
        MapSlot& slot = cache->slot(argument.map, map.id, operand);
        if (slot.id != map.id || slot.address != operand) {
          slot.id = 0;
          if (const CUresult encoded = encode(cuda, map, operand, slot.map)) return encoded;
          slot.address = operand;
          slot.id = map.id;
        }
        parameters[i] = &slot.map;
        break;
      }
    }
  }
  CUlaunchConfig config = kernel.config;
  config.hStream = stream;
  config.attrs = const_cast<CUlaunchAttribute*>(kernel.attributes.data());
  return cuda.launch(&config, kernel.function, parameters.data(), nullptr);
}

CUresult OwnLaunch::run(const Driver& cuda, const CallArguments& arguments, CUstream stream) const {
  for (const Kernel& kernel : kernels_) {
    if (const CUresult launched = run_kernel(cuda, kernel, arguments, stream)) return launched;
  }
  return CUDA_SUCCESS;
}

}  // namespace warpsmith::library
