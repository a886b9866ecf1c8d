// SPDX-License-Identifier: Apache-2.0
// Chooses the rule of an op, and checks that what it gives is a type.
#include "src/frontend/explicit/rules.h"

#include <algorithm>
#include <set>

#include "src/frontend/explicit/partial_sums.h"
#include "src/ir/opcode.h"

namespace tessera::frontend {

using ir::Opcode;

const ShardingType::AxisList& TypedOp::axes(std::size_t operand, std::int64_t dim) const {
  static const ShardingType::AxisList none;
  const ShardingType& t = operands[operand];
  return t ? t.dims[std::size_t(dim)] : none;
}

const Mesh& TypedOp::mesh() const {
  static const Mesh none;
  const auto first =
      std::find_if(operands.begin(), operands.end(), [](const ShardingType& t) { return bool(t); });
  return first == operands.end() ? none : first->mesh;
}

void TypedOp::refuse(const std::string& why, const std::string& valid) const {
  std::string types;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    types += (i == 0 ? "" : ", ") + type_text(shape(i), operands[i]);
  }
  throw ShardingTypeError(
      name + " of " + types + ": " + why + (valid.empty() ? "" : "; valid: " + valid), location);
}

namespace {

void check_meshes(const TypedOp& op) {
  const Mesh& first = op.mesh();
  for (const ShardingType& t : op.operands) {
    if (!t || t.mesh == first) continue;
    if (t.mesh.shape() == first.shape() && t.mesh.axis_types() == first.axis_types()) continue;
    op.refuse(
        "the operands are on different meshes, " + first.to_string() + " and " + t.mesh.to_string(),
        "operands on one mesh, for example after device_put");
  }
}

/// What a rule gives may split two dims by one axis, or a dim unevenly: then there is no such type.
void check_result(const TypedOp& op, const Shape& shape, const ShardingType& type) {
  std::set<std::string> seen;
  for (std::size_t d = 0; d < type.dims.size(); ++d) {
    for (const std::string& axis : type.dims[d]) {
      if (seen.insert(axis).second) continue;
      op.refuse(
          "the result would be " + type_text(shape, type) + ", which '" + axis + "' splits twice",
          "reshard() of an operand before, so that one dim of the result is split by it");
    }
    const std::int64_t parts = type.parts(d);
    if (shape.dims[d] % parts == 0) continue;
    op.refuse("dim " + std::to_string(d) + " of the result, " + std::to_string(shape.dims[d]) +
                  ", is not a multiple of the " + std::to_string(parts) + " parts of " +
                  type_text(shape, type),
              "reshard() of the operand to a spec without those axes, before");
  }
}

std::vector<ShardingType> ruled(const TypedOp& op) {
  using namespace explicit_rules;
  const auto one = [&](ShardingType t) { return std::vector<ShardingType>{std::move(t)}; };
  const ir::Instruction& i = op.op;
  switch (i.opcode) {
    case Opcode::select:
      return one(select(op));
    case Opcode::dot:
      return one(dot(op));
    case Opcode::convolution:
      return one(convolution(op));
    case Opcode::reshape:
      return one(reshape(op));
    case Opcode::broadcast:
      return one(broadcast(op));
    case Opcode::transpose:
      return one(transpose(op));
    case Opcode::bitcast_convert:
      return one(bitcast(op));
    case Opcode::concatenate:
      return one(concatenate(op));
    case Opcode::slice:
    case Opcode::dynamic_slice:
    case Opcode::pad:
    case Opcode::reduce_window:
      return one(resized(op));
    case Opcode::reverse:
    case Opcode::copy:
      return one(op.type(0));
    case Opcode::dynamic_update_slice:
      return one(dynamic_update_slice(op));
    case Opcode::gather:
      return one(gather(op));
    case Opcode::scatter:
      return one(scatter(op));
    case Opcode::select_and_scatter:
      return one(op.type(0));
    case Opcode::reduce:
      return reduce(op);
    default:
      return ir::is_elementwise(i.opcode) ? one(elementwise(op)) : by_factors(op);
  }
}

}  // namespace

std::vector<ShardingType> result_types(const TypedOp& op) {
  std::vector<Shape> shapes = flatten(op.op.shape);
  if (op.mesh().empty()) return std::vector<ShardingType>(shapes.size());
  check_meshes(op);
  std::vector<ShardingType> out = ruled(op);
  TESSERA_CHECK(out.size() == shapes.size(), "types of results");
  for (std::size_t k = 0; k < out.size(); ++k) {
    if (!out[k]) continue;
    set_partial_sums(op, &out[k]);
    check_result(op, shapes[k], out[k]);
  }
  return out;
}

}  // namespace tessera::frontend
