// SPDX-License-Identifier: Apache-2.0
// Arrays put together from pieces, taken apart, lengthened and shortened; bits as bytes.
#include <tessera/ops/pieces.h>

#include <algorithm>
#include <numeric>

#include <tessera/ops/creation.h>
#include <tessera/ops/indexed_update.h>
#include <tessera/ops/sets.h>
#include <tessera/ops/sorting.h>

#include "src/base/arrays/literal_util.h"
#include "src/frontend/ops/indexed/gather.h"
#include "src/frontend/ops/located.h"
#include "src/frontend/ops/moves.h"

namespace tessera {

using frontend::as_one_program;
using frontend::as_type;
using frontend::composed;
using frontend::Located;
using frontend::program_constant;
using frontend::shape_of;
using internal::impl_of;

namespace {

/// x with dims of size 1 in front, up to a rank.
Array with_rank(const Array& x, std::int64_t rank, Location l) {
  Dims dims = impl_of(x, l).shape.dims;
  while (std::int64_t(dims.size()) < rank) dims.insert(dims.begin(), 1);
  return frontend::reshaped(x, dims, l);
}

Array third_dim(const Array& x, Location l) {
  Dims dims = impl_of(x, l).shape.dims;
  if (dims.size() < 2) dims.insert(dims.begin(), 1);
  while (dims.size() < 3) dims.push_back(1);
  return frontend::reshaped(x, dims, l);
}

void need_some(const char* name, std::size_t count, Location l) {
  if (count == 0) throw ValueError(std::string(name) + " of no arrays; give one or more", l);
}

/// The array and dim that an optional axis means: without one, the flattened array.
std::pair<Array, std::int64_t> along(const std::string& name, const Operand& x,
                                     std::optional<std::int64_t> axis) {
  const Shape& shape = shape_of(x);
  if (axis) return {x.array, frontend::normalize_axis(name, *axis, shape.rank(), x.location)};
  return {frontend::reshaped(x.array, {shape.element_count()}, x.location), 0};
}

std::vector<Array> split_rank(const char* name, const Operand& x, std::int64_t rank,
                              const std::function<std::vector<Array>()>& split) {
  if (shape_of(x).rank() < rank) {
    throw ShapeError(std::string(name) + " of " + shape_of(x).to_string() + "; give rank " +
                         std::to_string(rank) + " or more",
                     x.location);
  }
  return split();
}

}  // namespace

Array append(Operand x, Operand values, std::optional<std::int64_t> axis) {
  const Location l = frontend::where_of(x, values);
  if (axis) return concatenate({x.array, values.array}, *axis, l);
  return composed("append", l, [&] { return concatenate({ravel(x), ravel(values)}, 0, l); });
}

Array block(const std::vector<std::vector<Array>>& rows, Location location) {
  need_some("block", rows.size(), location);
  std::int64_t rank = 2;
  for (const auto& row : rows) {
    need_some("block with a row", row.size(), location);
    for (const Array& a : row) rank = std::max(rank, impl_of(a, location).shape.rank());
  }
  return composed("block", location, [&] {
    std::vector<Array> joined;
    for (const auto& row : rows) {
      std::vector<Array> parts;
      for (const Array& a : row) parts.push_back(with_rank(a, rank, location));
      joined.push_back(concatenate(parts, -1, location));
    }
    return concatenate(joined, -2, location);
  });
}

Array column_stack(const std::vector<Array>& arrays, Location location) {
  need_some("column_stack", arrays.size(), location);
  return composed("column_stack", location, [&] {
    std::vector<Array> parts;
    for (const Array& a : arrays) {
      const Shape& shape = impl_of(a, location).shape;
      parts.push_back(shape.rank() < 2 ? frontend::reshaped(a, {shape.element_count(), 1}, location)
                                       : a);
    }
    return concatenate(parts, 1, location);
  });
}

Array dstack(const std::vector<Array>& arrays, Location location) {
  need_some("dstack", arrays.size(), location);
  return composed("dstack", location, [&] {
    std::vector<Array> parts;
    for (const Array& a : arrays) parts.push_back(third_dim(a, location));
    return concatenate(parts, 2, location);
  });
}

std::vector<Array> vsplit(Operand x, std::int64_t sections) {
  return split_rank("vsplit", x, 1, [&] { return split(x, sections, 0); });
}
std::vector<Array> vsplit(Operand x, std::vector<std::int64_t> indices) {
  return split_rank("vsplit", x, 1, [&] { return split(x, indices, 0); });
}
std::vector<Array> hsplit(Operand x, std::int64_t sections) {
  const std::int64_t axis = shape_of(x).rank() == 1 ? 0 : 1;
  return split_rank("hsplit", x, 1, [&] { return split(x, sections, axis); });
}
std::vector<Array> hsplit(Operand x, std::vector<std::int64_t> indices) {
  const std::int64_t axis = shape_of(x).rank() == 1 ? 0 : 1;
  return split_rank("hsplit", x, 1, [&] { return split(x, indices, axis); });
}
std::vector<Array> dsplit(Operand x, std::int64_t sections) {
  return split_rank("dsplit", x, 3, [&] { return split(x, sections, 2); });
}
std::vector<Array> dsplit(Operand x, std::vector<std::int64_t> indices) {
  return split_rank("dsplit", x, 3, [&] { return split(x, indices, 2); });
}

Array atleast_3d(Operand x) { return third_dim(x.array, x.location); }

Array rollaxis(Operand x, std::int64_t axis, std::int64_t start) {
  const std::int64_t rank = shape_of(x).rank();
  axis = frontend::normalize_axis("rollaxis", axis, rank, x.location);
  if (start < -rank || start > rank) {
    throw ValueError("rollaxis to before " + std::to_string(start) + " of an array of rank " +
                         std::to_string(rank) + "; valid are " + std::to_string(-rank) + " to " +
                         std::to_string(rank),
                     x.location);
  }
  if (start < 0) start += rank;
  if (start > axis) --start;
  return frontend::moved_dim(x.array, axis, start, x.location);
}

Array diagflat(Operand x, std::int64_t k) {
  return composed("diagflat", x.location, [&] { return diag({ravel(x), x.location}, k); });
}

Array resize(Operand x, std::vector<std::int64_t> shape) {
  const Location l = x.location;
  const Shape to(shape_of(x).dtype, shape);
  frontend::check_size("resize", to, l);
  const std::int64_t have = shape_of(x).element_count(), want = to.element_count();
  return composed("resize", l, [&] {
    if (have == 0 || want == 0) {
      return frontend::broadcasted(program_constant(to.dtype, 0), to.dims, l);
    }
    Array flat = ravel(x);
    if (want > have) flat = tile({flat, l}, {(want + have - 1) / have});
    return frontend::reshaped(frontend::sliced_dim(flat, 0, 0, want, l, "resize"), to.dims, l);
  });
}

// ------------------------------------------------------------------ insert, delete_

Array insert(Operand x, const IndexItem& where, Operand values, std::optional<std::int64_t> axis) {
  const Location l = frontend::where_of(x, values);
  const std::string name = "insert";
  using Kind = IndexItem::Kind;
  if (where.kind() == Kind::newaxis || where.kind() == Kind::ellipsis) {
    throw ValueError(name + ": positions are a number, a Slice or an array", l);
  }
  if (where.kind() == Kind::array) {
    frontend::need_integers(name, where.array(), l);
    if (where.array().ndim(l) > 1) {
      throw ShapeError(
          name + " before positions " + where.array().type_string() + "; give a scalar or a vector",
          l);
    }
  }
  return composed(name, l, [&, x = x.array, given = values.array] {
    const auto [a, dim] = along(name, {x, l}, axis);
    const Dims dims = a.shape();
    const std::int64_t n = dims[std::size_t(dim)];
    Array v = with_rank(frontend::converted(given, a.dtype(), l), std::int64_t(dims.size()), l);
    if (v.ndim() > std::int64_t(dims.size())) {
      throw ShapeError(name + " of values " + given.type_string() + " into " + a.type_string() +
                           "; the values must broadcast to slices along axis " +
                           std::to_string(dim),
                       l);
    }
    Array at;
    if (where.kind() == Kind::position) {
      at = program_constant(Literal::scalar(s64, where.position()));
    } else if (where.kind() == Kind::slice) {
      const frontend::Span s = frontend::span_of(where.slice(), n, name, l);
      std::vector<std::int64_t> places;
      for (std::int64_t i = s.start; i < s.limit; i += s.stride) places.push_back(i);
      if (s.reversed) std::reverse(places.begin(), places.end());
      at = program_constant(make_literal(s64, {std::int64_t(places.size())}, places));
    } else {
      at = frontend::converted(where.array(), s64, l);
    }
    if (at.shape().empty()) v = frontend::moved_dim(v, 0, dim, l);
    const bool single = at.size() == 1;
    std::int64_t count = v.shape()[std::size_t(dim)];
    if (!single) {
      count = frontend::broadcast_shapes(name, {at.size()}, {count}, l)[0];
    }
    Dims block = dims;
    block[std::size_t(dim)] = count;
    (void)frontend::broadcast_shapes(name, v.shape(), block, l);
    v = frontend::broadcasted(v, block, l);
    if (where.kind() == Kind::position) {
      std::int64_t p = where.position();
      p = std::clamp<std::int64_t>(p < 0 ? p + n : p, 0, n);
      return frontend::concatenated(
          {frontend::sliced_dim(a, dim, 0, p, l), v, frontend::sliced_dim(a, dim, p, n, l)}, dim, l,
          name);
    }
    at = frontend::broadcasted(frontend::reshaped(at, {at.size()}, l), {count}, l);
    const Located raw{at, l};
    const Located from_front = frontend::choose(raw < 0.0, raw + double(n), raw);
    const Located places = raw.with(clip(Operand(from_front), Array(0), Array(n)));
    // How many values come before each one: those at earlier places, and earlier ones at its own.
    const Located rank = raw.with(argsort({argsort(Operand(places), 0), l}, 0));
    const Array target = (places + as_type(rank, s64)).array;
    IndexOptions unique;
    unique.unique_indices = true;
    const Array all_true = ones({n + count}, DType::pred, l);
    const Array mask = tessera::at({all_true, l}, {target}).set({Array(false), l}, unique);
    SizeOptions rest;
    rest.size = n;
    const Array kept = flatnonzero({mask, l}, rest);
    Dims out = dims;
    out[std::size_t(dim)] = n + count;
    const Array empty = frontend::broadcasted(program_constant(a.dtype(), 0), out, l);
    std::vector<IndexItem> items(std::size_t(dim), Slice{});
    items.push_back(target);
    const Array with_values = tessera::at({empty, l}, items).set({v, l}, unique);
    items.back() = kept;
    return tessera::at({with_values, l}, items).set({a, l}, unique);
  });
}

namespace {

/// The positions that are left of n when those that a concrete array says are taken out.
std::vector<std::int64_t> left_over(const Array& where, std::int64_t n, Location l) {
  std::vector<bool> keep(std::size_t(n), true);
  if (where.dtype(l) == DType::pred) {
    if (where.shape(l) != Dims{n}) {
      throw ShapeError("delete_ where a mask " + where.type_string() +
                           " is true; give a vector of the axis' size, " + std::to_string(n),
                       l);
    }
    const std::vector<bool> drop = where.to_vector<bool>(l);
    for (std::size_t i = 0; i < drop.size(); ++i) keep[i] = !drop[i];
  } else {
    for (std::int64_t p : where.astype(s64, l).to_vector<std::int64_t>(l)) {
      if (p < -n || p >= n) {
        throw ValueError("delete_ of position " + std::to_string(p) + " of an axis of size " +
                             std::to_string(n) + "; valid are " + std::to_string(-n) + " to " +
                             std::to_string(n - 1),
                         l);
      }
      keep[std::size_t(p < 0 ? p + n : p)] = false;
    }
  }
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < n; ++i) {
    if (keep[std::size_t(i)]) out.push_back(i);
  }
  return out;
}

Array without_range(const Array& x, std::int64_t dim, std::int64_t start, std::int64_t limit,
                    Location l) {
  const std::int64_t n = x.shape()[std::size_t(dim)];
  return frontend::concatenated(
      {frontend::sliced_dim(x, dim, 0, start, l), frontend::sliced_dim(x, dim, limit, n, l)}, dim,
      l, "delete_");
}

}  // namespace

Array delete_(Operand x, const IndexItem& where, std::optional<std::int64_t> axis,
              const DeleteOptions& options) {
  const Location l = x.location;
  const std::string name = "delete_";
  using Kind = IndexItem::Kind;
  if (where.kind() == Kind::newaxis || where.kind() == Kind::ellipsis) {
    throw ValueError(name + ": positions are a number, a Slice or an array", l);
  }
  const Shape& shape = shape_of(x);
  const std::int64_t n = axis ? shape.dim(frontend::normalize_axis(name, *axis, shape.rank(), l))
                              : shape.element_count();
  if (where.kind() == Kind::position) {
    const std::int64_t p = where.position();
    if (p < -n || p >= n) {
      throw ValueError(
          name + " of position " + std::to_string(p) + " of an axis of size " + std::to_string(n) +
              (n == 0 ? "; it has no elements"
                      : "; valid are " + std::to_string(-n) + " to " + std::to_string(n - 1)),
          l);
    }
    return composed(name, l, [&, p = p < 0 ? p + n : p] {
      const auto [a, dim] = along(name, x, axis);
      return without_range(a, dim, p, p + 1, l);
    });
  }
  if (where.kind() == Kind::slice) {
    const frontend::Span s = frontend::span_of(where.slice(), n, name, l);
    return composed(name, l, [&] {
      const auto [a, dim] = along(name, x, axis);
      if (s.limit <= s.start) return a;
      if (s.stride == 1) return without_range(a, dim, s.start, s.limit, l);
      Dims kept;
      for (std::int64_t i = 0; i < n; ++i) {
        if (i < s.start || i >= s.limit || (i - s.start) % s.stride != 0) kept.push_back(i);
      }
      const Array places = program_constant(make_literal(s64, {std::int64_t(kept.size())}, kept));
      return frontend::gathered(a, {places}, {dim}, dim, l, name);
    });
  }
  const Array& given = where.array();
  if (given.dtype(l) != DType::pred) frontend::need_integers(name, given, l);
  if (!options.assume_unique_indices || given.dtype() == DType::pred) {
    if (given.is_tracer()) {
      throw TracerError(name + ": how many slices are left depends on the traced " +
                            given.type_string() +
                            "; promise different integers with assume_unique_indices",
                        l);
    }
    const Dims kept = left_over(given, n, l);
    return composed(name, l, [&] {
      const auto [a, dim] = along(name, x, axis);
      const Array places = program_constant(make_literal(s64, {std::int64_t(kept.size())}, kept));
      return frontend::gathered(a, {places}, {dim}, dim, l, name);
    });
  }
  return composed(name, l, [&] {
    const auto [a, dim] = along(name, x, axis);
    const Located raw{frontend::converted(ravel({given, l}), s64, l), l};
    const std::int64_t count = raw.array.size(), left = std::max<std::int64_t>(n - count, 0);
    const Located from_front = frontend::choose(raw < 0.0, raw + double(n), raw);
    const Array drop = sort({clip(Operand(from_front), Array(0), Array(n)), l}, 0);
    // Of the elements left the i-th was moved up by those dropped before it.
    const Array before = subtract({drop, l}, {iota(s64, {count}, 0, l), l});
    const Located i = raw.with(iota(s64, {left}, 0, l));
    const Located passed = i.with(searchsorted({before, l}, Operand(i), true));
    return frontend::gathered(a, {(i + as_type(passed, s64)).array}, {dim}, dim, l, name);
  });
}

Array trim_zeros(Operand x, const std::string& trim, Axes axes) {
  const Location l = x.location;
  if (trim != "f" && trim != "b" && trim != "fb" && trim != "bf") {
    throw ValueError("trim_zeros: \"" + trim + "\"; valid are \"f\", \"b\" and \"fb\"", l);
  }
  const Shape& shape = shape_of(x);
  if (x.array.is_tracer()) {
    throw TracerError("trim_zeros: the result's shape would depend on the values of the traced " +
                          x.array.type_string(),
                      l);
  }
  const Dims chosen = frontend::normalize_axes("trim_zeros", axes, shape.rank(), l);
  Dims starts(shape.dims.size(), 0), limits = shape.dims;
  for (const std::int64_t d : chosen) {
    Dims others;
    for (std::int64_t o = 0; o < shape.rank(); ++o) {
      if (o != d) others.push_back(o);
    }
    const std::vector<bool> some = any(x, others).to_vector<bool>(l);
    std::int64_t first = 0, last = std::int64_t(some.size());
    while (first < last && !some[std::size_t(first)]) ++first;
    while (last > first && !some[std::size_t(last - 1)]) --last;
    if (first == last) {
      first = last = 0;  // nothing but zeros
    } else if (trim == "f") {
      last = std::int64_t(some.size());
    } else if (trim == "b") {
      first = 0;
    }
    starts[std::size_t(d)] = first;
    limits[std::size_t(d)] = last;
  }
  return slice(x, starts, limits);
}

Array choose(Operand which, const std::vector<Array>& choices, IndexMode mode) {
  const Location l = which.location;
  const std::int64_t n = std::int64_t(choices.size());
  if (n == 0) throw ValueError("choose from no choices; give one or more", l);
  frontend::need_integers("choose", which.array, l);
  if (mode != IndexMode::automatic && mode != IndexMode::clip && mode != IndexMode::wrap) {
    throw ValueError("choose: valid modes are automatic, clip and wrap", l);
  }
  if (mode == IndexMode::automatic) {
    if (which.array.is_tracer()) {
      throw TracerError("choose: whether the traced " + which.array.type_string() +
                            " is in range isn't known; choose mode clip or wrap",
                        l);
    }
    const Array good = composed("choose", l, [&] { return frontend::in_range(which.array, n, l); });
    if (!all({good, l}).item<bool>(l)) {
      throw ValueError("choose: numbers out of range; valid are 0 to " + std::to_string(n - 1), l);
    }
  }
  return composed("choose", l, [&] {
    const DType t = frontend::promote(choices, l).dtype;
    Located i{frontend::converted(which.array, s64, l), l};
    if (mode == IndexMode::clip) i = i.with(clip(Operand(i), Array(0), Array(n - 1)));
    if (mode == IndexMode::wrap) i = i.with(remainder(Operand(i), Operand(Array(n), l)));
    Dims dims = i.array.shape();
    for (const Array& c : choices) {
      dims = frontend::broadcast_shapes("choose", dims, c.shape(l), l);
    }
    Located out{frontend::broadcasted(frontend::converted(choices[0], t, l), dims, l), l};
    for (std::int64_t k = 1; k < n; ++k) {
      const Located c{frontend::converted(choices[std::size_t(k)], t, l), l};
      out = frontend::choose(i == double(k), c, out);
    }
    return out.array;
  });
}

// ------------------------------------------------------------------ bits

namespace {

/// The value of each bit in a byte, u8 along dim `dim` of a shape of ones.
Array bit_values(std::int64_t rank, std::int64_t dim, BitOrder order) {
  std::vector<std::int64_t> values;
  for (int i = 0; i < 8; ++i) values.push_back(1 << (order == BitOrder::big ? 7 - i : i));
  Dims dims(std::size_t(rank), 1);
  dims[std::size_t(dim)] = 8;
  return program_constant(make_literal(u8, dims, values));
}

}  // namespace

Array packbits(Operand x, std::optional<std::int64_t> axis, BitOrder order) {
  const Location l = x.location;
  if (shape_of(x).dtype != DType::pred) frontend::need_integers("packbits", x.array, l);
  return composed("packbits", l, [&] {
    const auto [a, dim] = along("packbits", x, axis);
    Located bits{a, l};
    if (a.dtype() != DType::pred) bits = bits != bits.constant(0);
    bits = as_type(bits, u8);
    Dims dims = a.shape();
    const std::int64_t n = dims[std::size_t(dim)], bytes = (n + 7) / 8;
    if (n % 8 != 0) {
      std::vector<ir::PadDim> margins(dims.size());
      margins[std::size_t(dim)].high = 8 * bytes - n;
      bits = bits.with(frontend::padded(bits.array, program_constant(u8, 0), margins, l));
    }
    dims[std::size_t(dim)] = bytes;
    dims.insert(dims.begin() + dim + 1, 8);
    bits = bits.with(frontend::reshaped(bits.array, dims, l));
    const Located values = bits.with(bit_values(std::int64_t(dims.size()), dim + 1, order));
    ReduceOptions as_bytes;
    as_bytes.dtype = u8;
    return sum(Operand(bits * values), dim + 1, as_bytes);
  });
}

Array unpackbits(Operand x, std::optional<std::int64_t> axis, std::optional<std::int64_t> count,
                 BitOrder order) {
  const Location l = x.location;
  if (shape_of(x).dtype != u8) {
    throw DTypeError("unpackbits of " + x.array.type_string() + "; give u8", l);
  }
  if (count && *count < 0) {
    throw ValueError("unpackbits of " + std::to_string(*count) + " bits; give 0 or more", l);
  }
  return composed("unpackbits", l, [&] {
    const auto [a, dim] = along("unpackbits", x, axis);
    Dims dims = a.shape();
    const std::int64_t n = 8 * dims[std::size_t(dim)];
    dims.insert(dims.begin() + dim + 1, 1);
    const Located bytes{frontend::reshaped(a, dims, l), l};
    const Located values = bytes.with(bit_values(std::int64_t(dims.size()), dim + 1, order));
    const Located set = bytes & values;
    dims = a.shape();
    dims[std::size_t(dim)] = n;
    Array bits = frontend::reshaped(as_type(set != set.constant(0), u8).array, dims, l);
    const std::int64_t want = count.value_or(n);
    if (want < n) bits = frontend::sliced_dim(bits, dim, 0, want, l);
    if (want > n) {
      std::vector<ir::PadDim> margins(dims.size());
      margins[std::size_t(dim)].high = want - n;
      bits = frontend::padded(bits, program_constant(u8, 0), margins, l);
    }
    return bits;
  });
}

Array view(Operand x, DType dtype) {
  const Location l = x.location;
  const Shape& shape = shape_of(x);
  if (shape.dtype == dtype) return x.array;
  const std::int64_t have = std::int64_t(byte_size(shape.dtype)),
                     want = std::int64_t(byte_size(dtype));
  if (have != want && (shape.rank() == 0 || shape.dims.back() * have % want != 0)) {
    throw ShapeError("view of " + shape.to_string() + " as " + std::string(name(dtype)) +
                         (shape.rank() == 0 ? ": a scalar has no dimension that could change"
                                            : ": the last dimension has " +
                                                  std::to_string(shape.dims.back() * have) +
                                                  " bytes, no multiple of " + std::to_string(want)),
                     l);
  }
  return composed("view", l, [&] {
    Located y{shape.rank() == 0 ? frontend::reshaped(x.array, {1}, l) : x.array, l};
    const auto joined = [&](const Located& pairs) {  // [.., n, k] -> [.., n k]
      Dims dims = pairs.array.shape();
      const std::int64_t last = dims.back();
      dims.pop_back();
      if (dims.empty()) return pairs;
      dims.back() *= last;
      return pairs.with(frontend::reshaped(pairs.array, dims, l));
    };
    const auto parted = [&](const Located& v, std::int64_t k) {  // [.., n k] -> [.., n, k]
      Dims dims = v.array.shape();
      dims.back() /= k;
      dims.push_back(k);
      return v.with(frontend::reshaped(v.array, dims, l));
    };
    // pred is a byte each, a complex number two reals.
    if (y.dtype() == DType::pred) y = as_type(y, u8);
    if (is_complex(y.dtype())) {
      y = joined(y.with(stack({real(Operand(y)), imag(Operand(y))}, -1, l)));
    }
    const DType to = dtype == DType::pred ? u8 : real_type(dtype);
    const std::int64_t from_size = std::int64_t(byte_size(y.dtype())),
                       to_size = std::int64_t(byte_size(to));
    if (y.dtype() != to) {
      if (to_size > from_size) y = parted(y, to_size / from_size);
      y = frontend::same_bits(y, to);
      if (to_size < from_size) y = joined(y);
    }
    if (dtype == DType::pred) y = y != y.constant(0);
    if (is_complex(dtype)) {
      const Located pairs = parted(y, 2);
      const std::int64_t last = pairs.array.ndim() - 1;
      Dims dims = pairs.array.shape();
      dims.pop_back();
      const auto part = [&](std::int64_t i) {
        return Operand(
            frontend::reshaped(frontend::sliced_dim(pairs.array, last, i, i + 1, l), dims, l), l);
      };
      y = y.with(complex(part(0), part(1)));
    }
    return shape.rank() == 0 ? frontend::reshaped(y.array, {}, l) : y.array;
  });
}

}  // namespace tessera
