// SPDX-License-Identifier: Apache-2.0
// Positions of nonzero elements, and arrays as sets: masks of a sorted array, compacted.
#include <tessera/ops/sets.h>

#include <algorithm>

#include <tessera/ops/creation.h>
#include <tessera/ops/elementwise.h>
#include <tessera/ops/gather_scatter.h>
#include <tessera/ops/indexing.h>
#include <tessera/ops/reductions.h>
#include <tessera/ops/shape_ops.h>
#include <tessera/ops/sorting.h>

#include "src/base/arrays/literal_util.h"
#include "src/frontend/ops/indexed/gather.h"
#include "src/frontend/ops/indexed/scatter.h"
#include "src/frontend/ops/moves.h"
#include "src/frontend/ops/numpy/sorting.h"

namespace tessera {

using frontend::as_one_program;
using frontend::Combine;
using frontend::composed;
using frontend::program_constant;
using frontend::shape_of;
using internal::impl_of;

namespace {

Array as_vector(const Array& x, Location l) { return frontend::reshaped(x, {x.size()}, l); }

Array truth(const Array& x, Location l) {
  if (x.dtype() == DType::pred) return x;
  return not_equal({x, l}, {frontend::constant(x.dtype(), 0), l});
}

/// The size that was given, or the number that `count` makes, which must not be traced.
std::int64_t settled_size(const std::string& op, std::optional<std::int64_t> size,
                          const std::vector<Array>& from, Location l,
                          const std::function<Array()>& count) {
  if (size) {
    if (*size < 0) {
      throw ValueError(op + ": the size is " + std::to_string(*size) + "; give 0 or more", l);
    }
    return *size;
  }
  for (const Array& x : from) {
    if (!x.is_tracer()) continue;
    throw TracerError(op +
                          ": without a size the result's shape would depend on the values of the "
                          "traced " +
                          x.type_string(),
                      l);
  }
  return count().item<std::int64_t>(l);
}

void need_scalar_fill(const std::string& op, const std::optional<Array>& fill, Location l) {
  if (fill && impl_of(*fill, l).shape.rank() != 0) {
    throw ShapeError(op + ": the fill value must be a scalar, got " + fill->type_string(), l);
  }
}

/// For each of `size` places the position of the place-th true element of a vector; those without
/// one have `nowhere`.
Array places_of(const Array& mask, std::int64_t size, std::int64_t nowhere, Location l,
                const std::string& op) {
  const std::int64_t n = mask.size();
  const Array start =
      frontend::broadcasted(program_constant(Literal::scalar(s32, nowhere)), {size}, l);
  if (n == 0 || size == 0) return start;
  const Operand numbers{cumsum({frontend::converted(mask, s32, l), l}, 0), l};
  // False elements are scattered out of range.
  const Array at = where({mask, l}, {subtract(numbers, {program_constant(s32, 1), l}), l},
                         {program_constant(Literal::scalar(s32, size)), l});
  ir::ScatterAttrs attrs;
  attrs.inserted_window_dims = {0};
  attrs.scatter_dims_to_operand_dims = {0};
  return frontend::scattered(start, frontend::index_vectors({at}, l, op), iota(s32, {n}, 0, l),
                             attrs, Combine::replace, l, op);
}

Array count_of(const Array& mask, Location l) {
  return sum({frontend::converted(mask, s32, l), l});
}

/// Rows of x at places along dim 0; those at or past `count` (a scalar) are `fill`.
Array rows_at(const Array& x, const Array& places, const Array& count, const Array& fill,
              Location l, const std::string& op) {
  const std::int64_t size = places.size();
  Dims dims = x.shape();
  dims[0] = size;
  if (x.shape()[0] == 0 || size == 0) return frontend::broadcasted(fill, dims, l);
  const Array y = frontend::gathered(x, {places}, {0}, 0, l, op);
  const Array present = less({iota(s32, {size}, 0, l), l}, {count, l});
  return frontend::filled(y, present, {0}, fill, l, op);
}

}  // namespace

std::vector<Array> nonzero(Operand x, const SizeOptions& options) {
  const Shape& shape = shape_of(x);
  const Location l = x.location;
  if (shape.rank() == 0) {
    throw ShapeError("nonzero of a scalar; use atleast_1d(x)", l);
  }
  need_scalar_fill("nonzero", options.fill_value, l);
  const std::int64_t size =
      settled_size("nonzero", options.size, {x.array}, l, [&] { return count_nonzero(x); });
  return as_one_program("nonzero", l, [&] {
    const Array mask = as_vector(truth(x.array, l), l);
    const Array count = count_of(mask, l);
    const Array places = places_of(mask, size, 0, l, "nonzero");
    const Array fill = options.fill_value ? frontend::converted(*options.fill_value, s32, l)
                                          : program_constant(s32, 0);
    const Array present = less({iota(s32, {size}, 0, l), l}, {count, l});
    std::vector<Array> out;
    std::int64_t stride = std::max<std::int64_t>(shape.element_count(), 1);
    for (std::int64_t d = 0; d < shape.rank(); ++d) {
      const std::int64_t n = std::max<std::int64_t>(shape.dim(d), 1);
      stride /= n;
      Operand at{places, l};
      if (stride > 1) at.array = floor_divide(at, {program_constant(s32, double(stride)), l});
      if (d > 0) at.array = remainder(at, {program_constant(s32, double(n)), l});
      out.push_back(frontend::filled(at.array, present, {0}, fill, l, "nonzero"));
    }
    return out;
  });
}

Array flatnonzero(Operand x, const SizeOptions& options) {
  return nonzero({as_vector(x.array, x.location), x.location}, options)[0];
}

Array argwhere(Operand x, const SizeOptions& options) {
  const Location l = x.location;
  if (shape_of(x).rank() == 0) {
    const Array rows = nonzero({as_vector(x.array, l), l}, options)[0];
    return frontend::reshaped(frontend::sliced_dim(rows, 0, 0, 0, l), {rows.size(), 0}, l);
  }
  return stack(nonzero(x, options), 1, l);
}

Array compress(Operand condition, Operand x, std::optional<std::int64_t> axis,
               const SizeOptions& options) {
  const Location l = frontend::where_of(condition, x);
  const Shape& given = impl_of(condition.array, l).shape;
  const Shape& shape = impl_of(x.array, l).shape;
  need_scalar_fill("compress", options.fill_value, l);
  const std::int64_t dim = axis ? frontend::normalize_axis("compress", *axis, shape.rank(), l) : 0;
  const std::int64_t n = axis ? shape.dim(dim) : shape.element_count();
  if (given.rank() != 1 || given.dim(0) > n) {
    throw ShapeError("compress of " + shape.to_string() + " by " + given.to_string() +
                         ": the condition must be a vector of at most " + std::to_string(n) +
                         " elements",
                     l);
  }
  const std::int64_t size = settled_size("compress", options.size, {condition.array}, l, [&] {
    return count_nonzero({condition.array, l});
  });
  return composed("compress", l, [&] {
    const Array rows = axis ? frontend::moved_dim(x.array, dim, 0, l) : as_vector(x.array, l);
    const Array mask = truth(condition.array, l);
    const Array fill = options.fill_value ? frontend::converted(*options.fill_value, shape.dtype, l)
                                          : program_constant(shape.dtype, 0);
    const Array y = rows_at(rows, places_of(mask, size, 0, l, "compress"), count_of(mask, l), fill,
                            l, "compress");
    return frontend::moved_dim(y, 0, dim, l);
  });
}

Array extract(Operand condition, Operand x, const SizeOptions& options) {
  const Location l = frontend::where_of(condition, x);
  return compress({as_vector(condition.array, l), l}, {as_vector(x.array, l), l}, 0, options);
}

namespace {

/// Vectors or rows in ascending order, where they come from, and which ones differ from the one
/// before.
struct Sorted {
  Array rows, origin, first;
};

Sorted sorted_rows(const Array& x, bool equal_nan, Location l) {
  const std::int64_t n = x.shape()[0];
  const std::int64_t width = n == 0 ? 0 : x.size() / n;
  const Array table = x.ndim() == 1 ? x : frontend::reshaped(x, {n, width}, l);
  std::vector<Array> keys;
  if (x.ndim() == 1) {
    keys.push_back(table);
  } else {
    for (std::int64_t c = 0; c < width; ++c) {
      keys.push_back(as_vector(frontend::sliced_dim(table, 1, c, c + 1, l), l));
    }
  }
  keys.push_back(iota(s32, {n}, 0, l));
  const auto count = std::int64_t(keys.size()) - 1;
  if (count > 0) keys = frontend::sorted_together(keys, 0, false, l, "unique", count);
  Sorted out;
  out.origin = keys.back();
  out.rows = x.ndim() == 1 ? keys[0] : frontend::gathered(x, {out.origin}, {0}, 0, l, "unique");
  const Array start = frontend::broadcasted(program_constant(DType::pred, 1), {1}, l);
  Array differs;
  for (std::int64_t k = 0; k < count; ++k) {
    const Operand now{frontend::sliced_dim(keys[std::size_t(k)], 0, 1, n, l), l};
    const Operand before{frontend::sliced_dim(keys[std::size_t(k)], 0, 0, n - 1, l), l};
    Array other = not_equal(now, before);
    const DType t = now.array.dtype();
    if (equal_nan && (is_floating(t) || is_complex(t))) {
      const Operand both{logical_and({isnan(now), l}, {isnan(before), l}), l};
      other = logical_and({other, l}, {logical_not(both), l});
    }
    differs = differs.valid() ? logical_or({differs, l}, {other, l}) : other;
  }
  if (!differs.valid()) {
    differs = frontend::broadcasted(program_constant(DType::pred, 0), {n - 1}, l);
  }
  out.first = frontend::concatenated({start, differs}, 0, l, "unique");
  return out;
}

/// x with the axis in front, or flattened.
Array rows_of(const Array& x, const std::optional<std::int64_t>& axis, Location l) {
  return axis ? frontend::moved_dim(x, *axis, 0, l, "unique") : as_vector(x, l);
}

/// values, indices, inverse and counts.
std::vector<Array> unique_parts(const Operand& x, const UniqueOptions& given, bool values_only) {
  const Location l = x.location;
  const Shape& shape = shape_of(x);
  UniqueOptions options = given;
  need_scalar_fill("unique", options.fill_value, l);
  if (options.axis) {
    options.axis = frontend::normalize_axis("unique", *options.axis, shape.rank(), l);
  }
  const std::int64_t n = options.axis ? shape.dim(*options.axis) : shape.element_count();
  const std::int64_t size = settled_size("unique", options.size, {x.array}, l, [&] {
    return composed("unique", l, [&] {
      if (n == 0) return program_constant(s32, 0);
      return count_of(sorted_rows(rows_of(x.array, options.axis, l), options.equal_nan, l).first,
                      l);
    });
  });
  if (n == 0 && size > 0 && !options.fill_value) {
    throw ShapeError("unique of " + shape.to_string() + " with size " + std::to_string(size) +
                         ": there are no elements; give a fill value",
                     l);
  }
  return as_one_program("unique", l, [&]() -> std::vector<Array> {
    const Array rows = rows_of(x.array, options.axis, l);
    const std::int64_t dim = options.axis.value_or(0);
    const Dims inverse_dims = options.axis ? Dims{n} : shape.dims;
    if (n == 0) {
      Dims dims = rows.shape();
      dims[0] = size;
      const Array fill = options.fill_value
                             ? frontend::converted(*options.fill_value, shape.dtype, l)
                             : program_constant(shape.dtype, 0);
      const Array none = frontend::broadcasted(program_constant(s32, 0), {size}, l);
      return {frontend::moved_dim(frontend::broadcasted(fill, dims, l), 0, dim, l), none,
              frontend::broadcasted(program_constant(s32, 0), inverse_dims, l), none};
    }
    const Sorted sorted = sorted_rows(rows, options.equal_nan, l);
    const Array count = count_of(sorted.first, l);
    // Missing ones repeat the first, which is the smallest.
    const Array places = places_of(sorted.first, size, 0, l, "unique");
    Array values = size == 0 ? frontend::sliced_dim(sorted.rows, 0, 0, 0, l)
                             : frontend::gathered(sorted.rows, {places}, {0}, 0, l, "unique");
    if (options.fill_value && size > 0) {
      const Array present = less({iota(s32, {size}, 0, l), l}, {count, l});
      values =
          frontend::filled(values, present, {0},
                           frontend::converted(*options.fill_value, shape.dtype, l), l, "unique");
    }
    values = frontend::moved_dim(values, 0, dim, l, "unique");
    if (values_only) return {values};
    const Array indices = size == 0
                              ? frontend::sliced_dim(sorted.origin, 0, 0, 0, l)
                              : frontend::gathered(sorted.origin, {places}, {0}, 0, l, "unique");
    const Operand numbers{cumsum({frontend::converted(sorted.first, s32, l), l}, 0), l};
    const Array group = subtract(numbers, {program_constant(s32, 1), l});
    ir::ScatterAttrs attrs;
    attrs.inserted_window_dims = {0};
    attrs.scatter_dims_to_operand_dims = {0};
    const Array zeros = frontend::broadcasted(program_constant(s32, 0), {n}, l);
    const Array inverse =
        frontend::scattered(zeros, frontend::index_vectors({sorted.origin}, l, "unique"), group,
                            attrs, Combine::replace, l, "unique");
    const Array ones = frontend::broadcasted(program_constant(s32, 1), {n}, l);
    const Array counts = segment_sum({ones, l}, {group, l}, size);
    return {values, indices, frontend::reshaped(inverse, inverse_dims, l), counts};
  });
}

}  // namespace

Array unique(Operand x, const UniqueOptions& options) { return unique_parts(x, options, true)[0]; }
UniqueResult unique_all(Operand x, const UniqueOptions& options) {
  const std::vector<Array> parts = unique_parts(x, options, false);
  return {parts[0], parts[1], parts[2], parts[3]};
}
std::pair<Array, Array> unique_counts(Operand x, const UniqueOptions& options) {
  const std::vector<Array> parts = unique_parts(x, options, false);
  return {parts[0], parts[3]};
}
std::pair<Array, Array> unique_inverse(Operand x, const UniqueOptions& options) {
  const std::vector<Array> parts = unique_parts(x, options, false);
  return {parts[0], parts[2]};
}
Array unique_values(Operand x, const SizeOptions& options) {
  return unique(x, {.size = options.size, .fill_value = options.fill_value});
}

Array isin(Operand x, Operand test, bool invert) {
  const Location l = x.location;
  const Dims dims = shape_of(x).dims;
  return composed("isin", l, [&] {
    const DType t = frontend::promote({x.array, test.array}, l).dtype;
    const Operand elements{as_vector(frontend::converted(x.array, t, l), l), l};
    const Operand others{as_vector(frontend::converted(test.array, t, l), l), l};
    Array found;
    if (others.array.size() == 0 || elements.array.size() == 0) {
      found = frontend::broadcasted(program_constant(DType::pred, 0), elements.array.shape(), l);
    } else {
      const Operand ordered{sort(others), l};
      const Operand places{searchsorted(ordered, elements), l};
      found = equal({take(ordered, places, 0, TakeMode::clip), l}, elements);
    }
    if (invert) found = logical_not({found, l});
    return frontend::reshaped(found, dims, l);
  });
}

namespace {

enum class SetOp { both, first_only, one_only };

/// Sorted elements of a (and b), of which those are kept that the operation wants.
struct Kept {
  Array values, mask;
};

Kept kept(SetOp op, const Array& a, const Array& b, Location l) {
  // Only elements of a are left of a difference: it keeps a's dtype.
  const DType t = op == SetOp::first_only ? a.dtype() : frontend::promote({a, b}, l).dtype;
  const Operand x{as_vector(frontend::converted(a, t, l), l), l};
  const Operand y{as_vector(op == SetOp::first_only ? b : frontend::converted(b, t, l), l), l};
  const Array all =
      op == SetOp::one_only ? frontend::concatenated({x.array, y.array}, 0, l) : x.array;
  if (all.size() == 0) {
    return {all, frontend::broadcasted(program_constant(DType::pred, 0), {0}, l)};
  }
  const Sorted sorted = sorted_rows(all, true, l);
  const Operand values{sorted.rows, l};
  Array wanted;
  if (op == SetOp::one_only) {
    wanted = logical_xor({isin(values, x), l}, {isin(values, y), l});
  } else {
    wanted = isin(values, y, op == SetOp::first_only);
  }
  return {sorted.rows, logical_and({sorted.first, l}, {wanted, l})};
}

/// Missing elements are the first one, or 0 where `zero` says so or there is none.
Array set_operation(const std::string& name, SetOp op, const Operand& a, const Operand& b,
                    const SizeOptions& options, bool zero) {
  const Location l = a.location;
  (void)shape_of(a);
  (void)impl_of(b.array, l);
  need_scalar_fill(name, options.fill_value, l);
  const std::int64_t size = settled_size(name, options.size, {a.array, b.array}, l, [&] {
    return composed(name, l, [&] { return count_of(kept(op, a.array, b.array, l).mask, l); });
  });
  return composed(name, l, [&] {
    const Kept from = kept(op, a.array, b.array, l);
    const DType t = from.values.dtype();
    const Array count = count_of(from.mask, l);
    const Array places = places_of(from.mask, size, 0, l, name);
    Array fill = program_constant(t, 0);
    if (options.fill_value) {
      fill = frontend::converted(*options.fill_value, t, l);
    } else if (!zero && size > 0 && from.values.size() > 0) {
      const Array first = frontend::reshaped(
          frontend::gathered(from.values, {frontend::sliced_dim(places, 0, 0, 1, l)}, {0}, 0, l,
                             name),
          {}, l);
      fill = where({greater({count, l}, {program_constant(s32, 0), l}), l}, {first, l}, {fill, l});
    }
    return rows_at(from.values, places, count, fill, l, name);
  });
}

}  // namespace

Array union1d(Operand a, Operand b, const SizeOptions& options) {
  const Location l = a.location;
  const Array both = concatenate({as_vector(a.array, l), as_vector(b.array, l)}, 0, l);
  return unique({both, l}, {.size = options.size, .fill_value = options.fill_value});
}
Array intersect1d(Operand a, Operand b, const SizeOptions& options) {
  return set_operation("intersect1d", SetOp::both, a, b, options, false);
}
Array setdiff1d(Operand a, Operand b, const SizeOptions& options) {
  return set_operation("setdiff1d", SetOp::first_only, a, b, options, true);
}
Array setxor1d(Operand a, Operand b, const SizeOptions& options) {
  return set_operation("setxor1d", SetOp::one_only, a, b, options, false);
}

}  // namespace tessera
