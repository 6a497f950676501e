// A free-form candidate for one problem on one device: expressions become numbers, and each is held against what the
// hardware and the tensor-map encoder accept.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "codegen/descriptor.h"

namespace warpsmith {

namespace {

constexpr std::int64_t kMaxGridX = 2147483647, kMaxGridYZ = 65535;
constexpr std::int64_t kMaxThreads = 1024, kMaxBlockZ = 64;
constexpr std::int64_t kMaxClusterBlocks = 16;  // above 8 only where the device grants non-portable clusters
constexpr int kTensorMapCapability = 90;        // clusters and tensor maps
constexpr std::int64_t kMaxBox = 256;
constexpr std::int64_t kElementBytes = 2, kMapUnitBytes = 16;

ExpressionVariables variables_of(const Problem& problem, const Machine& machine) {
  ExpressionVariables variables;
  variables.m = problem.m;
  variables.n = problem.n;
  variables.k = problem.k;
  variables.lda = problem.a_ld();
  variables.ldb = problem.b_ld();
  variables.ldc = problem.c_ld();
  variables.sms = machine.units;
  variables.a_k_major = problem.a_is_k_major() ? 1 : 0;
  variables.b_k_major = problem.b_is_k_major() ? 1 : 0;
  return variables;
}

// An operand as stored.
struct Stored {
  std::array<std::int64_t, 2> dims;  // columns, rows
  std::int64_t ld, extent;           // elements from row to row; from the first to the last
};

Stored stored_as(Operand operand, const Problem& problem) {
  switch (operand) {
    case Operand::a:
      return {{problem.a_cols(), problem.a_rows()}, problem.a_ld(), problem.a_extent()};
    case Operand::b:
      return {{problem.b_cols(), problem.b_rows()}, problem.b_ld(), problem.b_extent()};
    case Operand::c:
      return {{problem.n, problem.m}, problem.c_ld(), problem.c_extent()};
  }
  return {};
}

// Compiled machine code runs on its own architecture: the same one for "sm_90a", a later minor one for "sm_80".
bool runs_on(const std::string& arch, int capability) {
  const int number = std::stoi(arch.substr(3));
  if (arch.ends_with('a')) return number == capability;
  return number / 10 == capability / 10 && number <= capability;
}

class Instance {
 public:
  Instance(const FreeForm& form, const Problem& problem, const Machine& machine)
      : form_(form), problem_(problem), machine_(machine), variables_(variables_of(problem, machine)) {}
  Instance(const FreeForm& form, const TaskBinding& binding, const Machine& machine)
      : form_(form), machine_(machine), binding_(&binding), values_(binding.variables) {
    for (const Tunable& tunable : form.tune) values_.push_back(chosen(tunable));
  }

  Result<Candidate> make() {
    Candidate candidate;
    candidate.language = form_.language;
    if (form_.order_nondeterministic) {
      candidate.order_nondeterministic = true;
      candidate.nondeterminism_reason = *form_.order_nondeterministic;
    }
    if (binding_ != nullptr) demand_requirements();
    if (form_.language == Language::cpp) return make_cpp(std::move(candidate));
    candidate.arch = form_.arch.empty() ? device_arch() : form_.arch;
    candidate.source = prelude() + form_.source;
    CudaLaunch launch;
    workspace_bytes_ = value(form_.workspace_bytes, "/workspace_bytes", 0, kMaxWorkspaceBytes);
    launch.workspace_bytes = workspace_bytes_;
    launch.zero_workspace = form_.zero_workspace;
    for (const KernelForm& kernel : form_.kernels) launch.kernels.push_back(instantiate(kernel));
    candidate.launch = std::move(launch);
    if (complaint_) return bad_input(*complaint_);
    return candidate;
  }

  Result<std::int64_t> workspace_bytes() {
    const std::int64_t bytes = value(form_.workspace_bytes, "/workspace_bytes", 0, kMaxWorkspaceBytes);
    if (complaint_) return bad_input(*complaint_);
    return bytes;
  }

 private:
  // A task's kernel is right at every setting of its constants, or it is none.
  void demand_requirements() {
    for (std::size_t i = 0; i < form_.required.size(); ++i) {
      const std::string place = fmt::format("/requires/{}", i);
      constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
      if (value(form_.required[i], place, -kAny, kAny) != 0) continue;
      complain(place, fmt::format("'{}' does not hold; a candidate is for every setting of a task's constants",
                                  form_.required[i].text()));
    }
  }

  Result<Candidate> make_cpp(Candidate candidate) {
    candidate.arch = machine_.avx512 ? "x86-64-v4" : "x86-64-v3";
    candidate.source = binding_->prologue + prelude() + form_.source;
    CpuLaunch launch;
    launch.entry = form_.entry;
    launch.workspace_bytes = value(form_.workspace_bytes, "/workspace_bytes", 0, kMaxWorkspaceBytes);
    candidate.launch = std::move(launch);
    if (complaint_) return bad_input(*complaint_);
    return candidate;
  }

  void complain(const std::string& place, const std::string& what) {
    if (complaint_) return;
    complaint_ = fmt::format("{}: {}: {} (for {})", form_.descriptor.string(), place, what,
                             binding_ == nullptr ? to_string(problem_) : binding_->what);
  }

  std::int64_t value(const Expression& expression, const std::string& place, std::int64_t least, std::int64_t most) {
    const auto result = binding_ == nullptr ? expression.evaluate(variables_) : expression.evaluate(values_);
    if (!result) {
      complain(place, fmt::format("{} in '{}'", result.error().message, expression.text()));
      return least;
    }
    if (*result < least || *result > most) {
      complain(place, fmt::format("'{}' is {}; accepted: {} to {}", expression.text(), *result, least, most));
      return least;
    }
    return *result;
  }
  int small(const Expression& expression, const std::string& place, std::int64_t least, std::int64_t most) {
    return static_cast<int>(value(expression, place, least, most));
  }

  std::string device_arch() const {
    return fmt::format("sm_{}{}", machine_.compute_capability,
                       machine_.compute_capability >= kTensorMapCapability ? "a" : "");
  }

  // Macros that the source mentions; others would only make equal sources differ.
  std::string prelude() {
    std::string lines;
    const auto define = [&](const std::string& name, std::int64_t number) {
      if (form_.source.find(name) == std::string::npos) return;
      const bool wide = number != static_cast<std::int32_t>(number);
      lines += fmt::format("#define {} {}{}\n", name, number < 0 ? fmt::format("({})", number) : std::to_string(number),
                           wide && number >= 0 ? "LL" : "");
    };
    if (binding_ == nullptr) {
      define("WARPSMITH_BF16", problem_.element == ElementType::bf16 ? 1 : 0);
      define("WARPSMITH_A_K_MAJOR", variables_.a_k_major);
      define("WARPSMITH_B_K_MAJOR", variables_.b_k_major);
    }
    for (const Tunable& tunable : form_.tune) define(tunable.macro, chosen(tunable));
    for (const auto& [name, expression] : form_.defines) {
      define(name, value(expression, "/defines/" + name, std::numeric_limits<std::int64_t>::min() + 1,
                         std::numeric_limits<std::int64_t>::max()));
    }
    // The compiler's messages then give the lines of the file that a person wrote.
    if (!lines.empty() || form_.language == Language::cpp) lines += fmt::format("#line 1 \"{}\"\n", form_.source_name);
    return lines;
  }

  std::int64_t chosen(const Tunable& tunable) const {
    for (const auto& [macro, number] : binding_->chosen) {
      if (macro == tunable.macro) return number;
    }
    return tunable.values.front();
  }

  KernelLaunch instantiate(const KernelForm& form) {
    KernelLaunch kernel;
    kernel.entry = form.entry;
    constexpr std::array<std::int64_t, 3> kGrid = {kMaxGridX, kMaxGridYZ, kMaxGridYZ};
    constexpr std::array<std::int64_t, 3> kBlock = {kMaxThreads, kMaxThreads, kMaxBlockZ};
    for (std::size_t i = 0; i < 3; ++i) {
      kernel.grid[i] = small(form.grid[i], fmt::format("{}/grid/{}", form.place, i), 1, kGrid[i]);
      kernel.block[i] = small(form.block[i], fmt::format("{}/block/{}", form.place, i), 1, kBlock[i]);
      kernel.cluster[i] = small(form.cluster[i], fmt::format("{}/cluster/{}", form.place, i), 1, kMaxClusterBlocks);
    }
    const int threads = kernel.block[0] * kernel.block[1] * kernel.block[2];
    if (threads > kMaxThreads) {
      complain(form.place + "/block", fmt::format("{} threads; at most {} are accepted", threads, kMaxThreads));
    }
    check_cluster(form, kernel);
    kernel.dynamic_smem_bytes =
        small(form.dynamic_smem_bytes, form.place + "/dynamic_smem_bytes", 0, machine_.smem_bytes_per_block);
    kernel.programmatic_dependent_launch = form.programmatic_dependent_launch;
    for (const ArgumentForm& argument : form.arguments) kernel.arguments.push_back(instantiate(argument));
    return kernel;
  }

  void check_cluster(const KernelForm& form, const KernelLaunch& kernel) {
    const int blocks = kernel.cluster[0] * kernel.cluster[1] * kernel.cluster[2];
    const std::string place = form.place + "/cluster";
    if (blocks > kMaxClusterBlocks) {
      complain(place, fmt::format("{} blocks; at most {} are accepted (above 8 the device must grant non-portable "
                                  "clusters)",
                                  blocks, kMaxClusterBlocks));
    }
    if (blocks > 1 && machine_.compute_capability < kTensorMapCapability) {
      complain(place, "clusters need compute capability 9.0");
    }
    for (std::size_t i = 0; i < 3; ++i) {
      if (kernel.grid[i] % kernel.cluster[i] == 0) continue;
      complain(place,
               fmt::format("the grid of {}x{}x{} blocks is not whole clusters of {}x{}x{}", kernel.grid[0],
                           kernel.grid[1], kernel.grid[2], kernel.cluster[0], kernel.cluster[1], kernel.cluster[2]));
    }
  }

  KernelArgument instantiate(const ArgumentForm& form) {
    switch (form.kind) {
      case KernelArgument::Kind::pointer:
        if (form.named) return KernelArgument::workspace_pointer(binding_->pointers[*form.named]);
        return KernelArgument::pointer_to(form.operand);
      case KernelArgument::Kind::workspace:
        if (workspace_bytes_ == 0) complain(form.place, "a workspace pointer, but \"workspace_bytes\" is 0");
        return KernelArgument::workspace_pointer(
            (binding_ == nullptr ? 0 : binding_->workspace) +
            value(form.value, form.place + "/workspace", 0, std::max<std::int64_t>(workspace_bytes_ - 1, 0)));
      case KernelArgument::Kind::int32:
        return KernelArgument::integer(small(form.value, form.place + "/int32",
                                             std::numeric_limits<std::int32_t>::min(),
                                             std::numeric_limits<std::int32_t>::max()));
      case KernelArgument::Kind::float32:
        return KernelArgument::number(form.named ? binding_->numbers[*form.named] : form.real);
      case KernelArgument::Kind::alpha:
        return KernelArgument::alpha();
      case KernelArgument::Kind::beta:
        return KernelArgument::beta();
      case KernelArgument::Kind::tensor_map:
        return KernelArgument::tensor(instantiate(form.map, form.place + "/tensor_map"));
    }
    return {};
  }

  TensorMap instantiate(const TensorMapForm& form, const std::string& place) {
    if (machine_.compute_capability < kTensorMapCapability) complain(place, "tensor maps need compute capability 9.0");
    TensorMap map;
    map.operand = form.operand;
    const Stored stored = stored_as(form.operand, problem_);
    map.dims = stored.dims;
    map.ld = stored.ld;
    if (form.ld) map.ld = value(*form.ld, place + "/ld", 1, kMaxElements);
    for (std::size_t i = 0; i < 2; ++i) {
      if (form.dims) map.dims[i] = value((*form.dims)[i], fmt::format("{}/dims/{}", place, i), 1, kMaxElements);
      map.box[i] = small(form.box[i], fmt::format("{}/box/{}", place, i), 1, kMaxBox);
    }
    map.swizzle_bytes = one_of(form.swizzle_bytes, place + "/swizzle_bytes", {0, 32, 64, 128});
    map.l2_promotion_bytes = one_of(form.l2_promotion_bytes, place + "/l2_promotion_bytes", {0, 64, 128, 256});
    check_map(map, stored, place);
    return map;
  }

  int one_of(const Expression& expression, const std::string& place, const std::set<int>& accepted) {
    const int number = small(expression, place, std::numeric_limits<int>::min(), std::numeric_limits<int>::max());
    if (accepted.count(number) == 0) {
      complain(place, fmt::format("'{}' is {}; accepted: {}", expression.text(), number, fmt::join(accepted, ", ")));
    }
    return number;
  }

  void check_map(const TensorMap& map, const Stored& stored, const std::string& place) {
    const std::int64_t inner_bytes = map.box[0] * kElementBytes;
    if (inner_bytes % kMapUnitBytes != 0) {
      complain(place + "/box/0", fmt::format("{} elements are {} bytes; accepted: multiples of {} bytes", map.box[0],
                                             inner_bytes, kMapUnitBytes));
    }
    if (map.swizzle_bytes != 0 && inner_bytes > map.swizzle_bytes) {
      complain(place + "/box/0", fmt::format("{} elements are {} bytes, more than the swizzle of {}", map.box[0],
                                             inner_bytes, map.swizzle_bytes));
    }
    if (map.ld * kElementBytes % kMapUnitBytes != 0) {
      complain(place + "/ld", fmt::format("rows of {} elements; a tensor map needs multiples of {} (16 bytes)", map.ld,
                                          kMapUnitBytes / kElementBytes));
    }
    if (map.dims[0] > map.ld || (map.dims[1] - 1) * map.ld + map.dims[0] > stored.extent) {
      complain(place,
               fmt::format("{} columns and {} rows at {} elements from row to row leave operand {} of {} x {}",
                           map.dims[0], map.dims[1], map.ld, to_string(map.operand), stored.dims[1], stored.dims[0]));
    }
  }

  const FreeForm& form_;
  Problem problem_;
  const Machine& machine_;
  ExpressionVariables variables_;
  const TaskBinding* binding_ = nullptr;  // of a task; null: a matrix product
  std::vector<std::int64_t> values_;      // of a task's expressions
  std::int64_t workspace_bytes_ = 0;
  std::optional<std::string> complaint_;
};

template <class T>
std::string words(const std::vector<T>& values) {
  std::string text;
  for (const T value : values) text += fmt::format("{}{}", text.empty() ? "" : ", ", to_string(value));
  return text;
}

}  // namespace

Result<std::optional<std::string>> inapplicable(const FreeForm& form, const Problem& problem, const Machine& machine) {
  using Reason = std::optional<std::string>;
  if (machine.kind != "cuda") {
    return bad_input(fmt::format("{}: a free-form candidate is CUDA device code; this target takes recipes only",
                                 form.descriptor.string()));
  }
  const auto& layouts = form.layouts;
  if (std::find(layouts.begin(), layouts.end(), problem.layout) == layouts.end()) {
    return Reason(fmt::format("layout {}; made for {}", to_string(problem.layout), words(layouts)));
  }
  const auto& elements = form.elements;
  if (std::find(elements.begin(), elements.end(), problem.element) == elements.end()) {
    return Reason(fmt::format("elements {}; made for {}", to_string(problem.element), words(elements)));
  }
  const auto& accumulators = form.accumulators;
  if (std::find(accumulators.begin(), accumulators.end(), problem.accumulator) == accumulators.end()) {
    return Reason(fmt::format("accumulator {}; made for {}", to_string(problem.accumulator), words(accumulators)));
  }
  if (!problem.packed() && !form.leading_dimensions) return Reason("leading dimensions; made for packed operands");
  if (problem.scaled() != form.takes_scaling()) {
    return Reason(problem.scaled() ? "alpha and beta are no arguments of its kernels"
                                   : "made for problems with alpha and beta");
  }
  if (!form.arch.empty() && !runs_on(form.arch, machine.compute_capability)) {
    return Reason(fmt::format("the device is sm_{}; made for {}", machine.compute_capability, form.arch));
  }
  const ExpressionVariables variables = variables_of(problem, machine);
  for (std::size_t i = 0; i < form.required.size(); ++i) {
    const auto holds = form.required[i].evaluate(variables);
    if (!holds) {
      return bad_input(fmt::format("{}: /requires/{}: {} in '{}' (for {})", form.descriptor.string(), i,
                                   holds.error().message, form.required[i].text(), to_string(problem)));
    }
    if (*holds == 0) return Reason(fmt::format("requires {}", form.required[i].text()));
  }
  return Reason();
}

Result<Candidate> instantiate(const FreeForm& form, const Problem& problem, const Machine& machine) {
  const auto reason = inapplicable(form, problem, machine);
  if (!reason) return reason.error();
  if (*reason) {
    return bad_input(
        fmt::format("{}: not applicable to {}: {}", form.descriptor.string(), to_string(problem), **reason));
  }
  return Instance(form, problem, machine).make();
}

Result<Candidate> instantiate(const FreeForm& form, const TaskBinding& binding, const Machine& machine) {
  return Instance(form, binding, machine).make();
}

Result<std::int64_t> workspace_bytes_of(const FreeForm& form, const TaskBinding& binding) {
  return Instance(form, binding, Machine()).workspace_bytes();
}

}  // namespace warpsmith
