// SPDX-License-Identifier: Apache-2.0
// Operations whose attributes are carried as text: ragged and scaled dots, scans, and others.

#include "src/base/contains.h"
#include "src/ir/shapes/inference_site.h"
#include "src/ir/text_attributes.h"

namespace tessera::ir::inference {
namespace {

/// The dims of a product, `group` in front of it if the contracted dim is cut in groups.
struct Product {
  Dims lhs_batch, rhs_batch, lhs_contracting, rhs_contracting;

  explicit Product(const Site& site)
      : lhs_batch(text_dims(site.attrs, "lhs_batch_dims")),
        rhs_batch(text_dims(site.attrs, "rhs_batch_dims")),
        lhs_contracting(text_dims(site.attrs, "lhs_contracting_dims")),
        rhs_contracting(text_dims(site.attrs, "rhs_contracting_dims")) {}

  Dims result(const Site& site, const Dims& rhs_skipped) const {
    const Shape &l = site.array(0), &r = site.array(1);
    Dims lhs_used = lhs_batch, rhs_used = rhs_batch;
    lhs_used.insert(lhs_used.end(), lhs_contracting.begin(), lhs_contracting.end());
    rhs_used.insert(rhs_used.end(), rhs_contracting.begin(), rhs_contracting.end());
    rhs_used.insert(rhs_used.end(), rhs_skipped.begin(), rhs_skipped.end());
    site.check_dims(lhs_used, l.rank(), "left batch or contracting dim");
    site.check_dims(rhs_used, r.rank(), "right batch, contracting or group dim");
    pairs(site, lhs_batch, rhs_batch, "batch");
    pairs(site, lhs_contracting, rhs_contracting, "contracting");
    Dims dims;
    for (std::int64_t d : lhs_batch) dims.push_back(l.dim(d));
    for (std::int64_t d = 0; d < l.rank(); ++d) {
      if (!contains(lhs_used, d)) dims.push_back(l.dim(d));
    }
    for (std::int64_t d = 0; d < r.rank(); ++d) {
      if (!contains(rhs_used, d)) dims.push_back(r.dim(d));
    }
    return dims;
  }

  static void pairs(const Site& site, const Dims& lhs, const Dims& rhs, const char* what) {
    bool fit = lhs.size() == rhs.size();
    for (std::size_t i = 0; fit && i < lhs.size(); ++i) {
      fit = site.shape(0).dim(lhs[i]) == site.shape(1).dim(rhs[i]);
    }
    if (!fit) {
      site.shape_error(std::string(what) + " dims {" + join(lhs) + "} of the left and {" +
                       join(rhs) + "} of the right operand must pair up with equal sizes");
    }
  }
};

DType result_type(const Site& site) {
  if (site.declared != nullptr && site.declared->is_array()) {
    DType t = site.declared->dtype;
    if (is_complex(t) != is_complex(site.array(0).dtype)) {
      site.dtype_error("the result can't be " + std::string(name(t)));
    }
    return t;
  }
  site.same_dtype(0, 1);
  return site.array(0).dtype;
}

}  // namespace

Shape infer_ragged_dot(const Site& site) {
  const Product product(site);
  const Dims ragged = text_dims(site.attrs, "lhs_ragged_dims");
  const Dims group = text_dims(site.attrs, "rhs_group_dims");
  const Shape &l = site.array(0), &sizes = site.array(2);
  if (ragged.size() != 1) site.shape_error("takes exactly one of lhs_ragged_dims");
  site.check_dim(ragged[0], l.rank(), "ragged dim");
  Dims wanted;
  for (const std::int64_t d : ragged_prefix_dims(site.attrs, l.rank())) {
    site.check_dim(d, l.rank(), "left batch or contracting dim");
    wanted.push_back(l.dim(d));
  }
  if (!is_integer(sizes.dtype) || sizes.rank() == 0) {
    site.dtype_error("operand 2, the sizes of the groups, must be integers, not " +
                     sizes.to_string());
  }
  const std::int64_t groups = sizes.dims.back();
  wanted.push_back(groups);
  if (sizes.rank() != 1 && sizes.dims != wanted) {
    site.shape_error("operand 2, the sizes of the groups, must be a vector or " +
                     Shape(sizes.dtype, wanted).to_string() + ", not " + sizes.to_string());
  }
  const bool free =
      !contains(product.lhs_batch, ragged[0]) && !contains(product.lhs_contracting, ragged[0]);
  if (group.size() != (free ? 1u : 0u)) {
    site.shape_error(free ? "a ragged dim that stays needs exactly one of rhs_group_dims"
                          : "a ragged batch or contracting dim takes no rhs_group_dims");
  }
  Dims dims = product.result(site, group);
  if (free && site.shape(1).dim(group[0]) != groups) {
    site.shape_error("the right operand has " + std::to_string(site.shape(1).dim(group[0])) +
                     " groups and operand 2 " + std::to_string(groups));
  }
  if (contains(product.lhs_contracting, ragged[0])) dims.insert(dims.begin(), groups);
  return Shape(result_type(site), std::move(dims));
}

/// Both operands come with scales: each dim of a scale divides that of its operand.
Shape infer_scaled_dot(const Site& site) {
  for (std::size_t i = 0; i < 2; ++i) {
    const Shape &x = site.array(i), &scale = site.array(i + 2);
    bool fits = scale.rank() == x.rank() || scale.rank() == 0;
    for (std::int64_t d = 0; fits && d < scale.rank(); ++d) {
      fits = scale.dim(d) > 0 ? x.dim(d) % scale.dim(d) == 0 : x.dim(d) == 0;
    }
    if (!fits) {
      site.shape_error("operand " + std::to_string(i + 2) + ", the scales, must divide operand " +
                       std::to_string(i) + " in each dim");
    }
    if (!is_floating(scale.dtype)) site.dtype_error("scales must be floating point");
  }
  if (site.declared == nullptr) site.need_declared();
  return Shape(result_type(site), Product(site).result(site, {}));
}

/// scan(inputs..., carries..., constants...): the step takes a slice of each input, the carries and
/// the constants, and gives a slice of each output and the next carries.
Shape infer_scan(const Site& site) {
  site.need_called(1);
  const auto& a = site.get<ScanAttrs>();
  const auto count = std::int64_t(site.operands.size());
  if (a.carries < 0 || a.carries > count || a.constants < 0 || a.constants > count - a.carries) {
    site.shape_error("num_carries=" + std::to_string(a.carries) +
                     (a.constants == 0 ? "" : ", num_constants=" + std::to_string(a.constants)) +
                     " of " + plural(site.operands.size(), "operand"));
  }
  const std::int64_t inputs = count - a.carries - a.constants;
  if (a.dim < 0) site.shape_error("dimension " + std::to_string(a.dim) + " is negative");
  if (a.length < 0) site.shape_error("length " + std::to_string(a.length) + " is negative");
  if (a.unroll < 1) {
    site.shape_error("unroll " + std::to_string(a.unroll) + "; valid: 1 step a trip or more");
  }
  std::vector<Shape> expected;
  for (std::int64_t i = 0; i < count; ++i) {
    Shape s(site.array(std::size_t(i)).dtype, site.shape(std::size_t(i)).dims);
    if (i < inputs) {
      site.check_dim(a.dim, s.rank(), "dimension");
      if (s.dim(a.dim) != a.length) {
        site.shape_error("the inputs must be equally long in dim " + std::to_string(a.dim) +
                         ": operand " + std::to_string(i) + " has " +
                         plural(std::size_t(s.dim(a.dim)), "slice") + " for length " +
                         std::to_string(a.length));
      }
      s.dims.erase(s.dims.begin() + std::ptrdiff_t(a.dim));
    }
    expected.push_back(std::move(s));
  }
  site.check_parameters(0, expected, "step");
  const std::string step = "step " + site.called[0]->name();
  const Shape& gives = site.result_of(0);
  if (!gives.is_tuple) {
    site.shape_error(step + " must give a tuple, not " + gives.to_string());
  }
  const std::int64_t outputs = std::int64_t(gives.elements.size()) - a.carries;
  if (outputs < 0) {
    site.shape_error(step + " gives " + plural(gives.elements.size(), "value") + " and there are " +
                     std::to_string(a.carries) + " carries");
  }
  std::vector<Shape> out;
  for (std::int64_t i = 0; i < outputs + a.carries; ++i) {
    Shape s = gives.elements[std::size_t(i)];
    s.layout.clear();
    if (i >= outputs) {
      const Shape& carry = expected[std::size_t(inputs + i - outputs)];
      if (s != carry) {
        site.shape_error(step + " gives carry " + s.to_string() + " for " + carry.to_string());
      }
    } else {
      if (!s.is_array() || a.dim > s.rank()) {
        site.shape_error("output " + std::to_string(i) + ", " + s.to_string() + " of " + step +
                         ", can't be stacked along dim " + std::to_string(a.dim));
      }
      s.dims.insert(s.dims.begin() + std::ptrdiff_t(a.dim), a.length);
      try {
        (void)s.byte_count();
      } catch (const ValueError&) {
        site.shape_error("the size of output " + std::to_string(i) + ", " + s.to_string() +
                         ", does not fit 64 bits");
      }
    }
    out.push_back(std::move(s));
  }
  return Shape::tuple(std::move(out));
}

Shape infer_rng_get_and_update_state(const Site& site) {
  text_integer(site.attrs, "delta", 0);
  if (site.declared != nullptr && *site.declared != Shape(DType::u64, {2})) {
    site.dtype_error("the state is u64[2], not " + site.declared->to_string());
  }
  return Shape(DType::u64, {2});
}

Shape infer_dynamic_reshape(const Site& site) {
  const Shape& out = site.need_declared();
  site.need_operands_at_least(1);
  if (!out.is_array() || out.dtype != site.array(0).dtype ||
      out.element_count() != site.array(0).element_count()) {
    site.shape_error("the result must hold the operand's " +
                     std::to_string(site.array(0).element_count()) + " elements, not " +
                     out.to_string());
  }
  site.need_operands(std::size_t(out.rank()) + 1);
  for (std::size_t i = 1; i < site.operands.size(); ++i) {
    if (site.shape(i) != Shape(DType::s32, {})) {
      site.shape_error("operand " + std::to_string(i) + ", a size, must be s32[]");
    }
  }
  return Shape(out.dtype, out.dims);
}

}  // namespace tessera::ir::inference
