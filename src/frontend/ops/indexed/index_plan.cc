// SPDX-License-Identifier: Apache-2.0
// Index entries checked and completed; boxes read and written.
#include "src/frontend/ops/indexed/index_plan.h"

#include <algorithm>

#include <tessera/ops/creation.h>
#include <tessera/ops/elementwise.h>

#include "src/base/arrays/literal_util.h"
#include "src/frontend/ops/moves.h"

namespace tessera::frontend {

using internal::impl_of;

Span span_of(const Slice& s, std::int64_t size, const std::string& op, Location location) {
  if (s.step == 0) throw ValueError(op + ": the step of a slice must not be 0", location);
  auto place = [&](std::int64_t at, std::int64_t low, std::int64_t high) {
    return std::clamp(at < 0 ? at + size : at, low, high);
  };
  if (s.step > 0) {
    const std::int64_t start = place(s.start.value_or(0), 0, size);
    const std::int64_t stop = place(s.stop.value_or(size), 0, size);
    // A step larger than the dim selects the first position only.
    return {start, std::max(start, stop), std::min(s.step, std::max<std::int64_t>(size, 1)), false};
  }
  // From start down to stop + 1: the same positions in ascending order, then reversed.
  const std::int64_t start = s.start ? place(*s.start, -1, size - 1) : size - 1;
  const std::int64_t stop = s.stop ? place(*s.stop, -1, size - 1) : -1;
  if (start <= stop) return {0, 0, 1, false};
  const std::int64_t step = s.step < -size ? size : -s.step;
  const std::int64_t count = ceil_div(start - stop, step);
  const std::int64_t last = start - (count - 1) * step;
  return {last, start + 1, step, true};
}

namespace {

using Kind = IndexItem::Kind;

bool is_mask(const IndexItem& item) {
  return item.kind() == Kind::array && item.array().dtype() == DType::pred;
}

/// The positions of a mask's true elements, one array per dim.
std::vector<Array> positions_of(const std::string& op, const Array& mask, const Shape& shape,
                                std::int64_t first, Location location) {
  const Dims& dims = mask.shape();
  bool fits = first + mask.ndim() <= shape.rank();
  for (std::size_t d = 0; fits && d < dims.size(); ++d) {
    fits = dims[d] == shape.dim(first + std::int64_t(d));
  }
  if (!fits || dims.empty()) {
    throw ShapeError(op + " of " + shape.to_string() + " by the mask " + mask.type_string() +
                         ": it must have the sizes of the dims that it indexes, from dim " +
                         std::to_string(first) + " on",
                     location);
  }
  const Literal values = to_literal(mask, location);
  const bool* on = reinterpret_cast<const bool*>(values.bytes());
  std::vector<std::vector<double>> columns(dims.size());
  for (std::int64_t i = 0, n = mask.size(); i < n; ++i) {
    if (!on[i]) continue;
    std::int64_t rest = i;
    for (std::size_t d = dims.size(); d-- > 0;) {
      columns[d].push_back(double(rest % dims[d]));
      rest /= dims[d];
    }
  }
  std::vector<Array> out;
  const auto count = std::int64_t(columns[0].size());
  for (const std::vector<double>& column : columns) {
    out.push_back(from_literal(make_literal(s32, {count}, column)));
  }
  return out;
}

/// The entries with masks replaced by their positions and the ellipsis by slices.
std::vector<IndexItem> spelled_out(const std::string& op, std::vector<IndexItem> items,
                                   const Shape& shape, Location location) {
  std::int64_t used = 0, ellipses = 0;
  for (const IndexItem& item : items) {
    std::int64_t dims = item.kind() != Kind::newaxis && item.kind() != Kind::ellipsis;
    ellipses += item.kind() == Kind::ellipsis;
    if (item.kind() == Kind::array) {
      const Shape& given = impl_of(item.array(), location).shape;
      if (given.dtype == DType::pred) {
        if (item.array().is_tracer()) {
          throw TracerError(op + " by a traced pred array " + given.to_string() +
                                ": the result's shape would depend on values; use where, or "
                                "nonzero with a size",
                            location);
        }
        dims = given.rank();
      } else if (!is_integer(given.dtype)) {
        throw DTypeError(op + " by " + given.to_string() + "; arrays in it must be integer or pred",
                         location);
      }
    }
    used += dims;
  }
  if (ellipses > 1) throw ValueError(op + ": only one ellipsis is allowed", location);
  if (used > shape.rank()) {
    throw ValueError(op + " of " + shape.to_string() + ": " + std::to_string(used) +
                         " entries for " + std::to_string(shape.rank()) + " dims",
                     location);
  }
  if (ellipses == 0) items.emplace_back(ellipsis);
  std::vector<IndexItem> out;
  std::int64_t dim = 0;
  for (const IndexItem& item : items) {
    if (item.kind() == Kind::ellipsis) {
      for (std::int64_t d = used; d < shape.rank(); ++d, ++dim) out.emplace_back(Slice{});
    } else if (is_mask(item)) {
      for (Array& p : positions_of(op, item.array(), shape, dim, location)) out.emplace_back(p);
      dim += item.array().ndim();
    } else {
      dim += item.kind() != Kind::newaxis;
      out.push_back(item);
    }
  }
  return out;
}

std::int64_t checked_position(const std::string& op, std::int64_t at, std::int64_t size,
                              std::int64_t dim, const Shape& shape, Location location) {
  if (at < -size || at >= size) {
    throw ValueError(op + " " + std::to_string(at) + " of dim " + std::to_string(dim) + " of " +
                         shape.to_string() +
                         (size == 0 ? ", which has no elements"
                                    : "; valid are " + std::to_string(-size) + " to " +
                                          std::to_string(size - 1)),
                     location);
  }
  return at < 0 ? at + size : at;
}

}  // namespace

IndexPlan index_plan(const std::string& op, std::vector<IndexItem> given, const Shape& shape,
                     Location location) {
  const std::vector<IndexItem> items = spelled_out(op, std::move(given), shape, location);
  IndexPlan plan;
  Dims kept;
  for (const IndexItem& item : items) {
    if (item.kind() == Kind::array) {
      plan.places_shape = plan.places.empty() ? item.array().shape()
                                              : broadcast_shapes(op, plan.places_shape,
                                                                 item.array().shape(), location);
      plan.places.push_back(item.array());
    }
  }
  const bool gathers = !plan.places.empty();
  // As in numpy, numbers next to arrays count as arrays when the position of the gathered dims is
  // determined.
  std::int64_t groups = 0;
  bool in_group = false;
  for (const IndexItem& item : items) {
    const bool picks = gathers && (item.kind() == Kind::array || item.kind() == Kind::position);
    if (picks && !in_group && ++groups == 1) plan.before = std::int64_t(kept.size());
    in_group = picks;
    if (item.kind() == Kind::newaxis) continue;
    const auto d = std::int64_t(plan.starts.size());
    const std::int64_t size = shape.dim(d);
    Span span{0, size, 1, false};
    if (item.kind() == Kind::slice) span = span_of(item.slice(), size, op, location);
    if (item.kind() == Kind::position) {
      const std::int64_t p = checked_position(op, item.position(), size, d, shape, location);
      span = {p, p + 1, 1, false};
    }
    plan.starts.push_back(span.start);
    plan.limits.push_back(span.limit);
    plan.strides.push_back(span.stride);
    plan.box.push_back(ceil_div(span.limit - span.start, span.stride));
    if (span.reversed) plan.turned.push_back(d);
    if (item.kind() == Kind::position) continue;
    if (item.kind() == Kind::slice) kept.push_back(plan.box.back());
    if (item.kind() == Kind::array) {
      plan.picked.push_back(std::int64_t(plan.inner.size()));
      std::int64_t places = 1;
      for (const std::int64_t n : plan.places_shape) places *= n;
      if (size == 0 && places > 0) {
        throw ShapeError(op + " of " + shape.to_string() + " by " + item.array().type_string() +
                             " in dim " + std::to_string(d) + ", which has no elements",
                         location);
      }
    }
    plan.inner.push_back(plan.box.back());
  }
  if (groups > 1) plan.before = 0;
  plan.gathered = kept;
  plan.gathered.insert(plan.gathered.begin() + plan.before, plan.places_shape.begin(),
                       plan.places_shape.end());
  std::size_t next = 0;
  bool placed = !gathers;
  auto place = [&] {
    if (!placed) {
      plan.result.insert(plan.result.end(), plan.places_shape.begin(), plan.places_shape.end());
    }
    placed = true;
  };
  if (groups > 1) place();
  for (const IndexItem& item : items) {
    if (item.kind() == Kind::newaxis) plan.result.push_back(1);
    if (item.kind() == Kind::slice) plan.result.push_back(kept[next++]);
    if (gathers && (item.kind() == Kind::array || item.kind() == Kind::position)) place();
  }
  return plan;
}

Array inner_of(const Array& x, const IndexPlan& plan, Location location, const std::string& name) {
  Array y = sliced(x, plan.starts, plan.limits, plan.strides, location, name);
  y = reversed(y, plan.turned, location, name);
  return reshaped(y, plan.inner, location);
}

Array with_inner(const Array& x, const Array& inner, const IndexPlan& plan, Location location,
                 const std::string& name) {
  const Dims& dims = x.shape();
  Array part = reversed(reshaped(inner, plan.box, location), plan.turned, location, name);
  if (part.size() == 0) return x;
  if (plan.box == dims) return part;
  const bool dense = std::all_of(plan.strides.begin(), plan.strides.end(),
                                 [](std::int64_t stride) { return stride == 1; });
  if (dense) {
    const DType t = x.size() > 0x7fffffff ? s64 : s32;
    std::vector<Array> operands{x, part};
    for (const std::int64_t start : plan.starts) {
      operands.push_back(program_constant(Literal::scalar(t, start)));
    }
    return apply(ir::Opcode::dynamic_update_slice, operands, {}, location, name, nullptr, nullptr,
                 x.weak_type());
  }
  // Of every stride-th element: the part spread out, and a mask of where it belongs.
  std::vector<ir::PadDim> margins;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const std::int64_t last = plan.starts[d] + (plan.box[d] - 1) * plan.strides[d];
    margins.push_back({plan.starts[d], dims[d] - 1 - last, plan.strides[d] - 1});
  }
  const Array yes = broadcasted(program_constant(DType::pred, 1), plan.box, location);
  const Array mask = padded(yes, program_constant(DType::pred, 0), margins, location, name);
  const std::vector<Array> choice{
      mask, padded(part, program_constant(x.dtype(), 0), margins, location, name), x};
  return apply(ir::Opcode::select, choice, {}, location, name, nullptr, nullptr, x.weak_type());
}

}  // namespace tessera::frontend
