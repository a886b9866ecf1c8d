// SPDX-License-Identifier: Apache-2.0
// Collects the operations of a module that is written as bytecode, and encodes them.
#include "src/text/bytecode/bytecode_sink.h"

#include <algorithm>

#include "src/text/bytecode/bytecode.h"
#include "src/text/bytecode/sections.h"
#include "src/text/write/stablehlo.h"

namespace tessera::text {

std::string to_bytecode(const ir::Module& module, const WriteOptions& options) {
  BytecodeSink sink(options.locations);
  return write_module(module, sink);
}

const BytecodeSink::Name& BytecodeSink::name_of(std::string_view name) {
  if (const auto known = names_.find(name); known != names_.end()) return known->second;
  const std::string written = written_name(name);
  const std::size_t dot = written.find('.');
  Name out;
  out.number = tables_.operation(written.substr(0, dot), written.substr(dot + 1));
  out.vhlo = written.starts_with("vhlo.");
  out.properties = find_properties(written);
  return names_.emplace(name, out).first->second;
}

BytecodeSink::Node BytecodeSink::node(std::string_view name, const ir::Metadata& metadata) {
  Node out;
  out.name = name_of(name).number;
  static const ir::Metadata none;
  out.location = attributes_.location(locations_ ? metadata : none);
  return out;
}

void BytecodeSink::append(Node node) {
  node.first_result = next_value_;
  next_value_ += Number(node.types.size());
  current().nodes.push_back(std::move(node));
}

BytecodeSink::Number BytecodeSink::cast(Number value, Number type) {
  Node n = node("builtin.unrealized_conversion_cast", {});
  n.operands.push_back(value);
  n.types.push_back(type);
  append(std::move(n));
  return next_value_ - 1;
}

// The value for an operation that isn't vhlo's: cast once in the regions that see it.
BytecodeSink::Number BytecodeSink::native(const Value& v) {
  const auto value = Number(v.number);
  if (const auto it = natives_.find(value); it != natives_.end()) {
    const Number in = it->second.region;
    const auto open = [&](const Region& r) { return r.id == in; };
    if (std::any_of(regions_.begin(), regions_.end(), open)) return it->second.value;
  }
  const Number out = cast(value, attributes_.native_type(*v.type));
  natives_[value] = {out, current().id};
  return out;
}

// vhlo's forms of values of builtin types.
Values BytecodeSink::casted(const Types& types, Number first) {
  Values out;
  for (const Shape* t : types) {
    const Number value = cast(first, attributes_.vhlo_type(*t));
    natives_[value] = {first++, current().id};
    out.push_back({std::int32_t(value), -1, false, t});
  }
  return out;
}

void BytecodeSink::operands(const Values& values, bool vhlo, Node* node) {
  node->operands.reserve(values.size());
  for (const Value& v : values) node->operands.push_back(vhlo ? Number(v.number) : native(v));
}

void BytecodeSink::begin_region() {
  Region& r = regions_.emplace_back();
  r.first_argument = next_value_;
  r.id = next_region_++;
}

void BytecodeSink::module(std::string_view name, const Entries& attributes) {
  Node n = node("builtin.module", {});
  n.isolated = true;
  std::vector<std::pair<std::string_view, Number>> all;
  for (const auto& [key, text] : attributes) all.emplace_back(key, attributes_.native(text));
  n.has_attributes = n.has_properties = true;
  n.attributes = attributes_.dictionary(std::move(all));
  ByteWriter properties;
  properties.flagged(attributes_.builtin_string(name), true);
  properties.varint(0);  // no visibility
  n.properties = tables_.properties(properties);
  nodes_.push_back(std::move(n));
  begin_region();
}

void BytecodeSink::mesh(std::string_view symbol, std::string_view mesh) {
  Node n = node("sdy.mesh", {});
  ByteWriter properties;
  properties.varint(attributes_.native("#sdy.mesh" + std::string(mesh)));
  properties.varint(attributes_.builtin_string(symbol));
  n.has_properties = true;
  n.properties = tables_.properties(properties);
  append(std::move(n));
}

Values BytecodeSink::function(const FunctionHead& head) {
  Node n = node("func.func", {});
  n.isolated = true;
  function_properties(head, &n);
  nodes_.push_back(std::move(n));
  Values arguments = region(head.arguments);
  if (locations_) {
    for (const ir::Metadata* m : head.argument_metadata) {
      current().locations.push_back(attributes_.location(*m));
    }
  }
  return arguments;
}

void BytecodeSink::end_function(const Values& returned) {
  end_region("return", returned);
  append(std::move(nodes_.back()));
  nodes_.pop_back();
}

Values BytecodeSink::op(const Op& op, const ir::Metadata& metadata) {
  const Name& name = name_of(op.name);
  Node n = node(op.name, metadata);
  operands(op.operands, name.vhlo, &n);
  for (const Shape* t : op.results) {
    n.types.push_back(name.vhlo ? attributes_.vhlo_type(*t) : attributes_.native_type(*t));
  }
  attributes(op, name, &n);
  if (op.regions) {
    n.isolated = !name.vhlo;
    nodes_.push_back(std::move(n));
    op.regions();
    n = std::move(nodes_.back());
    nodes_.pop_back();
  }
  append(std::move(n));
  const Number first = next_value_ - Number(op.results.size());
  if (!name.vhlo) return casted(op.results, first);
  Values out;
  out.reserve(op.results.size());
  for (std::size_t k = 0; k < op.results.size(); ++k) {
    out.push_back({std::int32_t(first + k), -1, false, op.results[k]});
  }
  return out;
}

Values BytecodeSink::region(const Types& types) {
  const bool native = nodes_.back().name == name_of("sdy.manual_computation").number;
  begin_region();
  Region& r = current();
  for (const Shape* t : types) {
    r.types.push_back(native ? attributes_.native_type(*t) : attributes_.vhlo_type(*t));
  }
  next_value_ += Number(types.size());
  if (native) return casted(types, r.first_argument);
  Values out;
  for (std::size_t k = 0; k < types.size(); ++k) {
    out.push_back({std::int32_t(r.first_argument + k), -1, true, types[k]});
  }
  return out;
}

void BytecodeSink::end_region(std::string_view terminator, const Values& returned) {
  Node n = node(terminator, {});
  operands(returned, name_of(terminator).vhlo, &n);
  append(std::move(n));
  nodes_.back().regions.push_back(std::move(regions_.back()));
  regions_.pop_back();
}

std::string BytecodeSink::finish() {
  Node module = std::move(nodes_.back());
  module.regions.push_back(std::move(regions_.back()));
  numbers_.resize(next_value_);
  ByteWriter out;
  out.flagged(1, false);  // one operation, no arguments
  write(module, 0, out);
  return tables_.file("StableHLO_v" + std::string(kWrittenVersion), out.bytes());
}

void BytecodeSink::write(const Node& node, Number base, ByteWriter& out) {
  out.varint(node.name);
  out.byte(std::uint8_t(
      (node.has_attributes ? kHasAttributes : 0) | (node.has_properties ? kHasProperties : 0) |
      (node.types.empty() ? 0 : kHasResults) | (node.operands.empty() ? 0 : kHasOperands) |
      (node.regions.empty() ? 0 : kHasRegions)));
  out.varint(node.location);
  if (node.has_attributes) out.varint(node.attributes);
  if (node.has_properties) out.varint(node.properties);
  if (!node.types.empty()) {
    out.varint(node.types.size());
    for (Number t : node.types) out.varint(t);
  }
  if (!node.operands.empty()) {
    out.varint(node.operands.size());
    for (Number v : node.operands) out.varint(numbers_[v]);
  }
  if (node.regions.empty()) return;
  out.flagged(node.regions.size(), node.isolated);
  if (!node.isolated) {
    for (const Region& r : node.regions) write(r, base, out);
    return;
  }
  ByteWriter inside;
  for (const Region& r : node.regions) write(r, 0, inside);
  out.section(BytecodeSection::kIr, inside.bytes());
}

// `base`: how many values the regions around it have.
void BytecodeSink::write(const Region& region, Number base, ByteWriter& out) {
  Number next = base;
  for (std::size_t k = 0; k < region.types.size(); ++k) {
    numbers_[region.first_argument + k] = next++;
  }
  for (const Node& n : region.nodes) {
    for (std::size_t k = 0; k < n.types.size(); ++k) numbers_[n.first_result + k] = next++;
  }
  out.varint(1);  // block
  out.varint(next - base);
  out.flagged(region.nodes.size(), !region.types.empty());
  if (!region.types.empty()) {
    out.varint(region.types.size());
    const bool located = !region.locations.empty();
    for (std::size_t k = 0; k < region.types.size(); ++k) {
      out.flagged(region.types[k], located);
      if (located) out.varint(region.locations[k]);
    }
    out.byte(0);  // no orders of uses
  }
  for (const Node& n : region.nodes) write(n, next, out);
}

}  // namespace tessera::text
