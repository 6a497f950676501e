// Module loading, tensor maps and launches through the driver API.
#include "evaluate/cuda/cuda_kernel.h"

#include <fmt/format.h>

#include <array>
#include <vector>

namespace warpsmith::cuda {

namespace {

constexpr int kPortableCluster = 8;  // blocks; larger clusters need the kernel's consent

std::uint16_t* pointer_of(Operand operand, const OperandSet& operands) {
  switch (operand) {
    case Operand::a:
      return operands.a;
    case Operand::b:
      return operands.b;
    case Operand::c:
      return operands.c;
  }
  return nullptr;
}

CUtensorMapSwizzle swizzle_of(int bytes) {
  switch (bytes) {
    case 32:
      return CU_TENSOR_MAP_SWIZZLE_32B;
    case 64:
      return CU_TENSOR_MAP_SWIZZLE_64B;
    case 128:
      return CU_TENSOR_MAP_SWIZZLE_128B;
    default:
      return CU_TENSOR_MAP_SWIZZLE_NONE;
  }
}

CUtensorMapL2promotion promotion_of(int bytes) {
  switch (bytes) {
    case 64:
      return CU_TENSOR_MAP_L2_PROMOTION_L2_64B;
    case 128:
      return CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
    case 256:
      return CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
    default:
      return CU_TENSOR_MAP_L2_PROMOTION_NONE;
  }
}

std::size_t parameter_bytes(KernelArgument::Kind kind) {
  switch (kind) {
    case KernelArgument::Kind::int32:
      return sizeof(std::int32_t);
    case KernelArgument::Kind::tensor_map:
      return sizeof(CUtensorMap);
    default:
      return sizeof(void*);
  }
}

}  // namespace

CudaKernel::CudaKernel(const std::string& cubin, CudaLaunch launch, ElementType element)
    : launch_(std::move(launch)), element_(element) {
  check(driver().module_load_data(&module_, cubin.data()), "cuModuleLoadData");
  try {
    check(driver().module_get_function(&function_, module_, launch_.entry.c_str()), "cuModuleGetFunction");
    check_parameters();
    if (launch_.dynamic_smem_bytes > 0) {
      check(driver().function_set_attribute(function_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                            launch_.dynamic_smem_bytes),
            "cuFuncSetAttribute (dynamic shared memory)");
    }
    if (launch_.cluster[0] * launch_.cluster[1] * launch_.cluster[2] > kPortableCluster) {
      check(driver().function_set_attribute(function_, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
            "cuFuncSetAttribute (non-portable cluster)");
    }
  } catch (...) {
    driver().module_unload(module_);
    throw;
  }
}

CudaKernel::~CudaKernel() { driver().module_unload(module_); }

// The driver copies as many bytes as the kernel declares from where the launch points: sizes must agree.
void CudaKernel::check_parameters() const {
  std::size_t offset = 0, size = 0, count = 0;
  while (driver().function_parameter(function_, count, &offset, &size) == CUDA_SUCCESS) {
    if (count < launch_.arguments.size() && size != parameter_bytes(launch_.arguments[count].kind)) {
      throw CudaError(fmt::format("parameter {} of {} has {} bytes, the launch descriptor passes {}", count,
                                  launch_.entry, size, parameter_bytes(launch_.arguments[count].kind)),
                      false);
    }
    ++count;
  }
  if (count != launch_.arguments.size()) {
    throw CudaError(fmt::format("{} has {} parameters, the launch descriptor passes {}", launch_.entry, count,
                                launch_.arguments.size()),
                    false);
  }
}

CUtensorMap CudaKernel::encode(const TensorMap& map, const OperandSet& operands) const {
  CUtensorMap encoded{};
  const std::array<cuuint64_t, 2> dims = {static_cast<cuuint64_t>(map.dims[0]), static_cast<cuuint64_t>(map.dims[1])};
  const std::array<cuuint64_t, 1> strides = {dims[0] * sizeof(std::uint16_t)};  // bytes between rows
  const std::array<cuuint32_t, 2> box = {static_cast<cuuint32_t>(map.box[0]), static_cast<cuuint32_t>(map.box[1])};
  const std::array<cuuint32_t, 2> steps = {1, 1};
  const CUtensorMapDataType type =
      element_ == ElementType::f16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  check(driver().encode_tiled(&encoded, type, 2, pointer_of(map.operand, operands), dims.data(), strides.data(),
                              box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(map.swizzle_bytes),
                              promotion_of(map.l2_promotion_bytes), CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        "cuTensorMapEncodeTiled");
  return encoded;
}

void CudaKernel::launch(const OperandSet& operands, void* workspace, bool pdl, cudaStream_t stream) const {
  union Value {
    void* pointer;
    std::int32_t integer;
  };
  const std::size_t count = launch_.arguments.size();
  std::vector<Value> values(count);
  std::vector<CUtensorMap> maps(count);
  std::vector<void*> parameters(count);
  for (std::size_t i = 0; i < count; ++i) {
    const KernelArgument& argument = launch_.arguments[i];
    parameters[i] = &values[i];
    switch (argument.kind) {
      case KernelArgument::Kind::pointer:
        values[i].pointer = pointer_of(argument.operand, operands);
        break;
      case KernelArgument::Kind::workspace:
        values[i].pointer = workspace;
        break;
      case KernelArgument::Kind::int32:
        values[i].integer = argument.value;
        break;
      case KernelArgument::Kind::tensor_map:
        maps[i] = encode(argument.map, operands);
        parameters[i] = &maps[i];
        break;
    }
  }
  std::array<CUlaunchAttribute, 2> attributes{};
  CUlaunchConfig config{};
  config.gridDimX = static_cast<unsigned>(launch_.grid[0]);
  config.gridDimY = static_cast<unsigned>(launch_.grid[1]);
  config.gridDimZ = static_cast<unsigned>(launch_.grid[2]);
  config.blockDimX = static_cast<unsigned>(launch_.block[0]);
  config.blockDimY = static_cast<unsigned>(launch_.block[1]);
  config.blockDimZ = static_cast<unsigned>(launch_.block[2]);
  config.sharedMemBytes = static_cast<unsigned>(launch_.dynamic_smem_bytes);
  config.hStream = stream;
  config.attrs = attributes.data();
  if (launch_.cluster[0] * launch_.cluster[1] * launch_.cluster[2] > 1) {
    CUlaunchAttribute& cluster = attributes[config.numAttrs++];
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim.x = static_cast<unsigned>(launch_.cluster[0]);
    cluster.value.clusterDim.y = static_cast<unsigned>(launch_.cluster[1]);
    cluster.value.clusterDim.z = static_cast<unsigned>(launch_.cluster[2]);
  }
  if (pdl && launch_.programmatic_dependent_launch) {
    CUlaunchAttribute& dependent = attributes[config.numAttrs++];
    dependent.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    dependent.value.programmaticStreamSerializationAllowed = 1;
  }
  check(driver().launch_kernel(&config, function_, parameters.data(), nullptr), "cuLaunchKernelEx");
}

}  // namespace warpsmith::cuda
