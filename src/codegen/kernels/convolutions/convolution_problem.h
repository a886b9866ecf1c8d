// SPDX-License-Identifier: Apache-2.0
// What a convolution computes, in whatever order the dims of its operands stand.
#pragma once

#include <cstdint>

#include "src/codegen/kernels/kernel_key.h"
#include "src/ir/module.h"

namespace tessera::codegen {

/// Strides in elements of an array's dims by their roles.
struct ConvolutionStrides {
  std::int64_t batch = 0;    ///< of the filter: input features
  std::int64_t feature = 0;  ///< of the filter and the result: output features, which is 1
  Dims spatial;
};

/// What is computed, in terms of one dim's positions p of the result and taps t of the window: the
/// sum over taps t and features i of in[b, (p stride + t rhs_dilation - pad_low) / lhs_dilation, i]
/// filter[t, i, o].
struct ConvolutionProblem {
  std::vector<ir::WindowDim> window;
  Dims in, out;  ///< spatial
  ConvolutionStrides input, filter, result;
  std::int64_t per_group = 0;  ///< input features that one result feature sees
  std::int64_t columns = 0;    ///< output features of a group
  std::int64_t groups = 1;     ///< of features or of the batch
  bool groups_split_batch = false;
  std::int64_t batch = 0;  ///< of the result

  /// Of one image.
  std::int64_t positions() const { return element_count(out); }
  /// Of numbers that are summed up.
  double products() const {
    double all = double(batch) * double(per_group) * double(columns * groups);
    for (const ir::WindowDim& w : window) all *= double(w.size);
    for (const std::int64_t d : out) all *= double(d);
    return all;
  }
  /// Where what a group sees of the input begins.
  std::int64_t first_of_group(std::int64_t group) const {
    return group * (groups_split_batch ? batch * input.batch : per_group * input.feature);
  }

  /// Of one spatial dim: a dim of one in front of it, for kernels that go by lines.
  void add_line_dim() {
    window.insert(window.begin(), ir::WindowDim());
    in.insert(in.begin(), 1);
    out.insert(out.begin(), 1);
    for (Dims* strides : {&input.spatial, &filter.spatial, &result.spatial}) {
      strides->insert(strides->begin(), 0);
    }
  }
};

inline void add_to_key(KeyWriter& key, const ConvolutionStrides& s) {
  key.add_all(s.batch, s.feature, s.spatial);
}
inline void add_to_key(KeyWriter& key, const ConvolutionProblem& c) {
  key.add_all(c.window, c.in, c.out, c.input, c.filter, c.result, c.per_group, c.columns, c.groups,
              c.groups_split_batch, c.batch);
}

/// Cuts n into as few blocks of at most `*each` as there can be, of which each then has so many or
/// fewer; returns their number.
inline std::int64_t equal_blocks(std::int64_t n, std::int64_t* each) {
  const std::int64_t blocks = ceil_div(n, *each);
  *each = ceil_div(n, blocks);
  return blocks;
}

}  // namespace tessera::codegen
