// Compiler: cache look-up, then NVRTC's helper or the host compiler in a child process under limits.
#include "compile/compile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <set>

#include "base/file.h"
#include "base/hash.h"
#include "base/subprocess.h"
#include "codegen/descriptor.h"
#include "compile/cache.h"
#include "compile/compiler_identity.h"
#include "compile/confinement.h"
#include "compile/cubin.h"
#include "compile/resource_report.h"
#include "compile/source_guard.h"

namespace warpsmith {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestMessage = 4096;
constexpr std::size_t kLargestSource = kMaxSourceBytes + (64 << 10);  // with the macros put before it
// Part of the key: entries of the cache passed these rules.
constexpr const char* kRules = "source-guard 3, cubin 1";

const EntryNames kCudaNames = {"kernel.cubin", "kernel.cu"};
const EntryNames kPtxNames = {"kernel.ptx", "kernel.cu"};
const EntryNames kCppNames = {"kernel.so", "kernel.cpp"};

const EntryNames& names_of(const Candidate& candidate) {
  if (candidate.language != Language::cuda) return kCppNames;
  return candidate.arch.starts_with("compute_") ? kPtxNames : kCudaNames;
}

// Unannotated functions count as device functions (a candidate has no host code); ptxas reports resources.
std::vector<std::string> nvrtc_flags(const std::string& arch) {
  return {"--gpu-architecture=" + arch, "--std=c++20", "--device-as-default-execution-space", "--ptxas-options=-v",
          "--ptxas-options=--warn-on-spills"};
}

// Directories whose headers CUDA candidates may include, because the user has named them in WARPSMITH_HEADERS. The
// digest, of every file's name, size and time, is part of the key.
struct Headers {
  std::vector<std::string> directories;
  std::string digest;
};

std::vector<std::string> named_directories() {
  std::vector<std::string> directories;
  const char* named = std::getenv("WARPSMITH_HEADERS");
  std::string_view rest = named == nullptr ? "" : named;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    if (end > 0) directories.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return directories;
}

// Nothing for a source that includes nothing. Error: environment, for a directory that is not there.
Result<Headers> headers_of(const Candidate& candidate) {
  Headers headers;
  const std::vector<std::string> named = named_directories();
  if (named.empty() || candidate.language != Language::cuda) return headers;
  if (candidate.source.find("include") == std::string::npos) return headers;
  HashInput digest;
  for (const std::string& directory : named) {
    std::error_code error;
    const fs::path whole = fs::canonical(directory, error);
    if (error || !fs::is_directory(whole, error)) {
      return environment_error(fmt::format("WARPSMITH_HEADERS: there is no directory {}", directory));
    }
    headers.directories.push_back(whole.string());
    std::vector<std::string> files;
    for (fs::recursive_directory_iterator at(whole, error), last; !error && at != last; at.increment(error)) {
      std::error_code ignored;
      if (!at->is_regular_file(ignored)) continue;
      files.push_back(fmt::format("{} {} {}", at->path().string(), at->file_size(ignored),
                                  at->last_write_time(ignored).time_since_epoch().count()));
    }
    std::sort(files.begin(), files.end());
    for (const std::string& file : files) digest.add(file);
  }
  headers.digest = digest.hex();
  return headers;
}

// No -ffast-math: NaN and Inf keep their meaning. Contraction to FMA is on by default.
std::vector<std::string> host_flags(const std::string& arch) {
  return {"-std=c++20",         "-O3",   "-march=" + arch, "-mtune=native", "-fno-math-errno",
          "-fno-trapping-math", "-fPIC", "-shared"};
}

bool plain_arch(const std::string& arch) {
  return !arch.empty() && std::all_of(arch.begin(), arch.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

std::string cache_key(const CompilerIdentity& compiler, const std::vector<std::string>& flags, const Headers& headers,
                      const std::string& source) {
  HashInput input;
  input.add(compiler.identity);
  input.add(kRules);
  for (const std::string& flag : flags) input.add(flag);
  if (!headers.directories.empty()) input.add(headers.digest);
  return input.add(source).hex();
}

std::string head(const std::string& text) {
  return text.size() <= kLongestMessage ? text : text.substr(0, kLongestMessage) + "...";
}

// What ptxas says of a kernel that launches kernels, in the candidate's terms.
std::string translate(const std::string& log) {
  const bool launches = log.find("device-side kernel launch") != std::string::npos ||
                        log.find("Unresolved extern function 'cuda") != std::string::npos;
  return launches ? "a candidate may not launch kernels from the device: " + log : log;
}

bool disk_is_full(const std::string& text) {
  return text.find("No space left on device") != std::string::npos ||
         text.find("Disk quota exceeded") != std::string::npos;
}

// Why a compile ended without a binary, as the candidate's fault or the machine's.
Error explain(const ProcessOutput& output, const std::string& log, const CompilerOptions& options,
              std::uint64_t largest) {
  if (disk_is_full(log)) return environment_error(fmt::format("compile cache: {}: disk full", options.cache.string()));
  if (output.status.timed_out) {
    return failure(fmt::format("the compiler was stopped after {:g} s", options.timeout_seconds));
  }
  if (output.status.signal == SIGXFSZ) {
    return failure(fmt::format("the compiler's output exceeded {} MiB", largest >> 20));
  }
  if (output.status.signal != 0) {
    return failure(fmt::format("the compiler died ({}; memory limit {} MiB): {}", output.status.describe(),
                               options.memory_bytes >> 20, head(log)));
  }
  return failure(head(log.empty() ? output.status.describe() : translate(log)));
}

Status check_binary(const fs::path& cubin) {
  const Result<std::string> bytes = read_file(cubin);
  return bytes ? check_cubin(*bytes) : Status(bytes.error());
}

struct Compiled {
  std::string log;
  ResourceReport resources;
  double seconds = 0;
};

// The helper answers on stdout with one JSON object: {"ok", "log"} or {"environment": "..."}.
Result<Compiled> run_nvrtc(const CompilerOptions& options, const CompilerIdentity& compiler,
                           const std::vector<std::string>& flags, const Headers& headers, const std::string& source,
                           const fs::path& draft, const std::string& binary) {
  ProcessRequest request = limited_request(options, draft);
  request.argv = {compiler.program.string(), "--output", (draft / binary).string()};
  request.stdin_text = nlohmann::json{{"options", flags}, {"headers", headers.directories}}.dump() + "\n" + source;
  request.limits.output_bytes = 8 << 20;
  request.limits.file_bytes = kLargestCubin;
  Result<ProcessOutput> output = run_process(request);
  if (!output.ok()) return output.error();
  const nlohmann::json answer = nlohmann::json::parse(output->out, nullptr, false);
  if (!output->status.success() || !answer.is_object()) return explain(*output, output->err, options, kLargestCubin);
  if (answer.contains("environment")) return environment_error(answer["environment"].get<std::string>());
  Compiled compiled{answer.value("log", ""), {}, output->seconds};
  if (!answer.value("ok", false)) return explain(*output, compiled.log, options, kLargestCubin);
  compiled.resources = parse_ptxas_log(compiled.log);
  return compiled;
}

Result<Compiled> run_host(const CompilerOptions& options, CompilerIdentities& identities,
                          const CompilerIdentity& compiler, const std::vector<std::string>& flags,
                          const fs::path& draft) {
  ProcessRequest request = limited_request(options, draft);
  request.argv = {compiler.program.string()};
  request.argv.insert(request.argv.end(), flags.begin(), flags.end());
  request.argv.insert(request.argv.end(), {"-o", kCppNames.binary, kCppNames.source});
  const Result<ProcessOutput> output = run_confined(request, options);
  if (!output.ok() || !output->status.success()) {
    if (const Status works = identities.host_works_confined(); !works.ok()) return works.error();
  }
  if (!output.ok()) return output.error();
  if (!output->status.success()) return explain(*output, output->err + output->out, options, kLargestOutput);
  return Compiled{output->err, {}, output->seconds};
}

}  // namespace

std::string offered_headers() {
  std::set<std::string> tops;
  for (const std::string& directory : named_directories()) {
    std::error_code error;
    for (fs::directory_iterator at(directory, error), last; !error && at != last; at.increment(error)) {
      std::error_code ignored;
      if (at->is_directory(ignored)) tops.insert(at->path().filename().string() + "/");
    }
  }
  return fmt::format("{}", fmt::join(tops, ", "));
}

Compiler::Compiler(CompilerOptions options)
    : options_(std::move(options)), identities_(std::make_shared<CompilerIdentities>(options_)) {}

std::optional<Artifact> Compiler::find(const Candidate& candidate) const {
  const bool cuda = candidate.language == Language::cuda;
  const Result<CompilerIdentity> compiler = cuda ? identities_->nvrtc() : identities_->host();
  const Result<Headers> headers = headers_of(candidate);
  if (!compiler.ok() || !headers.ok() || !plain_arch(candidate.arch)) return std::nullopt;
  const std::string key =
      cache_key(*compiler, cuda ? nvrtc_flags(candidate.arch) : host_flags(candidate.arch), *headers, candidate.source);
  return load_entry(options_.cache, key, names_of(candidate), candidate.source);
}

Result<Artifact> Compiler::compile(const Candidate& candidate) const {
  const bool cuda = candidate.language == Language::cuda;
  if (!plain_arch(candidate.arch)) return failure(fmt::format("'{}' is not an architecture", candidate.arch));
  const Result<CompilerIdentity> compiler = cuda ? identities_->nvrtc() : identities_->host();
  if (!compiler.ok()) return compiler.error();
  const Result<Headers> headers = headers_of(candidate);
  if (!headers.ok()) return headers.error();
  const std::vector<std::string> flags = cuda ? nvrtc_flags(candidate.arch) : host_flags(candidate.arch);
  const EntryNames& names = names_of(candidate);
  Artifact artifact;
  artifact.key = cache_key(*compiler, flags, *headers, candidate.source);
  if (std::optional<Artifact> entry = load_entry(options_.cache, artifact.key, names, candidate.source)) return *entry;

  if (candidate.source.size() > kLargestSource) {
    return failure(
        fmt::format("the source has {} bytes; at most {} are accepted", candidate.source.size(), kMaxSourceBytes));
  }
  const Includes allowed = !cuda ? Includes::system : headers->directories.empty() ? Includes::none : Includes::named;
  const Status guarded = check_self_contained(candidate.source, allowed);
  if (!guarded.ok()) return guarded.error();
  Result<EntryDraft> draft = EntryDraft::create(options_.cache);
  if (!draft.ok()) return draft.error();
  const Status written = write_file_atomic(draft->path() / names.source, candidate.source);
  if (!written.ok()) return written.error();
  const Result<Compiled> compiled =
      cuda ? run_nvrtc(options_, *compiler, flags, *headers, candidate.source, draft->path(), names.binary)
           : run_host(options_, *identities_, *compiler, flags, draft->path());
  if (!compiled.ok()) return compiled.error();
  if (&names == &kCudaNames) {
    if (const Status accepted = check_binary(draft->path() / names.binary); !accepted) return accepted.error();
  }
  artifact.log = compiled->log;
  artifact.resources = compiled->resources;
  artifact.seconds = compiled->seconds;
  return store_entry(options_.cache, std::move(draft).value(), names, candidate.source, artifact);
}

Status Compiler::available(Language language) const {
  const Result<CompilerIdentity> compiler = language == Language::cuda ? identities_->nvrtc() : identities_->host();
  return compiler.ok() ? ok_status() : Status(compiler.error());
}

std::map<std::string, std::string> Compiler::versions() const {
  std::map<std::string, std::string> versions;
  if (const Result<CompilerIdentity> nvrtc = identities_->nvrtc(); nvrtc.ok()) versions["nvrtc"] = nvrtc->version;
  if (const Result<CompilerIdentity> host = identities_->host(); host.ok()) versions["c++"] = host->version;
  return versions;
}

}  // namespace warpsmith
