// SPDX-License-Identifier: Apache-2.0
// What the array API's names mean where it is more than another name.
#include <tessera/ops/names.h>
#include <tessera/ops/sorting.h>

#include <functional>

#include "src/frontend/ops/moves.h"
#include "src/frontend/ops/special/special_function.h"

namespace tessera {

using frontend::composed;
using frontend::shape_of;
using internal::impl_of;

Array fabs(Operand x) {
  return composed("fabs", x.location,
                  [&] { return abs(Operand(frontend::inexact_operands("fabs", {x})[0])); });
}

namespace {

Array running(const char* name, const Operand& x, std::optional<std::int64_t> axis,
              const CumulativeOptions& options, bool product) {
  const Location l = x.location;
  const Shape& shape = shape_of(x);
  if (!axis && shape.rank() != 1) {
    throw ValueError(std::string(name) + " of " + shape.to_string() +
                         " needs an axis; only vectors have no choice",
                     l);
  }
  const std::int64_t dim = frontend::normalize_axis(name, axis.value_or(0), shape.rank(), l);
  return composed(name, l, [&] {
    // Sums have the dtype of `sum`, products keep theirs.
    ReduceOptions as_sum;
    as_sum.dtype = options.dtype;
    if (product && !options.dtype) as_sum.dtype = shape.dtype;
    const Array v = sum(x, Dims{}, as_sum);
    const Array out = product ? cumprod({v, l}, dim) : cumsum({v, l}, dim);
    if (!options.include_initial) return out;
    std::vector<ir::PadDim> margins(shape.dims.size());
    margins[std::size_t(dim)].low = 1;
    const Array first = frontend::program_constant(out.dtype(), product ? 1 : 0);
    return frontend::padded(out, first, margins, l, name);
  });
}

}  // namespace

Array cumulative_sum(Operand x, std::optional<std::int64_t> axis,
                     const CumulativeOptions& options) {
  return running("cumulative_sum", x, axis, options, false);
}
Array cumulative_prod(Operand x, std::optional<std::int64_t> axis,
                      const CumulativeOptions& options) {
  return running("cumulative_prod", x, axis, options, true);
}

Array concat(const std::vector<Array>& arrays, std::optional<std::int64_t> axis,
             Location location) {
  if (axis) return concatenate(arrays, *axis, location);
  return composed("concat", location, [&] {
    std::vector<Array> flat;
    for (const Array& a : arrays) flat.push_back(ravel({a, location}));
    return concatenate(flat, 0, location);
  });
}

Array matrix_transpose(Operand x) {
  if (shape_of(x).rank() < 2) {
    throw ShapeError("matrix_transpose of " + shape_of(x).to_string() + "; give rank 2 or more",
                     x.location);
  }
  return swapaxes(x, -1, -2);
}
Array fliplr(Operand x) {
  if (shape_of(x).rank() < 2) {
    throw ShapeError("fliplr of " + shape_of(x).to_string() + "; give rank 2 or more", x.location);
  }
  return flip(x, 1);
}
Array flipud(Operand x) {
  if (shape_of(x).rank() < 1) {
    throw ShapeError("flipud of " + shape_of(x).to_string() + "; give rank 1 or more", x.location);
  }
  return flip(x, 0);
}

std::vector<std::int64_t> broadcast_shapes(const std::vector<std::vector<std::int64_t>>& shapes,
                                           Location location) {
  Dims out;
  for (const Dims& dims : shapes) {
    out = frontend::broadcast_shapes("broadcast_shapes", out, dims, location);
  }
  return out;
}

Array asarray(Operand x, std::optional<DType> dtype) {
  const DType t = dtype.value_or(shape_of(x).dtype);
  return dtype ? astype(x, t) : frontend::converted(x.array, t, x.location);
}

Array iscomplex(Operand x) {
  return composed("iscomplex", x.location, [&] {
    const frontend::Located part{imag(x), x.location};
    return (part != part.constant(0)).array;
  });
}
Array isreal(Operand x) {
  return composed("isreal", x.location, [&] {
    const frontend::Located part{imag(x), x.location};
    return (part == part.constant(0)).array;
  });
}
bool iscomplexobj(const Array& x, Location location) { return is_complex(x.dtype(location)); }
bool isrealobj(const Array& x, Location location) { return !is_complex(x.dtype(location)); }
bool isscalar(const Array& x, Location location) { return x.ndim(location) == 0; }

bool isdtype(DType dtype, std::string_view kind, Location location) {
  if (kind == "bool") return dtype == DType::pred;
  if (kind == "signed integer") return is_signed_integer(dtype);
  if (kind == "unsigned integer") return is_unsigned_integer(dtype);
  if (kind == "integral") return is_integer(dtype);
  if (kind == "real floating") return is_floating(dtype);
  if (kind == "complex floating") return is_complex(dtype);
  if (kind == "numeric") return is_integer(dtype) || is_floating(dtype) || is_complex(dtype);
  throw ValueError("isdtype: no kind \"" + std::string(kind) +
                       "\"; valid are bool, signed integer, unsigned integer, integral, real "
                       "floating, complex floating and numeric",
                   location);
}

Array sort_complex(Operand x) {
  return composed("sort_complex", x.location, [&] {
    const DType t = shape_of(x).dtype;
    return frontend::converted(sort(x), real_type(t) == f64 ? c128 : c64, x.location);
  });
}

}  // namespace tessera
