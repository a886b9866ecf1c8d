// SPDX-License-Identifier: Apache-2.0
// Elementwise programs: several ops over the elements of equally long arrays, run block by block so
// that what lies between the ops stays in cache. Also made from scalar computations (reducers,
// comparators). Loops that a compiler makes can take this place later.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/literal.h"
#include "src/codegen/kernels/block_ops.h"
#include "src/codegen/kernels/composed_view.h"
#include "src/codegen/kernels/kernel_spec.h"
#include "src/ir/module.h"
#include "src/runtime/plan.h"

namespace tessera::codegen {

/// Memory of this thread for one block, given back at the end of the scope. Scopes may be nested.
class ScratchMemory {
 public:
  explicit ScratchMemory(std::size_t bytes);
  ~ScratchMemory();
  ScratchMemory(const ScratchMemory&) = delete;
  ScratchMemory& operator=(const ScratchMemory&) = delete;
  std::byte* data() const { return data_; }  ///< aligned to 64 bytes

 private:
  std::byte* data_;
};

/// An array that is made where it is read.
class ElementSource {
 public:
  virtual ~ElementSource() = default;
  /// Elements [begin, begin + n), in row-major order.
  virtual void generate(const std::byte* const* inputs, std::int64_t begin, std::int64_t n,
                        std::byte* out) const = 0;
};

class FusedLoop {
 public:
  /// Elements [begin, end) of the outputs. A contiguous input may be an output's memory. `first`:
  /// the element at which the outputs' memory begins.
  void run(const std::byte* const* inputs, std::byte* const* outputs, std::int64_t begin,
           std::int64_t end, std::int64_t first = 0) const;
  /// Estimate for one element.
  double nanoseconds() const { return nanoseconds_; }
  std::size_t op_count() const { return ops_.size(); }

 private:
  friend class FusedLoopBuilder;
  enum class Kind : std::uint8_t {
    contiguous,
    scalar,
    constant,
    broadcast,
    composed,
    source,
    iota,
    temporary,
    output
  };
  struct Register {
    Kind kind = Kind::temporary;
    int index = 0;  ///< of the input, the output, or in views_ or sources_
    int element_bytes = 0;
    std::int64_t offset = 0;    ///< of an input's first element
    std::int64_t constant = 0;  ///< offset into constants_
    Dims dims, strides;         ///< of broadcast: extents, and strides of the source in elements
    DType dtype = DType::f32;   ///< of iota: dims = {outer, size, inner}
    bool scalar() const { return kind == Kind::scalar || kind == Kind::constant; }
    bool generated() const {
      return kind == Kind::broadcast || kind == Kind::composed || kind == Kind::source ||
             kind == Kind::iota;
    }
  };
  struct Op {
    BlockFunction function = nullptr;
    std::shared_ptr<const void> attributes;
    std::vector<int> operands;
    int out = 0;
    unsigned scalars = 0;
  };
  void generate(const Register& r, const std::byte* source, std::int64_t begin, std::int64_t n,
                std::byte* out) const;

  std::vector<Register> registers_;
  std::vector<Op> ops_;
  std::vector<ComposedView> views_;
  std::vector<std::pair<std::shared_ptr<const ElementSource>, int>> sources_;  ///< first input
  std::vector<std::byte> constants_;
  std::vector<int> generated_;  ///< registers that are filled before the ops of a block run
  int whole_ = -1;              ///< the source that is all of the output
  std::int64_t block_ = 0;      ///< elements per block; 0: all at once
  std::int64_t place_bytes_ = 0;
  int places_ = 0;
  double nanoseconds_ = 0;
};

class FusedLoopBuilder {
 public:
  FusedLoopBuilder();
  ~FusedLoopBuilder();
  /// A value: a register and the type it stands for. f16 and bf16 may be lifted: held as f32.
  struct Value {
    int reg = -1;
    DType dtype = DType::f32;
    bool lifted = false;
  };
  // Inputs are numbered in the order of these calls (constants and iotas are none).
  Value contiguous(DType t, std::int64_t offset = 0);
  Value scalar(DType t, std::int64_t offset = 0);
  /// Element i is source[offset + sum of coordinates(i) * strides], i row-major over dims.
  Value broadcast(DType t, Dims dims, Dims strides, std::int64_t offset = 0);
  /// Its inputs are numbers that input() gave.
  Value composed(DType t, ComposedView m);
  int input() { return inputs_++; }
  /// It has the next `inputs` inputs; an element takes so many nanoseconds.
  Value source(DType t, std::shared_ptr<const ElementSource> source, int inputs,
               double nanoseconds = 0);
  Value constant(const Literal& scalar);
  Value iota(DType t, const Dims& dims, std::int64_t dim);
  /// Empty if there is no block function for it.
  std::optional<Value> apply(const ir::Instruction& instruction,
                             const std::vector<Value>& operands);
  void output(Value v);
  std::shared_ptr<const FusedLoop> finish();
  int input_count() const { return inputs_; }

 private:
  Value add_register(FusedLoop::Register r, DType t, bool lifted = false);
  Value emit(BlockFunction f, const std::vector<Value>& operands, DType result, bool lifted,
             double nanoseconds, std::shared_ptr<const void> attributes = nullptr);
  Value lift(Value v);
  Value raw(Value v);

  std::shared_ptr<FusedLoop> program_;
  std::vector<Value> outputs_;
  int inputs_ = 0;
};

/// Estimate for one element of an elementwise op, in nanoseconds.
double operation_cost(const ir::Instruction& instruction);
/// True for ops that FusedLoopBuilder::apply can do on these types.
bool is_loop_op(const ir::Instruction& instruction);
/// A computation on scalars as a fused loop: inputs are its parameters, outputs its result's
/// leaves. Null if something in it has no block function.
std::shared_ptr<const FusedLoop> program_of(const ir::Computation& computation);
/// The kernel that runs a program over so many elements.
KernelSpec loop_kernel(std::shared_ptr<const FusedLoop> program, std::int64_t elements,
                       std::size_t inputs = 0);

}  // namespace tessera::codegen
