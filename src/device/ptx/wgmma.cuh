// Warpgroup matrix multiply (PTX ISA, "wgmma"): D (64 x N, FP32, in registers) = A * B (+ D), both operands in shared
// memory through descriptors. One specialisation for each N, a multiple of 8 up to 256.
#pragma once

#include "device/ptx/types.cuh"

namespace warpsmith::device {

// Orders register and shared-memory accesses of the warpgroup before its next wgmma.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until at most kPending of the latest groups are in flight.
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Keeps the compiler from moving uses of an accumulator across this point.
template <int kCount>
__device__ __forceinline__ void pin_registers(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
template <int kCount>
__device__ __forceinline__ void pin_registers(u32 (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(d[i])::"memory");
}

// Shared-memory matrix descriptor: start address, leading and stride byte offsets in 16-byte units, swizzle mode. The
// address field has 14 bits; in a cluster, the bits above an address's low 18 name the block.
__device__ __forceinline__ u64 matrix_descriptor(u32 address, int leading_bytes, int stride_bytes, int swizzle_bytes) {
  const u64 mode = swizzle_bytes == 128 ? 1 : swizzle_bytes == 64 ? 2 : swizzle_bytes == 32 ? 3 : 0;
  return static_cast<u64>((address & 0x3ffff) >> 4) | static_cast<u64>(leading_bytes >> 4) << 16 |
         static_cast<u64>(stride_bytes >> 4) << 32 | mode << 62;
}

// Wgmma<N>::issue<element, A is M-major, B is N-major>(d, a, b, accumulate): asynchronous, K = 16. Thread t of the
// warpgroup holds rows 16 (t / 32) + (t % 32) / 4 + {0, 8} of D: d[4 j + 2 h + i] is row + 8 h, column 8 j + 2 (t % 4)
// + i.
template <int kN>
struct Wgmma;

// The same with FP16 sums, two in a register, in device/ptx/wgmma_f16.cuh: d[2 j + h] is row + 8 h, columns 8 j +
// 2 (t % 4) + {0, 1}.
template <int kN>
struct WgmmaF16;

#define WARPSMITH_WGMMA_TEXT(N, TYPE, REGISTERS, A, B, D, TRANSPOSE_A, TRANSPOSE_B)             \
  "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, " D                                       \
  ", 0;\n"                                                                                      \
  "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" REGISTERS "}, " A ", " B \
  ", accumulate, 1, 1, " TRANSPOSE_A ", " TRANSPOSE_B ";\n}\n"

#define WARPSMITH_WGMMA(N, REGISTERS, OPERANDS, A, B, D, TRANSPOSE_A, TRANSPOSE_B)                   \
  template <>                                                                                        \
  struct Wgmma<N> {                                                                                  \
    template <Element kElement, bool kTransposeA, bool kTransposeB>                                  \
    static __device__ __forceinline__ void issue(float (&d)[N / 2], u64 a, u64 b, u32 accumulate) {  \
      if constexpr (kElement == Element::f16) {                                                      \
        asm volatile(WARPSMITH_WGMMA_TEXT(N, "f16", REGISTERS, A, B, D, TRANSPOSE_A, TRANSPOSE_B)    \
                     : OPERANDS                                                                      \
                     : "l"(a), "l"(b), "r"(accumulate), "n"(int(kTransposeA)), "n"(int(kTransposeB)) \
                     : "memory");                                                                    \
      } else {                                                                                       \
        asm volatile(WARPSMITH_WGMMA_TEXT(N, "bf16", REGISTERS, A, B, D, TRANSPOSE_A, TRANSPOSE_B)   \
                     : OPERANDS                                                                      \
                     : "l"(a), "l"(b), "r"(accumulate), "n"(int(kTransposeA)), "n"(int(kTransposeB)) \
                     : "memory");                                                                    \
      }                                                                                              \
    }                                                                                                \
  }

// The first R accumulator registers as text and as operands.
// clang-format off
#define WARPSMITH_R4 "%0, %1, %2, %3"
#define WARPSMITH_R8 WARPSMITH_R4 ", %4, %5, %6, %7"
#define WARPSMITH_R12 WARPSMITH_R8 ", %8, %9, %10, %11"
#define WARPSMITH_R16 WARPSMITH_R12 ", %12, %13, %14, %15"
#define WARPSMITH_R20 WARPSMITH_R16 ", %16, %17, %18, %19"
#define WARPSMITH_R24 WARPSMITH_R20 ", %20, %21, %22, %23"
#define WARPSMITH_R28 WARPSMITH_R24 ", %24, %25, %26, %27"
#define WARPSMITH_R32 WARPSMITH_R28 ", %28, %29, %30, %31"
#define WARPSMITH_R36 WARPSMITH_R32 ", %32, %33, %34, %35"
#define WARPSMITH_R40 WARPSMITH_R36 ", %36, %37, %38, %39"
#define WARPSMITH_R44 WARPSMITH_R40 ", %40, %41, %42, %43"
#define WARPSMITH_R48 WARPSMITH_R44 ", %44, %45, %46, %47"
#define WARPSMITH_R52 WARPSMITH_R48 ", %48, %49, %50, %51"
#define WARPSMITH_R56 WARPSMITH_R52 ", %52, %53, %54, %55"
#define WARPSMITH_R60 WARPSMITH_R56 ", %56, %57, %58, %59"
#define WARPSMITH_R64 WARPSMITH_R60 ", %60, %61, %62, %63"
#define WARPSMITH_R68 WARPSMITH_R64 ", %64, %65, %66, %67"
#define WARPSMITH_R72 WARPSMITH_R68 ", %68, %69, %70, %71"
#define WARPSMITH_R76 WARPSMITH_R72 ", %72, %73, %74, %75"
#define WARPSMITH_R80 WARPSMITH_R76 ", %76, %77, %78, %79"
#define WARPSMITH_R84 WARPSMITH_R80 ", %80, %81, %82, %83"
#define WARPSMITH_R88 WARPSMITH_R84 ", %84, %85, %86, %87"
#define WARPSMITH_R92 WARPSMITH_R88 ", %88, %89, %90, %91"
#define WARPSMITH_R96 WARPSMITH_R92 ", %92, %93, %94, %95"
#define WARPSMITH_R100 WARPSMITH_R96 ", %96, %97, %98, %99"
#define WARPSMITH_R104 WARPSMITH_R100 ", %100, %101, %102, %103"
#define WARPSMITH_R108 WARPSMITH_R104 ", %104, %105, %106, %107"
#define WARPSMITH_R112 WARPSMITH_R108 ", %108, %109, %110, %111"
#define WARPSMITH_R116 WARPSMITH_R112 ", %112, %113, %114, %115"
#define WARPSMITH_R120 WARPSMITH_R116 ", %116, %117, %118, %119"
#define WARPSMITH_R124 WARPSMITH_R120 ", %120, %121, %122, %123"
#define WARPSMITH_R128 WARPSMITH_R124 ", %124, %125, %126, %127"
#define WARPSMITH_O4 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#define WARPSMITH_O8 WARPSMITH_O4, "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define WARPSMITH_O12 WARPSMITH_O8, "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11])
#define WARPSMITH_O16 WARPSMITH_O12, "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define WARPSMITH_O20 WARPSMITH_O16, "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19])
#define WARPSMITH_O24 WARPSMITH_O20, "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define WARPSMITH_O28 WARPSMITH_O24, "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27])
#define WARPSMITH_O32 WARPSMITH_O28, "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define WARPSMITH_O36 WARPSMITH_O32, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35])
#define WARPSMITH_O40 WARPSMITH_O36, "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define WARPSMITH_O44 WARPSMITH_O40, "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43])
#define WARPSMITH_O48 WARPSMITH_O44, "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define WARPSMITH_O52 WARPSMITH_O48, "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51])
#define WARPSMITH_O56 WARPSMITH_O52, "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
#define WARPSMITH_O60 WARPSMITH_O56, "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59])
#define WARPSMITH_O64 WARPSMITH_O60, "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define WARPSMITH_O68 WARPSMITH_O64, "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67])
#define WARPSMITH_O72 WARPSMITH_O68, "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71])
#define WARPSMITH_O76 WARPSMITH_O72, "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75])
#define WARPSMITH_O80 WARPSMITH_O76, "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define WARPSMITH_O84 WARPSMITH_O80, "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83])
#define WARPSMITH_O88 WARPSMITH_O84, "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87])
#define WARPSMITH_O92 WARPSMITH_O88, "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91])
#define WARPSMITH_O96 WARPSMITH_O92, "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define WARPSMITH_O100 WARPSMITH_O96, "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99])
#define WARPSMITH_O104 WARPSMITH_O100, "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103])
#define WARPSMITH_O108 WARPSMITH_O104, "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107])
#define WARPSMITH_O112 WARPSMITH_O108, "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
#define WARPSMITH_O116 WARPSMITH_O112, "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115])
#define WARPSMITH_O120 WARPSMITH_O116, "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119])
#define WARPSMITH_O124 WARPSMITH_O120, "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123])
#define WARPSMITH_O128 WARPSMITH_O124, "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])

WARPSMITH_WGMMA(8, WARPSMITH_R4, WARPSMITH_O4, "%4", "%5", "%6", "%7", "%8");
WARPSMITH_WGMMA(16, WARPSMITH_R8, WARPSMITH_O8, "%8", "%9", "%10", "%11", "%12");
WARPSMITH_WGMMA(24, WARPSMITH_R12, WARPSMITH_O12, "%12", "%13", "%14", "%15", "%16");
WARPSMITH_WGMMA(32, WARPSMITH_R16, WARPSMITH_O16, "%16", "%17", "%18", "%19", "%20");
WARPSMITH_WGMMA(40, WARPSMITH_R20, WARPSMITH_O20, "%20", "%21", "%22", "%23", "%24");
WARPSMITH_WGMMA(48, WARPSMITH_R24, WARPSMITH_O24, "%24", "%25", "%26", "%27", "%28");
WARPSMITH_WGMMA(56, WARPSMITH_R28, WARPSMITH_O28, "%28", "%29", "%30", "%31", "%32");
WARPSMITH_WGMMA(64, WARPSMITH_R32, WARPSMITH_O32, "%32", "%33", "%34", "%35", "%36");
WARPSMITH_WGMMA(72, WARPSMITH_R36, WARPSMITH_O36, "%36", "%37", "%38", "%39", "%40");
WARPSMITH_WGMMA(80, WARPSMITH_R40, WARPSMITH_O40, "%40", "%41", "%42", "%43", "%44");
WARPSMITH_WGMMA(88, WARPSMITH_R44, WARPSMITH_O44, "%44", "%45", "%46", "%47", "%48");
WARPSMITH_WGMMA(96, WARPSMITH_R48, WARPSMITH_O48, "%48", "%49", "%50", "%51", "%52");
WARPSMITH_WGMMA(104, WARPSMITH_R52, WARPSMITH_O52, "%52", "%53", "%54", "%55", "%56");
WARPSMITH_WGMMA(112, WARPSMITH_R56, WARPSMITH_O56, "%56", "%57", "%58", "%59", "%60");
WARPSMITH_WGMMA(120, WARPSMITH_R60, WARPSMITH_O60, "%60", "%61", "%62", "%63", "%64");
WARPSMITH_WGMMA(128, WARPSMITH_R64, WARPSMITH_O64, "%64", "%65", "%66", "%67", "%68");
WARPSMITH_WGMMA(136, WARPSMITH_R68, WARPSMITH_O68, "%68", "%69", "%70", "%71", "%72");
WARPSMITH_WGMMA(144, WARPSMITH_R72, WARPSMITH_O72, "%72", "%73", "%74", "%75", "%76");
WARPSMITH_WGMMA(152, WARPSMITH_R76, WARPSMITH_O76, "%76", "%77", "%78", "%79", "%80");
WARPSMITH_WGMMA(160, WARPSMITH_R80, WARPSMITH_O80, "%80", "%81", "%82", "%83", "%84");
WARPSMITH_WGMMA(168, WARPSMITH_R84, WARPSMITH_O84, "%84", "%85", "%86", "%87", "%88");
WARPSMITH_WGMMA(176, WARPSMITH_R88, WARPSMITH_O88, "%88", "%89", "%90", "%91", "%92");
WARPSMITH_WGMMA(184, WARPSMITH_R92, WARPSMITH_O92, "%92", "%93", "%94", "%95", "%96");
WARPSMITH_WGMMA(192, WARPSMITH_R96, WARPSMITH_O96, "%96", "%97", "%98", "%99", "%100");
WARPSMITH_WGMMA(200, WARPSMITH_R100, WARPSMITH_O100, "%100", "%101", "%102", "%103", "%104");
WARPSMITH_WGMMA(208, WARPSMITH_R104, WARPSMITH_O104, "%104", "%105", "%106", "%107", "%108");
WARPSMITH_WGMMA(216, WARPSMITH_R108, WARPSMITH_O108, "%108", "%109", "%110", "%111", "%112");
WARPSMITH_WGMMA(224, WARPSMITH_R112, WARPSMITH_O112, "%112", "%113", "%114", "%115", "%116");
WARPSMITH_WGMMA(232, WARPSMITH_R116, WARPSMITH_O116, "%116", "%117", "%118", "%119", "%120");
WARPSMITH_WGMMA(240, WARPSMITH_R120, WARPSMITH_O120, "%120", "%121", "%122", "%123", "%124");
WARPSMITH_WGMMA(248, WARPSMITH_R124, WARPSMITH_O124, "%124", "%125", "%126", "%127", "%128");
WARPSMITH_WGMMA(256, WARPSMITH_R128, WARPSMITH_O128, "%128", "%129", "%130", "%131", "%132");
// clang-format on

#undef WARPSMITH_WGMMA
#undef WARPSMITH_WGMMA_TEXT

}  // namespace warpsmith::device
