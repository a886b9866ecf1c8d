// SPDX-License-Identifier: Apache-2.0
// The arrays of one computation as they are in what is made of it, and their reshards: a program on
// global shapes in the first stage, one device's in the second.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/base/small_vector.h"
#include "src/ir/module.h"
#include "src/spmd/partitioner/emit/reshard_emitter.h"
#include "src/spmd/partitioner/emit/reshard_reason.h"
#include "src/spmd/partitioner/emit/shard_builder.h"
#include "src/spmd/partitioner/source_computation.h"
#include "src/spmd/sharding_queries.h"

namespace tessera::spmd {

/// One array of the source program in one layout. Shards of uneven dims are padded at the end to
/// ceil(dim / ways); what the padding holds is unknown unless it was masked.
struct Value {
  ir::Instruction* local = nullptr;         ///< in the program that is made: a shard, or all of it
  TensorSharding sharding;                  ///< closed, on the module's mesh
  Shape shape;                              ///< global
  ir::Opcode partial_op = ir::Opcode::add;  ///< joins the partial values of unreduced axes; the
                                            ///< sharding's `reduction`, as far as that can say it
  const ir::Instruction* origin = nullptr;  ///< in the source program
  Value* original = nullptr;                ///< the layout that the array was computed in
  /// Of `original`: the array in all layouts so far.
  SmallVector<Value*, 2> materializations;
  /// Local arrays made of this one, by how: with its padding masked, with rows of other shards.
  std::map<std::string, ir::Instruction*> derived;
  /// Of `original`, before it is lowered: makes it in any layout without communication (constants,
  /// iotas, broadcast scalars).
  std::function<ir::Instruction*(const TensorSharding&)> recompute;

  void set_partial_op(ir::Opcode op) {
    partial_op = op;
    sharding.reduction = reduction_of(op);
  }
  bool is_recomputable() const { return bool(original->recompute); }
};

class Values {
 public:
  Values(ModulePartitioner& module, const SourceComputation& source, ShardBuilder& emit,
         ReshardEmitter& reshards);

  // ----- definitions
  Value* make(ir::Instruction* local, TensorSharding sharding, const Shape& global);
  /// Of the leaves of a local result; further ones are ignored.
  std::vector<Value*> make(const std::vector<ir::Instruction*>& leaves,
                           const std::vector<TensorSharding>& layouts,
                           const std::vector<Shape>& globals);
  /// A value that can be made anew in any layout.
  Value* make_recomputable(std::function<ir::Instruction*(const TensorSharding&)> recompute,
                           const TensorSharding& sharding, const Shape& global);
  /// In any layouts: they are brought to the declared ones when somebody needs them so.
  void define(const ir::Instruction& source, std::vector<Value*> leaves);
  void define(const ir::Instruction& source, Value* v) { define(source, std::vector{v}); }
  /// The leaves of a local result, shards by `layouts`; further ones are ignored.
  void define(const ir::Instruction& source, const std::vector<ir::Instruction*>& leaves,
              const std::vector<TensorSharding>& layouts);
  /// The same of (a tuple of) them.
  void define(const ir::Instruction& source, ir::Instruction* local,
              const std::vector<TensorSharding>& layouts);
  /// Says on an op of a program with explicit reshards how its leaves are laid out.
  void annotate(ir::Instruction* op, const std::vector<TensorSharding>& layouts) const;
  /// A (tuple of) local arrays, from its leaves.
  ir::Instruction* pack(const Shape& shape, const std::vector<Value*>& leaves) const;
  bool is_defined(const ir::Instruction& source) const { return find(source) != nullptr; }

  // ----- the values of source instructions
  /// Leaves in the layouts that propagation declared.
  std::vector<Value*> declared_leaves(const ir::Instruction& source);
  /// An array in its declared layout.
  Value* declared(const ir::Instruction& source);
  /// Leaves as they were computed; they may hold partial sums still.
  const std::vector<Value*>& computed_leaves(const ir::Instruction& source) const;
  /// An array as it was computed.
  Value* computed(const ir::Instruction& source) const;
  /// As an operand: as computed, if nobody else uses it; else in its declared layout.
  Value* operand(const ir::Instruction& operand);
  /// The i-th operand of an op (partial sums allowed), brought to a layout.
  Value* operand_in(const ir::Instruction& source, std::size_t i, const TensorSharding& layout);
  std::vector<Value*> operands_in(const ir::Instruction& source,
                                  const std::vector<TensorSharding>& layout);

  // ----- layouts
  Value* reshard(Value* v, const TensorSharding& to, const ReshardReason& reason);
  /// The price of bringing a value there from its cheapest materialization.
  double reshard_price(Value* v, const TensorSharding& to) const;
  /// The local array with the padding of these dims set to `neutral` (a scalar).
  ir::Instruction* masked(Value* v, const Dims& dims, ir::Instruction* neutral);

 private:
  /// Leaves as they were computed; null if they were not, or not here.
  const std::vector<Value*>* find(const ir::Instruction& source) const;
  /// Which leaf of its origin a value is; -1 if it is an intermediate of an op's.
  std::ptrdiff_t leaf_of(const Value& v) const;
  /// The array in that layout, if it has been in it before.
  Value* materialized_in(Value* v, const TensorSharding& layout) const;
  Value* cheapest_materialization(Value* v, const TensorSharding& to, double* price) const;
  Value* as_declared(Value* v, const TensorSharding& layout);
  /// The array in another layout, as an instruction of the program with explicit reshards.
  ir::Instruction* explicit_reshard(const Value& from, const ReshardReason& reason);
  /// The same in one device's program.
  ir::Instruction* lowered_reshard(const Value& from, const TensorSharding& to,
                                   const ReshardReason& reason);
  ir::Instruction* planned_reshard(const Value& from, const TensorSharding& to,
                                   const ReshardReason& reason);
  Value* add_materialization(Value* v, ir::Instruction* local, const TensorSharding& layout);

  ModulePartitioner& module_;
  const SourceComputation& source_;
  ShardBuilder& emit_;
  ReshardEmitter& reshards_;
  std::deque<Value> storage_;
  /// By index in the source computation: whether it is defined, and its leaves.
  std::vector<std::pair<bool, std::vector<Value*>>> values_;
};

/// "operand 1 of dot"
std::string operand_reason(const ir::Instruction& source, std::size_t i);

}  // namespace tessera::spmd
