// Scopes, attempts and directories that the archive's tests share.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <utility>

#include "archive/archive.h"

namespace warpsmith::testing {

// A directory of its own, removed at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "warpsmith-archive-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot create a temporary directory");
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline Archive::Scope make_scope() {
  Archive::Scope scope;
  scope.problem = {.m = 64, .n = 128, .k = 256};
  scope.machine.name = "Test CPU";
  scope.machine.kind = "cpu";
  scope.machine.units = 2;
  scope.machine.avx2 = true;
  scope.machine.peak_gflops = 123.25;
  scope.machine.versions = {{"c++", "12.2"}};
  return scope;
}

inline AttemptRecord make_accepted(std::string recipe, double cold_us) {
  Measurement measurement;
  measurement.subject = "candidate";
  measurement.cold.median_us = cold_us;
  measurement.cold.min_us = cold_us * 0.9;
  measurement.cold.samples = 9;
  measurement.warm.median_us = cold_us * 0.8;
  AttemptRecord attempt;
  attempt.recipe = std::move(recipe);
  attempt.source_hash = "abc123";
  attempt.policy = "evolution";
  attempt.seed = 7;
  attempt.verdict.outcome = verdict::Accepted{measurement};
  return attempt;
}

inline AttemptRecord make_rejected(std::string recipe, std::string message = "no such register") {
  AttemptRecord attempt;
  attempt.recipe = std::move(recipe);
  attempt.policy = "random";
  attempt.verdict.outcome = verdict::CompileError{std::move(message)};
  return attempt;
}

inline std::unique_ptr<Archive> open_archive(const std::filesystem::path& path) {
  auto archive = Archive::open(path);
  if (!archive) throw std::runtime_error(archive.error().message);
  return std::move(*archive);
}

}  // namespace warpsmith::testing
