// The SQL database behind the catalog: opening, schema, transactions, and the
// library's exceptions as absl::Status. Everything that is particular to a kind
// of database is in database.cc.

#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "soci/soci.h"

namespace cairn {

// Thread-safe: one connection, one transaction at a time.
class Database {
 public:
  using Body = absl::FunctionRef<absl::Status(soci::session& session)>;

  // As Catalog::Open.
  static absl::StatusOr<std::unique_ptr<Database>> Open(
      const std::string& connection);

  // Runs `body` in a transaction that is committed if it returns OK. `body` may
  // throw what SOCI throws. `action` is for messages: "write a setting".
  absl::Status Write(std::string_view action, Body body);
  // For a body of one SELECT.
  absl::Status Read(std::string_view action, Body body);
  absl::Status Close();

 private:
  explicit Database(std::string path) : path_(std::move(path)) {}
  absl::Status Connect() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status PrepareSchema();
  absl::Status CheckSchema(soci::session& session, bool* is_empty) const;
  absl::Status Run(std::string_view action, bool in_transaction, Body body);
  absl::Status CurrentError(std::string_view action) const;

  const std::string path_;
  absl::Mutex mutex_;
  soci::session session_ ABSL_GUARDED_BY(mutex_);
  bool is_open_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace cairn
