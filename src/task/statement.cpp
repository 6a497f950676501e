// What candidates and references are given as text: the struct of their arguments, and the task in words.
#include <fmt/format.h>

#include "evaluate/backend.h"
#include "task/task.h"

namespace warpsmith::task {

namespace {

std::string dims_text(const std::vector<Expression>& shape) {
  std::string text;
  for (const Expression& size : shape) text += fmt::format("{}{}", text.empty() ? "" : " x ", size.text());
  return text;
}

std::string_view c_type(TensorType type) {
  switch (type) {
    case TensorType::f16:
      return "f16";
    case TensorType::bf16:
      return "bf16";
    case TensorType::f32:
      return "float";
    case TensorType::i32:
      return "std::int32_t";
  }
  return "void";
}

std::string constants_text(const Task& task) {
  std::string text;
  for (const Constant& constant : task.constants) {
    text += fmt::format("  {} {};\n", constant.real ? "double" : "std::int64_t", constant.name);
  }
  return text;
}

// The 16-bit types of candidates for the CPU.
constexpr std::string_view kTypes = R"(#include <cstdint>
using f16 = _Float16;
struct bf16 {
  std::uint16_t bits;
  operator float() const {
    const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
    float value;
    __builtin_memcpy(&value, &wide, 4);
    return value;
  }
  static bf16 from(float value) {
    std::uint32_t wide;
    __builtin_memcpy(&wide, &value, 4);
    if (value != value) return {0x7fc0};
    return {static_cast<std::uint16_t>((wide + 0x7fff + ((wide >> 16) & 1)) >> 16)};
  }
};
)";

std::string values_text(const Input& input) {
  switch (input.values) {
    case Values::normal:
      return "N(0, 1)";
    case Values::uniform:
      return "uniform in [-1, 1]";
    case Values::positive:
      return "uniform in [0, 1]";
    case Values::integers:
      return fmt::format("whole numbers from {} to below {}", input.low.text(), input.high.text());
  }
  return {};
}

std::string tolerance_text(const Tolerance& tolerance) {
  if (tolerance.exact) return "exact";
  return fmt::format("within {:g}{} + {:g} |reference|, rounded outwards", tolerance.absolute,
                     tolerance.scaled ? " s (s: written by the reference)" : "", tolerance.relative);
}

}  // namespace

std::string candidate_prologue(const Task& task) {
  std::string text = fmt::format("{}struct Arguments {{\n", kTypes);
  for (const Input& input : task.inputs) {
    text += fmt::format("  const {}* {};  // {}\n", c_type(input.type), input.name, dims_text(input.shape));
  }
  for (const Output& output : task.outputs) {
    text += fmt::format("  {}* {};  // {}\n", c_type(output.type), output.name, dims_text(output.shape));
  }
  return text + constants_text(task) + "  void* workspace;\n};\n";
}

std::string reference_prologue(const Task& task) {
  std::string text = "#include <cstdint>\nstruct Arguments {\n";
  for (const Input& input : task.inputs) {
    text += fmt::format("  const double* {};  // {}\n", input.name, dims_text(input.shape));
  }
  for (const Output& output : task.outputs) {
    text += fmt::format("  double* {};  // {}\n", output.name, dims_text(output.shape));
    if (output.tolerance.scaled) text += fmt::format("  double* {}_scale;\n", output.name);
  }
  return text + constants_text(task) + "};\n";
}

std::string statement_of(const Task& task, Target target) {
  std::string text = fmt::format("Task {}: {}\n\nInputs, row-major:\n", task.name, task.about);
  for (const Input& input : task.inputs) {
    text +=
        fmt::format("- {}: {}, {}, {}", input.name, to_string(input.type), dims_text(input.shape), values_text(input));
    if (input.scale != 1) text += fmt::format(", times {:g}", input.scale);
    if (input.shift != 0) text += fmt::format(", plus {:g}", input.shift);
    if (input.offset != 0) text += fmt::format("; on data `offset` {:g} more", input.offset);
    text += "\n";
  }
  text += "Outputs:\n";
  for (const Output& output : task.outputs) {
    text += fmt::format("- {}: {}, {}; {}\n", output.name, to_string(output.type), dims_text(output.shape),
                        tolerance_text(output.tolerance));
  }
  text += "The kernel must be right at every setting of the constants, and is timed at the one that says so:\n";
  for (const int number : task.settings_on(target)) {
    const Setting& setting = task.settings[static_cast<std::size_t>(number)];
    text += fmt::format("- {}{}\n", describe(task, setting), setting.timed ? " (timed)" : "");
  }
  text += "It is also judged on other data:";
  for (const InputKind kind : task.data) text += fmt::format(" {}", warpsmith::to_string(kind));
  text += fmt::format("\n\nReference, which computes in double precision ({}):\n", task.reference_name);
  return text + (task.reference_descriptor.empty() ? reference_prologue(task) : "") + task.reference_source;
}

}  // namespace warpsmith::task
