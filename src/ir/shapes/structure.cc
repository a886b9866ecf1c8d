// SPDX-License-Identifier: Apache-2.0
// Operations that move elements without computing: broadcast, reshape, slice, pad, ...
#include <algorithm>

#include "src/ir/shapes/inference_site.h"

namespace tessera::ir::inference {
namespace {

const Shape& declared_array(const Site& site) {
  const Shape& out = site.need_declared();
  if (!out.is_array()) site.dtype_error("the result must be an array, not " + out.to_string());
  return out;
}

}  // namespace

Shape infer_broadcast(const Site& site) {
  const Shape& x = site.array(0);
  const Shape& out = declared_array(site);
  const Dims& dims = site.get<DimensionsAttrs>().dims;
  if (std::int64_t(dims.size()) != x.rank()) {
    site.shape_error("dimensions={" + join(dims) + "} must name one result dim per operand dim (" +
                     std::to_string(x.rank()) + ")");
  }
  site.check_dims(dims, out.rank(), "broadcast dim");
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (x.dims[i] != out.dim(dims[i])) {
      site.shape_error("operand dim " + std::to_string(i) + " of size " +
                       std::to_string(x.dims[i]) + " goes to dim " + std::to_string(dims[i]) +
                       " of " + out.to_string() +
                       "; the sizes must be equal (size 1 is reshaped away first)");
    }
  }
  return Shape(x.dtype, out.dims);
}

Shape infer_reshape(const Site& site) {
  const Shape& x = site.array(0);
  const Shape& out = declared_array(site);
  std::int64_t before = x.element_count(), after = out.element_count();
  if (before != after) {
    site.shape_error("can't become " + out.to_string() + ": " + std::to_string(before) +
                     " elements are not " + std::to_string(after));
  }
  return Shape(x.dtype, out.dims);
}

Shape infer_transpose(const Site& site) {
  const Shape& x = site.array(0);
  const Dims& perm = site.get<DimensionsAttrs>().dims;
  site.check_dims(perm, x.rank(), "transposed dim");
  if (std::int64_t(perm.size()) != x.rank()) {
    site.shape_error("dimensions={" + join(perm) + "} must be a permutation of " +
                     std::to_string(x.rank()) + " dims");
  }
  Dims dims;
  for (std::int64_t d : perm) dims.push_back(x.dim(d));
  return Shape(x.dtype, std::move(dims));
}

Shape infer_concatenate(const Site& site) {
  site.need_operands_at_least(1);
  const Shape& first = site.array(0);
  const Dims& attr = site.get<DimensionsAttrs>().dims;
  if (attr.size() != 1) {
    site.shape_error("takes exactly one dimension, not {" + join(attr) + "}");
  }
  std::int64_t dim = attr[0];
  site.check_dim(dim, first.rank(), "concatenated dim");
  Dims dims = first.dims;
  for (std::size_t i = 1; i < site.operands.size(); ++i) {
    site.same_dtype(0, i);
    const Shape& x = site.shape(i);
    bool fits = x.rank() == first.rank();
    for (std::int64_t d = 0; fits && d < x.rank(); ++d) fits = d == dim || x.dim(d) == first.dim(d);
    if (!fits) {
      site.shape_error("operand " + std::to_string(i) + " is " + x.to_string() +
                       " and operand 0 is " + first.to_string() + "; they may differ in dim " +
                       std::to_string(dim) + " only");
    }
    if (__builtin_add_overflow(dims[std::size_t(dim)], x.dim(dim), &dims[std::size_t(dim)])) {
      site.shape_error("the concatenated dim does not fit 64 bits");
    }
  }
  return Shape(first.dtype, std::move(dims));
}

Shape infer_slice(const Site& site) {
  const Shape& x = site.array(0);
  const auto& a = site.get<SliceAttrs>();
  auto rank = std::size_t(x.rank());
  if (a.starts.size() != rank || a.limits.size() != rank ||
      (!a.strides.empty() && a.strides.size() != rank)) {
    site.shape_error("needs one [start:limit] per dim (" + std::to_string(rank) + "), not " +
                     std::to_string(a.starts.size()));
  }
  Dims dims;
  for (std::size_t i = 0; i < rank; ++i) {
    std::int64_t stride = a.strides.empty() ? 1 : a.strides[i];
    if (a.starts[i] < 0 || a.limits[i] < a.starts[i] || a.limits[i] > x.dims[i] || stride < 1) {
      site.shape_error("[" + std::to_string(a.starts[i]) + ":" + std::to_string(a.limits[i]) + ":" +
                       std::to_string(stride) + "] of dim " + std::to_string(i) +
                       "; valid: 0 <= start <= limit <= " + std::to_string(x.dims[i]) +
                       ", stride >= 1");
    }
    dims.push_back((a.limits[i] - a.starts[i]) / stride +
                   ((a.limits[i] - a.starts[i]) % stride != 0));
  }
  return Shape(x.dtype, std::move(dims));
}

Shape infer_pad(const Site& site) {
  const Shape& x = site.array(0);
  site.same_dtype(0, 1);
  if (!site.shape(1).is_scalar())
    site.shape_error("operand 1, the padding value, must be a scalar");
  const auto& pads = site.get<PadAttrs>().dims;
  if (std::int64_t(pads.size()) != x.rank()) {
    site.shape_error("needs padding for each of " + std::to_string(x.rank()) + " dims, not " +
                     std::to_string(pads.size()));
  }
  Dims dims;
  for (std::size_t i = 0; i < pads.size(); ++i) {
    const PadDim& p = pads[i];
    if (p.interior < 0) {
      site.shape_error("interior padding " + std::to_string(p.interior) + " of dim " +
                       std::to_string(i) + "; valid: 0 or more");
    }
    std::int64_t inner = 0, size = 0;
    bool overflow =
        __builtin_mul_overflow(std::max<std::int64_t>(x.dims[i] - 1, 0), p.interior, &inner) ||
        __builtin_add_overflow(x.dims[i], inner, &size) ||
        __builtin_add_overflow(size, p.low, &size) || __builtin_add_overflow(size, p.high, &size);
    if (overflow || size < 0) {
      site.shape_error(
          "padding " + std::to_string(p.low) + "_" + std::to_string(p.high) + "_" +
          std::to_string(p.interior) + " gives dim " + std::to_string(i) +
          (overflow ? " a size beyond 64 bits" : " the negative size " + std::to_string(size)));
    }
    dims.push_back(size);
  }
  return Shape(x.dtype, std::move(dims));
}

Shape infer_iota(const Site& site) {
  const Shape& out = declared_array(site);
  if (out.dtype == DType::pred) site.dtype_error("can't count in pred");
  site.check_dim(site.get<IotaAttrs>().dim, out.rank(), "iota_dimension");
  return Shape(out.dtype, out.dims);
}

Shape infer_reverse(const Site& site) {
  const Shape& x = site.array(0);
  site.check_dims(site.get<DimensionsAttrs>().dims, x.rank(), "reversed dim");
  return Shape(x.dtype, x.dims);
}

Shape infer_bitcast(const Site& site) {
  const Shape& out = site.need_declared();
  std::int64_t before = site.shape(0).byte_count(), after = out.byte_count();
  if (before != after) {
    site.shape_error("can't be seen as " + out.to_string() + ": " + std::to_string(before) +
                     " bytes are not " + std::to_string(after));
  }
  return out;
}

Shape infer_constant(const Site& site) {
  const auto& a = site.get<ConstantAttrs>();
  return a.elided ? site.need_declared() : a.value.shape();
}

Shape infer_parameter(const Site& site) { return site.need_declared(); }

Shape infer_get_dimension_size(const Site& site) {
  const Dims& dims = site.get<DimensionsAttrs>().dims;
  if (dims.size() != 1) site.shape_error("takes exactly one dimension");
  site.check_dim(dims[0], site.array(0).rank(), "dimension");
  return Shape(DType::s32, {});
}

Shape infer_set_dimension_size(const Site& site) {
  const Dims& dims = site.get<DimensionsAttrs>().dims;
  if (dims.size() != 1) site.shape_error("takes exactly one dimension");
  site.check_dim(dims[0], site.array(0).rank(), "dimension");
  if (site.shape(1) != Shape(DType::s32, {})) {
    site.shape_error("operand 1, the size, must be s32[]");
  }
  return Shape(site.shape(0).dtype, site.shape(0).dims);
}

}  // namespace tessera::ir::inference
