// SPDX-License-Identifier: Apache-2.0
// dot, convolution, fft and the matrix solvers.
#include <algorithm>

#include "src/base/contains.h"
#include "src/ir/shapes/inference_site.h"

namespace tessera::ir::inference {
namespace {

// The element type of a product: that of the operands, or a declared one (preferred type).
DType product_dtype(const Site& site) {
  DType a = site.array(0).dtype, b = site.array(1).dtype;
  if (site.declared != nullptr && site.declared->is_array()) {
    DType out = site.declared->dtype;
    bool same_class =
        (is_floating(a) && is_floating(b)) || (is_integer(a) && is_integer(b)) || a == b;
    if (!same_class) {
      site.dtype_error("element types " + std::string(name(a)) + " and " + std::string(name(b)) +
                       " can't be multiplied; convert one");
    }
    if (is_complex(a) != is_complex(out)) {
      site.dtype_error("the result can't be " + std::string(name(out)));
    }
    return out;
  }
  site.same_dtype(0, 1);
  return a;
}

void check_pairs(const Site& site, const Dims& lhs, const Dims& rhs, const char* what) {
  if (lhs.size() != rhs.size()) {
    site.shape_error(std::string(what) + " dims {" + join(lhs) + "} of the left and {" + join(rhs) +
                     "} of the right operand must pair up");
  }
  for (std::size_t i = 0; i < lhs.size(); ++i) {
    if (site.shape(0).dim(lhs[i]) != site.shape(1).dim(rhs[i])) {
      site.shape_error(std::string(what) + " dims " + std::to_string(lhs[i]) + " (size " +
                       std::to_string(site.shape(0).dim(lhs[i])) + ") and " +
                       std::to_string(rhs[i]) + " (size " +
                       std::to_string(site.shape(1).dim(rhs[i])) + ") must be equal");
    }
  }
}

}  // namespace

Shape infer_dot(const Site& site) {
  const Shape& lhs = site.array(0);
  const Shape& rhs = site.array(1);
  const auto& a = site.get<DotAttrs>();
  Dims lhs_used = a.lhs_batch, rhs_used = a.rhs_batch;
  lhs_used.insert(lhs_used.end(), a.lhs_contracting.begin(), a.lhs_contracting.end());
  rhs_used.insert(rhs_used.end(), a.rhs_contracting.begin(), a.rhs_contracting.end());
  site.check_dims(lhs_used, lhs.rank(), "left batch or contracting dim");
  site.check_dims(rhs_used, rhs.rank(), "right batch or contracting dim");
  check_pairs(site, a.lhs_batch, a.rhs_batch, "batch");
  check_pairs(site, a.lhs_contracting, a.rhs_contracting, "contracting");
  Dims dims;
  for (std::int64_t d : a.lhs_batch) dims.push_back(lhs.dim(d));
  auto rest = [&](const Shape& x, const Dims& used) {
    for (std::int64_t d = 0; d < x.rank(); ++d) {
      if (!contains(used, d)) dims.push_back(x.dim(d));
    }
  };
  rest(lhs, lhs_used);
  rest(rhs, rhs_used);
  return Shape(product_dtype(site), std::move(dims));
}

Shape infer_convolution(const Site& site) {
  const Shape& x = site.array(0);
  const Shape& kernel = site.array(1);
  const auto& a = site.get<ConvolutionAttrs>();
  std::size_t spatial = a.input_spatial.size();
  auto rank = std::int64_t(spatial) + 2;
  if (x.rank() != rank || kernel.rank() != rank || a.kernel_spatial.size() != spatial ||
      a.output_spatial.size() != spatial || a.window.size() != spatial) {
    site.shape_error("dim_labels and window describe " + std::to_string(spatial) +
                     " spatial dims; both operands must have rank " + std::to_string(rank) +
                     " and the window " + plural(spatial, "dim"));
  }
  auto all = [](std::int64_t first, std::int64_t second, const Dims& dims) {
    Dims out{first, second};
    out.insert(out.end(), dims.begin(), dims.end());
    return out;
  };
  site.check_dims(all(a.input_batch, a.input_feature, a.input_spatial), rank, "input dim");
  site.check_dims(all(a.kernel_input_feature, a.kernel_output_feature, a.kernel_spatial), rank,
                  "kernel dim");
  site.check_dims(all(a.output_batch, a.output_feature, a.output_spatial), rank, "output dim");
  if (a.feature_group_count < 1 || a.batch_group_count < 1 ||
      (a.feature_group_count > 1 && a.batch_group_count > 1)) {
    site.shape_error("feature_group_count=" + std::to_string(a.feature_group_count) +
                     ", batch_group_count=" + std::to_string(a.batch_group_count) +
                     "; valid: 1 or more, and only one of them above 1");
  }
  std::int64_t batch = x.dim(a.input_batch), in_features = x.dim(a.input_feature);
  std::int64_t kernel_in = kernel.dim(a.kernel_input_feature);
  std::int64_t out_features = kernel.dim(a.kernel_output_feature);
  if (in_features % a.feature_group_count != 0 ||
      in_features / a.feature_group_count != kernel_in) {
    site.shape_error("the input has " + std::to_string(in_features) + " features in " +
                     plural(std::size_t(a.feature_group_count), "group") +
                     " and the kernel takes " + std::to_string(kernel_in) + " per group");
  }
  if (out_features % a.feature_group_count != 0 || out_features % a.batch_group_count != 0) {
    site.shape_error("the kernel's " + std::to_string(out_features) +
                     " output features must be a multiple of the group count");
  }
  if (batch % a.batch_group_count != 0) {
    site.shape_error(
        "batch size " + std::to_string(batch) +
        " must be a multiple of batch_group_count=" + std::to_string(a.batch_group_count));
  }
  Dims dims(std::size_t(rank), 0);
  dims[std::size_t(a.output_batch)] = batch / a.batch_group_count;
  dims[std::size_t(a.output_feature)] = out_features;
  for (std::size_t i = 0; i < spatial; ++i) {
    WindowDim w = a.window[i];
    std::int64_t size = kernel.dim(a.kernel_spatial[i]);
    if (w.size != size) {
      site.shape_error("window dim " + std::to_string(i) + " has size " + std::to_string(w.size) +
                       " and the kernel " + std::to_string(size));
    }
    // A kernel of size 0 adds up nothing; XLA gives no output for it either.
    dims[std::size_t(a.output_spatial[i])] =
        size == 0 ? 0 : windowed_size(site, x.dim(a.input_spatial[i]), w, i);
  }
  return Shape(product_dtype(site), std::move(dims));
}

Shape infer_fft(const Site& site) {
  const Shape& x = site.array(0);
  const auto& a = site.get<FftAttrs>();
  auto n = a.lengths.size();
  if (n < 1 || n > 3 || std::int64_t(n) > x.rank()) {
    site.shape_error("fft_length={" + join(a.lengths) +
                     "} must have 1 to 3 entries, at most the operand's rank");
  }
  for (std::int64_t length : a.lengths) {
    if (length < 0) site.shape_error("fft_length={" + join(a.lengths) + "} must not be negative");
  }
  Dims dims = x.dims;
  std::size_t first = dims.size() - n;
  auto check = [&](std::size_t i, std::int64_t expected) {
    if (dims[first + i] != expected) {
      site.shape_error("dim " + std::to_string(first + i) + " of size " +
                       std::to_string(dims[first + i]) + " must be " + std::to_string(expected) +
                       " for fft_length={" + join(a.lengths) + "}");
    }
  };
  for (std::size_t i = 0; i + 1 < n; ++i) check(i, a.lengths[i]);
  std::int64_t last = a.lengths.back();
  if (a.type == FftType::rfft) {
    if (x.dtype != DType::f32 && x.dtype != DType::f64) {
      site.dtype_error("RFFT takes f32 or f64, not " + std::string(name(x.dtype)));
    }
    check(n - 1, last);
    dims.back() = last / 2 + 1;
    return Shape(x.dtype == DType::f32 ? DType::c64 : DType::c128, std::move(dims));
  }
  if (!is_complex(x.dtype)) {
    site.dtype_error("takes complex numbers (only RFFT takes real ones), not " +
                     std::string(name(x.dtype)));
  }
  if (a.type == FftType::irfft) {
    check(n - 1, last / 2 + 1);
    dims.back() = last;
    return Shape(real_type(x.dtype), std::move(dims));
  }
  check(n - 1, last);
  return Shape(x.dtype, std::move(dims));
}

namespace {

void check_square(const Site& site, std::size_t i) {
  const Shape& x = site.array(i);
  if (!is_floating(x.dtype) && !is_complex(x.dtype)) {
    site.dtype_error("operand " + std::to_string(i) + " must be floating point or complex, not " +
                     std::string(name(x.dtype)));
  }
  if (x.rank() < 2 || x.dims[x.dims.size() - 1] != x.dims[x.dims.size() - 2]) {
    site.shape_error("operand " + std::to_string(i) + " must be square in its last two dims");
  }
}

}  // namespace

Shape infer_triangular_solve(const Site& site) {
  check_square(site, 0);
  site.same_dtype(0, 1);
  const Shape& a = site.shape(0);
  const Shape& b = site.array(1);
  bool fits = a.rank() == b.rank();
  for (std::int64_t d = 0; fits && d + 2 < a.rank(); ++d) fits = a.dim(d) == b.dim(d);
  if (!fits) site.shape_error("both operands must have the same batch dims");
  std::int64_t meets = site.get<TriangularSolveAttrs>().left_side ? b.rank() - 2 : b.rank() - 1;
  if (b.dim(meets) != a.dims.back()) {
    site.shape_error("dim " + std::to_string(meets) + " of the right side has size " +
                     std::to_string(b.dim(meets)) + " and the matrix " +
                     std::to_string(a.dims.back()));
  }
  return Shape(b.dtype, b.dims);
}

Shape infer_cholesky(const Site& site) {
  check_square(site, 0);
  return Shape(site.shape(0).dtype, site.shape(0).dims);
}

}  // namespace tessera::ir::inference
