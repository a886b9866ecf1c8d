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

std::int64_t place_of(const Dims& dims, std::int64_t d) {
  return std::find(dims.begin(), dims.end(), d) - dims.begin();
}

class RaggedDot {
 public:
  explicit RaggedDot(const ir::Instruction& in, std::int64_t lhs_rank)
      : dot_(dot_like(in, Shape(in.shape.dtype, {}))),
        attrs_(dot_.get<ir::DotAttrs>()),
        ragged_(text_dims(in.attrs, "lhs_ragged_dims").at(0)),
        group_dims_(text_dims(in.attrs, "rhs_group_dims")),
        prefix_(ir::ragged_prefix_dims(in.attrs, lhs_rank)),
        contracted_(contains(attrs_.lhs_contracting, ragged_)) {}

  /// `depth`: how many of the dims that have sizes of their own were cut already.
  Literal eval(const Literal& lhs, const Literal& rhs, const Literal& sizes, const Dims& dims,
               std::size_t depth = 0) const {
    if (sizes.dims().size() > 1) return eval_entries(lhs, rhs, sizes, dims, depth);
    if (contains(attrs_.lhs_batch, ragged_)) return eval_batches(lhs, rhs, sizes, dims);
    return eval_groups(lhs, rhs, sizes, dims);
  }

 private:
  /// Entries of a dim one by one, with the sizes of each.
  Literal eval_entries(const Literal& lhs, const Literal& rhs, const Literal& sizes,
                       const Dims& dims, std::size_t depth) const {
    Literal out(Shape(dot_.shape.dtype, dims));
    const std::int64_t d = prefix_[depth];
    const bool summed = contains(attrs_.lhs_contracting, d);
    const bool batch = contains(attrs_.lhs_batch, d);
    const std::int64_t out_dim = summed ? 0 : result_dim(d);
    for (std::int64_t n = 0; n < sizes.dims()[0]; ++n) {
      Dims rest(sizes.dims().begin() + 1, sizes.dims().end());
      const Literal own = rows(sizes, 0, n, n + 1).reshaped(rest);
      Dims part_dims = dims, starts(dims.size(), 0);
      if (!summed) part_dims[std::size_t(out_dim)] = 1;
      Literal other = rhs;
      if (summed) {
        other = rows(rhs, attrs_.rhs_contracting[std::size_t(place_of(attrs_.lhs_contracting, d))],
                     n, n + 1);
      } else if (batch) {
        other = rows(rhs, attrs_.rhs_batch[std::size_t(place_of(attrs_.lhs_batch, d))], n, n + 1);
      }
      const Literal part = eval(rows(lhs, d, n, n + 1), other, own, part_dims, depth + 1);
      if (!summed) {
        starts[std::size_t(out_dim)] = n;
        write_box(out, part, starts);
      } else {
        apply_binary(ir::Opcode::add, dot_.shape.dtype, out.bytes(), part.bytes(),
                     out.mutable_bytes(), out.element_count());
      }
    }
    return out;
  }

  /// Groups of batches: the product is the plain one where there is a group.
  Literal eval_batches(const Literal& lhs, const Literal& rhs, const Literal& sizes,
                       const Dims& dims) const {
    std::int64_t used = 0;
    for (std::int64_t g = 0; g < sizes.element_count(); ++g) used += index_at(sizes, g);
    ir::Instruction dot = dot_;
    dot.shape.dims = dims;
    const Literal product = dot_of(dot, lhs, rhs);
    Literal out(Shape(dot.shape.dtype, dims));
    const std::int64_t dim = place_of(attrs_.lhs_batch, ragged_);
    used = std::clamp<std::int64_t>(used, 0, dims[std::size_t(dim)]);
    write_box(out, rows(product, dim, 0, used), Dims(dims.size(), 0));
    return out;
  }

  Literal eval_groups(const Literal& lhs, const Literal& rhs, const Literal& sizes,
                      const Dims& dims) const {
    Literal out(Shape(dot_.shape.dtype, dims));
    const std::int64_t length = lhs.dims()[std::size_t(ragged_)];
    std::int64_t from = 0;
    for (std::int64_t g = 0; g < sizes.element_count(); ++g) {
      const std::int64_t want = std::max<std::int64_t>(0, index_at(sizes, g));
      const std::int64_t to = want > length - from ? length : from + want;
      const Literal part = rows(lhs, ragged_, from, to);
      Dims starts(dims.size(), 0);
      ir::Instruction one = dot_;
      if (contracted_) {
        const std::int64_t partner =
            attrs_.rhs_contracting[std::size_t(place_of(attrs_.lhs_contracting, ragged_))];
        one.shape.dims.assign(dims.begin() + 1, dims.end());
        Dims with_group = dims;
        with_group[0] = 1;
        starts[0] = g;
        write_box(out, dot_of(one, part, rows(rhs, partner, from, to)).reshaped(with_group),
                  starts);
      } else {
        const std::int64_t group = group_dims_.at(0);
        Dims without = rhs.dims();
        without.erase(without.begin() + std::ptrdiff_t(group));
        auto& one_attrs = one.edit<ir::DotAttrs>();
        for (Dims* list : {&one_attrs.rhs_batch, &one_attrs.rhs_contracting}) {
          for (std::int64_t& d : *list) d -= d > group ? 1 : 0;
        }
        const auto row = std::size_t(result_dim(ragged_));
        one.shape.dims = dims;
        one.shape.dims[row] = to - from;
        starts[row] = from;
        write_box(out, dot_of(one, part, rows(rhs, group, g, g + 1).reshaped(without)), starts);
      }
      from = to;
    }
    return out;
  }

  /// Where a left dim that isn't contracted stands in the result.
  std::int64_t result_dim(std::int64_t d) const {
    const std::int64_t groups = contracted_ ? 1 : 0;
    if (contains(attrs_.lhs_batch, d)) return groups + place_of(attrs_.lhs_batch, d);
    std::int64_t out = groups + std::int64_t(attrs_.lhs_batch.size());
    for (std::int64_t before = 0; before < d; ++before) {
      if (!contains(attrs_.lhs_batch, before) && !contains(attrs_.lhs_contracting, before)) ++out;
    }
    return out;
  }

  ir::Instruction dot_;
  const ir::DotAttrs& attrs_;
  std::int64_t ragged_;
  Dims group_dims_, prefix_;
  bool contracted_;
};

}  // namespace

Literal eval_ragged_dot(const ir::Instruction& in, Operands xs) {
  return RaggedDot(in, in.operand(0)->shape.rank()).eval(*xs[0], *xs[1], *xs[2], in.shape.dims);
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
