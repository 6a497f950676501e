// The rules. Each names what was seen, so that a reader can disagree.
#include "audit/findings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/text.h"

namespace warpsmith::audit {

namespace {

constexpr std::size_t kNameBytes = 90;
constexpr int kPersistingL2Limit = 6;  // CU_LIMIT_PERSISTING_L2_CACHE_SIZE
constexpr int kMostCalls = 1 << 20;

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](auto prefix) { return text.starts_with(prefix); });
}

bool contains_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(), [&](auto part) { return text.find(part) != std::string_view::npos; });
}

enum class Kind { other, allocation, synchronisation, stream, graph_launch, host_function, memory_operation };

// A copy without Async waits, and so does what asks whether work is done.
Kind kind_of(std::string_view call) {
  const bool async = call.find("Async") != std::string_view::npos;
  if (starts_with_any(call, {"cuMemAlloc", "cuMemHostAlloc", "cuMemHostRegister", "cuMemCreate", "cuArrayCreate"})) {
    return Kind::allocation;
  }
  if (starts_with_any(
          call, {"cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize", "cuStreamQuery", "cuEventQuery"})) {
    return Kind::synchronisation;
  }
  if (starts_with_any(call, {"cuMemcpy"}) && !async) return Kind::synchronisation;
  if (starts_with_any(call, {"cuMemcpyDtoH"})) return Kind::synchronisation;
  if (starts_with_any(call, {"cuStreamCreate"})) return Kind::stream;
  if (starts_with_any(call, {"cuGraphLaunch"})) return Kind::graph_launch;
  if (starts_with_any(call, {"cuLaunchHostFunc", "cuStreamAddCallback"})) return Kind::host_function;
  if (starts_with_any(call, {"cuStreamWriteValue", "cuStreamWaitValue", "cuStreamBatchMemOp"})) {
    return Kind::memory_operation;
  }
  return Kind::other;
}

// "cuMemAlloc 3 times, cuMemFree once"
std::string list_calls(const CallFacts& facts, Kind kind) {
  std::vector<std::string> parts;
  for (const auto& [name, count] : facts.driver_calls) {
    if (kind_of(name) == kind) parts.push_back(fmt::format("{} ({})", printable(name, kNameBytes), count));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

void judge_kind(const CallFacts& later, Kind kind, Severity severity, const char* check, const char* what,
                std::vector<Finding>& findings) {
  const std::string seen = list_calls(later, kind);
  if (!seen.empty()) findings.push_back({severity, check, fmt::format("{} in {} calls: {}", what, later.calls, seen)});
}

void judge_launches(const CallFacts& later, std::vector<Finding>& findings) {
  const auto add = [&](const char* check, std::string detail) {
    findings.push_back({Severity::suspicious, check, std::move(detail)});
  };
  if (later.launches_on_other_streams > 0) {
    add("side-stream", fmt::format("{} of its launches in {} calls go to streams other than the one given",
                                   later.launches_on_other_streams, later.calls));
  }
  if (later.launches_on_default_stream > 0) {
    add("side-stream", fmt::format("{} of its launches in {} calls go to the default stream, not the one given",
                                   later.launches_on_default_stream, later.calls));
  }
  if (later.early_launches > 0) {
    findings.push_back(
        {Severity::note, "programmatic-launch",
         fmt::format("uses programmatic dependent launch from one call to the next ({} of {} calls): its "
                     "figures compare with figures of kernels that do so, too",
                     later.early_launches, later.calls)});
  }
  if (later.launches_outside_calls > 0) {
    add("threads", fmt::format("{} launches were made outside of the calls: by another thread or after return",
                               later.launches_outside_calls));
  }
  if (!later.launches_by_call.empty()) {
    const auto [least, most] = std::minmax_element(later.launches_by_call.begin(), later.launches_by_call.end());
    if (*least != *most) {
      add("skipped-work", fmt::format("like calls launch unlike numbers of kernels: {} to {} a call", *least, *most));
    } else if (*most == 0 && later.driver_calls.empty()) {
      add("skipped-work", "no call launches anything");
    }
  }
}

void judge_kernels(const CallFacts& facts, std::vector<Finding>& findings) {
  std::map<std::string, std::set<std::string>> by_library;
  for (const auto& [kernel, count] : facts.kernels) {
    if (const std::string library = library_of_kernel(kernel); !library.empty()) {
      by_library[library].insert(printable(kernel, kNameBytes));
    }
  }
  for (const auto& [library, kernels] : by_library) {
    findings.push_back({Severity::suspicious, "library-call",
                        fmt::format("runs {}'s kernels: {}", library, fmt::join(kernels, ", "))});
  }
}

void judge_cache_control(const CallFacts& first, const CallFacts& later, std::vector<Finding>& findings) {
  if (first.persisting_windows + later.persisting_windows > 0) {
    findings.push_back({Severity::suspicious, "persisting-l2",
                        fmt::format("asks {} times for lines that persist in the L2 cache",
                                    first.persisting_windows + later.persisting_windows)});
  }
  std::set<int> limits(first.limits_set.begin(), first.limits_set.end());
  limits.insert(later.limits_set.begin(), later.limits_set.end());
  for (const int limit : limits) {
    const bool cache = limit == kPersistingL2Limit;
    findings.push_back({cache ? Severity::suspicious : Severity::note, cache ? "persisting-l2" : "device-limit",
                        cache ? "sets a share of the L2 cache aside for itself"
                              : fmt::format("sets a limit of the context (CUlimit {})", limit)});
  }
}

struct SymbolRule {
  Severity severity;
  const char* check;
  const char* what;
  std::vector<std::string_view> symbols;
};

const std::vector<SymbolRule>& symbol_rules() {
  static const std::vector<SymbolRule> kRules = {
      {Severity::suspicious,
       "programs",
       "can start programs",
       {"fork", "vfork", "execl", "execle", "execlp", "execv", "execve", "execvp", "execvpe", "fexecve", "system",
        "popen", "posix_spawn", "posix_spawnp", "clone"}},
      {Severity::suspicious,
       "network",
       "can open network connections",
       {"socket", "connect", "bind", "listen", "accept", "getaddrinfo", "gethostbyname"}},
      {Severity::suspicious,
       "threads",
       "can start threads",
       {"pthread_create", "thrd_create",
        "_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE"}},
      {Severity::suspicious,
       "tampering",
       "can change code or reach into processes",
       {"mprotect", "pkey_mprotect", "ptrace", "process_vm_readv", "process_vm_writev"}},
      {Severity::suspicious,
       "library-call",
       "can call a matrix library",
       {"cublasGemmEx", "cublasHgemm", "cublasSgemm_v2", "cublasLtMatmul", "cublasCreate_v2", "cublasLtCreate",
        "cublasHgemmStridedBatched", "cublasGemmStridedBatchedEx"}},
      {Severity::note, "loading", "can load further libraries", {"dlopen", "dlmopen", "dlsym", "dlvsym"}},
      {Severity::note, "system-calls", "can make system calls of its own", {"syscall"}},
      {Severity::note,
       "clocks",
       "can read clocks",
       {"clock_gettime", "gettimeofday", "time", "clock", "_ZNSt6chrono3_V212steady_clock3nowEv",
        "_ZNSt6chrono3_V212system_clock3nowEv"}},
      {Severity::note, "files", "can open files", {"open", "open64", "openat", "fopen", "fopen64"}},
  };
  return kRules;
}

void judge_symbols(const ElfFacts& facts, std::vector<Finding>& findings) {
  for (const SymbolRule& rule : symbol_rules()) {
    std::vector<std::string_view> found;
    for (const std::string_view symbol : rule.symbols) {
      if (facts.takes(symbol)) found.push_back(symbol);
    }
    if (!found.empty()) {
      findings.push_back({rule.severity, rule.check, fmt::format("{}: {}", rule.what, fmt::join(found, ", "))});
    }
  }
}

bool belongs_to_others(std::string_view symbol) {
  if (symbol.size() > 2 && symbol.starts_with("cu") && std::isupper(static_cast<unsigned char>(symbol[2])) != 0) {
    return true;
  }
  if (starts_with_any(symbol, {"cuda", "cublas", "__cuda", "cupti", "pthread_"})) return true;
  static constexpr std::array<std::string_view, 14> kSystem = {
      "clock_gettime", "gettimeofday", "time",  "write",  "read",   "send", "sendto",
      "recv",          "open",         "dlsym", "dlopen", "malloc", "free", "poll"};
  return std::find(kSystem.begin(), kSystem.end(), symbol) != kSystem.end();
}

template <class T>
bool take(const nlohmann::json& json, const char* name, T& value) {
  const auto found = json.find(name);
  if (found == json.end()) return false;
  try {
    found->get_to(value);
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

bool counts_are_sane(const std::map<std::string, int>& counts) {
  return counts.size() <= 4096 && std::all_of(counts.begin(), counts.end(), [](const auto& entry) {
           return entry.second >= 0 && entry.second <= kMostCalls && entry.first.size() <= 4096;
         });
}

}  // namespace

std::string_view to_string(Severity severity) {
  switch (severity) {
    case Severity::note:
      return "note";
    case Severity::suspicious:
      return "suspicious";
    case Severity::wrong:
      return "wrong";
  }
  return "unknown";
}

void to_json(nlohmann::json& json, const Finding& finding) {
  json = {{"severity", to_string(finding.severity)}, {"check", finding.check}, {"detail", finding.detail}};
}

void from_json(const nlohmann::json& json, Finding& finding) {
  const auto severity = json.at("severity").get<std::string>();
  finding.severity = severity == "wrong"        ? Severity::wrong
                     : severity == "suspicious" ? Severity::suspicious
                                                : Severity::note;
  json.at("check").get_to(finding.check);
  json.at("detail").get_to(finding.detail);
}

Result<CallFacts> call_facts_from(const nlohmann::json& json) {
  CallFacts facts;
  const bool read =
      json.is_object() && take(json, "calls", facts.calls) && take(json, "driver_calls", facts.driver_calls) &&
      take(json, "kernels", facts.kernels) && take(json, "launches_on_given_stream", facts.launches_on_given_stream) &&
      take(json, "launches_on_default_stream", facts.launches_on_default_stream) &&
      take(json, "launches_on_other_streams", facts.launches_on_other_streams) &&
      take(json, "launches_by_call", facts.launches_by_call) && take(json, "limits_set", facts.limits_set) &&
      take(json, "persisting_windows", facts.persisting_windows) &&
      take(json, "launches_outside_calls", facts.launches_outside_calls);
  if (!read || !counts_are_sane(facts.driver_calls) || !counts_are_sane(facts.kernels) ||
      facts.launches_by_call.size() > static_cast<std::size_t>(kMostCalls)) {
    return failure("the watch on the driver's calls gave no sensible answer");
  }
  take(json, "early_launches", facts.early_launches);
  return facts;
}

std::vector<Finding> judge_calls(const CallFacts& first, const CallFacts& later) {
  std::vector<Finding> findings;
  judge_launches(later, findings);
  judge_kind(later, Kind::synchronisation, Severity::suspicious, "synchronisation",
             "waits for the device or copies to the host", findings);
  judge_kind(later, Kind::graph_launch, Severity::suspicious, "graph-launch", "launches graphs of its own", findings);
  judge_kind(later, Kind::host_function, Severity::suspicious, "host-function", "queues host functions", findings);
  judge_kind(later, Kind::memory_operation, Severity::suspicious, "memory-operation",
             "makes streams wait for or write memory", findings);
  judge_kind(later, Kind::stream, Severity::suspicious, "side-stream", "creates streams after its first call",
             findings);
  judge_kind(first, Kind::stream, Severity::note, "streams", "creates streams", findings);
  judge_kind(later, Kind::allocation, Severity::note, "allocation", "allocates after its first call", findings);
  judge_kind(first, Kind::allocation, Severity::note, "allocation", "allocates at its first call", findings);
  judge_cache_control(first, later, findings);
  CallFacts all = later;
  for (const auto& [kernel, count] : first.kernels) all.kernels[kernel] += count;
  judge_kernels(all, findings);
  return findings;
}

std::vector<Finding> judge_threads(int before, int most) {
  if (most <= before) return {};
  return {
      {Severity::suspicious, "threads",
       fmt::format("{} threads run that were not there before it was loaded (CUDA's own: {})", most - before, before)}};
}

std::vector<Finding> judge_elf(const ElfFacts& facts) {
  std::vector<Finding> findings;
  std::vector<std::string> libraries;
  for (const std::string& name : facts.needed) {
    if (starts_with_any(name, {"libcublas", "libcudnn", "libcutensor", "libcusparse", "libcusolver", "libtorch",
                               "libnvblas", "libxmma"})) {
      libraries.push_back(printable(name, kNameBytes));
    }
  }
  if (!libraries.empty()) {
    findings.push_back(
        {Severity::suspicious, "library-call", fmt::format("is linked with {}", fmt::join(libraries, ", "))});
  }
  std::vector<std::string> replaced;
  for (const std::string& symbol : facts.defined) {
    if (belongs_to_others(symbol)) replaced.push_back(printable(symbol, kNameBytes));
  }
  if (!replaced.empty()) {
    findings.push_back({Severity::suspicious, "tampering",
                        fmt::format("defines functions of the system or of CUDA: {}", fmt::join(replaced, ", "))});
  }
  // A runtime linked statically brings references of its own, to threads and sockets among others.
  if (!facts.runtime_is_static()) judge_symbols(facts, findings);
  return findings;
}

std::string library_of_kernel(std::string_view kernel) {
  const bool gemm = contains_any(kernel, {"gemm", "Gemm"});
  if (starts_with_any(kernel, {"nvjet"}) ||
      contains_any(kernel, {"_xmma_gemm", "cublas", "splitKreduce_kernel", "gemvNSP", "gemv2T_kernel", "gemv2N_kernel",
                            "gemmSN_", "gemmk1_kernel"}) ||
      (gemm && starts_with_any(kernel, {"ampere_", "volta_", "turing_", "maxwell_"}))) {
    return "cuBLAS";
  }
  if (contains_any(kernel, {"cutlass_75_", "cutlass_80_", "cutlass_90_", "cutlass3x_"}))
    return "cuBLAS or the CUTLASS library";
  if (contains_any(kernel, {"cudnn"})) return "cuDNN";
  return {};
}

}  // namespace warpsmith::audit
