// A strided batch: the scores Q K^T / 8 of 16 attention heads in BF16, one call for all heads.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <warpsmith/hgemm.hpp>

int main() {
  constexpr std::int64_t kHeads = 16, kTokens = 512, kHeadSize = 64;
  constexpr float kScale = 0.125F;
  try {
    const warpsmith::Handle handle;
    void *q = nullptr, *k = nullptr, *scores = nullptr;
    cudaMalloc(&q, 2 * kHeads * kTokens * kHeadSize);
    cudaMalloc(&k, 2 * kHeads * kTokens * kHeadSize);
    cudaMalloc(&scores, 2 * kHeads * kTokens * kTokens);
    cudaMemset(q, 0, 2 * kHeads * kTokens * kHeadSize);
    cudaMemset(k, 0, 2 * kHeads * kTokens * kHeadSize);
    warpsmith::check(warpsmith_gemm_strided_batched(handle.get(), WARPSMITH_OP_N, WARPSMITH_OP_T, kTokens, kTokens,
                                                    kHeadSize, kScale, q, kHeadSize, kTokens * kHeadSize, k, kHeadSize,
                                                    kTokens * kHeadSize, 0.0F, scores, kTokens, kTokens * kTokens,
                                                    kHeads, WARPSMITH_BF16, WARPSMITH_COMPUTE_32F, nullptr));
    const cudaError_t status = cudaDeviceSynchronize();
    std::printf("%lld heads: %s\n", static_cast<long long>(kHeads), cudaGetErrorString(status));
    for (void* memory : {q, k, scores}) cudaFree(memory);
    return status == cudaSuccess ? 0 : 1;
  } catch (const warpsmith::StatusError& error) {
    std::fprintf(stderr, "attention_scores: %s\n", error.what());
    return 3;
  }
}
