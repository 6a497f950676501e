// The functions that are interposed, as the library that the program loaded defines them.
#pragma once

#include <string_view>

namespace warpsmith::interposer {

// Beginnings of file names, whatever the version behind them.
inline constexpr std::string_view kCublas = "libcublas.so", kCublasLt = "libcublasLt.so";

// Null where no such library is loaded or it lacks the function.
void* find_real(std::string_view file, const char* function);

template <class Function>
Function* real_function(std::string_view file, const char* function) {
  return reinterpret_cast<Function*>(find_real(file, function));
}

}  // namespace warpsmith::interposer
