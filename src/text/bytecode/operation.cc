// SPDX-License-Identifier: Apache-2.0
// An operation's encoding up to its regions.
#include <algorithm>

#include "src/text/bytecode/reader.h"
#include "src/text/bytecode/sections.h"

namespace tessera::text {
namespace {

constexpr int kMaxSkippedDepth = 200;

}  // namespace

BytecodeReader::Tail BytecodeReader::head(Operation& op) {
  Tail tail;
  op.at = bytes_.position();
  tail.name = bytes_.index(names_.size(), "name of an operation");
  const Name& name = names_[tail.name];
  const std::uint8_t parts = bytes_.byte();
  const std::size_t where = location_index();
  places_.begin(op.at, name.full, where);
  op.name = name.info != nullptr ? name.info->name : std::string_view(name.stable);
  op.info = name.info;
  op.flat = name.vhlo;
  op.location = location(where);
  if ((parts & kHasAttributes) != 0) {
    dictionary(bytes_.index(file_.attributes.size(), "attribute"), &op.attributes);
  }
  if ((parts & kHasProperties) != 0) {
    if (name.registered) {
      properties(name, bytes_.index(file_.properties.size(), "properties"), &op);
    } else {
      dictionary(bytes_.index(file_.attributes.size(), "attribute"), &op.attributes);
    }
  }
  if (name.has_defaults) leave_out_defaults(op);
  if ((parts & kHasResults) != 0) result_types(op, &tail);
  if ((parts & kHasOperands) != 0) {
    for (std::size_t n = bytes_.count("operands"); n > 0; --n) operand(op);
  }
  if ((parts & kHasSuccessors) != 0) {
    in_.not_supported_at(op.at, "branches between blocks are not supported");
  }
  if ((parts & kHasUseListOrders) != 0 && file_.version >= BytecodeFile::kUseListOrders) {
    use_list_orders(op.results.size());
  }
  if ((parts & kHasRegions) != 0) {
    const char* at = bytes_.position();
    tail.regions = bytes_.checked_count(bytes_.flagged(&tail.isolated), at, "regions");
  }
  return tail;
}

void BytecodeReader::result_types(Operation& op, Tail* tail) {
  const std::size_t count = bytes_.count("results");
  tail->first_result = next_value_;
  const bool defined = values_end_ > next_value_;
  if (count > values_end_ - next_value_ && (defined || !frames_.empty())) {
    in_.fail_at(op.at, "an operation of " + std::to_string(count) + " results in a region that " +
                           "defines " + std::to_string(values_end_ - next_value_) + " more values");
  }
  for (std::size_t n = 0; n < count; ++n) {
    const Shape* t = type(bytes_.index(file_.types.size(), "type"));
    op.results.push_back(t);
    if (defined) values_[next_value_++].type = t;
  }
}

void BytecodeReader::operand(Operation& op) {
  const char* at = bytes_.position();
  Value& v = values_[bytes_.index(values_.size(), "value")];
  Symbol& s = v.symbol;
  if (s.level < 0 || s.one == nullptr) {
    in_.fail_at(at, "value " + value_name(at) + " is not defined before this use");
  }
  if (++s.reads > Symbols::kReadByEdge) fail_read_twice(at);
  op.operand_types.push_back(v.type);
  op.operand_places.push_back(at);
  op.operands.push_back(seen_here(s.one, s.level, at));
}

void BytecodeReader::add_attribute(std::string_view key, std::size_t number,
                                   std::vector<Attribute>* out) {
  std::string_view value = texts_.attribute(number);
  if (texts_.is_none(number)) return;
  if (value == "unit") value = value.substr(0, 0);
  out->push_back({key, value});
}

void BytecodeReader::dictionary(std::size_t attribute, std::vector<Attribute>* out) {
  constexpr std::uint64_t kDictionaryCode = 1, kStringCode = 2;
  const BytecodeFile::Entry& e = file_.attributes[attribute];
  ByteReader in = file_.reader(e.data);
  if (!e.custom || file_.dialect_of(e) != BytecodeDialect::builtin ||
      in.varint() != kDictionaryCode) {
    in.fail("expected a dictionary of attributes");
  }
  for (std::size_t n = in.count("attributes"); n > 0; --n) {
    const char* at = in.position();
    const BytecodeFile::Entry& key =
        file_.attributes[in.index(file_.attributes.size(), "attribute")];
    ByteReader name = file_.reader(key.data);
    if (!key.custom || file_.dialect_of(key) != BytecodeDialect::builtin ||
        name.varint() != kStringCode) {
      in.fail_at(at, "expected the name of an attribute");
    }
    const std::string_view text = file_.strings[name.index(file_.strings.size(), "string")];
    add_attribute(text, in.index(file_.attributes.size(), "attribute"), out);
  }
}

void BytecodeReader::properties(const Name& name, std::size_t number, Operation* op) {
  ByteReader in = file_.reader(file_.properties[number]);
  if (name.properties == nullptr) {
    if (in.empty()) return;
    in_.not_supported_at(op->at, "the properties of operation '" + name.full +
                                     "' aren't known here: it is of a newer version than is read, "
                                     "or of another dialect");
  }
  const auto read_segments = [&] {
    for (const Property& p : *name.properties) {
      if (p.segments > 0) segments(in, p, op);
    }
  };
  // Numbers of operands stand behind the attributes, as an attribute before them.
  const bool native = file_.version >= BytecodeFile::kNativeSegmentSizes;
  if (!native) read_segments();
  // Each has a number, also if it isn't there.
  std::size_t given = 0;
  for (ByteReader counted = in; !counted.empty(); ++given) counted.varint();
  const bool older = given < name.properties->size();
  for (const Property& p : *name.properties) {
    if (p.segments > 0 || (older && p.newer)) continue;
    bool there = true;
    const char* at = in.position();
    const std::uint64_t n = p.optional ? in.flagged(&there) : in.varint();
    if (!there) continue;
    add_attribute(p.key, in.checked_index(n, file_.attributes.size(), at, "attribute"),
                  &op->attributes);
  }
  if (native) read_segments();
}

// How many operands each group has: those of the first are all that is asked for.
void BytecodeReader::segments(ByteReader& in, const Property& p, Operation* op) {
  if (file_.version < BytecodeFile::kNativeSegmentSizes) {
    add_attribute(p.key, in.index(file_.attributes.size(), "attribute"), &op->attributes);
    return;
  }
  bool sparse = false;
  const std::uint64_t count = in.flagged(&sparse);
  std::vector<std::uint64_t> sizes(std::size_t(p.segments), 0);
  if (count > sizes.size()) in.fail("more groups of operands than the operation has");
  const std::uint64_t index_bits = sparse && count > 0 ? in.varint() : 0;
  if (index_bits > 8) in.fail("groups of operands with numbers of more than 8 bits");
  for (std::uint64_t n = 0; n < count; ++n) {
    const std::uint64_t v = in.varint();
    const std::uint64_t at = sparse ? v & ((1u << index_bits) - 1) : n;
    if (at >= sizes.size()) in.fail("more groups of operands than the operation has");
    sizes[at] = v >> index_bits;
  }
  op->scanned = std::size_t(sizes[0]);
}

// What vhlo always writes, and text only where it says something.
void BytecodeReader::leave_out_defaults(Operation& op) {
  const auto drop = [&](std::string_view key, std::string_view value) {
    std::erase_if(op.attributes, [&](const Attribute& a) {
      return a.key == key && (value.empty() || a.value == value);
    });
  };
  if (op.name == "stablehlo.dynamic_conv") return drop("padding", {});
  drop("sym_visibility", "\"\"");
  drop("infeed_config", "\"\"");
  drop("outfeed_config", "\"\"");
  drop("layout", "[]");
  drop("source_target_pairs", "dense<> : tensor<0xi64>");
  drop("backend_config", "\"\"");
  drop("backend_config", "{}");
  const Attribute *in = op.find("operand_layouts"), *out = op.find("result_layouts");
  if (in != nullptr && out != nullptr && in->value == "[]" && out->value == "[]") {
    drop("operand_layouts", {});
    drop("result_layouts", {});
  }
}

// In which order values are used doesn't matter here.
void BytecodeReader::use_list_orders(std::size_t values) {
  const std::size_t lists = values > 1 ? bytes_.count("orders of uses") : 1;
  for (std::size_t n = 0; n < lists; ++n) {
    if (values > 1) bytes_.varint();
    const char* at = bytes_.position();
    bool pairs = false;
    for (std::size_t i = bytes_.checked_count(bytes_.flagged(&pairs), at, "uses"); i > 0; --i) {
      bytes_.varint();
    }
  }
}

std::size_t BytecodeReader::location_index() {
  return bytes_.index(file_.attributes.size(), "location");
}

std::string_view BytecodeReader::location(std::size_t attribute) {
  const std::string_view data = file_.attributes[attribute].data;
  if (!locations_noted_[attribute]) {
    locations_noted_[attribute] = true;
    locations_.emplace(data, known_locations_.of(attribute));
  }
  return data;
}

const Shape* BytecodeReader::type(std::size_t n) {
  const Shape*& known = types_read_[n];
  if (known == nullptr) {
    in_.seek(texts_.type(n).data());
    known = types_.read();
  }
  return known;
}

void BytecodeReader::skip_regions(const Tail& tail, int depth) {
  if (tail.isolated && file_.version >= BytecodeFile::kSectionsOfRegions) {
    section_of_regions();
    return;
  }
  for (std::size_t r = 0; r < tail.regions; ++r) {
    const std::uint64_t blocks = bytes_.varint();
    if (blocks == 0) continue;
    bytes_.varint();
    for (std::uint64_t b = 0; b < blocks; ++b) {
      bool has_arguments = false;
      const char* at = bytes_.position();
      const std::uint64_t count = bytes_.flagged(&has_arguments);
      const std::size_t operations = bytes_.checked_count(count, at, "operations");
      if (has_arguments) {
        const std::size_t arguments = bytes_.count("arguments");
        for (std::size_t n = 0; n < arguments; ++n) {
          bool has_location = true;
          if (file_.version >= BytecodeFile::kElidedLocations) {
            bytes_.flagged(&has_location);
          } else {
            bytes_.varint();
          }
          if (has_location) bytes_.varint();
        }
        if (file_.version >= BytecodeFile::kUseListOrders && bytes_.byte() != 0) {
          use_list_orders(arguments);
        }
      }
      for (std::size_t n = 0; n < operations; ++n) skip_operation(depth + 1);
    }
  }
}

void BytecodeReader::skip_operation(int depth) {
  if (depth > kMaxSkippedDepth) in_.fail_at(bytes_.position(), "operations nest deeper than 200");
  bytes_.varint();
  const std::uint8_t parts = bytes_.byte();
  bytes_.varint();
  if ((parts & kHasAttributes) != 0) bytes_.varint();
  if ((parts & kHasProperties) != 0) bytes_.varint();
  std::size_t results = 0;
  for (const OperationPart list : {kHasResults, kHasOperands, kHasSuccessors}) {
    if ((parts & list) == 0) continue;
    const std::size_t count = bytes_.count("values");
    if (list == kHasResults) results = count;
    for (std::size_t n = 0; n < count; ++n) bytes_.varint();
  }
  if ((parts & kHasUseListOrders) != 0 && file_.version >= BytecodeFile::kUseListOrders) {
    use_list_orders(results);
  }
  if ((parts & kHasRegions) == 0) return;
  Tail tail;
  const char* at = bytes_.position();
  tail.regions = bytes_.checked_count(bytes_.flagged(&tail.isolated), at, "regions");
  skip_regions(tail, depth);
}

}  // namespace tessera::text
