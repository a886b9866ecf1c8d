// SPDX-License-Identifier: Apache-2.0
// The wire form of protocol buffers, of the two messages that there are.
#include "src/pjrt/partitioner/protos.h"

#include <tessera/error.h>

#include <optional>

namespace tessera::pjrt {
namespace {

// Numbers of fields and kinds of OpSharding.
enum Field : std::uint32_t {
  kType = 1,
  kTile = 3,
  kDevices = 4,
  kTuple = 5,
  kReplicateLast = 6,
  kLastDims = 8,
  kReshape = 9,
  kPermutation = 10,
};
enum Kind : std::uint64_t {
  replicated = 0,
  maximal = 1,
  tuple = 2,
  other = 3,
  manual = 4,
  unknown = 5,
  unreduced = 6,
};

class Writer {
 public:
  void number(std::uint32_t field, std::uint64_t value) {
    varint(field << 3);
    varint(value);
  }
  void bytes(std::uint32_t field, std::string_view text) {
    varint(field << 3 | 2);
    varint(text.size());
    out_ += text;
  }
  template <class List>
  void packed(std::uint32_t field, const List& values) {
    if (std::begin(values) == std::end(values)) return;
    Writer inner;
    for (const auto v : values) inner.varint(std::uint64_t(std::int64_t(v)));
    bytes(field, inner.out_);
  }
  std::string take() { return std::move(out_); }

 private:
  void varint(std::uint64_t v) {
    for (; v >= 0x80; v >>= 7) out_ += char(std::uint8_t(v) | 0x80);
    out_ += char(v);
  }
  std::string out_;
};

class Reader {
 public:
  explicit Reader(std::string_view in) : in_(in) {}
  bool more() const { return !in_.empty(); }
  std::uint64_t varint() {
    std::uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (in_.empty()) break;
      const auto byte = std::uint8_t(in_[0]);
      in_.remove_prefix(1);
      v |= std::uint64_t(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return v;
    }
    fail();
  }
  /// The next field; its numbers (packed or not), or its bytes.
  std::uint32_t field(std::vector<std::int64_t>* numbers, std::string_view* bytes) {
    const std::uint64_t key = varint();
    numbers->clear();
    *bytes = {};
    switch (key & 7) {
      case 0:
        numbers->push_back(std::int64_t(varint()));
        break;
      case 1:
        skip(8);
        break;
      case 2: {
        const std::uint64_t size = varint();
        if (size > in_.size()) fail();
        *bytes = in_.substr(0, size);
        in_.remove_prefix(size);
        break;
      }
      case 5:
        skip(4);
        break;
      default:
        fail();
    }
    return std::uint32_t(key >> 3);
  }
  [[noreturn]] static void fail() { throw ValueError("the bytes are no OpSharding"); }

 private:
  void skip(std::size_t n) {
    if (n > in_.size()) fail();
    in_.remove_prefix(n);
  }
  std::string_view in_;
};

Tiling::Subgroup subgroup_of(std::int64_t kind) {
  switch (std::uint64_t(kind)) {
    case replicated:
      return Tiling::Subgroup::replicated;
    case manual:
      return Tiling::Subgroup::manual;
    case unreduced:
      return Tiling::Subgroup::unreduced;
    default:
      Reader::fail();
  }
}

std::uint64_t kind_of(Tiling::Subgroup group) {
  switch (group) {
    case Tiling::Subgroup::manual:
      return manual;
    case Tiling::Subgroup::unreduced:
      return unreduced;
    default:
      return replicated;
  }
}

/// What one message says; the parts of a tuple go to `parts`.
Tiling read_one(std::string_view bytes, std::vector<Tiling>* parts, int depth) {
  if (depth > 2) Reader::fail();
  Reader in(bytes);
  std::uint64_t kind = replicated;
  Tiling t;
  std::vector<std::int64_t> numbers;
  std::string_view text;
  bool replicate_last = false;
  while (in.more()) {
    const std::uint32_t field = in.field(&numbers, &text);
    if (field == kTuple) {
      parts->push_back(read_one(text, parts, depth + 1));
      continue;
    }
    for (Reader packed(text); field != kType && packed.more();) {
      if (field != kTile && field != kDevices && field != kLastDims && field != kReshape &&
          field != kPermutation) {
        break;
      }
      numbers.push_back(std::int64_t(packed.varint()));
    }
    for (const std::int64_t v : numbers) {
      if (field == kType) kind = std::uint64_t(v);
      if (field == kTile) t.tile.push_back(v);
      if (field == kDevices) t.devices.push_back(v);
      if (field == kReplicateLast) replicate_last = v != 0;
      if (field == kLastDims) t.subgroups.push_back(subgroup_of(v));
      if (field == kReshape) t.reshape.push_back(v);
      if (field == kPermutation) t.perm.push_back(int(v));
    }
  }
  if (replicate_last) t.subgroups.push_back(Tiling::Subgroup::replicated);
  switch (kind) {
    case replicated:
    case tuple:
      return {};
    case maximal:
      t.kind = Tiling::Kind::maximal;
      t.device = t.devices.empty() ? 0 : t.devices.front();
      t.devices.clear();
      t.tile.clear();
      return t;
    case manual:
      t = {};
      t.kind = Tiling::Kind::manual;
      return t;
    case unknown:
      t = {};
      t.kind = Tiling::Kind::unknown;
      return t;
    case unreduced:
      t = {};
      t.kind = Tiling::Kind::unreduced;
      return t;
    case other:
      if (t.subgroups.size() > t.tile.size()) Reader::fail();
      for (const std::int64_t size : t.tile) {
        if (size < 1) Reader::fail();
      }
      t.kind = Tiling::Kind::tiled;
      return t;
    default:
      Reader::fail();
  }
}

}  // namespace

std::string shape_proto(const Shape& shape, std::uint32_t (*element_type)(DType)) {
  Writer out;
  if (shape.is_tuple) {
    out.number(2, 13);  // PrimitiveType TUPLE
    for (const Shape& leaf : flatten(shape)) out.bytes(4, shape_proto(leaf, element_type));
    return out.take();
  }
  out.number(2, element_type(shape.dtype));
  out.packed(3, shape.dims);
  Writer layout;
  Dims order;
  for (auto d = std::int64_t(shape.dims.size()); d-- > 0;) order.push_back(d);
  layout.packed(1, order);
  out.bytes(5, layout.take());
  out.packed(6, std::vector<int>(shape.dims.size(), 0));
  return out.take();
}

std::string op_sharding(const Tiling& given) {
  const Tiling t = given.canonical();
  Writer out;
  switch (t.kind) {
    case Tiling::Kind::replicated:
      return {};
    case Tiling::Kind::maximal:
      out.number(kType, maximal);
      out.packed(kTile, std::vector<std::int64_t>{1});
      out.packed(kDevices, std::vector<std::int64_t>{t.device});
      return out.take();
    case Tiling::Kind::manual:
      out.number(kType, manual);
      return out.take();
    case Tiling::Kind::unknown:
      out.number(kType, unknown);
      return out.take();
    case Tiling::Kind::unreduced:
      out.number(kType, unreduced);
      return out.take();
    case Tiling::Kind::tiled:
      break;
  }
  out.number(kType, other);
  out.packed(kTile, t.tile);
  if (t.reshape.empty()) out.packed(kDevices, t.device_list());
  const bool only_replicated =
      t.subgroups.size() == 1 && t.subgroups[0] == Tiling::Subgroup::replicated;
  if (only_replicated) {
    out.number(kReplicateLast, 1);
  } else {
    std::vector<std::uint64_t> kinds;
    for (const Tiling::Subgroup g : t.subgroups) kinds.push_back(kind_of(g));
    out.packed(kLastDims, kinds);
  }
  if (!t.reshape.empty()) {
    out.packed(kReshape, t.reshape);
    std::vector<std::int64_t> perm(t.perm.begin(), t.perm.end());
    for (std::size_t d = perm.size(); d < t.reshape.size(); ++d) perm.push_back(std::int64_t(d));
    out.packed(kPermutation, perm);
  }
  return out.take();
}

std::string op_sharding(const std::vector<Tiling>& parts) {
  Writer out;
  out.number(kType, tuple);
  for (const Tiling& t : parts) out.bytes(kTuple, op_sharding(t));
  return out.take();
}

std::vector<Tiling> read_op_shardings(std::string_view bytes) {
  std::vector<Tiling> parts;
  Tiling one = read_one(bytes, &parts, 0);
  if (parts.empty()) parts.push_back(std::move(one));
  return parts;
}

}  // namespace tessera::pjrt
