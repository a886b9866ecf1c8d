// SPDX-License-Identifier: Apache-2.0
// Evaluates scans, one step after another.
#include "src/evaluator/evaluator.h"
#include "src/evaluator/ops.h"
#include "src/evaluator/strided.h"

namespace tessera::evaluator {
namespace {

/// The entry of a dim at a place, which stays as a dim of one.
Literal entry(const Literal& x, std::int64_t dim, std::int64_t at) {
  Dims starts(x.dims().size(), 0), sizes = x.dims();
  starts[std::size_t(dim)] = at;
  sizes[std::size_t(dim)] = 1;
  return sliced(x, starts, sizes);
}

}  // namespace

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
      arguments.push_back(entry(*xs[i], dim, at).reshaped(dims));
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

}  // namespace tessera::evaluator
