#include "base/byte_source.h"

#include <gtest/gtest.h>

#include <string>

#include "testing/status_matchers.h"

namespace cairn {
namespace {

absl::StatusOr<std::string> Read(ByteSource* source, uint64_t offset,
                                 size_t size) {
  std::string out(size, '?');
  const absl::Status status =
      source->ReadAt(offset, std::as_writable_bytes(std::span(out)));
  if (!status.ok()) return status;
  return out;
}

TEST(MemoryByteSourceTest, ReadsAnyRange) {
  MemoryByteSource source(AsBytes("0123456789"));
  EXPECT_EQ(source.SizeBytes(), 10u);
  EXPECT_EQ(*Read(&source, 0, 10), "0123456789");
  EXPECT_EQ(*Read(&source, 3, 4), "3456");
  EXPECT_EQ(*Read(&source, 9, 1), "9");
  EXPECT_EQ(*Read(&source, 10, 0), "");
}

TEST(MemoryByteSourceTest, NeverReadsShort) {
  MemoryByteSource source(AsBytes("0123456789"));
  EXPECT_THAT(Read(&source, 9, 2),
              FailsWith(absl::StatusCode::kOutOfRange, "after 10 bytes"));
  EXPECT_THAT(Read(&source, 11, 0), HasCode(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(Read(&source, ~uint64_t{0}, 2),
              HasCode(absl::StatusCode::kOutOfRange));
}

TEST(MemoryByteSourceTest, OfNothing) {
  MemoryByteSource source(ByteView{});
  EXPECT_EQ(source.SizeBytes(), 0u);
  EXPECT_OK(Read(&source, 0, 0));
  EXPECT_THAT(Read(&source, 0, 1), HasCode(absl::StatusCode::kOutOfRange));
}

}  // namespace
}  // namespace cairn
