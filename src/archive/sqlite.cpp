// SQLite calls with checked results; maps result codes to kinds of errors.
#include "archive/sqlite.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <thread>

namespace warpsmith::sqlite {

namespace {

constexpr int kBusyTimeoutMs = 20'000;
constexpr std::chrono::seconds kRetryFor{60};

// What the code means to a user. `reason` is SQLite's own text, `system_error` an errno or 0.
Error describe(int code, const std::string& what, std::string reason, int system_error) {
  if (system_error != 0) reason += fmt::format(" ({})", std::strerror(system_error));
  switch (code & 0xff) {
    case SQLITE_NOTADB:
      return bad_input(fmt::format("{} is not a warpsmith archive; give an archive or a new path", what));
    case SQLITE_CORRUPT:
      return bad_input(fmt::format("{} is damaged: {}; move it away or restore a copy", what, reason));
    case SQLITE_FULL:
      return environment_error(fmt::format("cannot write {}: no space left on the device", what));
    case SQLITE_IOERR:
      return environment_error(fmt::format("cannot read or write {}: {}", what, reason));
    case SQLITE_BUSY:
      return environment_error(fmt::format("{} is locked by another process", what));
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_READONLY:
      return environment_error(fmt::format("cannot open {} for writing: {}", what, reason));
    default:
      return failure(fmt::format("{}: {}", what, reason));
  }
}

}  // namespace

Database::Database(const std::filesystem::path& path, std::string what) : what_(std::move(what)) {
  sqlite3* raw = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX;
  const int code = sqlite3_open_v2(path.c_str(), &raw, flags, nullptr);
  handle_.reset(raw);
  if (raw == nullptr) throw std::bad_alloc();
  check(code);
  check(sqlite3_extended_result_codes(raw, 1));
  check(sqlite3_busy_timeout(raw, kBusyTimeoutMs));
  if (sqlite3_db_readonly(raw, "main") == 1) fail(SQLITE_READONLY);
}

void Database::fail(int code) const {
  // errmsg describes the latest call only; other codes are raised by this wrapper.
  const bool latest = sqlite3_extended_errcode(handle_.get()) == code || sqlite3_errcode(handle_.get()) == code;
  const std::string reason = latest ? sqlite3_errmsg(handle_.get()) : sqlite3_errstr(code);
  const bool from_system = (code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_CANTOPEN;
  throw DatabaseError(code, describe(code, what_, reason, from_system ? sqlite3_system_errno(handle_.get()) : 0));
}

void Database::check(int code) const {
  if (code != SQLITE_OK && code != SQLITE_ROW && code != SQLITE_DONE) fail(code);
}

void Database::execute(const std::string& sql) {
  check(sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr));
}

std::int64_t Database::integer(const std::string& sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.integer(0) : 0;
}

std::string Database::text(const std::string& sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.text(0) : std::string();
}

void Database::retry_while_busy(const std::function<void()>& body) {
  const auto deadline = std::chrono::steady_clock::now() + kRetryFor;
  for (auto pause = std::chrono::milliseconds(1);; pause = std::min(pause * 2, std::chrono::milliseconds(50))) {
    try {
      return body();
    } catch (const DatabaseError& error) {
      if (error.code() != SQLITE_BUSY || std::chrono::steady_clock::now() >= deadline) throw;
    }
    std::this_thread::sleep_for(pause);
  }
}

void Database::transaction(const std::function<void()>& body) { run_between("BEGIN IMMEDIATE", body); }

void Database::snapshot(const std::function<void()>& body) { run_between("BEGIN", body); }

void Database::run_between(const char* begin, const std::function<void()>& body) {
  retry_while_busy([&] {
    execute(begin);
    try {
      body();
      execute("COMMIT");
    } catch (...) {
      // Some failures (disk full) have rolled back already; the file is right either way.
      if (sqlite3_get_autocommit(handle_.get()) == 0) {
        sqlite3_exec(handle_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
      }
      throw;
    }
  });
}

Statement::Statement(const Database& database, std::string_view sql) : database_(database) {
  sqlite3_stmt* raw = nullptr;
  const int code =
      sqlite3_prepare_v2(database.handle(), sql.data(), static_cast<int>(sql.size()), &raw, /*pzTail=*/nullptr);
  handle_.reset(raw);
  database_.check(code);
}

Statement& Statement::bind(std::string_view value) {
  // A null pointer would bind NULL instead of the empty text.
  const char* data = value.data() == nullptr ? "" : value.data();
  database_.check(sqlite3_bind_text64(handle_.get(), ++bound_, data, value.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
  return *this;
}

Statement& Statement::bind(std::int64_t value) {
  database_.check(sqlite3_bind_int64(handle_.get(), ++bound_, value));
  return *this;
}

Statement& Statement::bind(const std::optional<double>& value) {
  database_.check(value ? sqlite3_bind_double(handle_.get(), ++bound_, *value)
                        : sqlite3_bind_null(handle_.get(), ++bound_));
  return *this;
}

bool Statement::step() {
  const int code = sqlite3_step(handle_.get());
  database_.check(code);
  return code == SQLITE_ROW;
}

std::string Statement::text(int column) const {
  const unsigned char* data = sqlite3_column_text(handle_.get(), column);
  if (data == nullptr) return {};
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(handle_.get(), column));
  return {reinterpret_cast<const char*>(data), size};
}

std::optional<double> Statement::real(int column) const {
  if (sqlite3_column_type(handle_.get(), column) == SQLITE_NULL) return std::nullopt;
  return sqlite3_column_double(handle_.get(), column);
}

}  // namespace warpsmith::sqlite
