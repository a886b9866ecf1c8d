// SPDX-License-Identifier: Apache-2.0
// Elementwise functions that are formulas, with derivatives of their own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/frontend/ops/located.h"
#include "src/ir/formulas/special.h"

namespace tessera::frontend {

/// An elementwise function of real floats. Objects of it must live as long as the program.
struct SpecialFunction {
  using Formula = std::function<ir::Num(const std::vector<ir::Num>& x)>;
  /// The derivative by one operand, of the operands and the result.
  using Partial = std::function<Located(const std::vector<Located>& x, const Located& y)>;

  const char* name;
  /// In f32 or f64: narrower operands are converted, and the result is rounded once.
  Formula formula;
  /// One per operand. Empty: the derivative by this operand is an error that says so.
  std::vector<Partial> partials;
};

/// Applies the function to operands promoted to one float dtype and broadcast. DTypeError for
/// complex numbers.
Array call_special(const SpecialFunction& f, const std::vector<Operand>& operands);

/// Operands promoted to one inexact dtype and broadcast; DTypeError for complex numbers unless they
/// are allowed. For the inside of a composed operation.
std::vector<Located> inexact_operands(const std::string& name, const std::vector<Operand>& operands,
                                      bool complex_too = false);

}  // namespace tessera::frontend
