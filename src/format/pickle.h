// Pickles, read without being run.
//
// A pickle is a program for a stack machine. This runs only the part of it that
// builds plain data: a global is the pair of its names, a call or an instance
// is recorded as the name of what was called and the state it was given, a
// persistent id as itself. Nothing is looked up, imported or called.
//
// Protocols 2 to 5. Strings point into the input. Every table has a limit, so
// that no input can exhaust memory, stack or time: at the limits below, about
// 1 GiB. Values may form cycles (as in Python): whoever walks them must bound
// the walk.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace cairn {

inline constexpr uint64_t kPickleBytesMax = uint64_t{256} << 20;
inline constexpr size_t kPickleNodesMax = size_t{1} << 24;  // 20 bytes each.
inline constexpr size_t kPickleItemsMax = size_t{1} << 26;  // 4 bytes each.
inline constexpr size_t kPickleRunsMax = size_t{1} << 24;   // 12 bytes each.
inline constexpr size_t kPickleMemoMax = size_t{1} << 24;   // 4 bytes each.
inline constexpr size_t kPickleMarksMax = 100'000;          // Open at a time.
// How many entries of an object's state are looked at for one attribute.
inline constexpr size_t kPickleAttributesMax = 64;

// Immutable once parsed, then thread-safe. The input must outlive it.
class Pickle {
 public:
  enum class Kind : uint8_t {
    kNone,
    kBool,
    kInt,     // Fits int64_t.
    kBigInt,  // Does not; the value is not kept.
    kFloat,   // The value is not kept.
    kString,
    kBytes,
    kTuple,
    kList,
    kSet,
    kDict,
    kGlobal,      // A class or function, by name.
    kObject,      // Made by calling or instantiating something.
    kPersistent,  // An id that only the reader of the file can resolve.
  };

  // A value of this pickle. Meaningless for another.
  enum class Ref : uint32_t {};

  // Parses the pickle at the start of `bytes`; what follows it is left alone.
  //   kOutOfRange         `bytes` ends inside the pickle
  //   kDataLoss           this is no pickle
  //   kUnimplemented      an opcode of protocols 0 or 1, of the extension
  //                       registry or of out-of-band buffers
  //   kResourceExhausted  a limit above
  static absl::StatusOr<Pickle> Parse(std::string_view bytes);

  uint64_t consumed_bytes() const { return consumed_bytes_; }
  Ref root() const { return root_; }

  Kind KindOf(Ref value) const;
  std::optional<int64_t> AsInt(Ref value) const;  // kInt only.
  std::optional<std::string_view> AsString(Ref value) const;

  size_t TupleSize(Ref value) const;  // 0 for another kind.
  // nullopt past the end, or for another kind.
  std::optional<Ref> TupleItem(Ref value, size_t index) const;

  // Calls `visit` for each element of a list or set until it returns false.
  void ForEachItem(Ref value, absl::FunctionRef<bool(Ref)> visit) const;
  // The same for the pairs of a dict, or of an object that is one
  // (OrderedDict), in the order they were set. A key may come twice: the later
  // one counts.
  void ForEachPair(Ref value, absl::FunctionRef<bool(Ref, Ref)> visit) const;
  // The same for each persistent id in the pickle.
  void ForEachPersistentId(absl::FunctionRef<bool(Ref)> visit) const;

  struct GlobalName {
    std::string_view module;
    std::string_view name;
  };
  // Of a global, or of the global that an object was made from.
  std::optional<GlobalName> NameOf(Ref value) const;

  // An attribute of an object, from the state it was built with. nullopt where
  // it has none, and where the state has more than kPickleAttributesMax
  // entries.
  std::optional<Ref> Attribute(Ref object, std::string_view name) const;

 private:
  friend class PickleParser;

  // What a, b, c, d mean is said in pickle.cc, at PickleParser.
  struct Node {
    Kind kind;
    uint32_t a = 0;
    uint32_t b = 0;
    uint32_t c = 0;
    uint32_t d = 0;
  };
  // A run of items_; the items of what can grow are a chain of such runs.
  struct Run {
    uint32_t begin;
    uint32_t count;
    uint32_t next;
  };

  const Node* NodeOf(Ref value) const;
  std::string_view Slice(uint32_t begin, uint32_t size) const {
    return bytes_.substr(begin, size);
  }
  void ForEachRun(uint32_t first,
                  absl::FunctionRef<bool(const Ref*, size_t)> visit) const;

  std::string_view bytes_;
  std::vector<Node> nodes_;
  std::vector<Ref> items_;
  std::vector<Run> runs_;
  Ref root_{};
  uint64_t consumed_bytes_ = 0;
};

}  // namespace cairn
