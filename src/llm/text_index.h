// Documents and code by their words: SQLite's full-text search (FTS5), ranked by BM25. One file that a user fills with
// `warpsmith index`, or a small one in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warpsmith::llm {

inline constexpr std::size_t kMaxIndexedFileBytes = 2 << 20;
inline constexpr std::size_t kMaxPassageBytes = 3000;

struct Passage {
  std::string place;  // "docs/x.md:12", the file and its first line
  std::string text;
  double score = 0;  // larger: nearer to the query
};

struct IndexReport {
  std::int64_t files = 0;      // read now
  std::int64_t unchanged = 0;  // known already, with this content
  std::int64_t skipped = 0;    // no text, too large, of an ending that holds none
  std::int64_t passages = 0;   // of the files that were read
};

class TextIndex {
 public:
  // Error: bad_input for a file that is something else; environment.
  static Result<std::unique_ptr<TextIndex>> open(const std::filesystem::path& path);
  static std::unique_ptr<TextIndex> in_memory();
  virtual ~TextIndex() = default;

  // A file, or all below a directory: Markdown, plain text, C++, CUDA, Python, PTX. A file that has changed replaces
  // what was known of it. Links are not followed. Error: bad_input for a path that is not there; environment.
  virtual Result<IndexReport> add(const std::filesystem::path& path,
                                  const std::function<void(const std::string&)>& on_file) = 0;
  virtual Status add_text(const std::string& place, std::string_view text) = 0;
  // What is known of files below `path`. Returns how many they were.
  virtual Result<std::int64_t> remove(const std::filesystem::path& path) = 0;

  // The passages that share the rarest words with `query`, best first; no more than `per_file` of one file. Any text is
  // a query.
  virtual Result<std::vector<Passage>> search(std::string_view query, std::size_t count, std::size_t per_file = 2) = 0;
  // Every passage, by file.
  virtual Status each(const std::function<void(const Passage&)>& visit) = 0;
  virtual Result<std::int64_t> passage_count() = 0;
};

std::filesystem::path default_index_path();

// Cuts a text at headings, blank lines and, where it must, any line. Returns (first line, text).
std::vector<std::pair<std::int64_t, std::string>> cut_passages(std::string_view text);

}  // namespace warpsmith::llm
