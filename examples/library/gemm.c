/* The smallest use of libwarpsmith from C: one product on the default stream, checked on the host.
 *   cc gemm.c $(pkg-config --cflags --libs warpsmith) -I/usr/local/cuda/include -L/usr/local/cuda/lib64 -lcudart -o
 * gemm */
#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <warpsmith/hgemm.h>

enum { M = 128, N = 256, K = 64 };

/* 1.0 and 64.0 as FP16. */
static const uint16_t kOne = 0x3c00, kSixtyFour = 0x5400;

static int failed(const char* what, const char* why) {
  fprintf(stderr, "gemm: %s: %s\n", what, why);
  return 3;
}

int main(void) {
  warpsmith_handle_t handle;
  if (warpsmith_create(&handle) != WARPSMITH_STATUS_SUCCESS) return failed("warpsmith_create", warpsmith_last_error());

  static uint16_t ones[N * K], result[M * N];
  for (int i = 0; i < N * K; ++i) ones[i] = kOne;
  void *a = NULL, *b = NULL, *c = NULL;
  if (cudaMalloc(&a, M * K * 2) != cudaSuccess || cudaMalloc(&b, N * K * 2) != cudaSuccess ||
      cudaMalloc(&c, M * N * 2) != cudaSuccess) {
    return failed("cudaMalloc", cudaGetErrorString(cudaGetLastError()));
  }
  cudaMemcpy(a, ones, M * K * 2, cudaMemcpyHostToDevice);
  cudaMemcpy(b, ones, N * K * 2, cudaMemcpyHostToDevice);

  /* C[128,256] = A[128,64] * B[64,256]; B is stored 256 x 64, as the weights of a linear layer are. */
  const warpsmith_status_t status = warpsmith_gemm(handle, WARPSMITH_OP_N, WARPSMITH_OP_T, M, N, K, 1.0f, a, K, b, K,
                                                   0.0f, c, N, WARPSMITH_F16, WARPSMITH_COMPUTE_32F, NULL);
  if (status != WARPSMITH_STATUS_SUCCESS) return failed("warpsmith_gemm", warpsmith_last_error());
  if (cudaMemcpy(result, c, M * N * 2, cudaMemcpyDeviceToHost) != cudaSuccess) {
    return failed("the kernel", cudaGetErrorString(cudaGetLastError()));
  }
  int wrong = 0;
  for (int i = 0; i < M * N; ++i) wrong += result[i] != kSixtyFour;
  printf("warpsmith %s: %d of %d elements wrong\n", warpsmith_version_string(), wrong, M * N);

  cudaFree(a);
  cudaFree(b);
  cudaFree(c);
  warpsmith_destroy(handle);
  return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
