// Writing, mapping and checking kernel packs.
#include "library/pack.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/file.h"
#include "base/hash.h"

namespace warpsmith::library {

namespace {

// Header: magic[8], version u32, entries u32, metadata offset u64, metadata bytes u64, file bytes u64, SHA-256[32].
constexpr std::string_view kMagic = "WSPACK\r\n";  // line ends that a text-mode copy would change
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kDigestBytes = 32;
constexpr std::size_t kHeaderBytes = 8 + 4 + 4 + 8 + 8 + 8 + kDigestBytes;
constexpr std::size_t kHashedHeaderBytes = kHeaderBytes - kDigestBytes;
// Entry: key[32], offset u64, bytes u64, SHA-256 of the cubin[32].
constexpr std::size_t kEntryBytes = kDigestBytes + 8 + 8 + kDigestBytes;

template <class T>
void put(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof value; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

template <class T>
T get(const unsigned char* at) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i) value |= static_cast<T>(static_cast<T>(at[i]) << (8 * i));
  return value;
}

int digit_of(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

std::string binary(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(digit_of(hex[i]) << 4 | digit_of(hex[i + 1]));
  }
  return bytes;
}

bool is_key(const std::string& key) {
  return key.size() == 2 * kDigestBytes && key.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::string_view view(const unsigned char* at, std::size_t bytes) { return {reinterpret_cast<const char*>(at), bytes}; }

}  // namespace

std::string kernel_key(std::string_view arch, std::string_view source) {
  return HashInput().add(arch).add(source).hex();
}

Status PackWriter::write(const std::filesystem::path& path) const {
  std::string cubins, index;
  for (const auto& [key, cubin] : cubins_) {
    index += binary(key);
    put<std::uint64_t>(index, kHeaderBytes + cubins.size());
    put<std::uint64_t>(index, cubin.size());
    index += binary(sha256_hex(cubin));
    cubins += cubin;
  }
  const std::string metadata = metadata_.dump();
  std::string header(kMagic);
  put<std::uint32_t>(header, kVersion);
  put<std::uint32_t>(header, static_cast<std::uint32_t>(cubins_.size()));
  put<std::uint64_t>(header, kHeaderBytes + cubins.size());
  put<std::uint64_t>(header, metadata.size());
  put<std::uint64_t>(header, kHeaderBytes + cubins.size() + metadata.size() + index.size());
  header += binary(sha256_hex(header + metadata + index));
  return write_file_atomic(path, header + cubins + metadata + index);
}

Pack::Pack(Pack&& other) noexcept
    : path_(std::move(other.path_)),
      bytes_(std::exchange(other.bytes_, nullptr)),
      file_bytes_(other.file_bytes_),
      index_(other.index_),
      count_(other.count_),
      metadata_(std::move(other.metadata_)) {}

Pack::~Pack() {
  if (bytes_ != nullptr) munmap(const_cast<unsigned char*>(bytes_), file_bytes_);
}

Result<Pack> Pack::open(const std::filesystem::path& path) {
  const auto unreadable = [&](int error) {
    return environment_error(fmt::format("{}: cannot be read: {}", path.string(), std::strerror(error)));
  };
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return unreadable(errno);
  struct stat facts {};
  if (fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    close(file);
    return bad_input(fmt::format("{}: is no kernel pack: not a regular file", path.string()));
  }
  Pack pack;
  pack.path_ = path;
  pack.file_bytes_ = static_cast<std::size_t>(facts.st_size);
  if (pack.file_bytes_ < kHeaderBytes) {
    close(file);
    return bad_input(fmt::format("{}: is no kernel pack: {} bytes", path.string(), pack.file_bytes_));
  }
  void* mapped = mmap(nullptr, pack.file_bytes_, PROT_READ, MAP_PRIVATE, file, 0);
  const int error = errno;
  close(file);
  if (mapped == MAP_FAILED) return unreadable(error);
  pack.bytes_ = static_cast<const unsigned char*>(mapped);
  if (const Status status = pack.parse(); !status) {
    return Error{status.error().kind, fmt::format("{}: {}", path.string(), status.error().message)};
  }
  return pack;
}

Status Pack::parse() {
  if (view(bytes_, kMagic.size()) != kMagic) return bad_input("is no kernel pack");
  const auto version = get<std::uint32_t>(bytes_ + 8);
  if (version != kVersion) {
    return bad_input(fmt::format("is a kernel pack of format {}; this library reads {}", version, kVersion));
  }
  count_ = get<std::uint32_t>(bytes_ + 12);
  const auto metadata_offset = get<std::uint64_t>(bytes_ + 16), metadata_bytes = get<std::uint64_t>(bytes_ + 24);
  const std::uint64_t file_bytes = get<std::uint64_t>(bytes_ + 32), index_bytes = count_ * kEntryBytes;
  if (file_bytes != file_bytes_) {
    return bad_input(fmt::format("is truncated or altered: {} bytes instead of {}", file_bytes_, file_bytes));
  }
  // Each term by itself first, so that no sum wraps.
  if (metadata_offset < kHeaderBytes || metadata_offset > file_bytes || metadata_bytes > file_bytes ||
      index_bytes > file_bytes || metadata_offset + metadata_bytes + index_bytes != file_bytes) {
    return bad_input("is altered: its parts do not add up");
  }
  std::string hashed(view(bytes_, kHashedHeaderBytes));
  hashed += view(bytes_ + metadata_offset, metadata_bytes + index_bytes);
  if (binary(sha256_hex(hashed)) != view(bytes_ + kHashedHeaderBytes, kDigestBytes)) {
    return bad_input("is altered: the checksum of its index does not match");
  }
  metadata_ = nlohmann::json::parse(view(bytes_ + metadata_offset, metadata_bytes), nullptr, false);
  if (!metadata_.is_object()) return bad_input("is altered: its metadata is no JSON object");
  index_ = bytes_ + metadata_offset + metadata_bytes;
  for (std::size_t i = 0; i < count_; ++i) {
    const unsigned char* entry = index_ + i * kEntryBytes;
    const auto offset = get<std::uint64_t>(entry + kDigestBytes), bytes = get<std::uint64_t>(entry + kDigestBytes + 8);
    if (offset < kHeaderBytes || offset > metadata_offset || bytes > metadata_offset - offset) {
      return bad_input("is altered: a cubin lies outside");
    }
  }
  return ok_status();
}

const unsigned char* Pack::entry_of(const std::string& key) const {
  if (!is_key(key)) return nullptr;
  const std::string wanted = binary(key);
  std::size_t begin = 0, end = count_;
  while (begin < end) {
    const std::size_t middle = begin + (end - begin) / 2;
    const unsigned char* entry = index_ + middle * kEntryBytes;
    const int order = std::memcmp(entry, wanted.data(), kDigestBytes);
    if (order == 0) return entry;
    if (order < 0)
      begin = middle + 1;
    else
      end = middle;
  }
  return nullptr;
}

Result<std::optional<std::string>> Pack::find(const std::string& key) const {
  const unsigned char* entry = entry_of(key);
  if (entry == nullptr) return std::optional<std::string>();
  const auto offset = get<std::uint64_t>(entry + kDigestBytes), bytes = get<std::uint64_t>(entry + kDigestBytes + 8);
  std::string cubin(view(bytes_ + offset, bytes));
  if (binary(sha256_hex(cubin)) != view(entry + kDigestBytes + 16, kDigestBytes)) {
    return bad_input(fmt::format("{}: the kernel {} is altered: its checksum does not match", path_.string(), key));
  }
  return std::optional(std::move(cubin));
}

}  // namespace warpsmith::library
