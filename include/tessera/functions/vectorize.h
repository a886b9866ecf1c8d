// SPDX-License-Identifier: Apache-2.0
// Functions of scalars, vectors or matrices as functions of arrays of them.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/detail/callable.h>
#include <tessera/detail/function_body.h>
#include <tessera/tree.h>

namespace tessera {

/// Options of `vectorize`.
struct VectorizeOptions {
  /// Dimensions that the function itself works on, as numpy's generalized functions state them:
  /// "(m,n),(n)->(m)". Names that occur twice stand for one size. Empty: it works on scalars.
  std::string signature = "";
  /// Name of the function in messages and in the text of programs.
  std::string name = "vectorize";
};

namespace internal {

std::vector<Array> vectorize_core(const CallInfo& info, Prototype* prototype,
                                  const VectorizeOptions& options, Location location);

template <class F>
using VectorizedFunction = TransformedFunction<F, VectorizeOptions, &vectorize_core>;

}  // namespace internal

/// A function that applies `f` at each index of the arguments' leading dimensions, which broadcast
/// (jax.numpy.vectorize): [L.., core..], .. -> [L.., results' core..]. In whole-array operations,
/// by `vmap`.
/// @code
/// auto distance = vectorize([](Array a, Array b) { return linalg::norm(a - b); },
///                           {.signature = "(n),(n)->()"});
/// Array d = distance(expand_dims(points, 1), points);   // [N, D] -> [N, N]
/// @endcode
/// @param f  Takes Arrays and returns a tree of Array. Numbers that it shall not map over are for
///   it to capture.
/// @param options  The dimensions that it works on.
/// @param location  The line named in messages.
///
/// Calls throw:
/// @throws ValueError if the signature can't be read, or states another number of arguments or
///   results.
/// @throws ShapeError if arguments lack dimensions, sizes of one name differ, leading dimensions
///   don't broadcast, or a result doesn't fit the signature.
template <class F>
auto vectorize(F f, VectorizeOptions options = {}, Location location = Location::current()) {
  return internal::VectorizedFunction<std::decay_t<F>>(std::move(f), std::move(options), location);
}

}  // namespace tessera
