// Archive: SQLite (WAL). Every candidate ever tried, its verdict, measurements and machine. Survives kill -9; several
// runs can share one file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "evaluate/verdict.h"
#include "problem/machine.h"
#include "problem/problem.h"
#include "recipe/recipe.h"

namespace warpsmith {

struct AttemptRecord {
  std::int64_t id = 0;      // set by the archive
  std::string recipe;       // full text form
  std::string source_hash;  // SHA-256 of the compiled source, empty when it never got that far
  std::string policy;       // who proposed it
  std::uint64_t seed = 0;
  Verdict verdict;
  std::string created;  // ISO 8601 UTC, set by the archive
};

// What resuming needs of an attempt, without its verdict's details.
struct AttemptSummary {
  std::int64_t id = 0;
  std::string recipe;             // full text form
  std::string kind;               // Verdict::kind()
  std::optional<double> cold_us;  // median, accepted attempts only
  std::string source_hash;        // as in AttemptRecord
};

struct BestRecord {
  std::string recipe;
  double cold_us = 0;
  AttemptRecord attempt;
};

// The speed-up range [low, high) and the attempts in it, best first.
struct Bucket {
  double low = 0, high = 0;
  std::vector<AttemptRecord> attempts;
};

// A final comparison with baselines, as it was printed.
struct ComparisonRecord {
  std::string recipe;
  nlohmann::json result;
  std::string created;
};

class Archive {
 public:
  // Opens or creates, missing parent directories included. Error: bad_input for a file that is not an archive, is
  // corrupt or has a newer schema; environment for one that cannot be created, written or whose disk is full.
  static Result<std::unique_ptr<Archive>> open(const std::filesystem::path& path);
  virtual ~Archive() = default;

  // The key of all records: a problem on a machine, with the target and thread count that the kernel may use. Machines
  // are told apart by Machine::id(); threads matter on the CPU target only.
  struct Scope {
    Problem problem;
    Machine machine;
    Target target = Target::cpu;
    int threads = 1;
  };

  // Durable when it returns.
  virtual Status record(const Scope& scope, const AttemptRecord& attempt) = 0;
  virtual Status record_comparison(const Scope& scope, const ComparisonRecord& comparison) = 0;

  virtual Result<std::optional<BestRecord>> best(const Scope& scope) = 0;      // fastest accepted
  virtual Result<std::vector<AttemptRecord>> history(const Scope& scope) = 0;  // oldest first
  // Accepted attempts by speed-up over `reference_us`, buckets of width `width`, fastest bucket first.
  virtual Result<std::vector<Bucket>> buckets(const Scope& scope, double reference_us, double width) = 0;
  virtual Result<std::optional<ComparisonRecord>> last_comparison(const Scope& scope) = 0;
  virtual Result<std::int64_t> attempt_count() = 0;

  virtual Result<std::vector<AttemptSummary>> summaries(const Scope& scope) = 0;  // oldest first; quick
  virtual Result<std::vector<Scope>> scopes() = 0;  // oldest first, each with its machine's latest facts
  virtual Status check_integrity() = 0;             // reads every page. Error: bad_input, with the first damage
};

}  // namespace warpsmith
