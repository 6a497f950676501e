// The SQLite store behind Archive. Every write is one transaction, synced to disk before it returns (WAL with
// synchronous=FULL), so a killed process loses nothing that record() acknowledged.
#include "archive/archive.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <ctime>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "archive/record_text.h"
#include "archive/sqlite.h"

namespace warpsmith {

namespace {

using sqlite::Database;
using sqlite::DatabaseError;
using sqlite::Statement;

constexpr std::int64_t kApplicationId = 0x77737031;  // "wsp1": tells an archive from any other SQLite file
constexpr std::int64_t kSchemaVersion = 2;
// Up to this size the whole file is checked for damage when it is opened; that takes a fraction of a second.
constexpr std::uintmax_t kQuickCheckBytes = 32u << 20;

// A machine row holds the facts as they were at the time of an attempt (versions, measured peaks); a scope names the
// machine by its identity, so that a driver update does not hide earlier attempts.
constexpr const char* kSchema = R"sql(
CREATE TABLE machines(
  id INTEGER PRIMARY KEY,
  identity TEXT NOT NULL,
  facts TEXT NOT NULL UNIQUE);
CREATE TABLE scopes(
  id INTEGER PRIMARY KEY,
  problem TEXT NOT NULL,
  machine TEXT NOT NULL,
  target TEXT NOT NULL,
  threads INTEGER NOT NULL,
  UNIQUE(problem, machine, target, threads));
CREATE TABLE attempts(
  id INTEGER PRIMARY KEY,
  scope INTEGER NOT NULL REFERENCES scopes(id),
  machine INTEGER NOT NULL REFERENCES machines(id),
  run TEXT NOT NULL,
  created TEXT NOT NULL,
  policy TEXT NOT NULL,
  seed INTEGER NOT NULL,
  recipe TEXT NOT NULL,
  source_hash TEXT NOT NULL,
  kind TEXT NOT NULL,
  cold_us REAL,
  warm_us REAL,
  verdict TEXT NOT NULL);
CREATE INDEX attempts_by_scope ON attempts(scope, id);
CREATE INDEX attempts_by_time ON attempts(scope, cold_us) WHERE cold_us IS NOT NULL;
CREATE TABLE comparisons(
  id INTEGER PRIMARY KEY,
  scope INTEGER NOT NULL REFERENCES scopes(id),
  machine INTEGER NOT NULL REFERENCES machines(id),
  run TEXT NOT NULL,
  created TEXT NOT NULL,
  recipe TEXT NOT NULL,
  result TEXT NOT NULL);
CREATE INDEX comparisons_by_scope ON comparisons(scope, id);
)sql";

constexpr std::string_view kTaskPrefix = "task ";  // what stands for the problem of a general kernel

// Since version 2.
constexpr const char* kLanguageModelSchema = R"sql(
CREATE TABLE free_forms(
  name TEXT PRIMARY KEY,
  source TEXT NOT NULL,
  descriptor TEXT NOT NULL);
CREATE TABLE exchanges(
  id INTEGER PRIMARY KEY,
  scope INTEGER NOT NULL REFERENCES scopes(id),
  run TEXT NOT NULL,
  created TEXT NOT NULL,
  purpose TEXT NOT NULL,
  model TEXT NOT NULL,
  name TEXT NOT NULL,
  exchange TEXT NOT NULL);
CREATE INDEX exchanges_by_scope ON exchanges(scope, id);
)sql";

constexpr std::string_view kAttemptColumns = "id, recipe, source_hash, policy, seed, verdict, created";

std::string utc_now() {
  const auto now = std::chrono::system_clock::now();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(now)), ms);
}

// SQLite takes a short file of other bytes for an empty database and would overwrite it.
bool is_foreign(const std::filesystem::path& path) {
  constexpr std::string_view kMagic{"SQLite format 3", 16};  // with its terminating zero
  char start[16] = {};
  std::ifstream file(path, std::ios::binary);
  file.read(start, sizeof start);
  const auto size = static_cast<std::size_t>(file.gcount());
  return size > 0 && std::string_view(start, size) != kMagic;
}

int scope_threads(const Archive::Scope& scope) { return is_cuda(scope.target) ? 1 : scope.threads; }

// Runs a query and turns whatever goes wrong into an Error.
template <class T>
Result<T> guarded(std::mutex& mutex, const std::function<T()>& body) {
  const std::lock_guard lock(mutex);
  try {
    return body();
  } catch (const DatabaseError& error) {
    return error.error();
  }
}

class SqliteArchive final : public Archive {
 public:
  explicit SqliteArchive(const std::filesystem::path& path)
      : what_(fmt::format("archive {}", path.string())),
        database_(path, what_),
        run_(fmt::format("{}/{}", utc_now(), getpid())) {
    database_.snapshot([&] { identify(); });
    Database::retry_while_busy([&] { use_write_ahead_log(); });
    database_.execute("PRAGMA foreign_keys = ON");
    database_.transaction([&] {
      if (schema_version() == 0) create_schema();
      if (schema_version() == 1) add_language_models();
    });
    std::error_code ignored;
    if (std::filesystem::file_size(path, ignored) <= kQuickCheckBytes) require_sound("PRAGMA quick_check(1)");
  }

  Status record(const Scope& scope, const AttemptRecord& attempt) override {
    return write([&] { insert_attempt(insert_scope(scope), attempt); });
  }

  Status record_all(const Scope& scope, const std::vector<AttemptRecord>& attempts) override {
    if (attempts.empty()) return ok_status();
    return write([&] {
      const RowIds rows = insert_scope(scope);
      for (const AttemptRecord& attempt : attempts) insert_attempt(rows, attempt);
    });
  }

  Status record_comparison(const Scope& scope, const ComparisonRecord& comparison) override {
    return write([&] {
      const RowIds rows = insert_scope(scope);
      Statement statement(
          database_, "INSERT INTO comparisons(scope, machine, run, created, recipe, result) VALUES(?, ?, ?, ?, ?, ?)");
      statement.bind(rows.scope).bind(rows.machine).bind(run_).bind(utc_now());
      statement.bind(comparison.recipe).bind(record_text(comparison.result)).step();
    });
  }

  Status record_free_form(const FreeFormRecord& record) override {
    return write([&] {
      Statement statement(database_, "INSERT OR IGNORE INTO free_forms(name, source, descriptor) VALUES(?, ?, ?)");
      statement.bind(record.name).bind(record.source).bind(record.descriptor).step();
    });
  }

  Result<std::optional<FreeFormRecord>> find_free_form(const std::string& name) override {
    return guarded<std::optional<FreeFormRecord>>(mutex_, [&]() -> std::optional<FreeFormRecord> {
      Statement rows(database_, "SELECT source, descriptor FROM free_forms WHERE name = ?");
      rows.bind(name);
      if (!rows.step()) return std::nullopt;
      return FreeFormRecord{name, rows.text(0), rows.text(1)};
    });
  }

  Status record_exchange(const Scope& scope, const ExchangeRecord& exchange) override {
    return write([&] {
      const RowIds rows = insert_scope(scope);
      Statement statement(database_,
                          "INSERT INTO exchanges(scope, run, created, purpose, model, name, exchange) "
                          "VALUES(?, ?, ?, ?, ?, ?, ?)");
      statement.bind(rows.scope).bind(run_).bind(utc_now()).bind(exchange.purpose).bind(exchange.model);
      statement.bind(exchange.name).bind(record_text(exchange_facts(exchange))).step();
    });
  }

  Result<std::vector<ExchangeRecord>> exchanges(const Scope& scope) override {
    return guarded<std::vector<ExchangeRecord>>(mutex_, [&] {
      std::vector<ExchangeRecord> exchanges;
      Statement rows(database_,
                     "SELECT id, purpose, model, name, exchange, created FROM exchanges WHERE scope = ? ORDER BY id");
      rows.bind(find_scope(scope));
      while (rows.step()) exchanges.push_back(read_exchange(rows));
      return exchanges;
    });
  }

  Result<std::optional<BestRecord>> best(const Scope& scope) override {
    return guarded<std::optional<BestRecord>>(mutex_, [&]() -> std::optional<BestRecord> {
      auto fastest = accepted_attempts(scope, 1);
      if (fastest.empty()) return std::nullopt;
      auto& [cold_us, attempt] = fastest.front();
      return BestRecord{attempt.recipe, cold_us, std::move(attempt)};
    });
  }

  Result<std::vector<AttemptRecord>> history(const Scope& scope) override {
    return guarded<std::vector<AttemptRecord>>(mutex_, [&] {
      std::vector<AttemptRecord> attempts;
      Statement rows(database_, fmt::format("SELECT {} FROM attempts WHERE scope = ? ORDER BY id", kAttemptColumns));
      rows.bind(find_scope(scope));
      while (rows.step()) attempts.push_back(read_attempt(rows));
      return attempts;
    });
  }

  Result<std::vector<AttemptSummary>> summaries(const Scope& scope) override {
    return guarded<std::vector<AttemptSummary>>(mutex_, [&] {
      std::vector<AttemptSummary> attempts;
      const std::int64_t id = find_scope(scope);
      const Revoked revoked = find_revoked(id);
      Statement rows(database_,
                     "SELECT id, recipe, kind, cold_us, source_hash FROM attempts WHERE scope = ? ORDER BY id");
      rows.bind(id);
      while (rows.step()) {
        AttemptSummary& attempt = attempts.emplace_back(
            AttemptSummary{rows.integer(0), rows.text(1), rows.text(2), rows.real(3), rows.text(4)});
        if (attempt.cold_us && revoked.holds(attempt.recipe, attempt.source_hash)) attempt.cold_us.reset();
      }
      return attempts;
    });
  }

  Result<std::vector<Bucket>> buckets(const Scope& scope, double reference_us, double width) override {
    if (!(reference_us > 0) || !(width > 0) || !std::isfinite(reference_us) || !std::isfinite(width)) {
      return bad_input(fmt::format("performance buckets need a positive reference time and width, not {} and {}",
                                   reference_us, width));
    }
    return guarded<std::vector<Bucket>>(mutex_, [&] {
      std::vector<Bucket> buckets;
      for (auto& [cold_us, attempt] : accepted_attempts(scope, std::numeric_limits<std::size_t>::max())) {
        const double index = std::floor(reference_us / cold_us / width);
        const double low = index * width;
        if (buckets.empty() || buckets.back().low != low) buckets.push_back({low, (index + 1) * width, {}});
        buckets.back().attempts.push_back(std::move(attempt));
      }
      return buckets;
    });
  }

  Result<std::optional<ComparisonRecord>> last_comparison(const Scope& scope) override {
    return guarded<std::optional<ComparisonRecord>>(mutex_, [&]() -> std::optional<ComparisonRecord> {
      Statement rows(database_,
                     "SELECT recipe, result, created, id FROM comparisons WHERE scope = ? ORDER BY id DESC LIMIT 1");
      rows.bind(find_scope(scope));
      if (!rows.step()) return std::nullopt;
      ComparisonRecord comparison{rows.text(0), nullptr, rows.text(2)};
      const std::string place = fmt::format("comparison {}", rows.integer(3));
      decode(rows.text(1), place, [&](const nlohmann::json& json) { comparison.result = json; });
      return comparison;
    });
  }

  Result<std::int64_t> attempt_count() override {
    return guarded<std::int64_t>(mutex_, [&] { return database_.integer("SELECT count(*) FROM attempts"); });
  }

  Result<std::vector<Scope>> scopes() override { return scopes_of(false); }
  Result<std::vector<Scope>> task_scopes() override { return scopes_of(true); }

  Status check_integrity() override {
    return guarded<Nothing>(mutex_, [&] {
      require_sound("PRAGMA integrity_check(1)");
      return Nothing{};
    });
  }

 private:
  Result<std::vector<Scope>> scopes_of(bool tasks) {
    return guarded<std::vector<Scope>>(mutex_, [&] {
      std::vector<Scope> scopes;
      Statement rows(database_,
                     "SELECT s.id, s.problem, s.target, s.threads, (SELECT facts FROM machines "
                     "WHERE identity = s.machine ORDER BY id DESC LIMIT 1) FROM scopes s ORDER BY s.id");
      while (rows.step()) {
        if (rows.text(1).starts_with(kTaskPrefix) == tasks) scopes.push_back(read_scope(rows));
      }
      return scopes;
    });
  }

  struct RowIds {
    std::int64_t scope = 0, machine = 0;
  };

  [[noreturn]] void damaged(const std::string& detail) const {
    throw DatabaseError(SQLITE_CORRUPT,
                        bad_input(fmt::format("{} is damaged: {}; move it away or restore a copy", what_, detail)));
  }

  [[noreturn]] void not_an_archive() const { database_.fail(SQLITE_NOTADB); }

  std::int64_t schema_version() { return database_.integer("PRAGMA user_version"); }

  // Refuses foreign and newer files before anything is written to them. A file without any table is new (or its
  // creator was killed before the schema was committed).
  void identify() {
    const std::int64_t application = database_.integer("PRAGMA application_id");
    if (application == 0 && schema_version() == 0 && database_.integer("SELECT count(*) FROM sqlite_schema") == 0) {
      return;
    }
    if (application != kApplicationId) not_an_archive();
    if (const std::int64_t version = schema_version(); version > kSchemaVersion) {
      throw DatabaseError(SQLITE_ERROR,
                          bad_input(fmt::format("{} has schema version {}, but this program knows only versions up to "
                                                "{}; use a newer warpsmith or another archive",
                                                what_, version, kSchemaVersion)));
    }
  }

  void use_write_ahead_log() {
    if (database_.text("PRAGMA journal_mode = WAL") != "wal") {
      throw DatabaseError(SQLITE_CANTOPEN,
                          environment_error(fmt::format("cannot open {}: its file system does not support write-ahead "
                                                        "logging; keep the archive on a local disk",
                                                        what_)));
    }
    database_.execute("PRAGMA synchronous = FULL");
  }

  void create_schema() {
    database_.execute(kSchema);
    database_.execute(fmt::format("PRAGMA application_id = {}", kApplicationId));
    database_.execute("PRAGMA user_version = 1");
  }

  void add_language_models() {
    database_.execute(kLanguageModelSchema);
    database_.execute("PRAGMA user_version = 2");
  }

  void require_sound(const std::string& pragma) {
    if (const std::string answer = database_.text(pragma); answer != "ok") damaged(answer);
  }

  Status write(const std::function<void()>& body) {
    return guarded<Nothing>(mutex_, [&] {
      database_.transaction(body);
      return Nothing{};
    });
  }

  Statement& bind_scope(Statement& statement, const Scope& scope) const {
    return statement.bind(scope.task.empty() ? to_string(scope.problem) : std::string(kTaskPrefix) + scope.task)
        .bind(scope.machine.id())
        .bind(to_string(scope.target))
        .bind(std::int64_t{scope_threads(scope)});
  }

  // Row id, or 0 (which no row has) when nothing was recorded for the scope.
  std::int64_t find_scope(const Scope& scope) {
    Statement statement(database_,
                        "SELECT id FROM scopes WHERE problem = ? AND machine = ? AND target = ? AND threads = ?");
    bind_scope(statement, scope);
    return statement.step() ? statement.integer(0) : 0;
  }

  std::int64_t find_machine(const std::string& facts) {
    Statement statement(database_, "SELECT id FROM machines WHERE facts = ?");
    statement.bind(facts);
    return statement.step() ? statement.integer(0) : 0;
  }

  // Only inside a transaction: the rows must not appear between the look-up and the insertion.
  RowIds insert_scope(const Scope& scope) {
    RowIds rows{find_scope(scope), 0};
    if (rows.scope == 0) {
      Statement statement(database_, "INSERT INTO scopes(problem, machine, target, threads) VALUES(?, ?, ?, ?)");
      bind_scope(statement, scope).step();
      rows.scope = database_.last_insert_id();
    }
    const std::string facts = record_text(nlohmann::json(scope.machine));
    rows.machine = find_machine(facts);
    if (rows.machine == 0) {
      Statement statement(database_, "INSERT INTO machines(identity, facts) VALUES(?, ?)");
      statement.bind(scope.machine.id()).bind(facts).step();
      rows.machine = database_.last_insert_id();
    }
    return rows;
  }

  void insert_attempt(const RowIds& rows, const AttemptRecord& attempt) {
    const auto* accepted = attempt.verdict.accepted();
    const auto median = [&](const TimingStats& stats) {
      return std::isfinite(stats.median_us) ? std::optional(stats.median_us) : std::nullopt;
    };
    Statement statement(database_,
                        "INSERT INTO attempts(scope, machine, run, created, policy, seed, recipe, source_hash, kind, "
                        "cold_us, warm_us, verdict) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    statement.bind(rows.scope).bind(rows.machine).bind(run_).bind(utc_now()).bind(attempt.policy);
    statement.bind(static_cast<std::int64_t>(attempt.seed)).bind(attempt.recipe).bind(attempt.source_hash);
    statement.bind(attempt.verdict.kind());
    statement.bind(accepted ? median(accepted->measurement.cold) : std::nullopt);
    statement.bind(accepted ? median(accepted->measurement.warm) : std::nullopt);
    statement.bind(record_text(nlohmann::json(attempt.verdict)));
    statement.step();
  }

  // Fastest first, at most `count`; of equals the oldest.
  std::vector<std::pair<double, AttemptRecord>> accepted_attempts(const Scope& scope, std::size_t count) {
    std::vector<std::pair<double, AttemptRecord>> attempts;
    const std::int64_t id = find_scope(scope);
    const Revoked revoked = find_revoked(id);
    Statement rows(database_, fmt::format("SELECT {}, cold_us FROM attempts WHERE scope = ? AND cold_us IS NOT NULL "
                                          "AND cold_us > 0 ORDER BY cold_us, id",
                                          kAttemptColumns));
    rows.bind(id);
    while (attempts.size() < count && rows.step()) {
      if (!revoked.holds(rows.text(1), rows.text(2))) attempts.emplace_back(*rows.real(7), read_attempt(rows));
    }
    return attempts;
  }

  // Candidates of a scope whose acceptance does not stand.
  struct Revoked {
    std::set<std::pair<std::string, std::string>> sources;  // name and source
    std::set<std::string> names;

    bool holds(const std::string& name, const std::string& source) const {
      return source.empty() ? names.count(name) != 0 : sources.count({name, source}) != 0;
    }
  };

  Revoked find_revoked(std::int64_t scope) {
    Revoked revoked;
    Statement rows(database_,
                   "SELECT recipe, source_hash FROM attempts WHERE scope = ? AND kind IN ('wrong', 'crashed', "
                   "'suspicious')");
    rows.bind(scope);
    while (rows.step()) {
      revoked.names.insert(rows.text(0));
      revoked.sources.emplace(rows.text(0), rows.text(1));
    }
    return revoked;
  }

  // Hands the parsed text to `use`; text that does not hold what it should means a damaged file.
  void decode(const std::string& text, const std::string& place,
              const std::function<void(const nlohmann::json&)>& use) const {
    try {
      use(nlohmann::json::parse(text));
    } catch (const nlohmann::json::exception& error) {
      damaged(fmt::format("{}: {}", place, error.what()));
    }
  }

  // Columns as in kAttemptColumns.
  AttemptRecord read_attempt(const Statement& row) const {
    AttemptRecord attempt;
    attempt.id = row.integer(0);
    attempt.recipe = row.text(1);
    attempt.source_hash = row.text(2);
    attempt.policy = row.text(3);
    attempt.seed = static_cast<std::uint64_t>(row.integer(4));
    decode(row.text(5), fmt::format("attempt {}", attempt.id),
           [&](const nlohmann::json& json) { attempt.verdict = json.get<Verdict>(); });
    attempt.created = row.text(6);
    return attempt;
  }

  static nlohmann::json exchange_facts(const ExchangeRecord& exchange) {
    return {{"url", exchange.url},
            {"messages", exchange.messages},
            {"reply", exchange.reply},
            {"error", exchange.error},
            {"finish_reason", exchange.finish_reason},
            {"prompt_tokens", exchange.prompt_tokens},
            {"completion_tokens", exchange.completion_tokens},
            {"tokens_estimated", exchange.tokens_estimated},
            {"attempts", exchange.attempts},
            {"seconds", exchange.seconds},
            {"cost", exchange.cost},
            {"outcome", exchange.outcome}};
  }

  // Columns: id, purpose, model, name, exchange, created.
  ExchangeRecord read_exchange(const Statement& row) const {
    ExchangeRecord exchange;
    exchange.id = row.integer(0);
    exchange.purpose = row.text(1);
    exchange.model = row.text(2);
    exchange.name = row.text(3);
    exchange.created = row.text(5);
    decode(row.text(4), fmt::format("exchange {}", exchange.id), [&](const nlohmann::json& json) {
      exchange.url = json.at("url");
      exchange.messages = json.at("messages");
      exchange.reply = json.at("reply");
      exchange.error = json.at("error");
      exchange.finish_reason = json.at("finish_reason");
      exchange.prompt_tokens = json.at("prompt_tokens");
      exchange.completion_tokens = json.at("completion_tokens");
      exchange.tokens_estimated = json.at("tokens_estimated");
      exchange.attempts = json.at("attempts");
      exchange.seconds = json.at("seconds");
      exchange.cost = json.at("cost");
      exchange.outcome = json.at("outcome");
    });
    return exchange;
  }

  Scope read_scope(const Statement& row) const {
    const std::string place = fmt::format("scope {}", row.integer(0));
    const std::string text = row.text(1);
    const bool task = text.starts_with(kTaskPrefix);
    const auto problem = task ? Result<Problem>(Problem()) : parse_problem(text);
    if (!problem) damaged(fmt::format("{}: {}", place, problem.error().message));
    const auto target = parse_target(row.text(2));
    if (!target) damaged(fmt::format("{}: {}", place, target.error().message));
    Scope scope{*problem,
                {},
                *target,
                static_cast<int>(row.integer(3)),
                task ? text.substr(kTaskPrefix.size()) : std::string()};
    decode(row.text(4), place, [&](const nlohmann::json& json) { scope.machine = json.get<Machine>(); });
    return scope;
  }

  std::string what_;
  Database database_;
  std::string run_;  // start time and process id: which run made a record
  std::mutex mutex_;
};

}  // namespace

Result<std::unique_ptr<Archive>> Archive::open(const std::filesystem::path& path) {
  std::error_code error;
  if (path.empty()) return bad_input("the archive's path is empty");
  if (std::filesystem::is_directory(path, error)) {
    return bad_input(fmt::format("archive {} is a directory; give a file", path.string()));
  }
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  std::error_code ignored;
  if (path.has_parent_path() && !std::filesystem::is_directory(path.parent_path(), ignored)) {
    return environment_error(
        fmt::format("cannot create {} for the archive: {}", path.parent_path().string(), error.message()));
  }
  if (is_foreign(path)) {
    return bad_input(fmt::format("{} is not a warpsmith archive; give an archive or a new path", path.string()));
  }
  try {
    return std::unique_ptr<Archive>(std::make_unique<SqliteArchive>(path));
  } catch (const DatabaseError& caught) {
    return caught.error();
  }
}

}  // namespace warpsmith
