// Half-precision matrix multiplication on NVIDIA GPUs: C++ over the C interface, with owners that free what they hold
// and exceptions in place of statuses. hgemm.h says what each call does. C++11.
#ifndef WARPSMITH_HGEMM_HPP_
#define WARPSMITH_HGEMM_HPP_

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "warpsmith/hgemm.h"

namespace warpsmith {

/// What the wrapper throws for a status other than SUCCESS; what() is warpsmith_last_error()'s text.
class StatusError : public std::runtime_error {
 public:
  explicit StatusError(warpsmith_status_t status) : StatusError(status, warpsmith_last_error()) {}
  warpsmith_status_t status() const noexcept { return status_; }

 private:
  StatusError(warpsmith_status_t status, const char* detail)
      : std::runtime_error(*detail != '\0' ? detail : warpsmith_status_string(status)), status_(status) {}
  warpsmith_status_t status_;
};

/// Throws StatusError unless the status is SUCCESS.
inline void check(warpsmith_status_t status) {
  if (status != WARPSMITH_STATUS_SUCCESS) throw StatusError(status);
}

/// A matrix operand: device pointer, how it is stored, and its row stride in elements (0: packed).
struct Matrix {
  const void* data;
  warpsmith_op_t op;
  std::int64_t ld;

  explicit Matrix(const void* pointer, warpsmith_op_t stored = WARPSMITH_OP_N, std::int64_t row_stride = 0)
      : data(pointer), op(stored), ld(row_stride) {}
};

/// A handle of the current device; movable, freed with the object (which waits for the device).
class Handle {
 public:
  /// Throws StatusError: NO_DEVICE, OUT_OF_MEMORY.
  Handle() { check(warpsmith_create(&handle_)); }
  explicit Handle(const warpsmith_options_t& options) { check(warpsmith_create_with_options(&handle_, &options)); }
  Handle(Handle&& other) noexcept : handle_(other.handle_) { other.handle_ = nullptr; }
  Handle& operator=(Handle&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (handle_ != nullptr) warpsmith_destroy(handle_);
  }

  warpsmith_handle_t get() const noexcept { return handle_; }

  /// C[m,n] = alpha * op(A)[m,k] * op(B)[k,n] + beta * C, row-major; throws what warpsmith_gemm returns.
  void gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix& a, const Matrix& b, void* c,
            cudaStream_t stream = nullptr, float alpha = 1, float beta = 0, warpsmith_type_t type = WARPSMITH_F16,
            std::int64_t ldc = 0, warpsmith_compute_t compute = WARPSMITH_COMPUTE_32F) const {
    check(warpsmith_gemm(handle_, a.op, b.op, m, n, k, alpha, a.data, row_stride(a.ld, a.op == WARPSMITH_OP_N ? k : m),
                         b.data, row_stride(b.ld, b.op == WARPSMITH_OP_N ? n : k), beta, c, row_stride(ldc, n), type,
                         compute, stream));
  }

  /// warpsmith_explain's JSON.
  std::string explain(const warpsmith_problem_t& problem) const {
    std::string text(8192, '\0');
    check(warpsmith_explain(handle_, &problem, &text[0], text.size()));
    text.resize(text.find('\0'));
    return text;
  }

 private:
  static std::int64_t row_stride(std::int64_t ld, std::int64_t columns) {
    return ld != 0 ? ld : columns > 0 ? columns : 1;
  }
  warpsmith_handle_t handle_ = nullptr;
};

/// A resolved problem; movable. Must not outlive its handle.
class Plan {
 public:
  /// Throws what warpsmith_plan_create returns.
  Plan(const Handle& handle, const warpsmith_problem_t& problem) {
    check(warpsmith_plan_create(handle.get(), &problem, &plan_));
  }
  Plan(Plan&& other) noexcept : plan_(other.plan_) { other.plan_ = nullptr; }
  Plan& operator=(Plan&& other) noexcept {
    std::swap(plan_, other.plan_);
    return *this;
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() {
    if (plan_ != nullptr) warpsmith_plan_destroy(plan_);
  }

  /// Throws what warpsmith_plan_run returns.
  void run(const void* a, const void* b, void* c, cudaStream_t stream = nullptr, float alpha = 1,
           float beta = 0) const {
    check(warpsmith_plan_run(plan_, alpha, a, b, beta, c, stream));
  }

 private:
  warpsmith_plan_t plan_ = nullptr;
};

}  // namespace warpsmith

#endif  // WARPSMITH_HGEMM_HPP_
