// Kernel pack: one file of compiled kernels with an index from a kernel's source to its cubin. Made without a GPU,
// mapped into memory where it is used. The index is checked when a pack is opened, each cubin when it is fetched.
//
// Layout, little-endian: header (kHeaderBytes), cubins one behind the other, metadata (JSON), index sorted by key. The
// header's last 32 bytes are the SHA-256 over the rest of it, the metadata and the index.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace warpsmith::library {

// Lower-case hexadecimal SHA-256 over architecture and source; independent of the launch, hence of sizes.
std::string kernel_key(std::string_view arch, std::string_view source);

// Collects cubins and writes the file.
class PackWriter {
 public:
  // metadata: a JSON object for people and for `warpsmith pack --list`.
  explicit PackWriter(nlohmann::json metadata) : metadata_(std::move(metadata)) {}

  // Precondition: `key` comes from kernel_key(). A second cubin of a key is ignored.
  void add(const std::string& key, std::string cubin) { cubins_.emplace(key, std::move(cubin)); }
  std::size_t size() const { return cubins_.size(); }

  // Whole or not at all. Error: environment.
  Status write(const std::filesystem::path& path) const;

 private:
  nlohmann::json metadata_;
  std::map<std::string, std::string> cubins_;  // by key
};

class Pack {
 public:
  // Error: environment when the file cannot be read; bad_input when it is no pack, of another format version, truncated
  // or altered. One line each, beginning with the path.
  static Result<Pack> open(const std::filesystem::path& path);

  Pack(Pack&& other) noexcept;
  Pack& operator=(Pack&&) = delete;
  Pack(const Pack&) = delete;
  Pack& operator=(const Pack&) = delete;
  ~Pack();

  bool contains(const std::string& key) const { return entry_of(key) != nullptr; }
  // The cubin. Nothing when the key is absent; error (bad_input) when its bytes have been altered.
  Result<std::optional<std::string>> find(const std::string& key) const;

  const nlohmann::json& metadata() const { return metadata_; }
  std::size_t size() const { return count_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  Pack() = default;
  Status parse();
  const unsigned char* entry_of(const std::string& key) const;

  std::filesystem::path path_;
  const unsigned char* bytes_ = nullptr;  // the mapping
  std::size_t file_bytes_ = 0;
  const unsigned char* index_ = nullptr;
  std::size_t count_ = 0;
  nlohmann::json metadata_;
};

}  // namespace warpsmith::library
