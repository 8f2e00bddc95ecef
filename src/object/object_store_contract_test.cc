// Every ObjectStore of this build runs the contract here.

#include "testing/object_store_contract.h"

#include <sys/xattr.h>

#include <memory>
#include <string_view>
#include <utility>

#include "io/io_engine.h"
#include "object/directory_store.h"
#include "testing/faulty_object_store.h"
#include "testing/memory_object_store.h"
#include "testing/object_upload_contract.h"
#include "testing/temp_dir.h"

namespace cairn {
namespace {

class MemoryHarness final : public ObjectStoreHarness {
 public:
  ObjectStore& store() override { return store_; }
  ObjectStoreTraits traits() override {
    return {.metadata_of = [this](std::string_view key) {
      return store_.MetadataOf(key);
    }};
  }

 private:
  MemoryObjectStore store_;
};

// Without scripts it is as good a store as the one below it.
class FaultlessHarness final : public ObjectStoreHarness {
 public:
  ObjectStore& store() override { return store_; }
  ObjectStoreTraits traits() override {
    return {.metadata_of = [this](std::string_view key) {
      return memory_.MetadataOf(key);
    }};
  }

 private:
  MemoryObjectStore memory_;
  FaultyObjectStore store_{&memory_};
};

class DirectoryHarness final : public ObjectStoreHarness {
 public:
  DirectoryHarness(std::unique_ptr<TempDir> directory, IoEngineOptions options)
      : directory_(std::move(directory)), engine_(IoEngine::Create(options)) {
    auto store = DirectoryStore::Open(*directory_ / "core", engine_.get(),
                                      /*create=*/true);
    EXPECT_OK(store);
    store_ = *std::move(store);
  }
  ObjectStore& store() override { return *store_; }
  ObjectStoreTraits traits() override {
    const bool attributes =
        setxattr(directory_->path().c_str(), "user.probe", "1", 1, 0) == 0;
    return {.keeps_crc = attributes, .metadata_of = nullptr};
  }

 private:
  const std::unique_ptr<TempDir> directory_;
  const std::unique_ptr<IoEngine> engine_;
  std::unique_ptr<DirectoryStore> store_;
};

std::unique_ptr<ObjectStoreHarness> MakeMemory() {
  return std::make_unique<MemoryHarness>();
}

std::unique_ptr<ObjectStoreHarness> MakeFaultless() {
  return std::make_unique<FaultlessHarness>();
}

std::unique_ptr<ObjectStoreHarness> MakeDirectory() {
  return std::make_unique<DirectoryHarness>(std::make_unique<TempDir>(),
                                            IoEngineOptions());
}

std::unique_ptr<ObjectStoreHarness> MakeDirectoryWithoutRing() {
  return std::make_unique<DirectoryHarness>(
      std::make_unique<TempDir>(), IoEngineOptions{.allow_io_uring = false});
}

// tmpfs: no O_DIRECT, and before Linux 6.6 no extended attributes.
std::unique_ptr<ObjectStoreHarness> MakeDirectoryInMemory() {
  return std::make_unique<DirectoryHarness>(
      std::make_unique<TempDir>("/dev/shm"), IoEngineOptions());
}

INSTANTIATE_TEST_SUITE_P(Memory, ObjectStoreContract,
                         testing::Values(&MakeMemory, &MakeFaultless));
INSTANTIATE_TEST_SUITE_P(Memory, ObjectUploadContract,
                         testing::Values(&MakeMemory, &MakeFaultless));
INSTANTIATE_TEST_SUITE_P(Directory, ObjectStoreContract,
                         testing::Values(&MakeDirectory,
                                         &MakeDirectoryInMemory));
INSTANTIATE_TEST_SUITE_P(Directory, ObjectUploadContract,
                         testing::Values(&MakeDirectory,
                                         &MakeDirectoryWithoutRing,
                                         &MakeDirectoryInMemory));

}  // namespace
}  // namespace cairn
