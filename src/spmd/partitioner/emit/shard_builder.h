// SPDX-License-Identifier: Apache-2.0
// Instructions of one device's program: what depends on which device it is, and ops on shards.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/ir/module.h"
#include "src/ir/rewrite/builder.h"
#include "src/sharding/axes/tensor_sharding.h"
#include "src/spmd/bits.h"
#include "src/spmd/reshard/by_coordinate.h"

namespace tessera::spmd {

/// Computations that the device program takes over as they are (reducers, comparators), each once.
class ImportedComputations {
 public:
  explicit ImportedComputations(ir::Module* target) : target_(target) {}
  ir::Computation* of(const ir::Computation& source);

 private:
  ir::Module* target_;
  std::unordered_map<const ir::Computation*, ir::Computation*> imported_;
};

/// Builds one computation of the device program. Index arithmetic is all s32[], made once, and
/// carries no metadata: several ops share it.
class ShardBuilder {
 public:
  ShardBuilder(ir::Computation* target, MeshRef mesh, ImportedComputations& imported)
      : builder_(target),
        mesh_(std::move(mesh)),
        devices_(mesh_->num_devices()),
        imported_(imported) {}
  ShardBuilder(const ShardBuilder&) = delete;
  ShardBuilder& operator=(const ShardBuilder&) = delete;

  ir::Builder& b() { return builder_; }
  const MeshRef& mesh() const { return mesh_; }
  std::int64_t devices() const { return devices_; }

  // ----- for which op of the source program
  /// While it lives, what is emitted is for this op.
  class [[nodiscard]] OpScope {
   public:
    OpScope(ShardBuilder& emit, const ir::Instruction& op);
    ~OpScope();
    OpScope(const OpScope&) = delete;
    OpScope& operator=(const OpScope&) = delete;

   private:
    ShardBuilder& emit_;
    const ir::Instruction* outer_;
    Cow<ir::Metadata> metadata_;
  };
  /// Null outside of any scope.
  const ir::Instruction* current() const { return current_; }

  // ----- which device
  ir::Instruction* index(std::int64_t v);
  /// Product of the sizes of axes.
  std::int64_t ways(const IndexList& axes) const;
  /// Row-major position of the device along axes.
  ir::Instruction* coordinate(const IndexList& axes);
  /// table[coordinate(axes)]
  ir::Instruction* lookup(const ByCoordinate& table, const IndexList& axes);
  /// First global index of the device's shard of a dim.
  ir::Instruction* shard_offset(const TensorSharding& s, std::int64_t dim, std::int64_t size);
  /// The pairs of a permute by which each device sends to the one that stands at `target[c]` along
  /// the axes, itself at c; -1: it sends nothing.
  const DevicePairs& pairs_along(const IndexList& axes, const ByCoordinate& target);
  ir::DeviceGroups groups(const IndexList& axes) const {
    return ir::DeviceGroups::over(mesh_, axes);
  }

  // ----- masks, pads and slices
  ir::Instruction* constant_scalar(DType dtype, double v);
  /// What all copies of a constant of the propagated program share, which are in different layouts.
  ir::Instruction* constant_of(const ir::Instruction& origin, const Literal& value);
  /// pred[dims]: lo <= index along `dim` < hi. A null bound doesn't bind.
  ir::Instruction* range_mask(const Dims& dims, std::int64_t dim, ir::Instruction* lo,
                              ir::Instruction* hi);
  /// A shard of an array of `global` dims, with the padding of these dims set to `neutral` (a
  /// scalar).
  ir::Instruction* mask_padding(ir::Instruction* shard, const TensorSharding& s, const Dims& global,
                                const Dims& dims, ir::Instruction* neutral);
  /// Pads at the end of a dim (with zeros), or cuts there.
  /// Rows [from, to) of a dim.
  ir::Instruction* slice_dim(ir::Instruction* x, std::int64_t dim, std::int64_t from,
                             std::int64_t to);
  ir::Instruction* pad_dim(ir::Instruction* x, std::int64_t dim, const ir::PadDim& by,
                           ir::Instruction* fill);
  ir::Instruction* resized(ir::Instruction* x, std::int64_t dim, std::int64_t size);
  ir::Instruction* dynamic_slice_dim(ir::Instruction* x, std::int64_t dim, ir::Instruction* start,
                                     std::int64_t size);

  // ----- ops of the source program on shards
  /// The op on local operands, attributes made local by the caller.
  ir::Instruction* local_op(const ir::Instruction& source, std::vector<ir::Instruction*> operands,
                            const Shape& shape, ir::Attributes attrs);
  ir::Instruction* local_op(const ir::Instruction& source, std::vector<ir::Instruction*> operands,
                            const Shape& shape) {
    return local_op(source, std::move(operands), shape, source.attrs);
  }
  std::vector<ir::Computation*> import_called(const ir::Instruction& source);
  /// Leaves of a tuple and back.
  std::vector<ir::Instruction*> unpack(ir::Instruction* local);
  ir::Instruction* pack(const Shape& shape, const std::vector<ir::Instruction*>& leaves);

 private:
  ir::Instruction* position();
  ir::Instruction* on_line(const ByCoordinate::Piece& piece, ir::Instruction* coordinate);
  ir::Instruction* pack(const Shape& shape, const std::vector<ir::Instruction*>& leaves,
                        std::size_t* next);

  ir::Builder builder_;
  MeshRef mesh_;
  std::int64_t devices_;
  ImportedComputations& imported_;
  const ir::Instruction* current_ = nullptr;
  ir::Instruction* position_ = nullptr;
  std::map<std::int64_t, ir::Instruction*> indices_;
  std::map<IndexList, ir::Instruction*> coordinates_;
  std::map<std::pair<ByCoordinate, IndexList>, ir::Instruction*> lookups_;
  std::map<std::pair<Dims, ByCoordinate>, DevicePairs> pairs_;  ///< by axes and targets
  std::map<std::pair<int, double>, ir::Instruction*> scalars_;
  std::unordered_map<const ir::Instruction*, ir::Instruction*> constants_;
};

/// Layouts worth a look for an op that changes some dims: those of its ends, also with the axes of
/// these dims on another dim, or dropped.
std::vector<TensorSharding> layouts_to_try(const ShardBuilder& emit, const Dims& global,
                                           const Dims& changed,
                                           const std::vector<TensorSharding>& ends);
/// Shape of a shard.
Shape local_shape(const Shape& global, const TensorSharding& s);
/// A tuple shape with local leaves.
Shape local_tuple(const Shape& shape, const std::vector<TensorSharding>& s);

}  // namespace tessera::spmd
