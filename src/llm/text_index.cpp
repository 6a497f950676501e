// The index as two tables: files with their content's hash, and passages in FTS5.
#include "llm/text_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>

#include "archive/sqlite.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/paths.h"
#include "base/text.h"

namespace warpsmith::llm {

namespace {

namespace fs = std::filesystem;
using sqlite::Database;
using sqlite::DatabaseError;
using sqlite::Statement;

constexpr std::int64_t kApplicationId = 0x77736978;  // "wsix"
constexpr std::size_t kMaxQueryWords = 64;

constexpr const char* kSchema = R"sql(
CREATE TABLE files(id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, hash TEXT NOT NULL);
CREATE VIRTUAL TABLE passages USING fts5(text, file UNINDEXED, line UNINDEXED, tokenize = "porter unicode61 tokenchars '_'");
)sql";

bool holds_text(const fs::path& path) {
  static const std::set<std::string> kEndings = {".md", ".txt", ".rst",  ".h",    ".hpp", ".hh",  ".cuh",
                                                 ".cu", ".c",   ".cc",   ".cpp",  ".cxx", ".inl", ".ipp",
                                                 ".py", ".ptx", ".sass", ".html", ".tex", ".adoc"};
  std::string ending = path.extension().string();
  for (char& byte : ending) byte = static_cast<char>(std::tolower(static_cast<unsigned char>(byte)));
  return kEndings.count(ending) != 0;
}

// FTS5 syntax of "any of these words"; empty: there are none.
std::string any_word(std::string_view query) {
  std::set<std::string> seen;
  std::string text, word;
  const auto finish = [&] {
    if (word.size() > 1 && seen.size() < kMaxQueryWords && seen.insert(word).second) {
      text += (text.empty() ? "\"" : " OR \"") + word + "\"";
    }
    word.clear();
  };
  for (const char byte : query) {
    const bool part = std::isalnum(static_cast<unsigned char>(byte)) != 0 || byte == '_';
    if (part && word.size() < 60) word.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(byte))));
    if (!part) finish();
  }
  finish();
  return text;
}

template <class T>
Result<T> guarded(const std::function<T()>& body) {
  try {
    return body();
  } catch (const DatabaseError& error) {
    return error.error();
  }
}

class SqliteIndex final : public TextIndex {
 public:
  SqliteIndex(const fs::path& path, std::string what) : what_(std::move(what)), database_(path, what_) {
    database_.transaction([&] {
      const std::int64_t application = database_.integer("PRAGMA application_id");
      if (application == kApplicationId) return;
      if (application != 0 || database_.integer("SELECT count(*) FROM sqlite_schema") != 0) {
        throw DatabaseError(SQLITE_NOTADB, bad_input(what_ + " is no index; give an index or a new path"));
      }
      database_.execute(kSchema);
      database_.execute(fmt::format("PRAGMA application_id = {}", kApplicationId));
    });
  }

  Result<IndexReport> add(const fs::path& path, const std::function<void(const std::string&)>& on_file) override {
    std::error_code error;
    const fs::path whole = fs::weakly_canonical(path, error);
    const fs::file_status status = fs::status(whole, error);
    if (!fs::exists(status)) return bad_input(fmt::format("{}: no such file or directory", path.string()));
    IndexReport report;
    if (!fs::is_directory(status)) {
      if (const Status done = add_file(whole, report); !done) return done.error();
      return report;
    }
    const auto options = fs::directory_options::skip_permission_denied;
    for (fs::recursive_directory_iterator at(whole, options, error), end; at != end; at.increment(error)) {
      if (error) return environment_error(fmt::format("{}: {}", path.string(), error.message()));
      const std::string name = at->path().filename().string();
      if (at->is_directory(error) && name.rfind('.', 0) == 0) at.disable_recursion_pending();
      if (at->is_symlink(error) || !at->is_regular_file(error)) continue;
      on_file(at->path().string());
      if (const Status done = add_file(at->path(), report); !done) return done.error();
    }
    return report;
  }

  Status add_text(const std::string& place, std::string_view text) override {
    return guarded<Nothing>([&] {
      IndexReport report;
      replace(place, sha256_hex(text), text, report);
      return Nothing{};
    });
  }

  Result<std::int64_t> remove(const fs::path& path) override {
    std::error_code error;
    const std::string whole = fs::weakly_canonical(path, error).string();
    return guarded<std::int64_t>([&] {
      std::int64_t count = 0;
      database_.transaction([&] {
        std::vector<std::int64_t> ids;
        Statement rows(database_, "SELECT id FROM files WHERE path = ? OR substr(path, 1, ?) = ?");
        rows.bind(whole).bind(static_cast<std::int64_t>(whole.size() + 1)).bind(whole + "/");
        while (rows.step()) ids.push_back(rows.integer(0));
        for (const std::int64_t id : ids) forget(id);
        count = static_cast<std::int64_t>(ids.size());
      });
      return count;
    });
  }

  Result<std::vector<Passage>> search(std::string_view query, std::size_t count, std::size_t per_file) override {
    return guarded<std::vector<Passage>>([&] {
      std::vector<Passage> found;
      const std::string words = any_word(query);
      if (words.empty() || count == 0) return found;
      Statement rows(
          database_,
          "SELECT f.path, p.line, p.text, -bm25(passages), f.id FROM passages p JOIN files f ON f.id = p.file "
          "WHERE passages MATCH ? ORDER BY rank, p.rowid LIMIT 200");
      rows.bind(words);
      std::map<std::int64_t, std::size_t> of_file;
      while (found.size() < count && rows.step()) {
        if (++of_file[rows.integer(4)] > per_file) continue;
        found.push_back({place_of(rows), rows.text(2), rows.real(3).value_or(0)});
      }
      return found;
    });
  }

  Status each(const std::function<void(const Passage&)>& visit) override {
    return guarded<Nothing>([&] {
      Statement rows(
          database_,
          "SELECT f.path, p.line, p.text FROM passages p JOIN files f ON f.id = p.file ORDER BY f.path, p.rowid");
      while (rows.step()) visit({place_of(rows), rows.text(2), 0});
      return Nothing{};
    });
  }

  Result<std::int64_t> passage_count() override {
    return guarded<std::int64_t>([&] { return database_.integer("SELECT count(*) FROM passages"); });
  }

 private:
  static std::string place_of(const Statement& row) {
    return row.integer(1) > 1 ? fmt::format("{}:{}", row.text(0), row.integer(1)) : row.text(0);
  }

  Status add_file(const fs::path& path, IndexReport& report) {
    std::error_code error;
    if (!holds_text(path) || fs::file_size(path, error) > kMaxIndexedFileBytes || error) {
      ++report.skipped;
      return ok_status();
    }
    const auto text = read_file(path);
    if (!text || text->find('\0') != std::string::npos) {
      ++report.skipped;
      return ok_status();
    }
    return guarded<Nothing>([&] {
      replace(path.string(), sha256_hex(*text), *text, report);
      return Nothing{};
    });
  }

  void replace(const std::string& path, const std::string& hash, std::string_view text, IndexReport& report) {
    const auto passages = cut_passages(text);
    bool fresh = true;
    database_.transaction([&] {
      Statement known(database_, "SELECT id, hash FROM files WHERE path = ?");
      known.bind(path);
      if (known.step()) {
        fresh = known.text(1) != hash;
        if (!fresh) return;
        forget(known.integer(0));
      }
      Statement file(database_, "INSERT INTO files(path, hash) VALUES(?, ?)");
      file.bind(path).bind(hash).step();
      const std::int64_t id = database_.last_insert_id();
      for (const auto& [line, passage] : passages) {
        Statement row(database_, "INSERT INTO passages(text, file, line) VALUES(?, ?, ?)");
        row.bind(passage).bind(id).bind(line).step();
      }
    });
    ++(fresh ? report.files : report.unchanged);
    if (fresh) report.passages += static_cast<std::int64_t>(passages.size());
  }

  void forget(std::int64_t file) {
    Statement passages(database_, "DELETE FROM passages WHERE file = ?");
    passages.bind(file).step();
    Statement row(database_, "DELETE FROM files WHERE id = ?");
    row.bind(file).step();
  }

  std::string what_;
  Database database_;
};

}  // namespace

std::vector<std::pair<std::int64_t, std::string>> cut_passages(std::string_view text) {
  std::vector<std::pair<std::int64_t, std::string>> passages;
  std::string current;
  std::int64_t line_number = 0, first = 1;
  const auto finish = [&] {
    if (current.find_first_not_of(" \t\r\n") != std::string::npos) passages.emplace_back(first, current);
    current.clear();
    first = line_number;
  };
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, std::min(end, kMaxPassageBytes - 1));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line_number;
    const bool heading = line.rfind("#", 0) == 0 && line.find(' ') != std::string_view::npos &&
                         line.find_first_not_of('#') == line.find(' ');
    const bool blank = line.find_first_not_of(" \t\r") == std::string_view::npos;
    if (heading || current.size() + line.size() + 1 > kMaxPassageBytes) finish();
    current.append(line).push_back('\n');
    if (blank && current.size() > kMaxPassageBytes / 2) {
      ++line_number;
      finish();
      --line_number;
    }
  }
  finish();
  return passages;
}

Result<std::unique_ptr<TextIndex>> TextIndex::open(const fs::path& path) {
  std::error_code error;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  if (fs::is_directory(path, error))
    return bad_input(fmt::format("index {} is a directory; give a file", path.string()));
  try {
    return std::unique_ptr<TextIndex>(std::make_unique<SqliteIndex>(path, "index " + path.string()));
  } catch (const DatabaseError& caught) {
    if (caught.code() == SQLITE_NOTADB)
      return bad_input(fmt::format("{} is no index; give an index or a new path", path.string()));
    return caught.error();
  }
}

std::unique_ptr<TextIndex> TextIndex::in_memory() {
  return std::make_unique<SqliteIndex>(":memory:", "index in memory");
}

fs::path default_index_path() { return data_dir() / "index.sqlite"; }

}  // namespace warpsmith::llm
