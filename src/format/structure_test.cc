// The samples in tests/compat/data/format are what torch, safetensors and numpy
// wrote (tools/make_format_samples.py).

#include "format/structure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "format/format_test_util.h"
#include "format/zip.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace cairn {
namespace {

using testing::ElementsAre;
using testing::Pair;
using std::string_literals::operator""s;

std::string Sample(std::string_view name) {
  return ReadTestFile(std::string(CAIRN_FORMAT_SAMPLES) + "/" +
                      std::string(name));
}

// In memory of exactly the size, so that a sanitizer sees a step too far.
using Check = absl::Status (*)(ByteSource&);
absl::Status CheckBytes(Check check, std::string_view bytes) {
  const std::vector<char> exact(bytes.begin(), bytes.end());
  MemoryByteSource source(
      AsBytes(std::string_view(exact.data(), exact.size())));
  return check(source);
}

absl::Status CheckDcp(ByteSource& file) {
  return ReadDcpMetadata(file).status();
}
absl::Status CheckIndex(ByteSource& file) {
  return ReadShardIndex(file).status();
}

bool IsVerdict(const absl::Status& status) {
  return status.ok() || absl::IsDataLoss(status) ||
         absl::IsResourceExhausted(status);
}

struct SampleCase {
  const char* name;
  Check check;
};
void PrintTo(const SampleCase& sample, std::ostream* out) {
  *out << sample.name;
}
const SampleCase kSamples[] = {
    {"torch_zip.pt", CheckTorchFile},
    {"torch_buffer.pt", CheckTorchFile},
    {"torch_legacy.pt", CheckTorchFile},
    {"lightning.ckpt", CheckTorchFile},
    {"model.safetensors", CheckSafetensorsFile},
    {"sharded/model-00001-of-00002.safetensors", CheckSafetensorsFile},
    {"sharded/model-00002-of-00002.safetensors", CheckSafetensorsFile},
    {"dcp/.metadata", CheckDcp},
    {"arrays.npz", CheckZipFile},
};

class SampleTest : public testing::TestWithParam<SampleCase> {
 protected:
  const std::string bytes_ = Sample(GetParam().name);
  absl::Status CheckIt(std::string_view bytes) {
    return cairn::CheckBytes(GetParam().check, bytes);
  }
};
INSTANTIATE_TEST_SUITE_P(Format, SampleTest, testing::ValuesIn(kSamples));

TEST_P(SampleTest, IsSound) { EXPECT_OK(CheckIt(bytes_)); }

TEST_P(SampleTest, EveryTruncationIsDamage) {
  for (size_t size = 0; size < bytes_.size(); ++size) {
    EXPECT_THAT(CheckIt(bytes_.substr(0, size)),
                HasCode(absl::StatusCode::kDataLoss))
        << "cut to " << size << " bytes";
  }
}

TEST_P(SampleTest, AZeroedTailIsNeverAnythingElse) {
  for (size_t zeros = 1; zeros <= bytes_.size(); ++zeros) {
    std::string bytes = bytes_;
    std::fill(bytes.end() - static_cast<ptrdiff_t>(zeros), bytes.end(), '\0');
    const absl::Status status = CheckIt(bytes);
    EXPECT_TRUE(IsVerdict(status)) << status;
  }
}

TEST_P(SampleTest, EveryFlippedByteGivesAVerdict) {
  for (size_t at = 0; at < bytes_.size(); ++at) {
    for (const int mask : {0x01, 0x80, 0xff}) {
      std::string bytes = bytes_;
      bytes[at] = static_cast<char>(bytes[at] ^ mask);
      const absl::Status status = CheckIt(bytes);
      EXPECT_TRUE(IsVerdict(status)) << "byte " << at << ": " << status;
    }
  }
}

// Where the format ends in something fixed, zeros there are damage: the end
// record and directory of a zip, the last opcode of a pickle.
TEST(ZeroedTail, IsDamageToZipAndPickle) {
  for (const SampleCase& sample : kSamples) {
    const std::string_view name = sample.name;
    if (name.ends_with(".safetensors") || name == "torch_legacy.pt") continue;
    const std::string sound = Sample(name);
    for (size_t zeros = 1; zeros <= sound.size(); ++zeros) {
      std::string bytes = sound;
      std::fill(bytes.end() - static_cast<ptrdiff_t>(zeros), bytes.end(), '\0');
      if (bytes == sound) continue;  // They were zeros before.
      EXPECT_THAT(CheckBytes(sample.check, bytes),
                  HasCode(absl::StatusCode::kDataLoss))
          << name << ", " << zeros << " zeros";
    }
  }
}

TEST(ZeroedTail, IsDamageToASafetensorsHeader) {
  const std::string sound = Sample("model.safetensors");
  const size_t header_end =
      8 + static_cast<uint8_t>(sound[0]) + 256 * static_cast<uint8_t>(sound[1]);
  for (size_t from = 0; from < header_end; ++from) {
    std::string bytes = sound;
    std::fill(bytes.begin() + static_cast<ptrdiff_t>(from), bytes.end(), '\0');
    EXPECT_THAT(CheckBytes(CheckSafetensorsFile, bytes),
                HasCode(absl::StatusCode::kDataLoss))
        << from;
  }
}

TEST(ZeroedHead, IsDamageToATorchFile) {
  const std::string sound = Sample("torch_zip.pt");
  for (size_t zeros = 1; zeros <= sound.size(); ++zeros) {
    std::string bytes = sound;
    std::fill(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(zeros),
              '\0');
    EXPECT_THAT(CheckBytes(CheckTorchFile, bytes),
                HasCode(absl::StatusCode::kDataLoss))
        << zeros;
  }
}

TEST(TorchFile, AFlippedByteOfThePickleIsDamage) {
  const std::string sound = Sample("torch_zip.pt");
  const size_t begin = sound.find("\x80\x02}q");
  const size_t end = sound.find("PK\x07\x08");
  ASSERT_LT(begin, end);
  for (size_t at = begin; at < end; ++at) {
    std::string bytes = sound;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    EXPECT_THAT(CheckBytes(CheckTorchFile, bytes),
                FailsWith(absl::StatusCode::kDataLoss, "CRC-32"))
        << at;
  }
}

TEST(TorchFile, NeitherZipNorLegacyIsDamage) {
  EXPECT_THAT(CheckBytes(CheckTorchFile, ""),
              FailsWith(absl::StatusCode::kDataLoss, "empty"));
  EXPECT_THAT(CheckBytes(CheckTorchFile, std::string(4096, '\0')),
              FailsWith(absl::StatusCode::kDataLoss, "zeros"));
  EXPECT_THAT(CheckBytes(CheckTorchFile, "#!/bin/sh\n"),
              FailsWith(absl::StatusCode::kDataLoss, "neither"));
  EXPECT_THAT(CheckBytes(CheckTorchFile, Sample("arrays.npz")),
              FailsWith(absl::StatusCode::kDataLoss, "not torch's"));
}

TEST(TorchFile, TwoArchivesInOneFileAreDamage) {
  // torch.save twice into one file object: torch cannot read the first back.
  const std::string bytes = Sample("torch_zip.pt") + Sample("torch_zip.pt");
  EXPECT_THAT(CheckBytes(CheckTorchFile, bytes),
              HasCode(absl::StatusCode::kDataLoss));
}

// A small archive like torch's, one tensor of two floats in data/0.
ZipMaker TorchLike() {
  ZipMaker zip;
  zip.Add("m/data.pkl",
          "\x80\x02(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"
          "0X\3\0\0\0cpuK\2tQ."s);
  zip.Add("m/data/0", "01234567");
  zip.Add("m/version", "3\n");
  return zip;
}

TEST(TorchFile, WhatItsPickleRefersToMustBeThere) {
  ZipMaker sound = TorchLike();
  EXPECT_OK(CheckBytes(CheckTorchFile, sound.Finish()));

  ZipMaker lacking = TorchLike();
  lacking.entries()[1].name = "m/data/1";
  EXPECT_THAT(CheckBytes(CheckTorchFile, lacking.Finish()),
              FailsWith(absl::StatusCode::kDataLoss, "lacks, among them 0"));

  ZipMaker shorter = TorchLike();
  shorter.entries()[1].content = "0123";
  EXPECT_THAT(CheckBytes(CheckTorchFile, shorter.Finish()),
              FailsWith(absl::StatusCode::kDataLoss, "storage 0 has 4 bytes"));
}

TEST(TorchFile, RulesOfItsArchive) {
  ZipMaker no_version = TorchLike();
  no_version.entries().pop_back();
  EXPECT_THAT(CheckBytes(CheckTorchFile, no_version.Finish()),
              FailsWith(absl::StatusCode::kDataLoss, "record version"));

  ZipMaker old_version = TorchLike();
  old_version.entries()[2].name = "m/.data/version";
  EXPECT_OK(CheckBytes(CheckTorchFile, old_version.Finish()));

  ZipMaker no_pickle = TorchLike();
  no_pickle.entries()[0].name = "m/data.txt";
  EXPECT_THAT(CheckBytes(CheckTorchFile, no_pickle.Finish()),
              FailsWith(absl::StatusCode::kDataLoss, "record data.pkl"));

  ZipMaker two_prefixes = TorchLike();
  two_prefixes.entries()[1].name = "n/data/0";
  EXPECT_THAT(CheckBytes(CheckTorchFile, two_prefixes.Finish()),
              FailsWith(absl::StatusCode::kDataLoss, "is not in m/"));

  ZipMaker deflated = TorchLike();
  deflated.entries()[1].method = 8;
  EXPECT_THAT(CheckBytes(CheckTorchFile, deflated.Finish()),
              FailsWith(absl::StatusCode::kDataLoss, "compressed"));

  ZipMaker code = TorchLike();  // As TorchScript does.
  code.Add("m/code/f.py", "x");
  code.entries()[3].method = 8;
  EXPECT_OK(CheckBytes(CheckTorchFile, code.Finish()));
}

TEST(Zip, Reads64BitFields) {
  for (const bool in64 : {false, true}) {
    ZipMaker zip = TorchLike();
    for (ZipMaker::Entry& entry : zip.entries()) entry.zip64 = in64;
    zip.set_zip64_end(true);
    const std::string bytes = zip.Finish();
    EXPECT_OK(CheckBytes(CheckTorchFile, bytes));
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_THAT(CheckBytes(CheckTorchFile, bytes.substr(0, size)),
                  HasCode(absl::StatusCode::kDataLoss));
    }
  }
}

TEST(Zip, AMissing64BitFieldIsDamage) {
  ZipMaker zip = TorchLike();
  zip.entries()[1].zip64 = true;
  zip.entries()[1].omit_zip64_extra = true;
  EXPECT_THAT(CheckBytes(CheckZipFile, zip.Finish()),
              FailsWith(absl::StatusCode::kDataLoss, "zip64"));
}

TEST(Zip, MayHaveACommentButNothingBehindIt) {
  ZipMaker zip = TorchLike();
  zip.set_comment("a comment");
  EXPECT_OK(CheckBytes(CheckZipFile, zip.Finish()));
  EXPECT_THAT(CheckBytes(CheckZipFile, zip.Finish() + "x"),
              HasCode(absl::StatusCode::kDataLoss));
}

TEST(Zip, EntriesMayNotOverlapOrLeaveTheFile) {
  ZipMaker outside = TorchLike();
  outside.entries()[1].claimed_bytes = 1000;
  EXPECT_THAT(CheckBytes(CheckZipFile, outside.Finish()),
              FailsWith(absl::StatusCode::kDataLoss, "reaches past"));

  // Every entry claims the first one's bytes: small archive, huge content.
  ZipMaker overlapping;
  overlapping.Add("a", std::string(1000, 'x'));
  for (int i = 0; i < 20; ++i) {
    overlapping.Add("a", "");
    overlapping.entries().back().claimed_bytes = 1000;
    overlapping.entries().back().claimed_offset = 0;
  }
  EXPECT_THAT(CheckBytes(CheckZipFile, overlapping.Finish()),
              FailsWith(absl::StatusCode::kDataLoss, "overlap"));
}

TEST(Zip, TheDirectoryMustHoldAllItsEntries) {
  for (const int difference : {-1, 1, 1000}) {
    ZipMaker zip = TorchLike();
    zip.set_count_error(difference);
    EXPECT_THAT(CheckBytes(CheckZipFile, zip.Finish()),
                HasCode(absl::StatusCode::kDataLoss))
        << difference;
  }
}

TEST(Zip, LocalHeadersMustMatch) {
  const std::string sound = TorchLike().Finish();
  const size_t header = sound.find("m/data/0") - 30;
  // The signature, the method, the CRC, the size, the name.
  for (const size_t at : {0, 8, 14, 18, 30, 37}) {
    std::string bytes = sound;
    bytes[header + at] ^= 1;
    EXPECT_THAT(CheckBytes(CheckZipFile, bytes),
                HasCode(absl::StatusCode::kDataLoss))
        << at;
  }
}

TEST(Zip, TheDataDescriptorMustFollow) {
  const std::string sound = Sample("torch_zip.pt");
  size_t count = 0;
  for (size_t at = sound.find("PK\7\10"); at != std::string::npos;
       at = sound.find("PK\7\10", at + 1)) {
    std::string bytes = sound;
    std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(at), 16, '\0');
    EXPECT_THAT(CheckBytes(CheckTorchFile, bytes),
                FailsWith(absl::StatusCode::kDataLoss, "descriptor"));
    ++count;
  }
  EXPECT_GE(count, 9u);
}

TEST(Zip, MoreEntriesThanSixteenBitsCount) {
  ZipMaker zip = TorchLike();
  constexpr int kEntries = 70'000;
  for (int i = 1; i < kEntries; ++i) {
    zip.Add("m/data/" + std::to_string(i), "abcd");
  }
  zip.set_zip64_end(true);
  const std::string bytes = zip.Finish();
  EXPECT_OK(CheckBytes(CheckTorchFile, bytes));

  // The last header is in the sample; so is every 18th.
  std::string broken = bytes;
  broken[broken.find("m/data/69999") - 30] = 'X';
  EXPECT_THAT(CheckBytes(CheckTorchFile, broken),
              HasCode(absl::StatusCode::kDataLoss));
  EXPECT_THAT(CheckBytes(CheckTorchFile, bytes.substr(0, bytes.size() - 1)),
              HasCode(absl::StatusCode::kDataLoss));
}

TEST(LegacyTorch, StoragesMustLieInTheFile) {
  const std::string sound = Sample("torch_legacy.pt");
  EXPECT_OK(CheckBytes(CheckTorchFile, sound + "another torch.save"));
  // The number of elements before the last storage.
  const size_t last = sound.rfind("\6\0\0\0\0\0\0\0"s);
  ASSERT_NE(last, std::string::npos);
  std::string bytes = sound;
  bytes[last] = 7;
  EXPECT_THAT(CheckBytes(CheckTorchFile, bytes),
              FailsWith(absl::StatusCode::kDataLoss, "number of elements"));
}

absl::StatusOr<PickleInts> Ints(std::string_view bytes,
                                const std::vector<std::string>& keys) {
  MemoryByteSource source(AsBytes(bytes));
  return ReadTopLevelInts(source, keys);
}

TEST(TopLevelInts, OfALightningCheckpoint) {
  const auto ints = Ints(Sample("lightning.ckpt"),
                         {"global_step", "epoch", "loops", "absent"});
  ASSERT_OK(ints);
  EXPECT_THAT(ints->values,
              ElementsAre(Pair("global_step", 70000), Pair("epoch", 7)));
}

TEST(TopLevelInts, OfEachTorchFormat) {
  for (const char* name :
       {"torch_zip.pt", "torch_buffer.pt", "torch_legacy.pt"}) {
    // Neither a boolean, a fraction, a huge number, nor a nested key counts.
    const auto ints =
        Ints(Sample(name), {"step", "done", "lr", "big", "weight", "epoch"});
    ASSERT_OK(ints);
    EXPECT_THAT(ints->values, ElementsAre(Pair("step", 1000), Pair("epoch", 3)))
        << name;
  }
}

TEST(TopLevelInts, OfSomethingElse) {
  EXPECT_THAT(Ints("text", {"a"}), HasCode(absl::StatusCode::kDataLoss));
  const auto ints = Ints(TorchLike().Finish(), {"a"});
  ASSERT_OK(ints);
  EXPECT_THAT(ints->values, testing::IsEmpty());
}

absl::StatusOr<DcpMetadata> Dcp(std::string_view bytes) {
  MemoryByteSource source(AsBytes(bytes));
  return ReadDcpMetadata(source);
}

TEST(Dcp, ExtentsAreTheItemsOfTheDataFile) {
  auto metadata = Dcp(Sample("dcp/.metadata"));
  ASSERT_OK(metadata);
  EXPECT_EQ(metadata->version, "1.0.0");
  ASSERT_GE(metadata->extents.size(), 10u);
  const std::string data = Sample("dcp/__0_0.distcp");
  std::sort(metadata->extents.begin(), metadata->extents.end(),
            [](const auto& a, const auto& b) { return a.offset < b.offset; });
  uint64_t end = 0;
  for (const DcpExtent& extent : metadata->extents) {
    EXPECT_EQ(extent.relative_path, "__0_0.distcp");
    EXPECT_EQ(extent.offset, end);
    end += extent.length;
    // Each is a torch.save of its own.
    EXPECT_OK(
        CheckBytes(CheckTorchFile, data.substr(extent.offset, extent.length)));
  }
  EXPECT_EQ(end, data.size());
}

TEST(Dcp, APathMayNotLeaveTheCheckpoint) {
  for (const std::string& path :
       {"../x"s, "/etc/passwd"s, ".."s, "a/../../b"s, ""s, "a\0b"s, "a//b"s,
        "./a"s, "a/"s, std::string(5000, 'a')}) {
    EXPECT_THAT(Dcp(DcpPickle({{path, 0, 1}})),
                FailsWith(absl::StatusCode::kDataLoss, "leads out"))
        << path;
  }
  const auto sound =
      Dcp(DcpPickle({{"sub/__0_0.distcp", 8, 16}, {"..a", 1, 2}}));
  ASSERT_OK(sound);
  EXPECT_EQ(sound->version, "");
  ASSERT_EQ(sound->extents.size(), 2u);
  EXPECT_EQ(sound->extents[0].relative_path, "sub/__0_0.distcp");
  EXPECT_EQ(sound->extents[0].offset, 8u);
  EXPECT_EQ(sound->extents[0].length, 16u);
}

TEST(Dcp, NumbersMustBeSizes) {
  EXPECT_THAT(Dcp(DcpPickle({{"a", -1, 1}})),
              FailsWith(absl::StatusCode::kDataLoss, "negative"));
  EXPECT_THAT(Dcp(DcpPickle({{"a", 0, -1}})),
              FailsWith(absl::StatusCode::kDataLoss, "negative"));
}

TEST(Dcp, OtherPicklesAreRefused) {
  EXPECT_THAT(Dcp("N."), FailsWith(absl::StatusCode::kDataLoss, "no DCP"));
  EXPECT_THAT(Dcp("cos\nsystem\nX\2\0\0\0ls\x85R."s),
              FailsWith(absl::StatusCode::kDataLoss, "no DCP"));
  EXPECT_THAT(Dcp("cm\nMetadata\n)\x81."s),
              FailsWith(absl::StatusCode::kDataLoss, "no storage_data"));
  EXPECT_THAT(Dcp("I1\n."), FailsWith(absl::StatusCode::kDataLoss, "opcode"));
  EXPECT_THAT(Dcp(DcpPickle({}) + "x"),
              FailsWith(absl::StatusCode::kDataLoss, "behind the end"));
}

TEST(Dcp, ASmallFileCannotStandForAHugeTable) {
  // One item, memoized, a million times.
  std::string bytes = "cm\nMetadata\n)\x81}X\14\0\0\0storage_data}("s;
  const std::string item = "cm\n_StorageInfo\n)\x81}(X\15\0\0\0relative_path"s +
                           PickleText("a") + PickleText("offset") + "K\1" +
                           PickleText("length") + "K\1ubq\0"s;
  bytes += "N" + item;
  for (int i = 0; i < 1'000'000; ++i) bytes += "Nh\0"s;
  bytes += "usb.";
  EXPECT_THAT(Dcp(bytes),
              FailsWith(absl::StatusCode::kDataLoss, "larger than"));
}

TEST(Dcp, AHundredThousandItems) {
  std::vector<DcpItem> items;
  for (int64_t i = 0; i < 100'000; ++i) {
    items.push_back({"__" + std::to_string(i % 64) + "_0.distcp", i << 23,
                     int64_t{1} << 23});
  }
  const auto metadata = Dcp(DcpPickle(items));
  ASSERT_OK(metadata);
  ASSERT_EQ(metadata->extents.size(), items.size());
  EXPECT_EQ(metadata->extents.back().offset, uint64_t{99'999} << 23);
}

struct HeaderCase {
  const char* header;
  size_t data_bytes;
  const char* error;  // nullptr: sound.
};
const HeaderCase kHeaders[] = {
    {"{}", 0, nullptr},
    {"{}  ", 0, nullptr},
    {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8, nullptr},
    {R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})", 4, nullptr},
    {R"({"a":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}})", 2, nullptr},
    {R"({"a":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}})", 3,
     nullptr},
    {R"({"a":{"dtype":"NEW","shape":[4],"data_offsets":[0,3]}})", 3, nullptr},
    {R"({"a":{"dtype":"U8","shape":[0,9],"data_offsets":[0,0]}})", 0, nullptr},
    {R"({"a":{"dtype":"U8","shape":[0,18446744073709551615,)"
     R"(18446744073709551615],"data_offsets":[0,0]}})",
     0, "too many elements"},
    {R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]},)"
     R"("a":{"dtype":"I16","shape":[1],"data_offsets":[0,2]}})",
     3, nullptr},
    {R"({"__metadata__":{"a":"b"},)"
     R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"new":[{"x":1}]}})",
     1, nullptr},
    {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 9, "take 8"},
    {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 7, "take 8"},
    {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8,
     "shape does not need"},
    {R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})", 2,
     "shape does not need"},
    {R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,1]}})", 1,
     "shape does not need"},
    {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2, "gap"},
    {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
     R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
     3, "overlap"},
    {R"({"a":{"dtype":"NEW","shape":[2],"data_offsets":[2,0]}})", 2,
     "ends before"},
    {R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
     R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
     0, "comes twice"},
    {R"({"__metadata__":{"a":"b","a":"c"}})", 0, "repeats a key"},
    {R"({"a":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}})", 0,
     "repeats a key"},
    {R"({"__metadata__":{"a":1}})", 0, "number in a wrong place"},
    {R"({"__metadata__":{"a":{}}})", 0, "nested"},
    {R"({"__metadata__":"x"})", 0, "wrong place"},
    {R"({"a":{"shape":[0],"data_offsets":[0,0],"dtype":"U8"},"b":"x"})", 0,
     "wrong place"},
    {R"({"a":5})", 0, "wrong place"},
    {R"({"a":[]})", 0, "no JSON object"},
    {R"({"a":{"dtype":"U8","shape":[0]}})", 0, "lacks"},
    {R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0]}})", 0, "lacks"},
    {R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0,0]}})", 0,
     "more than two"},
    {R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,0]}})", 0,
     "negative"},
    {R"({"a":{"dtype":"U8","shape":[1.5],"data_offsets":[0,0]}})", 0,
     "fraction"},
    {R"({"a":{"dtype":"U8","shape":[99999999999999999999],)"
     R"("data_offsets":[0,0]}})",
     0, "too large a number"},
    {R"({"a":{"dtype":"U64","shape":[4294967296,4294967296],)"
     R"("data_offsets":[0,0]}})",
     0, "too many elements"},
    {R"({"a":{"dtype":"U64","shape":[2305843009213693952],)"
     R"("data_offsets":[0,0]}})",
     0, "shape does not need"},
    {"[]", 0, "begin with {"},
    {" {}", 0, "begin with {"},
    {"{}x", 0, "no valid JSON"},
    {"{\"\xff\":1}", 0, "no valid JSON"},
};

TEST(Safetensors, Headers) {
  for (const HeaderCase& header : kHeaders) {
    const absl::Status status = CheckBytes(
        CheckSafetensorsFile,
        Safetensors(header.header, std::string(header.data_bytes, 'x')));
    if (header.error == nullptr) {
      EXPECT_OK(status) << header.header;
    } else {
      EXPECT_THAT(status, FailsWith(absl::StatusCode::kDataLoss, header.error))
          << header.header;
    }
  }
}

TEST(Safetensors, LengthOfTheHeaderIsBounded) {
  EXPECT_THAT(
      CheckBytes(CheckSafetensorsFile, "\xff\xff\xff\xff\xff\xff\xff\xff{}"),
      FailsWith(absl::StatusCode::kDataLoss, "more than safetensors"));
  // 100,000,001.
  EXPECT_THAT(CheckBytes(CheckSafetensorsFile, "\x01\xe1\xf5\x05\0\0\0\0{}"s),
              FailsWith(absl::StatusCode::kDataLoss, "more than safetensors"));
  EXPECT_THAT(CheckBytes(CheckSafetensorsFile, "\x00\xe1\xf5\x05\0\0\0\0{}"s),
              FailsWith(absl::StatusCode::kDataLoss, "the file ends at"));
}

TEST(Safetensors, NestingHasALimit) {
  std::string header = R"({"a":{"new":)" + std::string(1'000'000, '[');
  EXPECT_THAT(CheckBytes(CheckSafetensorsFile, Safetensors(header, "")),
              FailsWith(absl::StatusCode::kDataLoss, "too deep"));
}

TEST(Safetensors, NamesAreInTheHeadersOrder) {
  const std::string bytes = Sample("sharded/model-00002-of-00002.safetensors");
  MemoryByteSource source(AsBytes(bytes));
  const auto names = SafetensorsNames(source);
  ASSERT_OK(names);
  EXPECT_THAT(*names, testing::UnorderedElementsAre("b.bias", "b.weight"));
}

absl::StatusOr<ShardIndex> Index(std::string_view text) {
  MemoryByteSource source(AsBytes(text));
  return ReadShardIndex(source);
}

TEST(ShardIndexTest, NamesTheShards) {
  const auto index = Index(Sample("sharded/model.safetensors.index.json"));
  ASSERT_OK(index);
  EXPECT_THAT(
      index->weight_map,
      ElementsAre(Pair("a.weight", "model-00001-of-00002.safetensors"),
                  Pair("b.bias", "model-00002-of-00002.safetensors"),
                  Pair("b.weight", "model-00002-of-00002.safetensors")));
}

TEST(ShardIndexTest, EveryTruncationIsDamage) {
  const std::string sound = Sample("sharded/model.safetensors.index.json");
  for (size_t size = 0; size + 1 < sound.size(); ++size) {
    EXPECT_THAT(CheckBytes(CheckIndex, sound.substr(0, size)),
                HasCode(absl::StatusCode::kDataLoss))
        << size;
  }
}

TEST(ShardIndexTest, RefusesWhatIsNoMapOfNames) {
  for (const char* text :
       {"{}", "[]", R"({"weight_map":[]})", R"({"weight_map":"a"})",
        R"({"weight_map":null})", R"({"weight_map":{"a":1}})",
        R"({"weight_map":{"a":{"b":"c"}}})", R"({"weight_map":{"a":"../b"}})",
        R"({"weight_map":{"a":"/b"}})", R"({"weight_map":{"a":""}})",
        R"({"weight_map":{"a":"b","a":"b"}})",
        R"({"weight_map":{},"weight_map":{}})"}) {
    EXPECT_THAT(Index(text), HasCode(absl::StatusCode::kDataLoss)) << text;
  }
  EXPECT_OK(
      Index(R"({"metadata":{"x":[1.5,null,{"y":"z"}]},"weight_map":{}})"));
}

struct FileCase {
  const char* name;
  std::string bytes;
  const char* format;
  bool sound;
};

TEST(CheckFileTest, ChoosesByNameAndHead) {
  const FileCase cases[] = {
      {"a/mp_rank_00_model_states.pt", Sample("torch_zip.pt"), "torch", true},
      {"x.ckpt", Sample("lightning.ckpt"), "torch", true},
      {"x.pt", Sample("torch_legacy.pt"), "torch_legacy", true},
      {"x.pt", "", "torch", false},
      {"x.pt", std::string(100, '\0'), "torch", false},
      {"x.pt", Sample("torch_zip.pt").substr(0, 100), "torch", false},
      {"x.pt", Sample("torch_legacy.pt").substr(0, 10), "pickle", false},
      {"x.pkl", "\x80\x02N.", "pickle", true},
      {"x.pkl", "\x80\x02N", "pickle", false},
      {"pytorch_model.bin", std::string(100, '\0'), "torch", false},
      {"other.bin", std::string(100, '\0'), "opaque", true},
      {"other.bin", Sample("arrays.npz"), "zip", true},
      {"x.npz", Sample("arrays.npz").substr(1), "zip", false},
      {"m.safetensors", Sample("model.safetensors"), "safetensors", true},
      {"m.safetensors", "", "safetensors", false},
      {"c/.metadata", Sample("dcp/.metadata"), "dcp_metadata", true},
      {"c/__12.metadata", "", "dcp_metadata", false},
      {"c/x.metadata", "", "opaque", true},
      {"m.safetensors.index.json", "{}", "shard_index", false},
      {"trainer_state.json", "{\"loss\": NaN}\n", "json", true},
      {"trainer_state.json", "{\"loss\": ", "json", false},
      {"trainer_state.json", "", "json", false},
      {"trainer_state.json", std::string(9, '\0'), "json", false},
      {"__0_0.distcp", Sample("dcp/__0_0.distcp"), "opaque", true},
      {"README", "", "opaque", true},
  };
  for (const FileCase& file : cases) {
    MemoryByteSource source(AsBytes(file.bytes));
    const auto report = CheckFile(file.name, source);
    ASSERT_OK(report);
    EXPECT_EQ(report->format, file.format) << file.name;
    EXPECT_EQ(report->status.ok(), file.sound)
        << file.name << ": " << report->status;
  }
}

// A source whose reads fail as a disk's do.
class BrokenSource final : public ByteSource {
 public:
  uint64_t SizeBytes() const override { return 1000; }
  absl::Status ReadAt(uint64_t, MutableByteView) override {
    return absl::UnavailableError("the disk is away");
  }
};

TEST(CheckFileTest, AnErrorOfReadingIsNoVerdict) {
  BrokenSource source;
  EXPECT_THAT(CheckFile("x.pt", source),
              HasCode(absl::StatusCode::kUnavailable));
  EXPECT_THAT(CheckSafetensorsFile(source),
              HasCode(absl::StatusCode::kUnavailable));
  EXPECT_THAT(ReadDcpMetadata(source), HasCode(absl::StatusCode::kUnavailable));
}

// Overwrites, cuts, repeats and zeroes pieces of `bytes`.
std::string Mutate(std::string bytes, std::mt19937_64& random) {
  const size_t changes = 1 + random() % 4;
  for (size_t i = 0; i < changes && !bytes.empty(); ++i) {
    const size_t at = random() % bytes.size();
    const size_t count = std::min<size_t>(random() % 16, bytes.size() - at);
    switch (random() % 5) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes.erase(at, count);
        break;
      case 2:
        bytes.insert(random() % bytes.size(), bytes.substr(at, count));
        break;
      case 3:
        std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(at), count, '\xff');
        break;
      default:
        bytes.replace(at, count, RandomBytes(count, random()));
    }
  }
  return bytes;
}

TEST(Fuzz, MutatedSamplesGiveAVerdict) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  std::vector<std::string> samples;
  for (const SampleCase& sample : kSamples) {
    samples.push_back(Sample(sample.name));
  }
  for (int i = 0; i < 50'000; ++i) {
    const size_t which = random() % samples.size();
    const absl::Status status =
        CheckBytes(kSamples[which].check, Mutate(samples[which], random));
    ASSERT_TRUE(IsVerdict(status)) << kSamples[which].name << ": " << status;
  }
}

TEST(Fuzz, GarbageGivesAVerdict) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const std::string heads[] = {"", "PK\x03\x04", "\x80\x02", "\x80\x04}(",
                               "\x10\0\0\0\0\0\0\0{\""s};
  const char* const names[] = {"a.pt",
                               "a.safetensors",
                               ".metadata",
                               "a.npz",
                               "a.safetensors.index.json",
                               "a.json"};
  for (int i = 0; i < 50'000; ++i) {
    const std::string bytes = heads[random() % std::size(heads)] +
                              RandomBytes(random() % 200, random());
    MemoryByteSource source(AsBytes(bytes));
    ASSERT_OK(CheckFile(names[random() % std::size(names)], source));
  }
}

}  // namespace
}  // namespace cairn
