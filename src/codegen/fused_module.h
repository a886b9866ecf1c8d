// SPDX-License-Identifier: Apache-2.0
// A program whose fusions are instructions: each `fusion` calls what one loop computes.
#pragma once

#include <memory>
#include <optional>

#include "src/base/literal.h"
#include "src/codegen/fusion.h"
#include "src/ir/module.h"
#include "src/passes/analysis/uniformity.h"

namespace tessera::codegen {

/// Computes what the module did that it was made of. Values that several loops compute are in the
/// bodies of all of them; what a body reads in memory are its parameters.
///
/// Example: f32[4] values, `s = add(a, b)`, `t = tanh(s)`, `r = negate(s)` and the root (t, r),
/// where s may be computed twice:
///
///     fused_tanh { a, b = parameters; s = add(a, b); ROOT t = tanh(s) }
///     fused_negate { a, b = parameters; s = add(a, b); ROOT r = negate(s) }
///     ENTRY { ...; fusion = fusion(a, b), kind=kLoop, calls=fused_tanh
///             fusion.1 = fusion(a, b), kind=kLoop, calls=fused_negate; ROOT tuple(...) }
struct FusedModule {
  std::unique_ptr<ir::Module> module;
  passes::UniformityFacts facts;  ///< of its entry
  /// Which of the options made a difference.
  FusionOptions mattered = FusionOptions::none();
};

FusedModule fuse_module(const ir::Module& module, const passes::UniformityFacts& facts,
                        const FusionOptions& options);

/// Made as soon as it is used, and not before.
bool is_made_when_used(const ir::Instruction& i, const std::vector<passes::LeafFacts>& leaves);
/// The element that all elements of a known value are, on all devices.
std::optional<Literal> splat_element(const passes::LeafFacts& facts);

}  // namespace tessera::codegen
