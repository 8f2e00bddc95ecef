// Is a file whole, by its own format? Reads a header and a tail, never the
// payload; builds no objects; survives hostile input (every length is checked
// against the file's size before it is used, every loop and depth has a limit).

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/byte_source.h"

namespace cairn {

// All of these return OK for a sound file and kDataLoss, with a sentence that
// names what is wrong and at which offset, for one that is not. The sentence
// does not name the file: the caller knows it. kResourceExhausted: larger than
// the limits of the parser, so undecided. Other codes are errors of reading.

// torch.save: zip with its end record and central directory in place (zip64
// too), every entry inside the file and under one prefix, `<prefix>/data.pkl`
// and `<prefix>/version` there, the records that torch reads in place stored
// (method 0), local headers and data descriptors matching the directory: all of
// them in an archive of up to 4,096 entries, else an even sample with the first
// and the last. data.pkl matches its CRC-32, and every storage that its tensors
// refer to is there and as long as it says. (Where data.pkl is too long or uses
// opcodes that are not read, and in TorchScript archives, storages are not
// looked up.)
//
// The legacy (pre-1.6) pickle format is recognised by its magic number: its
// five pickles end, and the storages behind them lie in the file, as far as
// their element types are known.
absl::Status CheckTorchFile(ByteSource& file);

// safetensors: header of at most 100,000,000 bytes, JSON without a repeated
// key, dtypes and shapes against offsets (of a dtype that is not known, only
// the offsets count), offsets contiguous from 0, file size exactly 8 + N + end.
absl::Status CheckSafetensorsFile(ByteSource& file);

// The tensor names in a safetensors header (for shard indexes), in its order.
// The data behind the header is not checked.
absl::StatusOr<std::vector<std::string>> SafetensorsNames(ByteSource& file);

// model.safetensors.index.json / pytorch_model.bin.index.json: tensor name ->
// shard file name, in the file's order. Refuses names that are absolute or have
// "..", "." or empty components, and a tensor that comes twice.
struct ShardIndex {
  std::vector<std::pair<std::string, std::string>> weight_map;
};
absl::StatusOr<ShardIndex> ReadShardIndex(ByteSource& file);

// One stored item of a DCP checkpoint.
struct DcpExtent {
  std::string relative_path;
  uint64_t offset = 0;
  uint64_t length = 0;
};
struct DcpMetadata {
  std::vector<DcpExtent> extents;  // In the order of storage_data.
  std::string version;             // "" where absent.
};
// DCP `.metadata`, a pickle, read by a parser that builds no objects
// (format/pickle.h): a Metadata object whose storage_data is a dict of objects
// with relative_path, offset and length. Objects of any class may be around
// them; they are opaque. kDataLoss also for a relative_path that is not plain
// (absolute, "..", NUL), for a pickle that uses opcodes that are not read, and
// for bytes behind its end. Whether the extents lie in their files is for the
// caller to see.
absl::StatusOr<DcpMetadata> ReadDcpMetadata(ByteSource& file);

// The integers under `keys` at the top of a torch.save file whose object is a
// dict or OrderedDict, such as Lightning's epoch and global_step. A key that is
// absent, or whose value is no integer that fits, is left out; the others come
// in the order of `keys`. kUnimplemented: a pickle with opcodes that are not
// read.
struct PickleInts {
  std::vector<std::pair<std::string, int64_t>> values;
};
absl::StatusOr<PickleInts> ReadTopLevelInts(
    ByteSource& torch_file, const std::vector<std::string>& keys);

// zip in general (npz, keras): end record and directory in place, entries
// inside the file, local headers (or a sample, as above) matching the
// directory.
absl::Status CheckZipFile(ByteSource& file);

// By suffix and first bytes: which check applies, and its result (OK, kDataLoss
// or kResourceExhausted; errors of reading are the call's own). A file of no
// known format is OK (`format` says "opaque").
//
//   torch, torch_legacy  .pt .pth, Hugging Face's .bin names, and .ckpt .pkl
//                        .pickle that begin like them. Empty is damage, and so
//                        is beginning with zeros where the name says torch.
//                        Other .bin of the legacy format
//   pickle               the same suffixes, beginning with a pickle: it ends
//   safetensors          .safetensors
//   dcp_metadata         .metadata, __N.metadata
//   shard_index          .safetensors.index.json, .bin.index.json
//   json                 other .json: first and last character only
//   zip                  .npz .keras .zip, and other .bin that begin like one
struct StructureReport {
  std::string format;
  absl::Status status;
};
absl::StatusOr<StructureReport> CheckFile(std::string_view name,
                                          ByteSource& file);

// Reads the whole file and compares it with the checksums its format brings
// along: the CRC-32 of each record of a zip (torch.save, npz). OK where the
// format has none, or where they were turned off on writing.
absl::Status CheckFileChecksums(ByteSource& file);

}  // namespace cairn
