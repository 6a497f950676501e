// Memory between two inaccessible pages, with canaries in what is left over: an access past the guarded end faults, a
// write on the other side breaks a canary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace warpsmith {

class GuardedBuffer {
 public:
  // Which side of the data touches its guard page. end: data() is aligned to 2 bytes only. start: to a page.
  enum class Flush { start, end };

  GuardedBuffer() = default;
  // `slack_pages` (>= 1) of canaries lie on the other side; varying it varies the address. Throws EnvironmentError when
  // there is no memory.
  GuardedBuffer(std::size_t bytes, Flush flush, std::size_t slack_pages);
  GuardedBuffer(GuardedBuffer&& other) noexcept;
  GuardedBuffer& operator=(GuardedBuffer&& other) noexcept;
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;
  ~GuardedBuffer();

  std::uint8_t* data() const { return data_; }
  std::uint16_t* elements() const { return reinterpret_cast<std::uint16_t*>(data_); }
  std::size_t bytes() const { return bytes_; }

  // Where a canary was overwritten, in words ("12 bytes before the start"), or nothing.
  std::optional<std::string> broken_canary() const;

 private:
  std::uint8_t* mapping_ = nullptr;
  std::size_t mapping_bytes_ = 0;
  std::uint8_t* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace warpsmith
