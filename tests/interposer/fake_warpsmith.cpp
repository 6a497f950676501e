// The functions of libwarpsmith that the interposer calls, on host memory. Products with k = 13 are cuBLAS's choice;
// with k = 15 a plan is made but its run fails; with k = 19 there is no memory for the first plan. Handles and plans
// are of the device of the thread that made them.
#include <cuda.h>
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstring>

#include "host_product.h"
#include "warpsmith/hgemm.h"

using namespace warpsmith;

struct warpsmith_context {
  int device;
};
struct warpsmith_plan {
  warpsmith_problem_t problem;
  int device;
};

namespace {

int current_device() {
  static const auto get = reinterpret_cast<decltype(&cuCtxGetDevice)>(
      dlsym(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL), "cuCtxGetDevice"));
  CUdevice device = -1;
  get(&device);
  return device;
}

}  // namespace

extern "C" {

warpsmith_status_t warpsmith_create_with_options(warpsmith_handle_t* handle, const warpsmith_options_t* options) {
  if (options->fallback != WARPSMITH_FALLBACK_NONE) return WARPSMITH_STATUS_INVALID_VALUE;
  *handle = new warpsmith_context{current_device()};
  std::fputs("one more handle\n", stderr);
  if (options->sharing == WARPSMITH_SHARING_ANY) std::fputs("for any company\n", stderr);
  return WARPSMITH_STATUS_SUCCESS;
}

warpsmith_status_t warpsmith_plan_create(warpsmith_handle_t handle, const warpsmith_problem_t* problem,
                                         warpsmith_plan_t* plan) {
  *plan = nullptr;
  if (handle->device != current_device()) return WARPSMITH_STATUS_WRONG_DEVICE;
  if (problem->k == 13) return WARPSMITH_STATUS_NOT_COVERED;
  static std::atomic<bool> short_of_memory{true};
  if (problem->k == 19 && short_of_memory.exchange(false)) return WARPSMITH_STATUS_OUT_OF_MEMORY;
  *plan = new warpsmith_plan{*problem, handle->device};
  std::fputs("one more plan\n", stderr);
  return WARPSMITH_STATUS_SUCCESS;
}

warpsmith_status_t warpsmith_plan_run(warpsmith_plan_t plan, float alpha, const void* a, const void* b, float beta,
                                      void* c, cudaStream_t) {
  const warpsmith_problem_t& p = plan->problem;
  if (plan->device != current_device()) return WARPSMITH_STATUS_WRONG_DEVICE;
  if (p.k == 15) return WARPSMITH_STATUS_LAUNCH_FAILED;
  const HostProduct product{p.m, p.n, p.k, p.type == WARPSMITH_BF16, alpha, beta};
  for (std::int64_t i = 0; i < p.batch_count; ++i) {
    host_multiply(product, row_major(shifted(a, i * p.stride_a), p.lda, p.op_a == WARPSMITH_OP_T),
                  row_major(shifted(b, i * p.stride_b), p.ldb, p.op_b == WARPSMITH_OP_T),
                  row_major(shifted(c, i * p.stride_c), p.ldc, false));
  }
  return WARPSMITH_STATUS_SUCCESS;
}

warpsmith_status_t warpsmith_explain(warpsmith_handle_t, const warpsmith_problem_t*, char* buf, std::size_t size) {
  std::snprintf(buf, size, "{\"kernel\": \"fake\"}");
  return WARPSMITH_STATUS_SUCCESS;
}

const char* warpsmith_status_string(warpsmith_status_t status) {
  return status == WARPSMITH_STATUS_LAUNCH_FAILED ? "launch failed" : "some status";
}

}  // extern "C"
