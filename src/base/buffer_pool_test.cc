#include "base/buffer_pool.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <set>
#include <thread>
#include <utility>

namespace cairn {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;

bool IsAligned(const void* data, size_t alignment) {
  return reinterpret_cast<uintptr_t>(data) % alignment == 0;
}

TEST(BufferPoolTest, GivesAlignedMemoryOfTheSizeAskedFor) {
  for (const size_t size :
       {kBufferAlignment, 3 * kBufferAlignment, kHugePageBytes,
        kHugePageBytes + kBufferAlignment, 4 * kHugePageBytes}) {
    BufferPool pool(size, 2);
    EXPECT_EQ(pool.buffer_bytes(), size);
    const Buffer buffer = pool.Get();
    ASSERT_TRUE(buffer);
    EXPECT_EQ(buffer.bytes().size(), size);
    EXPECT_TRUE(IsAligned(buffer.bytes().data(), size >= kHugePageBytes
                                                     ? kHugePageBytes
                                                     : kBufferAlignment));
    std::ranges::fill(buffer.bytes(), std::byte{0xab});
    EXPECT_EQ(buffer.bytes().back(), std::byte{0xab});
  }
}

TEST(BufferPoolTest, MemoryIsThereBeforeTheFirstTouch) {
  BufferPool pool(2 * kHugePageBytes, 1);
  const Buffer buffer = pool.Get();
  std::vector<unsigned char> resident(buffer.bytes().size() /
                                      static_cast<size_t>(getpagesize()));
  ASSERT_EQ(
      mincore(buffer.bytes().data(), buffer.bytes().size(), resident.data()),
      0);
  EXPECT_TRUE(std::ranges::all_of(
      resident, [](unsigned char flags) { return (flags & 1) != 0; }));
}

TEST(BufferPoolTest, ReusesWhatCameBack) {
  BufferPool pool(kBufferAlignment, 4);
  const std::byte* first = nullptr;
  {
    const Buffer buffer = pool.Get();
    first = buffer.bytes().data();
  }
  const Buffer again = pool.Get();
  EXPECT_EQ(again.bytes().data(), first);
  const Buffer other = pool.Get();
  EXPECT_NE(other.bytes().data(), first);
}

TEST(BufferPoolTest, MovingPassesTheLoanOn) {
  BufferPool pool(kBufferAlignment, 2);
  Buffer first = pool.Get();
  const std::byte* const data = first.bytes().data();
  Buffer second(std::move(first));
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): promised.
  EXPECT_TRUE(first.bytes().empty());
  EXPECT_EQ(second.bytes().data(), data);

  Buffer third = pool.Get();
  const std::byte* const returned = third.bytes().data();
  third = std::move(second);
  EXPECT_EQ(third.bytes().data(), data);
  EXPECT_EQ(pool.Get().bytes().data(), returned);

  Buffer& same = third;
  third = std::move(same);
  EXPECT_EQ(third.bytes().data(), data);
}

// More threads than buffers: with more than two out at a time this would fail,
// with a lost wake-up it would hang.
TEST(BufferPoolTest, WaitsWhenAllAreOut) {
  constexpr int kBuffers = 2;
  BufferPool pool(kBufferAlignment, kBuffers);
  std::atomic<int> out = 0;
  std::atomic<int> out_max = 0;
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (int j = 0; j < 500; ++j) {
        const Buffer buffer = pool.Get();
        const int now = ++out;
        int seen = out_max;
        while (now > seen && !out_max.compare_exchange_weak(seen, now)) {
        }
        std::ranges::fill(buffer.bytes(), static_cast<std::byte>(i));
        EXPECT_EQ(std::ranges::count(buffer.bytes(), static_cast<std::byte>(i)),
                  static_cast<std::ptrdiff_t>(buffer.bytes().size()));
        --out;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(out_max, kBuffers);
}

TEST(BufferPoolTest, AWaiterGetsTheBufferThatComesBack) {
  BufferPool pool(kBufferAlignment, 1);
  Buffer held = pool.Get();
  const std::byte* const data = held.bytes().data();
  const std::byte* got = nullptr;
  std::thread waiter([&] { got = pool.Get().bytes().data(); });
  held = Buffer();
  waiter.join();
  EXPECT_EQ(got, data);
}

TEST(BufferPoolDeathTest, MisuseIsABug) {
  EXPECT_DEATH(BufferPool(1000, 1), "check failed");
  EXPECT_DEATH(BufferPool(0, 1), "check failed");
  EXPECT_DEATH(BufferPool(kBufferAlignment, 0), "check failed");
  EXPECT_DEATH(
      {
        Buffer kept;
        BufferPool pool(kBufferAlignment, 1);
        kept = pool.Get();
      },
      "check failed");
}

}  // namespace
}  // namespace cairn
