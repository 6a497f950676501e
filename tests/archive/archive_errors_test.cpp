// Files that are no archives, damaged or newer ones, and places that cannot be written.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "archive/archive.h"
#include "fixtures.h"

namespace warpsmith {
namespace {

using testing::make_accepted;
using testing::make_scope;
using testing::open_archive;
using testing::TemporaryDirectory;

void write_file(const std::filesystem::path& path, const std::string& bytes) { std::ofstream(path) << bytes; }

std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void run_sql(const std::filesystem::path& path, const char* sql) {
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(database, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(database);
  sqlite3_close(database);
}

void expect_error(const std::filesystem::path& path, ErrorKind kind, const std::string& words) {
  const auto archive = Archive::open(path);
  ASSERT_FALSE(archive.ok());
  const std::string& message = archive.error().message;
  EXPECT_EQ(archive.error().kind, kind) << message;
  EXPECT_NE(message.find(words), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

// Large enough to fill several pages.
void fill(const std::filesystem::path& path, int attempts) {
  const auto archive = open_archive(path);
  for (int i = 0; i < attempts; ++i) {
    ASSERT_TRUE(archive->record(make_scope(), make_accepted(fmt::format("recipe {}", i), 1 + i)).ok());
  }
}

TEST(ArchiveErrors, TextFile) {
  const TemporaryDirectory directory;
  for (const std::string& bytes : {std::string("x"), std::string("hello, world\n"), std::string(10'000, 'a')}) {
    write_file(directory / "notes.txt", bytes);
    expect_error(directory / "notes.txt", ErrorKind::bad_input, "not a warpsmith archive");
    EXPECT_TRUE(read_bytes(directory / "notes.txt") == bytes) << "left as it was";
  }
}

TEST(ArchiveErrors, EmptyFileIsANewArchive) {
  const TemporaryDirectory directory;
  write_file(directory / "archive.db", "");
  EXPECT_TRUE(Archive::open(directory / "archive.db").ok());
}

TEST(ArchiveErrors, AnotherProgramsDatabase) {
  const TemporaryDirectory directory;
  const auto path = directory / "other.db";
  run_sql(path, "CREATE TABLE songs(title); PRAGMA user_version = 1;");
  const std::string before = read_bytes(path);
  expect_error(path, ErrorKind::bad_input, "not a warpsmith archive");
  EXPECT_TRUE(read_bytes(path) == before) << "left as it was";
}

TEST(ArchiveErrors, NewerSchema) {
  const TemporaryDirectory directory;
  fill(directory / "archive.db", 1);
  run_sql(directory / "archive.db", "PRAGMA user_version = 99;");
  expect_error(directory / "archive.db", ErrorKind::bad_input, "schema version 99");
}

TEST(ArchiveErrors, OlderSchemaIsBroughtUpToDate) {
  const TemporaryDirectory directory;
  const auto path = directory / "archive.db";
  fill(path, 3);
  run_sql(path, "DROP TABLE exchanges; DROP TABLE free_forms; PRAGMA user_version = 1;");
  const auto archive = open_archive(path);
  EXPECT_EQ(archive->summaries(make_scope())->size(), 3u);
  EXPECT_TRUE(archive->record_free_form({"free 1", "s", "d"}).ok());
  EXPECT_TRUE(archive->find_free_form("free 1")->has_value());
}

TEST(ArchiveErrors, EmptyPathAndDirectory) {
  const TemporaryDirectory directory;
  expect_error("", ErrorKind::bad_input, "empty");
  expect_error(directory.path(), ErrorKind::bad_input, "is a directory");
}

TEST(ArchiveErrors, TruncatedFile) {
  const TemporaryDirectory directory;
  fill(directory / "archive.db", 60);
  const auto size = std::filesystem::file_size(directory / "archive.db");
  ASSERT_GT(size, 40'000u);
  std::filesystem::resize_file(directory / "archive.db", size / 2);
  expect_error(directory / "archive.db", ErrorKind::bad_input, "damaged");
}

TEST(ArchiveErrors, OverwrittenPages) {
  const TemporaryDirectory directory;
  const auto path = directory / "archive.db";
  fill(path, 60);
  const std::string good = read_bytes(path);
  for (std::size_t page = 0; page * 4096 < good.size(); ++page) {
    std::string bad = good;
    bad.replace(page * 4096, std::min<std::size_t>(3000, bad.size() - page * 4096), 3000, '\x5a');
    write_file(path, bad);
    const auto archive = Archive::open(path);
    ASSERT_FALSE(archive.ok()) << "page " << page;
    EXPECT_EQ(archive.error().kind, ErrorKind::bad_input) << archive.error().message;
    std::filesystem::remove(path.string() + "-wal");
    std::filesystem::remove(path.string() + "-shm");
  }
}

TEST(ArchiveErrors, VerdictThatIsNoJson) {
  const TemporaryDirectory directory;
  fill(directory / "archive.db", 1);
  run_sql(directory / "archive.db", "UPDATE attempts SET verdict = '{\"outc';");
  const auto archive = open_archive(directory / "archive.db");
  const auto history = archive->history(make_scope());
  ASSERT_FALSE(history.ok());
  EXPECT_EQ(history.error().kind, ErrorKind::bad_input);
  EXPECT_NE(history.error().message.find("attempt 1"), std::string::npos) << history.error().message;
}

TEST(ArchiveErrors, DirectoryThatCannotBeMade) {
  const TemporaryDirectory directory;
  write_file(directory / "file", "x");
  expect_error(directory / "file/archive.db", ErrorKind::environment, "cannot create");
  expect_error("/proc/warpsmith/archive.db", ErrorKind::environment, "cannot create");
  expect_error("/proc/archive.db", ErrorKind::environment, "cannot open");
}

// Runs `body` in a child without root's right to write everywhere; returns its exit status.
template <class Body>
int run_unprivileged(const Body& body) {
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(100);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int expect_environment(const std::filesystem::path& path) {
  const auto archive = Archive::open(path);
  if (archive.ok()) return 1;
  if (archive.error().kind != ErrorKind::environment) return 2;
  return archive.error().message.find(fmt::format("cannot open archive {}", path.string())) == 0 ? 0 : 3;
}

TEST(ArchiveErrors, DirectoryWithoutWritePermission) {
  const TemporaryDirectory directory;
  ASSERT_EQ(chmod(directory.path().c_str(), 0555), 0);
  EXPECT_EQ(run_unprivileged([&] { return expect_environment(directory / "archive.db"); }), 0);
  ASSERT_EQ(chmod(directory.path().c_str(), 0755), 0);
}

TEST(ArchiveErrors, ReadOnlyFile) {
  const TemporaryDirectory directory;
  fill(directory / "archive.db", 1);
  ASSERT_EQ(chmod(directory.path().c_str(), 0755), 0);
  ASSERT_EQ(chmod((directory / "archive.db").c_str(), 0444), 0);
  EXPECT_EQ(run_unprivileged([&] { return expect_environment(directory / "archive.db"); }), 0);
}

}  // namespace
}  // namespace warpsmith
