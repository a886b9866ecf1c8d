// SPDX-License-Identifier: Apache-2.0
// What planning knows of a kernel: what it computes, what it costs, and how it is made. The kernel
// itself is made when the plan is settled, once for all steps that have equal keys.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <tessera/dtype.h>

#include "src/codegen/kernels/access.h"
#include "src/runtime/plan.h"

namespace tessera::codegen {

struct LoopExpr;
struct RowSums;
struct StepProgram;

/// A product, of some columns alone: units [begin, end) of the call.
using ColumnsFunction = void (*)(const runtime::KernelCall& call, std::int64_t first,
                                 std::int64_t last);
/// Where the matrices of a batch stand: lines of so many elements, `line` apart.
struct BatchMatrices {
  std::int64_t inner = 1;  ///< matrices between which others' lines stand; 1: one after the other
  std::int64_t outer_stride = 0, inner_stride = 0, line = 0;
  std::int64_t lines = 0, width = 0;

  std::int64_t first(std::int64_t matrix) const {
    return matrix / inner * outer_stride + matrix % inner * inner_stride;
  }
};

/// What of a product can be left out, where it is known to be zero or not read.
struct ProductParts {
  ColumnsFunction results = nullptr;  ///< of the result's columns; the others are left as they are
  ColumnsFunction terms = nullptr;    ///< of those of the first operand, whose products are summed
  DType type = DType::f32;            ///< of the operands
  std::int64_t columns = 0, depth = 0;
  std::int64_t rows = 1;      ///< units of a matrix
  int result_bytes = 4;       ///< of an element
  BatchMatrices second = {};  ///< operand: its matrices, and whether a line is of one term
  bool lines_are_terms = false;

  explicit operator bool() const { return results != nullptr; }
};

struct KernelDescriptor {
  /// What the kernel computes, completely (see KeyWriter). It does not depend on addresses.
  std::string key;
  /// Makes the function and its attributes. Owns what it reads: the module may be gone by then.
  std::function<runtime::Kernel()> make;
  const runtime::KernelLabel* label = nullptr;  ///< its line in the table of its family
  std::int64_t units = 1;
  double nanoseconds = 0;
  Accesses access;           ///< what its units read and write
  bool has_effects = false;  ///< as KernelTask has it
  /// The same as a loop, of so many elements a unit, of which code can be made among that of other
  /// kernels. Null if it is none.
  std::shared_ptr<const LoopExpr> loop;
  std::int64_t elements_per_unit = 1;
  /// The same as steps, for a program of which they become part. Null if it is none.
  std::shared_ptr<const StepProgram> steps;
  /// What makes the elements that it reduces, if it isn't an input alone.
  std::shared_ptr<const LoopExpr> reduced;
  bool takes_largest = false;  ///< of rows of floats: NaN, if there is one
  ProductParts parts;          ///< of a product whose rows are units
  /// The same, added up while rows of both inputs are made. Null if it is no such sum.
  std::shared_ptr<const RowSums> row_sums;

  explicit operator bool() const { return make != nullptr; }
};

/// For kernels whose attributes are plain numbers.
template <class Attributes>
std::function<runtime::Kernel()> kernel_maker(runtime::KernelFunction function,
                                              Attributes attributes) {
  return [function, attributes = std::move(attributes)] {
    return runtime::Kernel{function, std::make_shared<const Attributes>(attributes)};
  };
}

}  // namespace tessera::codegen
