// SPDX-License-Identifier: Apache-2.0
// The wall around LLVM: what the compiler of kernels is given, and what it returns. The compiler is
// a module that is loaded when the first kernel is compiled; nothing on this side names LLVM.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/codegen/kernels/code/kernel_code.h"
#include "src/codegen/kernels/expressions/loop_expr.h"
#include "src/codegen/kernels/expressions/loop_nest.h"

namespace tessera::codegen {

/// Elements [begin, end) of a loop. `made`: by register, the block of what is filled before, from
/// element `begin`. Outputs begin at element `first`, and are written past the caches if `stream`
/// isn't 0.
using LoopFunction = void (*)(const std::byte* const* inputs, std::byte* const* outputs,
                              const std::byte* const* made, std::int64_t begin, std::int64_t end,
                              std::int64_t first, std::int64_t stream);

struct LoopSource {
  std::shared_ptr<const LoopExpr> program;
  LoopNest nest;
  /// From one row of the nest to the next in the output; 0: they stand one behind the other.
  std::int64_t pitch = 0;
};

/// What a unit of a reduction of [a, reduced, b] is.
struct ReduceUnits {
  enum Are : std::uint8_t {
    planes,   ///< so many planes of `a`
    columns,  ///< so many columns of all planes; the last unit may have more
    results,
  } are = planes;
  std::int64_t size = 1;
};

/// A reduction of [a, reduced, b] to [a, b] by a program on scalars, of what loops make.
struct ReduceSource {
  struct Operand {
    LoopSource elements;  ///< it has one output, and no register that is made before it runs
    int first_input = 0;
    DType dtype = DType::f32;    ///< of elements and results
    DType held = DType::f32;     ///< of sums: what the reducer computes with
    std::uint64_t infinity = 0;  ///< its bits; NaNs' are above, but for the sign. 0: it has none
  };
  /// In which order the elements of a row may be combined.
  enum class Order : std::uint8_t {
    in_order,
    any_but_nans,  ///< any, if none of them is NaN (see combines_in_any_order)
    any,           ///< the reducer is one commutative op, on one operand
  };
  std::vector<Operand> operands;
  std::shared_ptr<const LoopExpr> reducer;  ///< of the sums, then the elements
  Order order = Order::in_order;
  std::int64_t a = 1, reduced = 1, b = 1;
  ReduceUnits units;
  /// Rows of a few vectors, b = 1: the nest is by rows, and those are the ones that are reduced.
  bool short_rows = false;
  int init = 0;  ///< the first of the initial values
};

struct StepProgram;

/// A function as a loop's is, of which it takes the inputs, the outputs, and as `made` the scratch
/// memory, and then of each link that is called the kernel's function and its KernelCall.
struct StepSource {
  std::shared_ptr<const StepProgram> program;
  /// By link: how its loop is walked; empty: it is called.
  std::vector<std::optional<LoopNest>> nests;
  std::vector<std::int64_t> scratch;  ///< where each is in the scratch memory
  std::int64_t scratch_bytes = 0;
  /// What is small, and nothing that is called reads or writes: it needn't be in memory.
  std::vector<bool> local_inputs, local_outputs, local_scratch;
};

/// How much is done for code to be fast. Its results are the same, bit for bit.
enum class CodeTier {
  quick,  ///< made in a third of the time, and seldom more than half as slow again
  optimized,
};

/// Any thread may call it at any time.
class KernelCompiler {
 public:
  virtual ~KernelCompiler() = default;
  /// Object code with the function `kKernelEntry`; empty if something in the loop has no code here.
  virtual std::string compile(const LoopSource& source, CodeTier tier) = 0;
  /// Of a function as a loop's is, over units.
  virtual std::string compile(const ReduceSource& source, CodeTier tier) = 0;
  virtual std::string compile(const StepSource& source, CodeTier tier) = 0;
};
inline constexpr const char* kKernelEntry = "tessera_kernel";

/// The compiler of this process; null if it was built without one, none is installed, or
/// TESSERA_JIT says no. It is loaded at the first call: code that is kept doesn't need it.
KernelCompiler* kernel_compiler();
/// Whether there is one, which need not be loaded.
bool can_compile_kernels();
/// Whether kernels are compiled, by it or before (CodeSource).
bool has_kernel_compiler();

/// Whether to compile a kernel that runs for so long in all, as far as is known, and computes this,
/// or this among other things (null: nothing of note). One with elementary functions is compiled
/// however short it is: a part of an array has the bits that the whole would have there.
bool worth_compiling(double nanoseconds, const LoopExpr* elements);

/// The time of arithmetic in units of the interpreter's, whose times estimates are made of: about
/// an eighth for what is compiled.
double time_of_code(bool compiled);

/// The code of a kernel: compiled before by this process, found on disk, or compiled now. Null if
/// it can't be compiled. Equal keys, equal sources. Unless the first call takes long
/// (`nanoseconds`), quick code will do until there is better, which is made in the background.
std::shared_ptr<const KernelCode> code_of(const LoopSource& source, const std::string& key);
std::shared_ptr<const KernelCode> code_of(const ReduceSource& source, const std::string& key);
std::shared_ptr<const KernelCode> code_of(const StepSource& source, const std::string& key,
                                          double nanoseconds);

/// The module's only symbol: a compiler that is never deleted, or null and why. `vector_math`:
/// whether code may call the C library's. `cpu`: "x86-64", "x86-64-v3" or "x86-64-v4"; empty: this
/// machine.
extern "C" using KernelCompilerFactory =
    KernelCompiler * (bool vector_math, const char* cpu, std::string* error);
inline constexpr const char* kKernelCompilerFactory = "tessera_kernel_compiler";

}  // namespace tessera::codegen
