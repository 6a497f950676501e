// The compile cache: hits, misses, damage, concurrent processes and full disks. Uses the host compiler.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>

#include "base/file.h"
#include "candidates.h"
#include "compile/compile.h"
#include "test_directory.h"

namespace warpsmith {
namespace {

namespace fs = std::filesystem;

const char* kSource = "extern \"C\" int entry(int x) { return x + 1; }\n";

CompilerOptions options_in(const fs::path& cache) {
  CompilerOptions options;
  options.cache = cache;
  return options;
}

// Nothing is left but whole entries.
std::size_t count_drafts(const fs::path& cache) {
  std::size_t count = 0;
  std::error_code error;
  for ([[maybe_unused]] const auto& draft : fs::directory_iterator(cache / "drafts", error)) ++count;
  return count;
}

class CompileCache : public testing::Test {
 protected:
  TestDirectory scratch_;
  fs::path cache_ = scratch_.path() / "cache";
};

TEST_F(CompileCache, SecondCompileIsAHit) {
  const Compiler compiler(options_in(cache_));
  const Result<Artifact> first = compiler.compile(cpp_candidate(kSource));
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_FALSE(first->from_cache);
  EXPECT_GT(first->seconds, 0);
  EXPECT_TRUE(fs::exists(first->binary));
  EXPECT_EQ(*read_file(first->source), kSource);
  const Result<Artifact> second = Compiler(options_in(cache_)).compile(cpp_candidate(kSource));
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE(second->from_cache);
  EXPECT_EQ(second->key, first->key);
  EXPECT_EQ(second->binary, first->binary);
  EXPECT_EQ(second->seconds, first->seconds);
  EXPECT_EQ(count_drafts(cache_), 0u);
}

TEST_F(CompileCache, AHitTakesUnderAMillisecond) {
  const Compiler compiler(options_in(cache_));
  ASSERT_TRUE(compiler.compile(cpp_candidate(kSource)).ok());
  double best_ms = 1e9;
  for (int i = 0; i < 50; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const Result<Artifact> hit = compiler.compile(cpp_candidate(kSource));
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    ASSERT_TRUE(hit.ok() && hit->from_cache);
    best_ms = std::min(best_ms, took.count());
  }
  EXPECT_LT(best_ms, 1.0);
}

TEST_F(CompileCache, SourceAndArchitectureAreInTheKey) {
  const Compiler compiler(options_in(cache_));
  const Result<Artifact> first = compiler.compile(cpp_candidate(kSource));
  Candidate other = cpp_candidate(kSource);
  other.arch = "x86-64-v2";
  const Result<Artifact> second = compiler.compile(other);
  const Result<Artifact> third = compiler.compile(cpp_candidate(std::string(kSource) + "\n"));
  ASSERT_TRUE(first.ok() && second.ok() && third.ok());
  EXPECT_NE(first->key, second->key);
  EXPECT_NE(first->key, third->key);
}

TEST_F(CompileCache, DamagedEntriesAreReplaced) {
  const Compiler compiler(options_in(cache_));
  const Result<Artifact> made = compiler.compile(cpp_candidate(kSource));
  ASSERT_TRUE(made.ok());
  const fs::path entry = made->binary.parent_path();
  const auto flip_byte = [](const fs::path& path) {
    std::string bytes = *read_file(path);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    std::ofstream(path, std::ios::binary) << bytes;
  };
  const std::vector<std::pair<std::string, std::function<void()>>> damages = {
      {"binary truncated", [&] { fs::resize_file(made->binary, fs::file_size(made->binary) / 2); }},
      {"binary altered", [&] { flip_byte(made->binary); }},
      {"binary gone", [&] { fs::remove(made->binary); }},
      {"source altered", [&] { flip_byte(made->source); }},
      {"manifest truncated", [&] { fs::resize_file(entry / "manifest.json", 40); }},
      {"manifest altered", [&] { flip_byte(entry / "manifest.json"); }},
      {"manifest empty", [&] { fs::resize_file(entry / "manifest.json", 0); }},
      {"entry emptied",
       [&] {
         fs::remove_all(entry);
         fs::create_directory(entry);
       }},
      {"entry is a file",
       [&] {
         fs::remove_all(entry);
         std::ofstream(entry) << "x";
       }},
  };
  for (const auto& [name, damage] : damages) {
    damage();
    const Result<Artifact> again = compiler.compile(cpp_candidate(kSource));
    ASSERT_TRUE(again.ok()) << name << ": " << again.error().message;
    EXPECT_FALSE(again->from_cache) << name;
    const Result<Artifact> hit = compiler.compile(cpp_candidate(kSource));
    ASSERT_TRUE(hit.ok()) << name;
    EXPECT_TRUE(hit->from_cache) << name;
    EXPECT_EQ(count_drafts(cache_), 0u) << name;
  }
}

TEST_F(CompileCache, ConcurrentProcessesShareIt) {
  std::vector<pid_t> children;
  for (int child = 0; child < 4; ++child) {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      const Compiler compiler(options_in(cache_));
      bool good = true;
      for (int i = 0; i < 3; ++i) {
        const Result<Artifact> made = compiler.compile(cpp_candidate("int entry" + std::to_string(i) + ";\n"));
        good = good && made.ok() && fs::exists(made->binary);
      }
      _exit(good ? 0 : 1);
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = -1;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  EXPECT_EQ(count_drafts(cache_), 0u);
  for (int i = 0; i < 3; ++i) {
    const Result<Artifact> hit =
        Compiler(options_in(cache_)).compile(cpp_candidate("int entry" + std::to_string(i) + ";\n"));
    ASSERT_TRUE(hit.ok());
    EXPECT_TRUE(hit->from_cache);
  }
}

TEST_F(CompileCache, UnwritableCacheIsAnEnvironmentError) {
  std::ofstream(cache_) << "a file where the directory should be";
  const Result<Artifact> made = Compiler(options_in(cache_)).compile(cpp_candidate(kSource));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, ErrorKind::environment);
  EXPECT_NE(made.error().message.find(cache_.string()), std::string::npos) << made.error().message;
}

TEST_F(CompileCache, ReadOnlyCacheIsAnEnvironmentError) {
  if (geteuid() == 0) {
    const Result<Artifact> made = Compiler(options_in("/proc/warpsmith-cache")).compile(cpp_candidate(kSource));
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().kind, ErrorKind::environment);
    return;
  }
  fs::create_directory(cache_);
  fs::permissions(cache_, fs::perms::owner_read | fs::perms::owner_exec);
  const Result<Artifact> made = Compiler(options_in(cache_)).compile(cpp_candidate(kSource));
  fs::permissions(cache_, fs::perms::owner_all);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, ErrorKind::environment);
}

// Runs `body` in a child whose files may hold `bytes` at most: what a full disk does to write().
template <class Body>
int exit_code_with_file_limit(rlim_t bytes, Body body) {
  const pid_t pid = fork();
  if (pid == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit limit{};
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
    _exit(body());
  }
  int status = -1;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(CompileCache, FailedWriteLeavesNoEntry) {
  const std::string large = std::string(kSource) + "// " + std::string(64 << 10, 'x') + "\n";
  const int code = exit_code_with_file_limit(16 << 10, [&] {
    const Result<Artifact> made = Compiler(options_in(cache_)).compile(cpp_candidate(large));
    if (made.ok()) return 1;
    return made.error().kind == ErrorKind::environment ? 0 : 2;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(count_drafts(cache_), 0u);
  const Result<Artifact> made = Compiler(options_in(cache_)).compile(cpp_candidate(large));
  ASSERT_TRUE(made.ok());
  EXPECT_FALSE(made->from_cache);
}

// A real full file system where this process may mount one; elsewhere FailedWriteLeavesNoEntry stands for it.
TEST_F(CompileCache, FullDiskIsAnEnvironmentError) {
  fs::create_directory(cache_);
  const bool mounted = mount("tmpfs", cache_.c_str(), "tmpfs", 0, "size=128k") == 0;
  const std::string large = "extern \"C\" { int entry[1 << 20] = {1}; }\n";
  const auto compile_large = [&] {
    const Result<Artifact> made = Compiler(options_in(cache_)).compile(cpp_candidate(large));
    return made.ok() ? 1 : (made.error().kind == ErrorKind::environment ? 0 : 2);
  };
  const int code = mounted ? compile_large() : exit_code_with_file_limit(16, compile_large);
  const std::size_t drafts = count_drafts(cache_);
  if (mounted) umount2(cache_.c_str(), MNT_DETACH);
  EXPECT_EQ(code, 0);
  EXPECT_EQ(drafts, 0u);
}

}  // namespace
}  // namespace warpsmith
