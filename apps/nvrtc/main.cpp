// warpsmith-nvrtc: compiles one CUDA source with NVRTC, to a cubin or, for a virtual architecture (compute_80), to PTX.
// Reads a JSON line {"options": [...], "headers": [...]} and then the source from stdin; writes the result to --output
// and {"ok", "log"} (or {"environment"}) to stdout. Its parent limits its memory, time and output. Sources that name
// files are refused, but for <headers> of the directories that the user has named; where the kernel offers Landlock the
// process cannot open files but those and NVRTC's own.
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <nvrtc.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/landlock.h"
#include "compile/source_guard.h"

namespace {

using nlohmann::json;

std::pair<int, int> nvrtc_version() {
  int major = 0, minor = 0;
  nvrtcVersion(&major, &minor);
  return {major, minor};
}

std::filesystem::path nvrtc_library() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&nvrtcVersion), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code error;
  return std::filesystem::canonical(info.dli_fname, error);
}

void answer(const json& value) { std::cout << value.dump(-1, ' ', false, json::error_handler_t::replace) << std::endl; }

int print_version() {
  const auto [major, minor] = nvrtc_version();
  answer({{"version", fmt::format("{}.{}", major, minor)}, {"library", nvrtc_library().string()}});
  return 0;
}

// NVRTC opens its second library by name at the first compile, when the sandbox is up: load it before.
void load_builtins() {
  const auto [major, minor] = nvrtc_version();
  const std::string name = fmt::format("libnvrtc-builtins.so.{}.{}", major, minor);
  const std::string beside = (nvrtc_library().parent_path() / name).string();
  if (dlopen(beside.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL);
}

class Program {
 public:
  explicit Program(const std::string& source) {
    status_ = nvrtcCreateProgram(&program_, source.c_str(), "kernel.cu", 0, nullptr, nullptr);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (program_ != nullptr) nvrtcDestroyProgram(&program_);
  }

  nvrtcResult compile(const std::vector<std::string>& options) {
    if (status_ != NVRTC_SUCCESS) return status_;
    std::vector<const char*> pointers;
    for (const std::string& option : options) pointers.push_back(option.c_str());
    return nvrtcCompileProgram(program_, static_cast<int>(pointers.size()), pointers.data());
  }

  std::string log() const {
    std::size_t size = 0;
    if (nvrtcGetProgramLogSize(program_, &size) != NVRTC_SUCCESS || size <= 1) return {};
    std::string text(size, '\0');
    if (nvrtcGetProgramLog(program_, text.data()) != NVRTC_SUCCESS) return {};
    text.resize(std::strlen(text.c_str()));
    return text;
  }

  std::string cubin() const {
    std::size_t size = 0;
    if (nvrtcGetCUBINSize(program_, &size) != NVRTC_SUCCESS) return {};
    std::string bytes(size, '\0');
    return nvrtcGetCUBIN(program_, bytes.data()) == NVRTC_SUCCESS ? bytes : std::string();
  }

  std::string ptx() const {
    std::size_t size = 0;
    if (nvrtcGetPTXSize(program_, &size) != NVRTC_SUCCESS || size <= 1) return {};
    std::string text(size, '\0');
    if (nvrtcGetPTX(program_, text.data()) != NVRTC_SUCCESS) return {};
    text.resize(std::strlen(text.c_str()));
    return text;
  }

 private:
  nvrtcProgram program_ = nullptr;
  nvrtcResult status_;
};

bool write_all(int fd, const std::string& bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t put = write(fd, bytes.data() + done, bytes.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    done += static_cast<std::size_t>(put);
  }
  return fsync(fd) == 0;
}

json compile(const std::string& source, std::vector<std::string> options, const std::vector<std::string>& headers,
             int output) {
  const warpsmith::Status guarded =
      warpsmith::check_self_contained(source, headers.empty() ? warpsmith::Includes::none : warpsmith::Includes::named);
  if (!guarded.ok()) return {{"ok", false}, {"log", guarded.error().message}};
  if (nvrtc_version() >= std::pair(13, 0)) options.emplace_back("--no-cache");
  // Headers include their neighbours; a source without headers has none to look for.
  if (nvrtc_version() >= std::pair(13, 0) && headers.empty()) options.emplace_back("--no-source-include");
  for (const std::string& directory : headers) options.push_back("--include-path=" + directory);
  Program program(source);
  const nvrtcResult result = program.compile(options);
  if (result == NVRTC_ERROR_BUILTIN_OPERATION_FAILURE) {
    return {{"environment", "NVRTC cannot load its builtins library (libnvrtc-builtins.so); install the CUDA toolkit"}};
  }
  std::string log = program.log();
  if (result != NVRTC_SUCCESS) return {{"ok", false}, {"log", log.empty() ? nvrtcGetErrorString(result) : log}};
  std::string binary = program.cubin();
  if (binary.empty()) binary = program.ptx();
  if (binary.empty()) return {{"ok", false}, {"log", "NVRTC produced neither machine code nor PTX"}};
  if (!write_all(output, binary)) {
    return {{"environment", fmt::format("compile cache: cannot write: {}", std::strerror(errno))}};
  }
  return {{"ok", true}, {"log", log}};
}

// From here on only files under the directories `readable` can be opened, for reading; nothing can be created, removed
// or executed. A kernel without Landlock leaves the source guard alone.
void restrict_files(const std::vector<std::string>& readable) {
  std::vector<warpsmith::FileRule> rules;
  for (const std::string& directory : readable) rules.push_back({directory, warpsmith::file_rights::kReadFiles});
  const auto landlock = warpsmith::Landlock::create(rules);
  if (landlock) static_cast<void>(landlock->enter());
}

int serve(const char* output_path) {
  const std::string input((std::istreambuf_iterator<char>(std::cin)), std::istreambuf_iterator<char>());
  const std::size_t newline = input.find('\n');
  const json request = json::parse(input.substr(0, newline), nullptr, false);
  if (newline == std::string::npos || !request.is_object() || !request.contains("options")) {
    std::cerr << "warpsmith-nvrtc: expected a JSON line with \"options\" and then a source on stdin\n";
    return 2;
  }
  const int output = open(output_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (output < 0) {
    answer({{"environment", fmt::format("cannot create {}: {}", output_path, std::strerror(errno))}});
    return 0;
  }
  load_builtins();
  const auto headers = request.value("headers", std::vector<std::string>());
  std::vector<std::string> readable = headers;
  readable.push_back(nvrtc_library().parent_path().string());
  restrict_files(readable);
  answer(compile(input.substr(newline + 1), request["options"].get<std::vector<std::string>>(), headers, output));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--version") == 0) return print_version();
  if (argc == 3 && std::strcmp(argv[1], "--output") == 0) return serve(argv[2]);
  std::cerr << "usage: warpsmith-nvrtc --version | --output FILE < request\n";
  return 2;
}
