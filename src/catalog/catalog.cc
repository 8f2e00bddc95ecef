#include "catalog/catalog.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "base/escape.h"
#include "base/status_macros.h"
#include "catalog/checkpoint_row.h"
#include "catalog/database.h"
#include "catalog/manifest_check.h"
#include "fmt/format.h"
#include "soci/soci.h"

namespace cairn {

namespace {

constexpr std::string_view kSchemaSetting = "schema_version";

// An inode uses all of its 64 bits; a column has a sign.
long long InodeToColumn(uint64_t inode) {
  return static_cast<long long>(inode);
}
uint64_t InodeFromColumn(long long column) {
  return static_cast<uint64_t>(column);
}

void SortNewestFirst(std::vector<CheckpointRecord>* records) {
  std::sort(records->begin(), records->end(),
            [](const CheckpointRecord& a, const CheckpointRecord& b) {
              return std::tie(a.run, b.sequence, a.name, a.generation) <
                     std::tie(b.run, a.sequence, b.name, b.generation);
            });
}

absl::Status InsertFingerprints(soci::session& session,
                                const std::string& generation,
                                const std::vector<FileFingerprint>& files) {
  std::string path;
  long long size_bytes = 0;
  long long mtime_ns = 0;
  long long ctime_ns = 0;
  long long inode = 0;
  long long known_ns = 0;
  soci::statement statement =
      (session.prepare
           << "INSERT INTO fingerprints (generation, path, size_bytes, "
              "mtime_ns, ctime_ns, inode, known_ns) "
              "VALUES (:generation, :path, :size, :mtime, :ctime, :inode, "
              ":known)",
       soci::use(generation), soci::use(path), soci::use(size_bytes),
       soci::use(mtime_ns), soci::use(ctime_ns), soci::use(inode),
       soci::use(known_ns));
  // In the order of the index, which is much quicker to build that way.
  std::vector<const FileFingerprint*> ordered;
  ordered.reserve(files.size());
  for (const FileFingerprint& file : files) ordered.push_back(&file);
  std::sort(ordered.begin(), ordered.end(),
            [](const FileFingerprint* a, const FileFingerprint* b) {
              return a->path < b->path;
            });
  for (const FileFingerprint* const known : ordered) {
    const FileFingerprint& file = *known;
    if (file.size_bytes > kInt64Max) {
      return absl::InvalidArgumentError(
          fmt::format("{}: a size of {} bytes is beyond 2^63-1",
                      EscapeName(file.path), file.size_bytes));
    }
    path = ToColumn(file.path);
    size_bytes = static_cast<long long>(file.size_bytes);
    mtime_ns = file.mtime_ns;
    ctime_ns = file.ctime_ns;
    inode = InodeToColumn(file.inode);
    known_ns = file.known_ns;
    statement.execute(/*withDataExchange=*/true);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<CandidateRecord>> ReadCandidates(
    soci::session& session) {
  CandidateRecord escaped;
  OptionalColumn step;
  long long first_seen_ns = 0;
  soci::statement statement =
      (session.prepare << "SELECT run, name, framework, step, verdict, reason, "
                          "first_seen_ns FROM candidates",
       soci::into(escaped.run), soci::into(escaped.name),
       soci::into(escaped.framework), soci::into(step.value, step.indicator),
       soci::into(escaped.verdict), soci::into(escaped.reason),
       soci::into(first_seen_ns));
  statement.execute();
  std::vector<CandidateRecord> candidates;
  while (statement.fetch()) {
    CandidateRecord candidate;
    CAIRN_ASSIGN_OR_RETURN(candidate.run, FromColumn(escaped.run));
    CAIRN_ASSIGN_OR_RETURN(candidate.name, FromColumn(escaped.name));
    CAIRN_ASSIGN_OR_RETURN(candidate.framework, FromColumn(escaped.framework));
    candidate.step = FromColumn(step);
    CAIRN_ASSIGN_OR_RETURN(candidate.verdict, FromColumn(escaped.verdict));
    CAIRN_ASSIGN_OR_RETURN(candidate.reason, FromColumn(escaped.reason));
    candidate.first_seen_ns = first_seen_ns;
    candidates.push_back(std::move(candidate));
  }
  std::sort(candidates.begin(), candidates.end(),
            [](const CandidateRecord& a, const CandidateRecord& b) {
              return std::tie(a.run, a.name) < std::tie(b.run, b.name);
            });
  return candidates;
}

void InsertCandidates(soci::session& session,
                      const std::vector<CandidateRecord>& candidates) {
  CandidateRecord escaped;
  OptionalColumn step;
  long long first_seen_ns = 0;
  soci::statement statement =
      (session.prepare
           << "INSERT INTO candidates (run, name, framework, step, verdict, "
              "reason, first_seen_ns) VALUES (:run, :name, :framework, :step, "
              ":verdict, :reason, :first) ON CONFLICT (run, name) DO UPDATE "
              "SET "
              "framework = excluded.framework, step = excluded.step, "
              "verdict = excluded.verdict, reason = excluded.reason",
       soci::use(escaped.run), soci::use(escaped.name),
       soci::use(escaped.framework), soci::use(step.value, step.indicator),
       soci::use(escaped.verdict), soci::use(escaped.reason),
       soci::use(first_seen_ns));
  for (const CandidateRecord& candidate : candidates) {
    escaped.run = ToColumn(candidate.run);
    escaped.name = ToColumn(candidate.name);
    escaped.framework = ToColumn(candidate.framework);
    step = ToColumn(candidate.step);
    escaped.verdict = ToColumn(candidate.verdict);
    escaped.reason = ToColumn(candidate.reason);
    first_seen_ns = candidate.first_seen_ns;
    statement.execute(/*withDataExchange=*/true);
  }
}

}  // namespace

struct Catalog::Impl {
  std::unique_ptr<Database> database;

  absl::StatusOr<std::vector<CheckpointRecord>> Select(
      std::string_view condition, std::vector<std::string> arguments) {
    std::vector<CheckpointRecord> records;
    CAIRN_RETURN_IF_ERROR(database->Read(
        "read checkpoints", [&](soci::session& session) -> absl::Status {
          CAIRN_ASSIGN_OR_RETURN(
              records,
              ReadCheckpoints(session, condition, std::move(arguments)));
          return absl::OkStatus();
        }));
    SortNewestFirst(&records);
    return records;
  }

  // The one value that `query` selects for the arguments; "" if there is none.
  absl::StatusOr<std::string> Lookup(std::string_view action, const char* query,
                                     std::vector<std::string> arguments) {
    std::string value;
    CAIRN_RETURN_IF_ERROR(
        database->Read(action, [&](soci::session& session) -> absl::Status {
          soci::statement statement(session);
          statement.exchange(soci::into(value));
          for (std::string& argument : arguments) {
            statement.exchange(soci::use(argument));
          }
          statement.alloc();
          statement.prepare(query);
          statement.define_and_bind();
          if (!statement.execute(/*withDataExchange=*/true)) value.clear();
          return absl::OkStatus();
        }));
    return FromColumn(value);
  }

  // Runs statements that all take `arguments`, in one transaction.
  absl::Status Execute(std::string_view action,
                       const std::vector<const char*>& queries,
                       std::vector<std::string> arguments) {
    return database->Write(action, [&](soci::session& session) -> absl::Status {
      for (const char* const query : queries) {
        soci::statement statement(session);
        for (std::string& argument : arguments) {
          statement.exchange(soci::use(argument));
        }
        statement.alloc();
        statement.prepare(query);
        statement.define_and_bind();
        statement.execute(/*withDataExchange=*/true);
      }
      return absl::OkStatus();
    });
  }
};

const char* TierName(Tier tier) {
  return tier == Tier::kAccelerator ? "accelerator" : "core";
}

Catalog::Catalog(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Catalog::~Catalog() = default;

absl::StatusOr<std::unique_ptr<Catalog>> Catalog::Open(
    const std::string& connection) {
  auto impl = std::make_unique<Impl>();
  CAIRN_ASSIGN_OR_RETURN(impl->database, Database::Open(connection));
  return std::unique_ptr<Catalog>(new Catalog(std::move(impl)));
}

absl::Status Catalog::Close() { return impl_->database->Close(); }

absl::StatusOr<std::string> Catalog::GetSetting(std::string_view key) {
  return impl_->Lookup("read a setting",
                       "SELECT value FROM settings WHERE name = :name",
                       {ToColumn(key)});
}

absl::Status Catalog::SetSetting(std::string_view key, std::string_view value) {
  if (key == kSchemaSetting) {
    return absl::InvalidArgumentError(
        fmt::format("the setting {} is the catalog's own", kSchemaSetting));
  }
  return impl_->Execute("write a setting",
                        {"INSERT INTO settings (name, value) VALUES (:name, "
                         ":value) ON CONFLICT (name) DO UPDATE SET value = "
                         "excluded.value"},
                        {ToColumn(key), ToColumn(value)});
}

absl::Status Catalog::Upsert(const CheckpointRecord& record) {
  return UpsertAll({record});
}

absl::Status Catalog::UpsertAll(const std::vector<CheckpointRecord>& records) {
  return impl_->database->Write("record checkpoints",
                                [&records](soci::session& session) {
                                  return WriteCheckpoints(session, records);
                                });
}

absl::Status Catalog::Remove(std::string_view generation) {
  return impl_->Execute(
      "remove a checkpoint",
      {"DELETE FROM fingerprints WHERE generation = :generation",
       "DELETE FROM uploads WHERE generation = :generation",
       "DELETE FROM checkpoints WHERE generation = :generation"},
      {ToColumn(generation)});
}

absl::StatusOr<CheckpointRecord> Catalog::Get(std::string_view generation) {
  CAIRN_ASSIGN_OR_RETURN(
      const auto records,
      impl_->Select("generation = :generation", {ToColumn(generation)}));
  if (!records.empty()) return records.front();
  return absl::NotFoundError(
      fmt::format("the catalog has no generation {}", EscapeName(generation)));
}

absl::StatusOr<std::vector<CheckpointRecord>> Catalog::Generations(
    std::string_view run, std::string_view name) {
  return impl_->Select("run = :run AND name = :name",
                       {ToColumn(run), ToColumn(name)});
}

absl::StatusOr<std::vector<CheckpointRecord>> Catalog::OfRun(
    std::string_view run) {
  return impl_->Select("run = :run", {ToColumn(run)});
}

absl::StatusOr<std::vector<CheckpointRecord>> Catalog::All() {
  return impl_->Select("", {});
}

absl::StatusOr<uint64_t> Catalog::LargestSequence(std::string_view run) {
  const std::string run_column = ToColumn(run);
  long long largest = 0;
  CAIRN_RETURN_IF_ERROR(impl_->database->Read(
      "read the largest sequence", [&](soci::session& session) {
        session << "SELECT COALESCE(MAX(sequence), 0) FROM checkpoints WHERE "
                   "run = :run",
            soci::use(run_column), soci::into(largest);
        return absl::OkStatus();
      }));
  return static_cast<uint64_t>(largest);
}

absl::Status Catalog::SetFingerprints(std::string_view generation,
                                      const std::vector<FileFingerprint>& files,
                                      std::string_view digest) {
  const std::string id = ToColumn(generation);
  long long known_ns = files.empty() ? 0 : std::numeric_limits<int64_t>::max();
  for (const FileFingerprint& file : files) {
    known_ns = std::min<long long>(known_ns, file.known_ns);
  }
  const std::string digest_column = ToColumn(digest);
  return impl_->database->Write(
      "record fingerprints", [&](soci::session& session) -> absl::Status {
        soci::statement update =
            (session.prepare
                 << "UPDATE checkpoints SET accelerator_fingerprint "
                    "= :digest, accelerator_fingerprint_known_ns = "
                    ":known WHERE generation = :generation",
             soci::use(digest_column), soci::use(known_ns), soci::use(id));
        update.execute(/*withDataExchange=*/true);
        if (update.get_affected_rows() == 0) {
          return absl::NotFoundError(
              fmt::format("the catalog has no generation {}", id));
        }
        session << "DELETE FROM fingerprints WHERE generation = :generation",
            soci::use(id);
        return InsertFingerprints(session, id, files);
      });
}

absl::StatusOr<std::vector<FileFingerprint>> Catalog::GetFingerprints(
    std::string_view generation) {
  const std::string id = ToColumn(generation);
  std::vector<FileFingerprint> files;
  CAIRN_RETURN_IF_ERROR(impl_->database->Read(
      "read fingerprints", [&](soci::session& session) -> absl::Status {
        std::string path;
        long long size_bytes = 0;
        long long inode = 0;
        long long mtime_ns = 0;
        long long ctime_ns = 0;
        long long known_ns = 0;
        soci::statement statement =
            (session.prepare << "SELECT path, size_bytes, mtime_ns, ctime_ns, "
                                "inode, known_ns FROM fingerprints WHERE "
                                "generation = :generation",
             soci::use(id), soci::into(path), soci::into(size_bytes),
             soci::into(mtime_ns), soci::into(ctime_ns), soci::into(inode),
             soci::into(known_ns));
        statement.execute();
        while (statement.fetch()) {
          CAIRN_ASSIGN_OR_RETURN(std::string raw_path, FromColumn(path));
          files.push_back({std::move(raw_path),
                           static_cast<uint64_t>(size_bytes), mtime_ns,
                           ctime_ns, InodeFromColumn(inode), known_ns});
        }
        return absl::OkStatus();
      }));
  std::sort(files.begin(), files.end(),
            [](const FileFingerprint& a, const FileFingerprint& b) {
              return a.path < b.path;
            });
  return files;
}

absl::Status Catalog::RecordUpload(std::string_view generation,
                                   std::string_view key,
                                   std::string_view token) {
  return impl_->Execute(
      "record an upload",
      {"INSERT INTO uploads (generation, object_key, token) VALUES "
       "(:generation, :key, :token) ON CONFLICT (generation, object_key) DO "
       "UPDATE SET token = excluded.token"},
      {ToColumn(generation), ToColumn(key), ToColumn(token)});
}

absl::StatusOr<std::string> Catalog::FindUpload(std::string_view generation,
                                                std::string_view key) {
  return impl_->Lookup("find an upload",
                       "SELECT token FROM uploads WHERE generation = "
                       ":generation AND object_key = :key",
                       {ToColumn(generation), ToColumn(key)});
}

absl::Status Catalog::ForgetUpload(std::string_view generation,
                                   std::string_view key) {
  return impl_->Execute("forget an upload",
                        {"DELETE FROM uploads WHERE generation = :generation "
                         "AND object_key = :key"},
                        {ToColumn(generation), ToColumn(key)});
}

absl::Status Catalog::ReplaceCandidates(
    const std::vector<CandidateRecord>& candidates) {
  return impl_->database->Write(
      "record candidates", [&](soci::session& session) -> absl::Status {
        CAIRN_ASSIGN_OR_RETURN(const auto earlier, ReadCandidates(session));
        std::map<std::pair<std::string, std::string>, int64_t> first_seen_ns;
        for (const CandidateRecord& seen : earlier) {
          first_seen_ns[{seen.run, seen.name}] = seen.first_seen_ns;
        }
        std::vector<CandidateRecord> kept = candidates;
        for (CandidateRecord& candidate : kept) {
          const auto seen = first_seen_ns.find({candidate.run, candidate.name});
          if (seen != first_seen_ns.end()) {
            candidate.first_seen_ns = seen->second;
          }
        }
        session << "DELETE FROM candidates";
        InsertCandidates(session, kept);
        return absl::OkStatus();
      });
}

absl::StatusOr<std::vector<CandidateRecord>> Catalog::Candidates() {
  std::vector<CandidateRecord> candidates;
  CAIRN_RETURN_IF_ERROR(impl_->database->Read(
      "read candidates", [&](soci::session& session) -> absl::Status {
        CAIRN_ASSIGN_OR_RETURN(candidates, ReadCandidates(session));
        return absl::OkStatus();
      }));
  return candidates;
}

absl::Status Catalog::RecordFailure(const FailureRecord& failure) {
  const std::string operation = ToColumn(failure.operation);
  const std::string subject = ToColumn(failure.subject);
  const std::string message = ToColumn(failure.message);
  const long long time_ns = failure.time_ns;
  return impl_->database->Write(
      "record a failure", [&](soci::session& session) {
        session
            << "INSERT INTO failures (operation, subject, message, time_ns) "
               "VALUES (:operation, :subject, :message, :time) ON CONFLICT "
               "(operation, subject) DO UPDATE SET message = "
               "excluded.message, time_ns = excluded.time_ns",
            soci::use(operation), soci::use(subject), soci::use(message),
            soci::use(time_ns);
        return absl::OkStatus();
      });
}

absl::Status Catalog::ClearFailure(std::string_view operation,
                                   std::string_view subject) {
  return impl_->Execute(
      "clear a failure",
      {"DELETE FROM failures WHERE operation = :operation AND "
       "subject = :subject"},
      {ToColumn(operation), ToColumn(subject)});
}

absl::StatusOr<std::vector<FailureRecord>> Catalog::Failures() {
  std::vector<FailureRecord> failures;
  CAIRN_RETURN_IF_ERROR(impl_->database->Read(
      "read failures", [&](soci::session& session) -> absl::Status {
        FailureRecord escaped;
        long long time_ns = 0;
        soci::statement statement =
            (session.prepare
                 << "SELECT operation, subject, message, time_ns FROM failures",
             soci::into(escaped.operation), soci::into(escaped.subject),
             soci::into(escaped.message), soci::into(time_ns));
        statement.execute();
        while (statement.fetch()) {
          FailureRecord failure;
          CAIRN_ASSIGN_OR_RETURN(failure.operation,
                                 FromColumn(escaped.operation));
          CAIRN_ASSIGN_OR_RETURN(failure.subject, FromColumn(escaped.subject));
          CAIRN_ASSIGN_OR_RETURN(failure.message, FromColumn(escaped.message));
          failure.time_ns = time_ns;
          failures.push_back(std::move(failure));
        }
        return absl::OkStatus();
      }));
  std::sort(failures.begin(), failures.end(),
            [](const FailureRecord& a, const FailureRecord& b) {
              return std::tie(b.time_ns, a.operation, a.subject) <
                     std::tie(a.time_ns, b.operation, b.subject);
            });
  return failures;
}

}  // namespace cairn
