// VECTOR pairs of a head a thread; a block turns all heads of a token.
typedef unsigned short u16;

__device__ float widen(unsigned bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"((u16)bits));
  return value;
}
__device__ unsigned narrow(float value) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    pairs(const u16* x, const float* cosines, const float* sines, u16* y, int heads, int size) {
  const int half = size / 2, groups = half / VECTOR;
  const long long token = blockIdx.x;
  for (int i = threadIdx.x; i < heads * groups; i += THREADS) {
    const int pair = i % groups * VECTOR;
    const long long at = (token * heads + i / groups) * size + pair;
    alignas(8) u16 first[VECTOR], second[VECTOR], turned_first[VECTOR], turned_second[VECTOR];
    alignas(16) float cosine[VECTOR], sine[VECTOR];
    if (VECTOR == 4) {
      *(uint2*)first = *(const uint2*)(x + at);
      *(uint2*)second = *(const uint2*)(x + at + half);
      *(float4*)cosine = *(const float4*)(cosines + token * half + pair);
      *(float4*)sine = *(const float4*)(sines + token * half + pair);
    } else {
      first[0] = x[at];
      second[0] = x[at + half];
      cosine[0] = cosines[token * half + pair];
      sine[0] = sines[token * half + pair];
    }
    for (int j = 0; j < VECTOR; ++j) {
      const float a = widen(first[j]), b = widen(second[j]);
      turned_first[j] = (u16)narrow(a * cosine[j] - b * sine[j]);
      turned_second[j] = (u16)narrow(b * cosine[j] + a * sine[j]);
    }
    if (VECTOR == 4) {
      *(uint2*)(y + at) = *(const uint2*)turned_first;
      *(uint2*)(y + at + half) = *(const uint2*)turned_second;
    } else {
      y[at] = turned_first[0];
      y[at + half] = turned_second[0];
    }
  }
}
