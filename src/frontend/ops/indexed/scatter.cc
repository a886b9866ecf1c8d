// SPDX-License-Identifier: Apache-2.0
// gather and scatter with dimension numbers, and reductions over segments.
#include "src/frontend/ops/indexed/scatter.h"

#include <algorithm>
#include <numeric>

#include <tessera/ops/elementwise.h>
#include <tessera/ops/reductions.h>

#include "src/base/arrays/literal_util.h"
#include "src/base/contains.h"
#include "src/frontend/ops/identity.h"
#include "src/frontend/ops/indexed/gather.h"
#include "src/frontend/ops/moves.h"
#include "src/frontend/trace/traced_function.h"
#include "src/ir/cloner.h"

namespace tessera {

using frontend::Combine;
using frontend::composed;
using frontend::shape_of;
using internal::impl_of;
using ir::Opcode;

namespace frontend {

std::optional<Opcode> opcode_of(Combine combine, DType t) {
  const bool flags = t == DType::pred;
  switch (combine) {
    case Combine::replace:
      return std::nullopt;
    case Combine::add:
      return flags ? Opcode::or_ : Opcode::add;
    case Combine::multiply:
      return flags ? Opcode::and_ : Opcode::multiply;
    case Combine::minimum:
      return flags ? Opcode::and_ : Opcode::minimum;
    case Combine::maximum:
      return flags ? Opcode::or_ : Opcode::maximum;
  }
  return std::nullopt;
}

void need_combinable(const std::string& op, Combine combine, DType t, Location location) {
  if (is_complex(t) && (combine == Combine::minimum || combine == Combine::maximum)) {
    throw DTypeError(op + ": complex numbers (" + std::string(name(t)) + ") have no order",
                     location);
  }
}

namespace {

ir::Computation* replacing(ir::Module* module, DType t) {
  ir::Builder b(module->add_computation("replace"));
  b.parameter(0, Shape(t, {}));
  b.computation()->set_root(b.parameter(1, Shape(t, {})));
  return b.computation();
}

Array staged_scatter(const Array& x, const Array& indices, const Array& updates,
                     ir::ScatterAttrs attrs, const Callees& callees, Location location,
                     const std::string& name) {
  attrs.index_vector_dim = indices.ndim() - 1;
  const std::vector<Array> operands{x, indices, updates};
  return apply(Opcode::scatter, operands, std::move(attrs), location, name, nullptr, callees,
               x.weak_type());
}

}  // namespace

Array scattered(const Array& x, const Array& indices, const Array& updates, ir::ScatterAttrs attrs,
                Combine combine, Location location, const std::string& name) {
  const DType t = x.dtype();
  const auto callees = [&](ir::Module* module) {
    const std::optional<Opcode> op = opcode_of(combine, t);
    return std::vector<ir::Computation*>{op ? ir::scalar_computation(module, *op, t)
                                            : replacing(module, t)};
  };
  return staged_scatter(x, indices, updates, std::move(attrs), callees, location, name);
}

Array scattered(const Array& x, const Array& indices, const Array& updates, ir::ScatterAttrs attrs,
                const std::function<Array(Array)>& f, Location location, const std::string& name) {
  const Shape element(x.dtype(), {});
  const auto callees = [&](ir::Module* module) {
    const TracedFunction traced = trace_function(
        *Trace::current(), "apply", {AbstractValue{element, x.weak_type()}},
        [&](const std::vector<Array>& xs) {
          return std::vector<Array>{converted(f(xs[0]), element.dtype, location)};
        },
        location);
    if (!traced.captures.empty()) {
      throw TracerError(name + ": the function uses an array from outside (" +
                            traced.captures[0].type_string() +
                            "), which it can't if elements may be indexed several times; promise "
                            "unique_indices",
                        location);
    }
    if (!(traced.results[0].shape == element)) {
      throw ShapeError(name + ": the function must be elementwise, but makes " +
                           traced.results[0].shape.to_string() + " of " + element.to_string(),
                       location);
    }
    ir::Builder b(module->add_computation("apply_once"));
    const std::vector<ir::Instruction*> callee_arguments{b.parameter(0, element)};
    b.parameter(1, element);
    b.computation()->set_root(
        ir::inline_computation(b.computation(), *traced.computation, callee_arguments)
            ->operands()[0]);
    return std::vector<ir::Computation*>{b.computation()};
  };
  return staged_scatter(x, indices, updates, std::move(attrs), callees, location, name);
}

Array index_vectors(const std::vector<Array>& positions, Location location,
                    const std::string& name) {
  std::vector<Array> columns;
  Dims column = positions[0].shape();
  column.push_back(1);
  for (const Array& p : positions) columns.push_back(reshaped(p, column, location));
  return concatenated(columns, positions[0].ndim(), location, name);
}

}  // namespace frontend

namespace {

/// Index vectors of rank 1 or more in 32 or 64 bits.
Array checked_indices(const std::string& op, const Array& indices, Location location) {
  frontend::need_integers(op, indices, location);
  if (indices.ndim() == 0) {
    throw ShapeError(op + ": the indices are a scalar; their last dim holds index vectors",
                     location);
  }
  return frontend::index_arrays(op, {indices}, location)[0];
}

/// For each entry of an index vector the largest position of a window within the array.
Dims last_positions(const std::string& op, const Shape& shape, const Dims& map, const Dims& sizes,
                    const Array& indices, Location location) {
  const std::int64_t entries = indices.shape().back();
  bool fits = std::int64_t(map.size()) == entries;
  for (const std::int64_t d : map) fits = fits && d >= 0 && d < shape.rank();
  if (!fits || std::int64_t(sizes.size()) != shape.rank()) {
    throw ShapeError(op + " of " + shape.to_string() + ": index vectors of " +
                         std::to_string(entries) + " entries for dims " + to_string(map) +
                         " and slices of sizes " + to_string(sizes),
                     location);
  }
  Dims last;
  for (const std::int64_t d : map) last.push_back(shape.dim(d) - sizes[std::size_t(d)]);
  return last;
}

/// The numbers as a vector that broadcasts against index vectors.
Array row_of(const Dims& values, DType t, Location location) {
  std::vector<Array> parts;
  for (const std::int64_t v : values) {
    parts.push_back(
        frontend::reshaped(frontend::program_constant(Literal::scalar(t, v)), {1}, location));
  }
  return frontend::concatenated(parts, 0, location);
}

Array clamped(const Array& indices, const Dims& last, Location location) {
  if (last.empty()) return indices;
  const DType t = indices.dtype();
  const Operand low{maximum({indices, location}, {frontend::program_constant(t, 0), location}),
                    location};
  return minimum(low, {row_of(last, t, location), location});
}

}  // namespace

Array gather(Operand x, Operand indices, const GatherDims& dims,
             std::vector<std::int64_t> slice_sizes, const IndexOptions& options) {
  if (options.out_sharding) {
    return frontend::sharded_as_requested(options, x.location, [&](const IndexOptions& plain) {
      return gather(x, indices, dims, slice_sizes, plain);
    });
  }
  const Shape& shape = shape_of(x);
  const Location l = x.location;
  frontend::need_integers("gather", indices.array, l);
  return composed("gather", l, [&] {
    Array at = checked_indices("gather", indices.array, l);
    const Dims last = last_positions("gather", shape, dims.start_index_map, slice_sizes, at, l);
    if (options.mode == IndexMode::wrap) {
      Dims sizes = last;
      for (std::int64_t& n : sizes) ++n;
      at = remainder({at, l}, {row_of(sizes, at.dtype(), l), l});
    }
    ir::GatherAttrs attrs;
    attrs.offset_dims = dims.offset_dims;
    attrs.collapsed_slice_dims = dims.collapsed_slice_dims;
    attrs.start_index_map = dims.start_index_map;
    attrs.operand_batching_dims = dims.operand_batching_dims;
    attrs.start_indices_batching_dims = dims.start_indices_batching_dims;
    attrs.slice_sizes = slice_sizes;
    attrs.index_vector_dim = at.ndim() - 1;
    attrs.indices_are_sorted = options.indices_are_sorted;
    const std::vector<Array> operands{x.array, at};
    const Array y = frontend::apply(Opcode::gather, operands, attrs, l, "gather", nullptr, nullptr,
                                    x.array.weak_type());
    const bool fills = options.mode == IndexMode::fill || options.mode == IndexMode::drop;
    if (!fills || last.empty()) return y;
    const Operand position{at, l};
    Operand within{less_equal(position, {row_of(last, at.dtype(), l), l}), l};
    const Operand zero{frontend::program_constant(at.dtype(), 0), l};
    within.array = logical_and(within, {greater_equal(position, zero), l});
    const Array valid = all(within, -1);
    Dims mapping;
    for (std::int64_t d = 0; d < y.ndim(); ++d) {
      if (!contains(dims.offset_dims, d)) mapping.push_back(d);
    }
    return frontend::filled(y, valid, mapping,
                            frontend::fill_scalar("gather", options.fill_value, shape.dtype, l), l,
                            "gather");
  });
}

namespace {

/// The sizes of the windows by dim of the array.
Dims window_of(const Shape& shape, const Dims& updates, const ScatterDims& dims) {
  Dims out;
  std::size_t next = 0;
  for (std::int64_t d = 0; d < shape.rank(); ++d) {
    const bool absent =
        contains(dims.inserted_window_dims, d) || contains(dims.operand_batching_dims, d);
    std::int64_t size = 1;
    if (!absent && next < dims.update_window_dims.size()) {
      const std::int64_t at = dims.update_window_dims[next++];
      if (at >= 0 && at < std::int64_t(updates.size())) size = updates[std::size_t(at)];
    }
    out.push_back(size);
  }
  return out;
}

/// The indices and attributes of a scatter.
std::pair<Array, ir::ScatterAttrs> scatter_site(const std::string& op, const Operand& x,
                                                const Array& indices, const Dims& updates,
                                                const ScatterDims& dims,
                                                const IndexOptions& options) {
  const Shape& shape = shape_of(x);
  Array at = checked_indices(op, indices, x.location);
  const Dims last = last_positions(op, shape, dims.scatter_dims_to_operand_dims,
                                   window_of(shape, updates, dims), at, x.location);
  if (options.mode == IndexMode::clip) at = clamped(at, last, x.location);
  if (options.mode == IndexMode::wrap && !last.empty()) {
    Dims sizes = last;
    for (std::int64_t& n : sizes) ++n;
    at = remainder({at, x.location}, {row_of(sizes, at.dtype(), x.location), x.location});
  }
  ir::ScatterAttrs attrs;
  attrs.update_window_dims = dims.update_window_dims;
  attrs.inserted_window_dims = dims.inserted_window_dims;
  attrs.scatter_dims_to_operand_dims = dims.scatter_dims_to_operand_dims;
  attrs.input_batching_dims = dims.operand_batching_dims;
  attrs.scatter_indices_batching_dims = dims.scatter_indices_batching_dims;
  attrs.indices_are_sorted = options.indices_are_sorted;
  attrs.unique_indices = options.unique_indices;
  return {at, attrs};
}

Array scatter_by(const std::string& op, const Operand& x, const Operand& indices,
                 const Operand& updates, const ScatterDims& dims, const IndexOptions& options,
                 Combine combine, bool negated = false) {
  if (options.out_sharding) {
    return frontend::sharded_as_requested(options, x.location, [&](const IndexOptions& plain) {
      return scatter_by(op, x, indices, updates, dims, plain, combine, negated);
    });
  }
  const Location l = x.location;
  const DType t = shape_of(x).dtype;
  frontend::need_integers(op, indices.array, l);
  frontend::need_combinable(op, combine, t, l);
  if (impl_of(updates.array, l).shape.dtype != t && !updates.array.weak_type()) {
    throw DTypeError(op + " of " + shape_of(x).to_string() + " with updates " +
                         updates.array.type_string() +
                         ": the dtypes must be equal (convert with astype)",
                     l);
  }
  return composed(op, l, [&] {
    Array values = frontend::converted(updates.array, t, l);
    if (negated) values = negative({values, l});
    const auto [at, attrs] = scatter_site(op, x, indices.array, values.shape(), dims, options);
    return frontend::scattered(x.array, at, values, attrs, combine, l, op);
  });
}

}  // namespace

Array scatter(Operand x, Operand indices, Operand updates, const ScatterDims& dims,
              const IndexOptions& options) {
  return scatter_by("scatter", x, indices, updates, dims, options, Combine::replace);
}
Array scatter_add(Operand x, Operand indices, Operand updates, const ScatterDims& dims,
                  const IndexOptions& options) {
  return scatter_by("scatter_add", x, indices, updates, dims, options, Combine::add);
}
Array scatter_sub(Operand x, Operand indices, Operand updates, const ScatterDims& dims,
                  const IndexOptions& options) {
  return scatter_by("scatter_sub", x, indices, updates, dims, options, Combine::add, true);
}
Array scatter_mul(Operand x, Operand indices, Operand updates, const ScatterDims& dims,
                  const IndexOptions& options) {
  return scatter_by("scatter_mul", x, indices, updates, dims, options, Combine::multiply);
}
Array scatter_min(Operand x, Operand indices, Operand updates, const ScatterDims& dims,
                  const IndexOptions& options) {
  return scatter_by("scatter_min", x, indices, updates, dims, options, Combine::minimum);
}
Array scatter_max(Operand x, Operand indices, Operand updates, const ScatterDims& dims,
                  const IndexOptions& options) {
  return scatter_by("scatter_max", x, indices, updates, dims, options, Combine::maximum);
}
Array scatter_apply(Operand x, Operand indices, const std::function<Array(Array)>& f,
                    std::vector<std::int64_t> update_shape, const ScatterDims& dims,
                    const IndexOptions& options) {
  if (options.out_sharding) {
    return frontend::sharded_as_requested(options, x.location, [&](const IndexOptions& plain) {
      return scatter_apply(x, indices, f, update_shape, dims, plain);
    });
  }
  frontend::need_integers("scatter_apply", indices.array, x.location);
  return composed("scatter_apply", x.location, [&] {
    const auto [at, attrs] =
        scatter_site("scatter_apply", x, indices.array, update_shape, dims, options);
    const Array nothing = frontend::broadcasted(frontend::program_constant(x.array.dtype(), 0),
                                                update_shape, x.location);
    return frontend::scattered(x.array, at, nothing, attrs, f, x.location, "scatter_apply");
  });
}

namespace {

std::int64_t segment_count(const std::string& op, const Array& ids,
                           std::optional<std::int64_t> given, Location location) {
  if (given) {
    if (*given < 0) {
      throw ValueError(op + ": num_segments is " + std::to_string(*given) + "; give 0 or more",
                       location);
    }
    return *given;
  }
  if (ids.is_tracer()) {
    throw TracerError(op + ": without num_segments the result's shape would depend on the traced " +
                          ids.type_string(),
                      location);
  }
  if (ids.size() == 0) return 0;
  return std::max<std::int64_t>(max({ids, location}).item<std::int64_t>(location) + 1, 0);
}

Array over_segments(const std::string& op, const Operand& data, const Operand& ids,
                    std::optional<std::int64_t> num_segments, const SegmentOptions& options,
                    Combine combine) {
  const Shape& shape = shape_of(data);
  const Location l = data.location;
  frontend::need_integers(op, ids.array, l);
  frontend::need_combinable(op, combine, shape.dtype, l);
  const Shape& id_shape = impl_of(ids.array, l).shape;
  if (id_shape.rank() != 1 || shape.rank() < 1 || id_shape.dim(0) != shape.dim(0)) {
    throw ShapeError(op + " of " + shape.to_string() + " with ids " + id_shape.to_string() +
                         ": ids must be a vector with an entry for each row",
                     l);
  }
  const std::int64_t count = segment_count(op, ids.array, num_segments, l);
  return composed(op, l, [&] {
    Array at = frontend::index_arrays(op, {ids.array}, l)[0];
    if (options.mode == IndexMode::clip && count > 0) at = clamped(at, {count - 1}, l);
    if (options.mode == IndexMode::wrap && count > 0) {
      at = remainder({at, l}, {frontend::program_constant(Literal::scalar(at.dtype(), count)), l});
    }
    Dims dims = shape.dims;
    dims[0] = count;
    const Literal neutral =
        frontend::identity(*frontend::opcode_of(combine, shape.dtype), shape.dtype, op, l);
    const Array start = frontend::broadcasted(frontend::program_constant(neutral), dims, l);
    ir::ScatterAttrs attrs;
    for (std::int64_t d = 1; d < shape.rank(); ++d) attrs.update_window_dims.push_back(d);
    attrs.inserted_window_dims = {0};
    attrs.scatter_dims_to_operand_dims = {0};
    attrs.indices_are_sorted = options.indices_are_sorted;
    attrs.unique_indices = options.unique_indices;
    return frontend::scattered(start, frontend::index_vectors({at}, l, op),
                               frontend::converted(data.array, shape.dtype, l), attrs, combine, l,
                               op);
  });
}

}  // namespace

Array segment_sum(Operand data, Operand ids, std::optional<std::int64_t> num_segments,
                  const SegmentOptions& options) {
  return over_segments("segment_sum", data, ids, num_segments, options, Combine::add);
}
Array segment_prod(Operand data, Operand ids, std::optional<std::int64_t> num_segments,
                   const SegmentOptions& options) {
  return over_segments("segment_prod", data, ids, num_segments, options, Combine::multiply);
}
Array segment_max(Operand data, Operand ids, std::optional<std::int64_t> num_segments,
                  const SegmentOptions& options) {
  return over_segments("segment_max", data, ids, num_segments, options, Combine::maximum);
}
Array segment_min(Operand data, Operand ids, std::optional<std::int64_t> num_segments,
                  const SegmentOptions& options) {
  return over_segments("segment_min", data, ids, num_segments, options, Combine::minimum);
}

}  // namespace tessera
