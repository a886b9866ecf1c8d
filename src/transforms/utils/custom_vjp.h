// SPDX-License-Identifier: Apache-2.0
// The tangent of a function with a backward rule, which only its transpose can compute.
#pragma once

namespace tessera::transforms {

/// custom_call_target of what stands between jvp and transpose where a custom_vjp was: its operands
/// are operands without derivative, residuals and tangents; its result is a tuple of the tangents
/// of the results; it calls the backward rule.
inline constexpr const char* kCustomVjpTangent = "tessera.CustomVjpTangent";

}  // namespace tessera::transforms
