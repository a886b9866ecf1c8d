// SPDX-License-Identifier: Apache-2.0
// Products of matrices and tensors. Dtypes promote as in other operations, and the result has the
// promoted dtype; ShapeError names the dims that don't fit and the caller's line.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <tessera/array.h>

namespace tessera {

/// How exactly products of floats are made; a wish to devices that have a choice.
enum class Precision : std::uint8_t { standard, high, highest };

/// Which dims of `dot_general` meet. Pairs: lhs_contracting[i] with rhs_contracting[i].
struct DotDims {
  std::vector<std::int64_t> lhs_contracting{}, rhs_contracting{};
  std::vector<std::int64_t> lhs_batch{}, rhs_batch{};
  /// Of the result and its sums.
  std::optional<DType> preferred{};
  Precision precision = Precision::standard;
};

/// Sums of products over the contracting dims, for each index of the batch dims. The result has
/// the batch dims, then the other dims of lhs, then those of rhs.
Array dot_general(Operand lhs, Operand rhs, const DotDims& dims);

struct MatmulOptions {
  std::optional<DType> preferred{};
  Precision precision = Precision::standard;
};
/// Matrix product over the last two dims, leading dims broadcast; vectors count as row on the left
/// and as column on the right, and that dim is dropped from the result.
Array matmul(Operand a, Operand b, const MatmulOptions& options = {});
/// Last dim of a with the last but one (or only) dim of b; times a scalar: multiplication.
Array dot(Operand a, Operand b);
/// Sum of conj(a) * b over all elements.
Array vdot(Operand a, Operand b);
/// Sum of products over the last dims.
Array inner(Operand a, Operand b);
/// a[i] * b[j] of the flattened arrays.
Array outer(Operand a, Operand b);
/// The last `axes` dims of a with the first ones of b.
Array tensordot(Operand a, Operand b, std::int64_t axes = 2);
/// These dims of a with those of b, in pairs.
Array tensordot(Operand a, Operand b, std::vector<std::int64_t> a_axes,
                std::vector<std::int64_t> b_axes);
/// Kronecker product.
Array kron(Operand a, Operand b);

/// Einstein's sums: "ij,jk->ik", "bij,bjk" (letters that stand once, in alphabetical order, are the
/// result), "...ij->...ji". More than two arrays are multiplied pair by pair, cheap pairs first.
Array einsum(const std::string& spec, const std::vector<Array>& arrays,
             Location location = Location::current());
template <class A>
requires std::same_as<std::remove_cvref_t<A>, Array> Array
einsum(const std::string& spec, const A& x, Location location = Location::current()) {
  return einsum(spec, std::vector<Array>{x}, location);
}
Array einsum(const std::string& spec, Operand a, Operand b);
Array einsum(const std::string& spec, Operand a, Operand b, Operand c);

}  // namespace tessera
