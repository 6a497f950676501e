// SHA-256 through OpenSSL.
#include "base/hash.h"

#include <openssl/evp.h>

#include <array>
#include <stdexcept>

namespace warpsmith {

namespace {

std::array<unsigned char, 32> sha256(std::string_view bytes) {
  std::array<unsigned char, 32> digest{};
  unsigned int length = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &length, EVP_sha256(), nullptr) != 1 || length != 32) {
    throw std::runtime_error("SHA-256 failed");
  }
  return digest;
}

}  // namespace

std::string sha256_hex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(64);
  for (const unsigned char byte : sha256(bytes)) {
    hex.push_back(kDigits[byte >> 4]);
    hex.push_back(kDigits[byte & 15]);
  }
  return hex;
}

std::uint64_t hash64(std::string_view bytes) {
  const auto digest = sha256(bytes);
  std::uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value = value << 8 | digest[static_cast<std::size_t>(i)];
  return value;
}

HashInput& HashInput::add(std::string_view part) {
  buffer_ += std::to_string(part.size());
  buffer_ += ':';
  buffer_ += part;
  return *this;
}

}  // namespace warpsmith
