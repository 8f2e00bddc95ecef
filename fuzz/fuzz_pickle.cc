// Pickles: parsing ends, stays within the input, and every value can be walked;
// DCP metadata keeps the promises of structure.h.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/byte_source.h"
#include "base/check.h"
#include "format/pickle.h"
#include "format/structure.h"
#include "format/wire.h"

namespace {

using cairn::Pickle;

// Touches everything that can be asked of a value.
void Look(const Pickle& pickle, Pickle::Ref value) {
  (void)pickle.KindOf(value);
  (void)pickle.AsInt(value);
  (void)pickle.AsString(value);
  (void)pickle.NameOf(value);
  (void)pickle.Attribute(value, "offset");
  (void)pickle.TupleItem(value, pickle.TupleSize(value) / 2);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto pickle = Pickle::Parse(bytes);
  if (pickle.ok()) {
    CAIRN_CHECK(pickle->consumed_bytes() <= size);
    Look(*pickle, pickle->root());
    const auto look = [&](Pickle::Ref value) {
      Look(*pickle, value);
      return true;
    };
    pickle->ForEachItem(pickle->root(), look);
    pickle->ForEachPersistentId(look);
    pickle->ForEachPair(pickle->root(),
                        [&](Pickle::Ref key, Pickle::Ref value) {
                          return look(key) && look(value);
                        });
  }
  cairn::MemoryByteSource file(std::as_bytes(std::span(data, size)));
  const auto metadata = cairn::ReadDcpMetadata(file);
  if (metadata.ok()) {
    for (const cairn::DcpExtent& extent : metadata->extents) {
      CAIRN_CHECK(cairn::IsPlainRelativePath(extent.relative_path));
      CAIRN_CHECK(extent.offset + extent.length >= extent.offset);
    }
  }
  return 0;
}
