/* Half-precision matrix multiplication on NVIDIA GPUs: the C interface of libwarpsmith.
 *
 *   C[m,n] = alpha * op(A)[m,k] * op(B)[k,n] + beta * C[m,n]
 *
 * A, B and C are FP16 or BF16, row-major, in device memory; sums are taken in FP32; alpha and beta are host floats.
 * All functions return a status and never throw, exit or abort. Calls only queue work on the given stream; errors of
 * the kernels themselves surface where CUDA reports asynchronous errors. The header needs no CUDA header: cudaStream_t
 * is declared here as CUDA declares it. It compiles as C11 and as C++. */
#ifndef WARPSMITH_HGEMM_H_
#define WARPSMITH_HGEMM_H_

#include <stddef.h>
#include <stdint.h>

#define WARPSMITH_VERSION_MAJOR 0
#define WARPSMITH_VERSION_MINOR 1
#define WARPSMITH_VERSION_PATCH 0
/** Version of this header as one number: 10000 * major + 100 * minor + patch. */
#define WARPSMITH_VERSION (10000 * WARPSMITH_VERSION_MAJOR + 100 * WARPSMITH_VERSION_MINOR + WARPSMITH_VERSION_PATCH)

#if defined(__GNUC__)
#define WARPSMITH_API __attribute__((visibility("default")))
#else
#define WARPSMITH_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** CUDA's stream handle, as the CUDA runtime declares it (a CUstream of the driver API is the same type). */
typedef struct CUstream_st* cudaStream_t;

/** A library context, bound to one device. Thread-safe: any number of threads and streams may use one at once. */
typedef struct warpsmith_context* warpsmith_handle_t;

/** A resolved problem: which kernel runs and how it is launched. Thread-safe. */
typedef struct warpsmith_plan* warpsmith_plan_t;

/** What became of a call. Values never change their meaning; new ones may be added. */
typedef enum warpsmith_status {
  WARPSMITH_STATUS_SUCCESS = 0,          /**< the work is queued, or there was none */
  WARPSMITH_STATUS_NOT_INITIALIZED = 1,  /**< the handle or plan is null */
  WARPSMITH_STATUS_INVALID_VALUE = 2,    /**< an argument is out of its range; nothing was launched */
  WARPSMITH_STATUS_NOT_SUPPORTED = 3,    /**< valid, but neither a kernel nor cuBLASLt takes it; nothing was launched */
  WARPSMITH_STATUS_NOT_COVERED = 4,      /**< only with WARPSMITH_FALLBACK_NONE: cuBLASLt would have run this call */
  WARPSMITH_STATUS_WRONG_DEVICE = 5,     /**< the calling thread's current device is not the handle's */
  WARPSMITH_STATUS_NO_DEVICE = 6,        /**< no CUDA driver or no usable GPU */
  WARPSMITH_STATUS_OUT_OF_MEMORY = 7,    /**< host or device memory for the library's own use ran out */
  WARPSMITH_STATUS_LAUNCH_FAILED = 8,    /**< CUDA or cuBLASLt refused the launch */
  WARPSMITH_STATUS_BUFFER_TOO_SMALL = 9, /**< the text did not fit; what fits was written */
  WARPSMITH_STATUS_INTERNAL_ERROR = 10,  /**< a fault of the library or its installation */
  WARPSMITH_STATUS_MAX_VALUE = 0x7fffffff /**< not a status: makes the enumeration as wide as int */
} warpsmith_status_t;

/** How an operand is stored: A is m x k (N) or k x m (T), B is k x n (N) or n x k (T), row-major. */
typedef enum warpsmith_op {
  WARPSMITH_OP_N = 0,
  WARPSMITH_OP_T = 1,
  WARPSMITH_OP_MAX_VALUE = 0x7fffffff
} warpsmith_op_t;

/** Element type of A, B and C. */
typedef enum warpsmith_type {
  WARPSMITH_F16 = 0,  /**< IEEE half precision */
  WARPSMITH_BF16 = 1, /**< bfloat16 */
  WARPSMITH_TYPE_MAX_VALUE = 0x7fffffff
} warpsmith_type_t;

/** Arithmetic of the sums. */
typedef enum warpsmith_compute {
  WARPSMITH_COMPUTE_32F = 0, /**< products exact, sums in FP32, one rounding at the end: the default and the promise */
  WARPSMITH_COMPUTE_16F = 1, /**< allows sums in FP16, which are less exact; FP16 elements only */
  WARPSMITH_COMPUTE_MAX_VALUE = 0x7fffffff
} warpsmith_compute_t;

/** Which measurements decide between kernels. */
typedef enum warpsmith_mode {
  WARPSMITH_MODE_OFFLINE = 0, /**< a stream of kernels, one behind the other; the default */
  WARPSMITH_MODE_SERVER = 1,  /**< single calls after idle time */
  WARPSMITH_MODE_MAX_VALUE = 0x7fffffff
} warpsmith_mode_t;

/** What runs a call for which no kernel of the library is the best choice. */
typedef enum warpsmith_fallback {
  WARPSMITH_FALLBACK_CUBLASLT = 0, /**< cuBLASLt, loaded when it is first needed; the default */
  WARPSMITH_FALLBACK_NONE = 1,     /**< nothing: the call returns WARPSMITH_STATUS_NOT_COVERED */
  WARPSMITH_FALLBACK_MAX_VALUE = 0x7fffffff
} warpsmith_fallback_t;

/** Where a kernel that is not loaded yet may come from. */
typedef enum warpsmith_compile {
  WARPSMITH_COMPILE_WHEN_MISSING = 0, /**< kernel pack, then disk cache, then NVRTC (seconds, once); the default */
  WARPSMITH_COMPILE_NEVER = 1,        /**< kernel pack and disk cache only; else the fallback runs the call */
  WARPSMITH_COMPILE_MAX_VALUE = 0x7fffffff
} warpsmith_compile_t;

/** Whether a kernel may begin while the one before it on the stream still runs (programmatic dependent launch). It
 * waits for that one's results before it reads or writes anything, so results are the same either way. */
typedef enum warpsmith_launch {
  WARPSMITH_LAUNCH_PLAIN = 0,     /**< one behind the other; the default */
  WARPSMITH_LAUNCH_DEPENDENT = 1, /**< overlapping, where that was measured to be faster */
  WARPSMITH_LAUNCH_MAX_VALUE = 0x7fffffff
} warpsmith_launch_t;

/** What else the device may be running while a kernel of the handle does. */
typedef enum warpsmith_sharing {
  /** Streams of one priority, and no other kernels whose blocks wait for one another; the default. */
  WARPSMITH_SHARING_EQUAL = 0,
  /** Anything: kernels whose blocks wait for blocks that may not have begun are not chosen. */
  WARPSMITH_SHARING_ANY = 1,
  WARPSMITH_SHARING_MAX_VALUE = 0x7fffffff
} warpsmith_sharing_t;

/** Choices of a handle. All-zero is the default of each; reserved fields must be zero. */
typedef struct warpsmith_options {
  warpsmith_mode_t mode;
  warpsmith_fallback_t fallback;
  warpsmith_compile_t compile;
  warpsmith_launch_t launch;
  int32_t streams;         /**< workspaces made beforehand, one for each stream that needs one; 0: 8 */
  const char* wisdom_path; /**< wisdom file; null: $WARPSMITH_WISDOM, else the installed file of this GPU */
  const char* pack_path;   /**< kernel pack; null: $WARPSMITH_PACK, else the installed pack of this GPU */
  const char* cache_path;  /**< folder of compiled kernels; null: $WARPSMITH_CACHE, else ~/.cache/warpsmith */
  warpsmith_sharing_t sharing;
  int32_t reserved_word;
  int64_t reserved[7];
} warpsmith_options_t;

/** One product, or batch_count of them. All-zero gives the defaults below; reserved fields must be zero. */
typedef struct warpsmith_problem {
  warpsmith_op_t op_a, op_b;   /**< default WARPSMITH_OP_N */
  warpsmith_type_t type;       /**< default WARPSMITH_F16 */
  warpsmith_compute_t compute; /**< default WARPSMITH_COMPUTE_32F */
  int64_t m, n, k;             /**< >= 0 */
  int64_t lda, ldb, ldc;       /**< row strides in elements of the matrices as stored; 0: the column count */
  int64_t stride_a, stride_b,
      stride_c;        /**< elements from one matrix of the batch to the next; read when batch_count > 1 */
  int64_t batch_count; /**< 0 or 1: one product */
  int64_t reserved[4];
} warpsmith_problem_t;

/** Makes a handle for the calling thread's current device, with default options.
 *
 * Reads the environment and the files named under warpsmith_options_t; a wisdom file or kernel pack that is absent,
 * damaged or of another GPU is not an error: one line on stderr says so (unless it is merely absent), and the choice
 * goes on without it.
 *
 * @param[out] handle set to the new handle, or to null on failure
 * @return NO_DEVICE without a driver or GPU; INVALID_VALUE when handle is null; OUT_OF_MEMORY */
WARPSMITH_API warpsmith_status_t warpsmith_create(warpsmith_handle_t* handle);

/** The same with options.
 *
 * @param options may be null: all defaults
 * @return as warpsmith_create; INVALID_VALUE also for an unknown enumerator, a negative number or a non-zero reserved
 *         field */
WARPSMITH_API warpsmith_status_t warpsmith_create_with_options(warpsmith_handle_t* handle,
                                                               const warpsmith_options_t* options);

/** Frees a handle, after all its work on the device is done (it waits for that). Plans of the handle must be destroyed
 * before, and no other thread may be using it. Null is allowed.
 *
 * @return SUCCESS; NOT_INITIALIZED for null */
WARPSMITH_API warpsmith_status_t warpsmith_destroy(warpsmith_handle_t handle);

/** Queues C = alpha * op(A) * op(B) + beta * C on the stream.
 *
 * Any m, n, k >= 0 (each and all products of two below 2^62), any leading dimension at least as large as the matrix's
 * stored column count, any pointer aligned to its elements. With m or n zero nothing is done; with k zero C = beta * C.
 * With beta zero C is not read, so NaN in it does not spread; with alpha zero A and B are not read. C must not overlap
 * A or B.
 *
 * The first call of a problem chooses and loads its kernel, which may compile one (WARPSMITH_COMPILE_WHEN_MISSING) and
 * then takes seconds; the calls after it only launch: no lock, allocation, synchronisation or environment access. It
 * may be captured into a CUDA graph.
 *
 * @param handle of the calling thread's current device
 * @param op_a,op_b how A and B are stored
 * @param m,n,k rows of C, columns of C, length of the sums
 * @param alpha,beta scalars, by value
 * @param a,b device pointers to A and B; may be null when their matrix has no elements or alpha is zero
 * @param lda,ldb,ldc row strides in elements of the matrices as stored
 * @param c device pointer to C; may be null when C has no elements
 * @param type element type of A, B, C
 * @param compute arithmetic of the sums
 * @param stream of the handle's device; null is the default stream
 * @return NOT_INITIALIZED (null handle), INVALID_VALUE (negative size, leading dimension too small, null or misaligned
 *         pointer, unknown enumerator), WRONG_DEVICE, NOT_SUPPORTED, NOT_COVERED, OUT_OF_MEMORY, LAUNCH_FAILED; nothing
 *         was launched then */
WARPSMITH_API warpsmith_status_t warpsmith_gemm(warpsmith_handle_t handle, warpsmith_op_t op_a, warpsmith_op_t op_b,
                                                int64_t m, int64_t n, int64_t k, float alpha, const void* a,
                                                int64_t lda, const void* b, int64_t ldb, float beta, void* c,
                                                int64_t ldc, warpsmith_type_t type, warpsmith_compute_t compute,
                                                cudaStream_t stream);

/** The same for batch_count products; matrix i of an operand begins stride * i elements after the first. stride_a and
 * stride_b may be zero (a shared operand). The matrices C must not overlap one another.
 *
 * @param stride_a,stride_b,stride_c in elements, >= 0
 * @param batch_count >= 0; with zero nothing is done
 * @return as warpsmith_gemm; INVALID_VALUE also for a negative count or stride, or for a stride_c at which two matrices
 *         C overlap when batch_count > 1 */
WARPSMITH_API warpsmith_status_t warpsmith_gemm_strided_batched(
    warpsmith_handle_t handle, warpsmith_op_t op_a, warpsmith_op_t op_b, int64_t m, int64_t n, int64_t k, float alpha,
    const void* a, int64_t lda, int64_t stride_a, const void* b, int64_t ldb, int64_t stride_b, float beta, void* c,
    int64_t ldc, int64_t stride_c, int64_t batch_count, warpsmith_type_t type, warpsmith_compute_t compute,
    cudaStream_t stream);

/** Chooses and loads the kernels of a problem once; running the plan needs no lookup. A plan holds no operands.
 *
 * @param[out] plan set to the new plan, or to null on failure
 * @return as warpsmith_gemm (except for pointers), INVALID_VALUE also when problem or plan is null */
WARPSMITH_API warpsmith_status_t warpsmith_plan_create(warpsmith_handle_t handle, const warpsmith_problem_t* problem,
                                                       warpsmith_plan_t* plan);

/** Queues the plan's product on the stream; operands as for warpsmith_gemm.
 *
 * @return NOT_INITIALIZED (null plan), else as warpsmith_gemm */
WARPSMITH_API warpsmith_status_t warpsmith_plan_run(warpsmith_plan_t plan, float alpha, const void* a, const void* b,
                                                    float beta, void* c, cudaStream_t stream);

/** Frees a plan; work that it queued may still be running. @return SUCCESS; NOT_INITIALIZED for null */
WARPSMITH_API warpsmith_status_t warpsmith_plan_destroy(warpsmith_plan_t plan);

/** Writes what a call of this problem would run and why, as one JSON object (docs/library.md lists its fields). Assumes
 * 16-byte aligned operands, alpha = 1, beta = 0 and memory enough. Loads no kernel and compiles none.
 *
 * @param buf receives text with a terminating zero; 8192 bytes always suffice
 * @param size of buf in bytes
 * @return BUFFER_TOO_SMALL (the beginning was written); as warpsmith_plan_create */
WARPSMITH_API warpsmith_status_t warpsmith_explain(warpsmith_handle_t handle, const warpsmith_problem_t* problem,
                                                   char* buf, size_t size);

/** One English phrase for a status, without a full stop; never null, also for unknown values. */
WARPSMITH_API const char* warpsmith_status_string(warpsmith_status_t status);

/** One line about the calling thread's last status other than SUCCESS; "" when there was none. Valid until the thread's
 * next call of the library. */
WARPSMITH_API const char* warpsmith_last_error(void);

/** WARPSMITH_VERSION of the library that is linked, and its text form ("0.1.0"). */
WARPSMITH_API int warpsmith_version(void);
WARPSMITH_API const char* warpsmith_version_string(void);

#ifdef __cplusplus
}
#endif

#endif /* WARPSMITH_HGEMM_H_ */
