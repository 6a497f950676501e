// Compilers as child processes under limits, and the host compiler confined: it quotes what it reads, and macros of
// system headers make more text than the source guard can judge.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/result.h"
#include "base/subprocess.h"
#include "compile/compile.h"

namespace warpsmith {

inline constexpr std::uint64_t kLargestOutput = 256ULL << 20;  // of one file that a compiler writes

// Limits and a clean environment; `scratch` is the working directory and the one for temporary files.
ProcessRequest limited_request(const CompilerOptions& options, const std::filesystem::path& scratch);

// Runs argv[0], the host compiler: where the kernel has Landlock it reads the system's headers, libraries and programs,
// its own directories and those in WARPSMITH_CXX_FILES, writes its working directory alone, and opens no sockets.
Result<ProcessOutput> run_confined(ProcessRequest request, const CompilerOptions& options);

// Whether the compiler can work so, by compiling a text that is known to be right. Error: environment, with its words;
// not for a compiler that does not work unconfined either.
Status try_confined(const std::filesystem::path& compiler, const CompilerOptions& options);

}  // namespace warpsmith
