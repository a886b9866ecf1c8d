// SPDX-License-Identifier: Apache-2.0
// sort, argsort, top_k and searchsorted, with a total order on floats.
#include "src/frontend/ops/numpy/sorting.h"

#include <limits>

#include <tessera/ops/creation.h>
#include <tessera/ops/elementwise.h>
#include <tessera/ops/shape_ops.h>
#include <tessera/ops/sorting.h>

#include "src/base/arrays/literal_util.h"
#include "src/frontend/ops/indexed/gather.h"
#include "src/frontend/ops/located.h"
#include "src/frontend/ops/moves.h"

namespace tessera {

using frontend::composed;
using frontend::Located;
using frontend::shape_of;
using internal::impl_of;
using ir::Opcode;

namespace {

ir::Instruction* splat(ir::Builder& b, ir::Instruction* like, double value) {
  return b.splat(b.scalar(like->shape.dtype, value), like->shape.dims);
}

/// Floats with all NaNs replaced by one, and -0 by 0, for the total order.
ir::Instruction* canonical(ir::Builder& b, ir::Instruction* x) {
  ir::Instruction* zero = splat(b, x, 0);
  ir::Instruction* nan = splat(b, x, std::numeric_limits<double>::quiet_NaN());
  x = b.select(b.compare(ir::Direction::eq, x, zero), zero, x);
  return b.select(b.compare(ir::Direction::ne, x, x), nan, x);
}

/// x < y in the sort order; for scalars and, elementwise, arrays.
ir::Instruction* comes_before(ir::Builder& b, ir::Instruction* x, ir::Instruction* y) {
  const DType t = x->shape.dtype;
  if (is_complex(t)) {
    ir::Instruction *xr = b.unary(Opcode::real, x), *yr = b.unary(Opcode::real, y);
    ir::Instruction* real_before = comes_before(b, xr, yr);
    ir::Instruction* real_after = comes_before(b, yr, xr);
    ir::Instruction* imag_before =
        comes_before(b, b.unary(Opcode::imag, x), b.unary(Opcode::imag, y));
    ir::Instruction* tie = b.unary(Opcode::not_, real_after);
    return b.binary(Opcode::or_, real_before, b.binary(Opcode::and_, tie, imag_before));
  }
  if (is_floating(t)) {
    return b.compare(ir::Direction::lt, canonical(b, x), canonical(b, y),
                     ir::ComparisonType::total_order);
  }
  return b.compare(ir::Direction::lt, x, y);
}

/// Whether the first elements of each pair come before the second ones, by the first `keys` pairs.
ir::Computation* comparator(ir::Module* module, const std::vector<Array>& operands, bool descending,
                            std::int64_t keys) {
  ir::Builder b(module->add_computation(descending ? "descending" : "ascending"));
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Shape scalar(operands[i].dtype(), {});
    b.parameter(std::int64_t(2 * i), scalar);
    b.parameter(std::int64_t(2 * i + 1), scalar);
  }
  // From the last key to the first: before by it, or a tie and before by those behind it.
  ir::Instruction* root = nullptr;
  for (std::int64_t k = keys; k-- > 0;) {
    ir::Instruction *x = b.computation()->parameter(2 * k),
                    *y = b.computation()->parameter(2 * k + 1);
    if (descending) std::swap(x, y);
    ir::Instruction* before = comes_before(b, x, y);
    if (root) {
      ir::Instruction* tie = b.unary(Opcode::not_, comes_before(b, y, x));
      before = b.binary(Opcode::or_, before, b.binary(Opcode::and_, tie, root));
    }
    root = before;
  }
  b.computation()->set_root(root);
  return b.computation();
}

/// The array to sort and the dim.
std::pair<Array, std::int64_t> along(const std::string& op, const Operand& x,
                                     std::optional<std::int64_t> axis) {
  if (!axis) return {ravel(x), 0};
  return {x.array, frontend::normalize_axis(op, *axis, shape_of(x).rank(), x.location)};
}

}  // namespace

namespace frontend {

std::vector<Array> sorted_together(const std::vector<Array>& operands, std::int64_t dim,
                                   bool descending, Location location, const std::string& name,
                                   std::int64_t keys) {
  std::vector<Array> out = apply_many(
      Opcode::sort, operands, ir::SortAttrs{dim, true}, location, name, nullptr,
      [&](ir::Module* module) {
        return std::vector<ir::Computation*>{comparator(module, operands, descending, keys)};
      });
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = converted(out[i], out[i].dtype(), location, operands[i].weak_type());
  }
  return out;
}

}  // namespace frontend

Array sort(Operand x, std::optional<std::int64_t> axis, bool descending) {
  if (axis) frontend::normalize_axis("sort", *axis, shape_of(x).rank(), x.location);
  return composed("sort", x.location, [&] {
    const auto [values, dim] = along("sort", x, axis);
    const Array up = frontend::sorted_together({values}, dim, false, x.location, "sort")[0];
    return descending ? frontend::reversed(up, {dim}, x.location, "sort") : up;
  });
}

Array argsort(Operand x, std::optional<std::int64_t> axis, bool descending) {
  if (axis) frontend::normalize_axis("argsort", *axis, shape_of(x).rank(), x.location);
  return composed("argsort", x.location, [&] {
    const auto [values, dim] = along("argsort", x, axis);
    const Array places = iota(s32, values.shape(), dim, x.location);
    return frontend::sorted_together({values, places}, dim, descending, x.location, "argsort")[1];
  });
}

std::pair<Array, Array> top_k(Operand x, std::int64_t k) {
  const Shape& shape = shape_of(x);
  if (shape.rank() == 0) throw ShapeError("top_k of a scalar; give rank 1 or more", x.location);
  if (is_complex(shape.dtype)) {
    throw DTypeError("top_k of complex numbers (" + shape.to_string() + ")", x.location);
  }
  const std::int64_t last = shape.rank() - 1;
  if (k < 0 || k > shape.dim(last)) {
    throw ValueError("top_k of " + shape.to_string() + " with k = " + std::to_string(k) +
                         "; valid are 0 to " + std::to_string(shape.dim(last)),
                     x.location);
  }
  const std::vector<Array> both = frontend::as_one_program("top_k", x.location, [&] {
    Located values{x.array, x.location};
    // The operation compares bits: a NaN with a sign, which 0 / 0 is on x86, would come last.
    if (is_floating(shape.dtype)) {
      const Located nan = values.constant(std::numeric_limits<double>::quiet_NaN());
      values = choose(values != values, nan, values);
    }
    std::vector<Array> all = frontend::apply_many(Opcode::topk, std::vector<Array>{values.array},
                                                  ir::TopKAttrs{k, true}, x.location, "top_k");
    all[0] = frontend::converted(all[0], shape.dtype, x.location, x.array.weak_type());
    return all;
  });
  return {both[0], both[1]};
}

Array searchsorted(Operand sorted, Operand values, bool right) {
  const Shape& shape = shape_of(sorted);
  const Location l = sorted.location;
  if (shape.rank() != 1) {
    throw ShapeError("searchsorted in " + shape.to_string() + "; it takes a sorted vector", l);
  }
  return composed("searchsorted", l, [&] {
    const frontend::TypeNode type = frontend::promote({sorted.array, values.array}, l);
    const Array in = frontend::converted(sorted.array, type.dtype, l);
    const Array query = frontend::converted(values.array, type.dtype, l);
    const std::int64_t n = shape.dim(0);
    Located low{frontend::broadcasted(frontend::program_constant(s32, 0), query.shape(), l), l};
    if (n == 0 || query.size() == 0) return low.array;
    Located high{
        frontend::broadcasted(frontend::program_constant(s32, double(n)), query.shape(), l), l};
    frontend::Trace& trace = *frontend::Trace::current();
    const frontend::MetadataScope scope(trace, l, "searchsorted");
    // The position is in [low, high]; each step halves the range. n + 1 positions take this many
    // steps.
    for (std::int64_t places = n + 1; places > 1; places = (places + 1) / 2) {
      const Located middle = low.with(right_shift(low + high, low.constant(1)));
      const Array element = frontend::gathered(in, {middle.array}, {0}, 0, l, "searchsorted");
      ir::Instruction* e = trace.lift(element, l);
      ir::Instruction* q = trace.lift(query, l);
      ir::Builder& b = trace.builder();
      ir::Instruction* after =
          right ? b.unary(Opcode::not_, comes_before(b, q, e)) : comes_before(b, e, q);
      // If low = high the search is over, and the middle may be past the end.
      const Located open = low < high;
      const Located go = low.with(logical_and(low.with(trace.wrap(after, false)), open));
      high = choose(open & low.with(logical_not(go)), middle, high);
      low = choose(go, middle + 1.0, low);
    }
    return low.array;
  });
}

}  // namespace tessera
