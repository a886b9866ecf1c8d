// SPDX-License-Identifier: Apache-2.0
// How large a program may grow from a small text: calls multiply instructions, tuples multiply
// shapes. No program that could ever run comes near. And up to what size alternatives are tried.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/ir/module.h"

namespace tessera::ir {

/// Calls inside calls; the interpreters of a program walk them by recursion.
inline constexpr std::int64_t kMaxCallDepth = 256;
/// Tuples inside tuples.
inline constexpr std::int64_t kMaxTupleDepth = 64;
/// Parts of one shape, and of all shapes of a text that are not written there but inferred.
inline constexpr std::int64_t kMaxShapeParts = std::int64_t(1) << 18;

/// Parts of a shape (itself, its elements, theirs ...), counted no further than `most` + 1.
std::int64_t shape_parts(const Shape& shape, std::int64_t most = kMaxShapeParts);
/// 0 for an array.
std::int64_t tuple_depth(const Shape& shape);

/// ValueError if calls nest too deep, or if writing every call out would give more instructions
/// than any machine walks through. `callees_first`: all computations.
void check_limits(const std::vector<Computation*>& callees_first);

/// Instructions of a program for which it pays to try a step, to measure what it led to, and to
/// take it back: of a larger one the first form that is found is kept, as measuring takes about as
/// long as all else.
inline constexpr std::size_t kMostTried = 1500;

/// The greatest channel id that a text may ask for: new ones are numbered behind those in use.
inline constexpr std::int64_t kMaxChannel = std::int64_t(1) << 62;

}  // namespace tessera::ir
