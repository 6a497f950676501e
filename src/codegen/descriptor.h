// Free-form candidates: device source in a .cu file and its launch descriptor in a .json file beside it, over any
// problem. docs/candidates.md is the reference of the format.
#pragma once

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "codegen/expression.h"
#include "codegen/generate.h"
#include "codegen/launch.h"
#include "problem/machine.h"
#include "problem/problem.h"

namespace warpsmith {

inline constexpr std::int64_t kMaxWorkspaceBytes = 4LL << 30;
inline constexpr std::size_t kMaxKernelArguments = 32;
inline constexpr std::size_t kMaxSourceBytes = 4 << 20;
inline constexpr std::size_t kMaxDescriptorBytes = 1 << 20;

// A descriptor as read: like CudaLaunch, with expressions for numbers. `place` is the JSON pointer of what it stands
// for, for messages.
struct TensorMapForm {
  Operand operand = Operand::a;
  std::optional<std::array<Expression, 2>> dims;  // columns, rows; absent: the operand's
  std::optional<Expression> ld;                   // absent: the operand's
  std::array<Expression, 2> box;
  Expression swizzle_bytes{128}, l2_promotion_bytes{256};
};

struct ArgumentForm {
  KernelArgument::Kind kind = KernelArgument::Kind::pointer;
  Operand operand = Operand::a;
  std::optional<std::size_t> named;  // of DescriptorNames: the number of the pointer or of the float32
  Expression value;                  // int32; workspace: byte offset
  float real = 0;
  TensorMapForm map;
  std::string place;
};

struct KernelForm {
  std::string entry;
  std::array<Expression, 3> grid{Expression(1), Expression(1), Expression(1)}, block = grid, cluster = grid;
  Expression dynamic_smem_bytes;
  bool programmatic_dependent_launch = false;
  std::vector<ArgumentForm> arguments;
  std::string place;
};

// A macro of the source whose value a search may choose, at first the first one. Expressions may name it.
struct Tunable {
  std::string macro;
  std::vector<std::int64_t> values;
};

// What the descriptor of a candidate for a task may name instead of A, B, C and m, n, k (docs/tasks.md).
struct DescriptorNames {
  std::vector<std::string> variables;  // of expressions
  std::vector<std::string> pointers;
  std::vector<std::string> numbers;  // that {"float32": NAME} passes
};

struct FreeForm {
  std::string name;
  std::string source;                // the text
  std::string source_name;           // its file's name
  std::filesystem::path descriptor;  // for messages
  std::string descriptor_hash;       // SHA-256 of its text
  std::vector<Layout> layouts;
  std::vector<ElementType> elements;
  std::vector<AccumulatorType> accumulators;
  bool leading_dimensions = false;   // rows of any distance; false: packed operands alone
  std::vector<Expression> required;  // conditions on a problem
  std::string arch;                  // empty: the device's
  std::vector<std::pair<std::string, Expression>> defines;
  Expression workspace_bytes;
  bool zero_workspace = false;
  std::optional<std::string> order_nondeterministic;  // the reason
  std::vector<KernelForm> kernels;
  // Of a candidate for a task alone:
  Language language = Language::cuda;  // cpp: a source for the CPU, called through `entry`
  std::string entry;
  std::vector<Tunable> tune;

  bool takes_scaling() const;  // some kernel takes alpha or beta: the candidate is one for scaled problems
};

// `path` names either file. Error: bad_input, one line that names the file, the field as a JSON pointer, and what is
// accepted; environment where a file cannot be read.
Result<FreeForm> load_candidate(const std::filesystem::path& path);

// The same from texts; `descriptor` stands for the file in messages, its stem is the default name.
Result<FreeForm> parse_candidate(std::string_view json_text, std::string source,
                                 const std::filesystem::path& descriptor);

// Both for a task, whose tensors and constants the descriptor names. C++ sources (.cpp) are accepted too.
Result<FreeForm> load_candidate(const std::filesystem::path& path, const DescriptorNames& names);
Result<FreeForm> parse_candidate(std::string_view json_text, std::string source,
                                 const std::filesystem::path& descriptor, const DescriptorNames& names);

// Why the candidate does not claim the problem (its layout, element type, architecture, requirements); nullopt: it
// does. Error (bad_input): a requirement that cannot be evaluated; a device that runs no device code.
Result<std::optional<std::string>> inapplicable(const FreeForm& form, const Problem& problem, const Machine& machine);

// Error (bad_input): not applicable, with the reason; a number beyond what the device accepts, with its field.
Result<Candidate> instantiate(const FreeForm& form, const Problem& problem, const Machine& machine);

// What a candidate for a task is made for: one setting of the task's constants. Tensors lie at fixed distances from the
// base of one allocation, which is passed as the workspace of the launch.
struct TaskBinding {
  std::string what;                                          // for messages: "softmax, rows=4 columns=33"
  std::vector<std::int64_t> variables;                       // values, as DescriptorNames::variables
  std::vector<std::int64_t> pointers;                        // bytes from the base, as DescriptorNames::pointers
  std::vector<float> numbers;                                // as DescriptorNames::numbers
  std::int64_t workspace = 0;                                // bytes from the base to the candidate's own workspace
  std::vector<std::pair<std::string, std::int64_t>> chosen;  // of FreeForm::tune
  std::string prologue;                                      // of C++ sources: what stands before them
};

// Error (bad_input): a requirement that does not hold, a number beyond what the device accepts, with its field.
Result<Candidate> instantiate(const FreeForm& form, const TaskBinding& binding, const Machine& machine);

// The workspace that the candidate asks for. Error as above.
Result<std::int64_t> workspace_bytes_of(const FreeForm& form, const TaskBinding& binding);

// The descriptor of a candidate made for one problem on one architecture, in the same format: loading it with the
// source beside it and instantiating it for that problem gives the same launch. `about` is kept as a note.
nlohmann::json describe_candidate(const Candidate& candidate, const std::string& name, const Problem& problem,
                                  const nlohmann::json& about);

}  // namespace warpsmith
