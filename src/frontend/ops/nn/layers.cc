// SPDX-License-Identifier: Apache-2.0
// Layers that are neither convolutions nor normalisation.
#include <tessera/ops/layers.h>

#include <fmt/format.h>
#include <tessera/ops/creation.h>
#include <tessera/random.h>

#include "src/frontend/ops/located.h"

namespace tessera {

using frontend::choose;
using frontend::composed;
using frontend::Located;
using frontend::shape_of;

Array linear(Operand x, Operand weight, const std::optional<Array>& bias,
             const MatmulOptions& options) {
  const Location l = x.location;
  const Shape &a = shape_of(x), w = internal::impl_of(weight.array, l).shape;
  const auto misfit = [&](const std::string& why) {
    throw ShapeError("linear of " + a.to_string() + " and " + w.to_string() + ": " + why, l);
  };
  if (w.rank() != 2 || a.rank() < 1 || a.dims.back() != w.dim(0)) {
    misfit("x is [.., I] and the weight [I, O]");
  }
  if (bias && internal::impl_of(*bias, l).shape.dims != Dims{w.dim(1)}) {
    misfit("the bias is " + bias->type_string() + " and must have shape [" +
           std::to_string(w.dim(1)) + "]");
  }
  return composed("linear", l, [&] {
    const Array product = matmul(x, {weight.array, l}, options);
    return bias ? add({product, l}, {*bias, l}) : product;
  });
}

Array dropout(Operand key, Operand x, double rate, std::vector<std::int64_t> broadcast_dims) {
  const Location l = key.location;
  const Shape& shape = internal::impl_of(x.array, l).shape;
  if (!(rate >= 0 && rate <= 1)) {
    throw ValueError(fmt::format("dropout with rate {}; give 0 to 1", rate), l);
  }
  Dims decisions = shape.dims;
  for (std::int64_t d : broadcast_dims) {
    decisions[std::size_t(frontend::normalize_axis("dropout", d, shape.rank(), l))] = 1;
  }
  const DType t = frontend::to_inexact(shape.dtype);
  return composed("dropout", l, [&] {
    const Located v{frontend::converted(x.array, t, l), l};
    if (rate == 0) return v.array;
    if (rate == 1) return zeros(shape.dims, t, l);
    const Located keep{random::bernoulli({key.array, l}, {Array(1 - rate), l}, decisions), l};
    return choose(keep, v / (1 - rate), v.constant(0)).array;
  });
}

}  // namespace tessera
