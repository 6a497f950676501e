// Making contexts; preparing calls.
#include "library/runtime/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/paths.h"
#include "codegen/generate.h"
#include "library/locations.h"
#include "library/runtime/device_kernels.h"
#include "library/runtime/errors.h"

namespace warpsmith::library {

namespace {

constexpr int kDefaultStreams = 8;
constexpr double kLoopFlops = 2e9;  // a product of this size takes several launch latencies
constexpr int kOldestCapability = 80;

std::string cache_path(const warpsmith_options_t& options) {
  return options.cache_path != nullptr && *options.cache_path != '\0' ? options.cache_path : cache_dir().string();
}

// "h200", by which its wisdom and packs are called.
std::string file_name_of(const Machine& machine) {
  WisdomHeader header;
  header.machine = machine.name;
  header.target = Target::sm80;  // a GPU's; CPUs add their threads
  return wisdom_name(header);
}

}  // namespace

bool loops_batch(const CallKey& key) {
  return 2.0 * static_cast<double>(key.m) * static_cast<double>(key.n) * static_cast<double>(key.k) >= kLoopFlops;
}

Result<std::unique_ptr<Context>> Context::create(const warpsmith_options_t& options, warpsmith_status_t& status) {
  status = WARPSMITH_STATUS_NO_DEVICE;
  const Result<Driver>& cuda = driver();
  if (!cuda) return cuda.error();
  std::unique_ptr<Context> context(new Context(*cuda));
  if (const Status bound = context->bind_device(); !bound) return bound.error();
  if (const Status described = context->describe_machine(); !described) return described.error();
  context->mode_ = options.mode;
  context->launch_ = options.launch;
  context->fallback_ = options.fallback;
  const auto wisdom = context->open_wisdom(options.wisdom_path);
  const auto pack = context->open_pack(options.pack_path);
  context->has_wisdom_ = wisdom != nullptr;
  context->has_pack_ = pack != nullptr;
  context->chooser_.emplace(context->machine_, wisdom, std::shared_ptr<const Ranking>(model_ranking()),
                            options.sharing);
  CompilerOptions compiler{.cache = cache_path(options)};
  compiler.nvrtc_helper = find_nvrtc_helper();
  context->kernels_.emplace(*cuda, pack, std::move(compiler), options.compile == WARPSMITH_COMPILE_WHEN_MISSING);
  status = WARPSMITH_STATUS_OUT_OF_MEMORY;
  const CUresult reserved = context->workspaces_->reserve(options.streams == 0 ? kDefaultStreams : options.streams);
  if (reserved != CUDA_SUCCESS) {
    return environment_error(fmt::format("no workspaces: {}", library::describe(*cuda, reserved)));
  }
  status = WARPSMITH_STATUS_SUCCESS;
  return context;
}

Status Context::bind_device() {
  static std::atomic<std::uint64_t> last_id{0};
  id_ = ++last_id;
  const auto refused = [&](const char* what, CUresult error) {
    return environment_error(fmt::format("{}: {}", what, library::describe(cuda_, error)));
  };
  if (const CUresult got = cuda_.context_get(&context_)) return refused("cuCtxGetCurrent", got);
  if (context_ == nullptr) {
    // What the CUDA runtime does at its first use. The reference is kept for good: other users of the primary context
    // come and go.
    if (const CUresult got = cuda_.device_get(&device_, 0)) return refused("cuDeviceGet", got);
    if (const CUresult got = cuda_.primary_retain(&context_, device_)) return refused("cuDevicePrimaryCtxRetain", got);
    if (const CUresult set = cuda_.context_set(context_)) return refused("cuCtxSetCurrent", set);
  }
  if (const CUresult got = cuda_.context_device(&device_)) return refused("cuCtxGetDevice", got);
  CUdevice first = 0;
  first_device_ = cuda_.device_get(&first, 0) == CUDA_SUCCESS && first == device_;
  const RelaxedCapture relaxed(cuda_);
  if (const CUresult loaded = cuda_.module_load(&device_kernels_, kDeviceKernels))
    return refused("cuModuleLoadData", loaded);
  if (const CUresult found = cuda_.module_function(&scale_, device_kernels_, kScaleEntry))
    return refused(kScaleEntry, found);
  if (const CUresult found = cuda_.module_function(&idle_, device_kernels_, kIdleEntry))
    return refused(kIdleEntry, found);
  return ok_status();
}

// As the evaluator describes the device, since recipes are legal or not by these facts.
Status Context::describe_machine() {
  std::array<char, 256> name{};
  cuda_.device_name(name.data(), static_cast<int>(name.size()) - 1, device_);
  const auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    cuda_.device_attribute(&value, which, device_);
    return value;
  };
  machine_.name = name.data();
  machine_.kind = "cuda";
  machine_.compute_capability = 10 * attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                                attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  if (machine_.compute_capability < kOldestCapability) {
    return environment_error(fmt::format("{} has compute capability {}.{}; 8.0 or newer is needed", machine_.name,
                                         machine_.compute_capability / 10, machine_.compute_capability % 10));
  }
  machine_.units = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  machine_.smem_bytes_per_block = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  machine_.registers_per_unit = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  machine_.l2_bytes = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  if (machine_.compute_capability < 90) return ok_status();
  cuda_.function_set(idle_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                     static_cast<int>(machine_.smem_bytes_per_block));
  cuda_.function_set(idle_, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
  for (std::size_t i = 0; i < machine_.resident_clusters.size(); ++i) {
    CUlaunchAttribute cluster{};
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim.x = 2U << i;
    cluster.value.clusterDim.y = cluster.value.clusterDim.z = 1;
    CUlaunchConfig config{};
    config.gridDimX = 2U << i;
    config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = 256;
    config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = static_cast<unsigned>(machine_.smem_bytes_per_block);
    config.attrs = &cluster;
    config.numAttrs = 1;
    int clusters = 0;
    if (cuda_.max_active_clusters(&clusters, idle_, &config) == CUDA_SUCCESS) machine_.resident_clusters[i] = clusters;
  }
  return ok_status();
}

// Any trouble is one line on stderr and no wisdom. A file of another GPU serves only when the user names it.
std::shared_ptr<const WisdomIndex> Context::open_wisdom(const char* option) const {
  const std::optional<Located> found = find_wisdom(option, file_name_of(machine_));
  if (!found) return nullptr;
  auto wisdom = WisdomIndex::load(found->path, [](const std::string& message) { warn(message); });
  if (!wisdom) {
    warn(fmt::format("no wisdom: {}", wisdom.error().message));
    return nullptr;
  }
  if (wisdom->header().machine != machine_.name || wisdom->header().compute_capability != machine_.compute_capability) {
    warn(fmt::format("{} is of {}, this is {}{}", found->path.string(), wisdom->header().machine, machine_.name,
                     found->named ? "" : "; it is not used"));
    if (!found->named) return nullptr;
  }
  return std::make_shared<const WisdomIndex>(std::move(*wisdom));
}

std::shared_ptr<const Pack> Context::open_pack(const char* option) const {
  const std::optional<Located> found = find_pack(option, file_name_of(machine_));
  if (!found) return nullptr;
  auto pack = Pack::open(found->path);
  if (!pack) {
    warn(fmt::format("no kernel pack: {}", pack.error().message));
    return nullptr;
  }
  return std::make_shared<const Pack>(std::move(*pack));
}

Context::~Context() {
  // Modules and workspaces may be in use until the device is idle, and go from the context that they are in.
  CUcontext before = nullptr;
  cuda_.context_get(&before);
  if (context_ != nullptr) {
    cuda_.context_set(context_);
    cuda_.context_synchronize();
  }
  calls_.reset();
  small_calls_.reset();
  cublaslt_.reset();
  workspaces_.reset();
  kernels_.reset();
  if (device_kernels_ != nullptr) cuda_.module_unload(device_kernels_);
  // None before: none now, or the thread's next use of the CUDA runtime would be of this handle's device.
  if (before != context_) cuda_.context_set(before);
}

Result<const CublasLt*> Context::cublaslt() {
  const std::lock_guard lock(cublaslt_mutex_);
  if (!cublaslt_) {
    auto opened = CublasLt::open();
    if (!opened && opened.error().kind != ErrorKind::environment) return opened.error();  // there may be memory later
    cublaslt_ = std::move(opened);
  }
  if (!*cublaslt_) return cublaslt_->error();
  return static_cast<const CublasLt*>(cublaslt_->value().get());
}

std::unique_ptr<PreparedCall> Context::prepare(const CallKey& key) {
  const RelaxedCapture relaxed(cuda_);
  auto call = std::make_unique<PreparedCall>();
  call->key = key;
  call->hash = hash_of(key);
  if (key.batch_count > 1)
    prepare_batch(*call);
  else
    prepare_single(*call);
  return call;
}

bool Context::prepare_kernel(PreparedCall& call, const Choice& choice, const Problem& problem) {
  const auto candidate = generate(*choice.recipe, problem, machine_);
  if (!candidate) {
    call.reason = candidate.error().message;
    return false;
  }
  const auto* launch = std::get_if<CudaLaunch>(&candidate->launch);
  if (launch == nullptr || launch->takes_scaling() != problem.scaled()) {
    call.reason = "the family has no kernel for this problem";
    return false;
  }
  bool short_of_memory = false;
  const auto module = kernels_->get(*candidate, short_of_memory);
  if (!module) {
    call.provisional = call.provisional || short_of_memory;
    call.reason = module.error().message;
    return false;
  }
  auto prepared = OwnLaunch::prepare(cuda_, *module, *launch, problem.element, choice.dependent);
  if (!prepared) {
    call.provisional = call.provisional || prepared.error().kind == ErrorKind::environment;
    call.reason = prepared.error().message;
    return false;
  }
  call.kernel = std::move(*prepared);
  call.kind = PreparedCall::Kind::kernel;
  return true;
}

void Context::prepare_cublaslt(PreparedCall& call, const std::string& setting, std::size_t most_bytes) {
  if (fallback_ == WARPSMITH_FALLBACK_NONE) {
    call.kind = PreparedCall::Kind::refused;
    call.status = call.provisional ? WARPSMITH_STATUS_OUT_OF_MEMORY : WARPSMITH_STATUS_NOT_COVERED;
    return;
  }
  const auto library = cublaslt();
  auto matmul = library ? LtMatmul::prepare(**library, call.key, setting, most_bytes)
                        : Result<std::unique_ptr<LtMatmul>>(library.error());
  if (!matmul) {
    const bool short_of_memory = !library && library.error().kind != ErrorKind::environment;
    call.provisional = call.provisional || short_of_memory;
    call.kind = PreparedCall::Kind::refused;
    call.status = short_of_memory ? WARPSMITH_STATUS_OUT_OF_MEMORY : WARPSMITH_STATUS_NOT_SUPPORTED;
    call.reason = matmul.error().message;
    return;
  }
  call.kind = PreparedCall::Kind::cublaslt;
  call.cublaslt = std::move(*matmul);
}

// The first choice whose kernel can be had. What stands behind cuBLASLt is tried only where cuBLASLt cannot run the
// call, never in place of an outside fallback.
void Context::prepare_single(PreparedCall& call) {
  const std::optional<Problem> problem = problem_of(call.key);
  if (!problem || (call.key.flags & kCallAligned) == 0) {
    call.reason = problem ? "an operand is not aligned to 16 bytes" : "the sizes are beyond what kernels take";
    return prepare_cublaslt(call, "");
  }
  const std::vector<Choice> choices = choices_of(*problem);
  for (call.chosen = 0; call.chosen < choices.size(); ++call.chosen) {
    const Choice& choice = choices[call.chosen];
    if (choice.recipe) {
      if (prepare_kernel(call, choice, *problem)) return;
      continue;
    }
    prepare_cublaslt(call, choice.source == ChoiceSource::wisdom_exact ? choice.baseline_setting : "");
    if (call.kind == PreparedCall::Kind::cublaslt || fallback_ == WARPSMITH_FALLBACK_NONE) return;
  }
}

std::vector<Choice> Context::choices_of(const Problem& problem) const {
  return chooser_->choose(problem, mode_, launch_);
}

// As prepare(), of kernels and algorithms that need no workspace.
void Context::prepare_without_workspace(PreparedCall& call) {
  const std::optional<Problem> problem = problem_of(call.key);
  if (!problem || call.key.batch_count > 1 || (call.key.flags & kCallAligned) == 0) {
    return prepare_cublaslt(call, "", 0);
  }
  for (const Choice& choice : choices_of(*problem)) {
    if (choice.recipe) {
      if (prepare_kernel(call, choice, *problem) && call.kernel.workspace_bytes() == 0) return;
      continue;
    }
    prepare_cublaslt(call, "", 0);
    if (call.kind == PreparedCall::Kind::cublaslt || fallback_ == WARPSMITH_FALLBACK_NONE) return;
  }
  call.kind = PreparedCall::Kind::refused;
}

void Context::prepare_batch(PreparedCall& call) {
  if (loops_batch(call.key)) {
    CallKey single = call.key;
    single.batch_count = 1;
    single.stride_a = single.stride_b = single.stride_c = 0;
    const PreparedCall* each = prepared(single, call.own_each);
    call.provisional = each->provisional;
    if (each->kind == PreparedCall::Kind::kernel) {
      call.kind = PreparedCall::Kind::loop;
      call.each = each;
      return;
    }
  }
  prepare_cublaslt(call, "");
}

const PreparedCall* Context::prepared(const CallKey& key, std::unique_ptr<PreparedCall>& own) {
  if (const PreparedCall* known = calls_->find(key, hash_of(key))) return known;
  std::unique_ptr<PreparedCall> call = prepare(key);
  const PreparedCall* kept = call->provisional ? nullptr : calls_->insert(call);
  if (kept != nullptr) return kept;
  own = std::move(call);
  return own.get();
}

Explanation Context::explain_choice(const CallKey& key) {
  Explanation explanation;
  if (key.m == 0 || key.n == 0) {
    explanation.note = "C has no elements: nothing is launched";
    return explanation;
  }
  if (key.k == 0) {
    explanation.note = "no products: C = beta * C";
    return explanation;
  }
  CallKey single = key;
  single.batch_count = 1;
  single.stride_a = single.stride_b = single.stride_c = 0;
  const std::optional<Problem> problem = problem_of(single);
  const bool looped = key.batch_count == 1 || loops_batch(key);
  if (!problem || !looped || !strides_keep_alignment(key)) {
    explanation.note = !problem  ? "the sizes are beyond what kernels take"
                       : !looped ? "batches of small products go to cuBLASLt in one call"
                                 : "the strides do not keep operands aligned to 16 bytes";
    explanation.choices.emplace_back();
  } else {
    single.flags |= kCallAligned;
    explain_single(single, *problem, explanation);
    const bool ours =
        explanation.chosen < explanation.choices.size() && explanation.choices[explanation.chosen].recipe.has_value();
    if (key.batch_count > 1 && !ours) {
      explanation = {};
      explanation.choices.emplace_back();
      explanation.note = "one such product is not a kernel's, so the batch goes to cuBLASLt in one call";
    }
  }
  const bool theirs =
      explanation.chosen < explanation.choices.size() && !explanation.choices[explanation.chosen].recipe;
  if (theirs && fallback_ == WARPSMITH_FALLBACK_NONE) {
    explanation.chosen = explanation.choices.size();
    explanation.note = "cuBLASLt would run this problem, but the fallback is off";
  }
  return explanation;
}

// Of a call that was made before, what ran it; else the first choice whose kernel can be had.
void Context::explain_single(const CallKey& key, const Problem& problem, Explanation& explanation) {
  explanation.choices = choices_of(problem);
  const PreparedCall* known = calls_->find(key, hash_of(key));
  if (known != nullptr) {
    explanation.chosen = known->chosen;
    if (known->kind == PreparedCall::Kind::refused && known->status != WARPSMITH_STATUS_NOT_COVERED) {
      explanation.chosen = explanation.choices.size();
      explanation.note = known->reason;
    }
  }
  for (; explanation.chosen < explanation.choices.size(); ++explanation.chosen) {
    const Choice& choice = explanation.choices[explanation.chosen];
    if (!choice.recipe) break;
    const auto candidate = generate(*choice.recipe, problem, machine_);
    if (!candidate) continue;
    const std::optional<CubinOrigin> origin = kernels_->origin(*candidate);
    if (!origin) continue;
    explanation.kernel_key = kernel_key(candidate->arch, candidate->source);
    explanation.arch = candidate->arch;
    explanation.cubin = to_string(*origin);
    break;
  }
}

nlohmann::json Context::explain(const CallKey& key) {
  return library::explain(key, explain_choice(key), machine_, mode_, has_wisdom_, has_pack_);
}

}  // namespace warpsmith::library
