// SPDX-License-Identifier: Apache-2.0
// Reducers, comparators and mapped functions: computations on scalars, run over many lanes at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "src/evaluator/wide.h"
#include "src/ir/module.h"

namespace tessera::evaluator {

class ScalarFunction {
 public:
  explicit ScalarFunction(const ir::Computation& computation);

  std::size_t parameter_count() const { return parameters_.size(); }
  /// A tuple root gives several results.
  std::size_t result_count() const { return results_.size(); }
  DType parameter_type(std::size_t i) const { return parameters_[i]; }
  DType result_type(std::size_t i) const { return results_[i]; }
  /// Set if the function is one commutative operation on its two parameters.
  std::optional<ir::Opcode> single_op() const { return single_op_; }

  /// results[r][i] = f(inputs[0][i], inputs[1][i], ...)[r] for n lanes. Results may be stored over
  /// inputs.
  void run(const std::byte* const* inputs, std::byte* const* results, std::int64_t n);
  /// A comparator's answer for one pair.
  bool test(const std::byte* const* inputs);

 private:
  /// One step on all lanes; a null instruction copies its one operand.
  struct Step {
    const ir::Instruction* instruction = nullptr;
    std::vector<int> operands;
    int result = 0;
  };
  struct Constant {
    int slot;
    const Literal* value;
  };

  /// Appends the steps of a computation; false if something in it isn't a scalar operation.
  bool compile(const ir::Computation& computation, const std::vector<int>& arguments,
               std::vector<int>& roots);
  int new_slot(DType t);
  void run_steps(const std::byte* const* inputs, std::byte* const* results, std::int64_t n);
  void run_slowly(const std::byte* const* inputs, std::byte* const* results, std::int64_t n);

  const ir::Computation& computation_;
  std::vector<DType> parameters_, results_;
  std::optional<ir::Opcode> single_op_;
  bool compiled_ = false;
  std::vector<Step> steps_;
  std::vector<Constant> constants_;
  std::vector<int> roots_;
  std::vector<DType> slot_types_;
  std::vector<std::vector<std::byte>> slots_;
  std::int64_t capacity_ = 0;
};

}  // namespace tessera::evaluator
