// C[m,n] = A[m,k] * B[k,n] on Hopper: TMA brings 128 x 64 tiles of A and B (stored m x k and n x k) into a ring of
// STAGES stages, two warpgroups multiply them with wgmma, one 128 x 128 tile of C per block, FP32 sums. Any m and n; k
// a multiple of 8, because rows of a tensor map are multiples of 16 bytes. Elements beyond the ends arrive as zeros.

typedef unsigned short u16;  // the bits of an element
typedef unsigned int u32;
typedef unsigned long long u64;

#if WARPSMITH_BF16
#define ELEMENT "bf16"
#else
#define ELEMENT "f16"
#endif

constexpr int kTileM = 128, kTileN = 128, kTileK = 64;  // 64 elements are 128 bytes, one row of the swizzle
constexpr int kTileBytes = 128 * kTileK * 2;            // of A and of B
constexpr int kStageBytes = 2 * kTileBytes;

struct alignas(64) TensorMap {
  unsigned char opaque[128];
};

__device__ u32 shared_address(const void* pointer) { return static_cast<u32>(__cvta_generic_to_shared(pointer)); }

__device__ void load_tile(u32 to, const TensorMap* map, int column, int row, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          to),
      "l"(map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}

__device__ void wait(u32 barrier, u32 parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// Shared-memory descriptor (PTX ISA, matrix descriptor): rows of 128 bytes, groups of eight rows 1024 bytes apart,
// 128-byte swizzle.
__device__ u64 descriptor(u32 address) {
  return static_cast<u64>((address & 0x3ffff) >> 4) | u64{1} << 16 | u64{1024 >> 4} << 32 | u64{1} << 62;
}

#define R4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define R16(i) R4(i), R4(i + 4), R4(i + 8), R4(i + 12)

// d += A[64, 16] * B[16, 128]
__device__ void multiply_add(float (&d)[64], u64 a, u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." ELEMENT "." ELEMENT
      " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "
      "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, 1, 1, 1, 0, 0;"
      : R16(0), R16(16), R16(32), R16(48)
      : "l"(a), "l"(b));
}

// Waits for every product; the sums are operands, so that nobody reads them earlier.
__device__ void finish(float (&d)[64]) {
  asm volatile("wgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;"
               : R16(0), R16(16), R16(32), R16(48)::"memory");
}

extern "C" __global__ void __launch_bounds__(256)
    wgmma_tma(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, u16* c, int m, int n,
              int k) {
  extern __shared__ unsigned char dynamic[];
  __shared__ alignas(8) u64 barriers[STAGES];
  const u32 ring = (shared_address(dynamic) + 1023) / 1024 * 1024;  // the swizzle's period
  const int row = blockIdx.y * kTileM, column = blockIdx.x * kTileN;
  const int steps = (k + kTileK - 1) / kTileK;

  const auto load_stage = [&](int step) {
    const u32 barrier = shared_address(&barriers[step % STAGES]), stage = ring + step % STAGES * kStageBytes;
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(kStageBytes) : "memory");
    load_tile(stage, &map_a, step * kTileK, row, barrier);
    load_tile(stage + kTileBytes, &map_b, step * kTileK, column, barrier);
  };

  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; ++i) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barriers[i])) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    for (int step = 0; step < STAGES && step < steps; ++step) load_stage(step);
  }
  __syncthreads();

  const int group = threadIdx.x / 128;  // warpgroup: 64 rows of the tile each
  float d[64] = {};
  for (int step = 0; step < steps; ++step) {
    const u32 stage = ring + step % STAGES * kStageBytes;
    wait(shared_address(&barriers[step % STAGES]), step / STAGES % 2);
    const u64 a = descriptor(stage + group * 64 * kTileK * 2), b = descriptor(stage + kTileBytes);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int i = 0; i < kTileK / 16; ++i) multiply_add(d, a + i * 2, b + i * 2);  // 16 elements are two 16-byte units
    finish(d);
    __syncthreads();  // both warpgroups have read the stage
    if (threadIdx.x == 0 && step + STAGES < steps) load_stage(step + STAGES);
  }

  const int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;
#pragma unroll
  for (int j = 0; j < 64; ++j) {
    const int y = row + group * 64 + warp * 16 + lane / 4 + j % 4 / 2 * 8;
    const int x = column + j / 4 * 8 + lane % 4 * 2 + j % 2;
    if (y >= m || x >= n) continue;
    u16 bits;
    asm("cvt.rn." ELEMENT ".f32 %0, %1;" : "=h"(bits) : "f"(d[j]));
    c[static_cast<long long>(y) * n + x] = bits;
  }
}
