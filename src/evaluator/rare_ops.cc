// SPDX-License-Identifier: Apache-2.0
// Operations that few programs hold.
#include <algorithm>
#include <cmath>

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

Literal eval_scan(const ir::Instruction& in, Operands xs) {
  const auto& [dim, length, carry_count, constant_count, reverse, associative, unroll] =
      in.get<ir::ScanAttrs>();
  const auto carries = std::size_t(carry_count);
  const std::size_t rest = xs.size() - std::size_t(constant_count), inputs = rest - carries;
  const std::size_t outputs = in.shape.elements.size() - carries;
  std::vector<Literal> state, out;
  for (std::size_t i = inputs; i < rest; ++i) state.push_back(*xs[i]);
  for (std::size_t i = 0; i < outputs; ++i) out.emplace_back(in.shape.elements[i]);
  for (std::int64_t step = 0; step < length; ++step) {
    const std::int64_t at = reverse ? length - 1 - step : step;
    std::vector<Literal> arguments;
    for (std::size_t i = 0; i < inputs; ++i) {
      Dims dims = xs[i]->dims();
      dims.erase(dims.begin() + std::ptrdiff_t(dim));
      arguments.push_back(rows(*xs[i], dim, at, at + 1).reshaped(dims));
    }
    for (Literal& s : state) arguments.push_back(std::move(s));
    for (std::size_t i = rest; i < xs.size(); ++i) arguments.push_back(*xs[i]);
    const Literal result = evaluate(*in.called().at(0), arguments);
    state.clear();
    for (std::size_t i = 0; i < result.elements().size(); ++i) {
      const Literal& r = result.elements()[i];
      if (i >= outputs) {
        state.push_back(r);
        continue;
      }
      Dims dims = r.dims(), starts(r.dims().size() + 1, 0);
      dims.insert(dims.begin() + std::ptrdiff_t(dim), 1);
      starts[std::size_t(dim)] = at;
      write_box(out[i], r.reshaped(dims), starts);
    }
  }
  for (Literal& s : state) out.push_back(std::move(s));
  return Literal::tuple(std::move(out));
}

Literal eval_stochastic_convert(const ir::Instruction& in, Operands xs) {
  const DType to = in.shape.dtype;
  if (!is_integer(to)) {
    throw NotImplementedError(in.describe() + ": stochastic-convert to " + std::string(name(to)) +
                                  " is not supported; valid: integers",
                              in.location());
  }
  std::vector<double> x = load_all<double>(*xs[0]);
  const std::vector<std::uint64_t> random = load_all<std::uint64_t>(*xs[1]);
  const int bits = bit_width(xs[1]->dtype());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double size = std::fabs(x[i]);
    if (!std::isfinite(size)) continue;
    const double integral = std::floor(size);
    // Up with a chance of the fraction.
    const bool up = std::ldexp(size - integral, bits) > double(random[i]);
    x[i] = std::copysign(integral + (up ? 1 : 0), x[i]);
  }
  Literal rounded(Shape(DType::f64, in.shape.dims)), out(Shape(to, in.shape.dims));
  std::copy(x.begin(), x.end(), rounded.mutable_data<double>().begin());
  apply_convert(DType::f64, to, rounded.bytes(), out.mutable_bytes(), out.element_count());
  return out;
}

/// Sizes are static here: a dim may be set to the size that it has.
Literal eval_set_dimension_size(const ir::Instruction& in, Operands xs) {
  const Literal &x = *xs[0], &size = *xs[1];
  const std::int64_t dim = in.get<ir::DimensionsAttrs>().dims.at(0);
  const std::int64_t present = x.dims()[std::size_t(dim)], requested = index_at(size, 0);
  if (requested == present) return x;
  throw RuntimeError(in.describe() + ": dim " + std::to_string(dim) + " of " +
                         x.shape().to_string() + " can't be set to size " +
                         std::to_string(requested) +
                         ": sizes that are known only when the program " + "runs are not supported",
                     in.location());
}

Literal eval_dynamic_reshape(const ir::Instruction& in, Operands xs) {
  for (std::size_t d = 0; d + 1 < xs.size(); ++d) {
    const std::int64_t requested = index_at(*xs[d + 1], 0);
    if (requested == in.shape.dims[d]) continue;
    throw RuntimeError(in.describe() + ": dim " + std::to_string(d) + " of " +
                           in.shape.to_string() + " was asked to have size " +
                           std::to_string(requested) + ": sizes that are known only when the " +
                           "program runs are not supported",
                       in.location());
  }
  return xs[0]->reshaped(in.shape.dims);
}

}  // namespace tessera::evaluator
