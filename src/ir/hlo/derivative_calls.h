// SPDX-License-Identifier: Apache-2.0
// The text of remat and custom-derivative, which are custom calls in HLO.
#pragma once

#include "src/ir/module.h"

namespace tessera::ir {

/// custom_call_target of a remat. Its attributes:
///   policies: `[dots_saveable, save_only_these_names("q", "k")]`, `[nothing_saveable]` for none
///   prevent_cse, differentiated: true or false
///   label: "f"
inline constexpr const char* kRematTarget = "tessera.Remat";
/// custom_call_target of a custom_derivative. Its attributes:
///   rule: jvp or vjp
///   num_nondiff, num_residuals: integers
///   symbolic_zeros: true or false
///   label: "f"
inline constexpr const char* kCustomDerivativeTarget = "tessera.CustomDerivative";
/// All keys of those two.
inline constexpr const char* kDerivativeCallKeys[] = {
    "policies",    "prevent_cse",   "differentiated", "rule",
    "num_nondiff", "num_residuals", "symbolic_zeros", "label"};

/// Makes the op of a custom call that has these attributes. ParseError with the call's line.
void raise_remat(Instruction* call, CallAttrs attrs);
void raise_custom_derivative(Instruction* call, CallAttrs attrs);
/// Adds the op's attributes to those of the call that is printed for it; does nothing for others.
void lower_derivative_attributes(const Instruction& op, CallAttrs* call);

}  // namespace tessera::ir
