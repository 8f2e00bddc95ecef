#include "format/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "testing/status_matchers.h"

namespace cairn {
namespace {

using Kind = Pickle::Kind;
using Ref = Pickle::Ref;
using std::string_literals::operator""s;

// What pickle.dumps({"a": 1, "b": -2, "c": 2**40, "d": (True, None)}, 2) gives.
const std::string kPlain =
    "\x80\x02}q\0(X\1\0\0\0aq\1K\1X\1\0\0\0bq\2J\xfe\xff\xff\xffX\1\0\0\0cq\3"
    "\x8a\6\0\0\0\0\0\1X\1\0\0\0dq\4\x88N\x86q\5u."s;

// The value under `key` of the dict at the root.
Ref Value(const Pickle& pickle, std::string_view key) {
  Ref found{};
  bool seen = false;
  pickle.ForEachPair(pickle.root(), [&](Ref k, Ref v) {
    if (pickle.AsString(k) == key) {
      found = v;
      seen = true;
    }
    return true;
  });
  EXPECT_TRUE(seen) << key;
  return found;
}

// As many little-endian bytes as a length field of four bytes has.
std::string Length32(uint32_t value) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

TEST(PickleTest, ReadsPlainData) {
  const auto pickle = Pickle::Parse(kPlain);
  ASSERT_OK(pickle);
  EXPECT_EQ(pickle->consumed_bytes(), kPlain.size());
  EXPECT_EQ(pickle->KindOf(pickle->root()), Kind::kDict);
  EXPECT_EQ(pickle->AsInt(Value(*pickle, "a")), 1);
  EXPECT_EQ(pickle->AsInt(Value(*pickle, "b")), -2);
  EXPECT_EQ(pickle->AsInt(Value(*pickle, "c")), int64_t{1} << 40);
  const Ref tuple = Value(*pickle, "d");
  ASSERT_EQ(pickle->TupleSize(tuple), 2u);
  EXPECT_EQ(pickle->KindOf(*pickle->TupleItem(tuple, 0)), Kind::kBool);
  EXPECT_EQ(pickle->KindOf(*pickle->TupleItem(tuple, 1)), Kind::kNone);
  EXPECT_EQ(pickle->TupleItem(tuple, 2), std::nullopt);
  EXPECT_EQ(pickle->AsInt(tuple), std::nullopt);
}

TEST(PickleTest, StopsAtTheEndOfThePickle) {
  const std::string two = kPlain + kPlain;
  const auto pickle = Pickle::Parse(two);
  ASSERT_OK(pickle);
  EXPECT_EQ(pickle->consumed_bytes(), kPlain.size());
}

TEST(PickleTest, EveryCutIsSeen) {
  for (size_t size = 0; size < kPlain.size(); ++size) {
    const std::string cut = kPlain.substr(0, size);
    EXPECT_THAT(Pickle::Parse(cut), HasCode(absl::StatusCode::kOutOfRange))
        << size;
  }
}

struct NumberCase {
  std::string bytes;
  int64_t value;
};

TEST(PickleTest, ReadsNumbers) {
  const NumberCase cases[] = {
      {"K\xff."s, 255},
      {"M\xff\xff."s, 65535},
      {"J\xff\xff\xff\x7f."s, 2147483647},
      {"J\0\0\0\x80."s, -2147483648LL},
      {"\x8a\0."s, 0},
      {"\x8a\1\xff."s, -1},
      {"\x8a\2\xff\0."s, 255},
      {"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f."s, INT64_MAX},
      {"\x8a\x08\0\0\0\0\0\0\0\x80."s, INT64_MIN},
      {"\x8b\1\0\0\0\x80."s, -128},
  };
  for (const NumberCase& number : cases) {
    const auto pickle = Pickle::Parse(number.bytes);
    ASSERT_OK(pickle);
    EXPECT_EQ(pickle->AsInt(pickle->root()), number.value);
  }
}

TEST(PickleTest, ALongerNumberIsNoInt) {
  const std::string bytes = "\x8a\x09\0\0\0\0\0\0\0\0\1."s;
  const auto pickle = Pickle::Parse(bytes);
  ASSERT_OK(pickle);
  EXPECT_EQ(pickle->KindOf(pickle->root()), Kind::kBigInt);
  EXPECT_EQ(pickle->AsInt(pickle->root()), std::nullopt);
}

TEST(PickleTest, RecordsACallByNameWithItsItems) {
  // collections.OrderedDict([]) with an item, as in a torch state dict.
  const std::string bytes =
      "\x80\x02"
      "ccollections\nOrderedDict\n)RX\1\0\0\0kK\7s."s;
  const auto pickle = Pickle::Parse(bytes);
  ASSERT_OK(pickle);
  ASSERT_EQ(pickle->KindOf(pickle->root()), Kind::kObject);
  EXPECT_EQ(pickle->NameOf(pickle->root())->module, "collections");
  EXPECT_EQ(pickle->NameOf(pickle->root())->name, "OrderedDict");
  EXPECT_EQ(pickle->AsInt(Value(*pickle, "k")), 7);
}

TEST(PickleTest, ACommandIsOnlyAName) {
  const std::string bytes = "cos\nsystem\n(X\2\0\0\0lstR."s;
  const auto pickle = Pickle::Parse(bytes);
  ASSERT_OK(pickle);
  EXPECT_EQ(pickle->NameOf(pickle->root())->module, "os");
  EXPECT_EQ(pickle->NameOf(pickle->root())->name, "system");
}

TEST(PickleTest, FindsAttributesInStateAndSlots) {
  // An instance of m.C with the state (None, {"x": 5}).
  const std::string slots = "cm\nC\n)\x81N}X\1\0\0\0xK\5s\x86"s + "b.";
  const auto pickle = Pickle::Parse(slots);
  ASSERT_OK(pickle);
  EXPECT_EQ(pickle->AsInt(*pickle->Attribute(pickle->root(), "x")), 5);
  EXPECT_EQ(pickle->Attribute(pickle->root(), "y"), std::nullopt);

  const std::string none = "cm\nC\n)\x81."s;
  const auto bare = Pickle::Parse(none);
  ASSERT_OK(bare);
  EXPECT_EQ(bare->Attribute(bare->root(), "x"), std::nullopt);
}

TEST(PickleTest, AnObjectOfManyAttributesHasNone) {
  std::string bytes = "cm\nC\n)\x81}("s;
  for (size_t i = 0; i <= kPickleAttributesMax; ++i) bytes += "X\1\0\0\0xK\5"s;
  bytes += "ub.";
  const auto pickle = Pickle::Parse(bytes);
  ASSERT_OK(pickle);
  EXPECT_EQ(pickle->Attribute(pickle->root(), "x"), std::nullopt);
}

TEST(PickleTest, ItemsComeInOrderAcrossInterleavedLists) {
  // a, b = [], []; a += [1]; b += [2]; a += [3, 4]; the root is a.
  const std::string bytes = "]q\0K\1a]q\1K\2a0h\0(K\3K\4e0."s;
  const auto pickle = Pickle::Parse(bytes);
  ASSERT_OK(pickle);
  std::vector<int64_t> items;
  pickle->ForEachItem(pickle->root(), [&](Ref item) {
    items.push_back(pickle->AsInt(item).value_or(-1));
    return true;
  });
  EXPECT_THAT(items, testing::ElementsAre(1, 3, 4));
}

TEST(PickleTest, FindsPersistentIds) {
  const std::string bytes = "](X\1\0\0\0aQX\1\0\0\0bQe."s;
  const auto pickle = Pickle::Parse(bytes);
  ASSERT_OK(pickle);
  std::vector<std::string_view> ids;
  pickle->ForEachPersistentId([&](Ref id) {
    ids.push_back(pickle->AsString(id).value_or("?"));
    return true;
  });
  EXPECT_THAT(ids, testing::ElementsAre("a", "b"));
}

TEST(PickleTest, AListMayHoldItself) {
  const std::string bytes = "]q\0h\0a."s;
  const auto pickle = Pickle::Parse(bytes);
  ASSERT_OK(pickle);
  size_t count = 0;
  pickle->ForEachItem(pickle->root(), [&](Ref item) {
    EXPECT_EQ(item, pickle->root());
    ++count;
    return true;
  });
  EXPECT_EQ(count, 1u);
}

TEST(PickleTest, RefusesWhatIsNoPickle) {
  const std::string cases[] = {
      "\xff."s,                // No opcode.
      "\x80\x06N."s,           // A protocol of the future.
      "."s,                    // Nothing to return.
      "NN."s,                  // Something left over.
      "(N."s,                  // A mark left over.
      "t."s,                   // No mark.
      "N\x86."s,               // Too few values.
      "(N\x86."s,              // They may not reach below a mark.
      "h\0."s,                 // Memo never set.
      "j\xff\xff\xff\xff."s,   // The same, far out.
      "Nr\xff\xff\xff\xff."s,  // Memo index that no pickler would write.
      "NK\1a."s,               // Append to None.
      "}K\1a."s,               // Append to a dict.
      "](K\1u."s,              // Items for a list.
      "}(K\1u."s,              // A key without a value.
      "NNR."s,                 // A call of None.
      "]Nb."s,                 // A state for a list.
      "K\1K\2\x93."s,          // A global named by numbers.
      "X\1\0\0\0aK\2\x93."s,
      "0."s,  // Pop of nothing.
  };
  for (const std::string& bytes : cases) {
    EXPECT_THAT(Pickle::Parse(bytes), HasCode(absl::StatusCode::kDataLoss))
        << testing::PrintToString(bytes);
  }
}

TEST(PickleTest, RefusesOpcodesThatAreNotRead) {
  for (const std::string& bytes :
       {"I1\n."s, "S'a'\n."s, "\x82\1."s, "\x97."s, "(lp0\n."s}) {
    EXPECT_THAT(Pickle::Parse(bytes), HasCode(absl::StatusCode::kUnimplemented))
        << testing::PrintToString(bytes);
  }
}

TEST(PickleTest, ALengthBeyondTheInputAllocatesNothing) {
  for (const std::string& bytes :
       {"X\xff\xff\xff\xff"s, "\x8d\xff\xff\xff\xff\xff\xff\xff\xff"s,
        "\x8b\xff\xff\xff\xff"s, "\x95\xff\xff\xff\xff\xff\xff\xff\x7fN."s}) {
    EXPECT_THAT(Pickle::Parse(bytes), HasCode(absl::StatusCode::kOutOfRange));
  }
}

TEST(PickleTest, NestingHasALimit) {
  const std::string marks(kPickleMarksMax + 1, '(');
  EXPECT_THAT(Pickle::Parse(marks),
              HasCode(absl::StatusCode::kResourceExhausted));
  // Tuples in tuples need no marks, and no stack of ours either.
  std::string deep = "N";
  deep.append(1'000'000, '\x85');
  deep += ".";
  EXPECT_OK(Pickle::Parse(deep));
}

TEST(PickleTest, TheNumberOfValuesHasALimit) {
  std::string many = "(";
  many.append(kPickleNodesMax + 1, '}');
  EXPECT_THAT(Pickle::Parse(many),
              HasCode(absl::StatusCode::kResourceExhausted));
}

TEST(PickleTest, ValuesDoubledAgainAndAgainStaySmall) {
  // x = (x, x), 10,000 times: an exponential value, read in linear space.
  std::string bytes = "Nq\0"s;
  for (int i = 0; i < 10'000; ++i) bytes += "h\0\x86q\0"s;
  EXPECT_THAT(Pickle::Parse(bytes), HasCode(absl::StatusCode::kOutOfRange));
  bytes = "N";
  for (int i = 0; i < 10'000; ++i) bytes += "2\x86";
  bytes += ".";
  EXPECT_OK(Pickle::Parse(bytes));
}

TEST(PickleTest, NamesOfGlobalsHaveALimit) {
  const std::string bytes = "c" + std::string(10'000, 'a');
  EXPECT_THAT(Pickle::Parse(bytes), HasCode(absl::StatusCode::kDataLoss));
}

TEST(PickleTest, TextOfFourLengthBytes) {
  const std::string text(300, 'x');
  const std::string bytes = "X" + Length32(300) + text + ".";
  const auto pickle = Pickle::Parse(bytes);
  ASSERT_OK(pickle);
  EXPECT_EQ(pickle->AsString(pickle->root()), text);
}

}  // namespace
}  // namespace cairn
