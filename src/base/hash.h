// Content hashes (SHA-256) for cache keys and identities.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace warpsmith {

// Lower-case hexadecimal SHA-256 of `bytes` (64 characters).
std::string sha256_hex(std::string_view bytes);

// First 64 bits of the SHA-256, for seeds.
std::uint64_t hash64(std::string_view bytes);

// Joins parts with their lengths, so that ("ab","c") and ("a","bc") hash differently.
class HashInput {
 public:
  HashInput& add(std::string_view part);
  std::string hex() const { return sha256_hex(buffer_); }

 private:
  std::string buffer_;
};

}  // namespace warpsmith
