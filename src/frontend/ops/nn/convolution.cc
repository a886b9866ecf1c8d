// SPDX-License-Identifier: Apache-2.0
// Convolutions: layouts given as texts, padding, and the forms that are put in terms of one op.
#include <tessera/ops/convolution.h>

#include <algorithm>
#include <set>

#include "src/frontend/ops/moves.h"
#include "src/frontend/ops/nn/windows.h"
#include "src/frontend/ops/products.h"

namespace tessera {

using frontend::composed;
using frontend::shape_of;
using frontend::where_of;

namespace {

/// Positions of the dims that the three texts of a layout name.
struct ConvDims {
  std::int64_t batch = 0, feature = 1, kernel_in = 1, kernel_out = 0, out_batch = 0,
               out_feature = 1;
  Dims spatial, kernel_spatial, out_spatial;
};

/// Channels first: the kernel is [O, I, spatial..].
ConvDims default_dims(std::size_t rank) {
  ConvDims out;
  for (std::size_t d = 2; d < rank; ++d) out.spatial.push_back(std::int64_t(d));
  out.kernel_spatial = out.out_spatial = out.spatial;
  return out;
}

ConvDims read_layout(const std::string& op, const ConvLayout& layout, std::size_t rank,
                     Location location) {
  if (layout.input.empty() && layout.kernel.empty() && layout.result.empty()) {
    return default_dims(rank);
  }
  const auto bad = [&](const std::string& why) {
    throw ValueError(op + ": the layout \"" + layout.input + "\", \"" + layout.kernel + "\", \"" +
                         layout.result + "\": " + why,
                     location);
  };
  const auto spatial_letters = [&](const std::string& text, char a, char b) {
    if (text.size() != rank) {
      bad("\"" + text + "\" has " + std::to_string(text.size()) +
          " letters, and the operands have rank " + std::to_string(rank));
    }
    std::set<char> letters(text.begin(), text.end());
    if (letters.size() != text.size()) bad("\"" + text + "\" has a letter twice");
    if (letters.erase(a) + letters.erase(b) != 2) {
      bad("\"" + text + "\" must have the letters " + a + " and " + b);
    }
    return letters;
  };
  const std::set<char> letters = spatial_letters(layout.input, 'N', 'C');
  if (spatial_letters(layout.kernel, 'I', 'O') != letters ||
      spatial_letters(layout.result, 'N', 'C') != letters) {
    bad("all three must have the same letters for spatial dimensions");
  }
  const auto at = [](const std::string& text, char c) { return std::int64_t(text.find(c)); };
  ConvDims out;
  out.batch = at(layout.input, 'N');
  out.feature = at(layout.input, 'C');
  out.kernel_in = at(layout.kernel, 'I');
  out.kernel_out = at(layout.kernel, 'O');
  out.out_batch = at(layout.result, 'N');
  out.out_feature = at(layout.result, 'C');
  for (char c : layout.kernel) {
    if (letters.count(c) == 0) continue;
    out.kernel_spatial.push_back(at(layout.kernel, c));
    out.spatial.push_back(at(layout.input, c));
    out.out_spatial.push_back(at(layout.result, c));
  }
  return out;
}

Dims sizes_of(const Shape& shape, const Dims& dims) {
  Dims out;
  for (std::int64_t d : dims) out.push_back(shape.dim(d));
  return out;
}

void check_conv_groups(const std::string& op, const Shape& x, const Shape& kernel,
                       const ConvDims& dims, const ConvOptions& options, Location location) {
  const std::int64_t groups = options.feature_group_count, parts = options.batch_group_count;
  const auto misfit = [&](const std::string& why) {
    throw ShapeError(op + " of " + x.to_string() + " and " + kernel.to_string() + ": " + why,
                     location);
  };
  if (groups < 1 || parts < 1 || (groups > 1 && parts > 1)) {
    throw ValueError(op + ": " + std::to_string(groups) + " groups of features and " +
                         std::to_string(parts) +
                         " of the batch; give 1 or more, and only one of them above 1",
                     location);
  }
  const std::int64_t in = x.dim(dims.feature), out = kernel.dim(dims.kernel_out);
  const std::int64_t per_group = kernel.dim(dims.kernel_in);
  if (in % groups != 0 || in / groups != per_group) {
    misfit("the input has " + std::to_string(in) + " features (dim " +
           std::to_string(dims.feature) + ") in " + std::to_string(groups) +
           " groups, and the kernel takes " + std::to_string(per_group) + " per group (dim " +
           std::to_string(dims.kernel_in) + ")");
  }
  if (out % groups != 0 || out % parts != 0) {
    misfit("the kernel's " + std::to_string(out) + " features of the result (dim " +
           std::to_string(dims.kernel_out) + ") must be a multiple of the number of groups, " +
           std::to_string(std::max(groups, parts)));
  }
  if (x.dim(dims.batch) % parts != 0) {
    misfit("the batch of " + std::to_string(x.dim(dims.batch)) + " (dim " +
           std::to_string(dims.batch) + ") must be a multiple of the number of groups, " +
           std::to_string(parts));
  }
}

ir::ConvolutionAttrs attributes(const ConvDims& dims, std::vector<ir::WindowDim> window,
                                const ConvOptions& options) {
  ir::ConvolutionAttrs a;
  a.window = std::move(window);
  a.input_batch = dims.batch;
  a.input_feature = dims.feature;
  a.input_spatial = dims.spatial;
  a.kernel_input_feature = dims.kernel_in;
  a.kernel_output_feature = dims.kernel_out;
  a.kernel_spatial = dims.kernel_spatial;
  a.output_batch = dims.out_batch;
  a.output_feature = dims.out_feature;
  a.output_spatial = dims.out_spatial;
  a.feature_group_count = options.feature_group_count;
  a.batch_group_count = options.batch_group_count;
  a.operand_precision = frontend::operand_precision(options.precision);
  return a;
}

/// The convolution of two arrays; `op` is the function that was called.
Array convolved(const std::string& op, const Operand& lhs, const Operand& rhs, const Dims& strides,
                const Padding& padding, const ConvOptions& options) {
  const Location location = where_of(lhs, rhs);
  const Shape x = shape_of(lhs), kernel = shape_of(rhs);
  if (x.rank() != kernel.rank() || x.rank() < 2) {
    throw ShapeError(op + " of " + x.to_string() + " and " + kernel.to_string() +
                         ": both must have one rank, 2 more than there are spatial dimensions",
                     location);
  }
  const ConvDims dims = read_layout(op, options.layout, x.dims.size(), location);
  const std::size_t count = dims.spatial.size();
  const DType t = frontend::promote({lhs.array, rhs.array}, location).dtype;
  if (t == DType::pred) throw DTypeError(op + " of pred; convert to numbers first", location);
  frontend::check_preferred(op, t, options.preferred, location);
  check_conv_groups(op, x, kernel, dims, options, location);
  const Dims by = frontend::per_dim(op, "strides", strides, count, location);
  const Dims spread = frontend::per_dim(op, "lhs_dilation", options.lhs_dilation, count, location);
  const Dims holes = frontend::per_dim(op, "rhs_dilation", options.rhs_dilation, count, location);
  const Dims sizes = sizes_of(x, dims.spatial), windows = sizes_of(kernel, dims.kernel_spatial);
  if (padding.is_text() && std::count(spread.begin(), spread.end(), 1) != std::int64_t(count)) {
    throw ValueError(op + ": padding \"" + padding.text() + "\" with lhs_dilation " +
                         to_string(spread) + "; give pairs, or use conv_transpose",
                     location);
  }
  Dims reach;
  for (std::size_t d = 0; d < count; ++d) {
    reach.push_back(frontend::dilated_size(op, windows[d], holes[d], location));
  }
  const Padding::Pairs pairs = frontend::padding_pairs(op, padding, sizes, reach, by, location);
  const ir::ConvolutionAttrs attrs = attributes(
      dims, frontend::window_dims(op, sizes, windows, by, pairs, spread, holes, location), options);
  return composed(op, location, [&] {
    const std::vector<Array> xs = frontend::common_dtype(lhs.array, rhs.array, location);
    const bool weak = xs[0].weak_type() && xs[1].weak_type() && !options.preferred;
    Shape out(options.preferred.value_or(t), Dims(x.dims.size()));
    out.dims[std::size_t(dims.out_batch)] = x.dim(dims.batch) / options.batch_group_count;
    out.dims[std::size_t(dims.out_feature)] = kernel.dim(dims.kernel_out);
    for (std::size_t d = 0; d < count; ++d) {
      out.dims[std::size_t(dims.out_spatial[d])] =
          frontend::window_count(sizes[d], attrs.window[d]);
    }
    frontend::check_size(op, out, location);
    return frontend::apply(ir::Opcode::convolution, xs, attrs, location, op, &out, nullptr, weak);
  });
}

}  // namespace

Array conv_general_dilated(Operand lhs, Operand rhs, std::vector<std::int64_t> window_strides,
                           const Padding& padding, const ConvOptions& options) {
  return convolved("conv_general_dilated", lhs, rhs, window_strides, padding, options);
}

Array conv(Operand lhs, Operand rhs, std::vector<std::int64_t> window_strides,
           const Padding& padding, std::optional<DType> preferred) {
  ConvOptions options;
  options.preferred = preferred;
  return convolved("conv", lhs, rhs, window_strides, padding, options);
}

Array conv_with_general_padding(Operand lhs, Operand rhs, std::vector<std::int64_t> window_strides,
                                const Padding& padding, std::vector<std::int64_t> lhs_dilation,
                                std::vector<std::int64_t> rhs_dilation,
                                std::optional<DType> preferred) {
  ConvOptions options;
  options.lhs_dilation = std::move(lhs_dilation);
  options.rhs_dilation = std::move(rhs_dilation);
  options.preferred = preferred;
  return convolved("conv_with_general_padding", lhs, rhs, window_strides, padding, options);
}

namespace {

/// "NHWC", "HWIO", "NHWC"; none for more than three spatial dims.
ConvLayout channels_last(std::size_t spatial) {
  static const char* const letters[] = {"", "H", "HW", "HWD"};
  const std::string s = letters[spatial];
  return {"N" + s + "C", s + "IO", "N" + s + "C"};
}

/// The padding of a dim that was spread out so that the convolution is the transpose of one with
/// padding `text`.
std::pair<std::int64_t, std::int64_t> transposed_padding(std::int64_t reach, std::int64_t stride,
                                                         bool same) {
  if (same) {
    const std::int64_t total = reach + stride - 2;
    const std::int64_t low = stride > reach - 1 ? reach - 1 : total - total / 2;
    return {low, total - low};
  }
  const std::int64_t total = reach + stride - 2 + std::max<std::int64_t>(reach - stride, 0);
  return {reach - 1, total - (reach - 1)};
}

}  // namespace

Array conv_transpose(Operand lhs, Operand rhs, std::vector<std::int64_t> strides,
                     const Padding& padding, const ConvTransposeOptions& options) {
  const std::string op = "conv_transpose";
  const Location location = where_of(lhs, rhs);
  const Shape x = shape_of(lhs), kernel = shape_of(rhs);
  if (x.rank() != kernel.rank() || x.rank() < 2) {
    throw ShapeError(op + " of " + x.to_string() + " and " + kernel.to_string() +
                         ": both must have one rank, 2 more than there are spatial dimensions",
                     location);
  }
  const std::size_t count = x.dims.size() - 2;
  ConvOptions all;
  all.layout = options.layout;
  if (all.layout.input.empty() && all.layout.kernel.empty() && all.layout.result.empty()) {
    if (count > 3) {
      throw ValueError(op + " of " + x.to_string() + ": " + std::to_string(count) +
                           " spatial dimensions have no default layout; give one",
                       location);
    }
    all.layout = channels_last(count);
  }
  const ConvDims dims = read_layout(op, all.layout, x.dims.size(), location);
  all.lhs_dilation = frontend::per_dim(op, "strides", strides, count, location);
  all.rhs_dilation = frontend::per_dim(op, "rhs_dilation", options.rhs_dilation, count, location);
  all.preferred = options.preferred;
  all.precision = options.precision;
  Padding::Pairs pairs;
  if (!padding.is_text()) {
    pairs = frontend::padding_pairs(op, padding, Dims(count), {}, {}, location);
  } else if (padding.text() != "SAME" && padding.text() != "VALID") {
    throw ValueError(op + ": padding \"" + padding.text() +
                         "\"; valid are \"SAME\", \"VALID\" and a pair (before, after) per "
                         "dimension",
                     location);
  }
  for (std::size_t d = 0; d < count; ++d) {
    const std::int64_t reach = frontend::dilated_size(op, kernel.dim(dims.kernel_spatial[d]),
                                                      all.rhs_dilation[d], location);
    if (padding.is_text()) {
      pairs.push_back(transposed_padding(reach, all.lhs_dilation[d], padding.text() == "SAME"));
    } else if (options.use_consistent_padding) {
      pairs[d] = {reach - 1 - pairs[d].first, reach - 1 - pairs[d].second};
    }
  }
  if (!options.transpose_kernel) return convolved(op, lhs, rhs, {}, pairs, all);
  return composed(op, location, [&] {
    const Array flipped = frontend::reversed(rhs.array, dims.kernel_spatial, location, op);
    std::swap(all.layout.kernel[std::size_t(dims.kernel_in)],
              all.layout.kernel[std::size_t(dims.kernel_out)]);
    return convolved(op, lhs, {flipped, location}, {}, pairs, all);
  });
}

namespace {

/// Channels last, after any number of batch dims.
Array convolved_nd(const std::string& op, std::size_t count, const Operand& x,
                   const Operand& kernel, const ConvNdOptions& options) {
  const Location location = where_of(x, kernel);
  const Shape have = shape_of(x), window = shape_of(kernel);
  if (have.dims.size() < count + 1 || window.dims.size() != count + 2) {
    throw ShapeError(op + " of " + have.to_string() + " and " + window.to_string() +
                         ": the input is [batch.., " + std::to_string(count) +
                         " spatial dimensions, features] and the kernel [" + std::to_string(count) +
                         " spatial dimensions, input features, features of the result]",
                     location);
  }
  ConvOptions all;
  all.layout = channels_last(count);
  all.lhs_dilation = options.input_dilation;
  all.rhs_dilation = options.kernel_dilation;
  all.feature_group_count = options.groups;
  all.preferred = options.preferred;
  all.precision = options.precision;
  const auto run = [&](const Array& input) {
    return convolved(op, {input, location}, kernel, options.strides, options.padding, all);
  };
  if (have.dims.size() == count + 2) return run(x.array);
  return composed(op, location, [&] {
    const auto first = have.dims.end() - std::ptrdiff_t(count + 1);
    const Dims batch(have.dims.begin(), first);
    std::int64_t entries = 1;
    for (std::int64_t d : batch) entries *= d;
    Dims flat{entries};
    flat.insert(flat.end(), first, have.dims.end());
    const Array out = run(frontend::reshaped(x.array, flat, location));
    Dims dims = batch;
    dims.insert(dims.end(), out.shape().begin() + 1, out.shape().end());
    return frontend::reshaped(out, dims, location);
  });
}

}  // namespace

Array conv1d(Operand x, Operand kernel, const ConvNdOptions& options) {
  return convolved_nd("conv1d", 1, x, kernel, options);
}
Array conv2d(Operand x, Operand kernel, const ConvNdOptions& options) {
  return convolved_nd("conv2d", 2, x, kernel, options);
}
Array conv3d(Operand x, Operand kernel, const ConvNdOptions& options) {
  return convolved_nd("conv3d", 3, x, kernel, options);
}

}  // namespace tessera
