// A call of the library as one comparable value, its validity, and the Problem that it means.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>

#include "problem/problem.h"
#include "warpsmith/hgemm.h"

namespace warpsmith::library {

// All that a choice and a launch depend on, but for pointers and the values of alpha and beta. Compared and hashed as
// bytes: no padding, unused fields zero.
struct CallKey {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t lda = 0, ldb = 0, ldc = 0;                 // resolved: never 0 for "packed"
  std::int64_t stride_a = 0, stride_b = 0, stride_c = 0;  // 0 where batch_count is 1
  std::int64_t batch_count = 1;
  std::uint32_t flags = 0;  // a sum of CallFlags
  std::uint32_t zero = 0;

  bool operator==(const CallKey& other) const { return std::memcmp(this, &other, sizeof *this) == 0; }
};
static_assert(sizeof(CallKey) == 11 * sizeof(std::int64_t));

enum CallFlags : std::uint32_t {
  kCallTransposeA = 1,  // A is stored k x m
  kCallTransposeB = 2,  // B is stored n x k
  kCallBf16 = 4,
  kCallCompute16 = 8,
  kCallScaled = 16,   // not alpha = 1, beta = 0
  kCallAligned = 32,  // every operand (of every matrix of the batch) begins at a multiple of 16 bytes
};

inline constexpr std::uintptr_t kOperandAlign = 16;         // bytes, that kernels ask of their operands
inline constexpr std::int64_t kMaxCallProduct = 1LL << 62;  // no product of two sizes or strides reaches it
inline constexpr std::uint32_t kCallLayoutFlags = kCallTransposeA | kCallTransposeB;

inline bool known_enumerators(warpsmith_op_t op_a, warpsmith_op_t op_b, warpsmith_type_t type,
                              warpsmith_compute_t compute) {
  return (static_cast<unsigned>(op_a) | static_cast<unsigned>(op_b) | static_cast<unsigned>(type) |
          static_cast<unsigned>(compute)) <= 1;
}

inline std::uint32_t enumerator_flags(warpsmith_op_t op_a, warpsmith_op_t op_b, warpsmith_type_t type,
                                      warpsmith_compute_t compute) {
  return static_cast<std::uint32_t>(op_a) | static_cast<std::uint32_t>(op_b) << 1 |
         static_cast<std::uint32_t>(type) << 2 | static_cast<std::uint32_t>(compute) << 3;
}

inline std::uint64_t hash_of(const CallKey& key) {
  const auto* words = reinterpret_cast<const unsigned char*>(&key);
  std::uint64_t hash = 0x9e3779b97f4a7c15ULL;
  for (std::size_t i = 0; i < sizeof key; i += sizeof(std::uint64_t)) {
    std::uint64_t word;
    std::memcpy(&word, words + i, sizeof word);
    hash = (hash ^ word) * 0xff51afd7ed558ccdULL;
    hash ^= hash >> 32;
  }
  return hash;
}

// A refusal with its reason; the reason is a literal.
struct Refusal {
  warpsmith_status_t status = WARPSMITH_STATUS_INVALID_VALUE;
  const char* reason = "";
};

// Sizes, leading dimensions, strides and count of a key whose enumerators are known; nothing when all are fine.
std::optional<Refusal> check_sizes(const CallKey& key);

// Pointers of a call with elements in C: null, or not aligned to an element. `reads`: A and B are looked at at all.
inline std::optional<Refusal> check_pointers(const void* a, const void* b, const void* c, bool reads) {
  const auto bits = [](const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); };
  if (c == nullptr || (reads && (a == nullptr || b == nullptr))) {
    return Refusal{WARPSMITH_STATUS_INVALID_VALUE, "a, b or c is null, but its matrix has elements"};
  }
  if (((bits(c) | (reads ? bits(a) | bits(b) : 0)) & 1) != 0) {
    return Refusal{WARPSMITH_STATUS_INVALID_VALUE, "a, b and c must be aligned to 2 bytes"};
  }
  return std::nullopt;
}

// The key of a problem description, with leading dimensions of 0 resolved; flags without kCallScaled and kCallAligned.
// Refuses unknown enumerators, non-zero reserved fields and bad sizes.
std::optional<Refusal> key_of(const warpsmith_problem_t& problem, CallKey& key);

// One product of the call; nothing when its sizes are beyond what a Problem can hold (kMaxDimension, kMaxElements).
std::optional<Problem> problem_of(const CallKey& key);

// Whether the strides keep every matrix of the batch as aligned as the first.
bool strides_keep_alignment(const CallKey& key);

const char* phrase_of(warpsmith_status_t status);

}  // namespace warpsmith::library
