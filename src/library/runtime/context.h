// What a handle stands for: one device, its wisdom and kernels, and the prepared calls.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "library/call.h"
#include "library/choice.h"
#include "library/explain.h"
#include "library/runtime/call_table.h"
#include "library/runtime/cublaslt.h"
#include "library/runtime/driver.h"
#include "library/runtime/kernel_store.h"
#include "library/runtime/own_launch.h"
#include "library/runtime/workspace.h"

namespace warpsmith::library {

// A call that is ready to run.
struct PreparedCall {
  enum class Kind {
    kernel,    // ours
    cublaslt,  // theirs
    loop,      // `each` for every matrix of the batch
    refused,   // nothing runs it: `status`, `reason`
  };
  CallKey key;
  std::uint64_t hash = 0;
  Kind kind = Kind::refused;
  OwnLaunch kernel;
  std::unique_ptr<LtMatmul> cublaslt;
  const PreparedCall* each = nullptr;
  std::unique_ptr<PreparedCall> own_each;  // where the table has no room for it
  std::size_t chosen = 0;                  // of the choices for a single product: which runs it
  // Made for want of memory for something better: not kept, the next call prepares again.
  bool provisional = false;
  warpsmith_status_t status = WARPSMITH_STATUS_INTERNAL_ERROR;
  std::string reason;
};

class Context {
 public:
  // For the calling thread's current device. `status` and the returned error's text go to the caller.
  static Result<std::unique_ptr<Context>> create(const warpsmith_options_t& options, warpsmith_status_t& status);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();

  // The prepared call under a key, or null: the hot path's look-up.
  const PreparedCall* known(const CallKey& key) const;
  // Prepares the call and queues it: the key is not known, its sizes and the pointers are valid, m, n, k > 0, alpha !=
  // 0.
  warpsmith_status_t run(const CallKey& key, const CallArguments& arguments, CUstream stream);
  // C = beta * C, for products without terms.
  warpsmith_status_t scale(const CallKey& key, float beta, void* c, CUstream stream);
  // Whether the calling thread's current context is the handle's; makes it so in a thread that has none yet, where the
  // CUDA runtime would do the same.
  warpsmith_status_t check_device();

  // For those who keep the answer: the prepared call under a key, prepared now if need be; `own` where the table does
  // not keep it.
  const PreparedCall* prepared(const CallKey& key, std::unique_ptr<PreparedCall>& own);
  warpsmith_status_t run_prepared(const PreparedCall& call, const CallArguments& arguments, CUstream stream);

  Explanation explain_choice(const CallKey& key);
  nlohmann::json explain(const CallKey& key);

  std::uint64_t id() const { return id_; }

 private:
  explicit Context(const Driver& cuda) : cuda_(cuda) {
    workspaces_.emplace(cuda);
    calls_.emplace();
    small_calls_.emplace();
  }

  Status bind_device();
  Status describe_machine();
  std::shared_ptr<const WisdomIndex> open_wisdom(const char* option) const;
  std::shared_ptr<const Pack> open_pack(const char* option) const;

  std::unique_ptr<PreparedCall> prepare(const CallKey& key);
  void prepare_single(PreparedCall& call);
  void prepare_batch(PreparedCall& call);
  void prepare_without_workspace(PreparedCall& call);
  void prepare_cublaslt(PreparedCall& call, const std::string& setting, std::size_t most_bytes = kLtWorkspaceBytes);
  bool prepare_kernel(PreparedCall& call, const Choice& choice, const Problem& problem);
  std::vector<Choice> choices_of(const Problem& problem) const;
  Result<const CublasLt*> cublaslt();
  warpsmith_status_t run_kernel(const PreparedCall& call, CallArguments arguments, CUstream stream);
  warpsmith_status_t run_cublaslt(const PreparedCall& call, CallArguments arguments, CUstream stream);
  warpsmith_status_t run_without_workspace(const PreparedCall& call, const CallArguments& arguments, CUstream stream);
  warpsmith_status_t run_loop(const PreparedCall& call, CallArguments arguments, CUstream stream);
  warpsmith_status_t launch_failed(CUresult error);
  void explain_single(const CallKey& key, const Problem& problem, Explanation& explanation);

  const Driver& cuda_;
  CUcontext context_ = nullptr;
  CUdevice device_ = 0;
  bool first_device_ = false;  // the one that a thread has when it has chosen none
  std::uint64_t id_ = 0;       // unique in the process
  warpsmith_mode_t mode_ = WARPSMITH_MODE_OFFLINE;
  warpsmith_launch_t launch_ = WARPSMITH_LAUNCH_PLAIN;
  warpsmith_fallback_t fallback_ = WARPSMITH_FALLBACK_CUBLASLT;
  bool has_wisdom_ = false, has_pack_ = false;
  CUmodule device_kernels_ = nullptr;
  CUfunction scale_ = nullptr, idle_ = nullptr;
  Machine machine_;
  std::optional<Chooser> chooser_;
  std::optional<KernelStore> kernels_;
  std::optional<WorkspacePool> workspaces_;
  std::mutex cublaslt_mutex_;
  std::optional<Result<std::unique_ptr<CublasLt>>> cublaslt_;
  std::optional<CallTable<PreparedCall>> calls_;
  std::optional<CallTable<PreparedCall>> small_calls_;  // what runs a call when there is no memory for a workspace
};

// Whether a batch of this problem is a loop of single products: each alone keeps the device busy long enough.
bool loops_batch(const CallKey& key);

}  // namespace warpsmith::library
