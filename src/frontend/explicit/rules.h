// SPDX-License-Identifier: Apache-2.0
// How the results of an op are sharded in explicit mode, from the types of its operands.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/frontend/explicit/sharding_type.h"
#include "src/ir/module.h"

namespace tessera::frontend {

/// An op that has been staged, with the types of its operands.
struct TypedOp {
  const ir::Instruction& op;
  std::vector<ShardingType> operands;
  std::string name;  ///< as the user knows it
  Location location;

  const ShardingType& type(std::size_t i) const { return operands[i]; }
  const Shape& shape(std::size_t i) const { return op.operand(i)->shape; }
  /// The axes that split a dim of an operand; none for those that state nothing.
  const ShardingType::AxisList& axes(std::size_t operand, std::int64_t dim) const;
  bool stated(std::size_t i) const { return bool(operands[i]); }
  /// Of the operands that state one; all have the same.
  const Mesh& mesh() const;
  /// Throws a ShardingTypeError that names the op, the types of the operands and what would be
  /// valid.
  [[noreturn]] void refuse(const std::string& why, const std::string& valid) const;
};

/// The types of the op's results, one per leaf. ShardingTypeError if the operands don't determine
/// them, or contradict each other.
///
/// The rules are JAX's; where JAX has one per primitive, ops that have none here follow the factor
/// rule that propagation uses, and must not be split where that says that all of a dim is needed.
std::vector<ShardingType> result_types(const TypedOp& op);

/// The rules of single ops, by what they do to dims.
namespace explicit_rules {

/// All operands have the result's dims, or are scalars.
ShardingType elementwise(const TypedOp& op);
ShardingType select(const TypedOp& op);
ShardingType dot(const TypedOp& op);
ShardingType convolution(const TypedOp& op);
ShardingType reshape(const TypedOp& op);
ShardingType broadcast(const TypedOp& op);
ShardingType transpose(const TypedOp& op);
ShardingType bitcast(const TypedOp& op);
ShardingType concatenate(const TypedOp& op);
/// The operand's, where the result's dims can be split evenly: slices, pads, windows.
ShardingType resized(const TypedOp& op);
ShardingType dynamic_update_slice(const TypedOp& op);
ShardingType gather(const TypedOp& op);
ShardingType scatter(const TypedOp& op);
/// One per result.
std::vector<ShardingType> reduce(const TypedOp& op);
std::vector<ShardingType> by_factors(const TypedOp& op);

}  // namespace explicit_rules

}  // namespace tessera::frontend
