// Module loading, tensor maps and launches through the driver API.
#include "evaluate/cuda/cuda_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "codegen/tensor_map_codes.h"
#include "compile/cubin.h"
#include "evaluate/cuda/device_work.h"

namespace warpsmith::cuda {

namespace {

constexpr std::size_t kMostPrepared = 1 << 14;  // operand sets whose parameters are kept
constexpr std::size_t kMapAlign = 64;           // of a CUtensorMap
constexpr int kPortableCluster = 8;             // blocks; larger clusters need the kernel's consent

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

std::size_t parameter_bytes(KernelArgument::Kind kind) {
  switch (kind) {
    case KernelArgument::Kind::int32:
      return sizeof(std::int32_t);
    case KernelArgument::Kind::float32:
    case KernelArgument::Kind::alpha:
    case KernelArgument::Kind::beta:
      return sizeof(float);
    case KernelArgument::Kind::tensor_map:
      return sizeof(CUtensorMap);
    default:
      return sizeof(void*);
  }
}

CubinFacts checked_facts(const std::string& cubin) {
  const Status accepted = check_cubin(cubin);
  if (!accepted) throw CudaError(accepted.error().message, false);
  return read_cubin(cubin).value();
}

}  // namespace

CudaKernel::CudaKernel(const std::string& cubin, CudaLaunch launch, ElementType element)
    : launch_(std::move(launch)), element_(element) {
  const CubinFacts facts = checked_facts(cubin);
  check(driver().module_load_data(&module_, cubin.data()), "cuModuleLoadData");
  try {
    for (const KernelLaunch& kernel : launch_.kernels) functions_.push_back(prepare(kernel));
    // Their place is final now: launches point at the attributes.
    for (Function& function : functions_) function.config.attrs = function.attributes.data();
    globals_ = ModuleGlobals(module_, facts);
  } catch (...) {
    driver().module_unload(module_);
    throw;
  }
}

CudaKernel::~CudaKernel() { driver().module_unload(module_); }

CudaKernel::Function CudaKernel::prepare(const KernelLaunch& kernel) {
  Function function;
  const CUresult found = driver().module_get_function(&function.handle, module_, kernel.entry.c_str());
  if (found != CUDA_SUCCESS) check(found, fmt::format("cuModuleGetFunction({})", kernel.entry).c_str());
  check_parameters(kernel, function.handle);
  int local_bytes = 0;
  check(driver().function_get_attribute(&local_bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, function.handle),
        "cuFuncGetAttribute");
  local_bytes_ = std::max(local_bytes_, local_bytes);
  const int cluster_blocks = kernel.cluster[0] * kernel.cluster[1] * kernel.cluster[2];
  if (kernel.dynamic_smem_bytes > 0) {
    check(driver().function_set_attribute(function.handle, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                          kernel.dynamic_smem_bytes),
          "cuFuncSetAttribute (dynamic shared memory)");
  }
  if (cluster_blocks > kPortableCluster) {
    check(driver().function_set_attribute(function.handle, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
          "cuFuncSetAttribute (non-portable cluster)");
  }
  CUlaunchConfig& config = function.config;
  config.gridDimX = static_cast<unsigned>(kernel.grid[0]);
  config.gridDimY = static_cast<unsigned>(kernel.grid[1]);
  config.gridDimZ = static_cast<unsigned>(kernel.grid[2]);
  config.blockDimX = static_cast<unsigned>(kernel.block[0]);
  config.blockDimY = static_cast<unsigned>(kernel.block[1]);
  config.blockDimZ = static_cast<unsigned>(kernel.block[2]);
  config.sharedMemBytes = static_cast<unsigned>(kernel.dynamic_smem_bytes);
  unsigned count = 0;
  if (cluster_blocks > 1) {
    CUlaunchAttribute& cluster = function.attributes[count++];
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim.x = static_cast<unsigned>(kernel.cluster[0]);
    cluster.value.clusterDim.y = static_cast<unsigned>(kernel.cluster[1]);
    cluster.value.clusterDim.z = static_cast<unsigned>(kernel.cluster[2]);
  }
  function.attributes_without_pdl = count;
  if (kernel.programmatic_dependent_launch) {
    CUlaunchAttribute& dependent = function.attributes[count++];
    dependent.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    dependent.value.programmaticStreamSerializationAllowed = 1;
  }
  function.attributes_with_pdl = count;
  return function;
}

// The driver copies as many bytes as the kernel declares from where the launch points: sizes must agree.
void CudaKernel::check_parameters(const KernelLaunch& kernel, CUfunction function) const {
  std::size_t offset = 0, size = 0, count = 0;
  while (driver().function_parameter(function, count, &offset, &size) == CUDA_SUCCESS) {
    if (count < kernel.arguments.size() && size != parameter_bytes(kernel.arguments[count].kind)) {
      throw CudaError(fmt::format("parameter {} of {} has {} bytes, the launch descriptor passes {}", count,
                                  kernel.entry, size, parameter_bytes(kernel.arguments[count].kind)),
                      false);
    }
    ++count;
  }
  if (count != kernel.arguments.size()) {
    throw CudaError(fmt::format("{} has {} parameters, the launch descriptor passes {}", kernel.entry, count,
                                kernel.arguments.size()),
                    false);
  }
}

void CudaKernel::limit_local_memory() const {
  if (local_bytes_ <= kMostLocalBytes) return;
  throw CudaError(
      fmt::format("{} bytes of local memory a thread; at most {} are allowed", local_bytes_, kMostLocalBytes), false);
}

CUtensorMap CudaKernel::encode(const TensorMap& map, const OperandSet& operands) const {
  CUtensorMap encoded{};
  const std::array<cuuint64_t, 2> dims = {static_cast<cuuint64_t>(map.dims[0]), static_cast<cuuint64_t>(map.dims[1])};
  const std::array<cuuint64_t, 1> strides = {static_cast<cuuint64_t>(map.ld) * sizeof(std::uint16_t)};
  const std::array<cuuint32_t, 2> box = {static_cast<cuuint32_t>(map.box[0]), static_cast<cuuint32_t>(map.box[1])};
  const std::array<cuuint32_t, 2> steps = {1, 1};
  const CUtensorMapDataType type =
      element_ == ElementType::f16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  check(driver().encode_tiled(&encoded, type, 2, pointer_of(map.operand, operands), dims.data(), strides.data(),
                              box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
                              static_cast<CUtensorMapSwizzle>(swizzle_code(map.swizzle_bytes)),
                              static_cast<CUtensorMapL2promotion>(l2_promotion_code(map.l2_promotion_bytes)),
                              CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        "cuTensorMapEncodeTiled");
  return encoded;
}

void CudaKernel::write_value(const KernelArgument& argument, const OperandSet& operands, void* workspace,
                             std::byte* out) const {
  const auto write = [out](const auto& value) { std::memcpy(out, &value, sizeof value); };
  switch (argument.kind) {
    case KernelArgument::Kind::pointer:
      return write(reinterpret_cast<std::byte*>(pointer_of(argument.operand, operands)) + argument.offset_bytes);
    case KernelArgument::Kind::workspace:
      return write(static_cast<std::byte*>(workspace) + argument.offset_bytes);
    case KernelArgument::Kind::int32:
      return write(argument.value);
    case KernelArgument::Kind::float32:
      return write(argument.real);
    case KernelArgument::Kind::alpha:
      return write(operands.alpha);
    case KernelArgument::Kind::beta:
      return write(operands.beta);
    case KernelArgument::Kind::tensor_map:
      return write(encode(argument.map, operands));
  }
}

CudaKernel::Parameters CudaKernel::make_parameters(const OperandSet& operands, void* workspace) const {
  std::size_t count = 0;
  for (const KernelLaunch& kernel : launch_.kernels) count += kernel.arguments.size();
  Parameters parameters;
  // Every value gets the room and the alignment of the largest kind.
  std::size_t space = (count + 1) * sizeof(CUtensorMap);
  parameters.values = std::make_unique<std::byte[]>(space);
  void* aligned = parameters.values.get();
  auto* at = static_cast<std::byte*>(std::align(kMapAlign, count * sizeof(CUtensorMap), aligned, space));
  for (const KernelLaunch& kernel : launch_.kernels) {
    std::vector<void*> pointers;
    for (const KernelArgument& argument : kernel.arguments) {
      write_value(argument, operands, workspace, at);
      pointers.push_back(at);
      at += sizeof(CUtensorMap);
    }
    parameters.pointers.push_back(std::move(pointers));
  }
  return parameters;
}

std::size_t CudaKernel::HashCallKey::operator()(const CallKey& key) const {
  std::uint64_t hash = std::hash<float>()(key.alpha) * 3 + std::hash<float>()(key.beta);
  for (void* address : key.addresses) hash = inputs::mix(hash + reinterpret_cast<std::uintptr_t>(address));
  return static_cast<std::size_t>(hash);
}

CudaKernel::Parameters& CudaKernel::parameters_for(const OperandSet& operands, void* workspace) {
  const CallKey key = {{operands.a, operands.b, operands.c, workspace}, operands.alpha, operands.beta};
  const auto found = prepared_.find(key);
  if (found != prepared_.end()) return found->second;
  if (prepared_.size() >= kMostPrepared) prepared_.clear();
  return prepared_.emplace(key, make_parameters(operands, workspace)).first->second;
}

void CudaKernel::launch(const OperandSet& operands, void* workspace, bool pdl, cudaStream_t stream) {
  Parameters& parameters = parameters_for(operands, workspace);
  for (std::size_t i = 0; i < functions_.size(); ++i) {
    Function& function = functions_[i];
    function.config.hStream = stream;
    function.config.numAttrs = pdl ? function.attributes_with_pdl : function.attributes_without_pdl;
    check(driver().launch_kernel(&function.config, function.handle, parameters.pointers[i].data(), nullptr),
          "cuLaunchKernelEx");
  }
}

}  // namespace warpsmith::cuda
