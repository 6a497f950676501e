// What a cubin holds, read from its ELF tables: entries, variables that outlive a launch, functions it expects from
// elsewhere. And which of that a candidate may have (docs/candidates.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warpsmith {

struct CubinVariable {
  std::string name;  // mangled
  std::uint64_t bytes = 0;
  std::size_t section = 0;   // number of the section that holds it, loaded as one piece
  std::uint64_t offset = 0;  // in the section
  bool constant = false;     // __constant__: in bank 3
  bool managed = false;
};

struct CubinFacts {
  std::vector<std::string> entries;      // kernels
  std::vector<CubinVariable> variables;  // __device__ and __constant__, internal and function-local ones too
  std::vector<std::string> externals;    // expected from the driver or from other modules
  std::uint64_t variable_bytes() const;
};

// Error (failed): not a well-formed 64-bit cubin.
Result<CubinFacts> read_cubin(std::string_view bytes);

inline constexpr std::size_t kLargestCubin = 32 << 20;
inline constexpr std::uint64_t kLargestVariables = 64 << 20;  // bytes of all variables together
inline constexpr std::size_t kMostVariables = 4096;

// Error (failed), one line: too large; a managed variable; an external function (device printf, malloc, assert, kernel
// launches), with what it would undo.
Status check_cubin(std::string_view bytes);

}  // namespace warpsmith
