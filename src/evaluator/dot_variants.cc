// SPDX-License-Identifier: Apache-2.0
// Evaluates ragged and scaled dots, by dots of their parts.
#include <algorithm>

#include "src/base/contains.h"
#include "src/evaluator/elementwise.h"
#include "src/evaluator/evaluator.h"
#include "src/evaluator/ops.h"
#include "src/evaluator/strided.h"
#include "src/ir/text_attributes.h"

namespace tessera::evaluator {
namespace {

using ir::text_dims;

/// A dot of the given attributes, as an instruction of its own.
ir::Instruction dot_like(const ir::Instruction& in, Shape shape) {
  ir::Instruction dot;
  dot.opcode = ir::Opcode::dot;
  dot.name = in.name;
  dot.metadata = in.metadata;
  dot.shape = std::move(shape);
  ir::DotAttrs attrs;
  attrs.lhs_batch = text_dims(in.attrs, "lhs_batch_dims");
  attrs.rhs_batch = text_dims(in.attrs, "rhs_batch_dims");
  attrs.lhs_contracting = text_dims(in.attrs, "lhs_contracting_dims");
  attrs.rhs_contracting = text_dims(in.attrs, "rhs_contracting_dims");
  dot.attrs = std::move(attrs);
  return dot;
}

/// Entries [from, to) of a dim.
Literal rows(const Literal& x, std::int64_t dim, std::int64_t from, std::int64_t to) {
  Dims starts(x.dims().size(), 0), sizes = x.dims();
  starts[std::size_t(dim)] = from;
  sizes[std::size_t(dim)] = to - from;
  return sliced(x, starts, sizes);
}

}  // namespace

Literal eval_ragged_dot(const ir::Instruction& in, Operands xs) {
  const Literal &lhs = *xs[0], &rhs = *xs[1], &sizes = *xs[2];
  const std::int64_t ragged = text_dims(in.attrs, "lhs_ragged_dims").at(0);
  const Dims group_dims = text_dims(in.attrs, "rhs_group_dims");
  ir::Instruction dot = dot_like(in, Shape(in.shape.dtype, {}));
  const auto& attrs = dot.get<ir::DotAttrs>();
  const bool contracted = contains(attrs.lhs_contracting, ragged);
  if (contains(attrs.lhs_batch, ragged)) {
    // Groups of batches: the product is the plain one where there is a group.
    std::int64_t used = 0;
    for (std::int64_t g = 0; g < sizes.element_count(); ++g) used += index_at(sizes, g);
    dot.shape.dims = in.shape.dims;
    Literal product = dot_of(dot, lhs, rhs), out(Shape(in.shape.dtype, in.shape.dims));
    const auto at = std::find(attrs.lhs_batch.begin(), attrs.lhs_batch.end(), ragged);
    const std::int64_t dim = at - attrs.lhs_batch.begin();
    used = std::clamp<std::int64_t>(used, 0, in.shape.dim(dim));
    write_box(out, rows(product, dim, 0, used), Dims(in.shape.dims.size(), 0));
    return out;
  }
  Literal out(Shape(in.shape.dtype, in.shape.dims));
  const std::int64_t length = lhs.dims()[std::size_t(ragged)];
  // Where the ragged dim stands in the result, if it stays.
  std::int64_t out_dim = std::int64_t(attrs.lhs_batch.size());
  for (std::int64_t d = 0; d < ragged; ++d) {
    if (!contains(attrs.lhs_batch, d) && !contains(attrs.lhs_contracting, d)) ++out_dim;
  }
  std::int64_t from = 0;
  for (std::int64_t g = 0; g < sizes.element_count(); ++g) {
    const std::int64_t want = std::max<std::int64_t>(0, index_at(sizes, g));
    const std::int64_t to = want > length - from ? length : from + want;
    const Literal part = rows(lhs, ragged, from, to);
    Dims starts(in.shape.dims.size(), 0);
    if (contracted) {
      const auto at = std::find(attrs.lhs_contracting.begin(), attrs.lhs_contracting.end(), ragged);
      const std::int64_t partner =
          attrs.rhs_contracting[std::size_t(at - attrs.lhs_contracting.begin())];
      dot.shape.dims.assign(in.shape.dims.begin() + 1, in.shape.dims.end());
      const Literal one = dot_of(dot, part, rows(rhs, partner, from, to));
      Dims dims = in.shape.dims;
      dims[0] = 1;
      starts[0] = g;
      write_box(out, one.reshaped(dims), starts);
    } else {
      const std::int64_t group = group_dims.at(0);
      Dims without = rhs.dims();
      without.erase(without.begin() + std::ptrdiff_t(group));
      ir::Instruction one = dot;
      auto& one_attrs = one.edit<ir::DotAttrs>();
      for (Dims* list : {&one_attrs.rhs_batch, &one_attrs.rhs_contracting}) {
        for (std::int64_t& d : *list) d -= d > group ? 1 : 0;
      }
      one.shape.dims = in.shape.dims;
      one.shape.dims[std::size_t(out_dim)] = to - from;
      starts[std::size_t(out_dim)] = from;
      write_box(out, dot_of(one, part, rows(rhs, group, g, g + 1).reshaped(without)), starts);
    }
    from = to;
  }
  return out;
}

Literal eval_scaled_dot(const ir::Instruction& in, Operands xs) {
  // Scaled in f64, rounded with the sum once.
  const auto scaled = [&](const Literal& x, const Literal& scale) {
    Literal out(Shape(DType::f64, x.dims()));
    const std::vector<double> values = load_all<double>(x), scales = load_all<double>(scale);
    auto to = out.mutable_data<double>();
    Dims strides = row_major_strides(scale.dims()), block(x.dims().size(), 1);
    for (std::size_t d = 0; d < scale.dims().size(); ++d) {
      if (scale.dims()[d] > 0) block[d] = x.dims()[d] / scale.dims()[d];
    }
    std::size_t n = 0;
    for_each_index(x.dims(), [&](const Dims& index) {
      std::int64_t at = 0;
      for (std::size_t d = 0; d < strides.size(); ++d) at += index[d] / block[d] * strides[d];
      to[n] = values[n] * scales[std::size_t(at)];
      ++n;
    });
    return out;
  };
  ir::Instruction dot = dot_like(in, Shape(in.shape.dtype, in.shape.dims));
  return dot_of(dot, scaled(*xs[0], *xs[2]), scaled(*xs[1], *xs[3]));
}

}  // namespace tessera::evaluator
