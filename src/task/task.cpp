// Sizes, names and places of a task's tensors.
#include "task/task.h"

#include <fmt/format.h>

#include <algorithm>

namespace warpsmith::task {

namespace {

constexpr std::int64_t kAlignment = 256;   // of tensors: what cudaMalloc gives
constexpr std::int64_t kZoneBytes = 4096;  // between them

std::int64_t aligned(std::int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

Tensor tensor_of(const std::string& name, TensorType type, const std::vector<Expression>& shape, const Setting& setting,
                 bool output) {
  Tensor tensor{name, type, {}, 1, 0, output};
  for (const Expression& size : shape) {
    tensor.dims.push_back(size.evaluate(setting.integers).value());
    tensor.elements *= tensor.dims.back();
  }
  tensor.bytes = tensor.elements * size_of(type);
  return tensor;
}

}  // namespace

std::string_view to_string(TensorType type) {
  switch (type) {
    case TensorType::f16:
      return "f16";
    case TensorType::bf16:
      return "bf16";
    case TensorType::f32:
      return "f32";
    case TensorType::i32:
      return "i32";
  }
  return "unknown";
}

std::int64_t size_of(TensorType type) { return type == TensorType::f32 || type == TensorType::i32 ? 4 : 2; }

std::vector<std::string> Task::integer_names() const {
  std::vector<std::string> names;
  for (const Constant& constant : constants) {
    if (!constant.real) names.push_back(constant.name);
  }
  return names;
}

std::vector<std::string> Task::real_names() const {
  std::vector<std::string> names;
  for (const Constant& constant : constants) {
    if (constant.real) names.push_back(constant.name);
  }
  return names;
}

DescriptorNames Task::names() const {
  DescriptorNames names;
  names.variables = integer_names();
  names.variables.emplace_back("sms");
  for (const Input& input : inputs) names.pointers.push_back(input.name);
  for (const Output& output : outputs) names.pointers.push_back(output.name);
  names.numbers = real_names();
  return names;
}

std::vector<int> Task::settings_on(Target target) const {
  std::vector<int> numbers;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const std::string& only = settings[i].target;
    if (only.empty() || (only == "cuda") == is_cuda(target)) numbers.push_back(static_cast<int>(i));
  }
  return numbers;
}

int Task::timed_on(Target target) const {
  const auto numbers = settings_on(target);
  return *std::find_if(numbers.begin(), numbers.end(),
                       [&](int number) { return settings[static_cast<std::size_t>(number)].timed; });
}

std::string describe(const Task& task, const Setting& setting) {
  std::string text;
  std::size_t integer = 0, real = 0;
  for (const Constant& constant : task.constants) {
    if (!text.empty()) text += " ";
    text += constant.name;
    text +=
        constant.real ? fmt::format("={:g}", setting.reals[real++]) : fmt::format("={}", setting.integers[integer++]);
  }
  return text;
}

std::string Instance::describe() const { return fmt::format("{} at {}", task->name, task::describe(*task, values())); }

Instance instance_of(const Task& task, int number) {
  Instance instance;
  instance.task = &task;
  instance.setting = number;
  const Setting& setting = instance.values();
  for (const Input& input : task.inputs) {
    instance.tensors.push_back(tensor_of(input.name, input.type, input.shape, setting, false));
    instance.read_bytes += instance.tensors.back().bytes;
  }
  instance.traffic_bytes = instance.read_bytes;
  for (const Output& output : task.outputs) {
    instance.tensors.push_back(tensor_of(output.name, output.type, output.shape, setting, true));
    instance.traffic_bytes += instance.tensors.back().bytes;
  }
  if (task.traffic_bytes) {
    instance.traffic_bytes = task.traffic_bytes->evaluate(setting.integers).value();
    instance.read_bytes = std::min(instance.read_bytes, instance.traffic_bytes);
  }
  return instance;
}

SlabLayout slab_of(const Instance& instance, std::int64_t workspace_bytes) {
  SlabLayout layout;
  std::int64_t at = kZoneBytes;
  for (const Tensor& tensor : instance.tensors) {
    layout.tensors.push_back(at);
    at += aligned(tensor.bytes) + kZoneBytes;
  }
  layout.workspace = at;
  layout.workspace_bytes = workspace_bytes;
  layout.bytes = at + aligned(workspace_bytes) + kZoneBytes;
  return layout;
}

std::optional<std::size_t> tensor_at(const SlabLayout& layout, std::int64_t offset) {
  const auto found = std::find(layout.tensors.begin(), layout.tensors.end(), offset);
  if (found == layout.tensors.end()) return std::nullopt;
  return static_cast<std::size_t>(found - layout.tensors.begin());
}

Result<Candidate> make_candidate(const FreeForm& form, const Instance& instance,
                                 const std::vector<std::pair<std::string, std::int64_t>>& chosen,
                                 const Machine& machine) {
  const Setting& setting = instance.values();
  TaskBinding binding;
  binding.what = instance.describe();
  binding.variables = setting.integers;
  binding.variables.push_back(machine.units);
  for (const double real : setting.reals) binding.numbers.push_back(static_cast<float>(real));
  binding.chosen = chosen;
  if (form.language == Language::cpp) binding.prologue = candidate_prologue(*instance.task);
  if ((machine.kind == "cuda") != (form.language == Language::cuda)) {
    return bad_input(fmt::format("{}: {} source; this target takes {}", form.descriptor.string(),
                                 form.language == Language::cuda ? "CUDA" : "C++",
                                 machine.kind == "cuda" ? "CUDA device code (.cu)" : "C++ (.cpp)"));
  }
  const auto workspace = workspace_bytes_of(form, binding);
  if (!workspace) return workspace.error();
  const SlabLayout layout = slab_of(instance, *workspace);
  binding.pointers = layout.tensors;
  binding.workspace = layout.workspace;
  return instantiate(form, binding, machine);
}

}  // namespace warpsmith::task
