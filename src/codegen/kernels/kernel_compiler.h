// SPDX-License-Identifier: Apache-2.0
// The wall around LLVM: what the compiler of kernels is given, and what it returns. The compiler is
// a module that is loaded when the first kernel is compiled; nothing on this side names LLVM.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "src/codegen/kernels/loop_expr.h"
#include "src/codegen/kernels/loop_nest.h"

namespace tessera::codegen {

/// Elements [begin, end) of a loop. `made`: by register, the block of what is filled before, from
/// element `begin`. Outputs begin at element `first`.
using LoopFunction = void (*)(const std::byte* const* inputs, std::byte* const* outputs,
                              const std::byte* const* made, std::int64_t begin, std::int64_t end,
                              std::int64_t first);

struct LoopSource {
  const LoopExpr& program;
  const LoopNest& nest;
};

/// Loaded machine code, for as long as it is held.
class MachineCode {
 public:
  virtual ~MachineCode() = default;
  void* entry() const { return entry_; }

 protected:
  void* entry_ = nullptr;
};

/// Any thread may call it at any time.
class KernelCompiler {
 public:
  virtual ~KernelCompiler() = default;
  /// What the machine is, as far as code depends on it, and which compiler this is.
  virtual std::string target() const = 0;
  /// Object code; empty if something in the loop has no code here.
  virtual std::string compile(const LoopSource& source) = 0;
  virtual std::shared_ptr<const MachineCode> load(const std::string& object) = 0;
};

/// The compiler of this process; null if it was built without one, none is installed, or
/// TESSERA_JIT says no. It is loaded at the first call.
KernelCompiler* kernel_compiler();

/// Whether a kernel is worth compiling that runs for so long in all, as far as is known.
bool worth_compiling(double nanoseconds);

/// The code of a loop: compiled before by this process, found on disk, or compiled now. Null if it
/// can't be compiled.
std::shared_ptr<const MachineCode> loop_code(const LoopSource& source, const std::string& key);

/// The module's only symbol: a compiler that is never deleted, or null and why.
extern "C" using KernelCompilerFactory = KernelCompiler * (std::string * error);
inline constexpr const char* kKernelCompilerFactory = "tessera_kernel_compiler";

}  // namespace tessera::codegen
