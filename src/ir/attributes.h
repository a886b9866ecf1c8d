// SPDX-License-Identifier: Apache-2.0
// The attributes of instructions: one struct per kind of opcode.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "src/base/arrays/literal.h"
#include "src/base/arrays/memory_kind.h"
#include "src/base/cow.h"
#include "src/base/small_vector.h"
#include "src/sharding/axes/device_pairs.h"
#include "src/sharding/axes/logical_mesh.h"
#include "src/sharding/axes/tensor_sharding.h"

namespace tessera::ir {

class BackwardRule;
class CustomPartitioner;  // hooks.h
class BatchingRule;       // hooks.h
class DerivativeRules;    // hooks.h
class HostCallback;       // hooks.h

/// In the op table: there are none that anybody computes with (text may be kept, as TextAttrs).
struct NoAttrs {};

// Attributes that are written `key=value`, a key for each field, say so by `fields`, which visits
// them in the order of the text: v(key, field), v.always(key, flag) for a flag that is also written
// where it is false, v.optional(key, list) for one that may be missing. Text is read and written by
// that alone.

struct ParameterAttrs {
  std::int64_t number = 0;
  friend bool operator==(const ParameterAttrs&, const ParameterAttrs&) = default;
};
struct ConstantAttrs {
  Literal value;
  bool elided = false;  ///< read from text as {...}: the value is not known
  friend bool operator==(const ConstantAttrs&, const ConstantAttrs&) = default;
};
/// broadcast (operand dim i → result dim dims[i]), transpose (result dim i = operand dim dims[i]),
/// reverse, reduce, map; concatenate has one.
struct DimensionsAttrs {
  Dims dims;
  friend bool operator==(const DimensionsAttrs&, const DimensionsAttrs&) = default;
};
struct IotaAttrs {
  std::int64_t dim = 0;
  template <class Attrs, class Visitor>
  static void fields(Attrs& a, Visitor& v) {
    v("iota_dimension", a.dim);
  }
  friend bool operator==(const IotaAttrs&, const IotaAttrs&) = default;
};
struct SortAttrs {
  std::int64_t dim = 0;
  bool is_stable = false;
  friend bool operator==(const SortAttrs&, const SortAttrs&) = default;
};
enum class Direction : std::uint8_t { eq, ne, lt, le, gt, ge };
enum class ComparisonType : std::uint8_t { by_dtype, float_, total_order, signed_, unsigned_ };
struct CompareAttrs {
  Direction direction = Direction::eq;
  ComparisonType type = ComparisonType::by_dtype;  ///< by_dtype: the default of the element type
  friend bool operator==(const CompareAttrs&, const CompareAttrs&) = default;
};
struct SliceAttrs {
  Dims starts, limits, strides;
  friend bool operator==(const SliceAttrs&, const SliceAttrs&) = default;
};
struct DynamicSliceAttrs {
  Dims sizes;
  template <class Attrs, class Visitor>
  static void fields(Attrs& a, Visitor& v) {
    v("dynamic_slice_sizes", a.sizes);
  }
  friend bool operator==(const DynamicSliceAttrs&, const DynamicSliceAttrs&) = default;
};
struct PadDim {
  std::int64_t low = 0, high = 0, interior = 0;
  friend bool operator==(const PadDim&, const PadDim&) = default;
};
struct PadAttrs {
  std::vector<PadDim> dims;
  friend bool operator==(const PadAttrs&, const PadAttrs&) = default;
};
struct DotAttrs {
  Dims lhs_contracting, rhs_contracting, lhs_batch, rhs_batch;
  std::vector<std::string> operand_precision;  ///< "default", "high", "highest"; empty = default
  std::string algorithm;
  friend bool operator==(const DotAttrs&, const DotAttrs&) = default;
};
struct WindowDim {
  std::int64_t size = 1, stride = 1, pad_low = 0, pad_high = 0, lhs_dilation = 1, rhs_dilation = 1;
  bool reversal = false;
  friend bool operator==(const WindowDim&, const WindowDim&) = default;
};
/// reduce-window, select-and-scatter (called: select, scatter).
struct WindowAttrs {
  std::vector<WindowDim> dims;
  friend bool operator==(const WindowAttrs&, const WindowAttrs&) = default;
};
struct ConvolutionAttrs {
  std::vector<WindowDim> window;
  std::int64_t input_batch = 0, input_feature = 1, kernel_input_feature = 0,
               kernel_output_feature = 1, output_batch = 0, output_feature = 1;
  Dims input_spatial, kernel_spatial, output_spatial;
  std::int64_t feature_group_count = 1, batch_group_count = 1;
  std::vector<std::string> operand_precision;
  friend bool operator==(const ConvolutionAttrs&, const ConvolutionAttrs&) = default;
};
struct GatherAttrs {
  Dims offset_dims, collapsed_slice_dims, start_index_map, slice_sizes, operand_batching_dims,
      start_indices_batching_dims;
  std::int64_t index_vector_dim = 0;
  bool indices_are_sorted = false;
  template <class Attrs, class Visitor>
  static void fields(Attrs& a, Visitor& v) {
    v("offset_dims", a.offset_dims);
    v("collapsed_slice_dims", a.collapsed_slice_dims);
    v("start_index_map", a.start_index_map);
    v.optional("operand_batching_dims", a.operand_batching_dims);
    v.optional("start_indices_batching_dims", a.start_indices_batching_dims);
    v("index_vector_dim", a.index_vector_dim);
    v("slice_sizes", a.slice_sizes);
    v("indices_are_sorted", a.indices_are_sorted);
  }
  friend bool operator==(const GatherAttrs&, const GatherAttrs&) = default;
};
struct ScatterAttrs {
  Dims update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims, input_batching_dims,
      scatter_indices_batching_dims;
  std::int64_t index_vector_dim = 0;
  bool indices_are_sorted = false, unique_indices = false;
  template <class Attrs, class Visitor>
  static void fields(Attrs& a, Visitor& v) {
    v("update_window_dims", a.update_window_dims);
    v("inserted_window_dims", a.inserted_window_dims);
    v("scatter_dims_to_operand_dims", a.scatter_dims_to_operand_dims);
    v.optional("input_batching_dims", a.input_batching_dims);
    v.optional("scatter_indices_batching_dims", a.scatter_indices_batching_dims);
    v("index_vector_dim", a.index_vector_dim);
    v("indices_are_sorted", a.indices_are_sorted);
    v("unique_indices", a.unique_indices);
  }
  friend bool operator==(const ScatterAttrs&, const ScatterAttrs&) = default;
};
enum class FftType : std::uint8_t { fft, ifft, rfft, irfft };
inline bool is_inverse(FftType type) { return type == FftType::ifft || type == FftType::irfft; }
struct FftAttrs {
  FftType type = FftType::fft;
  Dims lengths;
  friend bool operator==(const FftAttrs&, const FftAttrs&) = default;
};
struct GetTupleElementAttrs {
  std::int64_t index = 0;
  template <class Attrs, class Visitor>
  static void fields(Attrs& a, Visitor& v) {
    v("index", a.index);
  }
  friend bool operator==(const GetTupleElementAttrs&, const GetTupleElementAttrs&) = default;
};

/// The axis of a batch by the name that a vmap gave it; none if the name is empty. Collectives over
/// it are between the entries of the batch, not devices: batching computes them, nothing else does.
struct BatchAxis {
  std::string name;
  std::int64_t size = 0;
  explicit operator bool() const { return !name.empty(); }
  friend bool operator==(const BatchAxis&, const BatchAxis&) = default;
};
/// The devices that take part in one collective together. Symbolic (mesh and axes; text and time
/// don't grow with the devices) or explicit lists of partition ids; neither: all devices.
/// Members of a symbolic group are ordered row-major over `axes` as listed.
struct DeviceGroups {
  MeshRef mesh;
  IndexList axes;
  std::vector<std::vector<std::int64_t>> lists;
  BatchAxis batch;  ///< its entries, instead of devices

  static DeviceGroups over(MeshRef mesh, IndexList axes);
  bool symbolic() const { return mesh != nullptr; }
  /// Lists of partition ids.
  std::vector<std::vector<std::int64_t>> expand(std::int64_t num_partitions) const;
  std::int64_t group_size(std::int64_t num_partitions) const;
  friend bool operator==(const DeviceGroups&, const DeviceGroups&) = default;
};
/// all-gather (dims = {gather dim}), all-reduce, reduce-scatter (dims = {scatter dim}), all-to-all
/// (dims = {split dim}, array form; empty: tuple form), collective-broadcast.
struct CollectiveAttrs {
  DeviceGroups groups;
  Dims dims;
  std::optional<std::int64_t> channel_id;
  bool use_global_device_ids = false;
  bool constrain_layout = false;
  friend bool operator==(const CollectiveAttrs&, const CollectiveAttrs&) = default;
};
struct PermuteAttrs {
  DevicePairs source_target_pairs;
  std::optional<std::int64_t> channel_id;
  BatchAxis batch;  ///< the pairs name its entries, instead of devices
  friend bool operator==(const PermuteAttrs&, const PermuteAttrs&) = default;
};
/// What custom calls have besides their target, and ops that are printed as custom calls.
struct CallAttrs {
  bool has_side_effect = false;  ///< kept though nobody uses it
  std::string api_version;       ///< "API_VERSION_TYPED_FFI", ...; empty = not printed
  /// Attributes kept as text, in order: operand_layout_constraints, ...
  std::vector<std::pair<std::string, std::string>> other;
  friend bool operator==(const CallAttrs&, const CallAttrs&) = default;
};
struct CustomCallAttrs : CallAttrs {
  std::string target;
  /// Of what stands for the tangent of a custom_vjp: its backward rule, if that asks which
  /// cotangents are zero.
  std::shared_ptr<BackwardRule> backward = nullptr;
  /// For targets that call the host; null where it was read from text, which can't say it.
  std::shared_ptr<const HostCallback> host = nullptr;
  friend bool operator==(const CustomCallAttrs&, const CustomCallAttrs&) = default;
};
/// sharding-constraint: gives its operand and says how it is sharded (InstructionData::sharding).
struct ShardingConstraintAttrs : CallAttrs {
  enum class Kind : std::uint8_t {
    value,    ///< with_sharding_constraint
    result,   ///< what a function returns, as JAX notes it
    reshard,  ///< sdy.reshard: exactly this sharding, of which propagation tells the operand
              ///< nothing
  };
  Kind kind = Kind::value;
  Dims unspecified_dims;  ///< left to propagation
  std::string reason;     ///< of a reshard that the partitioner put in: "operand 1 of dot"
  /// Axes over which cotangents of the value are partial sums; text doesn't say it.
  std::vector<std::string> reduced;
  friend bool operator==(const ShardingConstraintAttrs&, const ShardingConstraintAttrs&) = default;
};
/// propagation-barrier: gives its operand; shardings flow through it in some directions only.
struct PropagationBarrierAttrs : CallAttrs {
  bool forward = false, backward = false;  ///< whether they flow from the operand, to it
  friend bool operator==(const PropagationBarrierAttrs&, const PropagationBarrierAttrs&) = default;
};
/// custom-partitioning (called: its plain body; a text may lack it).
struct CustomPartitioningAttrs : CallAttrs {
  /// Null where it was read from text, which can't say it: then it is a call of its body.
  std::shared_ptr<CustomPartitioner> partitioner;
  friend bool operator==(const CustomPartitioningAttrs&, const CustomPartitioningAttrs&) = default;
};
/// manual-computation (shard_map): code that is written per device along some axes of the mesh.
/// Operands and results are global arrays. called[0] is the body: its parameters and results have
/// the shapes of shards along the manual axes, and are whole along all others. It returns a tuple
/// of the local results, and the op's shape is a tuple of the global ones; a single result may
/// stand without a tuple on both sides. Replica groups and permutes in the body name partition ids
/// of the whole program.
struct ManualComputationAttrs : CallAttrs {
  /// One per operand and per result. On every dim manual axes come before the automatic ones.
  std::vector<TensorSharding> in_shardings, out_shardings;
  MeshRef mesh;           ///< of manual_axes; null: there are none
  IndexList manual_axes;  ///< sorted
  /// How text says the meshes: `@mesh`, as one was read that did, or `mesh<["x"=2]>` in place.
  bool names_mesh = false;
  friend bool operator==(const ManualComputationAttrs& a, const ManualComputationAttrs& b);
};
/// pvary, in code per device: gives its operand, as a value that varies over these mesh axes, too.
/// Its transpose is a sum over them.
struct PvaryAttrs : CallAttrs {
  std::vector<std::string> axes;  ///< names, sorted
  /// Of the axes; null where nothing asks for it. Text doesn't say it, it takes no part in ==, and
  /// derivatives set it: the transpose names the devices that it sums over.
  MeshRef mesh;
  friend bool operator==(const PvaryAttrs& a, const PvaryAttrs& b) {
    return static_cast<const CallAttrs&>(a) == static_cast<const CallAttrs&>(b) && a.axes == b.axes;
  }
};
/// device-placement: a copy of its operand in another kind of memory (JAX's
/// annotate_device_placement).
struct DevicePlacementAttrs : CallAttrs {
  MemoryKind memory = MemoryKind::device;  ///< of the result
  MemoryKind source = MemoryKind::device;  ///< where cotangents go back to
  friend bool operator==(const DevicePlacementAttrs&, const DevicePlacementAttrs&) = default;
};
/// What a remat saves for its derivative; all else is computed again.
struct RematPolicy {
  /// By the names that jax.checkpoint_policies has for them.
  enum class Kind : std::uint8_t {
    everything_saveable,
    dots_saveable,
    dots_with_no_batch_dims_saveable,
    save_only_these_names,
    save_any_names_but_these,
    save_anything_except_these_names,
    offload_dot_with_no_batch_dims,
    save_and_offload_only_these_names,
  };
  Kind kind = Kind::everything_saveable;
  std::vector<std::string> names, offloaded_names;  ///< of values, for the kinds that name some
  std::string from_memory, to_memory;               ///< of what is offloaded
  friend bool operator==(const RematPolicy&, const RematPolicy&) = default;
};
/// remat (called: body): a call that saves little for its derivative (jax.checkpoint).
struct RematAttrs : CallAttrs {
  std::vector<RematPolicy> policies;  ///< what any of them saves is saved; none: nothing is
  /// The values that are computed again must not be joined with those of the first time.
  bool prevent_cse = true;
  bool differentiated = false;  ///< it is what computes them again
  std::string label;            ///< the function's name
  friend bool operator==(const RematAttrs&, const RematAttrs&) = default;
};
/// custom-derivative (called: primal, and the rule): a call of the primal, of which transformations
/// learn the derivative from a rule. Only values of floating-point and complex types have tangents
/// and cotangents, and the first `nondiff` operands have none.
///
///     jvp       (operands..., tangents of operands...) -> (results..., tangents of results...)
///     forward   (operands...) -> (results..., residuals...)
///     backward  (operands without derivative..., residuals..., cotangents of results...) ->
///               (cotangents of the other operands...)
struct CustomDerivativeAttrs : CallAttrs {
  enum class Kind : std::uint8_t {
    jvp,    ///< the rule is jvp
    vjp,    ///< it is forward and backward
    zero,   ///< there is none: all tangents and cotangents are zero (stop_gradient)
    batch,  ///< there is none: it is the primal's, and `batching` says how batches are computed
  };
  Kind kind = Kind::jvp;
  std::int64_t nondiff = 0, residuals = 0;
  /// The rule asks which tangents are known to be zero. So it has no computation of its own.
  bool symbolic_zeros = false;
  std::string label;  ///< the function's name
  /// Traces the rule on demand, if no computations are called for it. Null where it was read from
  /// text.
  std::shared_ptr<DerivativeRules> rules;
  std::shared_ptr<BatchingRule> batching;  ///< for the kind batch; null where it was read from text
  friend bool operator==(const CustomDerivativeAttrs&, const CustomDerivativeAttrs&) = default;
};
struct CholeskyAttrs {
  bool lower = false;
  template <class Attrs, class Visitor>
  static void fields(Attrs& a, Visitor& v) {
    v("lower", a.lower);
  }
  friend bool operator==(const CholeskyAttrs&, const CholeskyAttrs&) = default;
};
struct TriangularSolveAttrs {
  enum class Transpose : std::uint8_t { none, transpose, adjoint };
  bool left_side = false, lower = false, unit_diagonal = false;
  Transpose transpose_a = Transpose::none;
  friend bool operator==(const TriangularSolveAttrs&, const TriangularSolveAttrs&) = default;
};
struct ReducePrecisionAttrs {
  std::int64_t exponent_bits = 8, mantissa_bits = 23;
  template <class Attrs, class Visitor>
  static void fields(Attrs& a, Visitor& v) {
    v("exponent_bits", a.exponent_bits);
    v("mantissa_bits", a.mantissa_bits);
  }
  friend bool operator==(const ReducePrecisionAttrs&, const ReducePrecisionAttrs&) = default;
};
struct RngAttrs {
  std::string kind;  ///< distribution of rng, algorithm of rng-bit-generator
  friend bool operator==(const RngAttrs&, const RngAttrs&) = default;
};
struct BatchNormAttrs {
  float epsilon = 0;
  std::int64_t feature_index = 0;
  template <class Attrs, class Visitor>
  static void fields(Attrs& a, Visitor& v) {
    v("epsilon", a.epsilon);
    v("feature_index", a.feature_index);
  }
  friend bool operator==(const BatchNormAttrs&, const BatchNormAttrs&) = default;
};
struct TopKAttrs {
  std::int64_t k = 0;
  bool largest = true;
  template <class Attrs, class Visitor>
  static void fields(Attrs& a, Visitor& v) {
    v("k", a.k);
    v.always("largest", a.largest);
  }
  friend bool operator==(const TopKAttrs&, const TopKAttrs&) = default;
};
/// while (called: condition, body).
struct WhileAttrs {
  std::optional<std::int64_t> known_trip_count;
  friend bool operator==(const WhileAttrs&, const WhileAttrs&) = default;
};
/// scan (called: step). A loop over slices of arrays, which HLO's scan is one of:
///
///     step(a slice of each input..., carries..., constants...) -> (a slice of each output...,
///                                                                  next carries...)
///     scan(inputs..., carries..., constants...) -> (outputs..., last carries...)
///
/// HLO's has no constants, is not unrolled, and its length is that of its inputs. What it can't say
/// is printed as a custom call (kScanTarget).
struct ScanAttrs {
  std::int64_t dim = 0;  ///< along which inputs are cut and outputs are stacked
  std::int64_t length = 0;
  std::int64_t carries = 0, constants = 0;
  bool reverse = false;             ///< from the last slice to the first
  std::optional<bool> associative;  ///< as the text says; nobody relies on it
  std::int64_t unroll = 1;          ///< steps in one trip of the loop; more than there are: no loop
  friend bool operator==(const ScanAttrs&, const ScanAttrs&) = default;
};
/// Opcodes whose attributes nobody computes with: kept as text, in order.
struct TextAttrs {
  std::vector<std::pair<std::string, std::string>> items;
  friend bool operator==(const TextAttrs&, const TextAttrs&) = default;
};

/// The kinds of attributes that there are.
template <class... Kinds>
struct AttributeKindList {
  /// Counted from 1; 0: not a kind.
  template <class A>
  static constexpr int number() {
    int n = 0, found = 0;
    ((++n, found = std::is_same_v<A, Kinds> ? n : found), ...);
    return found;
  }
};
using AttributeKinds =
    AttributeKindList<ParameterAttrs, ConstantAttrs, DimensionsAttrs, IotaAttrs, SortAttrs,
                      CompareAttrs, SliceAttrs, DynamicSliceAttrs, PadAttrs, DotAttrs, WindowAttrs,
                      ConvolutionAttrs, GatherAttrs, ScatterAttrs, FftAttrs, GetTupleElementAttrs,
                      CollectiveAttrs, PermuteAttrs, CustomCallAttrs, ShardingConstraintAttrs,
                      PropagationBarrierAttrs, CustomPartitioningAttrs, ManualComputationAttrs,
                      PvaryAttrs, DevicePlacementAttrs, RematAttrs, CustomDerivativeAttrs,
                      CholeskyAttrs, TriangularSolveAttrs, ReducePrecisionAttrs, RngAttrs,
                      BatchNormAttrs, TopKAttrs, WhileAttrs, ScanAttrs, TextAttrs>;
template <class A>
inline constexpr int attribute_kind = AttributeKinds::number<A>();
/// Those that are read and written field by field.
template <class A>
concept HasFields = requires {
  &A::template fields<A, int>;
};

/// Kinds with the attributes of a custom call.
template <class A>
concept HasCallAttrs = std::is_base_of_v<CallAttrs, A>;

/// The attributes of an instruction: none, or those of its kind of opcode. Copies share them until
/// one is written to. Not a std::variant: of so many kinds, it would take every source that sees an
/// instruction a third of a second to compile.
class Attributes {
 public:
  Attributes() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): one of the kinds is a value of the whole
  template <class A, int kind = attribute_kind<std::decay_t<A>>,
            class = std::enable_if_t<kind != 0>>
  Attributes(A&& attrs) : node_(new NodeOf<std::decay_t<A>>(kind, std::forward<A>(attrs))) {}
  Attributes(const Attributes& other) noexcept : node_(other.node_) {
    if (node_) node_->owners.fetch_add(1, std::memory_order_relaxed);
  }
  Attributes(Attributes&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  Attributes& operator=(Attributes other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~Attributes() {
    if (node_ && node_->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy(node_);
  }

  bool empty() const { return node_ == nullptr; }
  /// nullptr: they are of another kind.
  template <class A>
  const A* get_if() const {
    return is<A>() ? &static_cast<const NodeOf<A>*>(node_)->value : nullptr;
  }
  /// For writing: no other instruction sees it.
  template <class A>
  A* edit_if() {
    if (!is<A>()) return nullptr;
    if (node_->owners.load(std::memory_order_acquire) != 1) *this = Attributes(*get_if<A>());
    return &static_cast<NodeOf<A>*>(node_)->value;
  }
  /// Those of a custom call, or of what is printed as one; else nullptr.
  const CallAttrs* call_attrs() const;
  CallAttrs* edit_call_attrs();
  /// Calls `visitor` with what they are, unless they are none.
  template <class Visitor>
  void visit(Visitor&& visitor) const {
    visit_kinds(visitor, AttributeKinds{});
  }
  friend bool operator==(const Attributes& a, const Attributes& b) {
    return a.node_ == b.node_ || (a.node_ && b.node_ && equal(*a.node_, *b.node_));
  }

 private:
  struct Node {
    explicit Node(int k) : kind(k) {}
    std::atomic<std::uint32_t> owners{1};
    const int kind;
  };
  template <class A>
  struct NodeOf : Node {
    template <class From>
    NodeOf(int k, From&& from) : Node(k), value(std::forward<From>(from)) {}
    A value;
  };

  template <class A>
  bool is() const {
    static_assert(attribute_kind<A> != 0, "not a kind of attributes");
    return node_ && node_->kind == attribute_kind<A>;
  }
  template <class Visitor, class... Kinds>
  void visit_kinds(Visitor& visitor, AttributeKindList<Kinds...>) const {
    const auto is_it = [&](const auto* value) {
      if (value) visitor(*value);
      return value != nullptr;
    };
    (is_it(get_if<Kinds>()) || ...);
  }
  template <class... Kinds>
  CallAttrs* edit_call_attrs(AttributeKindList<Kinds...>);
  struct OfKind;
  static void destroy(Node* node);
  static bool equal(const Node& a, const Node& b);

  Node* node_ = nullptr;
};

}  // namespace tessera::ir
