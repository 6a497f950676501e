// A process that runs foreign host code (a candidate's C++ kernel, a task's reference) on memory that it shares with
// this one. Candidates run confined as audited kernels do (audit/sandbox.h). Nothing that the process says is believed:
// a reply ends a wait, and what it did is read from the memory. It is stopped whenever no command is under way, so that
// none of its threads or signal handlers works unseen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/scratch.h"

namespace warpsmith::audit {
class HostLink;
}

namespace warpsmith::task {

// Anonymous memory behind a descriptor; its size is sealed, so that no process that shares it can take it away.
class SharedMemory {
 public:
  static Result<SharedMemory> create(std::int64_t bytes);
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }
  int descriptor() const { return descriptor_; }

 private:
  SharedMemory() = default;
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
  int descriptor_ = -1;
};

// A member of the struct Arguments: eight bytes.
struct Word {
  enum class Kind { address, integer, real } kind = Kind::integer;
  std::int64_t integer = 0;  // address: bytes from the start of the shared memory
  double real = 0;
};
using ArgumentTable = std::vector<Word>;

class ForeignHost {
 public:
  struct Options {
    bool confined = true;
    double limit_seconds = 60;                 // of one command
    std::filesystem::path host{}, launcher{};  // warpsmith-task-host, warpsmith-sandbox; empty: beside the executable
  };
  // Error (environment): it cannot be started, or not be confined; the message says what is missing.
  static Result<ForeignHost> start(const Options& options, const SharedMemory& memory,
                                   const std::filesystem::path& object);
  ForeignHost(ForeignHost&&) noexcept;
  ForeignHost& operator=(ForeignHost&&) noexcept;
  ~ForeignHost();

  // Error (failed) of these: what the process said or became.
  Status load(const std::string& entry);
  Status set_tables(const std::vector<ArgumentTable>& tables);
  // Which tables the runs of a slot take, in order. Several slots are kept beside each other, so that no command comes
  // between what a run finds in the memory and the run.
  Status set_order(int slot, const std::vector<int>& order);
  // One call a table. Seconds by this process's clock, from before the process may go on until it has been told to
  // stop.
  Result<double> run(int slot);
  // A hash of the object's own variables, as the process claims.
  Result<std::uint64_t> state();

 private:
  ForeignHost();
  // Lets the process go on for one command, and stops it again.
  Status command(const std::string& operation, nlohmann::json arguments, nlohmann::json* reply = nullptr,
                 double* seconds = nullptr);
  Status await_stop();

  std::optional<ScratchDirectory> scratch_;  // outlives the process
  std::unique_ptr<audit::HostLink> link_;
  std::filesystem::path object_;
  double limit_seconds_ = 60;
  bool stopped_ = false;
};

}  // namespace warpsmith::task
