// SPDX-License-Identifier: Apache-2.0
// Products of vectors along an axis.
#pragma once

#include <cstdint>
#include <optional>

#include <tessera/array.h>

/// @file
/// Products of vectors that lie along an axis of arrays, for each index of the other dimensions,
/// which broadcast. All messages name the caller's line.

namespace tessera {

/// Sum of conj(a) * b along an axis: a [.., N], b [.., N] -> [..].
/// @throws ShapeError if the sizes of the axis differ, or the other dimensions don't broadcast.
Array vecdot(Operand a, Operand b, std::int64_t axis = -1);
/// Products of matrices and vectors: a [.., M, N], x [.., N] -> [.., M].
/// @throws ShapeError if N differs, or the other dimensions don't broadcast.
Array matvec(Operand a, Operand x);
/// Products of vectors and matrices, with the conjugate of x: x [.., M], a [.., M, N] -> [.., N].
/// @throws ShapeError if M differs, or the other dimensions don't broadcast.
Array vecmat(Operand x, Operand a);

/// Options of `cross`.
struct CrossOptions {
  /// Where the vectors lie in a, in b and in the result.
  std::int64_t axisa = -1, axisb = -1, axisc = -1;
  /// The same axis for all three.
  std::optional<std::int64_t> axis{};
};
/// Cross product of vectors of 2 or 3 elements, a missing third one being 0: of two vectors of 2
/// elements only the third component, without the axis.
/// @throws ShapeError for other sizes, or if the other dimensions don't broadcast.
Array cross(Operand a, Operand b, const CrossOptions& options = {});

}  // namespace tessera
