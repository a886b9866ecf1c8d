// SPDX-License-Identifier: Apache-2.0
// Products of matrices and tensors.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <tessera/array.h>

/// @file
/// Products of matrices and tensors.
///
/// Operands are promoted as in elementwise operations, and the result has the promoted dtype unless
/// a wider one is requested. Products of f16 and bf16 accumulate in f32 and are rounded once;
/// products of pred are logical (and, or). Integers wrap around. The order of summation is
/// unspecified, so the last bits of floating-point results may depend on the sharding.
///
/// @throws ShapeError if the dimensions don't match. The message names them and the caller's line.
/// @throws DTypeError if the dtypes have no common type.

namespace tessera {

/// Precision of floating-point products on devices that offer a choice (XLA's `PrecisionConfig`).
/// It is kept in the program's text; on the CPU all three compute the same.
enum class Precision : std::uint8_t { standard, high, highest };

/// Dimension numbers of `dot_general`. Negative dimensions count from the end.
struct DotDims {
  /// Contracting dimensions, in pairs: dimension lhs_contracting[i] of lhs is multiplied with and
  /// summed over rhs_contracting[i] of rhs.
  std::vector<std::int64_t> lhs_contracting{}, rhs_contracting{};
  /// Batch dimensions, in pairs.
  std::vector<std::int64_t> lhs_batch{}, rhs_batch{};
  /// Dtype of the result and of the accumulation: the promoted dtype or a wider one of the same
  /// kind; integers may also accumulate in floats.
  std::optional<DType> preferred{};
  /// See Precision.
  Precision precision = Precision::standard;
};

/// General dot product (HLO `dot`, jax.lax.dot_general): for each index of the batch dimensions,
/// the sum of products over the contracting dimensions.
///
/// With batch dimensions B, contracting dimensions K and free dimensions M and N, which may stand
/// in any order in the operands: lhs [B.., M.., K..], rhs [B.., K.., N..] -> [B.., M.., N..].
/// @code
/// // [8, 16, 32] and [8, 32, 64] -> [8, 16, 64]
/// dot_general(x, w, {.lhs_contracting = {2}, .rhs_contracting = {1},
///                    .lhs_batch = {0}, .rhs_batch = {0}});
/// @endcode
/// @throws ShapeError if paired dimensions differ in number or size.
/// @throws ValueError if a dimension is out of range or given twice.
/// @throws DTypeError if `preferred` is narrower than the promoted dtype or of another kind.
Array dot_general(Operand lhs, Operand rhs, const DotDims& dims);

/// Options of `matmul`.
struct MatmulOptions {
  /// Dtype of the result and of the accumulation; see DotDims::preferred.
  std::optional<DType> preferred{};
  /// See Precision.
  Precision precision = Precision::standard;
};
/// Matrix product, as numpy.matmul: a [.., M, K], b [.., K, N] -> [.., M, N].
///
/// Leading dimensions broadcast. A vector a [K] counts as [1, K] and a vector b [K] as [K, 1]; the
/// dimension added is removed from the result.
/// @throws ShapeError if K or the leading dimensions don't match, or for scalars.
/// @throws DTypeError as for `dot_general`.
Array matmul(Operand a, Operand b, const MatmulOptions& options = {});
/// Dot product, as numpy.dot: contracts the last dimension of a with the last but one of b (the
/// only one of a vector): a [I.., K], b [J.., K, N] -> [I.., J.., N]. Multiplies if either is a
/// scalar.
Array dot(Operand a, Operand b);
/// Sum of conj(a) * b over all elements: two arrays with the same number of elements -> [].
Array vdot(Operand a, Operand b);
/// Contracts the last dimensions: a [I.., K], b [J.., K] -> [I.., J..]. Multiplies if either is a
/// scalar.
Array inner(Operand a, Operand b);
/// Outer product of the flattened arrays: sizes M and N -> [M, N].
Array outer(Operand a, Operand b);
/// Contracts the last `axes` dimensions of a with the first `axes` dimensions of b:
/// a [I.., K..], b [K.., J..] -> [I.., J..].
/// @throws ValueError if there are fewer dimensions than that.
Array tensordot(Operand a, Operand b, std::int64_t axes = 2);
/// Contracts dimension a_axes[i] of a with dimension b_axes[i] of b. The result has the other
/// dimensions of a, then those of b.
Array tensordot(Operand a, Operand b, std::vector<std::int64_t> a_axes,
                std::vector<std::int64_t> b_axes);
/// Kronecker product: a [M..], b [N..] -> [M * N..]. The shorter shape is padded in front with 1s.
Array kron(Operand a, Operand b);

/// Einstein summation, as numpy.einsum.
///
/// `spec` has one term per array and, after "->", the term of the result. Each letter labels a
/// dimension; labels that the result lacks are summed over, and a label repeated in one term takes
/// the diagonal. "..." stands for any number of leading, broadcast dimensions. Without "->" the
/// result has the ellipsis, then the labels that occur once in alphabetical order. Dimensions of
/// one label must have equal sizes or size 1. Spaces are ignored.
///
/// Three or more arrays are multiplied in pairs, at each step the pair that takes the fewest
/// multiplications.
/// @code
/// einsum("ij,jk->ik", a, b);         // matrix product
/// einsum("bqhd,bkhd->bhqk", q, k);   // attention scores
/// einsum("...ij->...ji", x);         // transposes the last two dimensions
/// einsum("ii", x);                   // trace
/// @endcode
/// @throws ValueError if the spec can't be read or doesn't fit the number and ranks of the arrays.
/// @throws ShapeError if a label has two sizes.
Array einsum(const std::string& spec, const std::vector<Array>& arrays,
             Location location = Location::current());
/// The same for one array.
template <class A>
requires std::same_as<std::remove_cvref_t<A>, Array> Array
einsum(const std::string& spec, const A& x, Location location = Location::current()) {
  return einsum(spec, std::vector<Array>{x}, location);
}
/// The same for two arrays.
Array einsum(const std::string& spec, Operand a, Operand b);
/// The same for three arrays.
Array einsum(const std::string& spec, Operand a, Operand b, Operand c);

}  // namespace tessera
