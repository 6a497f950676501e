// What src/device/ptx/ wraps, for the emulated grid: same names, same meaning, in plain C++. Takes the place of those
// headers, so that all other device code is compiled as it is.
#pragma once

#include <algorithm>
#include <array>

#include "emulator.h"

#define __device__
#define __host__
#define __shared__
#define __forceinline__ inline
#define __align__(bytes)

namespace emulation {

struct ThreadIndex {
  struct {
    operator unsigned() const { return Grid::current().fiber().thread; }
  } x;
};
struct BlockIndex {
  struct {
    operator unsigned() const { return Grid::current().block().index; }
  } x;
};
struct GridSize {
  struct {
    operator unsigned() const { return Grid::current().blocks(); }
  } x;
};

inline Warp& warp() { return Grid::current().block().warps[Grid::current().fiber().thread / 32]; }
inline unsigned lane() { return Grid::current().fiber().thread % 32; }
inline void warp_meet() { Grid::current().meet(warp().meeting, 32, true); }
inline void warpgroup_meet() {
  Grid::current().meet(Grid::current().block().warpgroups[Grid::current().fiber().thread / 128], 128, true);
}
template <class T>
T read_shared(std::uint32_t address) {
  T value;
  std::memcpy(&value, shared_memory(*Grid::current().block().cluster, address, sizeof(T)), sizeof(T));
  return value;
}
template <class T>
void write_shared(std::uint32_t address, const T& value) {
  std::memcpy(shared_memory(*Grid::current().block().cluster, address, sizeof(T)), &value, sizeof(T));
}
// Bits 4 and up are exchanged with bits 7 and up, as far as the swizzle's width in bytes says.
inline std::uint32_t swizzled(std::uint32_t offset, int width) {
  const std::uint32_t mask = width <= 16 ? 0 : static_cast<std::uint32_t>(width) / 16 - 1;
  return offset ^ (offset >> 7 & mask) << 4;
}

}  // namespace emulation

static const emulation::ThreadIndex threadIdx;
static const emulation::BlockIndex blockIdx;
static const emulation::GridSize gridDim;

inline unsigned __float_as_uint(float value) {
  unsigned bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline float __uint_as_float(unsigned bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline float __fdividef(float x, float y) { return x / y; }
inline void __syncwarp() { emulation::warp_meet(); }
inline void __trap() { emulation::Grid::current().fail("trap"); }
inline unsigned __shfl_xor_sync(unsigned, unsigned word, int mask) {
  emulation::warp().words[emulation::lane()] = word;
  emulation::warp_meet();
  const unsigned received = emulation::warp().words[emulation::lane() ^ static_cast<unsigned>(mask)];
  emulation::warp_meet();
  return received;
}

namespace warpsmith::device {

using emulation::Grid;

// types.cuh
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
enum class Element { f16, bf16 };
struct alignas(16) Vector4 {
  u32 x, y, z, w;
};
constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
constexpr int round_up(int a, int b) { return ceil_div(a, b) * b; }
constexpr int min(int a, int b) { return a < b ? a : b; }
constexpr int max(int a, int b) { return a > b ? a : b; }
inline u32 shared_address(const void*) { return Grid::current().block().rank << emulation::kRankShift; }
inline bool is_elected_lane() { return emulation::lane() == 0; }
inline int warp_uniform(int value) { return value; }

// convert.cuh
template <Element kElement>
u16 to_element(float value) {
  return kElement == Element::f16 ? emulation::float_to_half(value) : emulation::float_to_bfloat(value);
}
template <Element kElement>
float from_element(u16 bits) {
  return kElement == Element::f16 ? emulation::half_to_float(bits) : emulation::bfloat_to_float(bits);
}
template <Element kElement>
u32 pack(float low, float high) {
  return to_element<kElement>(low) | static_cast<u32>(to_element<kElement>(high)) << 16;
}
struct FloatPair {
  float x, y;
};
template <Element kElement>
FloatPair unpack(u32 word) {
  return {from_element<kElement>(static_cast<u16>(word)), from_element<kElement>(static_cast<u16>(word >> 16))};
}
inline Vector4 load_shared(u32 address) { return emulation::read_shared<Vector4>(address); }
inline void store_shared(u32 address, Vector4 v) { emulation::write_shared(address, v); }
inline void store_shared(u32 address, float x, float y) { emulation::write_shared(address, FloatPair{x, y}); }
inline void store_shared(u32 address, float x) { emulation::write_shared(address, x); }

// load_global.cuh
enum class LoadHint { keep, stream, evict_first };
template <int kBytes, LoadHint, int>
void load_global(const void* source, bool valid, u64, u32* words) {
  if (valid && reinterpret_cast<std::uintptr_t>(source) % kBytes != 0) Grid::current().fail("a load is not aligned");
  std::memset(words, 0, kBytes);
  if (valid) std::memcpy(words, source, kBytes);
}
inline u32 load_global_pair(const void* source, bool both, bool low, bool high) {
  if (both && reinterpret_cast<std::uintptr_t>(source) % 4 != 0) Grid::current().fail("a load is not aligned");
  u16 pair[2] = {0, 0};
  const auto* elements = static_cast<const u16*>(source);
  if (both || low) std::memcpy(pair, elements, 2);
  if (both || high) std::memcpy(pair + 1, elements + 1, 2);
  return pair[0] | static_cast<u32>(pair[1]) << 16;
}

// matrix.cuh, stmatrix.cuh: lane l holds row l / 4, columns 2 (l % 4) + {0, 1} of an 8 x 8 matrix.
inline u32 transpose_matrix(u32 word) {
  emulation::warp().words[emulation::lane()] = word;
  emulation::warp_meet();
  const u32 column = emulation::lane() / 4, row = 2 * (emulation::lane() % 4);
  u32 transposed = 0;
  for (u32 e = 0; e < 2; ++e) {
    const u32 held = emulation::warp().words[4 * (row + e) + column / 2];
    transposed |= (held >> 16 * (column % 2) & 0xffff) << 16 * e;
  }
  emulation::warp_meet();
  return transposed;
}
inline void compute_here(int&) {}
template <bool kTranspose, u32 kCount>
void store_matrices(u32 address, const u32 (&words)[kCount]) {
  emulation::warp().addresses[emulation::lane()] = address;
  emulation::warp_meet();
  for (u32 matrix = 0; matrix < kCount; ++matrix) {
    for (u32 e = 0; e < 2; ++e) {
      const u32 row = emulation::lane() / 4, column = 2 * (emulation::lane() % 4) + e;
      const u32 line = emulation::warp().addresses[8 * matrix + (kTranspose ? column : row)];
      if (line % 16 != 0) Grid::current().fail("a matrix row is not aligned to 16 bytes");
      emulation::write_shared(line + 2 * (kTranspose ? row : column), static_cast<u16>(words[matrix] >> 16 * e));
    }
  }
  emulation::warp_meet();
}
template <bool kTranspose>
void store_matrix_x4(u32 address, u32 r0, u32 r1, u32 r2, u32 r3) {
  store_matrices<kTranspose>(address, {r0, r1, r2, r3});
}
template <bool kTranspose>
void store_matrix_x2(u32 address, u32 r0, u32 r1) {
  store_matrices<kTranspose>(address, {r0, r1});
}

// barrier.cuh
inline void named_barrier_sync(int id, int threads) {
  Grid::current().meet(Grid::current().block().named[id], threads, true);
}
inline void named_barrier_arrive(int id, int threads) {
  Grid::current().meet(Grid::current().block().named[id], threads, false);
}
inline u32 cluster_rank() { return Grid::current().block().rank; }
inline void cluster_arrive() {
  emulation::Cluster& cluster = *Grid::current().block().cluster;
  emulation::Fiber& fiber = Grid::current().fiber();
  if (fiber.arrived) Grid::current().fail("a thread arrives at the cluster's barrier twice");
  fiber.arrived = true;
  fiber.cluster_generation = cluster.meeting.generation;
  ++cluster.meeting.here;
}
inline void cluster_arrive_relaxed() { cluster_arrive(); }
inline void cluster_wait() {
  emulation::Cluster& cluster = *Grid::current().block().cluster;
  emulation::Fiber& fiber = Grid::current().fiber();
  if (!fiber.arrived) Grid::current().fail("a thread waits at the cluster's barrier without having arrived");
  const unsigned generation = fiber.cluster_generation;
  // Threads that end meanwhile are waited for no longer.
  Grid::current().wait_until([&] {
    if (cluster.meeting.generation == generation && cluster.meeting.here == cluster.alive) {
      cluster.meeting.here = 0;
      ++cluster.meeting.generation;
    }
    return cluster.meeting.generation != generation;
  });
  fiber.arrived = false;
}
inline void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}
inline u32 map_to_rank(u32 address, u32 rank) {
  return (address & ((1u << emulation::kRankShift) - 1)) | rank << emulation::kRankShift;
}

// mbarrier.cuh
inline void mbarrier_init(u32 barrier, u32 arrivals) {
  const int count = static_cast<int>(arrivals);
  Grid::current().block().barriers[map_to_rank(barrier, 0)] = {count, count, 0, 0};
}
inline void mbarrier_init_fence() {}
inline emulation::AsyncBarrier& barrier_at(u32 address) {
  return emulation::async_barrier(*Grid::current().block().cluster, address);
}
inline void mbarrier_arrive(u32 barrier) { emulation::arrive(barrier_at(barrier), 1, 0); }
inline void mbarrier_arrive_remote(u32 barrier, u32 rank, bool wanted) {
  if (wanted) emulation::arrive(barrier_at(map_to_rank(barrier, rank)), 1, 0);
}
inline void mbarrier_arrive_expect(u32 barrier, u32 bytes) { emulation::arrive(barrier_at(barrier), 1, bytes); }
// Like the instruction it sees only the parity of the current phase.
enum class WaitScope { block, cluster };
template <WaitScope kScope = WaitScope::block>
void mbarrier_wait(u32 barrier, u32 parity) {
  Grid::current().wait_until([&] { return barrier_at(barrier).phase != parity; });
  if (Grid::current().coin()) Grid::current().yield();
}

// store_async.cuh: lands later, and counts itself then.
inline void store_async(u32 address, u32 barrier, float x, float y, float z, float w) {
  const std::array<float, 4> v = {x, y, z, w};
  emulation::Cluster* cluster = Grid::current().block().cluster;
  if (address >> emulation::kRankShift != barrier >> emulation::kRankShift) {
    Grid::current().fail("an asynchronous store and its barrier are in different blocks");
  }
  Grid::current().land_later([=] {
    std::memcpy(emulation::shared_memory(*cluster, address, sizeof v), &v, sizeof v);
    emulation::arrive(emulation::async_barrier(*cluster, barrier), 0, -static_cast<std::int64_t>(sizeof v));
  });
}

// clock.cuh
inline void spin_cycles(u32) { Grid::current().yield(); }

// grid.cuh
inline void grid_dependency_wait() {}
inline void grid_launch_dependents() {}
template <int kRegisters>
void release_registers_to() {}
template <int kRegisters>
void claim_registers_up_to() {}

// tma.cuh
struct TensorMap {
  u16* base = nullptr;
  int columns = 0, rows = 0, ld = 0, box_columns = 0, box_rows = 0, swizzle_bytes = 0;
};
enum class Evict { normal, first, last };
inline void prefetch_tensor_map(const TensorMap*) {}

// Visits the elements of a box that starts at `address`: row and column of the tensor, address in shared memory.
template <class Visit>
void for_box(const TensorMap& map, u32 address, int column, int row, Visit visit) {
  if (address % 128 != 0) Grid::current().fail("a box is not aligned");
  for (int r = 0; r < map.box_rows; ++r) {
    for (int i = 0; i < map.box_columns; ++i) {
      const u32 offset = map_to_rank(address, 0) + static_cast<u32>(2 * (r * map.box_columns + i));
      visit(row + r, column + i,
            map_to_rank(emulation::swizzled(offset, map.swizzle_bytes), address >> emulation::kRankShift));
    }
  }
}
template <Evict kEvict>
void tma_load_multicast(u32 target, const TensorMap* map, u32 barrier, int column, int row, u16 mask) {
  emulation::Cluster* cluster = Grid::current().block().cluster;
  Grid::current().land_later([=] {
    for (u32 rank = 0; rank < cluster->blocks.size(); ++rank) {
      if ((mask >> rank & 1) == 0) continue;
      for_box(*map, map_to_rank(target, rank), column, row, [&](int y, int x, u32 address) {
        const bool inside = y < map->rows && x < map->columns;
        const u16 value = inside ? map->base[static_cast<std::int64_t>(y) * map->ld + x] : 0;
        std::memcpy(emulation::shared_memory(*cluster, address, 2), &value, 2);
      });
      emulation::arrive(emulation::async_barrier(*cluster, map_to_rank(barrier, rank)), 0,
                        -2 * map->box_rows * map->box_columns);
    }
  });
}
template <Evict kEvict>
void tma_load(u32 target, const TensorMap* map, u32 barrier, int column, int row) {
  tma_load_multicast<kEvict>(target, map, barrier, column, row, static_cast<u16>(1u << cluster_rank()));
}
inline void tma_store(const TensorMap* map, u32 source, int column, int row) {
  emulation::Cluster* cluster = Grid::current().block().cluster;
  Grid::current().fiber().open_group.push_back([=] {
    for_box(*map, source, column, row, [&](int y, int x, u32 address) {
      if (y >= map->rows || x >= round_up(map->columns, 8)) return;  // in units of 16 bytes, as the hardware
      std::memcpy(map->base + static_cast<std::int64_t>(y) * map->ld + x,
                  emulation::shared_memory(*cluster, address, 2), 2);
    });
  });
}
inline void tma_store_commit() {
  emulation::Fiber& fiber = Grid::current().fiber();
  fiber.groups.push_back(std::move(fiber.open_group));
  fiber.open_group.clear();
}
template <int kPending = 0>
void tma_store_wait_read() {
  auto& groups = Grid::current().fiber().groups;
  for (; groups.size() > kPending; groups.pop_front()) {
    for (const auto& store : groups.front()) store();
  }
}
inline void fence_async_shared() {}

// global.cuh
inline Vector4 load_relaxed(const void* address) {
  if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0) Grid::current().fail("a load is not aligned");
  Vector4 v;
  std::memcpy(&v, address, sizeof v);
  if (v.x == 0 || v.y == 0 || v.z == 0 || v.w == 0) Grid::current().yield();  // to be asked again
  return v;
}
inline void store_relaxed(void* address, Vector4 v) {
  if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0) Grid::current().fail("a store is not aligned");
  std::memcpy(address, &v, sizeof v);
  Grid::current().moved();
}
inline u32 nonzero_bits(float value) { return std::max(__float_as_uint(value), 1u); }

// wgmma.cuh: done at once, once the whole warpgroup is there.
inline void wgmma_fence() { emulation::warpgroup_meet(); }
inline void wgmma_commit() {}
template <int kPending>
void wgmma_wait() {
  emulation::warpgroup_meet();
}
template <int kCount>
void pin_registers(float (&)[kCount]) {}
template <int kCount>
void pin_registers(u32 (&)[kCount]) {}
inline u64 matrix_descriptor(u32 address, int leading_bytes, int stride_bytes, int swizzle_bytes) {
  const u64 mode = swizzle_bytes == 128 ? 1 : swizzle_bytes == 64 ? 2 : swizzle_bytes == 32 ? 3 : 0;
  return static_cast<u64>((address & 0x3ffff) >> 4) | static_cast<u64>(leading_bytes >> 4) << 16 |
         static_cast<u64>(stride_bytes >> 4) << 32 | mode << 62;
}
// Element (row of M or N, k) of the operand that a descriptor names.
template <Element kElement>
float operand_element(u64 descriptor, bool mn_major, u32 row, u32 k) {
  const auto field = [&](int shift) { return static_cast<u32>(descriptor >> shift & 0x3fff) << 4; };
  const u32 mode = static_cast<u32>(descriptor >> 62), width = mode == 1 ? 128 : mode == 2 ? 64 : mode == 3 ? 32 : 16;
  const u32 atom = width / 2;  // elements
  const u32 offset = mn_major ? row / atom * field(16) + k / 8 * field(32) + k % 8 * width + row % atom * 2
                              : row / 8 * field(32) + row % 8 * width + k * 2;
  const u32 address = emulation::swizzled(field(0) + offset, static_cast<int>(width));
  return from_element<kElement>(emulation::read_shared<u16>(map_to_rank(address, cluster_rank())));
}
template <int kN>
struct Wgmma {
  template <Element kElement, bool kTransposeA, bool kTransposeB>
  static void issue(float (&d)[kN / 2], u64 a, u64 b, u32 accumulate) {
    const u32 thread = threadIdx.x % 128;
    for (u32 half = 0; half < 2; ++half) {
      const u32 row = 16 * (thread / 32) + thread % 32 / 4 + 8 * half;
      float row_of_a[16];
      for (u32 k = 0; k < 16; ++k) row_of_a[k] = operand_element<kElement>(a, kTransposeA, row, k);
      for (u32 i = 0; i < kN / 4; ++i) {
        const u32 column = 8 * (i / 2) + 2 * (thread % 4) + i % 2;
        float& sum = d[4 * (i / 2) + 2 * half + i % 2];
        if (accumulate == 0) sum = 0;
        for (u32 k = 0; k < 16; ++k) sum += row_of_a[k] * operand_element<kElement>(b, kTransposeB, column, k);
      }
    }
  }
};
// Rounded once an instruction; in what steps the hardware sums is not told.
template <int kN>
struct WgmmaF16 {
  template <Element kElement, bool kTransposeA, bool kTransposeB>
  static void issue(u32 (&d)[kN / 4], u64 a, u64 b, u32 accumulate) {
    float sums[kN / 2];
    for (u32 i = 0; i < kN / 4; ++i) {
      const FloatPair pair = unpack<kElement>(d[i]);
      sums[2 * i] = pair.x;
      sums[2 * i + 1] = pair.y;
    }
    Wgmma<kN>::template issue<kElement, kTransposeA, kTransposeB>(sums, a, b, accumulate);
    for (u32 i = 0; i < kN / 4; ++i) d[i] = pack<kElement>(sums[2 * i], sums[2 * i + 1]);
  }
};

}  // namespace warpsmith::device
