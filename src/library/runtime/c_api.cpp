// The C interface: arguments are checked, turned into a key, and handed on. Exceptions end here.
#include <algorithm>
#include <cstring>
#include <exception>
#include <new>

#include "library/call.h"
#include "library/runtime/context.h"
#include "library/runtime/errors.h"
#include "warpsmith/hgemm.h"

struct warpsmith_context {
  std::unique_ptr<warpsmith::library::Context> context;
};

struct warpsmith_plan {
  warpsmith_handle_t handle = nullptr;
  warpsmith::library::CallKey key;  // without kCallScaled and kCallAligned
  // For aligned operands: plain, scaled. Null where the problem needs no kernel.
  const warpsmith::library::PreparedCall* plain = nullptr;
  const warpsmith::library::PreparedCall* scaled = nullptr;
  std::unique_ptr<warpsmith::library::PreparedCall> own_plain, own_scaled;  // where the handle does not keep them
};

namespace {

using namespace warpsmith::library;

constexpr std::int32_t kMostStreams = 1024;

warpsmith_status_t refuse(const Refusal& refusal) { return fail(refusal.status, refusal.reason); }

// Runs `work`, with whatever it throws as a status.
template <class Work>
warpsmith_status_t guarded(Work&& work) noexcept {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return fail(WARPSMITH_STATUS_OUT_OF_MEMORY, "host memory");
  } catch (const std::exception& error) {
    return fail(WARPSMITH_STATUS_INTERNAL_ERROR, error.what());
  } catch (...) {
    return fail(WARPSMITH_STATUS_INTERNAL_ERROR, "an unknown exception");
  }
}

warpsmith_status_t check_options(const warpsmith_options_t& options) {
  const auto known = [](unsigned value) { return value <= 1; };
  if (!known(options.mode) || !known(options.fallback) || !known(options.compile) || !known(options.launch) ||
      !known(options.sharing)) {
    return fail(WARPSMITH_STATUS_INVALID_VALUE,
                "mode, fallback, compile, launch or sharing is none of its enumerators");
  }
  if (options.streams < 0 || options.streams > kMostStreams) {
    return fail(WARPSMITH_STATUS_INVALID_VALUE, "streams must be 0 to 1024");
  }
  if (options.reserved_word != 0) {
    return fail(WARPSMITH_STATUS_INVALID_VALUE, "a reserved field of the options is not zero");
  }
  for (const std::int64_t field : options.reserved) {
    if (field != 0) return fail(WARPSMITH_STATUS_INVALID_VALUE, "a reserved field of the options is not zero");
  }
  return WARPSMITH_STATUS_SUCCESS;
}

bool aligned(const void* a, const void* b, const void* c) {
  return ((reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(b) |
           reinterpret_cast<std::uintptr_t>(c)) &
          (kOperandAlign - 1)) == 0;
}

// Of a call whose sizes are valid: what there is to do without a product. True: `status` is the answer.
bool without_product(Context& context, const CallKey& key, float alpha, const void* a, const void* b, float beta,
                     void* c, cudaStream_t stream, warpsmith_status_t& status) {
  status = WARPSMITH_STATUS_SUCCESS;
  if (key.m == 0 || key.n == 0 || key.batch_count == 0) return true;
  const bool reads = key.k > 0 && alpha != 0;
  if (const auto refusal = check_pointers(a, b, c, reads)) {
    status = refuse(*refusal);
    return true;
  }
  if (reads) return false;
  status = context.check_device();
  if (status == WARPSMITH_STATUS_SUCCESS) status = context.scale(key, beta, c, stream);
  return true;
}

std::uint32_t call_flags(const CallKey& key, float alpha, const void* a, const void* b, float beta, const void* c) {
  std::uint32_t flags = alpha == 1 && beta == 0 ? 0U : kCallScaled;
  if (aligned(a, b, c) && (key.batch_count == 1 || strides_keep_alignment(key))) flags |= kCallAligned;
  return flags;
}

// `key` has everything but the flags that follow from pointers and scalars. A key that is known was valid once.
warpsmith_status_t gemm(warpsmith_handle_t handle, CallKey& key, float alpha, const void* a, const void* b, float beta,
                        void* c, cudaStream_t stream) {
  Context& context = *handle->context;
  const CallArguments arguments = {{a, b, c}, alpha, beta, nullptr};
  CallKey full = key;
  full.flags |= call_flags(key, alpha, a, b, beta, c);
  if (alpha != 0 && !check_pointers(a, b, c, true)) {
    if (const PreparedCall* known = context.known(full)) {
      const warpsmith_status_t status = context.check_device();
      return status == WARPSMITH_STATUS_SUCCESS ? context.run_prepared(*known, arguments, stream) : status;
    }
  }
  if (const auto refusal = check_sizes(key)) return refuse(*refusal);
  warpsmith_status_t status;
  if (without_product(context, key, alpha, a, b, beta, c, stream, status)) return status;
  status = context.check_device();
  return status == WARPSMITH_STATUS_SUCCESS ? context.run(full, arguments, stream) : status;
}

// What every call says of its product; batches add theirs.
CallKey product_key(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t lda, std::int64_t ldb,
                    std::int64_t ldc, std::uint32_t flags) {
  CallKey key;
  key.m = m;
  key.n = n;
  key.k = k;
  key.lda = lda;
  key.ldb = ldb;
  key.ldc = ldc;
  key.flags = flags;
  return key;
}

warpsmith_status_t unknown_enumerator() {
  return fail(WARPSMITH_STATUS_INVALID_VALUE, "op_a, op_b, type or compute is none of its enumerators");
}

warpsmith_status_t null_handle() { return fail(WARPSMITH_STATUS_NOT_INITIALIZED, "the handle is null"); }

}  // namespace

extern "C" {

warpsmith_status_t warpsmith_create(warpsmith_handle_t* handle) {
  return warpsmith_create_with_options(handle, nullptr);
}

warpsmith_status_t warpsmith_create_with_options(warpsmith_handle_t* handle, const warpsmith_options_t* options) {
  return guarded([&]() -> warpsmith_status_t {
    if (handle == nullptr) return fail(WARPSMITH_STATUS_INVALID_VALUE, "the pointer to the handle is null");
    *handle = nullptr;
    const warpsmith_options_t chosen = options == nullptr ? warpsmith_options_t{} : *options;
    warpsmith_status_t status = check_options(chosen);
    if (status != WARPSMITH_STATUS_SUCCESS) return status;
    auto context = Context::create(chosen, status);
    if (!context) return fail(status, context.error().message);
    *handle = new warpsmith_context{std::move(*context)};
    return WARPSMITH_STATUS_SUCCESS;
  });
}

warpsmith_status_t warpsmith_destroy(warpsmith_handle_t handle) {
  if (handle == nullptr) return null_handle();
  return guarded([&] {
    delete handle;
    return WARPSMITH_STATUS_SUCCESS;
  });
}

warpsmith_status_t warpsmith_gemm(warpsmith_handle_t handle, warpsmith_op_t op_a, warpsmith_op_t op_b, int64_t m,
                                  int64_t n, int64_t k, float alpha, const void* a, int64_t lda, const void* b,
                                  int64_t ldb, float beta, void* c, int64_t ldc, warpsmith_type_t type,
                                  warpsmith_compute_t compute, cudaStream_t stream) {
  if (handle == nullptr) return null_handle();
  if (!known_enumerators(op_a, op_b, type, compute)) return unknown_enumerator();
  return guarded([&] {
    CallKey key = product_key(m, n, k, lda, ldb, ldc, enumerator_flags(op_a, op_b, type, compute));
    return gemm(handle, key, alpha, a, b, beta, c, stream);
  });
}

warpsmith_status_t warpsmith_gemm_strided_batched(warpsmith_handle_t handle, warpsmith_op_t op_a, warpsmith_op_t op_b,
                                                  int64_t m, int64_t n, int64_t k, float alpha, const void* a,
                                                  int64_t lda, int64_t stride_a, const void* b, int64_t ldb,
                                                  int64_t stride_b, float beta, void* c, int64_t ldc, int64_t stride_c,
                                                  int64_t batch_count, warpsmith_type_t type,
                                                  warpsmith_compute_t compute, cudaStream_t stream) {
  if (handle == nullptr) return null_handle();
  if (!known_enumerators(op_a, op_b, type, compute)) return unknown_enumerator();
  return guarded([&] {
    CallKey key = product_key(m, n, k, lda, ldb, ldc, enumerator_flags(op_a, op_b, type, compute));
    key.batch_count = batch_count;
    if (batch_count > 1) {
      key.stride_a = stride_a;
      key.stride_b = stride_b;
      key.stride_c = stride_c;
    }
    return gemm(handle, key, alpha, a, b, beta, c, stream);
  });
}

warpsmith_status_t warpsmith_plan_create(warpsmith_handle_t handle, const warpsmith_problem_t* problem,
                                         warpsmith_plan_t* plan) {
  if (handle == nullptr) return null_handle();
  return guarded([&]() -> warpsmith_status_t {
    if (plan != nullptr) *plan = nullptr;
    if (problem == nullptr || plan == nullptr) return fail(WARPSMITH_STATUS_INVALID_VALUE, "problem or plan is null");
    auto made = std::make_unique<warpsmith_plan>();
    made->handle = handle;
    if (const auto refusal = key_of(*problem, made->key)) return refuse(*refusal);
    Context& context = *handle->context;
    warpsmith_status_t status = context.check_device();
    if (status != WARPSMITH_STATUS_SUCCESS) return status;
    if (made->key.m > 0 && made->key.n > 0 && made->key.k > 0) {
      const std::uint32_t alignment =
          made->key.batch_count == 1 || strides_keep_alignment(made->key) ? kCallAligned : 0U;
      CallKey key = made->key;
      key.flags |= alignment;
      made->plain = context.prepared(key, made->own_plain);
      key.flags |= kCallScaled;
      made->scaled = context.prepared(key, made->own_scaled);
      // Where only one of the two can run, running the other one says so.
      const auto refused = [](const PreparedCall& call) { return call.kind == PreparedCall::Kind::refused; };
      if (refused(*made->plain) && refused(*made->scaled)) return fail(made->plain->status, made->plain->reason);
    }
    *plan = made.release();
    return WARPSMITH_STATUS_SUCCESS;
  });
}

warpsmith_status_t warpsmith_plan_run(warpsmith_plan_t plan, float alpha, const void* a, const void* b, float beta,
                                      void* c, cudaStream_t stream) {
  if (plan == nullptr) return fail(WARPSMITH_STATUS_NOT_INITIALIZED, "the plan is null");
  return guarded([&] {
    Context& context = *plan->handle->context;
    warpsmith_status_t status;
    if (without_product(context, plan->key, alpha, a, b, beta, c, stream, status)) return status;
    status = context.check_device();
    if (status != WARPSMITH_STATUS_SUCCESS) return status;
    const std::uint32_t flags = call_flags(plan->key, alpha, a, b, beta, c);
    const CallArguments arguments = {{a, b, c}, alpha, beta, nullptr};
    const PreparedCall* call = (flags & kCallScaled) != 0 ? plan->scaled : plan->plain;
    if (!call->provisional && ((call->key.flags & kCallAligned) == 0 || (flags & kCallAligned) != 0)) {
      return context.run_prepared(*call, arguments, stream);
    }
    CallKey key = plan->key;  // operands that are less aligned than the plan foresaw, or there may be memory now
    key.flags |= flags;
    const PreparedCall* known = context.known(key);
    return known != nullptr ? context.run_prepared(*known, arguments, stream) : context.run(key, arguments, stream);
  });
}

warpsmith_status_t warpsmith_plan_destroy(warpsmith_plan_t plan) {
  if (plan == nullptr) return fail(WARPSMITH_STATUS_NOT_INITIALIZED, "the plan is null");
  delete plan;
  return WARPSMITH_STATUS_SUCCESS;
}

warpsmith_status_t warpsmith_explain(warpsmith_handle_t handle, const warpsmith_problem_t* problem, char* buf,
                                     size_t size) {
  if (handle == nullptr) return null_handle();
  return guarded([&]() -> warpsmith_status_t {
    if (problem == nullptr || buf == nullptr) return fail(WARPSMITH_STATUS_INVALID_VALUE, "problem or buf is null");
    CallKey key;
    if (const auto refusal = key_of(*problem, key)) return refuse(*refusal);
    const warpsmith_status_t status = handle->context->check_device();
    if (status != WARPSMITH_STATUS_SUCCESS) return status;
    const std::string text = handle->context->explain(key).dump(1, ' ', true);
    if (size > 0) {
      const std::size_t kept = std::min(text.size(), size - 1);
      std::memcpy(buf, text.data(), kept);
      buf[kept] = '\0';
    }
    if (text.size() >= size) return fail(WARPSMITH_STATUS_BUFFER_TOO_SMALL, std::to_string(text.size() + 1) + " bytes");
    return WARPSMITH_STATUS_SUCCESS;
  });
}

const char* warpsmith_status_string(warpsmith_status_t status) { return phrase_of(status); }

const char* warpsmith_last_error(void) { return last_error(); }

int warpsmith_version(void) { return WARPSMITH_VERSION; }

#define WARPSMITH_TEXT_OF(x) #x
#define WARPSMITH_TEXT(x) WARPSMITH_TEXT_OF(x)
const char* warpsmith_version_string(void) {
  return WARPSMITH_TEXT(WARPSMITH_VERSION_MAJOR) "." WARPSMITH_TEXT(WARPSMITH_VERSION_MINOR) "." WARPSMITH_TEXT(
      WARPSMITH_VERSION_PATCH);
}

}  // extern "C"
