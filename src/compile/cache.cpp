// Entries on disk: manifest, validation, and the rename that publishes.
#include "compile/cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/hash.h"

namespace warpsmith {

namespace {

namespace fs = std::filesystem;

constexpr int kManifestVersion = 1;
constexpr auto kStaleDraft = std::chrono::hours(24);

fs::path entry_path(const fs::path& cache, const std::string& key) { return cache / key.substr(0, 2) / key; }

Error cache_error(const char* what, const fs::path& path, int error) {
  return environment_error(fmt::format("compile cache: cannot {} {}: {}", what, path.string(), std::strerror(error)));
}

Status sync(const fs::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return cache_error("open", path, errno);
  const int result = fsync(fd);
  const int error = errno;
  close(fd);
  if (result != 0) return cache_error("write", path, error);
  return ok_status();
}

// A compiler's log may quote bytes that are not UTF-8.
std::string to_text(const nlohmann::json& json) {
  return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Drafts of processes that were killed.
void remove_stale_drafts(const fs::path& drafts) {
  std::error_code error;
  for (const auto& draft : fs::directory_iterator(drafts, error)) {
    const auto written = fs::last_write_time(draft.path(), error);
    if (!error && fs::file_time_type::clock::now() - written > kStaleDraft) fs::remove_all(draft.path(), error);
  }
}

}  // namespace

Result<EntryDraft> EntryDraft::create(const fs::path& cache) {
  const fs::path drafts = cache / "drafts";
  std::error_code error;
  fs::create_directories(drafts, error);
  if (error) return cache_error("create", drafts, error.value());
  remove_stale_drafts(drafts);
  std::string name = (drafts / "XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) return cache_error("create a directory in", drafts, errno);
  return EntryDraft(name);
}

EntryDraft::~EntryDraft() {
  if (path_.empty()) return;
  std::error_code error;
  fs::remove_all(path_, error);
}

std::optional<Artifact> load_entry(const fs::path& cache, const std::string& key, const EntryNames& names,
                                   const std::string& source) {
  const fs::path entry = entry_path(cache, key);
  const Result<std::string> manifest = read_file(entry / "manifest.json");
  if (!manifest.ok()) return std::nullopt;
  const nlohmann::json json = nlohmann::json::parse(*manifest, nullptr, false);
  if (!json.is_object() || !json.contains("facts") || !json.contains("facts_sha256")) return std::nullopt;
  const nlohmann::json& facts = json["facts"];
  if (json["facts_sha256"] != sha256_hex(to_text(facts))) return std::nullopt;
  if (facts.value("version", 0) != kManifestVersion || facts.value("key", "") != key) return std::nullopt;
  const Result<std::string> binary = read_file(entry / names.binary);
  const Result<std::string> text = read_file(entry / names.source);
  if (!binary.ok() || !text.ok() || *text != source) return std::nullopt;
  if (facts.value("binary_sha256", "") != sha256_hex(*binary)) return std::nullopt;
  Artifact artifact;
  artifact.binary = entry / names.binary;
  artifact.source = entry / names.source;
  artifact.key = key;
  artifact.resources = facts.at("resources").get<ResourceReport>();
  artifact.log = facts.at("log").get<std::string>();
  artifact.seconds = facts.at("seconds").get<double>();
  artifact.from_cache = true;
  return artifact;
}

Result<Artifact> store_entry(const fs::path& cache, EntryDraft draft, const EntryNames& names,
                             const std::string& source, const Artifact& made) {
  const Result<std::string> binary = read_file(draft.path() / names.binary);
  if (!binary.ok()) return binary.error();
  const nlohmann::json facts = {
      {"version", kManifestVersion}, {"key", made.key}, {"binary_sha256", sha256_hex(*binary)},
      {"resources", made.resources}, {"log", made.log}, {"seconds", made.seconds}};
  const nlohmann::json manifest = {{"facts", facts}, {"facts_sha256", sha256_hex(to_text(facts))}};
  Status written = write_file_atomic(draft.path() / "manifest.json", to_text(manifest));
  if (written.ok()) written = sync(draft.path() / names.binary);
  if (written.ok()) written = sync(draft.path());
  if (!written.ok()) return written.error();

  const fs::path entry = entry_path(cache, made.key);
  std::error_code error;
  fs::create_directories(entry.parent_path(), error);
  if (error) return cache_error("create", entry.parent_path(), error.value());
  // A directory cannot replace a full one: a good entry in the way wins, a bad one is moved aside.
  constexpr int kAttempts = 8;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (rename(draft.path().c_str(), entry.c_str()) == 0) {
      draft.release();
      static_cast<void>(sync(entry.parent_path()));
      Artifact artifact = made;
      artifact.binary = entry / names.binary;
      artifact.source = entry / names.source;
      return artifact;
    }
    if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) return cache_error("rename into", entry, errno);
    if (std::optional<Artifact> first = load_entry(cache, made.key, names, source)) return *first;
    Result<EntryDraft> aside = EntryDraft::create(cache);
    if (!aside.ok()) return aside.error();
    rename(entry.c_str(), (aside->path() / "bad").c_str());  // lost races show at the next attempt
  }
  return cache_error("replace", entry, EBUSY);
}

}  // namespace warpsmith
