#include "format/pickle.h"

#include <algorithm>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "format/wire.h"

namespace cairn {
namespace {

using Ref = Pickle::Ref;
using Kind = Pickle::Kind;

// A Ref below kImmediate is the index of a node. Small numbers, None and the
// booleans, which are most of what a checkpoint's pickle holds, need no node.
constexpr uint32_t kImmediate = uint32_t{1} << 31;
constexpr uint32_t kSpecial = kImmediate | uint32_t{1} << 30;
constexpr uint32_t kSmallIntMax = (uint32_t{1} << 30) - 1;
constexpr Ref kNone{kSpecial};
constexpr Ref kFalse{kSpecial | 1};
constexpr Ref kTrue{kSpecial | 2};
constexpr Ref kUnset{kSpecial | 3};  // Not a value: an empty memo or state.

constexpr uint32_t Raw(Ref value) { return static_cast<uint32_t>(value); }

// The opcodes are single bytes; these names are Python's.
enum Opcode : uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNoneOp = 'N',
  kBinPersId = 'Q',
  kReduce = 'R',
  kBinString = 'T',
  kShortBinString = 'U',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobalOp = 'c',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTupleOp = 't',
  kSetItems = 'u',
  kEmptyDict = '}',
  kEmptyList = ']',
  kEmptyTuple = ')',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kProto = 0x80,
  kNewObj = 0x81,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes8 = 0x8e,
  kEmptySet = 0x8f,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kNewObjEx = 0x92,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
  kByteArray8 = 0x96,
};

// Opcodes that exist and are not read: those of protocols 0 and 1 that no newer
// pickler writes, the extension registry, out-of-band buffers.
constexpr std::string_view kUnreadOpcodes = "ILFSVgpPiold\x82\x83\x84\x97\x98";

constexpr uint8_t kProtocolMax = 5;
constexpr size_t kGlobalNameBytesMax = 4096;

}  // namespace

// Runs one pickle. Nodes use their fields so:
//   kInt            a, b: the low and the high half
//   kString kBytes  a: offset in the input, b: length
//   kTuple          a: first in items_, b: count
//   kList kSet kDict  c, d: first and last of its runs, plus one; 0 for none
//   kGlobal         a, b: the module's offset and length; c, d: the name's
//   kObject         a: what was called; b: its state; c, d: as a list's
//   kPersistent     a: the id
// One thread at a time.
class PickleParser {
 public:
  explicit PickleParser(std::string_view bytes) : bytes_(bytes) {
    out_.bytes_ = bytes;
  }

  absl::StatusOr<Pickle> Run();

 private:
  // All of these return false after a failure, which is then in status_.
  bool Fail(absl::StatusCode code, std::string_view what);
  bool Malformed(std::string_view what) {
    return Fail(absl::StatusCode::kDataLoss, what);
  }
  bool OverLimit(std::string_view what) {
    return Fail(absl::StatusCode::kResourceExhausted, what);
  }

  bool Step(uint8_t opcode);  // Scalars, strings; the rest by the next one.
  bool StepStructure(uint8_t opcode);
  bool StepOther(uint8_t opcode);

  bool Need(uint64_t count);
  uint64_t Number(size_t width);  // REQUIRES: Need(width).
  bool ReadLine(uint32_t* begin, uint32_t* size);

  bool AddNode(Pickle::Node node, Ref* ref);
  bool Push(Ref value);
  bool PushNode(Pickle::Node node);
  bool PushInt(int64_t value);
  bool PushLong(uint64_t size);
  bool PushText(Kind kind, size_t width);
  bool Pop(Ref* value);
  bool Top(Ref* value);
  // Where the values above the last mark begin; removes the mark.
  bool TakeMark(size_t* begin);
  size_t Floor() const { return marks_.empty() ? 0 : marks_.back(); }

  bool MakeTuple(size_t begin);
  bool TupleOf(size_t count);
  bool Extend(Ref container, size_t begin, bool pairs);
  bool ExtendTop(size_t count, bool pairs);
  bool ExtendFromMark(bool pairs);
  bool StartRun(Pickle::Node* node, size_t count);
  bool FrozenSet();
  bool Global();
  bool StackGlobal();
  bool Call(size_t arguments);  // The callable lies under so many values.
  bool Build();
  bool PersistentId();
  bool PopAny();
  bool Get(uint64_t index);
  bool Put(uint64_t index);

  const std::string_view bytes_;
  uint64_t at_ = 0;
  uint64_t opcode_at_ = 0;
  bool stopped_ = false;
  absl::Status status_;
  Pickle out_;
  std::vector<Ref> stack_;
  std::vector<uint32_t> marks_;
  std::vector<Ref> memo_;
  size_t memoized_ = 0;
};

absl::StatusOr<Pickle> PickleParser::Run() {
  if (bytes_.size() > kPickleBytesMax) {
    return absl::ResourceExhaustedError(fmt::format(
        "a pickle of more than {} bytes is not read", kPickleBytesMax));
  }
  while (!stopped_) {
    opcode_at_ = at_;
    if (!Need(1)) return status_;
    const auto opcode = static_cast<uint8_t>(bytes_[at_++]);
    if (!Step(opcode)) return status_;
  }
  out_.consumed_bytes_ = at_;
  return std::move(out_);
}

bool PickleParser::Fail(absl::StatusCode code, std::string_view what) {
  status_ = absl::Status(
      code, fmt::format("at offset {} of the pickle: {}", opcode_at_, what));
  return false;
}

bool PickleParser::Step(uint8_t opcode) {
  switch (opcode) {
    case kNoneOp:
      return Push(kNone);
    case kNewTrue:
      return Push(kTrue);
    case kNewFalse:
      return Push(kFalse);
    case kBinInt:
      return Need(4) && PushInt(static_cast<int32_t>(Number(4)));
    case kBinInt1:
      return Need(1) && PushInt(static_cast<int64_t>(Number(1)));
    case kBinInt2:
      return Need(2) && PushInt(static_cast<int64_t>(Number(2)));
    case kLong1:
      return Need(1) && PushLong(Number(1));
    case kLong4:
      return Need(4) && PushLong(Number(4));
    case kBinFloat:
      if (!Need(8)) return false;
      at_ += 8;
      return PushNode({Kind::kFloat});
    case kShortBinString:
    case kShortBinUnicode:
      return PushText(Kind::kString, 1);
    case kBinString:
    case kBinUnicode:
      return PushText(Kind::kString, 4);
    case kBinUnicode8:
      return PushText(Kind::kString, 8);
    case kShortBinBytes:
      return PushText(Kind::kBytes, 1);
    case kBinBytes:
      return PushText(Kind::kBytes, 4);
    case kBinBytes8:
    case kByteArray8:
      return PushText(Kind::kBytes, 8);
    case kBinGet:
      return Need(1) && Get(Number(1));
    case kLongBinGet:
      return Need(4) && Get(Number(4));
    case kBinPut:
      return Need(1) && Put(Number(1));
    case kLongBinPut:
      return Need(4) && Put(Number(4));
    case kMemoize:
      return Put(memoized_);
    default:
      return StepStructure(opcode);
  }
}

bool PickleParser::StepStructure(uint8_t opcode) {
  size_t begin = 0;
  switch (opcode) {
    case kMark:
      if (marks_.size() == kPickleMarksMax) return OverLimit("nested too deep");
      marks_.push_back(static_cast<uint32_t>(stack_.size()));
      return true;
    case kEmptyTuple:
      return TupleOf(0);
    case kTuple1:
      return TupleOf(1);
    case kTuple2:
      return TupleOf(2);
    case kTuple3:
      return TupleOf(3);
    case kTupleOp:
      return TakeMark(&begin) && MakeTuple(begin);
    case kEmptyList:
      return PushNode({Kind::kList});
    case kEmptySet:
      return PushNode({Kind::kSet});
    case kEmptyDict:
      return PushNode({Kind::kDict});
    case kFrozenSet:
      return FrozenSet();
    case kAppend:
      return ExtendTop(1, false);
    case kSetItem:
      return ExtendTop(2, true);
    case kAppends:
    case kAddItems:
      return ExtendFromMark(false);
    case kSetItems:
      return ExtendFromMark(true);
    case kGlobalOp:
      return Global();
    case kStackGlobal:
      return StackGlobal();
    case kReduce:
    case kNewObj:
      return Call(1);
    case kNewObjEx:
      return Call(2);
    case kBuild:
      return Build();
    case kBinPersId:
      return PersistentId();
    default:
      return StepOther(opcode);
  }
}

bool PickleParser::StepOther(uint8_t opcode) {
  Ref value{};
  size_t begin = 0;
  switch (opcode) {
    case kProto:
      if (!Need(1)) return false;
      return Number(1) <= kProtocolMax || Malformed("unknown protocol");
    case kFrame:
      // The frame's content is read as if there were none, but it must be
      // there.
      return Need(8) && Need(Number(8));
    case kDup:
      return Top(&value) && Push(value);
    case kPop:
      return PopAny();
    case kPopMark:
      if (!TakeMark(&begin)) return false;
      stack_.resize(begin);
      return true;
    case kStop:
      if (!Pop(&out_.root_)) return false;
      if (!stack_.empty() || !marks_.empty()) {
        return Malformed("ends with values left over");
      }
      stopped_ = true;
      return true;
    default:
      if (kUnreadOpcodes.find(static_cast<char>(opcode)) !=
          std::string_view::npos) {
        return Fail(absl::StatusCode::kUnimplemented,
                    fmt::format("opcode 0x{:02x} is not supported", opcode));
      }
      return Malformed(fmt::format("0x{:02x} is no opcode", opcode));
  }
}

bool PickleParser::Need(uint64_t count) {
  if (count <= bytes_.size() - at_) return true;
  return Fail(absl::StatusCode::kOutOfRange, "the pickle is cut off");
}

uint64_t PickleParser::Number(size_t width) {
  const uint64_t number = LoadLittle(bytes_.substr(at_), width);
  at_ += width;
  return number;
}

bool PickleParser::ReadLine(uint32_t* begin, uint32_t* size) {
  const size_t end = bytes_.substr(at_, kGlobalNameBytesMax).find('\n');
  if (end == std::string_view::npos) {
    return Need(kGlobalNameBytesMax) && Malformed("overlong global name");
  }
  *begin = static_cast<uint32_t>(at_);
  *size = static_cast<uint32_t>(end);
  at_ += end + 1;
  return true;
}

bool PickleParser::AddNode(Pickle::Node node, Ref* ref) {
  if (out_.nodes_.size() == kPickleNodesMax) {
    return OverLimit("holds too many values");
  }
  *ref = Ref(static_cast<uint32_t>(out_.nodes_.size()));
  out_.nodes_.push_back(node);
  return true;
}

bool PickleParser::Push(Ref value) {
  if (stack_.size() == kPickleNodesMax) {
    return OverLimit("has too many open values");
  }
  stack_.push_back(value);
  return true;
}

bool PickleParser::PushNode(Pickle::Node node) {
  Ref ref;
  return AddNode(node, &ref) && Push(ref);
}

bool PickleParser::PushInt(int64_t value) {
  if (value >= 0 && value <= kSmallIntMax) {
    return Push(Ref(kImmediate | static_cast<uint32_t>(value)));
  }
  const auto bits = static_cast<uint64_t>(value);
  return PushNode({Kind::kInt, static_cast<uint32_t>(bits),
                   static_cast<uint32_t>(bits >> 32)});
}

// A little-endian two's complement number of `size` bytes.
bool PickleParser::PushLong(uint64_t size) {
  if (!Need(size)) return false;
  if (size > sizeof(int64_t)) {
    at_ += size;
    return PushNode({Kind::kBigInt});
  }
  uint64_t bits = Number(size);
  if (size > 0 && size < sizeof(int64_t) && (bits >> (8 * size - 1)) != 0) {
    bits |= ~uint64_t{0} << (8 * size);
  }
  return PushInt(static_cast<int64_t>(bits));
}

bool PickleParser::PushText(Kind kind, size_t width) {
  if (!Need(width)) return false;
  const uint64_t size = Number(width);
  if (!Need(size)) return false;
  const uint64_t begin = at_;
  at_ += size;
  return PushNode(
      {kind, static_cast<uint32_t>(begin), static_cast<uint32_t>(size)});
}

bool PickleParser::Pop(Ref* value) {
  if (!Top(value)) return false;
  stack_.pop_back();
  return true;
}

bool PickleParser::Top(Ref* value) {
  if (stack_.size() <= Floor()) return Malformed("a value is missing");
  *value = stack_.back();
  return true;
}

bool PickleParser::TakeMark(size_t* begin) {
  if (marks_.empty()) return Malformed("a mark is missing");
  *begin = marks_.back();
  marks_.pop_back();
  return true;
}

bool PickleParser::MakeTuple(size_t begin) {
  const size_t count = stack_.size() - begin;
  if (out_.items_.size() + count > kPickleItemsMax) {
    return OverLimit("holds too many items");
  }
  const auto first = static_cast<uint32_t>(out_.items_.size());
  out_.items_.insert(out_.items_.end(), stack_.begin() + begin, stack_.end());
  stack_.resize(begin);
  return PushNode({Kind::kTuple, first, static_cast<uint32_t>(count)});
}

bool PickleParser::TupleOf(size_t count) {
  if (stack_.size() - Floor() < count) return Malformed("a value is missing");
  return MakeTuple(stack_.size() - count);
}

// Moves the values from stack position `begin` on into `container`.
bool PickleParser::Extend(Ref container, size_t begin, bool pairs) {
  const size_t count = stack_.size() - begin;
  if (Raw(container) >= kImmediate) return Malformed("not a container");
  Pickle::Node& node = out_.nodes_[Raw(container)];
  const bool fits =
      node.kind == Kind::kObject ||
      (pairs ? node.kind == Kind::kDict
             : node.kind == Kind::kList || node.kind == Kind::kSet);
  if (!fits) return Malformed("not the right container");
  if (pairs && count % 2 != 0) return Malformed("a key without a value");
  if (count > 0 && !StartRun(&node, count)) return false;
  out_.items_.insert(out_.items_.end(), stack_.begin() + begin, stack_.end());
  stack_.resize(begin);
  return true;
}

// Makes room in the chain of `node` for `count` items about to be added to
// items_: its last run, if that ends where items_ does, or else a new one.
bool PickleParser::StartRun(Pickle::Node* node, size_t count) {
  std::vector<Pickle::Run>& runs = out_.runs_;
  const size_t end = out_.items_.size();
  if (end + count > kPickleItemsMax) return OverLimit("holds too many items");
  if (node->d != 0) {
    Pickle::Run& last = runs[node->d - 1];
    if (last.begin + last.count == end) {
      last.count += static_cast<uint32_t>(count);
      return true;
    }
  }
  if (runs.size() == kPickleRunsMax) return OverLimit("is too scattered");
  runs.push_back({static_cast<uint32_t>(end), static_cast<uint32_t>(count), 0});
  const auto number = static_cast<uint32_t>(runs.size());
  if (node->d != 0) runs[node->d - 1].next = number;
  if (node->c == 0) node->c = number;
  node->d = number;
  return true;
}

bool PickleParser::ExtendTop(size_t count, bool pairs) {
  if (stack_.size() - Floor() < count + 1) {
    return Malformed("a value is missing");
  }
  const size_t begin = stack_.size() - count;
  return Extend(stack_[begin - 1], begin, pairs);
}

bool PickleParser::ExtendFromMark(bool pairs) {
  size_t begin = 0;
  Ref container{};
  if (!TakeMark(&begin)) return false;
  if (begin <= Floor()) return Malformed("a container is missing");
  container = stack_[begin - 1];
  return Extend(container, begin, pairs);
}

bool PickleParser::FrozenSet() {
  size_t begin = 0;
  Ref set{};
  if (!TakeMark(&begin) || !AddNode({Kind::kSet}, &set) ||
      !Extend(set, begin, false)) {
    return false;
  }
  return Push(set);
}

bool PickleParser::Global() {
  Pickle::Node node{Kind::kGlobal};
  return ReadLine(&node.a, &node.b) && ReadLine(&node.c, &node.d) &&
         PushNode(node);
}

bool PickleParser::StackGlobal() {
  Ref name{};
  Ref module{};
  if (!Pop(&name) || !Pop(&module)) return false;
  const Pickle::Node* const name_node = out_.NodeOf(name);
  const Pickle::Node* const module_node = out_.NodeOf(module);
  if (name_node == nullptr || name_node->kind != Kind::kString ||
      module_node == nullptr || module_node->kind != Kind::kString) {
    return Malformed("a global's name is not a string");
  }
  return PushNode({Kind::kGlobal, module_node->a, module_node->b, name_node->a,
                   name_node->b});
}

bool PickleParser::Call(size_t arguments) {
  Ref ignored{};
  for (size_t i = 0; i < arguments; ++i) {
    if (!Pop(&ignored)) return false;
  }
  Ref callable{};
  if (!Pop(&callable)) return false;
  const Pickle::Node* const node = out_.NodeOf(callable);
  // An object can be called too: what getattr(class, "method") returned.
  if (node == nullptr ||
      (node->kind != Kind::kGlobal && node->kind != Kind::kObject &&
       node->kind != Kind::kPersistent)) {
    return Malformed("calls what is neither class nor function");
  }
  return PushNode({Kind::kObject, Raw(callable), Raw(kUnset)});
}

bool PickleParser::Build() {
  Ref state{};
  Ref object{};
  if (!Pop(&state) || !Top(&object)) return false;
  const Pickle::Node* const node = out_.NodeOf(object);
  if (node == nullptr || node->kind != Kind::kObject) {
    return Malformed("gives a state to what is no object");
  }
  out_.nodes_[Raw(object)].b = Raw(state);
  return true;
}

bool PickleParser::PersistentId() {
  Ref id{};
  return Pop(&id) && PushNode({Kind::kPersistent, Raw(id)});
}

bool PickleParser::PopAny() {
  if (!marks_.empty() && marks_.back() == stack_.size()) {
    marks_.pop_back();
    return true;
  }
  Ref ignored{};
  return Pop(&ignored);
}

bool PickleParser::Get(uint64_t index) {
  if (index >= memo_.size() || memo_[index] == kUnset) {
    return Malformed(fmt::format("memo entry {} was never set", index));
  }
  return Push(memo_[index]);
}

bool PickleParser::Put(uint64_t index) {
  Ref value{};
  if (!Top(&value)) return false;
  // Picklers number the memo from 0 or 1, and an entry costs an opcode at
  // least.
  if (index > at_) return Malformed("memo index out of all proportion");
  if (index >= kPickleMemoMax) return OverLimit("memoizes too many values");
  if (index >= memo_.size()) memo_.resize(index + 1, kUnset);
  if (memo_[index] == kUnset) ++memoized_;
  memo_[index] = value;
  return true;
}

absl::StatusOr<Pickle> Pickle::Parse(std::string_view bytes) {
  return PickleParser(bytes).Run();
}

const Pickle::Node* Pickle::NodeOf(Ref value) const {
  return Raw(value) < kImmediate ? &nodes_[Raw(value)] : nullptr;
}

Pickle::Kind Pickle::KindOf(Ref value) const {
  if (const Node* const node = NodeOf(value)) return node->kind;
  if (Raw(value) < kSpecial) return Kind::kInt;
  return value == kNone ? Kind::kNone : Kind::kBool;
}

std::optional<int64_t> Pickle::AsInt(Ref value) const {
  if (KindOf(value) != Kind::kInt) return std::nullopt;
  const Node* const node = NodeOf(value);
  if (node == nullptr) return Raw(value) & kSmallIntMax;
  return static_cast<int64_t>(uint64_t{node->b} << 32 | node->a);
}

std::optional<std::string_view> Pickle::AsString(Ref value) const {
  const Node* const node = NodeOf(value);
  if (node == nullptr || node->kind != Kind::kString) return std::nullopt;
  return Slice(node->a, node->b);
}

size_t Pickle::TupleSize(Ref value) const {
  const Node* const node = NodeOf(value);
  return node != nullptr && node->kind == Kind::kTuple ? node->b : 0;
}

std::optional<Pickle::Ref> Pickle::TupleItem(Ref value, size_t index) const {
  if (index >= TupleSize(value)) return std::nullopt;
  return items_[NodeOf(value)->a + index];
}

void Pickle::ForEachRun(
    uint32_t first, absl::FunctionRef<bool(const Ref*, size_t)> visit) const {
  for (uint32_t number = first; number != 0;) {
    const Run& run = runs_[number - 1];
    if (!visit(items_.data() + run.begin, run.count)) return;
    number = run.next;
  }
}

void Pickle::ForEachItem(Ref value, absl::FunctionRef<bool(Ref)> visit) const {
  const Node* const node = NodeOf(value);
  if (node == nullptr ||
      (node->kind != Kind::kList && node->kind != Kind::kSet)) {
    return;
  }
  ForEachRun(node->c, [&](const Ref* items, size_t count) {
    return std::all_of(items, items + count, visit);
  });
}

void Pickle::ForEachPair(Ref value,
                         absl::FunctionRef<bool(Ref, Ref)> visit) const {
  const Node* const node = NodeOf(value);
  if (node == nullptr ||
      (node->kind != Kind::kDict && node->kind != Kind::kObject)) {
    return;
  }
  // A list subclass's items may leave half a pair at the end of a run.
  ForEachRun(node->c, [&](const Ref* items, size_t count) {
    for (size_t i = 0; i + 1 < count; i += 2) {
      if (!visit(items[i], items[i + 1])) return false;
    }
    return true;
  });
}

void Pickle::ForEachPersistentId(absl::FunctionRef<bool(Ref)> visit) const {
  for (const Node& node : nodes_) {
    if (node.kind == Kind::kPersistent && !visit(Ref(node.a))) return;
  }
}

std::optional<Pickle::GlobalName> Pickle::NameOf(Ref value) const {
  const Node* node = NodeOf(value);
  if (node != nullptr && node->kind == Kind::kObject)
    node = NodeOf(Ref(node->a));
  if (node == nullptr || node->kind != Kind::kGlobal) return std::nullopt;
  return GlobalName{Slice(node->a, node->b), Slice(node->c, node->d)};
}

std::optional<Pickle::Ref> Pickle::Attribute(Ref object,
                                             std::string_view name) const {
  const Node* const node = NodeOf(object);
  if (node == nullptr || node->kind != Kind::kObject) return std::nullopt;
  // With __slots__ the state is the pair (dictionary or None, slots).
  const Ref state{node->b};
  const Ref parts[] = {state, TupleItem(state, 0).value_or(kNone),
                       TupleItem(state, 1).value_or(kNone)};
  std::optional<Ref> found;
  size_t seen = 0;
  for (const Ref part : parts) {
    if (KindOf(part) != Kind::kDict) continue;
    ForEachPair(part, [&](Ref key, Ref value) {
      if (AsString(key) == name) found = value;
      return ++seen <= kPickleAttributesMax;
    });
  }
  return seen <= kPickleAttributesMax ? found : std::nullopt;
}

}  // namespace cairn
