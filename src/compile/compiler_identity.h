// Which compilers there are: found once per process and remembered on disk, since asking one costs 10 ms or more.
#pragma once

#include <filesystem>
#include <mutex>
#include <optional>
#include <string>

#include "base/result.h"
#include "compile/compile.h"

namespace warpsmith {

struct CompilerIdentity {
  std::filesystem::path program;  // absolute
  std::string identity;           // everything that may change what it produces; part of the cache key
  std::string version;            // short, for people: "g++ 12.2.0", "13.0"
};

// Thread-safe; every answer is kept for the life of the object, failures included.
class CompilerIdentities {
 public:
  explicit CompilerIdentities(CompilerOptions options) : options_(std::move(options)) {}

  // Error: environment, with what to install.
  Result<CompilerIdentity> nvrtc();
  Result<CompilerIdentity> host();

  // Error: environment, where the host compiler works, but not under the rules that it is run with.
  Status host_works_confined();

 private:
  CompilerOptions options_;
  std::mutex mutex_;
  std::optional<Result<CompilerIdentity>> nvrtc_, host_;
  std::optional<Status> host_works_confined_;
};

}  // namespace warpsmith
