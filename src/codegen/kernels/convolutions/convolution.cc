// SPDX-License-Identifier: Apache-2.0
// Convolutions: the operands of the kernel that the table says, and the one that is for all: im2col
// patches and a matrix product per block of rows.
#include "src/codegen/kernels/convolutions/convolution.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "src/base/arrays/shape.h"
#include "src/codegen/kernels/convolutions/convolution_table.h"
#include "src/codegen/kernels/convolutions/depthwise_convolution.h"
#include "src/codegen/kernels/convolutions/direct_convolution.h"
#include "src/codegen/kernels/convolutions/few_features_convolution.h"
#include "src/codegen/kernels/convolutions/grouped_convolution.h"
#include "src/codegen/kernels/convolutions/padded_convolution.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/prices.h"
#include "src/codegen/kernels/products/gemm.h"
#include "src/codegen/kernels/type_dispatch.h"

namespace tessera::codegen {
namespace {

using runtime::KernelCall;

struct ConvolutionAttrs {
  std::vector<ir::WindowDim> window;
  Dims in, out;                   ///< spatial
  std::int64_t features = 0;      ///< of the input
  std::int64_t per_group = 0;     ///< input features that one result feature sees
  std::int64_t out_features = 0;  ///< of all groups
  std::int64_t groups = 1;        ///< of features or of the batch
  bool groups_split_batch = false;
  std::int64_t batch = 0;   ///< of the result
  std::int64_t taps = 1;    ///< positions of the window
  std::int64_t rows = 16;   ///< of patches, made at a time
  bool whole_rows = false;  ///< the patches are the input as it stands
};

/// Rows of patches made at a time: enough for BLAS, small enough for the cache and beside what the
/// convolution holds anyway.
std::int64_t rows_at_once(std::int64_t width, std::int64_t held_bytes, std::int64_t element) {
  const std::int64_t bytes = std::max<std::int64_t>(64 << 10, held_bytes / 10);
  const std::int64_t elements = std::min<std::int64_t>(32768, bytes / element);
  return std::clamp<std::int64_t>(elements / std::max<std::int64_t>(width, 1), 16, 512);
}

/// One row: what the window at `position` of batch `b` sees of one group's features.
template <class T>
void make_patch(const ConvolutionAttrs& a, const T* input, std::int64_t b, const Dims& position,
                std::int64_t first_feature, Dims* tap, T* row) {
  const std::size_t rank = a.window.size();
  std::fill(tap->begin(), tap->end(), 0);
  for (std::int64_t n = 0; n < a.taps; ++n, row += a.per_group) {
    std::int64_t at = b;
    bool inside = true;
    for (std::size_t d = 0; d < rank && inside; ++d) {
      const ir::WindowDim& w = a.window[d];
      const std::int64_t k = w.reversal ? w.size - 1 - (*tap)[d] : (*tap)[d];
      const std::int64_t p = position[d] * w.stride + k * w.rhs_dilation - w.pad_low;
      inside = p >= 0 && p % w.lhs_dilation == 0 && p / w.lhs_dilation < a.in[d];
      at = at * a.in[d] + (inside ? p / w.lhs_dilation : 0);
    }
    if (inside) {
      std::copy_n(input + at * a.features + first_feature, a.per_group, row);
    } else {
      std::fill_n(row, a.per_group, T(0));
    }
    for (std::size_t d = rank; d-- > 0;) {
      if (++(*tap)[d] < a.window[d].size) break;
      (*tap)[d] = 0;
    }
  }
}

template <class T>
void run(const KernelCall& call) {
  const auto& a = *static_cast<const ConvolutionAttrs*>(call.attributes);
  const T* input = reinterpret_cast<const T*>(call.inputs[0]);
  const T* filter = reinterpret_cast<const T*>(call.inputs[1]);
  T* out = reinterpret_cast<T*>(call.outputs[0]);
  const std::int64_t width = a.taps * a.per_group, columns = a.out_features / a.groups;
  std::int64_t positions = 1;
  for (const std::int64_t d : a.out) positions *= d;
  const std::int64_t rows = a.whole_rows ? a.batch * positions : a.rows;
  const auto multiply = [&](const T* patches, std::int64_t lda, std::int64_t row,
                            std::int64_t count, std::int64_t group) {
    gemm(choose_gemm({rows, columns, width}).how, CblasNoTrans, CblasNoTrans, int(count),
         int(columns), int(width), patches, int(lda), filter + group * columns, int(a.out_features),
         out + row * a.out_features + group * columns, int(a.out_features));
  };
  if (width == 0) {
    std::fill_n(out + call.begin * a.out_features, (call.end - call.begin) * a.out_features, T(0));
    return;
  }
  if (a.whole_rows) {
    return multiply(input + call.begin * a.features, a.features, call.begin, call.end - call.begin,
                    0);
  }
  const std::int64_t most = a.rows;
  std::vector<T> patches(std::size_t(std::min(most, call.end - call.begin) * width));
  Dims position(a.out.size()), tap(a.out.size());
  for (std::int64_t row = call.begin; row < call.end; row += most) {
    const std::int64_t count = std::min(most, call.end - row);
    for (std::int64_t g = 0; g < a.groups; ++g) {
      for (std::int64_t r = 0; r < count; ++r) {
        std::int64_t rest = (row + r) % positions, b = (row + r) / positions;
        for (std::size_t d = a.out.size(); d-- > 0;) {
          position[d] = rest % a.out[d];
          rest /= a.out[d];
        }
        if (a.groups_split_batch) b += g * a.batch;
        make_patch(a, input, b, position, a.groups_split_batch ? 0 : g * a.per_group, &tap,
                   patches.data() + r * width);
      }
      multiply(patches.data(), width, row, count, g);
    }
  }
}

void run_nothing(const KernelCall&) {}

runtime::KernelFunction convolution_function(DType t) {
  return for_type(
      kFloats + kComplex + kUnsigned, wrapping_type(t),
      [](auto tag) -> runtime::KernelFunction { return run<typename decltype(tag)::type>; });
}

/// Those of dims of one are what they would be if roles stood in that order: which kernel is taken
/// doesn't depend on where such dims stand.
ConvolutionStrides by_role(const Dims& dims, const Dims& strides, std::int64_t batch,
                           std::int64_t feature, const Dims& spatial, bool batch_first) {
  Dims order = spatial;
  order.insert(batch_first ? order.begin() : order.end(), batch);
  order.push_back(feature);
  Dims all = strides;
  std::int64_t inner = 1;
  for (auto d = order.rbegin(); d != order.rend(); ++d) {
    if (dims[std::size_t(*d)] == 1) all[std::size_t(*d)] = inner;
    inner *= dims[std::size_t(*d)];
  }
  ConvolutionStrides out{all[std::size_t(batch)], all[std::size_t(feature)], {}};
  for (const std::int64_t d : spatial) out.spatial.push_back(all[std::size_t(d)]);
  return out;
}

/// Strides after a transpose that puts dims in the order of `perm`, by the op's dims.
Dims strides_after(const Dims& perm, const Dims& dims) {
  Dims moved;
  for (const std::int64_t d : perm) moved.push_back(dims[std::size_t(d)]);
  const Dims strides = row_major_strides(moved);
  Dims out(dims.size());
  for (std::size_t d = 0; d < perm.size(); ++d) out[std::size_t(perm[d])] = strides[d];
  return out;
}

bool is_minor(std::int64_t dim, const Dims& dims) {
  return row_major_strides(dims)[std::size_t(dim)] == 1 || dims[std::size_t(dim)] == 1;
}

Dims unless_identity(Dims perm) {
  if (std::is_sorted(perm.begin(), perm.end())) perm.clear();
  return perm;
}

/// Where each dim of a result is that is made in that order; empty if it is there already.
Dims places_in(const Dims& order) {
  Dims out(order.size());
  for (std::size_t d = 0; d < order.size(); ++d) out[std::size_t(order[d])] = std::int64_t(d);
  return unless_identity(std::move(out));
}

/// A convolution with its dims by their roles.
struct Roles {
  Roles(const ir::Instruction& in, DType type);
  /// The operation, with an input of those strides.
  void set_input(const Dims& strides);

  const ir::Instruction& in;
  const ir::ConvolutionAttrs& c;
  const Shape &x, &w;
  ConvolutionAttrs attrs;
  /// The orders that products of patches take. Their results are in `made_order`.
  ConvolutionPlan orders;
  Dims made_order;
  ConvolutionOperation operation;
  bool filter_is_ordered = false, result_is_ordered = false;  ///< of `operation.ordered`
};

Roles::Roles(const ir::Instruction& i, DType type)
    : in(i), c(i.get<ir::ConvolutionAttrs>()), x(i.operand(0)->shape), w(i.operand(1)->shape) {
  ConvolutionAttrs& a = attrs;
  a.window = c.window;
  orders.input = {c.input_batch};
  orders.made = {in.shape.dim(c.output_batch)};
  made_order = {c.output_batch};  // the op's dim of each dim made
  for (std::size_t d = 0; d < c.window.size(); ++d) {
    orders.input.push_back(c.input_spatial[d]);
    orders.filter.push_back(c.kernel_spatial[d]);
    orders.made.push_back(in.shape.dim(c.output_spatial[d]));
    made_order.push_back(c.output_spatial[d]);
    a.in.push_back(x.dim(c.input_spatial[d]));
    a.out.push_back(in.shape.dim(c.output_spatial[d]));
    a.taps *= c.window[d].size;
  }
  orders.input.push_back(c.input_feature);
  orders.filter.push_back(c.kernel_input_feature);
  orders.filter.push_back(c.kernel_output_feature);
  orders.made.push_back(in.shape.dim(c.output_feature));
  made_order.push_back(c.output_feature);
  orders.input = unless_identity(std::move(orders.input));
  orders.filter = unless_identity(std::move(orders.filter));
  orders.result = places_in(made_order);
  a.features = x.dim(c.input_feature);
  a.per_group = w.dim(c.kernel_input_feature);
  a.out_features = w.dim(c.kernel_output_feature);
  a.groups_split_batch = c.batch_group_count > 1;
  a.groups = a.groups_split_batch ? c.batch_group_count : c.feature_group_count;
  a.batch = orders.made.front();
  a.whole_rows =
      a.groups == 1 && std::all_of(c.window.begin(), c.window.end(), [](ir::WindowDim d) {
        d.reversal = false;  // of one tap
        return d == ir::WindowDim();
      });
  operation.type = type;
  operation.has_elements = in.shape.element_count() != 0;
  operation.one_position = a.whole_rows;
}

void Roles::set_input(const Dims& strides) {
  ConvolutionProblem p;
  p.window = c.window;
  p.in = attrs.in;
  p.out = attrs.out;
  p.per_group = attrs.per_group;
  p.groups = attrs.groups;
  p.columns = attrs.out_features / std::max<std::int64_t>(attrs.groups, 1);
  p.groups_split_batch = attrs.groups_split_batch;
  p.batch = attrs.batch;
  p.input = by_role(x.dims, strides, c.input_batch, c.input_feature, c.input_spatial, true);
  const auto with = [&](const Dims& filter, const Dims& result) {
    p.filter = by_role(w.dims, filter, c.kernel_input_feature, c.kernel_output_feature,
                       c.kernel_spatial, false);
    p.result =
        by_role(in.shape.dims, result, c.output_batch, c.output_feature, c.output_spatial, true);
    return p;
  };
  Dims filter = row_major_strides(w.dims), result = row_major_strides(in.shape.dims);
  operation.given = with(filter, result);
  // Output features must be neighbours.
  filter_is_ordered = !is_minor(c.kernel_output_feature, w.dims);
  result_is_ordered = !is_minor(c.output_feature, in.shape.dims);
  if (filter_is_ordered) filter = strides_after(orders.filter, w.dims);
  if (result_is_ordered) result = strides_after(made_order, in.shape.dims);
  operation.ordered = with(filter, result);
}

/// Products of patches, or of the input as it stands.
ConvolutionPlan patches(const Roles& roles) {
  ConvolutionPlan plan = roles.orders;
  ConvolutionAttrs a = roles.attrs;
  const DType type = roles.operation.type;
  const Shape& result = roles.in.shape;
  const std::int64_t width = a.taps * a.per_group, limit = std::int64_t(1) << 31;
  const std::int64_t positions =
      std::accumulate(a.out.begin(), a.out.end(), a.batch, std::multiplies<>());
  if (std::max({width, a.out_features, a.features, positions}) >= limit) {
    throw CompileError(
        "convolution " + roles.in.describe() + " has 2^31 or more of one kind: BLAS lacks that",
        roles.in.location());
  }
  const auto element = std::int64_t(byte_size(type));
  const std::int64_t held = element * (roles.x.element_count() + roles.w.element_count()) +
                            element * result.element_count();
  a.rows = rows_at_once(width, held, element);
  const bool empty = !roles.operation.has_elements;
  plan.kernel.units = empty ? 0 : positions;
  plan.kernel.nanoseconds =
      prices::call::kConvolution +
      double(positions) * double(width) *
          (prices::product::kPatchNumber + prices::product::kOfPatches * double(a.out_features) /
                                               double(std::max<std::int64_t>(a.groups, 1)));
  plan.kernel.key = kernel_key("convolution", type, empty, a.window, a.in, a.out, a.features,
                               a.per_group, a.out_features, a.groups, a.groups_split_batch, a.batch,
                               a.taps, a.rows, a.whole_rows);
  plan.kernel.make = kernel_maker(empty ? run_nothing : convolution_function(type), std::move(a));
  return plan;
}

/// Of a line of the table, with operands and result in the orders that its kernel takes.
ConvolutionPlan plan_of(ConvolutionKernel kernel, const Roles& roles) {
  const ConvolutionOperation& o = roles.operation;
  ConvolutionPlan plan;
  plan.made = roles.in.shape.dims;
  if (kernel == ConvolutionKernel::few_features) {
    plan.kernel = few_features_convolution_kernel(o.given, o.type);
    return plan;
  }
  if (roles.filter_is_ordered) plan.filter = roles.orders.filter;
  if (roles.result_is_ordered) {
    plan.made = roles.orders.made;
    plan.result = roles.orders.result;
  }
  switch (kernel) {
    case ConvolutionKernel::depthwise:
      plan.kernel = depthwise_convolution_kernel(o.ordered, o.type);
      return plan;
    case ConvolutionKernel::grouped:
      plan.kernel = grouped_convolution_kernel(o.ordered, o.type);
      return plan;
    case ConvolutionKernel::padded:
      plan.kernel = padded_convolution_kernel(o.ordered, o.type);
      return plan;
    case ConvolutionKernel::direct:
      plan.kernel = direct_convolution_kernel(o.ordered, o.type);
      return plan;
    default:
      return patches(roles);
  }
}

}  // namespace

ConvolutionPlan convolution_kernel(const ir::Instruction& in, DType type) {
  Roles roles(in, type);
  roles.set_input(row_major_strides(roles.x.dims));
  const auto* line = &choose_convolution(roles.operation);
  if (line->how == ConvolutionKernel::none) return {};
  keep_blas_to_one_thread();
  Dims input;
  if (line->how == ConvolutionKernel::patches && !roles.orders.input.empty()) {
    // The order that products take the input in would do as well. A program whose input was made in
    // that order has the same kernel then.
    input = roles.orders.input;
    roles.set_input(strides_after(input, roles.x.dims));
    line = &choose_convolution(roles.operation);
  }
  ConvolutionPlan plan = plan_of(line->how, roles);
  if (!input.empty()) plan.input = std::move(input);
  plan.kernel.label = &line->label;
  return plan;
}

}  // namespace tessera::codegen
