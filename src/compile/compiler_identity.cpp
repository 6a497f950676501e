// Finding compilers and remembering what they said of themselves.
#include "compile/compiler_identity.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/paths.h"
#include "base/subprocess.h"
#include "compile/confinement.h"

namespace warpsmith {

namespace {

namespace fs = std::filesystem;

// "path size mtime" of a file as it is now; changes when the file is replaced. Empty when there is no such file.
std::string file_stamp(const fs::path& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return {};
  return fmt::format("{} {} {}.{}", path.string(), info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
}

std::optional<fs::path> find_program(const std::string& name) {
  if (name.empty()) return std::nullopt;
  if (name.find('/') != std::string::npos) {
    return access(name.c_str(), X_OK) == 0 ? std::optional(fs::absolute(name)) : std::nullopt;
  }
  const char* path = std::getenv("PATH");
  std::string rest = path != nullptr ? path : "/usr/bin:/bin";
  while (!rest.empty()) {
    const std::size_t colon = rest.find(':');
    const fs::path candidate = fs::path(rest.substr(0, colon)) / name;
    if (candidate.is_absolute() && access(candidate.c_str(), X_OK) == 0) return candidate;
    rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
  }
  return std::nullopt;
}

Result<std::string> ask(const fs::path& program, const std::string& argument) {
  ProcessRequest request;
  request.argv = {program.string(), argument};
  request.limits.wall_seconds = 20;
  request.environment = {{"LC_ALL", "C"}};
  Result<ProcessOutput> output = run_process(request);
  if (!output.ok()) return output.error();
  if (output->status.success()) return output->out;
  return environment_error(fmt::format("{} {} failed ({}): {}", program.string(), argument, output->status.describe(),
                                       output->err.substr(0, 500)));
}

// The answer of `program argument`, remembered in the cache under the stamps of the files it depends on. `depends`
// reads those files' paths from a fresh answer.
template <class Depends>
Result<std::string> remembered(const fs::path& cache, const fs::path& program, const std::string& argument,
                               Depends depends) {
  const fs::path memory = cache / "compilers" / sha256_hex(program.string()).substr(0, 16);
  if (Result<std::string> text = read_file(memory); text.ok()) {
    const nlohmann::json json = nlohmann::json::parse(*text, nullptr, false);
    if (json.is_object() && json.contains("stamps") && json.contains("answer") && json["answer"].is_string()) {
      bool fresh = json["stamps"].is_object() && json["stamps"].contains(program.string());
      for (const auto& [path, stamp] : json["stamps"].items()) fresh = fresh && stamp == file_stamp(path);
      if (fresh) return json["answer"].get<std::string>();
    }
  }
  Result<std::string> answer = ask(program, argument);
  if (!answer.ok()) return answer;
  nlohmann::json stamps = {{program.string(), file_stamp(program)}};
  for (const fs::path& path : depends(*answer)) stamps[path.string()] = file_stamp(path);
  // Remembering is an optimisation: where the cache cannot be written, compile() says so.
  static_cast<void>(write_file_atomic(memory, nlohmann::json{{"stamps", stamps}, {"answer", *answer}}.dump()));
  return answer;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// -mtune=native follows the CPU, so its model is part of a host compiler's identity.
std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name") || line.starts_with("CPU part")) return line;
  }
  return "unknown";
}

// "c++ (Debian 12.2.0-14) 12.2.0" -> "g++ 12.2.0"; "Debian clang version 14.0.6" -> "clang++ 14.0.6".
std::string short_version(const std::string& banner) {
  std::string line = first_line(banner);
  while (!line.empty() && line.back() == ' ') line.pop_back();
  const std::size_t clang = line.find("clang version ");
  if (clang != std::string::npos) {
    const std::string rest = line.substr(clang + 14);
    return "clang++ " + rest.substr(0, rest.find_first_of(" -"));
  }
  return "g++ " + line.substr(line.rfind(' ') + 1);
}

Result<CompilerIdentity> find_host(const CompilerOptions& options) {
  std::vector<std::string> names;
  const auto environment = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  if (!options.host_compiler.empty()) {
    names = {options.host_compiler};
  } else if (const std::string own = environment("WARPSMITH_CXX"); !own.empty()) {
    names = {own};
  } else {
    names = {environment("CXX"), "c++", "g++", "clang++"};
  }
  for (const std::string& name : names) {
    const std::optional<fs::path> program = find_program(name);
    if (!program) continue;
    Result<std::string> banner =
        remembered(options.cache, *program, "--version", [](const std::string&) { return std::vector<fs::path>{}; });
    if (!banner.ok()) return banner.error();
    return CompilerIdentity{*program, fmt::format("{}\n{}\n{}", program->string(), first_line(*banner), cpu_model()),
                            short_version(*banner)};
  }
  if (names.size() == 1) {
    return environment_error(
        fmt::format("no C++ compiler: {} is not a program; install g++ (Debian: apt install g++) or "
                    "set WARPSMITH_CXX to a compiler",
                    names[0]));
  }
  return environment_error(
      "no C++ compiler: none of $CXX, c++, g++, clang++ is on PATH; install g++ (Debian: apt install g++) or set "
      "WARPSMITH_CXX to a compiler");
}

Result<CompilerIdentity> find_nvrtc(const CompilerOptions& options) {
  const fs::path helper = options.nvrtc_helper.empty() ? executable_dir() / "warpsmith-nvrtc" : options.nvrtc_helper;
  if (access(helper.c_str(), X_OK) != 0) {
    return environment_error(fmt::format(
        "no CUDA compiler: {} is missing; build warpsmith where the CUDA toolkit (12.4 or newer) is installed",
        helper.string()));
  }
  // The answer is {"version": "13.0", "library": "/usr/local/cuda/lib64/libnvrtc.so.13.0.88"}.
  Result<std::string> answer = remembered(options.cache, helper, "--version", [](const std::string& text) {
    const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
    std::vector<fs::path> libraries;
    if (json.is_object() && json.contains("library")) libraries.emplace_back(json["library"].get<std::string>());
    return libraries;
  });
  if (!answer.ok()) return answer.error();
  const nlohmann::json json = nlohmann::json::parse(*answer, nullptr, false);
  if (!json.is_object() || !json.contains("version") || !json.contains("library")) {
    return environment_error(fmt::format("{} --version gave no version", helper.string()));
  }
  const std::string version = json["version"].get<std::string>();
  const fs::path library = json["library"].get<std::string>();
  std::error_code error;
  return CompilerIdentity{
      helper, fmt::format("nvrtc {} {} {}", version, library.filename().string(), fs::file_size(library, error)),
      version};
}

}  // namespace

Result<CompilerIdentity> CompilerIdentities::nvrtc() {
  const std::lock_guard lock(mutex_);
  if (!nvrtc_) nvrtc_ = find_nvrtc(options_);
  return *nvrtc_;
}

Result<CompilerIdentity> CompilerIdentities::host() {
  const std::lock_guard lock(mutex_);
  if (!host_) host_ = find_host(options_);
  return *host_;
}

Status CompilerIdentities::host_works_confined() {
  const Result<CompilerIdentity> compiler = host();
  if (!compiler.ok()) return compiler.error();
  const std::lock_guard lock(mutex_);
  if (!host_works_confined_) host_works_confined_ = try_confined(compiler->program, options_);
  return *host_works_confined_;
}

}  // namespace warpsmith
