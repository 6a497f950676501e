// Warpgroup matrix multiply with FP16 sums (PTX ISA, "wgmma"): D (64 x N, FP16, two in a register) = A * B (+ D), f16
// elements. One specialisation for each N, a multiple of 8 up to 256.
#pragma once

#include "device/ptx/wgmma.cuh"

namespace warpsmith::device {

#define WARPSMITH_WGMMA_F16(N, REGISTERS, OPERANDS, A, B, D, TRANSPOSE_A, TRANSPOSE_B)                 \
  template <>                                                                                          \
  struct WgmmaF16<N> {                                                                                 \
    template <Element kElement, bool kTransposeA, bool kTransposeB>                                    \
    static __device__ __forceinline__ void issue(u32 (&d)[N / 4], u64 a, u64 b, u32 accumulate) {      \
      static_assert(kElement == Element::f16);                                                         \
      asm volatile("{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, " D                             \
                   ", 0;\n"                                                                            \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f16.f16.f16 {" REGISTERS "}, " A ", " B \
                   ", accumulate, 1, 1, " TRANSPOSE_A ", " TRANSPOSE_B ";\n}\n"                        \
                   : OPERANDS                                                                          \
                   : "l"(a), "l"(b), "r"(accumulate), "n"(int(kTransposeA)), "n"(int(kTransposeB))     \
                   : "memory");                                                                        \
    }                                                                                                  \
  }

// The first R sums as text and as operands.
// clang-format off
#define WARPSMITH_H2 "%0, %1"
#define WARPSMITH_H4 WARPSMITH_H2 ", %2, %3"
#define WARPSMITH_H6 WARPSMITH_H4 ", %4, %5"
#define WARPSMITH_H8 WARPSMITH_H6 ", %6, %7"
#define WARPSMITH_H10 WARPSMITH_H8 ", %8, %9"
#define WARPSMITH_H12 WARPSMITH_H10 ", %10, %11"
#define WARPSMITH_H14 WARPSMITH_H12 ", %12, %13"
#define WARPSMITH_H16 WARPSMITH_H14 ", %14, %15"
#define WARPSMITH_H18 WARPSMITH_H16 ", %16, %17"
#define WARPSMITH_H20 WARPSMITH_H18 ", %18, %19"
#define WARPSMITH_H22 WARPSMITH_H20 ", %20, %21"
#define WARPSMITH_H24 WARPSMITH_H22 ", %22, %23"
#define WARPSMITH_H26 WARPSMITH_H24 ", %24, %25"
#define WARPSMITH_H28 WARPSMITH_H26 ", %26, %27"
#define WARPSMITH_H30 WARPSMITH_H28 ", %28, %29"
#define WARPSMITH_H32 WARPSMITH_H30 ", %30, %31"
#define WARPSMITH_H34 WARPSMITH_H32 ", %32, %33"
#define WARPSMITH_H36 WARPSMITH_H34 ", %34, %35"
#define WARPSMITH_H38 WARPSMITH_H36 ", %36, %37"
#define WARPSMITH_H40 WARPSMITH_H38 ", %38, %39"
#define WARPSMITH_H42 WARPSMITH_H40 ", %40, %41"
#define WARPSMITH_H44 WARPSMITH_H42 ", %42, %43"
#define WARPSMITH_H46 WARPSMITH_H44 ", %44, %45"
#define WARPSMITH_H48 WARPSMITH_H46 ", %46, %47"
#define WARPSMITH_H50 WARPSMITH_H48 ", %48, %49"
#define WARPSMITH_H52 WARPSMITH_H50 ", %50, %51"
#define WARPSMITH_H54 WARPSMITH_H52 ", %52, %53"
#define WARPSMITH_H56 WARPSMITH_H54 ", %54, %55"
#define WARPSMITH_H58 WARPSMITH_H56 ", %56, %57"
#define WARPSMITH_H60 WARPSMITH_H58 ", %58, %59"
#define WARPSMITH_H62 WARPSMITH_H60 ", %60, %61"
#define WARPSMITH_H64 WARPSMITH_H62 ", %62, %63"
#define WARPSMITH_P2 "+r"(d[0]), "+r"(d[1])
#define WARPSMITH_P4 WARPSMITH_P2, "+r"(d[2]), "+r"(d[3])
#define WARPSMITH_P6 WARPSMITH_P4, "+r"(d[4]), "+r"(d[5])
#define WARPSMITH_P8 WARPSMITH_P6, "+r"(d[6]), "+r"(d[7])
#define WARPSMITH_P10 WARPSMITH_P8, "+r"(d[8]), "+r"(d[9])
#define WARPSMITH_P12 WARPSMITH_P10, "+r"(d[10]), "+r"(d[11])
#define WARPSMITH_P14 WARPSMITH_P12, "+r"(d[12]), "+r"(d[13])
#define WARPSMITH_P16 WARPSMITH_P14, "+r"(d[14]), "+r"(d[15])
#define WARPSMITH_P18 WARPSMITH_P16, "+r"(d[16]), "+r"(d[17])
#define WARPSMITH_P20 WARPSMITH_P18, "+r"(d[18]), "+r"(d[19])
#define WARPSMITH_P22 WARPSMITH_P20, "+r"(d[20]), "+r"(d[21])
#define WARPSMITH_P24 WARPSMITH_P22, "+r"(d[22]), "+r"(d[23])
#define WARPSMITH_P26 WARPSMITH_P24, "+r"(d[24]), "+r"(d[25])
#define WARPSMITH_P28 WARPSMITH_P26, "+r"(d[26]), "+r"(d[27])
#define WARPSMITH_P30 WARPSMITH_P28, "+r"(d[28]), "+r"(d[29])
#define WARPSMITH_P32 WARPSMITH_P30, "+r"(d[30]), "+r"(d[31])
#define WARPSMITH_P34 WARPSMITH_P32, "+r"(d[32]), "+r"(d[33])
#define WARPSMITH_P36 WARPSMITH_P34, "+r"(d[34]), "+r"(d[35])
#define WARPSMITH_P38 WARPSMITH_P36, "+r"(d[36]), "+r"(d[37])
#define WARPSMITH_P40 WARPSMITH_P38, "+r"(d[38]), "+r"(d[39])
#define WARPSMITH_P42 WARPSMITH_P40, "+r"(d[40]), "+r"(d[41])
#define WARPSMITH_P44 WARPSMITH_P42, "+r"(d[42]), "+r"(d[43])
#define WARPSMITH_P46 WARPSMITH_P44, "+r"(d[44]), "+r"(d[45])
#define WARPSMITH_P48 WARPSMITH_P46, "+r"(d[46]), "+r"(d[47])
#define WARPSMITH_P50 WARPSMITH_P48, "+r"(d[48]), "+r"(d[49])
#define WARPSMITH_P52 WARPSMITH_P50, "+r"(d[50]), "+r"(d[51])
#define WARPSMITH_P54 WARPSMITH_P52, "+r"(d[52]), "+r"(d[53])
#define WARPSMITH_P56 WARPSMITH_P54, "+r"(d[54]), "+r"(d[55])
#define WARPSMITH_P58 WARPSMITH_P56, "+r"(d[56]), "+r"(d[57])
#define WARPSMITH_P60 WARPSMITH_P58, "+r"(d[58]), "+r"(d[59])
#define WARPSMITH_P62 WARPSMITH_P60, "+r"(d[60]), "+r"(d[61])
#define WARPSMITH_P64 WARPSMITH_P62, "+r"(d[62]), "+r"(d[63])

WARPSMITH_WGMMA_F16(8, WARPSMITH_H2, WARPSMITH_P2, "%2", "%3", "%4", "%5", "%6");
WARPSMITH_WGMMA_F16(16, WARPSMITH_H4, WARPSMITH_P4, "%4", "%5", "%6", "%7", "%8");
WARPSMITH_WGMMA_F16(24, WARPSMITH_H6, WARPSMITH_P6, "%6", "%7", "%8", "%9", "%10");
WARPSMITH_WGMMA_F16(32, WARPSMITH_H8, WARPSMITH_P8, "%8", "%9", "%10", "%11", "%12");
WARPSMITH_WGMMA_F16(40, WARPSMITH_H10, WARPSMITH_P10, "%10", "%11", "%12", "%13", "%14");
WARPSMITH_WGMMA_F16(48, WARPSMITH_H12, WARPSMITH_P12, "%12", "%13", "%14", "%15", "%16");
WARPSMITH_WGMMA_F16(56, WARPSMITH_H14, WARPSMITH_P14, "%14", "%15", "%16", "%17", "%18");
WARPSMITH_WGMMA_F16(64, WARPSMITH_H16, WARPSMITH_P16, "%16", "%17", "%18", "%19", "%20");
WARPSMITH_WGMMA_F16(72, WARPSMITH_H18, WARPSMITH_P18, "%18", "%19", "%20", "%21", "%22");
WARPSMITH_WGMMA_F16(80, WARPSMITH_H20, WARPSMITH_P20, "%20", "%21", "%22", "%23", "%24");
WARPSMITH_WGMMA_F16(88, WARPSMITH_H22, WARPSMITH_P22, "%22", "%23", "%24", "%25", "%26");
WARPSMITH_WGMMA_F16(96, WARPSMITH_H24, WARPSMITH_P24, "%24", "%25", "%26", "%27", "%28");
WARPSMITH_WGMMA_F16(104, WARPSMITH_H26, WARPSMITH_P26, "%26", "%27", "%28", "%29", "%30");
WARPSMITH_WGMMA_F16(112, WARPSMITH_H28, WARPSMITH_P28, "%28", "%29", "%30", "%31", "%32");
WARPSMITH_WGMMA_F16(120, WARPSMITH_H30, WARPSMITH_P30, "%30", "%31", "%32", "%33", "%34");
WARPSMITH_WGMMA_F16(128, WARPSMITH_H32, WARPSMITH_P32, "%32", "%33", "%34", "%35", "%36");
WARPSMITH_WGMMA_F16(136, WARPSMITH_H34, WARPSMITH_P34, "%34", "%35", "%36", "%37", "%38");
WARPSMITH_WGMMA_F16(144, WARPSMITH_H36, WARPSMITH_P36, "%36", "%37", "%38", "%39", "%40");
WARPSMITH_WGMMA_F16(152, WARPSMITH_H38, WARPSMITH_P38, "%38", "%39", "%40", "%41", "%42");
WARPSMITH_WGMMA_F16(160, WARPSMITH_H40, WARPSMITH_P40, "%40", "%41", "%42", "%43", "%44");
WARPSMITH_WGMMA_F16(168, WARPSMITH_H42, WARPSMITH_P42, "%42", "%43", "%44", "%45", "%46");
WARPSMITH_WGMMA_F16(176, WARPSMITH_H44, WARPSMITH_P44, "%44", "%45", "%46", "%47", "%48");
WARPSMITH_WGMMA_F16(184, WARPSMITH_H46, WARPSMITH_P46, "%46", "%47", "%48", "%49", "%50");
WARPSMITH_WGMMA_F16(192, WARPSMITH_H48, WARPSMITH_P48, "%48", "%49", "%50", "%51", "%52");
WARPSMITH_WGMMA_F16(200, WARPSMITH_H50, WARPSMITH_P50, "%50", "%51", "%52", "%53", "%54");
WARPSMITH_WGMMA_F16(208, WARPSMITH_H52, WARPSMITH_P52, "%52", "%53", "%54", "%55", "%56");
WARPSMITH_WGMMA_F16(216, WARPSMITH_H54, WARPSMITH_P54, "%54", "%55", "%56", "%57", "%58");
WARPSMITH_WGMMA_F16(224, WARPSMITH_H56, WARPSMITH_P56, "%56", "%57", "%58", "%59", "%60");
WARPSMITH_WGMMA_F16(232, WARPSMITH_H58, WARPSMITH_P58, "%58", "%59", "%60", "%61", "%62");
WARPSMITH_WGMMA_F16(240, WARPSMITH_H60, WARPSMITH_P60, "%60", "%61", "%62", "%63", "%64");
WARPSMITH_WGMMA_F16(248, WARPSMITH_H62, WARPSMITH_P62, "%62", "%63", "%64", "%65", "%66");
WARPSMITH_WGMMA_F16(256, WARPSMITH_H64, WARPSMITH_P64, "%64", "%65", "%66", "%67", "%68");
// clang-format on

#undef WARPSMITH_WGMMA_F16

}  // namespace warpsmith::device
