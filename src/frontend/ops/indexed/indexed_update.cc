// SPDX-License-Identifier: Apache-2.0
// Indexed updates: boxes of static positions are sliced out and put back, arrays of positions
// scatter.
#include <tessera/ops/indexed_update.h>

#include <algorithm>
#include <numeric>

#include <tessera/ops/creation.h>
#include <tessera/ops/elementwise.h>
#include <tessera/ops/shape_ops.h>

#include "src/frontend/ops/indexed/gather.h"
#include "src/frontend/ops/indexed/index_plan.h"
#include "src/frontend/ops/indexed/scatter.h"
#include "src/frontend/ops/moves.h"

namespace tessera {

using frontend::Combine;
using frontend::composed;
using frontend::IndexPlan;
using frontend::shape_of;
using internal::impl_of;

namespace {

/// Where an update goes: positions and attributes of the scatter into the inner part.
struct ScatterSite {
  Array at;
  ir::ScatterAttrs attrs;
};

ScatterSite site_of(const IndexPlan& plan, const IndexOptions& options, Location location,
                    const std::string& name) {
  std::vector<Array> places = frontend::index_arrays(name, plan.places, location);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::int64_t size = plan.inner[std::size_t(plan.picked[i])];
    places[i] = frontend::positions_in_mode(places[i], size, options.mode, location);
  }
  ScatterSite site;
  site.at = frontend::index_vectors(places, location, name);
  const auto batch = std::int64_t(plan.places_shape.size());
  const auto left = std::int64_t(plan.inner.size() - plan.picked.size());
  for (std::int64_t d = 0; d < left; ++d) {
    site.attrs.update_window_dims.push_back(d < plan.before ? d : d + batch);
  }
  site.attrs.inserted_window_dims = plan.picked;
  site.attrs.scatter_dims_to_operand_dims = plan.picked;
  site.attrs.indices_are_sorted = options.indices_are_sorted;
  site.attrs.unique_indices = options.unique_indices;
  return site;
}

/// The values broadcast to what the index picks, in the order of dims of the gather.
Array spread(const std::string& op, const Array& values, const IndexPlan& plan, Location location) {
  const Dims& dims = values.shape();
  bool fits = dims.size() <= plan.result.size();
  for (std::size_t i = 1; fits && i <= dims.size(); ++i) {
    const std::int64_t n = dims[dims.size() - i];
    fits = n == 1 || n == plan.result[plan.result.size() - i];
  }
  if (!fits) {
    throw ShapeError(op + ": values " + values.type_string() +
                         " don't broadcast to the indexed elements, of shape " +
                         to_string(plan.result),
                     location);
  }
  return frontend::reshaped(frontend::broadcasted(values, plan.result, location), plan.gathered,
                            location);
}

Array combined(const Array& x, const Array& values, Combine combine, Location location,
               const std::string& name) {
  const std::optional<ir::Opcode> op = frontend::opcode_of(combine, x.dtype());
  if (!op) return values;
  const std::vector<Array> operands{x, values};
  return frontend::apply(*op, operands, {}, location, name);
}

Array updated(const std::string& op, const Operand& x, const std::vector<IndexItem>& items,
              const Operand& values, const IndexOptions& options, Combine combine,
              bool negated = false) {
  if (options.out_sharding) {
    return frontend::sharded_as_requested(options, x.location, [&](const IndexOptions& plain) {
      return updated(op, x, items, values, plain, combine, negated);
    });
  }
  const Shape shape = shape_of(x);
  const Location l = x.location;
  (void)impl_of(values.array, l);
  frontend::need_combinable(op, combine, shape.dtype, l);
  if (is_complex(values.array.dtype()) && !is_complex(shape.dtype)) {
    throw DTypeError(op + ": the values are " + values.array.type_string() + " and the array " +
                         shape.to_string() + ", which has no imaginary parts",
                     l);
  }
  const IndexPlan plan = frontend::index_plan(op, items, shape, l);
  return composed(op, l, [&] {
    // Computed in the common dtype, then converted back.
    const DType t = combine == Combine::replace
                        ? shape.dtype
                        : frontend::promote({x.array, values.array}, l).dtype;
    Array v = spread(op, frontend::converted(values.array, t, l), plan, l);
    if (negated) v = negative({v, l});
    if (v.size() == 0) return x.array;
    const bool weak = x.array.weak_type();
    const Array whole = frontend::converted(x.array, t, l, t == shape.dtype && weak);
    Array inner = frontend::inner_of(whole, plan, l, op);
    if (plan.places.empty()) {
      inner = combined(inner, v, combine, l, op);
    } else {
      const ScatterSite site = site_of(plan, options, l, op);
      inner = frontend::scattered(inner, site.at, v, site.attrs, combine, l, op);
    }
    return frontend::converted(frontend::with_inner(whole, inner, plan, l, op), shape.dtype, l,
                               weak);
  });
}

bool has_arrays(const std::vector<IndexItem>& items) {
  return std::any_of(items.begin(), items.end(), [](const IndexItem& item) {
    return item.kind() == IndexItem::Kind::array && item.array().dtype() != DType::pred;
  });
}

}  // namespace

IndexedArray at(Operand x, std::vector<IndexItem> items) {
  (void)shape_of(x);
  for (const IndexItem& item : items) {
    if (item.kind() == IndexItem::Kind::array) (void)impl_of(item.array(), x.location);
  }
  return IndexedArray(std::move(x), std::move(items));
}

Array IndexedArray::get(const IndexOptions& options) const {
  if (options.out_sharding) {
    return frontend::sharded_as_requested(options, x_.location,
                                          [&](const IndexOptions& plain) { return get(plain); });
  }
  const Location l = x_.location;
  const IndexPlan plan = frontend::index_plan("at.get", items_, shape_of(x_), l);
  return composed("at.get", l, [&] {
    const Array inner = frontend::inner_of(x_.array, plan, l, "at.get");
    return frontend::reshaped(frontend::picked(inner, plan, options, l, "at.get"), plan.result, l);
  });
}

Array IndexedArray::set(Operand values, const IndexOptions& options) const {
  return updated("at.set", x_, items_, values, options, Combine::replace);
}
Array IndexedArray::add(Operand values, const IndexOptions& options) const {
  return updated("at.add", x_, items_, values, options, Combine::add);
}
Array IndexedArray::subtract(Operand values, const IndexOptions& options) const {
  if (shape_of(x_).dtype == DType::pred) {
    throw DTypeError("at.subtract from " + shape_of(x_).to_string() + "; use logical_xor",
                     x_.location);
  }
  return updated("at.subtract", x_, items_, values, options, Combine::add, true);
}
Array IndexedArray::multiply(Operand values, const IndexOptions& options) const {
  return updated("at.multiply", x_, items_, values, options, Combine::multiply);
}
Array IndexedArray::divide(Operand values, const IndexOptions& options) const {
  if (options.out_sharding) {
    return frontend::sharded_as_requested(
        options, x_.location, [&](const IndexOptions& plain) { return divide(values, plain); });
  }
  const Location l = x_.location;
  return composed("at.divide", l, [&] {
    const Array ones =
        frontend::broadcasted(frontend::program_constant(x_.array.dtype(), 1), x_.array.shape(), l);
    const Array divisor =
        updated("at.divide", {ones, l}, items_, values, options, Combine::multiply);
    return tessera::divide(x_, {divisor, l});
  });
}
Array IndexedArray::min(Operand values, const IndexOptions& options) const {
  return updated("at.min", x_, items_, values, options, Combine::minimum);
}
Array IndexedArray::max(Operand values, const IndexOptions& options) const {
  return updated("at.max", x_, items_, values, options, Combine::maximum);
}
Array IndexedArray::power(Operand values, const IndexOptions& options) const {
  if (options.out_sharding) {
    return frontend::sharded_as_requested(
        options, x_.location, [&](const IndexOptions& plain) { return power(values, plain); });
  }
  const Location l = x_.location;
  const DType t = shape_of(x_).dtype;
  return composed("at.power", l, [&] {
    if (!has_arrays(items_) || options.unique_indices) {
      const Array exponents = frontend::converted(values.array, t, l);
      const Array now = get(options);
      return set({tessera::power({now, l}, {exponents, l}), l}, options);
    }
    // Exponents of elements that are indexed several times multiply.
    const Array ones = frontend::broadcasted(frontend::program_constant(t, 1), x_.array.shape(), l);
    const Array all = updated("at.power", {ones, l}, items_, values, options, Combine::multiply);
    return tessera::power(x_, {all, l});
  });
}

Array IndexedArray::apply(const std::function<Array(Array)>& f, const IndexOptions& options) const {
  if (options.out_sharding) {
    return frontend::sharded_as_requested(
        options, x_.location, [&](const IndexOptions& plain) { return apply(f, plain); });
  }
  const Location l = x_.location;
  const Shape shape = shape_of(x_);
  if (!has_arrays(items_) || options.unique_indices) {
    return composed("at.apply", l, [&] {
      const Array now = get(options);
      const Array then = f(now);
      if (impl_of(then, l).shape.dims != now.shape()) {
        throw ShapeError("at.apply: the function must be elementwise, but makes " +
                             then.type_string() + " of " + now.type_string(),
                         l);
      }
      return set({then, l}, options);
    });
  }
  const IndexPlan plan = frontend::index_plan("at.apply", items_, shape, l);
  return composed("at.apply", l, [&] {
    const Array inner = frontend::inner_of(x_.array, plan, l, "at.apply");
    const Array nothing =
        frontend::broadcasted(frontend::program_constant(shape.dtype, 0), plan.gathered, l);
    if (nothing.size() == 0) return x_.array;
    const ScatterSite site = site_of(plan, options, l, "at.apply");
    const Array after = frontend::scattered(inner, site.at, nothing, site.attrs, f, l, "at.apply");
    return frontend::with_inner(x_.array, after, plan, l, "at.apply");
  });
}

Array put_along_axis(Operand x, Operand indices, Operand values, std::optional<std::int64_t> axis,
                     IndexMode mode) {
  const Location l = x.location;
  frontend::need_integers("put_along_axis", indices.array, l);
  const Shape shape = shape_of(x);
  if (!axis) {
    return composed("put_along_axis", l, [&] {
      return frontend::reshaped(put_along_axis({ravel(x), l}, indices, values, 0, mode), shape.dims,
                                l);
    });
  }
  const std::int64_t rank = shape.rank();
  const std::int64_t dim = frontend::normalize_axis("put_along_axis", *axis, rank, l);
  bool fits = indices.array.ndim() == rank;
  for (std::int64_t d = 0; fits && d < rank; ++d) {
    const std::int64_t n = indices.array.shape()[std::size_t(d)];
    fits = d == dim || n == shape.dim(d) || n == 1;
  }
  if (!fits) {
    throw ShapeError("put_along_axis: the array is " + shape.to_string() + " and the indices " +
                         indices.array.type_string() +
                         "; they must have one rank and, but for the axis, equal sizes or 1",
                     l);
  }
  return composed("put_along_axis", l, [&] {
    Dims to = shape.dims;
    to[std::size_t(dim)] = indices.array.shape()[std::size_t(dim)];
    Array at = frontend::index_arrays("put_along_axis", {indices.array}, l)[0];
    const Array v = frontend::broadcasted(
        broadcast_to({frontend::converted(values.array, shape.dtype, l), l}, at.shape()), to, l);
    at = frontend::broadcasted(at, to, l);
    if (at.size() == 0) return x.array;
    at = frontend::positions_in_mode(at, shape.dim(dim), mode, l);
    ir::ScatterAttrs attrs;
    for (std::int64_t d = 0; d < rank; ++d) {
      if (d == dim) continue;
      attrs.input_batching_dims.push_back(d);
      attrs.scatter_indices_batching_dims.push_back(d);
    }
    attrs.inserted_window_dims = {dim};
    attrs.scatter_dims_to_operand_dims = {dim};
    return frontend::scattered(x.array, frontend::index_vectors({at}, l, "put_along_axis"), v,
                               attrs, Combine::replace, l, "put_along_axis");
  });
}

namespace {

/// The elements of an array in order, repeated or cut to `count`.
Array repeated_to(const Array& values, std::int64_t count, Location location) {
  const Array flat = frontend::reshaped(values, {values.size()}, location);
  const std::int64_t times = (count + values.size() - 1) / values.size();
  return frontend::sliced_dim(tile({flat, location}, {times}), 0, 0, count, location);
}

}  // namespace

Array put(Operand x, Operand indices, Operand values, IndexMode mode) {
  const Location l = x.location;
  const Shape shape = shape_of(x);
  frontend::need_integers("put", indices.array, l);
  const std::int64_t count = indices.array.size();
  if (count > 0 && values.array.size() == 0) {
    throw ValueError("put at " + indices.array.type_string() + ": there are no values", l);
  }
  if (count == 0) return x.array;
  return composed("put", l, [&] {
    const Array flat = frontend::reshaped(x.array, {shape.element_count()}, l);
    const Array v = repeated_to(frontend::converted(values.array, shape.dtype, l), count, l);
    IndexOptions options;
    options.mode = mode;
    Array places = frontend::reshaped(indices.array, {count}, l);
    // As in numpy, negative ones are clamped rather than counted from the end.
    if (mode == IndexMode::clip) places = maximum({places, l}, 0);
    return frontend::reshaped(at({flat, l}, {places}).set({v, l}, options), shape.dims, l);
  });
}

Array place(Operand x, Operand mask, Operand values) {
  const Location l = x.location;
  const Shape shape = shape_of(x);
  if (impl_of(mask.array, l).shape.element_count() != shape.element_count()) {
    throw ShapeError("place in " + shape.to_string() + " by the mask " + mask.array.type_string() +
                         ": they must have equally many elements",
                     l);
  }
  if (values.array.size() == 0) throw ValueError("place: there are no values", l);
  const std::int64_t count = shape.element_count();
  if (count == 0) return x.array;
  return composed("place", l, [&] {
    const Array flags = frontend::reshaped(mask.array, {count}, l);
    const Operand on{not_equal({flags, l}, {frontend::constant(flags.dtype(), 0), l}), l};
    const Array v = repeated_to(frontend::converted(values.array, shape.dtype, l), count, l);
    // The n-th true element takes the n-th value.
    const Operand numbers{cumsum({frontend::converted(on.array, s32, l), l}, 0), l};
    const Operand places{subtract(numbers, {frontend::constant(s32, 1), l}), l};
    const Array chosen = take({v, l}, places, 0, TakeMode::clip);
    return where({frontend::reshaped(on.array, shape.dims, l), l},
                 {frontend::reshaped(chosen, shape.dims, l), l}, x);
  });
}

Array fill_diagonal(Operand x, Operand value) {
  const Location l = x.location;
  const Shape shape = shape_of(x);
  const Dims& dims = shape.dims;
  const bool equal_sizes =
      std::all_of(dims.begin(), dims.end(), [&](std::int64_t n) { return n == dims[0]; });
  if (shape.rank() < 2 || (shape.rank() > 2 && !equal_sizes)) {
    throw ShapeError("fill_diagonal of " + shape.to_string() +
                         ": it needs rank 2, or a higher one and equal sizes",
                     l);
  }
  if (impl_of(value.array, l).shape.element_count() == 0) {
    throw ValueError("fill_diagonal: there are no values", l);
  }
  const std::int64_t n = *std::min_element(dims.begin(), dims.end());
  return composed("fill_diagonal", l, [&] {
    Array v = frontend::converted(value.array, shape.dtype, l);
    if (n == 0) return x.array;
    Array on = frontend::broadcasted(frontend::program_constant(DType::pred, 1), dims, l);
    const Operand first{iota(s32, dims, 0, l), l};
    for (std::int64_t d = 1; d < shape.rank(); ++d) {
      on = logical_and({on, l}, {equal(first, {iota(s32, dims, d, l), l}), l});
    }
    if (v.ndim() > 0) {
      v = repeated_to(v, n, l);
      const std::vector<ir::PadDim> margin{{0, dims[0] - n, 0}};
      v = frontend::padded(v, frontend::program_constant(shape.dtype, 0), margin, l);
      v = frontend::broadcast_in_dim(v, dims, {0}, l, "fill_diagonal");
    }
    return where({on, l}, {v, l}, x);
  });
}

}  // namespace tessera
