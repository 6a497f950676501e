// The way from a call to its launch. All of this is on the hot path: one look-up, no lock, no allocation.
#include <algorithm>
#include <array>
#include <string>

#include "library/runtime/context.h"
#include "library/runtime/device_kernels.h"
#include "library/runtime/errors.h"

namespace warpsmith::library {

namespace {

// The thread's last call. A context's id is never given again, so an entry of a destroyed one matches nothing.
struct LastCall {
  std::uint64_t context = 0;
  const PreparedCall* call = nullptr;
};

constexpr std::uint64_t kElementBytes = 2;
constexpr std::int64_t kScaleBlocksPerUnit = 8;

const void* advance(const void* pointer, std::int64_t elements) {
  return static_cast<const std::uint16_t*>(pointer) + elements;
}

}  // namespace

warpsmith_status_t Context::launch_failed(CUresult error) {
  if (error == CUDA_ERROR_INVALID_CONTEXT || error == CUDA_ERROR_INVALID_HANDLE) {
    return fail(WARPSMITH_STATUS_INVALID_VALUE, "the stream is not one of the handle's device");
  }
  const auto status =
      error == CUDA_ERROR_OUT_OF_MEMORY ? WARPSMITH_STATUS_OUT_OF_MEMORY : WARPSMITH_STATUS_LAUNCH_FAILED;
  return fail(status, describe(cuda_, error));
}

warpsmith_status_t Context::check_device() {
  CUcontext current = nullptr;
  if (const CUresult got = cuda_.context_get(&current)) return launch_failed(got);
  if (current == context_) return WARPSMITH_STATUS_SUCCESS;
  if (current == nullptr && first_device_) {
    if (const CUresult set = cuda_.context_set(context_)) return launch_failed(set);
    return WARPSMITH_STATUS_SUCCESS;
  }
  return fail(WARPSMITH_STATUS_WRONG_DEVICE, "call cudaSetDevice with the device that the handle was created on");
}

warpsmith_status_t Context::run_kernel(const PreparedCall& call, CallArguments arguments, CUstream stream) {
  WorkspacePool::Lease lease;
  if (call.kernel.workspace_bytes() > 0) {
    const auto kind = call.kernel.zero_workspace() ? WorkspaceKind::cleared : WorkspaceKind::scratch;
    const auto bytes = static_cast<std::size_t>(call.kernel.workspace_bytes());
    if (const CUresult got = workspaces_->get(stream, kind, bytes, &lease)) {
      return got == CUDA_ERROR_OUT_OF_MEMORY ? run_without_workspace(call, arguments, stream) : launch_failed(got);
    }
    arguments.workspace = lease.address;
  }
  const CUresult launched = call.kernel.run(cuda_, arguments, stream);
  workspaces_->done(lease, stream);
  return launched == CUDA_SUCCESS ? WARPSMITH_STATUS_SUCCESS : launch_failed(launched);
}

warpsmith_status_t Context::run_cublaslt(const PreparedCall& call, CallArguments arguments, CUstream stream) {
  WorkspacePool::Lease lease;
  if (const std::size_t bytes = call.cublaslt->workspace_bytes(); bytes > 0) {
    const CUresult got = workspaces_->get(stream, WorkspaceKind::scratch, bytes, &lease);
    if (got == CUDA_ERROR_OUT_OF_MEMORY) return run_without_workspace(call, arguments, stream);
    if (got != CUDA_SUCCESS) return launch_failed(got);
    arguments.workspace = lease.address;
  }
  const cublasStatus_t run = call.cublaslt->run(arguments, stream);
  workspaces_->done(lease, stream);
  if (run == CUBLAS_STATUS_SUCCESS) return WARPSMITH_STATUS_SUCCESS;
  return fail(WARPSMITH_STATUS_LAUNCH_FAILED, "cublasLtMatmul: status " + std::to_string(static_cast<int>(run)));
}

// The device has no memory for the call's workspace. What can do without runs it this time.
warpsmith_status_t Context::run_without_workspace(const PreparedCall& call, const CallArguments& arguments,
                                                  CUstream stream) {
  const PreparedCall* small = small_calls_->find(call.key, call.hash);
  std::unique_ptr<PreparedCall> fresh;
  if (small == nullptr) {
    const RelaxedCapture relaxed(cuda_);
    fresh = std::make_unique<PreparedCall>();
    fresh->key = call.key;
    fresh->hash = call.hash;
    prepare_without_workspace(*fresh);
    small = fresh.get();
    if (!fresh->provisional) {
      if (const PreparedCall* kept = small_calls_->insert(fresh)) small = kept;
    }
  }
  if (small->kind == PreparedCall::Kind::refused) return launch_failed(CUDA_ERROR_OUT_OF_MEMORY);
  return run_prepared(*small, arguments, stream);
}

warpsmith_status_t Context::run_loop(const PreparedCall& call, CallArguments arguments, CUstream stream) {
  const CallKey& key = call.key;
  for (std::int64_t i = 0; i < key.batch_count; ++i) {
    const warpsmith_status_t status = run_kernel(*call.each, arguments, stream);
    if (status != WARPSMITH_STATUS_SUCCESS) return status;
    arguments.operands[0] = advance(arguments.operands[0], key.stride_a);
    arguments.operands[1] = advance(arguments.operands[1], key.stride_b);
    arguments.operands[2] = advance(arguments.operands[2], key.stride_c);
  }
  return WARPSMITH_STATUS_SUCCESS;
}

warpsmith_status_t Context::run_prepared(const PreparedCall& call, const CallArguments& arguments, CUstream stream) {
  switch (call.kind) {
    case PreparedCall::Kind::kernel:
      return run_kernel(call, arguments, stream);
    case PreparedCall::Kind::cublaslt:
      return run_cublaslt(call, arguments, stream);
    case PreparedCall::Kind::loop:
      return run_loop(call, arguments, stream);
    case PreparedCall::Kind::refused:
      break;
  }
  return fail(call.status, call.reason);
}

const PreparedCall* Context::known(const CallKey& key) const {
  thread_local LastCall last;
  if (last.context == id_ && last.call->key == key) return last.call;
  const PreparedCall* found = calls_->find(key, hash_of(key));
  if (found != nullptr) last = {id_, found};
  return found;
}

warpsmith_status_t Context::run(const CallKey& key, const CallArguments& arguments, CUstream stream) {
  std::unique_ptr<PreparedCall> fresh = prepare(key);
  const PreparedCall* kept = fresh->provisional ? nullptr : calls_->insert(fresh);
  return run_prepared(kept != nullptr ? *kept : *fresh, arguments, stream);  // not kept: for this once
}

warpsmith_status_t Context::scale(const CallKey& key, float beta, void* c, CUstream stream) {
  if (beta == 1) return WARPSMITH_STATUS_SUCCESS;
  for (std::int64_t i = 0; i < key.batch_count; ++i) {
    auto* at = static_cast<std::uint16_t*>(c) + i * key.stride_c;
    if (beta == 0 && (key.ldc == key.n || key.m == 1)) {
      const std::uint64_t bytes = static_cast<std::uint64_t>(key.m) * static_cast<std::uint64_t>(key.n) * kElementBytes;
      const CUresult set = cuda_.memory_set(reinterpret_cast<CUdeviceptr>(at), 0, bytes, stream);
      if (set != CUDA_SUCCESS) return launch_failed(set);
      continue;
    }
    long long ldc = key.ldc, n = key.n, elements = key.m * key.n;
    int bf16 = (key.flags & kCallBf16) != 0 ? 1 : 0;
    std::array<void*, 6> parameters = {&at, &ldc, &n, &elements, &beta, &bf16};
    CUlaunchConfig config{};
    const std::int64_t blocks = (elements + kScaleThreads - 1) / kScaleThreads;
    config.gridDimX = static_cast<unsigned>(std::min<std::int64_t>(blocks, machine_.units * kScaleBlocksPerUnit));
    config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = kScaleThreads;
    config.blockDimY = config.blockDimZ = 1;
    config.hStream = stream;
    if (const CUresult launched = cuda_.launch(&config, scale_, parameters.data(), nullptr)) {
      return launch_failed(launched);
    }
  }
  return WARPSMITH_STATUS_SUCCESS;
}

}  // namespace warpsmith::library
