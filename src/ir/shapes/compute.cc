// SPDX-License-Identifier: Apache-2.0
// Operations that take a computation on scalars (reduce, map, sort, windows), and the odd ones of
// statistics and random numbers.
#include <algorithm>

#include "src/base/contains.h"
#include "src/ir/shapes/inference_site.h"

namespace tessera::ir::inference {
namespace {

// Checks a reducer (acc..., value...) -> acc... on scalars of these types.
void check_reducer(const Site& site, std::size_t callee, const std::vector<Shape>& scalars) {
  std::vector<Shape> parameters = scalars;
  parameters.insert(parameters.end(), scalars.begin(), scalars.end());
  site.check_parameters(callee, parameters, "reducer");
  Shape expected = scalars.size() == 1 ? scalars[0] : Shape::tuple(scalars);
  if (site.result_of(callee) != expected) {
    site.shape_error("reducer " + site.called[callee]->name() + " gives " +
                     site.result_of(callee).to_string() + " and must give " + expected.to_string());
  }
}

// n inputs of equal dims and n scalar initial values; the scalars of their types.
std::vector<Shape> check_inputs_and_inits(const Site& site) {
  if (site.operands.empty() || site.operands.size() % 2 != 0) {
    site.shape_error("takes n arrays and n initial values, not " +
                     plural(site.operands.size(), "operand"));
  }
  std::size_t n = site.operands.size() / 2;
  std::vector<Shape> scalars;
  for (std::size_t i = 0; i < n; ++i) {
    site.same_dims(0, i);
    site.same_dtype(i, n + i);
    if (!site.shape(n + i).is_scalar()) {
      site.shape_error("operand " + std::to_string(n + i) + ", an initial value, must be a scalar");
    }
    scalars.emplace_back(site.shape(i).dtype, Dims{});
  }
  return scalars;
}

}  // namespace

Shape infer_reduce(const Site& site) {
  std::vector<Shape> scalars = check_inputs_and_inits(site);
  const Shape& x = site.shape(0);
  const Dims& reduced = site.get<DimensionsAttrs>().dims;
  site.check_dims(reduced, x.rank(), "reduced dim");
  site.need_called(1);
  check_reducer(site, 0, scalars);
  Dims dims;
  for (std::int64_t d = 0; d < x.rank(); ++d) {
    if (!contains(reduced, d)) dims.push_back(x.dim(d));
  }
  for (Shape& s : scalars) s.dims = dims;
  return one_or_tuple(std::move(scalars));
}

namespace {

Dims windowed_dims(const Site& site, const Dims& dims, const std::vector<WindowDim>& window) {
  if (window.size() != dims.size()) {
    site.shape_error("the window has " + plural(window.size(), "dim") + " and the array " +
                     std::to_string(dims.size()));
  }
  Dims out;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    out.push_back(windowed_size(site, dims[i], window[i], i));
  }
  return out;
}

}  // namespace

Shape infer_reduce_window(const Site& site) {
  std::vector<Shape> scalars = check_inputs_and_inits(site);
  Dims dims = windowed_dims(site, site.shape(0).dims, site.get<WindowAttrs>().dims);
  site.need_called(1);
  check_reducer(site, 0, scalars);
  for (Shape& s : scalars) s.dims = dims;
  return one_or_tuple(std::move(scalars));
}

Shape infer_select_and_scatter(const Site& site) {
  const Shape& x = site.array(0);
  site.same_dtype(0, 1);
  site.same_dtype(0, 2);
  if (!site.shape(2).is_scalar())
    site.shape_error("operand 2, the initial value, must be a scalar");
  Dims windows = windowed_dims(site, x.dims, site.get<WindowAttrs>().dims);
  if (site.shape(1).dims != windows) {
    site.shape_error("the source has dims " + to_string(site.shape(1).dims) +
                     " and the windows of operand 0 are " + to_string(windows));
  }
  site.need_called(2);
  Shape scalar(x.dtype, {});
  std::vector<Shape> two{scalar, scalar};
  site.check_parameters(0, two, "select");
  site.check_parameters(1, two, "scatter");
  if (site.result_of(0) != Shape(DType::pred, {})) {
    site.shape_error("select must give pred[], not " + site.result_of(0).to_string());
  }
  if (site.result_of(1) != scalar) {
    site.shape_error("scatter must give " + scalar.to_string() + ", not " +
                     site.result_of(1).to_string());
  }
  return Shape(x.dtype, x.dims);
}

Shape infer_map(const Site& site) {
  site.need_operands_at_least(1);
  std::vector<Shape> scalars;
  for (std::size_t i = 0; i < site.operands.size(); ++i) {
    site.same_dims(0, i);
    scalars.emplace_back(site.shape(i).dtype, Dims{});
  }
  const Shape& x = site.shape(0);
  const Dims& dims = site.get<DimensionsAttrs>().dims;
  for (std::size_t i = 0; i < dims.size() || std::int64_t(i) < x.rank(); ++i) {
    if (std::int64_t(dims.size()) != x.rank() || dims[i] != std::int64_t(i)) {
      site.shape_error("dimensions={" + join(dims) +
                       "} must list all dims of the operands in order");
    }
  }
  site.need_called(1);
  site.check_parameters(0, scalars, "mapped computation");
  if (!site.result_of(0).is_scalar()) {
    site.shape_error("mapped computation " + site.called[0]->name() + " must give a scalar, not " +
                     site.result_of(0).to_string());
  }
  return Shape(site.result_of(0).dtype, x.dims);
}

Shape infer_sort(const Site& site) {
  site.need_operands_at_least(1);
  std::vector<Shape> results, parameters;
  for (std::size_t i = 0; i < site.operands.size(); ++i) {
    site.same_dims(0, i);
    results.emplace_back(site.shape(i).dtype, site.shape(i).dims);
    parameters.emplace_back(site.shape(i).dtype, Dims{});
    parameters.emplace_back(site.shape(i).dtype, Dims{});
  }
  site.check_dim(site.get<SortAttrs>().dim, site.shape(0).rank(), "sorted dim");
  site.need_called(1);
  site.check_parameters(0, parameters, "comparator");
  if (site.result_of(0) != Shape(DType::pred, {})) {
    site.shape_error("comparator " + site.called[0]->name() + " must give pred[], not " +
                     site.result_of(0).to_string());
  }
  return one_or_tuple(std::move(results));
}

Shape infer_topk(const Site& site) {
  const Shape& x = site.array(0);
  std::int64_t k = site.get<TopKAttrs>().k;
  if (x.rank() < 1) site.shape_error("needs an array of rank 1 or more");
  if (is_complex(x.dtype)) site.dtype_error("complex numbers have no order");
  if (k < 0 || k > x.dims.back()) {
    site.shape_error("k=" + std::to_string(k) + " is not in [0, " + std::to_string(x.dims.back()) +
                     "], the size of the last dim");
  }
  Dims dims = x.dims;
  dims.back() = k;
  return Shape::tuple({Shape(x.dtype, dims), Shape(DType::s32, dims)});
}

Shape infer_batch_norm(const Site& site) {
  const Shape& x = site.array(0);
  const auto& a = site.get<BatchNormAttrs>();
  if (!is_floating(x.dtype)) site.dtype_error("operand 0 must be floating point");
  site.check_dim(a.feature_index, x.rank(), "feature_index");
  Shape feature(x.dtype, {x.dim(a.feature_index)});
  std::size_t features = site.op == Opcode::batch_norm_training    ? 2
                         : site.op == Opcode::batch_norm_inference ? 4
                                                                   : 3;
  for (std::size_t i = 1; i <= features; ++i) {
    site.same_dtype(0, i);
    if (site.shape(i).dims != feature.dims) {
      site.shape_error("operand " + std::to_string(i) + " must be " + feature.to_string() +
                       ", one value per feature");
    }
  }
  Shape whole(x.dtype, x.dims);
  if (site.op == Opcode::batch_norm_inference) return whole;
  if (site.op == Opcode::batch_norm_grad) {
    site.same_dtype(0, 4);
    site.same_dims(0, 4);
  }
  return Shape::tuple({whole, feature, feature});
}

Shape infer_rng_bit_generator(const Site& site) {
  const Shape& state = site.array(0);
  const Shape& out = site.need_declared();
  if (!is_unsigned_integer(state.dtype) || state.rank() != 1) {
    site.dtype_error("operand 0, the state, must be a vector of unsigned integers");
  }
  const Shape& bits = out.is_tuple && out.elements.size() == 2 ? out.elements[1] : out;
  if (out.is_tuple && (out.elements.size() != 2 || out.elements[0] != state)) {
    site.shape_error("the result must be (" + state.to_string() + ", bits), not " +
                     out.to_string());
  }
  if (!bits.is_array() || !is_integer(bits.dtype)) {
    site.dtype_error("the bits must be an array of integers, not " + bits.to_string());
  }
  return out;
}

Shape infer_rng(const Site& site) {
  const Shape& out = site.need_declared();
  for (std::size_t i = 0; i < 2; ++i) {
    if (!site.array(i).is_scalar()) {
      site.shape_error("operand " + std::to_string(i) + " must be a scalar");
    }
  }
  site.same_dtype(0, 1);
  if (!out.is_array()) site.dtype_error("the result must be an array, not " + out.to_string());
  return Shape(site.shape(0).dtype, out.dims);
}

std::int64_t windowed_size(const Site& site, std::int64_t input, const WindowDim& w,
                           std::size_t dim) {
  auto bad = [&](const std::string& what) {
    site.shape_error("window dim " + std::to_string(dim) + ": " + what);
  };
  if (w.size < 1) bad("size " + std::to_string(w.size) + "; valid: 1 or more");
  if (w.stride < 1) bad("stride " + std::to_string(w.stride) + "; valid: 1 or more");
  if (w.lhs_dilation < 1 || w.rhs_dilation < 1) {
    bad("dilations " + std::to_string(w.lhs_dilation) + " and " + std::to_string(w.rhs_dilation) +
        "; valid: 1 or more");
  }
  std::int64_t spread = 0, padded = 0, reach = 0;
  bool overflow = (input > 0 && (__builtin_mul_overflow(input - 1, w.lhs_dilation, &spread) ||
                                 __builtin_add_overflow(spread, 1, &spread))) ||
                  __builtin_add_overflow(spread, w.pad_low, &padded) ||
                  __builtin_add_overflow(padded, w.pad_high, &padded) ||
                  __builtin_mul_overflow(w.size - 1, w.rhs_dilation, &reach) ||
                  __builtin_add_overflow(reach, 1, &reach);
  if (overflow) bad("the padded size does not fit 64 bits");
  if (padded < 0) bad("padding makes the size negative (" + std::to_string(padded) + ")");
  return padded < reach ? 0 : (padded - reach) / w.stride + 1;
}

}  // namespace tessera::ir::inference
