#include "base/posix.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/cord.h"
#include "testing/status_matchers.h"

namespace cairn {
namespace {

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) != -1; }

int OpenNull() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

TEST(UniqueFdTest, ClosesAtTheEndOfItsLife) {
  int fd = -1;
  {
    const UniqueFd owner(OpenNull());
    ASSERT_TRUE(owner.ok());
    fd = owner.get();
    EXPECT_TRUE(IsOpen(fd));
  }
  EXPECT_FALSE(IsOpen(fd));
}

TEST(UniqueFdTest, OwnsNothingByDefault) {
  UniqueFd owner;
  EXPECT_FALSE(owner.ok());
  owner.Reset();
  EXPECT_EQ(owner.Release(), -1);
}

TEST(UniqueFdTest, MovesInsteadOfSharing) {
  UniqueFd first(OpenNull());
  const int fd = first.get();
  UniqueFd second(std::move(first));
  EXPECT_EQ(second.get(), fd);
  EXPECT_FALSE(first.ok());  // NOLINT(bugprone-use-after-move): promised.

  UniqueFd third(OpenNull());
  const int replaced = third.get();
  third = std::move(second);
  EXPECT_FALSE(IsOpen(replaced));
  EXPECT_EQ(third.get(), fd);
  EXPECT_TRUE(IsOpen(fd));

  UniqueFd& same = third;
  third = std::move(same);
  EXPECT_TRUE(IsOpen(third.get()));
}

TEST(UniqueFdTest, ReleaseLeavesItOpen) {
  int fd = -1;
  {
    UniqueFd owner(OpenNull());
    fd = owner.Release();
  }
  EXPECT_TRUE(IsOpen(fd));
  close(fd);
}

TEST(PosixErrorTest, SaysWhatToDo) {
  EXPECT_EQ(Message(PosixError(ENOSPC, "write", "/x/y")),
            "cannot write /x/y: no space left on device; free space on this "
            "file system and run the same command again");
  EXPECT_THAT(PosixError(EMFILE, "open", "/x"),
              FailsWith(absl::StatusCode::kResourceExhausted, "ulimit -n"));
  EXPECT_THAT(PosixError(EROFS, "create", "/x"),
              FailsWith(absl::StatusCode::kPermissionDenied, "read-only"));
}

TEST(PosixErrorTest, NoHintLeavesNoTrace) {
  EXPECT_EQ(Message(PosixError(ENOENT, "open", "/x/y")),
            "cannot open /x/y: no such file or directory");
}

TEST(PosixErrorTest, EscapesThePath) {
  EXPECT_THAT(PosixError(ENOENT, "open", "/x/\x1b[31m\xff"),
              FailsWith(absl::StatusCode::kNotFound, "/x/%1B[31m%FF:"));
}

TEST(PosixErrorTest, TheCodeSaysWhatTheCallerDoesNext) {
  const std::pair<int, absl::StatusCode> cases[] = {
      {ENOENT, absl::StatusCode::kNotFound},
      {ENOTDIR, absl::StatusCode::kNotFound},
      {EEXIST, absl::StatusCode::kAlreadyExists},
      {ENOTEMPTY, absl::StatusCode::kAlreadyExists},
      {EACCES, absl::StatusCode::kPermissionDenied},
      {EPERM, absl::StatusCode::kPermissionDenied},
      {EROFS, absl::StatusCode::kPermissionDenied},
      {ENOSPC, absl::StatusCode::kResourceExhausted},
      {EDQUOT, absl::StatusCode::kResourceExhausted},
      {EMFILE, absl::StatusCode::kResourceExhausted},
      {EFBIG, absl::StatusCode::kResourceExhausted},
      {ELOOP, absl::StatusCode::kFailedPrecondition},
      {EXDEV, absl::StatusCode::kFailedPrecondition},
      {ENAMETOOLONG, absl::StatusCode::kFailedPrecondition},
      {EINVAL, absl::StatusCode::kFailedPrecondition},
      {EISDIR, absl::StatusCode::kFailedPrecondition},
      {EINTR, absl::StatusCode::kUnavailable},
      {EAGAIN, absl::StatusCode::kUnavailable},
      {EBUSY, absl::StatusCode::kUnavailable},
      {ETXTBSY, absl::StatusCode::kUnavailable},
      {ESTALE, absl::StatusCode::kUnavailable},
      {EIO, absl::StatusCode::kDataLoss},
      {EUCLEAN, absl::StatusCode::kDataLoss},
      {EBADMSG, absl::StatusCode::kDataLoss},
      {ENOTTY, absl::StatusCode::kUnknown},
      {99'999, absl::StatusCode::kUnknown},
      {0, absl::StatusCode::kUnknown},
  };
  for (const auto& [error, code] : cases) {
    EXPECT_THAT(PosixError(error, "open", "/x"), HasCode(code)) << error;
  }
  EXPECT_THAT(PosixError(ENOTTY, "open", "/x"),
              FailsWith(absl::StatusCode::kUnknown, "(errno 25)"));
}

TEST(AnnotateTest, PutsTheContextFirstAndKeepsTheRest) {
  absl::Status status = absl::DataLossError("digest differs");
  status.SetPayload("cairn/object", absl::Cord("key"));
  const absl::Status annotated = Annotate(status, "block 7");
  EXPECT_THAT(annotated, HasCode(absl::StatusCode::kDataLoss));
  EXPECT_EQ(Message(annotated), "block 7: digest differs");
  EXPECT_EQ(annotated.GetPayload("cairn/object"), absl::Cord("key"));
}

TEST(AnnotateTest, SuccessNeedsNoContext) {
  EXPECT_OK(Annotate(absl::OkStatus(), "block 7"));
}

}  // namespace
}  // namespace cairn
