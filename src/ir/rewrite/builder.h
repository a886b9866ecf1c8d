// SPDX-License-Identifier: Apache-2.0
// Builder: appends instructions to a computation with inferred shapes.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "src/ir/channels.h"
#include "src/ir/module.h"

namespace tessera::ir {

/// Appends instructions to a computation, inferring and checking their shapes (ShapeError or
/// DTypeError with the current location). New instructions carry `metadata`.
class Builder {
 public:
  explicit Builder(Computation* computation) : computation_(computation) {}

  Cow<Metadata> metadata;
  Computation* computation() const { return computation_; }
  Module* module() const { return computation_->module(); }

  /// The general form: shape inferred from opcode, operands, attributes and callees.
  Instruction* emit(Opcode op, std::vector<Instruction*> operands, Attributes attrs = {},
                    std::vector<Computation*> called = {});
  /// For opcodes whose shape can't be inferred (parameter, constant, iota, convert, broadcast,
  /// reshape, custom-call, bitcast-convert, rng, ...): checked against `shape`.
  Instruction* emit_shaped(Opcode op, Shape shape, std::vector<Instruction*> operands,
                           Attributes attrs = {}, std::vector<Computation*> called = {});

  Instruction* parameter(std::int64_t number, const Shape& shape, const std::string& name = "");
  Instruction* constant(Literal value);
  /// Scalar constant of that type, the value converted as by a cast.
  Instruction* scalar(DType dtype, double value);
  Instruction* zero(DType dtype) { return scalar(dtype, 0); }
  Instruction* iota(const Shape& shape, std::int64_t dim);
  Instruction* convert(Instruction* x, DType dtype);
  /// dims[i]: the result's dim of operand dim i.
  Instruction* broadcast(Instruction* x, Dims result_dims, Dims dims);
  /// A scalar to all elements (or the same dims: no-op).
  Instruction* splat(Instruction* scalar, Dims dims);
  Instruction* reshape(Instruction* x, Dims dims);
  Instruction* transpose(Instruction* x, Dims perm);
  Instruction* slice(Instruction* x, Dims starts, Dims limits, Dims strides = {});
  Instruction* dynamic_slice(Instruction* x, std::vector<Instruction*> starts, Dims sizes);
  Instruction* dynamic_update_slice(Instruction* x, Instruction* update,
                                    std::vector<Instruction*> starts);
  Instruction* pad(Instruction* x, Instruction* value, std::vector<PadDim> dims);
  Instruction* concatenate(std::vector<Instruction*> xs, std::int64_t dim);
  Instruction* reverse(Instruction* x, Dims dims);
  Instruction* select(Instruction* pred, Instruction* on_true, Instruction* on_false);
  Instruction* compare(Direction d, Instruction* a, Instruction* b,
                       ComparisonType type = ComparisonType::by_dtype);
  Instruction* unary(Opcode op, Instruction* x) { return emit(op, {x}); }
  Instruction* binary(Opcode op, Instruction* a, Instruction* b) { return emit(op, {a, b}); }
  Instruction* dot(Instruction* lhs, Instruction* rhs, DotAttrs attrs);
  Instruction* reduce(Instruction* x, Instruction* init, Dims dims, Computation* reducer);
  Instruction* tuple(std::vector<Instruction*> elements);
  Instruction* get_tuple_element(Instruction* tuple, std::int64_t index);
  Instruction* call(Computation* callee, std::vector<Instruction*> operands);
  Instruction* while_loop(Computation* condition, Computation* body, Instruction* init,
                          std::optional<std::int64_t> trip_count = {});
  /// s32 index: branch `index` (the last one if it is out of range). pred: branches[0] if true.
  Instruction* conditional(Instruction* pred_or_index, std::vector<Instruction*> operands,
                           std::vector<Computation*> branches);
  Instruction* fft(Instruction* x, FftType type, Dims lengths);
  Instruction* sort(std::vector<Instruction*> operands, std::int64_t dim, bool stable,
                    Computation* comparator);
  /// u32[]
  Instruction* partition_id();
  Instruction* all_reduce(Instruction* x, Computation* reducer, DeviceGroups groups);
  Instruction* all_gather(Instruction* x, std::int64_t dim, DeviceGroups groups);
  Instruction* reduce_scatter(Instruction* x, Computation* reducer, std::int64_t dim,
                              DeviceGroups groups);
  Instruction* all_to_all(Instruction* x, std::int64_t dim, DeviceGroups groups);
  Instruction* collective_permute(Instruction* x, DevicePairs pairs, BatchAxis batch = {});

 private:
  Computation* computation_;
};

/// The operation of `like` on other operands: attributes, called computations, config and frontend
/// attributes are the same, a channel is its own. `shape`: for opcodes whose shape can't be
/// inferred.
Instruction* emit_like(Builder& b, const Instruction& like, std::vector<Instruction*> operands,
                       const Shape* shape = nullptr);
Instruction* emit_like(Builder& b, const Instruction& like, std::vector<Instruction*> operands,
                       Attributes attrs, const Shape* shape = nullptr);
/// A computation (a, b) → op(a, b) on scalars of that type, shared per module.
Computation* scalar_computation(Module* module, Opcode op, DType dtype);
/// The opcode if a computation is (a, b) → op(a, b) for a commutative op, in either order.
std::optional<Opcode> as_binary_reducer(const Computation&);
/// The neutral element of add, multiply, maximum, minimum, and, or, xor.
std::optional<Literal> identity_of(Opcode op, DType dtype);
/// One that changes nothing: of sums of floats it is -0, as -0 + 0 would lose the sign. For types
/// and ops that have an identity.
Literal neutral_of(Opcode op, DType dtype);

}  // namespace tessera::ir
