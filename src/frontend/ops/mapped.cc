// SPDX-License-Identifier: Apache-2.0
// Functions of vectors along axes of arrays, by vmap.
#include <tessera/ops/mapped.h>
#include <tessera/vmap.h>

#include "src/frontend/ops/internal.h"

namespace tessera::internal {

Array apply_along_axis(const std::function<Array(Operand)>& f, std::int64_t axis, Operand x) {
  const Location l = x.location;
  const std::int64_t rank = frontend::shape_of(x).rank();
  axis = frontend::normalize_axis("apply_along_axis", axis, rank, l);
  return frontend::composed("apply_along_axis", l, [&] {
    std::function<Array(Array)> g = [&](Array v) { return f({v, l}); };
    const auto mapped = [&](int in, int out) {
      VmapOptions options;
      options.in_axes = in;
      options.out_axes = out;
      options.name = "apply_along_axis";
      g = [inner = g, options, l](Array v) {
        return vmap([&](Array each) { return inner(each); }, options, l)(v, l);
      };
    };
    // The dims behind the axis come last in the results, those before it first.
    for (std::int64_t d = 1; d < rank - axis; ++d) mapped(int(d), -1);
    for (std::int64_t d = 0; d < axis; ++d) mapped(0, 0);
    return g(x.array);
  });
}

Array apply_over_axes(const std::function<Array(Operand, std::int64_t)>& f, Operand x,
                      const std::vector<std::int64_t>& axes) {
  const Location l = x.location;
  const std::int64_t rank = frontend::shape_of(x).rank();
  Array y = x.array;
  for (const std::int64_t axis : axes) {
    const std::int64_t dim = frontend::normalize_axis("apply_over_axes", axis, rank, l);
    const Array next = f({y, l}, dim);
    if (next.ndim(l) == rank) {
      y = next;
    } else if (next.ndim(l) == rank - 1) {
      y = expand_dims({next, l}, dim);
    } else {
      throw ShapeError("apply_over_axes of " + x.array.type_string() + ": the function returns " +
                           next.type_string() + " along axis " + std::to_string(dim) +
                           "; it must keep the rank or remove the axis",
                       l);
    }
  }
  return y;
}

}  // namespace tessera::internal
