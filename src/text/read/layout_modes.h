// SPDX-License-Identifier: Apache-2.0
// Attributes by which a program states the layouts of its arguments and results to what runs it.
// The values of arrays don't depend on them.
#pragma once

namespace tessera::text {

/// Of an argument or a result of a function: "default", "auto", or the order of the dims in memory,
/// "{0,1}". A parameter has it as its frontend attribute, unless it is the default.
inline constexpr const char* kLayoutMode = "mhlo.layout_mode";
/// The same of all results, as a frontend attribute of the module: "default;{0,1}". It isn't there
/// if all are the default.
inline constexpr const char* kResultLayoutModes = "tessera.result_layout_modes";

}  // namespace tessera::text
