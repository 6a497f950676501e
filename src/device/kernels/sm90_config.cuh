// What an sm90 kernel is built from: the recipe's knobs and the problem's class, as one structural value.
#pragma once

#include "device/mma/sums.cuh"
#include "device/ptx/tma.cuh"
#include "device/schedule/raster.cuh"

namespace warpsmith::device {

enum class Epilogue {
  direct,  // registers to global memory
  staged,  // through shared memory, 16-byte stores of whole rows
  tma,     // through shared memory, tensor-map stores
};

// A, B, M and N are those of the product that is computed: with `swap`, of C^T = B^T A^T.
struct Sm90Config {
  // Problem class.
  Element element = Element::f16;
  bool a_k_major = true;  // A stored m x k; otherwise k x m
  bool b_k_major = true;  // B stored n x k; otherwise k x n
  bool f16_sums = false;  // accumulates in FP16; partial sums that blocks exchange are FP32
  bool scaled = false;    // C = alpha A B + beta C
  // Knobs.
  int tile_m = 128, tile_n = 128, tile_k = 64;  // of one block
  int cluster_m = 1, cluster_n = 1;             // blocks along M and N that share loads by multicast
  int split = 1;                                // blocks of a cluster that share the K range of one tile
  int stages = 4;
  int consumers = 2;  // warpgroups that multiply; they divide tile_m
  int pace = 0;       // cycles that the producer lets pass between its first loads
  Raster raster = Raster::m;
  int group = 8;
  bool persistent = false;
  bool streamk = false;   // tiles that do not fill a wave are dealt by stages
  bool parts = false;     // with streamk: every tile in as many equal parts, a cluster each
  bool pingpong = false;  // consumers take whole tiles in turn
  bool swap = false;      // the result is stored transposed
  bool pdl = false;
  Epilogue epilogue = Epilogue::staged;
  int staging = 0;  // slices of 64 columns that the tma epilogue's buffer holds; 0: whole tiles
  Evict evict_a = Evict::normal, evict_b = Evict::normal;
};

// Threads, registers and shared memory that follow from a configuration.
template <Sm90Config kConfig>
struct Sm90Plan {
  static constexpr int kConsumerThreads = 128 * kConfig.consumers;
  // setmaxnreg works on whole warpgroups; with one consumer there are registers enough and one warp loads.
  static constexpr bool kReallocatesRegisters = kConfig.consumers > 1;
  static constexpr int kThreads = kConsumerThreads + (kReallocatesRegisters ? 128 : 32);
  static constexpr int kProducerRegisters = kConfig.consumers == 2 ? 40 : 32;
  static constexpr int kConsumerRegisters = kConfig.consumers == 2 ? 232 : 160;

  static constexpr int kClusterSize = kConfig.cluster_m * kConfig.cluster_n * kConfig.split;
  static constexpr bool kLoops = kConfig.persistent && !kConfig.parts;       // a block works on several tiles
  static constexpr int kSharers = kConfig.pingpong ? 1 : kConfig.consumers;  // warpgroups that multiply one tile
  static constexpr int kWarpgroupRows = kConfig.tile_m / kSharers;
  static constexpr int kRowBlocks = kWarpgroupRows / 64;  // wgmma instructions along M
  // A thread's sums, by blocks of 64 rows.
  using Sum = typename SumOf<kConfig.f16_sums>::Type;
  static constexpr int kRowSums = kConfig.tile_n / 8 * kSumsPerBlock<Sum>;
  using Sums = Sum[kRowBlocks][kRowSums];
  static constexpr int kAccumulators = kRowBlocks * kRowSums;

  static_assert(!kConfig.f16_sums || kConfig.element == Element::f16, "wgmma sums f16 products alone in FP16");
  static_assert(kConfig.tile_m % (64 * kSharers) == 0, "each consumer takes a multiple of 64 rows");
  static_assert(kConfig.tile_n % 8 == 0 && kConfig.tile_n >= 8 && kConfig.tile_n <= 256);
  static_assert(kConfig.tile_m <= 256, "a box has at most 256 rows");
  static_assert(kConfig.tile_k == 32 || kConfig.tile_k == 64 || kConfig.tile_k == 128);
  static_assert(kConfig.consumers >= 1 && kConfig.consumers <= 3);
  static_assert(kConfig.stages >= 2);
  static_assert(kClusterSize <= 16, "a cluster has at most 16 blocks");
  static constexpr bool kTransposes = kConfig.swap && kConfig.epilogue == Epilogue::direct;  // in registers
  static constexpr int kPlainLimit = kConfig.consumers == 3 ? 96 : kConfig.streamk ? 160 : 192;
  static constexpr int kUnscaledLimit = !kTransposes ? kPlainLimit : kConfig.consumers == 1 ? 128 : 64;
  // Scaling takes registers, most of all where C is read just before it is written, or sums go one of two ways.
  static constexpr bool kCrowded = kConfig.streamk || kConfig.epilogue == Epilogue::direct;
  static constexpr int kScaledLimit = kConfig.f16_sums || kConfig.consumers == 3 ? (kCrowded ? 64 : 96)
                                      : kCrowded                                 ? 96
                                      : kConfig.consumers == 1                   ? 128
                                                                                 : 192;
  static constexpr int kAccumulatorLimit = kConfig.scaled ? min(kScaledLimit, kUnscaledLimit) : kUnscaledLimit;
  static_assert(kAccumulators <= kAccumulatorLimit, "the accumulators fit in the registers");
  static_assert(kConfig.split == 1 || (kConfig.epilogue == Epilogue::staged && !kConfig.persistent),
                "split-K adds up in shared memory, once");
  static_assert(!kConfig.streamk || kConfig.persistent, "stream-K blocks loop over pieces of tiles");
  static_assert(!kConfig.parts || kConfig.streamk, "parts of tiles meet in a workspace");
  static_assert(!kConfig.pingpong || (kConfig.persistent && !kConfig.streamk && kConfig.consumers == 2),
                "ping-pong takes two consumers that loop over whole tiles");
  static_assert(kConfig.staging == 0 || (kConfig.epilogue == Epilogue::tma && kConfig.persistent && !kConfig.swap &&
                                         kConfig.tile_n % 64 == 0 && kConfig.tile_n > 64 * kConfig.staging),
                "a slice is one of several boxes of 64 columns");
};

}  // namespace warpsmith::device
