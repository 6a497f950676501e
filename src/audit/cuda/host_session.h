// A foreign kernel, loaded in a confined process and ready to be called: starting it in the strictest way that works
// here, and its commands with their claims taken apart.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "audit/clocks.h"
#include "audit/cuda/shared_memory.h"
#include "audit/findings.h"
#include "audit/host_link.h"
#include "base/result.h"

namespace warpsmith::audit {

inline constexpr int kNotSupported =
    801;  // what the entry returns for a problem that it does not do: cudaErrorNotSupported

struct RunReply {
  int code = 0;       // the entry's; 0: done
  BatchTimes claims;  // judge_us: until the reply
};

struct CaptureReply {
  int code = 0;
  std::map<std::string, int> nodes;  // by type, claimed
};

class HostSession {
 public:
  HostSession(HostLink link, double limit_seconds) : link_(std::move(link)), limit_seconds_(limit_seconds) {}

  Status load(const std::filesystem::path& object);
  Status register_table(const nlohmann::json& table);
  Result<RunReply> run(const std::string& table, int first, int calls);
  // Copies are {to, from, bytes} in the shared memory.
  Result<RunReply> run_ordered(const nlohmann::json& before, const nlohmann::json& after, double delay_us);
  // The first `calls` sets of a table, queued at once while the stream is busy.
  Result<RunReply> run_queued(const std::string& table, int calls, double delay_us);
  Result<CaptureReply> capture(const std::string& graph, const std::string& table, int first, int calls);
  Result<RunReply> replay(const std::string& graph, int calls);
  Result<CallFacts> observe();

  const HostLink& link() const { return link_; }
  const std::string& watch_error() const { return watch_error_; }  // empty: the driver's calls are watched
  const std::string& nondeterminism() const { return nondeterminism_; }
  int threads_before() const { return threads_before_; }
  int most_threads() const { return most_threads_; }
  int stray_lines() const { return strays_; }
  // At its process, from outside, and for lines that nobody asked for. Apart from the commands, so that nothing stands
  // between a reply and the judge's look at C.
  void look();

 private:
  friend class HostFactory;
  Result<nlohmann::json> ask(const std::string& operation, nlohmann::json arguments, double* seconds = nullptr);
  Result<RunReply> timed(const std::string& operation, nlohmann::json arguments, int calls);

  HostLink link_;
  double limit_seconds_;
  std::string watch_error_ = "not asked for", nondeterminism_;
  int threads_before_ = 0, most_threads_ = 0, strays_ = 0;
};

class HostFactory {
 public:
  // What works on this machine: how hosts are confined, and how memory is shared with them.
  struct Known {
    std::size_t profile = 0;
    SharingKind sharing = SharingKind::descriptor;
    std::string refused;  // why no stricter way works; empty: this is the strictest
  };
  struct Options {
    std::filesystem::path launcher, host;  // empty: beside this executable
    int device = 0;
    bool sandbox = true;
    std::vector<std::string> readable;
    double limit_seconds = 20;
    std::optional<Known> known;  // from an earlier factory
  };
  explicit HostFactory(Options options);
  ~HostFactory();
  HostFactory(const HostFactory&) = delete;
  HostFactory& operator=(const HostFactory&) = delete;

  // How memory is shared with hosts here; found out by starting one, once. Error (environment): no way works.
  Result<SharingKind> sharing();
  const std::optional<Known>& known() const { return options_.known; }
  // A host that has the memory open and is confined, without a candidate. Precondition: sharing() succeeded.
  Result<std::unique_ptr<HostSession>> start(const SharedMemory& memory, bool watch);

 private:
  struct Profile {
    const char* name;
    std::vector<std::string> launcher_arguments;
    bool late = false;  // rights are given up once CUDA has started, and threads of CUDA's keep theirs
  };
  std::vector<std::string> readable() const;
  Result<std::unique_ptr<HostSession>> start(const SharedMemory& memory, bool watch, const Profile& profile);
  Status try_profile(const Profile& profile, SharingKind kind);
  const std::vector<Profile>& profiles() const;

  Options options_;
  std::filesystem::path scratch_;
};

// Where CUPTI may be: the loader's path, the toolkit, the wheels of a Python environment on PATH.
std::vector<std::string> cupti_libraries();

}  // namespace warpsmith::audit
