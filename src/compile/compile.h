// Compiles candidate sources: NVRTC (in a limited child process) for CUDA, the system compiler for the CPU, through a
// content-addressed cache.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/generate.h"

namespace warpsmith {

// What the compiler said about the kernel's resources. -1: not reported.
struct ResourceReport {
  int registers = -1;    // per thread
  int stack_bytes = -1;  // local memory frame per thread
  int spill_store_bytes = -1;
  int spill_load_bytes = -1;
  int static_smem_bytes = -1;
  bool wgmma_serialized = false;  // C7510, C7511, C7515 and kin, matched by their text
  std::vector<std::string> warnings;

  bool clean() const { return spill_store_bytes <= 0 && spill_load_bytes <= 0 && !wgmma_serialized; }
};
void to_json(nlohmann::json& json, const ResourceReport& report);
void from_json(const nlohmann::json& json, ResourceReport& report);

struct Artifact {
  std::filesystem::path binary;  // a cubin, PTX or a shared object, inside the cache
  std::filesystem::path source;  // the text that was compiled, beside it
  std::string key;               // SHA-256 over compiler identity, flags, architecture and source
  ResourceReport resources;
  std::string log;
  double seconds = 0;  // of the compile that made the entry
  bool from_cache = false;
};

struct CompilerOptions {
  std::filesystem::path cache;   // a directory; made when missing
  double timeout_seconds = 120;  // of one compile; the compiler is killed at the limit
  std::uint64_t memory_bytes = 8ULL << 30;
  std::filesystem::path nvrtc_helper{};  // warpsmith-nvrtc; empty: beside the executable
  std::string host_compiler{};           // empty: $WARPSMITH_CXX, $CXX, else c++ or g++ or clang++ on PATH
};

// What the user lets CUDA candidates include (WARPSMITH_HEADERS), by the directories at its top, such as "cute/,
// cutlass/"; empty: nothing.
std::string offered_headers();

class CompilerIdentities;

// Thread-safe: compiles of different candidates run in parallel; two of the same key may both compile, and one entry
// wins (entries are whole directories renamed into place; a corrupt entry is a miss and is replaced).
class Compiler {
 public:
  explicit Compiler(CompilerOptions options);

  // A candidate for a virtual architecture ("compute_80") becomes PTX, which a driver compiles for the GPU it runs; its
  // resources are not reported, and the evaluator takes machine code only.
  // Error: failed with the compiler's own words (first 4 KB) when it rejects the source, runs out of time or memory;
  // environment when there is no compiler or the cache cannot be written.
  Result<Artifact> compile(const Candidate& candidate) const;

  // What an earlier compile of the candidate left in the cache; compiles nothing.
  std::optional<Artifact> find(const Candidate& candidate) const;

  // Whether there is a compiler for the language. Error: environment, as compile() would give.
  Status available(Language language) const;

  // Version strings of the compilers found ("nvrtc": "13.0", "c++": "g++ 12.2.0"); missing ones are absent.
  std::map<std::string, std::string> versions() const;

 private:
  CompilerOptions options_;
  std::shared_ptr<CompilerIdentities> identities_;
};

}  // namespace warpsmith
