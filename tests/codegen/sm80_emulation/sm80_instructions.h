// What src/device/ptx/ wraps for sm80 kernels, for the emulated grid: cp.async, ldmatrix, mma, remote loads,
// counters. The rest is
// sm90's. An asynchronous copy lands at once, or only when its thread waits for its group: what is read without a wait,
// or overwritten while it is read, gives wrong results.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "instructions.h"

namespace emulation {

// Global memory that a kernel may read; empty: anything.
struct Readable {
  const void* data;
  std::size_t bytes;
};
inline std::vector<Readable>& readable() {
  static std::vector<Readable> ranges;
  return ranges;
}

inline void check_source(const void* source, std::size_t bytes, std::size_t alignment) {
  const auto address = reinterpret_cast<std::uintptr_t>(source);
  if (address % alignment != 0) Grid::current().fail("a copy's source is not aligned");
  for (const Readable& range : readable()) {
    const auto first = reinterpret_cast<std::uintptr_t>(range.data);
    if (address >= first && address + bytes <= first + range.bytes) return;
  }
  if (!readable().empty()) Grid::current().fail("a copy reads outside the operands");
}

// What the lanes of a warp show one another for one instruction. A lane is at most one instruction ahead of another, so
// that two sets in turn are enough and the lanes meet once an instruction.
struct Exhibit {
  std::uint32_t words[2][32][6];
  unsigned uses[32] = {};
};
inline std::map<const Warp*, Exhibit>& exhibits() {
  static std::map<const Warp*, Exhibit> exhibits;
  return exhibits;
}
// Lets other warps run ahead, now and then.
inline void drift() {
  while (Grid::current().coin() && Grid::current().coin() && Grid::current().coin()) Grid::current().yield();
}
// Shows `count` words and returns those of all lanes.
inline const std::uint32_t (&show(const std::uint32_t* words, int count))[32][6] {
  Exhibit& shown = exhibits()[&warp()];
  auto& set = shown.words[shown.uses[lane()]++ % 2];
  for (int i = 0; i < count; ++i) set[lane()][i] = words[i];
  warp_meet();
  return set;
}

}  // namespace emulation

inline void __syncthreads() {
  emulation::Block& block = emulation::Grid::current().block();
  emulation::Grid::current().meet(block.named[0], static_cast<int>(32 * block.warps.size()), true);
}

namespace warpsmith::device {

// cp_async.cuh
template <int kBytes, int kFetch>
void cp_async(u32 target, const void* source, int valid, bool wanted) {
  if (!wanted) return;
  if (valid > 0) emulation::check_source(source, static_cast<std::size_t>(valid), kBytes);
  std::array<unsigned char, kBytes> bytes{};
  std::memcpy(bytes.data(), source, static_cast<std::size_t>(valid));
  unsigned char* const place = emulation::shared_memory(*Grid::current().block().cluster, target, kBytes);
  const auto land = [=] { std::memcpy(place, bytes.data(), kBytes); };
  if (Grid::current().coin()) {
    land();
  } else {
    Grid::current().fiber().open_group.push_back(land);
  }
}
inline void cp_async_commit() { tma_store_commit(); }
template <int kPending>
void cp_async_wait() {
  tma_store_wait_read<kPending>();
  emulation::drift();
}

// ldmatrix.cuh
template <bool kTranspose>
void load_matrices(u32 address, u32* r, u32 count) {
  emulation::drift();
  const auto& shown = emulation::show(&address, 1);
  const u32 lane = emulation::lane();
  for (u32 matrix = 0; matrix < count; ++matrix) {
    r[matrix] = 0;
    for (u32 e = 0; e < 2; ++e) {
      const u32 row = kTranspose ? 2 * (lane % 4) + e : lane / 4, column = kTranspose ? lane / 4 : 2 * (lane % 4) + e;
      const u32 line = shown[8 * matrix + row][0];
      if (line % 16 != 0) Grid::current().fail("a matrix row is not aligned to 16 bytes");
      r[matrix] |= static_cast<u32>(emulation::read_shared<u16>(line + 2 * column)) << 16 * e;
    }
  }
}
template <bool kTranspose>
void load_matrix_x4(u32 address, u32 (&r)[4]) {
  load_matrices<kTranspose>(address, r, 4);
}
template <bool kTranspose>
void load_matrix_x2(u32 address, u32& r0, u32& r1) {
  u32 r[2];
  load_matrices<kTranspose>(address, r, 2);
  r0 = r[0];
  r1 = r[1];
}

// matrix.cuh
template <Element kElement>
void mma_16x8x16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  const u32 words[6] = {a[0], a[1], a[2], a[3], b0, b1};
  const auto& shown = emulation::show(words, 6);
  const u32 lane = emulation::lane();
  for (u32 e = 0; e < 4; ++e) {
    const u32 row = lane / 4 + 8 * (e / 2), column = 2 * (lane % 4) + e % 2;
    for (u32 pair = 0; pair < 8; ++pair) {
      const FloatPair left = unpack<kElement>(shown[row % 8 * 4 + pair % 4][row / 8 + 2 * (pair / 4)]);
      const FloatPair right = unpack<kElement>(shown[column * 4 + pair % 4][4 + pair / 4]);
      d[e] += left.x * right.x + left.y * right.y;
    }
  }
}
template <Element kElement>
void mma_16x8x16(u32 (&d)[2], const u32 (&a)[4], u32 b0, u32 b1) {
  const FloatPair upper = unpack<kElement>(d[0]), lower = unpack<kElement>(d[1]);
  float sums[4] = {upper.x, upper.y, lower.x, lower.y};
  mma_16x8x16<kElement>(sums, a, b0, b1);
  d[0] = pack<kElement>(sums[0], sums[1]);
  d[1] = pack<kElement>(sums[2], sums[3]);
}

// remote.cuh
inline Vector4 load_remote(u32 address) { return emulation::read_shared<Vector4>(address); }

// counter.cuh
inline u32 count_arrival(u32* counter) {
  emulation::drift();
  return (*counter)++;
}
inline void clear_counter(u32* counter) { *counter = 0; }

}  // namespace warpsmith::device
