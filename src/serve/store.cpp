// The store in SQLite (WAL, synced at every commit).
#include "serve/store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <mutex>
#include <system_error>

#include "archive/sqlite.h"

namespace warpsmith::serve {

namespace {

using sqlite::Database;
using sqlite::DatabaseError;
using sqlite::Statement;

constexpr std::int64_t kApplicationId = 0x77737131;  // "wsq1"
constexpr std::int64_t kSchemaVersion = 2;
constexpr double kNever = 1e300;  // a deadline that sorts behind all others

constexpr const char* kSchema = R"sql(
CREATE TABLE jobs(
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  device TEXT NOT NULL,
  problem TEXT NOT NULL,
  name TEXT NOT NULL,
  source TEXT NOT NULL,
  descriptor TEXT NOT NULL,
  tokens INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  deadline REAL NOT NULL,
  state TEXT NOT NULL,
  tries INTEGER NOT NULL,
  measured INTEGER NOT NULL,
  accepted REAL NOT NULL,
  finished REAL,
  outcome TEXT NOT NULL,
  machine TEXT NOT NULL DEFAULT '',
  target TEXT NOT NULL DEFAULT '',
  threads INTEGER NOT NULL DEFAULT 0);
CREATE INDEX jobs_by_site ON jobs(state, machine, target, threads, device, priority DESC, deadline, seq);
CREATE TABLE baselines(
  machine TEXT NOT NULL,
  problem TEXT NOT NULL,
  time_us REAL NOT NULL,
  name TEXT NOT NULL,
  PRIMARY KEY(machine, problem));
)sql";

// Version 1 knew no sites. What it holds gets one by its identity (adopt()).
constexpr const char* kFromVersion1 = R"sql(
ALTER TABLE jobs ADD COLUMN machine TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN target TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN threads INTEGER NOT NULL DEFAULT 0;
DROP INDEX IF EXISTS jobs_in_order;
CREATE INDEX jobs_by_site ON jobs(state, machine, target, threads, device, priority DESC, deadline, seq);
)sql";

// A condition of queries; bind_site() gives its values.
constexpr std::string_view kHere = "machine = ? AND target = ? AND threads = ?";

constexpr std::string_view kColumns =
    "id, device, problem, name, source, descriptor, tokens, priority, deadline, state, tries, measured, accepted, "
    "finished, outcome";

JobState state_from(const std::string& text) {
  for (const JobState state : {JobState::queued, JobState::running, JobState::done, JobState::expired}) {
    if (text == to_string(state)) return state;
  }
  return JobState::failed;
}

// A file that one process holds for as long as it lives.
class FileLock {
 public:
  FileLock() = default;
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock() {
    if (fd_ >= 0) close(fd_);
  }
  Status take(const std::filesystem::path& path) {
    fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd_ < 0) return environment_error(fmt::format("cannot open {}: {}", path.string(), std::strerror(errno)));
    if (flock(fd_, LOCK_EX | LOCK_NB) == 0) return ok_status();
    return bad_input(fmt::format("{} belongs to a server that runs; give another --queue", path.string()));
  }

 private:
  int fd_ = -1;
};

class SqliteStore final : public Store {
 public:
  SqliteStore(const std::filesystem::path& path, const Site& site)
      : what_(fmt::format("queue {}", path.string())), site_(site), database_(path, what_) {
    database_.snapshot([&] { identify(); });
    database_.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
    database_.transaction([&] {
      if (database_.integer("PRAGMA user_version") != 0) return;
      database_.execute(kSchema);
      database_.execute(
          fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", kApplicationId, kSchemaVersion));
    });
    if (database_.text("PRAGMA quick_check(1)") != "ok") damaged();
  }

  // Not before the file is locked: a server of the old version may still run.
  Status migrate() {
    return guarded<Nothing>([&] {
      database_.transaction([&] {
        if (database_.integer("PRAGMA user_version") != 1) return;
        database_.execute(kFromVersion1);
        database_.execute(fmt::format("PRAGMA user_version = {}", kSchemaVersion));
      });
      return Nothing{};
    });
  }

  Status lock(const std::filesystem::path& path) { return lock_.take(path); }

  Status resume(const std::vector<std::string>& devices) {
    devices_ = devices;
    return guarded<Nothing>([&] {
      database_.transaction([&] {
        Statement lost(database_,
                       "UPDATE jobs SET state = 'failed', finished = ?, outcome = 'the server ended each time while "
                       "this candidate was being measured' WHERE state = 'running' AND tries >= ?");
        lost.bind(std::optional(unix_now())).bind(std::int64_t{kMostTries}).step();
        database_.execute("UPDATE jobs SET state = 'queued' WHERE state = 'running'");
        adopt();
        std::string names;
        for (const std::string& device : devices) names += fmt::format("{}'{}'", names.empty() ? "" : ", ", device);
        Statement moved(database_,
                        fmt::format("UPDATE jobs SET device = ? WHERE device NOT IN ({}) AND {}", names, kHere));
        bind_site(moved.bind(devices.front())).step();
      });
      return Nothing{};
    });
  }

  Result<Acceptance> accept(const std::vector<Submission>& submissions, std::int64_t most_queued) override {
    return guarded<Acceptance>([&] {
      Acceptance acceptance;
      if (all_known(submissions, acceptance)) return acceptance;
      try {
        database_.transaction([&] {
          acceptance = {};
          for (const Submission& submission : submissions) acceptance.receipts.push_back(accept_one(submission));
          acceptance.queued = waiting_here();
          const bool grew = std::any_of(acceptance.receipts.begin(), acceptance.receipts.end(),
                                        [](const Receipt& receipt) { return !receipt.duplicate; });
          if (grew && acceptance.queued > most_queued) throw QueueIsFull();
        });
      } catch (const QueueIsFull&) {
        acceptance.receipts.clear();
      }
      return acceptance;
    });
  }

  Result<std::optional<Job>> claim(const std::string& device) override {
    return guarded<std::optional<Job>>([&] {
      std::optional<Job> job;
      database_.transaction([&] {
        job.reset();
        Statement rows(database_, fmt::format("SELECT {} FROM jobs WHERE state = 'queued' AND {} AND device = ? AND "
                                              "deadline > ? ORDER BY priority DESC, deadline, seq LIMIT 1",
                                              kColumns, kHere));
        bind_site(rows).bind(device).bind(std::optional(unix_now()));
        if (!rows.step()) return;
        job = read_job(rows);
        set_state(job->id, JobState::running, job->tries + 1, std::nullopt, "");
      });
      if (job) {
        job->state = JobState::running;
        ++job->tries;
      }
      return job;
    });
  }

  Status finish(const std::string& id, const std::string& outcome) override {
    return guarded<Nothing>([&] {
      database_.transaction([&] {
        Statement row(database_,
                      "UPDATE jobs SET state = 'done', tries = 0, measured = measured + 1, finished = ?, outcome = ? "
                      "WHERE id = ?");
        row.bind(std::optional(unix_now())).bind(outcome).bind(id).step();
      });
      return Nothing{};
    });
  }

  Result<JobState> give_up(const std::string& id, const std::string& reason) override {
    return guarded<JobState>([&] {
      JobState state = JobState::queued;
      database_.transaction([&] {
        const auto job = find_job(id);
        if (!job) return;
        state = job->tries >= kMostTries ? JobState::failed : JobState::queued;
        const bool final = state == JobState::failed;
        set_state(id, state, final ? 0 : job->tries, final ? std::optional(unix_now()) : std::nullopt,
                  final ? reason : "");
      });
      return state;
    });
  }

  Status release(const std::string& id) override {
    return guarded<Nothing>([&] {
      database_.transaction([&] {
        const auto job = find_job(id);
        if (job) set_state(id, JobState::queued, std::max(0, job->tries - 1), std::nullopt, "");
      });
      return Nothing{};
    });
  }

  Result<std::optional<Job>> find(const std::string& id) override {
    return guarded<std::optional<Job>>([&] { return find_job(id); });
  }

  Result<std::optional<JobState>> state(const std::string& id) override {
    return guarded<std::optional<JobState>>([&]() -> std::optional<JobState> {
      const auto row = known(id);
      if (!row) return std::nullopt;
      return row->state;
    });
  }

  Result<std::vector<std::string>> expire() override {
    return guarded<std::vector<std::string>>([&] {
      std::vector<std::string> ids;
      const double now = unix_now();
      {
        Statement rows(database_, "SELECT id FROM jobs WHERE state = 'queued' AND deadline <= ?");
        rows.bind(std::optional(now));
        while (rows.step()) ids.push_back(rows.text(0));
      }
      if (ids.empty()) return ids;
      database_.transaction([&] {
        Statement row(database_,
                      "UPDATE jobs SET state = 'expired', tries = 0, finished = ? WHERE state = 'queued' AND "
                      "deadline <= ?");
        row.bind(std::optional(now)).bind(std::optional(now)).step();
      });
      return ids;
    });
  }

  Result<std::map<std::string, std::pair<std::int64_t, std::int64_t>>> counts() override {
    using Counts = std::map<std::string, std::pair<std::int64_t, std::int64_t>>;
    return guarded<Counts>([&] {
      Counts counts;
      for (const std::string& device : devices_) counts[device] = {0, 0};
      Statement rows(database_, fmt::format("SELECT device, state, count(*) FROM jobs WHERE state IN ('queued', "
                                            "'running') AND {} GROUP BY state, device",
                                            kHere));
      bind_site(rows);
      while (rows.step()) {
        auto& [waiting, running] = counts[rows.text(0)];
        (rows.text(1) == "queued" ? waiting : running) = rows.integer(2);
      }
      return counts;
    });
  }

  Result<std::map<std::string, std::int64_t>> elsewhere() override {
    using Counts = std::map<std::string, std::int64_t>;
    return guarded<Counts>([&] {
      Counts counts;
      Statement rows(database_, fmt::format("SELECT machine, target, threads, count(*) FROM jobs WHERE state = "
                                            "'queued' AND NOT ({}) GROUP BY machine, target, threads",
                                            kHere));
      bind_site(rows);
      while (rows.step()) {
        const bool known = !rows.text(0).empty();
        const std::string where =
            known ? fmt::format("{}, target {}, threads {}", rows.text(0), rows.text(1), rows.integer(2))
                  : std::string("a machine that an older version did not note");
        counts[where] = rows.integer(3);
      }
      return counts;
    });
  }

  Result<std::optional<Reference>> reference(const std::string& machine, const std::string& problem) override {
    return guarded<std::optional<Reference>>([&]() -> std::optional<Reference> {
      Statement rows(database_, "SELECT time_us, name FROM baselines WHERE machine = ? AND problem = ?");
      rows.bind(machine).bind(problem);
      if (!rows.step()) return std::nullopt;
      return Reference{rows.real(0).value_or(0), rows.text(1)};
    });
  }

  Status keep_reference(const std::string& machine, const std::string& problem, const Reference& reference) override {
    return guarded<Nothing>([&] {
      database_.transaction([&] {
        Statement row(database_,
                      "INSERT OR REPLACE INTO baselines(machine, problem, time_us, name) VALUES(?, ?, ?, ?)");
        row.bind(machine).bind(problem).bind(std::optional(reference.time_us)).bind(reference.name).step();
      });
      return Nothing{};
    });
  }

 private:
  struct QueueIsFull {};

  // Runs a query and turns whatever goes wrong into an Error.
  template <class T>
  Result<T> guarded(const std::function<T()>& body) {
    const std::lock_guard lock(mutex_);
    try {
      return body();
    } catch (const DatabaseError& error) {
      return error.error();
    }
  }

  [[noreturn]] void damaged() const {
    throw DatabaseError(SQLITE_CORRUPT, bad_input(fmt::format("{} is damaged; move it away", what_)));
  }

  void identify() {
    const std::int64_t version = database_.integer("PRAGMA user_version");
    const std::int64_t owner = database_.integer("PRAGMA application_id");
    if (version == 0 && owner == 0 && database_.integer("SELECT count(*) FROM sqlite_master") == 0) return;
    if (owner != kApplicationId || version < 1 || version > kSchemaVersion) {
      throw DatabaseError(SQLITE_NOTADB,
                          bad_input(fmt::format("{} is not a queue of this version; give a new path", what_)));
    }
  }

  Statement& bind_site(Statement& statement) const {
    return statement.bind(site_.machine.id()).bind(to_string(site_.target)).bind(std::int64_t{site_.threads});
  }

  std::int64_t waiting_here() {
    Statement rows(database_, fmt::format("SELECT count(*) FROM jobs WHERE state = 'queued' AND {}", kHere));
    bind_site(rows).step();
    return rows.integer(0);
  }

  // Jobs without a site that are this one's: their identity says so.
  void adopt() {
    std::vector<std::string> ids;
    {
      Statement rows(database_, fmt::format("SELECT {} FROM jobs WHERE state = 'queued' AND machine = ''", kColumns));
      while (rows.step()) {
        const Job job = read_job(rows);
        if (identity(job.problem, job.name, site_) == job.id) ids.push_back(job.id);
      }
    }
    for (const std::string& id : ids) {
      Statement row(database_, "UPDATE jobs SET machine = ?, target = ?, threads = ? WHERE id = ?");
      bind_site(row).bind(id).step();
    }
  }

  static Job read_job(const Statement& row) {
    Job job;
    job.id = row.text(0);
    job.device = row.text(1);
    if (const auto problem = parse_problem(row.text(2))) job.problem = *problem;
    job.name = row.text(3);
    job.source = row.text(4);
    job.descriptor = row.text(5);
    job.tokens = row.integer(6);
    job.priority = static_cast<int>(row.integer(7));
    if (const double deadline = row.real(8).value_or(kNever); deadline < kNever) job.deadline = deadline;
    job.state = state_from(row.text(9));
    job.tries = static_cast<int>(row.integer(10));
    job.measured = row.integer(11);
    job.accepted = row.real(12).value_or(0);
    job.finished = row.real(13);
    job.outcome = row.text(14);
    return job;
  }

  std::optional<Job> find_job(const std::string& id) {
    Statement rows(database_, fmt::format("SELECT {} FROM jobs WHERE id = ?", kColumns));
    rows.bind(id);
    if (!rows.step()) return std::nullopt;
    return read_job(rows);
  }

  // An outcome that is known stays until the next one replaces it, unless the state says otherwise.
  void set_state(const std::string& id, JobState state, int tries, const std::optional<double>& finished,
                 const std::string& outcome) {
    Statement row(database_, "UPDATE jobs SET state = ?, tries = ?, finished = ?, outcome = ? WHERE id = ?");
    row.bind(to_string(state)).bind(std::int64_t{tries}).bind(finished).bind(outcome).bind(id).step();
  }

  struct Known {
    JobState state;
    int priority;
    double deadline;
  };
  std::optional<Known> known(const std::string& id) {
    Statement rows(database_, "SELECT state, priority, deadline FROM jobs WHERE id = ?");
    rows.bind(id);
    if (!rows.step()) return std::nullopt;
    return Known{state_from(rows.text(0)), static_cast<int>(rows.integer(1)), rows.real(2).value_or(kNever)};
  }

  // Nothing has to be written when every candidate is measured already, or is measured now.
  bool all_known(const std::vector<Submission>& submissions, Acceptance& acceptance) {
    for (const Submission& submission : submissions) {
      const auto row = known(submission.id);
      const bool settled =
          row && (row->state == JobState::running || (row->state == JobState::done && !submission.remeasure));
      if (!settled) {
        acceptance = {};
        return false;
      }
      acceptance.receipts.push_back({submission.id, row->state, true});
    }
    return true;
  }

  Receipt accept_one(const Submission& submission) {
    const double now = unix_now();
    const double deadline = submission.deadline_seconds ? now + *submission.deadline_seconds : kNever;
    const auto row = known(submission.id);
    if (!row) {
      insert(submission, now, deadline);
      return {submission.id, JobState::queued, false};
    }
    if (row->state == JobState::running || (row->state == JobState::done && !submission.remeasure)) {
      return {submission.id, row->state, true};
    }
    if (row->state == JobState::queued) {
      Statement raise(database_, "UPDATE jobs SET priority = ?, deadline = ? WHERE id = ?");
      raise.bind(std::int64_t{std::max(row->priority, submission.priority)});
      raise.bind(std::optional(std::max(row->deadline, deadline))).bind(submission.id).step();
      return {submission.id, JobState::queued, true};
    }
    Statement again(database_,
                    "UPDATE jobs SET seq = (SELECT max(seq) + 1 FROM jobs), device = ?, priority = ?, deadline = ?, "
                    "state = 'queued', tries = 0, accepted = ?, finished = NULL, outcome = '', machine = ?, target = "
                    "?, threads = ? WHERE id = ?");
    again.bind(device_for(submission)).bind(std::int64_t{submission.priority}).bind(std::optional(deadline));
    bind_site(again.bind(std::optional(now))).bind(submission.id).step();
    return {submission.id, JobState::queued, false};
  }

  void insert(const Submission& submission, double now, double deadline) {
    Statement row(database_,
                  "INSERT INTO jobs(id, device, problem, name, source, descriptor, tokens, priority, deadline, state, "
                  "tries, measured, accepted, outcome, machine, target, threads) "
                  "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, 'queued', 0, 0, ?, '', ?, ?, ?)");
    row.bind(submission.id).bind(device_for(submission)).bind(to_string(submission.problem)).bind(submission.name);
    row.bind(submission.source).bind(submission.descriptor).bind(submission.tokens);
    row.bind(std::int64_t{submission.priority}).bind(std::optional(deadline)).bind(std::optional(now));
    bind_site(row).step();
  }

  // The one asked for, else the one with the fewest jobs that wait or run.
  std::string device_for(const Submission& submission) {
    if (!submission.device.empty() || devices_.size() == 1) {
      return submission.device.empty() ? devices_.front() : submission.device;
    }
    std::string best = devices_.front();
    std::int64_t fewest = -1;
    for (const std::string& device : devices_) {
      Statement rows(database_, fmt::format("SELECT count(*) FROM jobs WHERE state IN ('queued', 'running') AND {} "
                                            "AND device = ?",
                                            kHere));
      bind_site(rows).bind(device).step();
      if (fewest >= 0 && rows.integer(0) >= fewest) continue;
      fewest = rows.integer(0);
      best = device;
    }
    return best;
  }

  std::string what_;
  Site site_;
  std::vector<std::string> devices_;
  FileLock lock_;
  std::mutex mutex_;
  Database database_;
};

// SQLite takes a short file of other bytes for an empty database and would overwrite it.
bool is_foreign(const std::filesystem::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char start[16] = {};
  const auto size = read(fd, start, sizeof start);
  close(fd);
  return size > 0 && (size != sizeof start || std::memcmp(start, "SQLite format 3", sizeof start) != 0);
}

}  // namespace

std::string_view to_string(JobState state) {
  switch (state) {
    case JobState::queued:
      return "queued";
    case JobState::running:
      return "running";
    case JobState::done:
      return "done";
    case JobState::expired:
      return "expired";
    case JobState::failed:
      return "failed";
  }
  return "failed";
}

double unix_now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

Result<std::unique_ptr<Store>> Store::open(const std::filesystem::path& path, const Site& site,
                                           const std::vector<std::string>& devices) {
  std::error_code error;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  if (error) return environment_error(fmt::format("cannot create {}: {}", path.string(), error.message()));
  if (is_foreign(path))
    return bad_input(fmt::format("queue {} is another kind of file; give a new path", path.string()));
  try {
    auto store = std::make_unique<SqliteStore>(path, site);
    if (const Status locked = store->lock(path.string() + ".lock"); !locked) return locked.error();
    if (const Status migrated = store->migrate(); !migrated) return migrated.error();
    if (const Status resumed = store->resume(devices); !resumed) return resumed.error();
    return std::unique_ptr<Store>(std::move(store));
  } catch (const DatabaseError& failure) {
    return failure.error();
  }
}

}  // namespace warpsmith::serve
