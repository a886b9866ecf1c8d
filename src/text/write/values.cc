// SPDX-License-Identifier: Apache-2.0
// Pieces of StableHLO text: values, types, attributes, generic ops.
#include <algorithm>

#include "src/base/contains.h"
#include "src/ir/analysis/memory_kinds.h"
#include "src/ir/custom_calls/custom_call.h"
#include "src/ir/hlo/attribute_text.h"
#include "src/ir/hlo/sdy_attributes.h"
#include "src/ir/hlo/text_out.h"
#include "src/text/read/layout_modes.h"
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

/// What an instruction that carries a sharding gives, as an element of a list of results does.
const Instruction* constrained_value(const Instruction& i) {
  if (i.operands().size() != 1) return nullptr;
  const Instruction* x = i.operand(0);
  if (!i.is(Opcode::get_tuple_element) || !x->is(Opcode::tuple)) return x;
  return x->operand(std::size_t(i.get<ir::GetTupleElementAttrs>().index));
}

/// Whether parts joined in one way become parts joined in another, along one axis.
bool changes_kind(const TensorSharding& from, const TensorSharding& to) {
  if (from.kind != TensorSharding::Kind::axes || to.kind != TensorSharding::Kind::axes ||
      from.unreduced.empty() || to.unreduced.empty() || from.reduction == to.reduction ||
      !same_mesh(from.mesh, to.mesh)) {
    return false;
  }
  const MeshRef both = common_refinement(from.mesh, to.mesh);
  if (both == nullptr) return false;
  const IndexList axes = to.on(both).unreduced;
  for (const int a : from.on(both).unreduced) {
    if (contains(axes, a)) return true;
  }
  return false;
}

}  // namespace

void append_leaves(const Shape& shape, Types* leaves) {
  if (!shape.is_tuple) {
    leaves->push_back(&shape);
    return;
  }
  for (const Shape& e : shape.elements) append_leaves(e, leaves);
}

Values Writer::emit(const Instruction& i, Op op) {
  if (op.decorated) {
    Entries more = decorations(i);
    if (op.attributes.empty()) {
      op.attributes = std::move(more);
    } else {
      op.attributes.insert(op.attributes.end(), more.begin(), more.end());
    }
  }
  return sink_.op(op, *i.metadata);
}

Values Writer::step(const Instruction& i, std::string_view name, const Value& x,
                    const Shape* type) {
  Op op{name, {x}, "", {type}};
  op.decorated = false;
  op.form = Form::signature;
  return emit(i, std::move(op));
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
    } else if (i.is(Opcode::parameter) && (k == ir::kMemoryKindAttribute || k == kLayoutMode)) {
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
  Op op{"stablehlo.constant", {}, "", {own(Shape(literal.dtype(), literal.dims()))}};
  op.form = Form::constant;
  op.literal = &literal;
  op.decorated = decorated;
  return emit(i, std::move(op));
}

namespace {

/// The element of a tuple, which a constraint with this sharding gives.
bool is_constrained_element(const Instruction& i) {
  if (!i.is(Opcode::get_tuple_element) || !i.operand(0)->is(Opcode::tuple)) return false;
  const auto n = std::size_t(i.get<ir::GetTupleElementAttrs>().index);
  const Instruction& element = *i.operand(0)->operands().at(n);
  return element.is(Opcode::sharding_constraint) && element.sharding == i.sharding;
}

}  // namespace

// What stands for an instruction that does nothing but carry a sharding.
Values Writer::constrained(const Instruction& i, const Values& list) {
  if (!i.has_sharding() || i.sharding.size() != list.size()) return list;
  if (is_constrained_element(i)) return list;
  const auto* constraint = i.attrs.get_if<ir::ShardingConstraintAttrs>();
  const bool reshard =
      constraint != nullptr && constraint->kind == ir::ShardingConstraintAttrs::Kind::reshard;
  Values out;
  for (std::size_t n = 0; n < list.size(); ++n) {
    const TensorSharding& s = i.sharding[n];
    if (s.kind == TensorSharding::Kind::unknown || list[n].type->dtype == DType::token) {
      out.push_back(list[n]);
      continue;
    }
    Value from = list[n];
    const Instruction* given = constrained_value(i);
    if (given != nullptr && given->sharding.size() == list.size() &&
        changes_kind(given->sharding[n], s)) {
      // Text has no form of it: parts are joined in between.
      TensorSharding joined = given->sharding[n];
      joined.unreduced.clear();
      joined.reduction = Reduction::sum;
      const std::string text = sharding_text(joined, from.type->rank());
      Op join{"sdy.reshard", {from}, "", {from.type}};
      join.decorated = false;
      join.form = Form::one_type;
      join.tail = ' ' + text;
      join.properties = "sharding = #sdy.sharding" + text;
      from = emit(i, std::move(join))[0];
    }
    Op op{reshard ? "sdy.reshard" : "sdy.sharding_constraint", {from}, "", {from.type}};
    op.decorated = false;
    if (sdy_lacks({s})) {
      op.name = "stablehlo.custom_call";
      op.form = Form::signature;
      op.lead = "@Sharding(";
      op.tail = ")";
      op.properties = "call_target_name = \"Sharding\"";
      std::string text;
      append_string(text, tiling_text(i));
      op.attributes.emplace_back("mhlo.sharding", std::move(text));
    } else {
      const std::string text = sharding_text(s, list[n].type->rank());
      op.form = Form::one_type;
      op.tail = ' ' + text;
      op.properties = "sharding = #sdy.sharding" + text;
    }
    out.push_back(emit(i, std::move(op))[0]);
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
