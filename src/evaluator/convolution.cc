// SPDX-License-Identifier: Apache-2.0
// Evaluates convolution from its definition.
#include "src/evaluator/ops.h"
#include "src/evaluator/strided.h"
#include "src/evaluator/wide.h"

namespace tessera::evaluator {
namespace {

template <class W>
void add_product(W& sum, const W& a, const W& b) {
  if constexpr (std::is_same_v<W, Complex>) {
    sum += Complex(a.real() * b.real() - a.imag() * b.imag(),
                   a.real() * b.imag() + a.imag() * b.real());
  } else {
    sum += a * b;
  }
}

template <class W>
Literal convolve(const ir::Instruction& in, const Literal& input, const Literal& kernel) {
  const auto& c = in.get<ir::ConvolutionAttrs>();
  const std::vector<W> x = load_all<W>(input), w = load_all<W>(kernel);
  const Dims xs = row_major_strides(input.dims()), ws = row_major_strides(kernel.dims());
  const auto at = [](const Dims& d, std::int64_t i) { return d[std::size_t(i)]; };
  const std::size_t spatial = c.window.size();
  const std::int64_t features = at(kernel.dims(), c.kernel_input_feature);
  const std::int64_t out_features = at(kernel.dims(), c.kernel_output_feature);
  const std::int64_t per_feature_group = out_features / c.feature_group_count;
  const std::int64_t per_batch_group = out_features / c.batch_group_count;
  const std::int64_t batch_group = at(input.dims(), c.input_batch) / c.batch_group_count;
  Dims kernel_sizes;
  for (std::size_t d = 0; d < spatial; ++d) {
    kernel_sizes.push_back(at(kernel.dims(), c.kernel_spatial[d]));
  }
  std::vector<W> out;
  for_each_index(in.shape.dims, [&](const Dims& o) {
    const std::int64_t of = at(o, c.output_feature);
    const std::int64_t batch = at(o, c.output_batch) + of / per_batch_group * batch_group;
    const std::int64_t first_feature = of / per_feature_group * features;
    W sum{};
    for_each_index(kernel_sizes, [&](const Dims& k) {
      std::int64_t xi = batch * at(xs, c.input_batch) + first_feature * at(xs, c.input_feature);
      std::int64_t wi = of * at(ws, c.kernel_output_feature);
      for (std::size_t d = 0; d < spatial; ++d) {
        const ir::WindowDim& win = c.window[d];
        const std::int64_t p =
            at(o, c.output_spatial[d]) * win.stride + k[d] * win.rhs_dilation - win.pad_low;
        if (p < 0 || p % win.lhs_dilation != 0) return;
        const std::int64_t q = p / win.lhs_dilation;
        if (q >= at(input.dims(), c.input_spatial[d])) return;
        xi += q * at(xs, c.input_spatial[d]);
        wi += (win.reversal ? kernel_sizes[d] - 1 - k[d] : k[d]) * at(ws, c.kernel_spatial[d]);
      }
      for (std::int64_t f = 0; f < features; ++f) {
        add_product(sum, x[std::size_t(xi + f * at(xs, c.input_feature))],
                    w[std::size_t(wi + f * at(ws, c.kernel_input_feature))]);
      }
    });
    out.push_back(sum);
  });
  return store_all(Shape(in.shape.dtype, in.shape.dims), out);
}

}  // namespace

Literal eval_convolution(const ir::Instruction& in, Operands xs) {
  const Literal &input = *xs[0], &kernel = *xs[1];
  return dispatch_domain(in.shape.dtype, [&](auto tag) {
    return convolve<typename decltype(tag)::type>(in, input, kernel);
  });
}

}  // namespace tessera::evaluator
