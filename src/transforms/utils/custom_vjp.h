// SPDX-License-Identifier: Apache-2.0
// The tangent of a function with a backward rule, which only its transpose can compute.
#pragma once

#include <string>
#include <vector>

#include "src/ir/analysis/varying_axes.h"

namespace tessera::transforms {

/// custom_call_target of what stands between jvp and transpose where a custom_vjp was: its operands
/// are operands without derivative, residuals and tangents; its result is a tuple of the tangents
/// of the results; it calls the backward rule.
inline constexpr const char* kCustomVjpTangent = "tessera.CustomVjpTangent";

/// In code per device: over which manual axes each leaf that the function gives varies, as
/// "x,y;;x". On the custom_derivative first, and on what stands for its tangent then. Its backward
/// rule is written for cotangents of these types.
inline constexpr const char* kVaries = "tessera.varies";

std::string varies_text(const std::vector<ir::VaryingAxes>& leaves);
std::vector<ir::VaryingAxes> varies_from_text(const std::string& text);

/// Says on each custom_vjp in the computation over which of these axes its results vary.
void note_types(const ir::Computation& c, const ir::VaryingAnalysis& types,
                const ir::VaryingAxes& own);

}  // namespace tessera::transforms
