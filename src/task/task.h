// Task: a general kernel as a directory of files: inputs with shapes and distributions, constants at several settings,
// a tolerance, a reference and baselines (docs/tasks.md). And one setting of it, with every size a number.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codegen/descriptor.h"
#include "codegen/expression.h"
#include "evaluate/inputs.h"
#include "problem/machine.h"

namespace warpsmith::task {

enum class TensorType { f16, bf16, f32, i32 };
std::string_view to_string(TensorType type);
std::int64_t size_of(TensorType type);  // bytes

// What an input holds where a gate does not ask for other data.
enum class Values { normal, uniform, positive, integers };

struct Input {
  std::string name;
  TensorType type = TensorType::f16;
  std::vector<Expression> shape;  // over the whole-number constants, row-major
  Values values = Values::normal;
  double scale = 1, shift = 0;  // of normal, uniform and positive values
  Expression low, high;         // of integers: low <= x < high
  bool fixed = false;           // the same distribution in every gate: weights, say; integers always
  double offset = 0;            // what data of kind `offset` add to the values
};

// |y - reference| <= absolute * s + relative * |reference|, rounded outwards to the output's type; s is 1, or what the
// reference says of the element.
struct Tolerance {
  bool exact = false;  // the correctly rounded reference and nothing else
  double relative = 0, absolute = 0;
  bool scaled = false;  // the reference writes s
};

struct Output {
  std::string name;
  TensorType type = TensorType::f16;
  std::vector<Expression> shape;
  Tolerance tolerance;
};

struct Constant {
  std::string name;
  bool real = false;  // a float; else a whole number
};

// One value of every constant.
struct Setting {
  std::vector<std::int64_t> integers;  // of the whole-number constants, in order
  std::vector<double> reals;           // of the others
  bool timed = false;
  std::string target;  // "cpu" or "cuda": there alone; empty: everywhere
};

struct Task {
  std::string name;                 // the directory's
  std::filesystem::path directory;  // absolute
  std::string identity;             // "softmax 0123456789ab": name and hash of task.toml and reference
  std::string about;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<Constant> constants;
  std::vector<Setting> settings;
  std::vector<InputKind> data;  // further distributions that gates ask for
  std::optional<Expression> traffic_bytes;
  std::string reference_name, reference_source;
  std::string reference_descriptor;              // of a CUDA reference, JSON text; empty: C++
  std::map<std::string, std::string> baselines;  // "torch", "cudnn" -> what the Python helper is told

  std::vector<std::string> integer_names() const;
  std::vector<std::string> real_names() const;
  // What a candidate's descriptor may name: tensors, constants, and "sms".
  DescriptorNames names() const;
  // Settings of a target, by number; the timed one of them.
  std::vector<int> settings_on(Target target) const;
  int timed_on(Target target) const;
};

inline constexpr std::size_t kFewestSettings = 3;
inline constexpr std::int64_t kMaxTensorBytes = 2LL << 30;

// `path` names the directory or its task.toml. Error: bad_input, one line with file, field and what is accepted;
// environment where a file cannot be read.
Result<Task> load_task(const std::filesystem::path& path);

// Names of all constants with their values: "rows=4 columns=33 scale=0.5".
std::string describe(const Task& task, const Setting& setting);

struct Tensor {
  std::string name;
  TensorType type = TensorType::f16;
  std::vector<std::int64_t> dims;
  std::int64_t elements = 0, bytes = 0;
  bool output = false;
};

// A setting with its tensors, inputs first. Refers to the task, which must outlive it.
struct Instance {
  const Task* task = nullptr;
  int setting = 0;
  std::vector<Tensor> tensors;
  std::int64_t traffic_bytes = 0, read_bytes = 0;

  const Setting& values() const { return task->settings[static_cast<std::size_t>(setting)]; }
  std::string describe() const;  // "softmax at rows=4 columns=33 scale=0.5"
};
// Never fails: load_task() has made every setting's instance.
Instance instance_of(const Task& task, int setting);

// How the tensors and a candidate's workspace lie in one allocation, red zones around each.
struct SlabLayout {
  std::vector<std::int64_t> tensors;  // bytes from the start
  std::int64_t workspace = 0, workspace_bytes = 0;
  std::int64_t bytes = 0;  // of all
};
SlabLayout slab_of(const Instance& instance, std::int64_t workspace_bytes);
// The tensor that begins so many bytes from the start; nothing: it is a part of the workspace.
std::optional<std::size_t> tensor_at(const SlabLayout& layout, std::int64_t offset);

// A candidate for the setting on the machine, its tensors where slab_of() puts them.
Result<Candidate> make_candidate(const FreeForm& form, const Instance& instance,
                                 const std::vector<std::pair<std::string, std::int64_t>>& chosen,
                                 const Machine& machine);

// The declarations that stand before a candidate's C++ source, and before a reference's: the struct Arguments.
std::string candidate_prologue(const Task& task);
std::string reference_prologue(const Task& task);

// The task in words, for a person or a language model: what is computed, on what, how it is judged, the reference.
std::string statement_of(const Task& task, Target target);

}  // namespace warpsmith::task
