// SPDX-License-Identifier: Apache-2.0
// What all op families of the partitioner share: values in their layouts, and the emission of the
// device program of one computation.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/base/contains.h"
#include "src/ir/module.h"
#include "src/ir/rewrite/builder.h"
#include "src/spmd/factor_rule.h"
#include "src/spmd/partitioner/layout/layout_search.h"
#include "src/spmd/partitioner/partition.h"
#include "src/spmd/partitioner/row_exchange.h"
#include "src/spmd/reshard/planner.h"

namespace tessera::spmd {

/// One array of the source program as the device program holds it. Shards of uneven dims are padded
/// at the end to ceil(dim / ways); what the padding holds is unknown unless it was masked.
struct Value {
  ir::Instruction* local = nullptr;
  TensorSharding sharding;                  ///< closed, on the module's mesh
  Shape shape;                              ///< global
  ir::Opcode partial_op = ir::Opcode::add;  ///< joins the partial values of unreduced axes
  const ir::Instruction* origin = nullptr;  ///< in the source program
  Value* original = nullptr;                ///< first form of the same array
  std::vector<Value*> materializations;     ///< of home: the array in all layouts made so far
  std::map<std::string, ir::Instruction*> masked;  ///< by dims and neutral element
  /// Of home: makes it in any layout without communication (constants, iotas, broadcast scalars).
  std::function<ir::Instruction*(const TensorSharding&)> recompute;
};

/// Why data moves, for the report.
struct Transfer {
  std::string from, to, reason;
  bool full_gather = false;
  const Value* source = nullptr;  ///< what is resharded; null: an op moves something of its own
  const TensorSharding* target = nullptr;
};

class ComputationPartitioner;

/// The module as a whole: computations done so far, the report.
class ModulePartitioner {
 public:
  ModulePartitioner(const ir::Module& source, const PartitionOptions& options,
                    PartitionReport* report);
  std::unique_ptr<ir::Module> run();

  const ir::Module& source() const { return source_; }
  ir::Module* target() { return target_.get(); }
  const MeshRef& mesh() const { return mesh_; }
  std::int64_t devices() const { return devices_; }
  const PartitionOptions& options() const { return options_; }
  const CostModel& cost() const { return options_.cost; }

  /// The device program of a computation that is called once per device (body, branch, callee).
  ir::Computation* partitioned(const ir::Computation& source);
  /// A computation taken over as it is (reducer, comparator).
  ir::Computation* imported(const ir::Computation& source);
  /// Shardings of the leaves of an instruction of the source module. Stays where it is.
  const std::vector<TensorSharding>& shardings_of(const ir::Instruction& instruction) const;
  /// On the module's mesh; a sharding on another order of the devices is replaced by its stand-in
  /// (reshard/device_orders.h), which a permute leads to.
  TensorSharding normal(const TensorSharding& sharding, std::int64_t rank) const;
  /// Axes that are manual in a computation.
  const IndexList& manual_axes(const ir::Computation& source) const;
  /// How often a loop's body runs; 1 if that isn't known, and for all others.
  std::int64_t trips_of(const ir::Computation& source) const;

  void record(CommunicationRecord record, ir::Instruction* instruction);
  void replicated_op(const std::string& line);

 private:
  /// What shardings on another mesh are on this one.
  struct MeshView {
    MeshRef mesh;
    bool representable = false;     ///< as representable_on (reshard/device_orders.h)
    std::vector<IndexList> pieces;  ///< by axis of `mesh`: axes of this module's
  };
  const MeshView& view_of(const MeshRef& mesh) const;
  void finish_report();
  void find_manual_axes();
  void find_trip_counts();

  const ir::Module& source_;
  PartitionOptions options_;
  PartitionReport* report_;
  std::unique_ptr<ir::Module> target_;
  MeshRef mesh_;
  std::int64_t devices_ = 1;
  std::unordered_map<const ir::Computation*, ir::Computation*> partitioned_, imported_;
  std::unordered_map<const ir::Computation*, IndexList> manual_;
  std::unordered_map<const ir::Computation*, std::int64_t> trips_;  ///< of loops' bodies
  /// By computation, then by instruction; empty: not asked for yet.
  mutable std::unordered_map<const ir::Computation*, std::vector<std::vector<TensorSharding>>>
      shardings_;
  mutable std::deque<MeshView> views_;
  std::vector<CommunicationRecord> records_;  ///< of all that was put in
};

using Handler = void (*)(ComputationPartitioner&, const ir::Instruction&);

/// One computation. Handlers of op families use the members below; they are free functions, see
/// families.h.
class ComputationPartitioner {
 public:
  ComputationPartitioner(ModulePartitioner& module, const ir::Computation& source,
                         ir::Computation* target);
  void run(bool is_entry);

  ModulePartitioner& module() { return module_; }
  ir::Builder& b() { return builder_; }
  const MeshRef& mesh() const { return module_.mesh(); }
  const CostModel& cost() const { return module_.cost(); }

  // ----- values of the source program
  /// Leaves of an instruction, in the layouts that propagation declared.
  std::vector<Value*> leaves(const ir::Instruction& source);
  /// Leaves as they were computed.
  const std::vector<Value*>& raw_leaves(const ir::Instruction& source) const;
  /// An array in its declared layout.
  Value* value(const ir::Instruction& source);
  /// An array as it was computed; it may hold partial sums still.
  Value* raw(const ir::Instruction& source);
  /// Declared shardings of the leaves; whole if nothing was declared. What only a constraint uses
  /// is wanted as the constraint says.
  const std::vector<TensorSharding>& declared(const ir::Instruction& source) const;
  const TensorSharding& declared_array(const ir::Instruction& source) const {
    return declared(source).front();
  }
  /// Declared, but for leaves that nobody uses: those may lie as another one does.
  std::vector<TensorSharding> wanted(const ir::Instruction& source) const;
  /// In any layouts: they are brought to the declared ones when somebody needs them so.
  void define(const ir::Instruction& source, std::vector<Value*> leaves);
  void define(const ir::Instruction& source, Value* v) { define(source, std::vector{v}); }
  Value* make(ir::Instruction* local, TensorSharding sharding, const Shape& global);
  /// A value that can be made anew in any layout.
  Value* make_recomputable(std::function<ir::Instruction*(const TensorSharding&)> recompute,
                           const TensorSharding& sharding, const Shape& global);
  /// Users of a source instruction, each once.
  std::size_t user_count(const ir::Instruction& source) const;
  std::span<ir::Instruction* const> users(const ir::Instruction& source) const {
    return users_[std::size_t(source.index)];
  }
  bool is_defined(const ir::Instruction& source) const { return defined(source) != nullptr; }

  // ----- layouts
  Value* reshard(Value* v, const TensorSharding& to, const std::string& reason);
  /// The price of bringing a value there from its cheapest form.
  double reshard_price(Value* v, const TensorSharding& to) const;
  TensorSharding whole(std::int64_t rank) const {
    TensorSharding s = TensorSharding::replicated_on(mesh(), rank);
    s.manual = manual_axes();
    return s;
  }
  /// Axes along which this computation is written per device.
  const IndexList& manual_axes() const { return module_.manual_axes(source_); }
  /// A shard by `from` as the shard by `to`, where one of both is the other's stand-in.
  ir::Instruction* reordered(ir::Instruction* local, const TensorSharding& from,
                             const TensorSharding& to, const std::string& reason);
  /// A collective-permute (source, target), joined with the one that made `x`, if one did.
  ir::Instruction* permuted(ir::Instruction* x,
                            std::vector<std::pair<std::int64_t, std::int64_t>> pairs);
  /// The local array with the padding of these dims set to `neutral` (a scalar).
  ir::Instruction* masked(Value* v, const Dims& dims, ir::Instruction* neutral);
  /// Product of the sizes of axes.
  std::int64_t ways(const IndexList& axes) const;

  // ----- per-device arithmetic, all s32[]
  ir::Instruction* index(std::int64_t v);
  /// Row-major position of the device along axes.
  ir::Instruction* coordinate(const IndexList& axes);
  /// table[coordinate(axes)]
  ir::Instruction* lookup(const Dims& table, const IndexList& axes);
  /// First global index of the device's shard of a dim.
  ir::Instruction* shard_offset(const TensorSharding& s, std::int64_t dim, std::int64_t size);
  ir::Instruction* constant_scalar(DType dtype, double v);
  /// pred[dims]: lo <= index along `dim` < hi. A null bound doesn't bind.
  ir::Instruction* range_mask(const Dims& dims, std::int64_t dim, ir::Instruction* lo,
                              ir::Instruction* hi);
  /// Pads at the end of a dim (with zeros), or cuts there.
  ir::Instruction* resized(ir::Instruction* x, std::int64_t dim, std::int64_t size);
  ir::Instruction* dynamic_slice_dim(ir::Instruction* x, std::int64_t dim, ir::Instruction* start,
                                     std::int64_t size);
  /// Moves rows along `dim` among the devices of `axes` (row_exchange.h). `fill`: a scalar for rows
  /// that no part covers, null where those don't matter.
  ir::Instruction* emit_row_exchange(const RowExchangePlan& plan,
                                     const std::vector<ir::Instruction*>& arrays, std::int64_t dim,
                                     const IndexList& axes, ir::Instruction* fill,
                                     const Shape& global);
  /// The same where the destination is several arrays, so many rows of each in a device's block.
  std::vector<ir::Instruction*> emit_row_exchanges(const RowExchangePlan& plan,
                                                   const std::vector<ir::Instruction*>& arrays,
                                                   std::int64_t dim, const IndexList& axes,
                                                   ir::Instruction* fill, const Dims& blocks);

  // ----- emission of one source instruction
  const ir::Instruction& current() const { return *current_; }
  /// The op of the current instruction on local operands, attributes made local by the caller.
  ir::Instruction* emit_local(const ir::Instruction& source, std::vector<ir::Instruction*> operands,
                              const Shape& local_shape, ir::Attributes attrs);
  ir::Instruction* emit_local(const ir::Instruction& source, std::vector<ir::Instruction*> operands,
                              const Shape& local_shape) {
    return emit_local(source, std::move(operands), local_shape, source.attrs);
  }
  std::vector<ir::Computation*> import_called(const ir::Instruction& source);
  /// The cheapest layout by a rule (which the caller may have restricted).
  ComputeLayout layout_for(const ir::Instruction& source, const FactorRule& rule);
  /// Whether some op can only be computed from the whole array, among others that use it: it will
  /// be gathered, and every other form of it is then for nothing (needed_whole.cc).
  bool needed_whole(const Value* v) const;
  /// What a byte of each operand counts that is moved for this op: less for what stays the same
  /// while the loop around runs, as it moves once (steady.cc). Empty: 1.
  std::vector<double> operand_shares(const ir::Instruction& source);
  /// An operand as computed, if nobody else uses it; else in its declared layout.
  Value* operand_value(const ir::Instruction& operand);
  /// An operand as computed (partial sums allowed), brought to a layout.
  Value* operand_in(const ir::Instruction& source, std::size_t i, const TensorSharding& layout);
  /// Operands as computed (partial sums allowed), brought to a layout.
  std::vector<Value*> operands_in(const ir::Instruction& source,
                                  const std::vector<TensorSharding>& layout);
  /// Operands gathered, the op computed whole on each device.
  void replicate(const ir::Instruction& source, const std::string& reason);
  /// An operand gathered whole since the op needs it so: in the report a full gather, or an error
  /// if the options say so. Returns the bytes that a device receives.
  double gathered(const ir::Instruction& source, std::size_t i, Value* v, const std::string& reason,
                  ir::Instruction** local);
  /// Another sharding of an array, worth trying for the bytes that move as it is.
  void suggest(const ir::Instruction& array, const TensorSharding& s, double bytes);
  std::string operand_reason(const ir::Instruction& source, std::size_t i) const;
  /// Local shape of a global one.
  Shape local_shape(const Shape& global, const TensorSharding& s) const;
  /// Leaves of a device program's tuple and back.
  std::vector<ir::Instruction*> unpack(ir::Instruction* local);
  ir::Instruction* pack(const Shape& shape, const std::vector<ir::Instruction*>& leaves);
  /// A tuple shape with local leaves.
  Shape local_tuple(const Shape& shape, const std::vector<TensorSharding>& s) const;
  /// Reports a collective that was emitted for `transfer`.
  void note(ir::Instruction* collective);
  /// The same of one of several that make one transfer: `bytes` is its share of what is received.
  void note(ir::Instruction* collective, double bytes);
  Transfer transfer;

 private:
  /// Leaves as they were computed; null if they were not, or not here.
  const std::vector<Value*>* defined(const ir::Instruction& source) const {
    if (source.parent != &source_) return nullptr;
    const auto& [done, leaves] = values_[std::size_t(source.index)];
    return done ? &leaves : nullptr;
  }
  /// The form of an array that lies so already, if there is one.
  Value* materialized_in(Value* v, const TensorSharding& layout) const;
  Value* as_declared(Value* v, const TensorSharding& layout);
  ir::Instruction* position();
  /// The rows of one move where they arrive. `share`: of their bytes, for the report.
  ir::Instruction* moved_rows(const RowPermute& move, const std::vector<ir::Instruction*>& arrays,
                              std::int64_t dim, const IndexList& axes, double share);
  /// Puts the rows of all moves in their places.
  ir::Instruction* placed_rows(const RowExchangePlan& plan, std::vector<ir::Instruction*> moved,
                               std::int64_t dim, const IndexList& axes, ir::Instruction* fill,
                               const Shape& shape);
  /// The same by shifting each and masking.
  ir::Instruction* shifted_rows(const RowExchangePlan& plan,
                                const std::vector<ir::Instruction*>& moved, std::int64_t dim,
                                const IndexList& axes, ir::Instruction* fill, const Dims& out);
  ir::Instruction* apply(const ReshardStep& step, ir::Instruction* x, const TensorSharding& before,
                         const Dims& padded, const Shape& global, ir::Opcode partial_op);
  /// Slices of several dims in a row, as one. Returns how many; none if there is but one.
  std::size_t emit_slices(const ReshardPlan& plan, std::size_t first, ir::Instruction** x,
                          const TensorSharding& before, const Dims& padded);
  /// All-to-alls in a row that don't touch each other's dims, as one. Returns how many; none if
  /// there is but one.
  std::size_t emit_exchanges(const ReshardPlan& plan, std::size_t first, ir::Instruction** x,
                             const TensorSharding& before, const Dims& global);
  ir::Instruction* reblock(ir::Instruction* x, std::int64_t dim, std::int64_t size,
                           const IndexList& axes, std::int64_t from_block, std::int64_t to_block,
                           const Shape& global);
  ir::Instruction* all_to_all(const ReshardStep& step, ir::Instruction* x,
                              const TensorSharding& before, const Dims& padded,
                              const Shape& global);
  ir::Instruction* pack(const Shape& shape, const std::vector<ir::Instruction*>& leaves,
                        std::size_t* next);
  Value* cheapest_materialization(Value* v, const TensorSharding& to, double* price) const;
  /// Whether an op needs it so, or what shows it through so many views (needed_whole.cc).
  bool needs_whole(const ir::Instruction& array, int views) const;
  // What is worth trying where data moves (alternatives.cc).
  void suggest_ends(Value* v, const TensorSharding& from, const TensorSharding& to, double bytes);
  void suggest_results(const ir::Instruction& source, const FactorRule& rule,
                       const std::vector<TensorSharding>& operands, const ComputeLayout& layout);

  ModulePartitioner& module_;
  const ir::Computation& source_;
  ir::Builder builder_;
  const ir::Instruction* current_ = nullptr;
  std::deque<Value> storage_;
  // By index in the source computation, which doesn't change.
  std::vector<ir::UserList> users_;
  std::vector<std::pair<bool, std::vector<Value*>>> values_;
  mutable std::vector<const std::vector<TensorSharding>*> declared_;
  mutable std::deque<std::vector<TensorSharding>> result_layouts_;
  std::unordered_map<const ir::Instruction*, const ir::Instruction*> constraint_of_;
  /// What is only returned: which leaf of the root it is.
  std::unordered_map<const ir::Instruction*, std::size_t> result_of_;
  mutable std::unordered_map<const ir::Instruction*, bool> needed_whole_;  ///< by array
  std::vector<char> steady_;  ///< by index in the source computation; empty: not asked for yet
  ir::Instruction* position_ = nullptr;
  std::map<std::int64_t, ir::Instruction*> indices_;
  std::map<IndexList, ir::Instruction*> coordinates_;
  std::map<std::pair<Dims, IndexList>, ir::Instruction*> lookups_;
  std::map<std::pair<int, double>, ir::Instruction*> scalars_;
};

/// Same axes on the same dims and the same unreduced axes, but for axes of size 1.
bool same_layout(const TensorSharding& a, const TensorSharding& b);
/// Some dim of the array is split unevenly.
bool uneven(const TensorSharding& s, const Dims& global);
/// The sharding without axes on these dims.
TensorSharding without_dims(TensorSharding s, const Dims& dims);
/// Without partial sums.
TensorSharding reduced(TensorSharding s);
/// Axes of `s` on any dim.
IndexList used_axes(const TensorSharding& s);
/// Whether what the op computes takes all of its k-th operand: a matrix that is decomposed.
bool needs_whole_operand(const ir::Instruction& op, std::size_t k);
/// Bytes of a local array.
double byte_count(const ir::Instruction* x);
/// "dot (model.cc:12)"
std::string op_label(const ir::Instruction& source);

}  // namespace tessera::spmd
