// SPDX-License-Identifier: Apache-2.0
// Reads locations: files with lines, names, call sites, fused ones.
#include "src/text/bytecode/locations.h"

#include "src/text/bytecode/codes.h"

namespace tessera::text {
namespace {

constexpr int kMaxNestedLocations = 1000;

void fill_location(ir::Metadata* to, const ir::Metadata& from) {
  if (to->op_name.empty()) to->op_name = from.op_name;
  if (to->source_file.empty()) {
    to->source_file = from.source_file;
    to->source_line = from.source_line;
  }
}

}  // namespace

const Cow<ir::Metadata>& BytecodeLocations::of(std::size_t attribute) {
  if (!read_[attribute]) {
    read_[attribute] = true;
    known_[attribute] = Cow<ir::Metadata>(read(attribute, 0));
  }
  return known_[attribute];
}

std::string BytecodeLocations::string_of(ByteReader& in) const {
  const char* at = in.position();
  const BytecodeFile::Entry& e = file_.attributes[in.index(file_.attributes.size(), "attribute")];
  ByteReader inner = file_.reader(e.data);
  if (!e.custom || file_.dialect_of(e) != BytecodeDialect::builtin ||
      inner.varint() != BuiltinAttribute::kString) {
    in.fail_at(at, "expected a text in a location");
  }
  return std::string(file_.strings[inner.index(file_.strings.size(), "string")]);
}

ir::Metadata BytecodeLocations::read(std::size_t attribute, int depth) {
  using L = BuiltinAttribute;
  ir::Metadata m;
  const BytecodeFile::Entry& e = file_.attributes[attribute];
  if (!e.custom || file_.dialect_of(e) != BytecodeDialect::builtin) return m;
  ByteReader in = file_.reader(e.data);
  if (depth > kMaxNestedLocations)
    in.fail("locations nest deeper than " + std::to_string(kMaxNestedLocations));
  // Call stacks share their ends; a location that names itself is unknown.
  const auto nested = [&] {
    const std::size_t n = in.index(file_.attributes.size(), "attribute");
    if (!read_[n]) {
      read_[n] = true;
      known_[n] = Cow<ir::Metadata>(read(n, depth + 1));
    }
    return *known_[n];
  };
  switch (in.varint()) {
    case L::kFileLineColumn:
      m.source_file = string_of(in);
      m.source_line = std::int64_t(in.varint());
      break;
    case L::kFileRange:
      m.source_file = string_of(in);
      if (in.count("numbers of a location") > 0) m.source_line = std::int64_t(in.varint());
      break;
    case L::kNameLocation: {
      m.op_name = string_of(in);
      ir::Metadata inner = nested();
      inner.op_name.clear();
      fill_location(&m, inner);
      break;
    }
    case L::kCallSite:
      fill_location(&m, nested());
      fill_location(&m, nested());
      break;
    case L::kFused:
    case L::kFusedWithMetadata:
      for (std::size_t n = in.count("locations"); n > 0; --n) fill_location(&m, nested());
      break;
    default:
      break;
  }
  return m;
}

}  // namespace tessera::text
