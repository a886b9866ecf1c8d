// SPDX-License-Identifier: Apache-2.0
// Elementwise programs as plain data: several ops over the elements of equally long arrays. Made
// from fused ops, and from scalar computations (reducers, comparators). What runs them, block by
// block, is made of them when a plan is settled (fused_loop.h); a compiler of loops could take that
// place.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/arrays/literal.h"
#include "src/codegen/kernels/elementwise/block_ops.h"
#include "src/codegen/kernels/expressions/composed_view.h"
#include "src/ir/analysis/affine_numbers.h"
#include "src/ir/module.h"

namespace tessera {
class KeyWriter;
}

namespace tessera::codegen {

class ElementSource;
struct ConcatenationPart;

/// An array that is made where it is read, and how: as KernelDescriptor is to a kernel.
struct SourceDescriptor {
  std::string key;
  std::function<std::shared_ptr<const ElementSource>()> make;
  /// Not null: of so many arrays, each of which stands behind the one before.
  std::shared_ptr<const std::vector<ConcatenationPart>> parts = nullptr;

  explicit operator bool() const { return make != nullptr; }
};

struct LoopExpr {
  enum class Kind : std::uint8_t {
    contiguous,
    scalar,
    constant,
    broadcast,
    composed,
    source,
    iota,
    array,  ///< as a whole, for takes
    temporary,
    output
  };
  /// Moves what is read, or written, by clamp(value, 0, limit) * scale elements.
  struct Start {
    int input = -1;
    DType dtype = DType::s32;
    std::int64_t limit = 0, scale = 1;
  };
  /// Coordinates in a dim are taken from what is inside [low, high), the nearest there is, and
  /// counted from low. What is read elsewhere is not used.
  struct Window {
    int dim = -1;  ///< there is none
    std::int64_t low = 0, high = 0;
    explicit operator bool() const { return dim >= 0; }
    std::int64_t of(std::int64_t c) const { return std::clamp(c, low, high - 1) - low; }
  };
  struct Register {
    Kind kind = Kind::temporary;
    int index = 0;  ///< of the input, the output, or in `views` or `sources`
    int element_bytes = 0;
    std::int64_t offset = 0;    ///< of an input's first element
    std::vector<Start> starts;  ///< of contiguous, scalar and broadcast, and of outputs
    std::int64_t constant = 0;  ///< offset into `constants`
    Dims dims, strides;         ///< of broadcast: extents, and strides of the source in elements
    Window window;              ///< of broadcast
    DType dtype = DType::f32;   ///< of iota: dims = {outer, size, inner}
    bool scalar() const { return kind == Kind::scalar || kind == Kind::constant; }
    bool generated() const {
      return kind == Kind::broadcast || kind == Kind::composed || kind == Kind::source ||
             kind == Kind::iota;
    }
  };
  struct Op {
    BlockOp op;
    std::vector<int> operands;
    int out = 0;
    unsigned scalars = 0;
  };

  std::vector<Register> registers;
  std::vector<Op> ops;
  std::vector<ComposedView> views;
  std::vector<std::pair<SourceDescriptor, int>> sources;  ///< with the first input
  std::vector<std::byte> constants;
  int only_source = -1;    ///< register of the source that is all of the output
  double nanoseconds = 0;  ///< estimate for one element

  /// Equal keys, equal programs.
  std::string key() const;
  /// Whether it has elementary functions, whose last bits depend on who computes them.
  bool has_functions() const;
};

class LoopBuilder {
 public:
  LoopBuilder();
  ~LoopBuilder();
  /// A value: a register and the type it stands for. f16 and bf16 may be lifted: held as f32.
  struct Value {
    int reg = -1;
    DType dtype = DType::f32;
    bool lifted = false;
  };
  // Inputs are numbered in the order of these calls (constants and iotas are none).
  Value contiguous(DType t, std::int64_t offset = 0);
  Value scalar(DType t, std::int64_t offset = 0);
  /// Element i is source[offset + sum of coordinates(i) * strides], i row-major over dims, moved by
  /// `starts`, whose inputs are numbers that input() gave.
  Value broadcast(DType t, Dims dims, Dims strides, std::int64_t offset = 0,
                  std::vector<LoopExpr::Start> starts = {});
  /// Of a part of an array of these dims.
  Value windowed(DType t, const Dims& dims, const Dims& strides, std::int64_t offset,
                 const LoopExpr::Window& window);
  /// Its inputs are numbers that input() gave.
  Value composed(DType t, ComposedView m);
  int input() { return inputs_++; }
  /// It has the next `inputs` inputs; an element takes so many nanoseconds.
  Value source(DType t, SourceDescriptor source, int inputs, double nanoseconds = 0);
  /// Elements of an array of so many, the next input, at indices of s32, which are clamped.
  Value take(DType t, Value index, std::int64_t elements);
  Value constant(const Literal& scalar);
  Value iota(DType t, const Dims& dims, std::int64_t dim);
  /// base + the sum of coordinates * strides. Only if has_affine_iotas.
  Value affine(DType t, const Dims& dims, std::int64_t base, const Dims& strides);
  /// Whether sums of multiples of coordinates in an array of this shape are exact in its type.
  static bool has_affine_iotas(const Shape& shape);
  /// pred: v < n, of s32.
  Value below(Value v, std::int64_t n);
  Value select(Value pred, Value yes, Value no);
  /// Empty if there is no block function for it.
  std::optional<Value> apply(const ir::Instruction& instruction,
                             const std::vector<Value>& operands);
  std::optional<Value> convert(Value v, DType to);
  void output(Value v, std::vector<LoopExpr::Start> starts = {});
  std::shared_ptr<const LoopExpr> finish();

 private:
  std::optional<Value> apply(ir::Opcode op, const ir::Attributes& attrs,
                             const std::vector<Value>& operands, DType result);
  /// Of no integers of fewer than 8 bits.
  std::optional<Value> apply_to_bytes(ir::Opcode op, const ir::Attributes& attrs,
                                      const std::vector<Value>& operands, DType result);
  /// Of integers of fewer than 8 bits, which have a byte each: as bytes, wrapped again.
  std::optional<Value> apply_to_bits(ir::Opcode op, const ir::Attributes& attrs,
                                     const std::vector<Value>& operands, DType result);
  Value wrapped(Value v, DType t);
  Value saturated(Value v, DType t);
  Value with_number(ir::Opcode op, Value v, int number);
  Value add_register(LoopExpr::Register r, DType t, bool lifted = false);
  Value emit(const BlockOp& op, const std::vector<Value>& operands, DType result, bool lifted,
             double nanoseconds);
  std::optional<Value> emit_if_known(const BlockOp& op, const std::vector<Value>& operands,
                                     DType result, bool lifted, double nanoseconds);
  Value lift(Value v);
  Value raw(Value v);

  std::shared_ptr<LoopExpr> program_;
  std::vector<Value> outputs_;
  std::vector<std::vector<LoopExpr::Start>> output_starts_;
  int inputs_ = 0;
};

/// Estimate for one element of an elementwise op, in nanoseconds.
double operation_cost(const ir::Instruction& instruction);
/// Whether each element of a gather is one of an array of one dim, by an index of its own:
/// elementwise in that operand, the second one.
bool is_element_gather(const ir::Instruction& instruction);
/// Where such a gather finds its elements, if the program's text says it: by strides, as any view.
std::optional<ir::AffineNumbers> counted_places(const ir::Instruction& element_gather);
/// True for those, and for ops that LoopBuilder::apply can do on these types.
bool is_loop_op(const ir::Instruction& instruction);
/// A computation on scalars as a loop: inputs are its parameters, outputs its result's leaves. Null
/// if something in it has no block function.
std::shared_ptr<const LoopExpr> program_of(const ir::Computation& computation);

/// Which fields of a composed view say what it reads.
void add_to_key(const ComposedView& view, KeyWriter* key);

}  // namespace tessera::codegen
