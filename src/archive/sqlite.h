// Owners for SQLite's handles, for what keeps a file of its own (the archive, the server's queue). Failures are thrown
// as DatabaseError, which carries the Error that callers get.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/result.h"

namespace warpsmith::sqlite {

class DatabaseError : public std::runtime_error {
 public:
  DatabaseError(int code, Error error)
      : std::runtime_error(error.message), code_(code & 0xff), error_(std::move(error)) {}
  int code() const { return code_; }  // primary result code
  const Error& error() const { return error_; }

 private:
  int code_;
  Error error_;
};

class Database {
 public:
  // Opens or creates for reading and writing. `what` names the file in messages, as in "archive /x/y.db".
  Database(const std::filesystem::path& path, std::string what);

  void execute(const std::string& sql);  // statements without parameters or results
  std::int64_t integer(const std::string& sql);
  std::string text(const std::string& sql);
  std::int64_t last_insert_id() const { return sqlite3_last_insert_rowid(handle_.get()); }

  // Runs `body` between BEGIN IMMEDIATE and COMMIT. When another process holds the file for longer than the busy
  // timeout, everything is rolled back and tried again, so `body` must be repeatable.
  void transaction(const std::function<void()>& body);
  // The same for reads that belong together: all of them see the file as one moment left it.
  void snapshot(const std::function<void()>& body);

  // Retries `body` while it fails with SQLITE_BUSY (which some operations return at once, whatever the busy timeout).
  static void retry_while_busy(const std::function<void()>& body);

  void check(int code) const;  // throws unless SQLITE_OK, SQLITE_ROW or SQLITE_DONE
  [[noreturn]] void fail(int code) const;
  sqlite3* handle() const { return handle_.get(); }

 private:
  void run_between(const char* begin, const std::function<void()>& body);

  struct Close {
    void operator()(sqlite3* handle) const noexcept { sqlite3_close_v2(handle); }
  };
  std::string what_;
  std::unique_ptr<sqlite3, Close> handle_;
};

// A prepared statement: bind every parameter in order, then step through the rows.
class Statement {
 public:
  Statement(const Database& database, std::string_view sql);

  Statement& bind(std::string_view value);
  Statement& bind(std::int64_t value);
  Statement& bind(const std::optional<double>& value);

  bool step();  // false: no more rows
  std::int64_t integer(int column) const { return sqlite3_column_int64(handle_.get(), column); }
  std::string text(int column) const;
  std::optional<double> real(int column) const;  // nullopt: NULL

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const noexcept { sqlite3_finalize(statement); }
  };
  const Database& database_;
  std::unique_ptr<sqlite3_stmt, Finalize> handle_;
  int bound_ = 0;
};

}  // namespace warpsmith::sqlite
