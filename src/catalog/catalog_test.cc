// Catalog on SQLite: the contract, and what only a file can do to it.

#include "catalog/catalog.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "soci/soci.h"
#include "soci/sqlite3/soci-sqlite3.h"
#include "testing/catalog_contract.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace cairn {
namespace {

class SqliteFixture final : public CatalogFixture {
 public:
  std::string Connection() override {
    return "sqlite3://" + directory_ / "catalog.db";
  }

 private:
  TempDir directory_;
};

INSTANTIATE_TEST_SUITE_P(
    Sqlite, CatalogContract,
    testing::Values(+[]() -> std::unique_ptr<CatalogFixture> {
      return std::make_unique<SqliteFixture>();
    }));

class CatalogFileTest : public testing::Test {
 protected:
  std::string Path() const { return directory_ / "catalog.db"; }
  absl::StatusOr<std::unique_ptr<Catalog>> Open() const {
    return Catalog::Open("sqlite3://" + Path());
  }
  void Execute(const std::string& statement) const {
    soci::session session(soci::sqlite3, "dbname=\"" + Path() + "\"");
    session << statement;
  }

  TempDir directory_;
};

TEST_F(CatalogFileTest, AnotherFileIsDamageWithAdvice) {
  WriteTestFile(Path(), RandomBytes(8192, 1));
  EXPECT_THAT(Open(), FailsWith(absl::StatusCode::kDataLoss, "cairn rebuild"));
  EXPECT_THAT(Open(), FailsWith(absl::StatusCode::kDataLoss, Path()));
  EXPECT_EQ(ReadTestFile(Path()), RandomBytes(8192, 1));
}

TEST_F(CatalogFileTest, AnEmptyFileBecomesACatalog) {
  WriteTestFile(Path(), "");
  EXPECT_OK(Open());
}

TEST_F(CatalogFileTest, AnotherProgramsDatabaseIsRefused) {
  // From this file, what makes it a catalog is taken away again.
  ASSERT_OK((*Open())->Close());
  Execute("DROP TABLE settings");
  EXPECT_THAT(Open(), FailsWith(absl::StatusCode::kDataLoss, "not a catalog"));
}

TEST_F(CatalogFileTest, ANewerSchemaIsNamed) {
  ASSERT_OK((*Open())->Close());
  Execute("UPDATE settings SET value = '12'");
  EXPECT_THAT(Open(),
              FailsWith(absl::StatusCode::kUnimplemented, "version 12"));
}

TEST_F(CatalogFileTest, DamageInsideIsDamage) {
  {
    auto catalog = *Open();
    std::vector<FileFingerprint> files;
    for (int i = 0; i < 2000; ++i) files.push_back({std::to_string(i)});
    ASSERT_OK(catalog->Upsert(TestCheckpoint("run", "a", 1)));
    ASSERT_OK(catalog->SetFingerprints(TestGeneration(1), files, "d"));
    ASSERT_OK(catalog->Close());
  }
  std::string content = ReadTestFile(Path());
  constexpr size_t kPage = 4096;
  ASSERT_GT(content.size(), 20 * kPage);
  // All but the first pages, which hold the schema.
  for (size_t at = 12 * kPage; at < content.size(); ++at) content[at] = '\x5a';
  WriteTestFile(Path(), content);
  auto catalog = Open();
  ASSERT_OK(catalog);
  EXPECT_THAT((*catalog)->GetFingerprints(TestGeneration(1)),
              FailsWith(absl::StatusCode::kDataLoss, "cairn rebuild"));
}

TEST_F(CatalogFileTest, ForeignTextInsideIsDamage) {
  auto catalog = *Open();
  ASSERT_OK(catalog->Upsert(TestCheckpoint("run", "a", 1)));
  Execute("UPDATE checkpoints SET labels = '[1]'");
  EXPECT_THAT(catalog->All(), HasCode(absl::StatusCode::kDataLoss));
}

TEST_F(CatalogFileTest, AMissingDirectoryIsSaid) {
  EXPECT_THAT(Catalog::Open("sqlite3://" + directory_ / "absent/catalog.db"),
              FailsWith(absl::StatusCode::kNotFound, "absent"));
}

TEST_F(CatalogFileTest, OtherConnectionsAreRefused) {
  for (const char* const connection :
       {"", "catalog.db", "mysql://x", "sqlite3://", "sqlite3:///tmp/a\"b"}) {
    EXPECT_THAT(Catalog::Open(connection),
                HasCode(absl::StatusCode::kInvalidArgument))
        << connection;
  }
}

// The library takes its options from a string with "=" and blanks in it.
TEST_F(CatalogFileTest, AnyPathWorks) {
  for (const char* const name :
       {"a=b  c", " timeout=1 db=x", "q'\\", "caf\xe9"}) {
    const std::string path = directory_ / name;
    auto catalog = Catalog::Open("sqlite3://" + path);
    ASSERT_OK(catalog);
    struct stat found;
    EXPECT_EQ(::stat(path.c_str(), &found), 0) << path;
  }
}

TEST_F(CatalogFileTest, AfterCloseOneFileHoldsAll) {
  auto catalog = *Open();
  ASSERT_OK(catalog->Upsert(TestCheckpoint("run", "a", 1)));
  ASSERT_OK(catalog->Close());
  const std::string moved = directory_ / "moved.db";
  ASSERT_EQ(::rename(Path().c_str(), moved.c_str()), 0);
  struct stat unused;
  EXPECT_NE(::stat((Path() + "-wal").c_str(), &unused), 0);
  auto reopened = Catalog::Open("sqlite3://" + moved);
  ASSERT_OK(reopened);
  EXPECT_EQ((*reopened)->All()->size(), 1U);
}

// Several processes make the same catalog at once, and are killed while
// writing.
TEST_F(CatalogFileTest, SurvivesKilledWriters) {
  constexpr int kChildren = 3;
  constexpr uint64_t kAtLeast = 20;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  pid_t children[kChildren];
  for (int i = 0; i < kChildren; ++i) {
    children[i] = ::fork();
    ASSERT_GE(children[i], 0);
    if (children[i] != 0) continue;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto catalog = Open();
    if (!catalog.ok()) ::_exit(1);
    for (uint64_t n = 1;; ++n) {
      const auto record = TestCheckpoint(std::to_string(i), "a", 3 * n + i);
      if (!(*catalog)->Upsert(record).ok()) ::_exit(1);
      if (!(*catalog)
               ->SetFingerprints(record.generation, {{"f"}, {"g"}}, "d")
               .ok()) {
        ::_exit(1);
      }
      if (n == kAtLeast && ::write(ready[1], "x", 1) != 1) ::_exit(1);
    }
  }
  ::close(ready[1]);
  for (int i = 0; i < kChildren; ++i) {
    char byte;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  }
  ::close(ready[0]);
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
  }
  auto catalog = Open();
  ASSERT_OK(catalog);
  const auto all = (*catalog)->All();
  ASSERT_OK(all);
  EXPECT_GE(all->size(), kChildren * kAtLeast);
  for (const CheckpointRecord& record : *all) {
    const size_t files = (*catalog)->GetFingerprints(record.generation)->size();
    EXPECT_EQ(files, record.accelerator.fingerprint.empty() ? 0U : 2U);
  }
  EXPECT_OK((*catalog)->Upsert(TestCheckpoint("run", "after", 1)));
}

}  // namespace
}  // namespace cairn
