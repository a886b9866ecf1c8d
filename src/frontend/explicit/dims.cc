// SPDX-License-Identifier: Apache-2.0
// Explicit mode's rules of elementwise ops, and of those that rearrange dims or change their sizes.
#include <algorithm>

#include "src/base/contains.h"
#include "src/frontend/explicit/rules.h"

namespace tessera::frontend::explicit_rules {

using ir::Instruction;
using ir::Opcode;
using AxisList = ShardingType::AxisList;

namespace {

std::string axes_text(const AxisList& axes) { return PartitionSpec(SpecEntry(axes)).to_string(); }

ShardingType unsplit_result(const TypedOp& op) {
  return ShardingType::replicated(op.mesh(), op.op.shape.dims.size());
}

/// Whether a value is the same all along a dim: it is a scalar, or was spread along it.
bool is_spread_along(const Instruction* i, std::int64_t dim) {
  while (i->is(Opcode::sharding_constraint) || i->is(Opcode::convert)) i = i->operand(0);
  if (i->shape.dims.empty()) return true;
  return i->is(Opcode::broadcast) && !contains(i->get<ir::DimensionsAttrs>().dims, dim);
}

}  // namespace

ShardingType elementwise(const TypedOp& op) {
  ShardingType out = unsplit_result(op);
  const std::size_t rank = out.dims.size();
  for (std::size_t d = 0; d < rank; ++d) {
    std::size_t from = 0;
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
      if (!op.stated(k) || op.shape(k).dims.size() != rank) continue;
      const AxisList& axes = op.type(k).dims[d];
      if (axes.empty() || axes == out.dims[d]) continue;
      if (!out.dims[d].empty()) {
        op.refuse("dim " + std::to_string(d) + " is split as " + axes_text(out.dims[d]) +
                      " in operand " + std::to_string(from) + " and as " + axes_text(axes) +
                      " in operand " + std::to_string(k),
                  "reshard() of one of them to the spec of the other, " +
                      op.type(from).spec().to_string() + " or " + op.type(k).spec().to_string());
      }
      out.dims[d] = axes;
      from = k;
    }
  }
  return out;
}

ShardingType select(const TypedOp& op) {
  // What is chosen from must be alike, but along dims along which it is the same anyhow.
  ShardingType out = unsplit_result(op);
  for (std::size_t d = 0; d < out.dims.size(); ++d) {
    std::size_t first = op.operands.size();
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
      if (!op.stated(k) || is_spread_along(op.op.operand(k), std::int64_t(d))) continue;
      if (first == op.operands.size()) first = k;
      if (op.type(k).dims[d] == op.type(first).dims[d]) continue;
      op.refuse(
          "operands " + std::to_string(first) + " and " + std::to_string(k) +
              " must be sharded alike",
          "reshard() of operand " + std::to_string(k) + " to " + op.type(first).spec().to_string());
    }
    if (first < op.operands.size()) out.dims[d] = op.type(first).dims[d];
  }
  return out;
}

ShardingType broadcast(const TypedOp& op) {
  ShardingType out = unsplit_result(op);
  const Dims& places = op.op.get<ir::DimensionsAttrs>().dims;
  for (std::size_t d = 0; d < places.size(); ++d) {
    out.dims[std::size_t(places[d])] = op.type(0).dims[d];
  }
  return out;
}

ShardingType transpose(const TypedOp& op) {
  ShardingType out = unsplit_result(op);
  const Dims& from = op.op.get<ir::DimensionsAttrs>().dims;
  for (std::size_t d = 0; d < from.size(); ++d) {
    out.dims[d] = op.type(0).dims[std::size_t(from[d])];
  }
  return out;
}

ShardingType bitcast(const TypedOp& op) {
  ShardingType out = op.type(0);
  const std::size_t before = out.dims.size(), after = op.op.shape.dims.size();
  if (after < before && !out.dims.back().empty()) {
    op.refuse("the last dim, of whose elements each result is made, is split",
              "reshard() of the operand, so that its last dim isn't split");
  }
  out.dims.resize(after);
  return out;
}

ShardingType concatenate(const TypedOp& op) {
  std::size_t first = op.operands.size();
  for (std::size_t k = 0; k < op.operands.size(); ++k) {
    if (!op.stated(k)) continue;
    if (first == op.operands.size()) first = k;
    if (op.type(k).dims == op.type(first).dims) continue;
    op.refuse("all operands must be sharded alike; operand " + std::to_string(first) + " is " +
                  op.type(first).spec().to_string() + " and operand " + std::to_string(k) + " " +
                  op.type(k).spec().to_string(),
              "reshard() of one of them to the other's spec");
  }
  return op.type(first);
}

ShardingType resized(const TypedOp& op) {
  const ShardingType& type = op.type(0);
  if (!type) return unsplit_result(op);
  const Dims& from = op.shape(0).dims;
  const Dims& to = op.op.shape.dims;
  const auto* windows = op.op.attrs.get_if<ir::WindowAttrs>();
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (type.dims[d].empty()) continue;
    // A window that reaches from each element to an end is a sum of all before it.
    if (windows && windows->dims[d].size > 1 && windows->dims[d].size >= from[d]) {
      op.refuse("it runs along dim " + std::to_string(d) + ", which is split as " +
                    axes_text(type.dims[d]),
                "reshard() of the operand, so that this dim isn't split");
    }
    if (to[d] == from[d] || to[d] % type.parts(d) == 0) continue;
    op.refuse("dim " + std::to_string(d) + ", split as " + axes_text(type.dims[d]) +
                  ", gets the size " + std::to_string(to[d]) + ", which is not a multiple of " +
                  std::to_string(type.parts(d)),
              "reshard() of the operand, so that sharded dims keep a size that divides evenly");
  }
  return type;
}

ShardingType dynamic_update_slice(const TypedOp& op) {
  if (!op.stated(0)) return op.stated(1) ? op.type(1) : unsplit_result(op);
  if (op.stated(1) && op.type(1).dims != op.type(0).dims) {
    op.refuse("the update must be sharded as what it is written to",
              "reshard() of the update to " + op.type(0).spec().to_string());
  }
  return op.type(0);
}

std::vector<ShardingType> reduce(const TypedOp& op) {
  const std::size_t arrays = op.operands.size() / 2;
  const Dims& reduced = op.op.get<ir::DimensionsAttrs>().dims;
  ShardingType whole;
  for (std::size_t k = 0; k < arrays; ++k) {
    if (!op.stated(k)) continue;
    if (whole && whole.dims != op.type(k).dims) {
      op.refuse("the arrays that are reduced together must be sharded alike",
                "reshard() of operand " + std::to_string(k) + " to " + whole.spec().to_string());
    }
    whole = op.type(k);
  }
  if (!whole) return std::vector<ShardingType>(arrays);
  ShardingType out = whole;
  out.dims.clear();
  for (std::size_t d = 0; d < whole.dims.size(); ++d) {
    if (!contains(reduced, std::int64_t(d))) out.dims.push_back(whole.dims[d]);
  }
  return std::vector<ShardingType>(arrays, out);
}

}  // namespace tessera::frontend::explicit_rules
