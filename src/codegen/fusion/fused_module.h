// SPDX-License-Identifier: Apache-2.0
// A program whose fusions are instructions: each `fusion` calls what one loop computes.
#pragma once

#include <memory>
#include <unordered_map>

#include "src/codegen/fusion/fusion.h"
#include "src/ir/module.h"
#include "src/passes/analysis/uniformity.h"

namespace tessera::codegen {

/// Computes what the module did that it was made of. Values that several loops compute are in the
/// bodies of all of them. What a body reads in memory are its parameters; scalars that are known
/// are constants in it. A reduction's fusion is of kind kInput, any other of kind kLoop.
///
/// Example: f32[4] values, `s = add(a, b)`, `t = tanh(s)`, `r = negate(s)` and the root (t, r),
/// where s may be computed twice:
///
///     fused_tanh { a, b = parameters; s = add(a, b); ROOT t = tanh(s) }
///     fused_negate { a, b = parameters; s = add(a, b); ROOT r = negate(s) }
///     ENTRY { ...; fusion = fusion(a, b), kind=kLoop, calls=fused_tanh
///             fusion.1 = fusion(a, b), kind=kLoop, calls=fused_negate; ROOT tuple(...) }
///
/// A fusion in a body is computed in a loop of its own there: each part of a concatenation, and the
/// indices of a gather. A concatenation without such parts is a view of what is in memory.
///
///     fused_concatenate { a = parameter; part = fusion(a), ... calls=fused_part
///                         ROOT c = concatenate(part, a), dimensions={0} }
///
/// What a dot, convolution or reduction takes in another order is a fusion that ends in a
/// transpose.
///
/// Fusions that the module itself has become calls.
std::unique_ptr<ir::Module> fuse_module(const ir::Module& module,
                                        const passes::UniformityFacts& facts,
                                        const FusionPlan& plan);

/// What a module says that `fuse_module` made: the program, and what is decided for it. What
/// several bodies compute the program does as often.
struct UnfusedModule {
  std::unique_ptr<ir::Module> module;
  std::unordered_map<const ir::Computation*, Fusion> fusions;  // looked up, never walked

  /// `facts`: of the module's entry.
  FusionPlan plan(const passes::UniformityFacts& facts) const;
};
UnfusedModule unfuse_module(const ir::Module& fused);

}  // namespace tessera::codegen
