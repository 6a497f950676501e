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
  std::optional<double> cold_us;  // median, of accepted attempts that stand (see Archive)
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

// A kernel that no recipe describes: device source and launch descriptor, as text. Attempts and comparisons carry its
// name in place of a recipe.
struct FreeFormRecord {
  std::string name;  // "free " and a hash of both texts
  std::string source, descriptor;
};

// One exchange with a language model. No key is ever part of it.
struct ExchangeRecord {
  std::int64_t id = 0;      // set by the archive
  std::string purpose;      // "propose", "repair", "check"
  std::string url, model;   // where it went
  nlohmann::json messages;  // as sent: [{"role": ..., "content": ...}]
  std::string reply;        // the text that came back, or what had arrived of it
  std::string error;        // why there is no whole reply; empty: there is
  std::string finish_reason;
  std::int64_t prompt_tokens = 0, completion_tokens = 0;
  bool tokens_estimated = false;
  int attempts = 1;     // HTTP requests
  double seconds = 0;   // waiting included
  double cost = 0;      // in the currency of the prices that were given; 0 without
  std::string name;     // of the candidate in the reply (AttemptRecord::recipe); empty: it holds none
  std::string outcome;  // Verdict::describe(), or why there is no candidate
  std::string created;  // set by the archive
};

// An accepted attempt stands unless the same candidate was found wrong, crashed or was suspicious in another attempt of
// its scope, earlier or later: a kernel that fails now and then is not right. The same candidate has the same name and
// source; one that was accepted without a source, as imported times are, is any source's.
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
    std::string task{};  // of a general kernel: its task's identity, in place of `problem`; empty: a matrix product
  };

  // Durable when it returns.
  virtual Status record(const Scope& scope, const AttemptRecord& attempt) = 0;
  virtual Status record_all(const Scope& scope, const std::vector<AttemptRecord>& attempts) = 0;  // all or none
  virtual Status record_comparison(const Scope& scope, const ComparisonRecord& comparison) = 0;

  virtual Status record_free_form(const FreeFormRecord& record) = 0;  // again: no change
  virtual Result<std::optional<FreeFormRecord>> find_free_form(const std::string& name) = 0;
  virtual Status record_exchange(const Scope& scope, const ExchangeRecord& exchange) = 0;
  virtual Result<std::vector<ExchangeRecord>> exchanges(const Scope& scope) = 0;  // oldest first

  virtual Result<std::optional<BestRecord>> best(const Scope& scope) = 0;      // fastest accepted that stands
  virtual Result<std::vector<AttemptRecord>> history(const Scope& scope) = 0;  // oldest first
  // Accepted attempts that stand, by speed-up over `reference_us`, buckets of width `width`, fastest bucket first.
  virtual Result<std::vector<Bucket>> buckets(const Scope& scope, double reference_us, double width) = 0;
  virtual Result<std::optional<ComparisonRecord>> last_comparison(const Scope& scope) = 0;
  virtual Result<std::int64_t> attempt_count() = 0;

  virtual Result<std::vector<AttemptSummary>> summaries(const Scope& scope) = 0;  // oldest first; quick
  // Of matrix products, oldest first, each with its machine's latest facts; and those of tasks.
  virtual Result<std::vector<Scope>> scopes() = 0;
  virtual Result<std::vector<Scope>> task_scopes() = 0;
  virtual Status check_integrity() = 0;  // reads every page. Error: bad_input, with the first damage
};

}  // namespace warpsmith
