#include "catalog/database.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <exception>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/escape.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "soci/sqlite3/soci-sqlite3.h"

namespace cairn {

namespace {

constexpr std::string_view kSqliteScheme = "sqlite3://";
constexpr int kSchemaVersion = 1;
constexpr int kBusySecondsMax = 30;
constexpr char kAdvice[] =
    "the catalog is only an index: delete it (with its -wal and -shm) and run "
    "`cairn rebuild`";

// Common to SQLite and PostgreSQL. Flags are 0 or 1; text is in the escaped
// form of names; times are nanoseconds.
constexpr const char* kSchema[] = {
    "CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE checkpoints ("
    "generation TEXT PRIMARY KEY, run TEXT NOT NULL, name TEXT NOT NULL,"
    " is_directory BIGINT NOT NULL, sequence BIGINT NOT NULL,"
    " framework TEXT NOT NULL, step BIGINT, epoch BIGINT,"
    " files BIGINT NOT NULL, bytes BIGINT NOT NULL,"
    " created_ns BIGINT NOT NULL, marker_mtime_ns BIGINT NOT NULL,"
    " origin TEXT NOT NULL, labels TEXT NOT NULL,"
    " accelerator_manifest BIGINT NOT NULL,"
    " accelerator_present BIGINT NOT NULL,"
    " accelerator_damaged BIGINT NOT NULL, accelerator_damage TEXT NOT NULL,"
    " accelerator_verified_ns BIGINT NOT NULL,"
    " accelerator_fingerprint TEXT NOT NULL,"
    " accelerator_fingerprint_known_ns BIGINT NOT NULL,"
    " core_manifest BIGINT NOT NULL, core_present BIGINT NOT NULL,"
    " core_damaged BIGINT NOT NULL, core_damage TEXT NOT NULL,"
    " core_verified_ns BIGINT NOT NULL, core_fingerprint TEXT NOT NULL,"
    " core_fingerprint_known_ns BIGINT NOT NULL,"
    " dirty BIGINT NOT NULL, released BIGINT NOT NULL, pinned BIGINT NOT NULL,"
    " hold_until_ns BIGINT, activity TEXT NOT NULL)",
    "CREATE INDEX checkpoints_by_path ON checkpoints (run, name)",
    "CREATE TABLE fingerprints ("
    "generation TEXT NOT NULL, path TEXT NOT NULL, size_bytes BIGINT NOT NULL,"
    " mtime_ns BIGINT NOT NULL, ctime_ns BIGINT NOT NULL, inode BIGINT NOT "
    "NULL,"
    " known_ns BIGINT NOT NULL, PRIMARY KEY (generation, path))",
    "CREATE TABLE uploads ("
    "generation TEXT NOT NULL, object_key TEXT NOT NULL, token TEXT NOT NULL,"
    " PRIMARY KEY (generation, object_key))",
    "CREATE TABLE candidates ("
    "run TEXT NOT NULL, name TEXT NOT NULL, framework TEXT NOT NULL,"
    " step BIGINT, verdict TEXT NOT NULL, reason TEXT NOT NULL,"
    " first_seen_ns BIGINT NOT NULL, PRIMARY KEY (run, name))",
    "CREATE TABLE failures ("
    "operation TEXT NOT NULL, subject TEXT NOT NULL, message TEXT NOT NULL,"
    " time_ns BIGINT NOT NULL, PRIMARY KEY (operation, subject))",
};

bool IsSqlite(const soci::session& session) {
  return session.get_backend_name() == "sqlite3";
}

// A transaction that reads before it writes must not be overtaken in between;
// SQLite needs to be told at its beginning.
void Begin(soci::session& session) {
  if (IsSqlite(session)) {
    session << "BEGIN IMMEDIATE";
  } else {
    session.begin();
  }
}

// False if the database has rolled back by itself.
bool Rollback(soci::session& session) {
  try {
    session.rollback();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

std::vector<std::string> Tables(soci::session& session) {
  std::vector<std::string> tables;
  std::string name;
  soci::statement statement = (session.prepare_table_names(), soci::into(name));
  statement.execute();
  while (statement.fetch()) tables.push_back(name);
  return tables;
}

// WAL: readers and one writer side by side, and a kill at any moment leaves a
// sound file. synchronous = NORMAL: after a power cut the last transactions may
// be missing, which for an index of what the tiers hold only means to look
// again; FULL would cost an fsync each.
void Configure(soci::session& session) {
  if (!IsSqlite(session)) return;
  std::string mode;
  session << "PRAGMA journal_mode", soci::into(mode);
  if (mode != "wal") session << "PRAGMA journal_mode = WAL", soci::into(mode);
  session << "PRAGMA synchronous = NORMAL";
}

bool IsDiskFull(const std::string& path) {
  struct statvfs space;
  return ::statvfs(path.c_str(), &space) == 0 && space.f_bavail == 0;
}

struct Meaning {
  int code;  // Of SQLite.
  absl::StatusCode status;
  const char* advice;
};

constexpr Meaning kMeanings[] = {
    {SQLITE_BUSY, absl::StatusCode::kUnavailable,
     "another process kept it locked for 30 s; try again"},
    {SQLITE_LOCKED, absl::StatusCode::kUnavailable, "try again"},
    {SQLITE_CONSTRAINT, absl::StatusCode::kInvalidArgument,
     "the same thing was given twice"},
    {SQLITE_FULL, absl::StatusCode::kResourceExhausted,
     "free space on that file system and try again"},
    {SQLITE_NOMEM, absl::StatusCode::kResourceExhausted, "out of memory"},
    {SQLITE_READONLY, absl::StatusCode::kPermissionDenied,
     "make the file and its directory writable"},
    {SQLITE_PERM, absl::StatusCode::kPermissionDenied,
     "make the file and its directory writable"},
    {SQLITE_CANTOPEN, absl::StatusCode::kPermissionDenied,
     "its directory must exist and be writable"},
    {SQLITE_IOERR, absl::StatusCode::kDataLoss,
     "look for disk errors in the kernel log; the catalog is only an index: "
     "delete it and run `cairn rebuild`"},
    {SQLITE_CORRUPT, absl::StatusCode::kDataLoss, kAdvice},
    {SQLITE_NOTADB, absl::StatusCode::kDataLoss, kAdvice},
    {SQLITE_ERROR, absl::StatusCode::kDataLoss, kAdvice},  // No such table.
};

bool IsBusy(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Database>> Database::Open(
    const std::string& connection) {
  if (!connection.starts_with(kSqliteScheme)) {
    return absl::InvalidArgumentError(
        fmt::format("catalog \"{}\" must be sqlite3:///path/of/the/file",
                    EscapeName(connection.substr(0, connection.find(':')))));
  }
  std::string path = connection.substr(kSqliteScheme.size());
  // Its connection string has no way to write one.
  if (path.empty() ||
      path.find_first_of(std::string_view("\"\0", 2)) != std::string::npos) {
    return absl::InvalidArgumentError(
        fmt::format("catalog path \"{}\" is empty or has a quotation mark; "
                    "choose another state_dir",
                    EscapeName(path)));
  }
  auto database = std::unique_ptr<Database>(new Database(std::move(path)));
  CAIRN_RETURN_IF_ERROR(database->Connect());
  // Processes that create the file at once get in each other's way without the
  // database's own waiting.
  const absl::Time deadline = absl::Now() + absl::Seconds(kBusySecondsMax);
  while (true) {
    const absl::Status status = database->PrepareSchema();
    if (status.ok()) return database;
    if (!IsBusy(status) || absl::Now() > deadline) return status;
    absl::SleepFor(absl::Milliseconds(10));
  }
}

absl::Status Database::Connect() {
  const std::string directory = path_.substr(0, path_.rfind('/') + 1);
  struct stat unused;
  if (!directory.empty() && ::stat(directory.c_str(), &unused) != 0) {
    return PosixError(errno, "open the directory of the catalog", directory);
  }
  const absl::MutexLock lock(&mutex_);
  try {
    session_.open(soci::sqlite3, fmt::format("dbname=\"{}\" timeout={}", path_,
                                             kBusySecondsMax));
  } catch (const std::exception&) {
    return CurrentError("open");
  }
  is_open_ = true;
  return absl::OkStatus();
}

absl::Status Database::CheckSchema(soci::session& session,
                                   bool* is_empty) const {
  const std::vector<std::string> tables = Tables(session);
  *is_empty = tables.empty();
  if (*is_empty) return absl::OkStatus();
  std::string text;
  if (std::find(tables.begin(), tables.end(), "settings") != tables.end()) {
    session << "SELECT value FROM settings WHERE name = 'schema_version'",
        soci::into(text);
  }
  int version = 0;
  const char* const end = text.data() + text.size();
  const bool is_number =
      std::from_chars(text.data(), end, version).ptr == end && version > 0;
  if (!is_number) {
    return absl::DataLossError(
        fmt::format("{} is a database but not a catalog of cairn; move it away "
                    "and run `cairn rebuild`",
                    EscapeName(path_)));
  }
  if (version > kSchemaVersion) {
    return absl::UnimplementedError(fmt::format(
        "catalog {} has schema version {}, and this cairn knows version {}: "
        "use "
        "the newer cairn, or delete the catalog and run `cairn rebuild`",
        EscapeName(path_), version, kSchemaVersion));
  }
  return absl::OkStatus();
}

absl::Status Database::PrepareSchema() {
  bool is_empty = false;
  CAIRN_RETURN_IF_ERROR(Read("open", [&](soci::session& session) {
    Configure(session);
    return CheckSchema(session, &is_empty);
  }));
  if (!is_empty) return absl::OkStatus();
  return Write("create", [this](soci::session& session) -> absl::Status {
    bool is_still_empty = false;
    CAIRN_RETURN_IF_ERROR(CheckSchema(session, &is_still_empty));
    if (!is_still_empty) return absl::OkStatus();
    for (const char* const statement : kSchema) session << statement;
    const std::string version = std::to_string(kSchemaVersion);
    session
        << "INSERT INTO settings (name, value) VALUES ('schema_version', :v)",
        soci::use(version);
    return absl::OkStatus();
  });
}

absl::Status Database::Write(std::string_view action, Body body) {
  return Run(action, /*in_transaction=*/true, body);
}

absl::Status Database::Read(std::string_view action, Body body) {
  return Run(action, /*in_transaction=*/false, body);
}

absl::Status Database::Run(std::string_view action, bool in_transaction,
                           Body body) {
  const absl::MutexLock lock(&mutex_);
  if (!is_open_) {
    return absl::FailedPreconditionError(
        fmt::format("cannot {}: the catalog is closed", action));
  }
  bool must_roll_back = false;
  try {
    if (in_transaction) {
      Begin(session_);
      must_roll_back = true;
    }
    absl::Status status = body(session_);
    if (in_transaction && status.ok()) session_.commit();
    must_roll_back = in_transaction && !status.ok();
    if (must_roll_back) Rollback(session_);
    return status;
  } catch (const std::exception&) {
    // First the message: a rollback may replace it.
    absl::Status status = CurrentError(action);
    if (must_roll_back) Rollback(session_);
    return status;
  }
}

absl::Status Database::Close() {
  const absl::MutexLock lock(&mutex_);
  if (!is_open_) return absl::OkStatus();
  is_open_ = false;
  try {
    if (IsSqlite(session_)) {
      int busy = 0;
      session_ << "PRAGMA wal_checkpoint(TRUNCATE)", soci::into(busy);
    }
    session_.close();
  } catch (const std::exception&) {
    return CurrentError("close");
  }
  return absl::OkStatus();
}

// Only while an exception is being handled.
absl::Status Database::CurrentError(std::string_view action) const {
  absl::StatusCode code = absl::StatusCode::kUnknown;
  std::string reason;
  std::string advice;
  // The messages are taken without their context, which shows the values of the
  // statement.
  try {
    throw;
  } catch (const soci::sqlite3_soci_error& error) {
    reason = error.get_error_message();
    constexpr int kPrimaryCode = 0xFF;
    int result = error.result() & kPrimaryCode;
    // What it maps (its -shm file) fails in this way, too, on a full disk.
    if (result == SQLITE_IOERR && IsDiskFull(path_)) {
      result = SQLITE_FULL;
      reason += "; the disk is full";
    }
    for (const Meaning& meaning : kMeanings) {
      if (meaning.code != result) continue;
      code = meaning.status;
      advice = fmt::format("; {}", meaning.advice);
    }
  } catch (const soci::soci_error& error) {
    reason = error.get_error_message();
  } catch (const std::exception& error) {
    reason = error.what();
  }
  return absl::Status(code, fmt::format("cannot {} in catalog {}: {}{}", action,
                                        EscapeName(path_), reason, advice));
}

}  // namespace cairn
