// What a host compiler opens, as rules of Landlock.
#include "compile/confinement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/landlock.h"
#include "base/scratch.h"
#include "base/text.h"

namespace warpsmith {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kQuotedBytes = 500;

// No /proc as a whole: it shows this process's environment.
constexpr const char* kSystemPaths[] = {"/usr",
                                        "/lib",
                                        "/lib32",
                                        "/lib64",
                                        "/libx32",
                                        "/bin",
                                        "/sbin",
                                        "/nix/store",
                                        "/etc/ld.so.cache",
                                        "/etc/ld.so.conf",
                                        "/etc/ld.so.conf.d",
                                        "/etc/ld.so.preload",
                                        "/proc/cpuinfo",
                                        "/proc/meminfo",
                                        "/etc/os-release",
                                        "/etc/lsb-release",
                                        "/etc/debian_version",
                                        "/etc/localtime",
                                        "/dev/zero",
                                        "/dev/random",
                                        "/dev/urandom",
                                        "/sys/devices/system/cpu"};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

fs::path resolved(const fs::path& path) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(path, error);
  return error ? path : whole;
}

bool holds(const fs::path& directory, const fs::path& path) {
  const fs::path whole = resolved(path);
  return !path.empty() &&
         std::mismatch(directory.begin(), directory.end(), whole.begin(), whole.end()).first == directory.end();
}

// The compiler with what lies beside it. A directory that also holds people's files stays closed: the program alone.
void add_compiler(const fs::path& program, const CompilerOptions& options, std::vector<FileRule>& rules) {
  using namespace file_rights;
  const fs::path directory = resolved(program.parent_path());
  std::error_code error;
  bool shared = false;
  for (const fs::path& other : {fs::path(variable("HOME")), fs::temp_directory_path(error), options.cache}) {
    shared = shared || holds(directory, other);
  }
  rules.push_back({(shared ? program : directory).string(), kRead | kExecute});
  if (shared || directory.filename() != "bin") return;
  for (const auto& entry : fs::directory_iterator(directory.parent_path(), error)) {
    const std::string name = entry.path().filename().string();
    const bool of_compilers = name.starts_with("lib") || name == "include" || name.find("-linux-") != std::string::npos;
    if (of_compilers) rules.push_back({entry.path().string(), kRead | kExecute});
  }
}

std::vector<FileRule> rules_of(const ProcessRequest& request, const CompilerOptions& options) {
  using namespace file_rights;
  std::vector<FileRule> rules = {{request.working_directory.string(), kAll}, {"/dev/null", kReadFiles | kWriteFiles}};
  for (const char* path : kSystemPaths) rules.push_back({path, kRead | kExecute});
  const fs::path program = request.argv.front();
  add_compiler(program, options, rules);
  if (const fs::path target = resolved(program); target != program) add_compiler(target, options, rules);
  std::string rest = variable("WARPSMITH_CXX_FILES");
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    if (end > 0) rules.push_back({rest.substr(0, end), kRead | kExecute});
    rest.erase(0, end + 1);
  }
  return rules;
}

// Environment variables that would change what a compiler reads or writes without being part of the key. ccache, which
// stands in for a compiler on some machines, steps aside: it may write no cache of its own.
EnvironmentOverrides clean_environment(const fs::path& scratch) {
  EnvironmentOverrides overrides = {
      {"LC_ALL", "C"},         {"TMPDIR", scratch.string()},       {"CUDA_CACHE_DISABLE", "1"},
      {"CCACHE_DISABLE", "1"}, {"CCACHE_CONFIGPATH", "/dev/null"}, {"CCACHE_DIR", scratch.string()}};
  for (const char* name :
       {"CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "GCC_EXEC_PREFIX", "COMPILER_PATH",
        "DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES", "NVRTC_APPEND_FLAGS", "NVRTC_PREPEND_FLAGS"}) {
    overrides.emplace_back(name, std::nullopt);
  }
  return overrides;
}

}  // namespace

ProcessRequest limited_request(const CompilerOptions& options, const fs::path& scratch) {
  ProcessRequest request;
  request.limits.wall_seconds = options.timeout_seconds;
  request.limits.memory_bytes = options.memory_bytes;
  request.limits.file_bytes = kLargestOutput;
  request.environment = clean_environment(scratch);
  request.working_directory = scratch;
  return request;
}

Result<ProcessOutput> run_confined(ProcessRequest request, const CompilerOptions& options) {
  const Result<Landlock> rules = Landlock::create(rules_of(request, options));
  if (rules) request.rules = &*rules;
  return run_process(request);
}

Status try_confined(const fs::path& compiler, const CompilerOptions& options) {
  const Result<ScratchDirectory> scratch = ScratchDirectory::create();
  if (!scratch) return scratch.error();
  const Status written = write_file_atomic(
      scratch->path() / "probe.cpp",
      "#include <cmath>\n#include <cstdint>\nextern \"C\" double probe(double x) { return std::sqrt(x); }\n");
  if (!written) return written;
  ProcessRequest request = limited_request(options, scratch->path());
  request.argv = {compiler.string(), "-std=c++20", "-O1", "-fPIC", "-shared", "-o", "probe.so", "probe.cpp"};
  const Result<ProcessOutput> confined = run_confined(request, options);
  // At a limit it says nothing of the rules: the machine may be busy.
  const bool limited = confined && (confined->status.timed_out || confined->status.signal != 0);
  if (limited || (confined && confined->status.success())) return ok_status();
  const Result<ProcessOutput> unconfined = run_process(request);
  if (!unconfined || !unconfined->status.success()) return ok_status();
  const std::string words = confined ? confined->err + confined->out : confined.error().message;
  return environment_error(fmt::format(
      "the C++ compiler {} works, but not confined to the system's files and its own ({}); WARPSMITH_CXX_FILES=DIR:DIR "
      "names further directories that it may read",
      compiler.string(), printable(words, kQuotedBytes)));
}

}  // namespace warpsmith
