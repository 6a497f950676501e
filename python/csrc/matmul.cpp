// torch.ops.warpsmith.matmul: half-precision products of CUDA tensors on libwarpsmith. Any strides: matrices whose rows
// or columns are contiguous are passed on as they are, others are copied. Needs no CUDA header and no nvcc.
// explain: what runs such a product, as warpsmith_explain tells; version: the library's.
#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "warpsmith/hgemm.h"

namespace {

void check_status(warpsmith_status_t status) {
  TORCH_CHECK(status == WARPSMITH_STATUS_SUCCESS, "warpsmith: ", warpsmith_status_string(status), "; ",
              warpsmith_last_error());
}

warpsmith_options_t options() {
  warpsmith_options_t options{};
  const char* sharing = std::getenv("WARPSMITH_SHARING");
  if (sharing != nullptr && std::string_view(sharing) == "any") options.sharing = WARPSMITH_SHARING_ANY;
  return options;
}

// One handle a device, made at its first product and kept: products may come until the process ends.
warpsmith_handle_t handle_of(c10::DeviceIndex device) {
  static std::mutex mutex;
  static std::array<warpsmith_handle_t, 128> handles{};
  const std::lock_guard<std::mutex> lock(mutex);
  warpsmith_handle_t& handle = handles.at(static_cast<std::size_t>(std::max<int>(device, 0)));
  if (handle == nullptr) {
    const warpsmith_options_t chosen = options();
    check_status(warpsmith_create_with_options(&handle, &chosen));
  }
  return handle;
}

// Matrices at a fixed distance from one another, each row-major as stored or, with op T, row-major as its transpose.
struct Stored {
  at::Tensor tensor;  // keeps the memory
  warpsmith_op_t op = WARPSMITH_OP_N;
  std::int64_t ld = 0;
  std::int64_t stride = 0;
};

// Elements from one matrix to the next where the batch dimensions, all but the last two, are evenly spaced.
std::optional<std::int64_t> batch_stride(const at::Tensor& tensor) {
  std::int64_t stride = 0, next = 0;
  bool first = true;
  for (std::int64_t i = tensor.dim() - 3; i >= 0; --i) {
    if (tensor.size(i) == 1) continue;
    if (first) {
      stride = tensor.stride(i);
    } else if (tensor.stride(i) != next) {
      return std::nullopt;
    }
    first = false;
    next = tensor.stride(i) * tensor.size(i);
  }
  return stride;
}

// Steps from row to row where columns are neighbours, as they are where there is one of either.
std::optional<std::int64_t> leading_dimension(std::int64_t rows, std::int64_t columns, std::int64_t row_step,
                                              std::int64_t column_step) {
  if (columns > 1 && column_step != 1) return std::nullopt;
  if (rows <= 1) return columns;
  return row_step >= columns ? std::optional(row_step) : std::nullopt;
}

Stored store(const at::Tensor& tensor) {
  const auto stride = batch_stride(tensor);
  const std::int64_t rows = tensor.size(-2), columns = tensor.size(-1);
  if (stride && *stride >= 0) {
    if (const auto ld = leading_dimension(rows, columns, tensor.stride(-2), tensor.stride(-1))) {
      return {tensor, WARPSMITH_OP_N, *ld, *stride};
    }
    if (const auto ld = leading_dimension(columns, rows, tensor.stride(-1), tensor.stride(-2))) {
      return {tensor, WARPSMITH_OP_T, *ld, *stride};
    }
  }
  return {tensor.contiguous(), WARPSMITH_OP_N, columns, rows * columns};
}

// All rows of a as one matrix, where they are evenly spaced.
std::optional<at::Tensor> fold_rows(const at::Tensor& a) {
  const std::int64_t columns = a.size(-1);
  const std::vector<std::int64_t> shape = {columns == 0 ? 0 : a.numel() / columns, columns};
  const auto strides = at::detail::computeStride(a.sizes(), a.strides(), shape);
  if (!strides) return std::nullopt;
  return a.as_strided(shape, *strides, a.storage_offset());
}

void check_operands(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.scalar_type() == at::kHalf || a.scalar_type() == at::kBFloat16,
              "warpsmith::matmul: expected float16 or bfloat16, got ", a.scalar_type());
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "warpsmith::matmul: operands differ in type: ", a.scalar_type(),
              " and ", b.scalar_type());
  TORCH_CHECK(a.device() == b.device(), "warpsmith::matmul: operands are on ", a.device(), " and ", b.device());
  TORCH_CHECK(a.dim() >= 2 && b.dim() >= 2, "warpsmith::matmul: expected matrices or batches of them, got ", a.dim(),
              " and ", b.dim(), " dimensions");
  TORCH_CHECK(a.size(-1) == b.size(-2), "warpsmith::matmul: sizes ", a.sizes(), " and ", b.sizes(), " do not fit");
}

cudaStream_t stream_of(c10::Device device) {
  if (!device.is_cuda()) return nullptr;
  const c10::impl::VirtualGuardImpl guard(device.type());
  return static_cast<cudaStream_t>(guard.getStream(device).native_handle());
}

warpsmith_type_t type_of(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kHalf ? WARPSMITH_F16 : WARPSMITH_BF16;
}

// A product with elements and terms, as libwarpsmith is asked for it.
struct Product {
  Stored a, b;
  std::int64_t m = 0, n = 0, k = 0, batches = 1;
};

std::vector<std::int64_t> batch_sizes(const at::Tensor& a, const at::Tensor& b) {
  return at::infer_size(a.sizes().slice(0, static_cast<std::size_t>(a.dim() - 2)),
                        b.sizes().slice(0, static_cast<std::size_t>(b.dim() - 2)));
}

Product product_of(const at::Tensor& a, const at::Tensor& b) {
  const std::int64_t m = a.size(-2), n = b.size(-1), k = a.size(-1);
  if (b.dim() == 2) {
    if (const auto rows = a.dim() == 2 ? std::optional(a) : fold_rows(a)) {
      return {store(*rows), store(b), rows->size(0), n, k, 1};
    }
  }
  const std::vector<std::int64_t> batch = batch_sizes(a, b);
  std::vector<std::int64_t> a_shape = batch, b_shape = batch;
  a_shape.insert(a_shape.end(), {m, k});
  b_shape.insert(b_shape.end(), {k, n});
  std::int64_t batches = 1;
  for (const std::int64_t size : batch) batches *= size;
  return {store(a.expand(a_shape)), store(b.expand(b_shape)), m, n, k, batches};
}

void multiply(const Product& product, at::Tensor& c) {
  const auto& [a, b, m, n, k, batches] = product;
  const warpsmith_type_t type = type_of(c);
  const warpsmith_handle_t handle = handle_of(c.device().index());
  const cudaStream_t stream = stream_of(c.device());
  if (batches == 1) {
    return check_status(warpsmith_gemm(handle, a.op, b.op, m, n, k, 1, a.tensor.data_ptr(), a.ld, b.tensor.data_ptr(),
                                       b.ld, 0, c.data_ptr(), n, type, WARPSMITH_COMPUTE_32F, stream));
  }
  check_status(warpsmith_gemm_strided_batched(handle, a.op, b.op, m, n, k, 1, a.tensor.data_ptr(), a.ld, a.stride,
                                              b.tensor.data_ptr(), b.ld, b.stride, 0, c.data_ptr(), n, m * n, batches,
                                              type, WARPSMITH_COMPUTE_32F, stream));
}

// The kernel: a [..., m, k] times b [..., k, n], batch dimensions broadcast, contiguous result.
at::Tensor matmul(const at::Tensor& a_given, const at::Tensor& b_given) {
  check_operands(a_given, b_given);
  const c10::DeviceGuard guard(a_given.device());
  const at::Tensor a = a_given.resolve_neg(), b = b_given.resolve_neg();
  const std::int64_t m = a.size(-2), n = b.size(-1), k = a.size(-1);
  std::vector<std::int64_t> shape = batch_sizes(a, b);
  shape.insert(shape.end(), {m, n});
  at::Tensor c = at::empty(shape, a.options());
  if (c.numel() == 0) return c;
  if (k == 0) return c.zero_();
  multiply(product_of(a, b), c);
  return c;
}

// The JSON of warpsmith_explain, which takes operands for aligned, and whether these are.
std::tuple<std::string, bool> explain(const at::Tensor& a, const at::Tensor& b) {
  check_operands(a, b);
  const c10::DeviceGuard guard(a.device());
  warpsmith_problem_t problem{};
  problem.type = type_of(a);
  bool aligned = true;
  std::int64_t elements = a.size(-2) * b.size(-1);
  for (const std::int64_t size : batch_sizes(a, b)) elements *= size;
  if (elements > 0 && a.size(-1) > 0) {
    const Product product = product_of(a, b);
    problem.op_a = product.a.op;
    problem.op_b = product.b.op;
    problem.m = product.m;
    problem.n = product.n;
    problem.k = product.k;
    problem.lda = product.a.ld;
    problem.ldb = product.b.ld;
    problem.batch_count = product.batches;
    problem.stride_a = product.a.stride;
    problem.stride_b = product.b.stride;
    problem.stride_c = product.m * product.n;
    for (const at::Tensor& operand : {product.a.tensor, product.b.tensor}) {
      aligned = aligned && reinterpret_cast<std::uintptr_t>(operand.data_ptr()) % 16 == 0;
    }
  } else if (elements > 0) {
    problem.m = a.size(-2);
    problem.n = b.size(-1);
  }
  std::string text(8192, '\0');
  check_status(warpsmith_explain(handle_of(a.device().index()), &problem, text.data(), text.size()));
  text.resize(text.find('\0'));
  return {text, aligned};
}

std::string version() { return warpsmith_version_string(); }

at::Tensor dispatch(const at::Tensor& a, const at::Tensor& b) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("warpsmith::matmul", "")
                             .typed<at::Tensor(const at::Tensor&, const at::Tensor&)>();
  return op.call(a, b);
}

// Gradients are products of the same kind, so that they can be differentiated and compiled themselves.
class Matmul : public torch::autograd::Function<Matmul> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& a, const at::Tensor& b) {
    context->save_for_backward({a, b});
    const at::AutoDispatchBelowADInplaceOrView below;
    return dispatch(a, b);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &a = saved[0], &b = saved[1], &c = gradients[0];
    at::Tensor for_a, for_b;
    if (context->needs_input_grad(0)) {
      for_a = at::sum_to(dispatch(c, b.transpose(-2, -1)), a.sym_sizes());
    }
    if (context->needs_input_grad(1)) {
      // One product over all rows where b is a single matrix.
      const bool fold = b.dim() == 2 && a.dim() > 2;
      const at::Tensor left = fold ? a.reshape_symint({-1, a.sym_size(-1)}) : a;
      const at::Tensor right = fold ? c.reshape_symint({-1, c.sym_size(-1)}) : c;
      for_b = at::sum_to(dispatch(left.transpose(-2, -1), right), b.sym_sizes());
    }
    return {for_a, for_b};
  }
};

at::Tensor matmul_autograd(const at::Tensor& a, const at::Tensor& b) { return Matmul::apply(a, b); }

}  // namespace

TORCH_LIBRARY(warpsmith, library) {
  library.def("matmul(Tensor a, Tensor b) -> Tensor", {at::Tag::pt2_compliant_tag});
  library.def("explain(Tensor a, Tensor b) -> (str, bool)");
  library.def("version() -> str", version);
}
TORCH_LIBRARY_IMPL(warpsmith, CUDA, library) {
  library.impl("matmul", matmul);
  library.impl("explain", explain);
}
TORCH_LIBRARY_IMPL(warpsmith, Autograd, library) { library.impl("matmul", matmul_autograd); }
#ifdef WARPSMITH_TORCH_HOST  // against a stand-in for libwarpsmith that computes on the host
TORCH_LIBRARY_IMPL(warpsmith, CPU, library) {
  library.impl("matmul", matmul);
  library.impl("explain", explain);
}
#endif
