// SPDX-License-Identifier: Apache-2.0
// Pieces of StableHLO text: values, types, attributes, generic ops.
#include <algorithm>

#include "src/ir/analysis/memory_kinds.h"
#include "src/ir/custom_calls/custom_call.h"
#include "src/ir/hlo/attribute_text.h"
#include "src/ir/hlo/sdy_attributes.h"
#include "src/ir/hlo/text_out.h"
#include "src/text/write/function.h"
#include "src/text/write/text.h"

namespace tessera::text {

using ir::append_int;
using ir::Instruction;
using ir::Opcode;

namespace {

constexpr const char* kShardingRule = "xla.sdy.sharding_rule";

// sdy has no axes along which a program is per device outside of a manual computation.
bool sdy_lacks(const std::vector<TensorSharding>& shardings) {
  return std::any_of(shardings.begin(), shardings.end(),
                     [](const TensorSharding& s) { return s.is_manual(); });
}

}  // namespace

void append_leaves(const Shape& shape, Types* leaves) {
  if (!shape.is_tuple) {
    leaves->push_back(&shape);
    return;
  }
  for (const Shape& e : shape.elements) append_leaves(e, leaves);
}

void Writer::value(const Value& v) {
  out_ += v.argument ? "%arg" : "%";
  append_int(out_, v.number);
  if (v.result >= 0) {
    out_ += '#';
    append_int(out_, v.result);
  }
}

void Writer::values(const Values& list) {
  for (std::size_t n = 0; n < list.size(); ++n) {
    if (n > 0) out_ += ", ";
    value(list[n]);
  }
}

void Writer::types(const Types& list) {
  for (std::size_t n = 0; n < list.size(); ++n) {
    if (n > 0) out_ += ", ";
    append_type(out_, *list[n]);
  }
}

void Writer::types(const Values& list) {
  for (std::size_t n = 0; n < list.size(); ++n) {
    if (n > 0) out_ += ", ";
    append_type(out_, *list[n].type);
  }
}

void Writer::function_type(const Values& operands, const Types& results) {
  out_ += " : (";
  types(operands);
  out_ += ") -> ";
  if (results.size() == 1) {
    append_type(out_, *results[0]);
  } else {
    out_ += '(';
    types(results);
    out_ += ')';
  }
}

Values Writer::results(const Types& types) {
  line();
  Values out;
  if (types.empty()) return out;
  const std::int32_t number = next_value_++;
  out_ += '%';
  append_int(out_, number);
  if (types.size() > 1) {
    out_ += ':';
    append_int(out_, std::int64_t(types.size()));
  }
  out_ += " = ";
  out.reserve(types.size());
  for (std::size_t n = 0; n < types.size(); ++n) {
    out.push_back({number, types.size() > 1 ? std::int32_t(n) : -1, false, types[n]});
  }
  return out;
}

Values Writer::arguments(const Types& types) {
  Values out;
  out.reserve(types.size());
  for (const Shape* t : types) out.push_back({next_argument_++, -1, true, t});
  return out;
}

void Writer::bound_arguments(const Values& list, const std::vector<std::string>& attributes) {
  out_ += '(';
  for (std::size_t n = 0; n < list.size(); ++n) {
    if (n > 0) out_ += ", ";
    value(list[n]);
    out_ += ": ";
    append_type(out_, *list[n].type);
    if (n < attributes.size()) out_ += attributes[n];
  }
  out_ += ')';
}

void Writer::end(const Instruction& i) {
  const ir::Metadata& m = *i.metadata;
  if (options_.locations && (!m.op_name.empty() || !m.source_file.empty())) {
    out_ += " loc(";
    if (!m.op_name.empty()) append_string(out_, m.op_name);
    if (!m.source_file.empty()) {
      if (!m.op_name.empty()) out_ += '(';
      append_string(out_, m.source_file);
      out_ += ':';
      append_int(out_, m.source_line);
      out_ += ":0";
      if (!m.op_name.empty()) out_ += ')';
    }
    out_ += ')';
  }
  out_ += '\n';
}

std::string Writer::sharding_text(const TensorSharding& s, std::int64_t rank) const {
  std::string out;
  meshes_.append_sharding(out, s, rank);
  return out;
}

std::string Writer::tiling_text(const Instruction& i) {
  std::string out;
  ir::append_sharding(out, i, devices_);
  return out;
}

namespace {

/// HLO text carries rules as strings, which may hold anything; an attribute of StableHLO may not.
bool is_sharding_rule(const std::string& text) {
  if (!text.starts_with("#sdy.op_sharding_rule<") || !text.ends_with('>')) return false;
  try {
    ir::parse_sharding_rule(text);
    return true;
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

Entries Writer::decorations(const Instruction& i) {
  Entries out;
  std::string frontend;
  for (const auto& [k, v] : *i.frontend_attributes) {
    if (k == kShardingRule && is_sharding_rule(v)) {
      out.emplace_back("sdy.sharding_rule", v);
    } else if (i.is(Opcode::parameter) && k == ir::kMemoryKindAttribute) {
      std::string text;
      append_string(text, v);
      out.emplace_back(k, std::move(text));
    } else if (k != ir::kSdySharding && k != ir::kSdyMeshes) {
      frontend += frontend.empty() ? "{" : ", ";
      append_key(frontend, k);
      frontend += " = ";
      append_string(frontend, v);
    }
  }
  if (!frontend.empty()) out.emplace_back("mhlo.frontend_attributes", frontend + "}");
  if (!i.has_sharding()) return out;
  if (sdy_lacks(i.sharding)) {
    std::string text;
    append_string(text, tiling_text(i));
    out.emplace_back("mhlo.sharding", std::move(text));
    return out;
  }
  const Types leaves = leaves_of(i.shape);
  if (leaves.size() != i.sharding.size() || leaves.empty()) return out;
  std::string text = "#sdy.sharding_per_value<[";
  for (std::size_t n = 0; n < leaves.size(); ++n) {
    if (n > 0) text += ", ";
    meshes_.append_sharding(text, i.sharding[n], leaves[n]->rank());
  }
  out.emplace_back("sdy.sharding", text + "]>");
  return out;
}

void Writer::dictionary(Entries entries) {
  if (entries.empty()) return;
  std::sort(entries.begin(), entries.end());
  out_ += " {";
  for (std::size_t n = 0; n < entries.size(); ++n) {
    if (n > 0) out_ += ", ";
    out_ += entries[n].first;
    // A unit attribute has no value.
    if (entries[n].second.empty()) continue;
    out_ += " = ";
    out_ += entries[n].second;
  }
  out_ += '}';
}

Values Writer::generic(const Instruction& i, const Op& op) {
  Values out = results(op.results);
  out_ += '"';
  out_ += op.name;
  out_ += "\"(";
  values(op.operands);
  out_ += ')';
  if (!op.properties.empty()) {
    out_ += " <{";
    out_ += op.properties;
    out_ += "}>";
  }
  if (op.regions) {
    out_ += " (";
    op.regions();
    out_ += ')';
  }
  if (op.decorated) decorate(i);
  function_type(op.operands, op.results);
  end(i);
  return out;
}

const Shape* Writer::own(Shape shape) {
  owned_.push_back(std::move(shape));
  return &owned_.back();
}

Values Writer::constant(const Instruction& i, const Literal& literal, bool decorated) {
  if (literal.is_tuple()) {
    Values out;
    for (const Literal& e : literal.elements()) {
      Values part = constant(i, e, false);
      out.insert(out.end(), part.begin(), part.end());
    }
    return out;
  }
  const Shape* type = own(Shape(literal.dtype(), literal.dims()));
  Values out = results({type});
  out_ += "stablehlo.constant";
  if (decorated) decorate(i);
  out_ += ' ';
  append_dense(out_, literal);
  out_ += " : ";
  append_type(out_, *type);
  end(i);
  return out;
}

// What stands for an instruction that does nothing but carry a sharding.
Values Writer::constrained(const Instruction& i, const Values& list) {
  if (!i.has_sharding() || i.sharding.size() != list.size()) return list;
  const auto* constraint = i.attrs.get_if<ir::ShardingConstraintAttrs>();
  const bool reshard =
      constraint != nullptr && constraint->kind == ir::ShardingConstraintAttrs::Kind::reshard;
  const char* const op = reshard ? "sdy.reshard " : "sdy.sharding_constraint ";
  Values out;
  for (std::size_t n = 0; n < list.size(); ++n) {
    const TensorSharding& s = i.sharding[n];
    if (s.kind == TensorSharding::Kind::unknown || list[n].type->dtype == DType::token) {
      out.push_back(list[n]);
      continue;
    }
    const bool lacks = sdy_lacks({s});
    out.push_back(results({list[n].type})[0]);
    out_ += lacks ? "stablehlo.custom_call @Sharding(" : op;
    value(list[n]);
    if (lacks) {
      out_ += ") {mhlo.sharding = ";
      append_string(out_, tiling_text(i));
      out_ += "} : (";
      append_type(out_, *list[n].type);
      out_ += ") -> ";
    } else {
      out_ += ' ';
      meshes_.append_sharding(out_, s, list[n].type->rank());
      out_ += " : ";
    }
    append_type(out_, *list[n].type);
    end(i);
  }
  return out;
}

std::string Writer::precision(const std::vector<std::string>& words) const {
  std::string out = "[";
  for (std::size_t n = 0; n < 2; ++n) {
    std::string word = n < words.size() && !words[n].empty() ? words[n] : "default";
    for (char& c : word) c = c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c;
    out += (n ? ", " : "") + word;
  }
  return out + "]";
}

std::string Writer::precision_config(const std::vector<std::string>& words) const {
  std::string list = precision(words);
  const std::size_t comma = list.find(',');
  return "precision_config = [#stablehlo<precision " + list.substr(1, comma - 1) +
         ">, #stablehlo<precision " + list.substr(comma + 2, list.size() - comma - 3) + ">]";
}

void Writer::unsupported(const Instruction& i, const std::string& what) const {
  throw NotImplementedError(i.describe() + ": StableHLO has no form of " + what, i.location());
}

}  // namespace tessera::text
