// mmap with PROT_NONE pages at both ends.
#include "evaluate/cpu/guarded_buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/result.h"

namespace warpsmith {

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::uint8_t kCanary = 0xa7;

}  // namespace

GuardedBuffer::GuardedBuffer(std::size_t bytes, Flush flush, std::size_t slack_pages) : bytes_(bytes) {
  const std::size_t open_bytes = (bytes + kPage - 1) / kPage * kPage + slack_pages * kPage;
  mapping_bytes_ = open_bytes + 2 * kPage;
  void* mapping = mmap(nullptr, mapping_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED)
    throw EnvironmentError(fmt::format("cannot map {} bytes: {}", bytes, std::strerror(errno)));
  mapping_ = static_cast<std::uint8_t*>(mapping);
  std::uint8_t* begin = mapping_ + kPage;
  if (mprotect(begin, open_bytes, PROT_READ | PROT_WRITE) != 0) {
    const int code = errno;
    munmap(mapping_, mapping_bytes_);
    throw EnvironmentError(fmt::format("cannot map {} bytes: {}", bytes, std::strerror(code)));
  }
  data_ = flush == Flush::end ? begin + open_bytes - bytes : begin;
  std::fill(begin, data_, kCanary);
  std::fill(data_ + bytes, begin + open_bytes, kCanary);
}

GuardedBuffer::GuardedBuffer(GuardedBuffer&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapping_bytes_(std::exchange(other.mapping_bytes_, 0)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

GuardedBuffer& GuardedBuffer::operator=(GuardedBuffer&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mapping_bytes_, other.mapping_bytes_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

GuardedBuffer::~GuardedBuffer() {
  if (mapping_ != nullptr) munmap(mapping_, mapping_bytes_);
}

std::optional<std::string> GuardedBuffer::broken_canary() const {
  if (mapping_ == nullptr) return std::nullopt;
  const auto broken = [](std::uint8_t byte) { return byte != kCanary; };
  const std::uint8_t* begin = mapping_ + kPage;
  const std::uint8_t* end = mapping_ + mapping_bytes_ - kPage;
  const std::uint8_t* after = data_ + bytes_;
  if (const auto* at = std::find_if(after, end, broken); at != end) {
    return fmt::format("{} bytes past the end", at - after);
  }
  const auto last =
      std::find_if(std::reverse_iterator(data_), std::reverse_iterator(const_cast<std::uint8_t*>(begin)), broken);
  if (last.base() != begin) return fmt::format("{} bytes before the start", data_ - last.base() + 1);
  return std::nullopt;
}

}  // namespace warpsmith
