// SPDX-License-Identifier: Apache-2.0
// A LAPACK routine as a custom call target.
#pragma once

#include <algorithm>

#include "src/codegen/custom_calls/call_kernels.h"
#include "src/codegen/custom_calls/lapack_routine.h"

namespace tessera::codegen::lapack {

/// A routine for one element type as the target of custom calls. Leading dims are batches, which
/// may be split among devices and run in parallel.
class Target : public ir::CustomCallTarget, public CallKernel {
 public:
  struct Leaf {
    enum class Kind : std::uint8_t { matrix, plain, scalar, alpha, workspace };
    Kind kind = Kind::plain;
    DType dtype = DType::f32;
    int slot = -1;
    std::string dims;  ///< symbols
    std::vector<bool> free;
    std::string text;
  };

  /// Of each operand and result: LAPACK has its memory as it is, though it isn't column-major, as
  /// the call asks for. What is a row to LAPACK is none of the array.
  struct Raw {
    std::vector<bool> operands, results;
    bool any() const {
      return std::find(operands.begin(), operands.end(), true) != operands.end() ||
             std::find(results.begin(), results.end(), true) != results.end();
    }
  };

  Target(const Routine& routine, DType dtype);

  PreparedCall prepare(const ir::Instruction& call) const override;
  std::optional<ir::FactorRuleSpec> rule(const ir::Instruction& call) const override;
  /// Sizes among the operands say how large the batch is.
  bool has_leading_batch_dims() const override { return routine_.decode_scalars == nullptr; }

 private:
  /// What the shapes of one call say.
  struct Bound {
    Dims batch;
    Batch frame;  ///< sizes and options
  };
  Bound bind(const ir::Instruction& call) const;
  Raw raw(const ir::Instruction& call) const;
  bool is_raw(const ir::Instruction& call, const Leaf& leaf, const Shape& shape,
              const Dims& minor_to_major, const std::string& which) const;
  [[noreturn]] void misfit(const ir::Instruction& call, const std::string& what) const;
  std::vector<Leaf> leaves(const std::string& text) const;

  Routine routine_;
  DType dtype_;
  BatchFunction run_;
  std::vector<Leaf> operands_, results_;
};

}  // namespace tessera::codegen::lapack
