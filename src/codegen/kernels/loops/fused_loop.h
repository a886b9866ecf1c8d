// SPDX-License-Identifier: Apache-2.0
// Fused loops: elementwise programs, as machine code if that pays, else run block by block by an
// interpreter, so that what is between the ops stays in cache.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "src/codegen/kernels/code/kernel_compiler.h"
#include "src/codegen/kernels/expressions/loop_expr.h"
#include "src/codegen/kernels/expressions/loop_nest.h"
#include "src/codegen/kernels/kernel_choice.h"
#include "src/codegen/kernels/kernel_descriptor.h"

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
  explicit FusedLoop(const LoopExpr& program);
  FusedLoop(const std::shared_ptr<const LoopExpr>& program, bool compiled);
  /// As code that writes rows of so many elements, `pitch` elements from one to the next. Null if
  /// there is none.
  static std::shared_ptr<const FusedLoop> with_pitch(const std::shared_ptr<const LoopExpr>& program,
                                                     std::int64_t row, std::int64_t pitch);

  /// Elements [begin, end) of the outputs. A contiguous input may be an output's memory. `first`:
  /// the element at which the outputs' memory begins. `stream`: write past the caches, unless over
  /// an input.
  void run(const std::byte* const* inputs, std::byte* const* outputs, std::int64_t begin,
           std::int64_t end, std::int64_t first = 0, bool stream = false) const;
  bool is_compiled() const { return code_ != nullptr; }

 private:
  using Kind = LoopExpr::Kind;
  using Register = LoopExpr::Register;
  struct Op {
    BlockFunction function = nullptr;
    std::shared_ptr<const void> attributes;
    std::vector<int> operands;
    int out = 0;
    unsigned scalars = 0;
  };
  void interpret(const std::byte* const* inputs, std::byte* const* outputs, std::int64_t begin,
                 std::int64_t end, std::int64_t first) const;
  void run_code(const std::byte* const* inputs, std::byte* const* outputs, std::int64_t begin,
                std::int64_t end, std::int64_t first, bool stream) const;
  /// Whether an output is where a contiguous input is.
  bool overwrites(const std::byte* const* inputs, std::byte* const* outputs) const;
  /// Gives temporaries places in scratch memory, which are given back after the last use.
  void place_registers();
  /// What is neither composed nor computed by the ops.
  void make(const Register& r, const std::byte* const* inputs, std::int64_t begin, std::int64_t n,
            std::byte* out) const;
  void generate(const Register& r, const std::byte* source, std::int64_t begin, std::int64_t n,
                std::byte* out) const;

  std::vector<Register> registers_;  ///< `constant` of what has a place: the place
  std::vector<Op> ops_;
  std::vector<ComposedView> views_;
  std::vector<std::pair<std::shared_ptr<const ElementSource>, int>> sources_;  ///< first input
  std::vector<std::byte> constants_;
  std::vector<int> generated_;  ///< registers that are filled before the ops of a block run
  int only_source_ = -1;
  std::int64_t block_ = 0;  ///< elements per block; 0: all at once
  std::int64_t place_bytes_ = 0;
  int places_ = 0;
  std::shared_ptr<const KernelCode> code_;  ///< null: it is interpreted
  std::vector<int> made_;                   ///< registers that the code finds made
};

/// Null of null.
inline std::shared_ptr<const FusedLoop> make_loop(const std::shared_ptr<const LoopExpr>& program,
                                                  bool compiled = false) {
  return program ? std::make_shared<const FusedLoop>(program, compiled) : nullptr;
}

/// The kernel that runs a program over so many elements, `times` times before anything reads them.
KernelDescriptor loop_kernel(std::shared_ptr<const LoopExpr> program, std::int64_t elements,
                             std::size_t inputs = 0, std::int64_t times = 1);
KernelFamily loop_family();

}  // namespace tessera::codegen
