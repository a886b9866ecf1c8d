// SPDX-License-Identifier: Apache-2.0
// What is known of the inside of a kernel: what others can take in, or leave out.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <tessera/dtype.h>

#include "src/runtime/plan.h"

namespace tessera::codegen {

struct ConcatenationPart;
struct LoopExpr;
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

/// One of these, or nothing that anybody could use.
class KernelBody {
 public:
  /// A loop, of which code can be made among that of other kernels.
  struct Loop {
    std::shared_ptr<const LoopExpr> program;  ///< not null
    std::int64_t elements_per_unit = 1;
  };

  /// Loops one behind the other, of which each makes what stands behind what the one before made.
  struct Parts {
    std::shared_ptr<const std::vector<ConcatenationPart>> parts;  ///< not null
    int element_bytes = 0;
  };

  /// A reduction of one array.
  struct Reduction {
    std::shared_ptr<const LoopExpr> program;  ///< of its elements; null: they are the first input's
    bool takes_largest = false;               ///< of rows of floats: NaN, if there is one
  };

  /// A product whose rows are units, of which can be left out what is known to be zero or not read.
  struct Product {
    /// Of the result's columns; the others are left as they are.
    ColumnsFunction results = nullptr;
    /// Of those of the first operand, whose products are summed.
    ColumnsFunction terms = nullptr;
    DType type = DType::f32;  ///< of the operands
    std::int64_t columns = 0, depth = 0;
    std::int64_t rows = 1;      ///< units of a matrix
    int result_bytes = 4;       ///< of an element
    BatchMatrices second = {};  ///< operand: its matrices, and whether a line is of one term
    bool lines_are_terms = false;
  };

  /// Steps, which can become part of a program that runs them.
  struct Steps {
    std::shared_ptr<const StepProgram> program;  ///< not null
  };

  /// A scatter of rows, each at one index, as a kernel that has another one make its updates, so
  /// that these are never held: the other one's inputs stand behind the array and the indices, and
  /// it makes a row by so many units.
  struct RowUpdates {
    std::int64_t rows = 0, row_bytes = 0;
    std::function<runtime::Kernel(runtime::Kernel maker, std::int64_t units_of_row)> make;
  };

  KernelBody() = default;
  template <class T>
  requires(!std::is_same_v<std::remove_cvref_t<T>, KernelBody>) KernelBody(T&& body)
      : what_(std::forward<T>(body)) {}

  /// Null if it is none.
  template <class T>
  const T* as() const {
    return std::get_if<T>(&what_);
  }
  /// Of a loop; null if it is none.
  const LoopExpr* loop() const {
    const auto* body = as<Loop>();
    return body != nullptr ? body->program.get() : nullptr;
  }

 private:
  std::variant<std::monostate, Loop, Parts, Reduction, Product, Steps, RowUpdates> what_;
};

}  // namespace tessera::codegen
