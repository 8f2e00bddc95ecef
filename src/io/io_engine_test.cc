#include "io/io_engine.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/units.h"
#include "io/child_test_util.h"
#include "io/root.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace cairn {
namespace {

// Aligned memory with a known filling.
class Block {
 public:
  explicit Block(uint64_t size)
      : size_(std::max<uint64_t>(RoundUpToDirect(size), kDirectAlignment)),
        data_(static_cast<std::byte*>(aligned_alloc(kDirectAlignment, size_)),
              free) {
    memset(data_.get(), 0xEE, size_);
  }
  explicit Block(std::string_view content) : Block(content.size()) {
    memcpy(data_.get(), content.data(), content.size());
  }

  MutableByteView view() { return {data_.get(), size_}; }
  std::string Text(uint64_t size) {
    return std::string(AsText(view()).substr(0, size));
  }

 private:
  uint64_t size_;
  std::unique_ptr<std::byte, void (*)(void*)> data_;
};

const std::string& Noise() {
  static const std::string noise = RandomBytes(8 * kMiB + 1, 5);
  return noise;
}

Root OpenRoot(const std::string& path) {
  absl::StatusOr<Root> root = Root::Open(path);
  if (!root.ok()) abort();
  return *std::move(root);
}

struct Setting {
  bool allow_io_uring;
  bool direct;
  const char* place;
};

// Without it GoogleTest prints bytes, an address among them.
void PrintTo(const Setting& setting, std::ostream* out) {
  *out << (setting.allow_io_uring ? "io_uring" : "posix") << ", "
       << (setting.direct ? "direct" : "buffered") << ", " << setting.place;
}

std::string SettingName(const testing::TestParamInfo<Setting>& info) {
  return std::string(info.param.allow_io_uring ? "IoUring" : "Posix") +
         (info.param.direct ? "Direct" : "Buffered") +
         (std::string(info.param.place) == "/dev/shm" ? "Shm" : "Tmp");
}

class IoEngineTest : public testing::TestWithParam<Setting> {
 protected:
  IoEngineTest()
      : directory_(GetParam().place), root_(OpenRoot(directory_.path())) {}

  std::unique_ptr<IoEngine> Engine(size_t piece_bytes = kMiB) {
    return IoEngine::Create({.allow_io_uring = GetParam().allow_io_uring,
                             .piece_bytes = piece_bytes});
  }
  BlockFile Create(const std::string& name) {
    absl::StatusOr<BlockFile> file =
        root_.CreateForWrite(name, GetParam().direct);
    EXPECT_OK(file);
    return *std::move(file);
  }

  TempDir directory_;
  Root root_;
};

TEST_P(IoEngineTest, WritesAndReadsBackEverySize) {
  const auto engine = Engine();
  for (const uint64_t size :
       {uint64_t{0}, uint64_t{1}, uint64_t{4095}, uint64_t{4096},
        uint64_t{4097}, 8 * kMiB - 1, 8 * kMiB, 8 * kMiB + 1}) {
    const std::string content = Noise().substr(0, size);
    const std::string name = "size" + std::to_string(size);
    const BlockFile file = Create(name);
    Block out(content);
    ASSERT_OK(engine->Write(file, 0, size, out.view()));
    ASSERT_OK(engine->Finish(file, size, /*sync=*/size == 4097));
    EXPECT_TRUE(ReadTestFile(directory_ / name) == content) << size;

    const auto again = root_.OpenForRead(name, GetParam().direct);
    ASSERT_OK(again);
    Block in(size);
    ASSERT_OK(engine->Read(*again, 0, size, in.view()));
    EXPECT_TRUE(in.Text(size) == content) << size;
  }
}

TEST_P(IoEngineTest, RandomCallsMatchAReference) {
  const auto engine = Engine(/*piece_bytes=*/16 * kKiB);
  const BlockFile file = Create("random");
  std::mt19937_64 random(7);
  std::string reference;
  constexpr uint64_t kSpan = 2 * kMiB;
  for (int i = 0; i < 300; ++i) {
    uint64_t offset = random() % kSpan;
    uint64_t size = random() % (random() % 4 == 0 ? kMiB : 20 * kKiB);
    if (file.direct) offset = offset / kDirectAlignment * kDirectAlignment;
    if (random() % 2 == 0) {
      std::string content = Noise().substr(random() % kMiB, size);
      Block out(content);
      ASSERT_OK(engine->Write(file, offset, size, out.view()));
      if (size == 0) continue;
      content.resize(file.direct ? RoundUpToDirect(size) : size);
      if (reference.size() < offset + content.size()) {
        reference.resize(offset + content.size());
      }
      reference.replace(offset, content.size(), content);
    } else {
      Block in(size);
      const absl::Status status = engine->Read(file, offset, size, in.view());
      if (size > 0 && offset + size > reference.size()) {
        ASSERT_THAT(status, HasCode(absl::StatusCode::kOutOfRange));
      } else {
        ASSERT_OK(status);
        ASSERT_TRUE(in.Text(size) == reference.substr(offset, size)) << i;
      }
    }
  }
  ASSERT_OK(engine->Finish(file, reference.size(), /*sync=*/false));
  EXPECT_TRUE(ReadTestFile(directory_ / "random") == reference);
}

TEST_P(IoEngineTest, ReadsUpToTheEndAndNotBeyond) {
  const auto engine = Engine(/*piece_bytes=*/kDirectAlignment);
  const std::string content = RandomBytes(50'000, 1);
  WriteTestFile(directory_ / "file", content);
  const auto file = root_.OpenForRead("file", GetParam().direct);
  ASSERT_OK(file);
  Block in(kMiB);
  ASSERT_OK(engine->Read(*file, 0, 50'000, in.view()));
  EXPECT_EQ(in.Text(50'000), content);
  ASSERT_OK(engine->Read(*file, 49'152, 848, in.view()));
  EXPECT_EQ(in.Text(848), content.substr(49'152));
  for (const auto& [offset, size] :
       std::vector<std::pair<uint64_t, uint64_t>>{{0, 50'001},
                                                  {49'152, 849},
                                                  {53'248, 1},
                                                  {1 << 20, 4096},
                                                  {0, kMiB},
                                                  {uint64_t{1} << 62, 1}}) {
    EXPECT_THAT(engine->Read(*file, offset, size, in.view()),
                FailsWith(absl::StatusCode::kOutOfRange, "file"))
        << offset << " " << size;
  }
  EXPECT_THAT(
      engine->Read(*file, ~uint64_t{0} & ~uint64_t{4095}, 4096, in.view()),
      HasCode(absl::StatusCode::kOutOfRange));
}

TEST_P(IoEngineTest, FinishCutsAndExtends) {
  const auto engine = Engine();
  const BlockFile file = Create("file");
  Block out(std::string(5000, 'a'));
  ASSERT_OK(engine->Write(file, 0, 5000, out.view()));
  ASSERT_OK(engine->Finish(file, 4500, /*sync=*/true));
  EXPECT_EQ(ReadTestFile(directory_ / "file"), std::string(4500, 'a'));
  ASSERT_OK(engine->Finish(file, 6000, /*sync=*/false));
  EXPECT_EQ(ReadTestFile(directory_ / "file"),
            std::string(4500, 'a') + std::string(1500, '\0'));
  EXPECT_THAT(engine->Finish(file, ~uint64_t{0}, /*sync=*/false),
              FailsWith(absl::StatusCode::kResourceExhausted, "file"));
}

TEST_P(IoEngineTest, ManyThreadsShareFewRings) {
  const auto engine =
      IoEngine::Create({.allow_io_uring = GetParam().allow_io_uring,
                        .piece_bytes = 16 * kKiB,
                        .rings_max = 2});
  const BlockFile file = Create("file");
  constexpr uint64_t kBlock = 256 * kKiB;
  std::vector<std::thread> threads;
  std::vector<absl::Status> results(8);
  for (size_t i = 0; i < results.size(); ++i) {
    threads.emplace_back([&, i] {
      const std::string content = Noise().substr(i * kMiB / 2, kBlock);
      for (int round = 0; round < 8 && results[i].ok(); ++round) {
        Block out(content);
        Block in(kBlock);
        results[i] = engine->Write(file, i * kBlock, kBlock, out.view());
        if (!results[i].ok()) break;
        results[i] = engine->Read(file, i * kBlock, kBlock, in.view());
        if (results[i].ok() && in.Text(kBlock) != content) {
          results[i] = absl::DataLossError("other bytes came back");
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& result : results) EXPECT_OK(result);
}

TEST_P(IoEngineTest, ErrorsNameTheFile) {
  const auto engine = Engine();
  WriteTestFile(directory_ / "na\nme", std::string(8192, 'x'));
  const auto file = root_.OpenForRead("na\nme", GetParam().direct);
  ASSERT_OK(file);
  Block out(std::string(8192, 'y'));
  // Not open for writing.
  const absl::Status status = engine->Write(*file, 0, 8192, out.view());
  EXPECT_THAT(status, FailsWith(absl::StatusCode::kUnknown, "na%0Ame"));
  EXPECT_EQ(ReadTestFile(directory_ / "na\nme"), std::string(8192, 'x'));
}

// "" or what went wrong; content of `size` bytes through a fresh engine.
std::string RoundTrip(const Root& root, const std::string& name,
                      const Setting& setting, uint64_t size) {
  const auto engine =
      IoEngine::Create({.allow_io_uring = setting.allow_io_uring});
  if (engine->backend() == IoBackend::kPosix &&
      engine->fallback_reason().empty()) {
    return "no reason for the fall back";
  }
  absl::StatusOr<BlockFile> file = root.CreateForWrite(name, setting.direct);
  if (!file.ok()) return Message(file.status());
  const std::string content = Noise().substr(3, size);
  Block out(content);
  Block in(size);
  absl::Status status = engine->Write(*file, 0, size, out.view());
  if (status.ok()) status = engine->Finish(*file, size, /*sync=*/true);
  if (status.ok()) status = engine->Read(*file, 0, size, in.view());
  if (!status.ok()) return Message(status);
  return in.Text(size) == content ? "" : "other bytes came back";
}

TEST_P(IoEngineTest, WorksWithoutLockedMemoryAndPrivileges) {
  if (geteuid() == 0) {
    ASSERT_EQ(chown(directory_.path().c_str(), kNobody, kNobody), 0);
  }
  EXPECT_EQ(RunInChild([&] {
              const rlimit none = {0, 0};
              if (setrlimit(RLIMIT_MEMLOCK, &none) != 0) {
                return std::string("no limit");
              }
              if (geteuid() == 0) BecomeNobody();
              return RoundTrip(root_, "file", GetParam(), 3 * kMiB + 5);
            }),
            "");
}

// A ring that the kernel does not give when it is needed.
TEST_P(IoEngineTest, WorksWhereNoRingIsToBeHad) {
  EXPECT_EQ(RunInChild([&]() -> std::string {
              const auto engine = Engine();
              const absl::StatusOr<BlockFile> file =
                  root_.CreateForWrite("file", GetParam().direct);
              if (!file.ok()) return Message(file.status());
              const rlimit none = {0, 0};
              if (setrlimit(RLIMIT_NOFILE, &none) != 0) return "no limit";
              const std::string content = Noise().substr(0, 3 * kMiB + 1);
              for (int round = 0; round < 3; ++round) {
                Block out(content);
                Block in(content.size());
                absl::Status status =
                    engine->Write(*file, 0, content.size(), out.view());
                if (status.ok()) {
                  status = engine->Read(*file, 0, content.size(), in.view());
                }
                if (!status.ok()) return Message(status);
                if (in.Text(content.size()) != content) return "other bytes";
              }
              return "";
            }),
            "");
}

TEST_P(IoEngineTest, FileSizeLimitIsResourceExhausted) {
  const std::string text = RunInChild([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {kMiB, kMiB};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return std::string("no limit");
    const auto engine =
        IoEngine::Create({.allow_io_uring = GetParam().allow_io_uring,
                          .piece_bytes = 64 * kKiB});
    absl::StatusOr<BlockFile> file =
        root_.CreateForWrite("limited", GetParam().direct);
    if (!file.ok()) return Message(file.status());
    Block out(4 * kMiB);
    return engine->Write(*file, 0, 4 * kMiB, out.view()).ToString();
  });
  EXPECT_THAT(text, testing::HasSubstr("RESOURCE_EXHAUSTED"));
  EXPECT_THAT(text, testing::HasSubstr("limited"));
}

TEST_P(IoEngineTest, FullFileSystemIsResourceExhausted) {
  if (geteuid() != 0) GTEST_SKIP() << "mounting needs root";
  const std::string text = RunInChild([&] {
    if (!MountPrivateTmpfs(directory_.path(), "size=1m")) {
      return std::string("skip");
    }
    const Root root = OpenRoot(directory_.path());
    const auto engine =
        IoEngine::Create({.allow_io_uring = GetParam().allow_io_uring,
                          .piece_bytes = 64 * kKiB});
    absl::StatusOr<BlockFile> file =
        root.CreateForWrite("full", GetParam().direct);
    if (!file.ok()) return Message(file.status());
    Block out(4 * kMiB);
    return engine->Write(*file, 0, 4 * kMiB, out.view()).ToString();
  });
  if (text == "skip") GTEST_SKIP() << "mounting is not allowed here";
  EXPECT_THAT(text, testing::HasSubstr("RESOURCE_EXHAUSTED"));
  EXPECT_THAT(text, testing::HasSubstr("full"));
}

INSTANTIATE_TEST_SUITE_P(, IoEngineTest,
                         testing::Values(Setting{true, true, "/tmp"},
                                         Setting{true, false, "/tmp"},
                                         Setting{false, true, "/tmp"},
                                         Setting{false, false, "/tmp"},
                                         Setting{true, true, "/dev/shm"},
                                         Setting{true, false, "/dev/shm"},
                                         Setting{false, true, "/dev/shm"},
                                         Setting{false, false, "/dev/shm"}),
                         SettingName);

TEST(IoEngineBackendTest, EnvironmentSwitchesIoUringOff) {
  EXPECT_EQ(RunInChild([] {
              setenv("CAIRN_IO", "posix", 1);
              const auto engine = IoEngine::Create({});
              return IoBackendName(engine->backend()) + std::string(": ") +
                     engine->fallback_reason();
            }),
            "posix: io_uring is switched off by CAIRN_IO=posix");
}

TEST(IoEngineBackendTest, OptionSwitchesIoUringOff) {
  const auto engine = IoEngine::Create({.allow_io_uring = false});
  EXPECT_EQ(engine->backend(), IoBackend::kPosix);
  EXPECT_FALSE(engine->fallback_reason().empty());
}

TEST(IoEngineBackendTest, ReportsARefusalInWords) {
  if (!KernelRefuses()) GTEST_SKIP() << "nothing is refused here";
  const auto engine = IoEngine::Create({});
  EXPECT_EQ(engine->backend(), IoBackend::kPosix);
  EXPECT_THAT(engine->fallback_reason(), testing::HasSubstr("seccomp"));
}

// A descriptor whose transfers O_DIRECT makes fail, as on some overlays.
TEST(IoEngineBackendTest, GoesOnBufferedWhereDirectTransfersFail) {
  const TempDir directory;
  WriteTestFile(directory / "file", RandomBytes(20'000, 9));
  for (const bool allow : {true, false}) {
    BlockFile file;
    file.path = directory / "file";
    file.fd = UniqueFd(open(file.path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
    if (!file.fd.ok()) GTEST_SKIP() << "no O_DIRECT on /tmp";
    const auto engine = IoEngine::Create({.allow_io_uring = allow});
    Block in(20'000);
    // Neither this offset nor this size is allowed with O_DIRECT.
    ASSERT_OK(engine->Read(file, 1, 19'999, in.view()));
    EXPECT_TRUE(in.Text(19'999) == RandomBytes(20'000, 9).substr(1));
  }
}

}  // namespace
}  // namespace cairn
