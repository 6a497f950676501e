// The command line of nvcc, and what of its words is told.
#include "audit/build_candidate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "base/subprocess.h"
#include "base/text.h"

namespace warpsmith::audit {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kQuotedBytes = 300;
constexpr std::uint64_t kObjectBytes = 256u << 20;

// The first line that speaks of an error, else the first line.
std::string first_error(const std::string& log) {
  std::istringstream lines(log);
  std::string first;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("error") != std::string::npos) return printable(line, kQuotedBytes);
    if (first.empty()) first = line;
  }
  return printable(first, kQuotedBytes);
}

std::vector<std::string> compiler_command(const fs::path& nvcc, const fs::path& source, const fs::path& object,
                                          const BuildOptions& options) {
  const fs::path toolkit = nvcc.parent_path().parent_path();
  const std::string name = architecture_name(options.compute_capability);
  // The runtime is shared, so that the object's own references to threads, clocks and sockets can be told from it.
  std::vector<std::string> command = {
      nvcc.string(),      "-O3",
      "-std=c++17",       fmt::format("-gencode=arch=compute_{},code=sm_{}", name.substr(3), name.substr(3)),
      "-shared",          "-cudart=shared",
      "-Xcompiler=-fPIC", "-I" + source.parent_path().string()};
  for (const std::string& directory : options.include_directories) command.push_back("-I" + directory);
  command.insert(command.end(), options.flags.begin(), options.flags.end());
  for (const fs::path& directory : {toolkit / "lib64", toolkit / "lib"}) {
    if (!fs::exists(directory)) continue;
    command.push_back("-Xlinker=-rpath=" + directory.string());
    command.push_back("-L" + directory.string());
    if (fs::exists(directory / "stubs")) command.push_back("-L" + (directory / "stubs").string());
  }
  // A library is linked where the source calls it, and then found in the object.
  command.insert(command.end(), {"-Xlinker=--as-needed", "-o", object.string(), source.string(), "-lcuda"});
  for (const char* library : {"cublas", "cublasLt"}) {
    if (fs::exists(toolkit / "lib64" / fmt::format("lib{}.so", library)))
      command.push_back(fmt::format("-l{}", library));
  }
  return command;
}

std::vector<std::string> confined(const std::vector<std::string>& command, const fs::path& source,
                                  const BuildOptions& options) {
  if (options.launcher.empty()) return command;
  std::vector<std::string> words = {
      options.launcher.string(),           "--scratch", options.scratch.string(), "--programs", "--filter", "--memory",
      std::to_string(options.memory_bytes)};
  std::vector<std::string> readable = options.include_directories;
  readable.push_back(source.parent_path().string());
  readable.push_back(fs::path(command.front()).parent_path().parent_path().string());
  for (const std::string& path : readable) words.insert(words.end(), {"--readable", path});
  words.emplace_back("--");
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

}  // namespace

std::string architecture_name(int compute_capability) {
  // From 9.0 on, wgmma, TMA multicast and the like need the architecture's own target.
  return fmt::format("sm_{}{}", compute_capability, compute_capability >= 90 ? "a" : "");
}

fs::path find_nvcc() {
  std::istringstream path(std::getenv("PATH") != nullptr ? std::getenv("PATH") : "");
  for (std::string directory; std::getline(path, directory, ':');) {
    const fs::path program = fs::path(directory) / "nvcc";
    std::error_code error;
    if (access(program.c_str(), X_OK) == 0) return fs::canonical(program, error);
  }
  const fs::path usual = "/usr/local/cuda/bin/nvcc";
  return access(usual.c_str(), X_OK) == 0 ? usual : fs::path();
}

Result<BuiltCandidate> build_candidate(const fs::path& source, const BuildOptions& options) {
  const fs::path nvcc = options.nvcc.empty() ? find_nvcc() : options.nvcc;
  if (nvcc.empty()) {
    return environment_error("no nvcc on PATH or in /usr/local/cuda/bin; give a shared object, or install the toolkit");
  }
  BuiltCandidate built;
  built.object = options.scratch / (source.stem().string() + ".so");
  const auto command = compiler_command(nvcc, fs::absolute(source), built.object, options);
  built.command = fmt::format("{}", fmt::join(command, " "));
  ProcessRequest request;
  request.argv = confined(command, fs::absolute(source), options);
  request.limits.wall_seconds = options.wall_seconds;
  request.limits.file_bytes = kObjectBytes;
  request.working_directory = options.scratch;
  request.environment = {{"TMPDIR", options.scratch.string()}};
  const auto output = run_process(request);
  if (!output) return output.error();
  built.seconds = output->seconds;
  if (output->status.timed_out) {
    return failure(fmt::format("does not compile within {:g} s", options.wall_seconds));
  }
  if (!output->status.success()) {
    return failure("does not compile: " + first_error(output->err + output->out));
  }
  if (!fs::exists(built.object)) return failure("the compiler wrote no object");
  return built;
}

}  // namespace warpsmith::audit
