// SPDX-License-Identifier: Apache-2.0
// Evaluates reduce and map; sums are accumulated in wide types and rounded once.
#include <algorithm>

#include "src/base/contains.h"
#include "src/evaluator/elementwise.h"
#include "src/evaluator/ops.h"
#include "src/evaluator/scalar_function.h"
#include "src/evaluator/strided.h"

namespace tessera::evaluator {
namespace {

/// init op row 0 op row 1 ..., kept wide and rounded to the type once, so that a sum does not
/// depend on how it was split.
template <class W>
void fold_rows(ir::Opcode op, DType t, const std::byte* rows, std::int64_t row_count,
               std::int64_t lanes, std::byte* acc) {
  const std::int64_t size = std::int64_t(byte_size(t));
  const int width = bit_width(t);
  const bool is_signed = is_signed_integer(t);
  std::vector<W> sum(std::size_t(lanes), W{}), row(std::size_t(lanes), W{});
  load(t, acc, lanes, sum.data());
  const auto fold = [&](auto f) {
    for (std::int64_t r = 0; r < row_count; ++r) {
      load(t, rows + r * lanes * size, lanes, row.data());
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = f(sum[i], row[i]);
    }
  };
  if (op == ir::Opcode::add && t != DType::pred) {
    fold([](W a, W b) { return a + b; });
  } else {
    fold([&](W a, W b) {
      if constexpr (std::is_same_v<W, std::uint64_t>) {
        return combine(op, a, b, width, is_signed);
      } else {
        return combine(op, a, b);
      }
    });
  }
  store(t, sum.data(), lanes, acc);
}

/// acc = f(acc, row 0), f(acc, row 1), ...; `rows[k]`: row_count rows of `lanes` elements.
void reduce_rows(ScalarFunction& f, const std::vector<const std::byte*>& rows,
                 std::int64_t row_count, std::int64_t lanes, const std::vector<std::byte*>& acc) {
  if (lanes == 0 || row_count == 0) return;
  if (f.single_op()) {
    const DType t = f.result_type(0);
    dispatch_domain(t, [&](auto tag) {
      using W = typename decltype(tag)::type;
      fold_rows<W>(*f.single_op(), t, rows[0], row_count, lanes, acc[0]);
    });
    return;
  }
  const std::size_t k = acc.size();
  std::vector<const std::byte*> inputs(2 * k);
  for (std::int64_t r = 0; r < row_count; ++r) {
    for (std::size_t i = 0; i < k; ++i) {
      inputs[i] = acc[i];
      inputs[k + i] =
          rows[i] + std::size_t(r) * std::size_t(lanes) * byte_size(f.parameter_type(k + i));
    }
    f.run(inputs.data(), acc.data(), lanes);
  }
}

Literal as_result(const ir::Instruction& in, std::vector<Literal> results) {
  if (in.shape.is_tuple) return Literal::tuple(std::move(results));
  return std::move(results[0]);
}

}  // namespace

Literal eval_reduce(const ir::Instruction& in, Operands xs) {
  const Dims& reduced = in.get<ir::DimensionsAttrs>().dims;
  const std::size_t k = xs.size() / 2;
  ScalarFunction f(*in.called()[0]);
  const Dims& dims = xs[0]->dims();
  Dims perm = reduced;
  std::sort(perm.begin(), perm.end());
  Dims kept;
  std::int64_t row_count = 1;
  for (std::int64_t d : perm) row_count *= dims[std::size_t(d)];
  for (std::int64_t d = 0; d < std::int64_t(dims.size()); ++d) {
    if (contains(reduced, d)) continue;
    perm.push_back(d);
    kept.push_back(dims[std::size_t(d)]);
  }
  std::vector<Literal> moved, results;
  for (std::size_t i = 0; i < k; ++i) {
    moved.push_back(permuted(*xs[i], perm));
    results.emplace_back(Shape(f.result_type(i), kept));
  }
  std::vector<const std::byte*> rows;
  std::vector<std::byte*> acc;
  for (std::size_t i = 0; i < k; ++i) {
    rows.push_back(moved[i].bytes());
    acc.push_back(results[i].mutable_bytes());
    apply_convert(xs[k + i]->dtype(), f.result_type(i), xs[k + i]->bytes(), acc[i],
                  results[i].element_count() > 0 ? 1 : 0);
    fill(byte_size(f.result_type(i)), acc[i], results[i].element_count(), acc[i]);
  }
  reduce_rows(f, rows, row_count, results[0].element_count(), acc);
  return as_result(in, std::move(results));
}

Literal eval_map(const ir::Instruction& in, Operands xs) {
  ScalarFunction f(*in.called()[0]);
  std::vector<const std::byte*> inputs;
  for (const Literal* x : xs) inputs.push_back(x->bytes());
  Literal out(Shape(in.shape.dtype, in.shape.dims));
  std::byte* results[] = {out.mutable_bytes()};
  f.run(inputs.data(), results, out.element_count());
  return out;
}

Literal reduce_together(const ir::Computation& reducer, Operands xs) {
  ScalarFunction f(reducer);
  Literal out = *xs[0];
  const std::size_t size = out.byte_count();
  std::vector<std::byte> rows(size * (xs.size() - 1));
  for (std::size_t i = 1; i < xs.size(); ++i) {
    if (size != 0) std::memcpy(rows.data() + (i - 1) * size, xs[i]->bytes(), size);
  }
  reduce_rows(f, {rows.data()}, std::int64_t(xs.size()) - 1, out.element_count(),
              {out.mutable_bytes()});
  return out;
}

}  // namespace tessera::evaluator
