// SPDX-License-Identifier: Apache-2.0
// BatchSite: one op that is to be computed for a batch, and what its rule makes it of.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/base/check.h"
#include "src/transforms/batching/batcher.h"

namespace tessera::transforms::batching {

/// An op of the source, its operands on the batch, and where to append what computes it. At least
/// one leaf of an operand is batched, unless the op only puts values together.
class BatchSite {
 public:
  BatchSite(const ir::Instruction& source, const std::vector<const Batched*>& operands,
            ir::Builder& builder, Batcher& context)
      : op(source), b(builder), batcher(context), operands_(operands) {}

  const ir::Instruction& op;
  ir::Builder& b;
  Batcher& batcher;

  std::int64_t size() const { return batcher.size(); }
  std::size_t operand_count() const { return operands_.size(); }
  const Batched& operand(std::size_t i) const { return *operands_[i]; }
  bool batched(std::size_t i) const { return operand(i).batched(); }
  /// Any of operands [first, last).
  bool batched(std::size_t first, std::size_t last) const;
  std::int64_t dim(std::size_t i) const { return operand(i).dim; }
  ir::Instruction* array(std::size_t i) const { return operand(i).array; }
  const Shape& entry_shape(std::size_t i) const { return op.operand(i)->shape; }
  /// All leaves of all operands.
  std::vector<Batched> operand_leaves() const;
  /// On which dims these are batched.
  Dims operand_dims() const;
  /// An instruction for each operand, as it is batched.
  std::vector<ir::Instruction*> packed_operands();

  /// An operand with the batch on that dim.
  ir::Instruction* at(std::size_t i, std::int64_t dim) { return batcher.at(b, operand(i), dim); }
  ir::Instruction* at(const Batched& array, std::int64_t dim) { return batcher.at(b, array, dim); }
  /// The dim on which most of operands [first, last) are batched; 0 if none is.
  std::int64_t common_dim(std::size_t first, std::size_t last) const;
  std::int64_t common_dim() const { return common_dim(0, operand_count()); }
  /// A number per entry, all along the other dims of that shape.
  ir::Instruction* spread(ir::Instruction* per_entry, const Dims& dims, std::int64_t batch);

  /// The op itself on other operands; results are batched on `dims`, one per leaf. ShapeError if it
  /// isn't so.
  Batched emit(std::vector<ir::Instruction*> operands, ir::Attributes attrs,
               std::span<const std::int64_t> dims);
  /// All results on one dim.
  Batched emit(std::vector<ir::Instruction*> operands, ir::Attributes attrs, std::int64_t dim);
  Batched emit(std::vector<ir::Instruction*> operands, std::int64_t dim) {
    return emit(std::move(operands), op.attrs, dim);
  }
  /// The op itself with other callees and that shape.
  ir::Instruction* emit_calling(const Shape& shape, std::vector<ir::Instruction*> operands,
                                ir::Attributes attrs, std::vector<ir::Computation*> called);

  /// NotImplementedError if the called computation does more than compute: entries that don't run
  /// it would have it done, too.
  void refuse_side_effects(std::size_t callee) const;
  [[noreturn]] void not_implemented(const std::string& why) const;

 private:
  const std::vector<const Batched*>& operands_;
};

/// The op on one entry after the other, by a scan: for what has no form on a batch.
Batched loop_over_entries(BatchSite& site);

// The rules that the op table names.
#define OP(enumerator, text, operands, attributes, types, shape, factors, evaluate, traits, \
           linear, work, calls, dialect, jvp, transpose, batch)                             \
  Batched batch(BatchSite& site);
#include "src/ir/opcode_list.inc"

/// The rule of the site's opcode.
Batched batch_op(BatchSite& site);

}  // namespace tessera::transforms::batching
