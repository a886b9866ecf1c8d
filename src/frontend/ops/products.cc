// SPDX-License-Identifier: Apache-2.0
// dot_general, matmul, tensordot and the other products.
#include "src/frontend/ops/products.h"

#include <algorithm>
#include <numeric>

#include <tessera/ops/elementwise.h>
#include <tessera/ops/shape_ops.h>
#include <tessera/precision.h>

#include "src/frontend/ops/moves.h"

namespace tessera {

using frontend::check_preferred;
using frontend::common_dtype;
using frontend::composed;
using frontend::shape_of;
using frontend::where_of;
using internal::impl_of;

namespace frontend {

namespace {

Dims dot_shape(const Dims& a, const Dims& b, const ir::DotAttrs& attrs) {
  Dims out;
  for (std::int64_t d : attrs.lhs_batch) out.push_back(a[std::size_t(d)]);
  auto rest = [&](const Dims& dims, const Dims& batch, const Dims& contracting) {
    for (std::size_t d = 0; d < dims.size(); ++d) {
      const bool used = std::count(batch.begin(), batch.end(), std::int64_t(d)) > 0 ||
                        std::count(contracting.begin(), contracting.end(), std::int64_t(d)) > 0;
      if (!used) out.push_back(dims[d]);
    }
  };
  rest(a, attrs.lhs_batch, attrs.lhs_contracting);
  rest(b, attrs.rhs_batch, attrs.rhs_contracting);
  return out;
}

}  // namespace

Array dotted(const Array& a, const Array& b, ir::DotAttrs attrs, std::optional<DType> preferred,
             Location location, const std::string& name) {
  const std::vector<Array> operands{a, b};
  const bool weak = a.weak_type() && b.weak_type() && !preferred;
  if (!preferred || *preferred == a.dtype()) {
    return apply(ir::Opcode::dot, operands, std::move(attrs), location, name, nullptr, nullptr,
                 weak);
  }
  const Shape shape(*preferred, dot_shape(a.shape(), b.shape(), attrs));
  return apply(ir::Opcode::dot, operands, std::move(attrs), location, name, &shape);
}

std::vector<Array> common_dtype(const Array& a, const Array& b, Location location) {
  const TypeNode type = promote({a, b}, location);
  return {converted(a, type.dtype, location, type.weak),
          converted(b, type.dtype, location, type.weak)};
}

std::vector<std::string> operand_precision(Precision precision) {
  if (precision == Precision::standard) precision = current_precision();
  if (precision == Precision::standard) return {};
  return std::vector<std::string>(2, precision == Precision::high ? "high" : "highest");
}

void check_preferred(const std::string& op, DType t, const std::optional<DType>& preferred,
                     Location location) {
  if (!preferred || *preferred == t) return;
  const bool convertible =
      (is_floating(t) && is_floating(*preferred)) || (is_integer(t) && is_integer(*preferred)) ||
      (is_complex(t) && is_complex(*preferred)) || (is_integer(t) && is_floating(*preferred));
  if (!convertible || byte_size(*preferred) < byte_size(t)) {
    throw DTypeError(op + " of " + std::string(name(t)) + " can't have the preferred dtype " +
                         std::string(name(*preferred)) + "; valid are wider types of the same kind",
                     location);
  }
}

}  // namespace frontend

namespace {

/// Checks that paired dims have equal sizes, are in range and occur once.
void check_pairs(const std::string& op, const char* what, const Shape& a, Dims& a_dims,
                 const Shape& b, Dims& b_dims, Location location) {
  if (a_dims.size() != b_dims.size()) {
    throw ShapeError(op + ": " + what + " dims " + to_string(a_dims) + " of the left and " +
                         to_string(b_dims) + " of the right operand must pair up",
                     location);
  }
  (void)frontend::normalize_axes(op, Axes(a_dims), a.rank(), location);
  (void)frontend::normalize_axes(op, Axes(b_dims), b.rank(), location);
  for (std::size_t i = 0; i < a_dims.size(); ++i) {
    if (a_dims[i] < 0) a_dims[i] += a.rank();
    if (b_dims[i] < 0) b_dims[i] += b.rank();
    if (a.dim(a_dims[i]) != b.dim(b_dims[i])) {
      throw ShapeError(op + " of " + a.to_string() + " and " + b.to_string() + ": " + what +
                           " dims " + std::to_string(a_dims[i]) + " (size " +
                           std::to_string(a.dim(a_dims[i])) + ") and " + std::to_string(b_dims[i]) +
                           " (size " + std::to_string(b.dim(b_dims[i])) + ") must be equal",
                       location);
    }
  }
}

}  // namespace

Array dot_general(Operand lhs, Operand rhs, const DotDims& dims) {
  const Location location = where_of(lhs, rhs);
  const Shape &a = shape_of(lhs), &b = shape_of(rhs);
  ir::DotAttrs attrs;
  attrs.lhs_contracting = dims.lhs_contracting;
  attrs.rhs_contracting = dims.rhs_contracting;
  attrs.lhs_batch = dims.lhs_batch;
  attrs.rhs_batch = dims.rhs_batch;
  check_pairs("dot_general", "contracting", a, attrs.lhs_contracting, b, attrs.rhs_contracting,
              location);
  check_pairs("dot_general", "batch", a, attrs.lhs_batch, b, attrs.rhs_batch, location);
  auto disjoint = [&](const Dims& contracting, const Dims& batch, const char* side) {
    for (std::int64_t d : contracting) {
      if (std::count(batch.begin(), batch.end(), d) > 0) {
        throw ValueError("dot_general: dim " + std::to_string(d) + " of the " + side +
                             " operand is both contracting and batch",
                         location);
      }
    }
  };
  disjoint(attrs.lhs_contracting, attrs.lhs_batch, "left");
  disjoint(attrs.rhs_contracting, attrs.rhs_batch, "right");
  const DType t = frontend::promote({lhs.array, rhs.array}, location).dtype;
  check_preferred("dot_general", t, dims.preferred, location);
  attrs.operand_precision = frontend::operand_precision(dims.precision);
  return composed("dot_general", location, [&] {
    const std::vector<Array> xs = common_dtype(lhs.array, rhs.array, location);
    return frontend::dotted(xs[0], xs[1], attrs, dims.preferred, location, "dot_general");
  });
}

namespace {

/// How the leading dims of a matmul broadcast. A dim of size 1 paired with a larger one is dropped:
/// the larger one becomes a free dim of the product, and nothing is repeated in memory.
struct MatmulPlan {
  Dims a_dims, b_dims;  ///< after dropping
  ir::DotAttrs attrs;
  Dims perm;  ///< of the product's dims
};

MatmulPlan plan_matmul(const Shape& a, const Shape& b, Location location) {
  auto misfit = [&](const std::string& why) {
    throw ShapeError("matmul of " + a.to_string() + " and " + b.to_string() + ": " + why, location);
  };
  for (const Shape* s : {&a, &b}) {
    if (s->rank() == 0) misfit("scalars can't be matrix multiplied; use multiply");
  }
  const std::int64_t a_contract = a.rank() - 1;
  const std::int64_t b_contract = std::max<std::int64_t>(b.rank() - 2, 0);
  if (a.dim(a_contract) != b.dim(b_contract)) {
    misfit("dim " + std::to_string(a_contract) + " of the left operand (size " +
           std::to_string(a.dim(a_contract)) + ") and dim " + std::to_string(b_contract) +
           " of the right operand (size " + std::to_string(b.dim(b_contract)) + ") must be equal");
  }
  const std::int64_t a_batch = std::max<std::int64_t>(a.rank() - 2, 0);
  const std::int64_t b_batch = std::max<std::int64_t>(b.rank() - 2, 0);
  const std::int64_t batch = std::max(a_batch, b_batch);
  MatmulPlan plan;
  enum class From { both, left, right };
  std::vector<From> from;
  for (std::int64_t i = 0; i < batch; ++i) {
    const std::int64_t ai = i - (batch - a_batch), bi = i - (batch - b_batch);
    const std::int64_t as = ai >= 0 ? a.dim(ai) : 1, bs = bi >= 0 ? b.dim(bi) : 1;
    if (ai >= 0 && bi >= 0 && as == bs) {
      plan.attrs.lhs_batch.push_back(std::int64_t(plan.a_dims.size()));
      plan.attrs.rhs_batch.push_back(std::int64_t(plan.b_dims.size()));
      plan.a_dims.push_back(as);
      plan.b_dims.push_back(bs);
      from.push_back(From::both);
    } else if (bi < 0 || (ai >= 0 && bs == 1)) {
      plan.a_dims.push_back(as);
      from.push_back(From::left);
    } else if (ai < 0 || as == 1) {
      plan.b_dims.push_back(bs);
      from.push_back(From::right);
    } else {
      misfit("leading dims of sizes " + std::to_string(as) + " and " + std::to_string(bs) +
             " don't broadcast; they must be equal or one of them 1");
    }
  }
  const bool rows = a.rank() >= 2, columns = b.rank() >= 2;
  if (rows) plan.a_dims.push_back(a.dim(a.rank() - 2));
  plan.attrs.lhs_contracting = {std::int64_t(plan.a_dims.size())};
  plan.a_dims.push_back(a.dim(a_contract));
  plan.attrs.rhs_contracting = {std::int64_t(plan.b_dims.size())};
  plan.b_dims.push_back(b.dim(b_contract));
  if (columns) plan.b_dims.push_back(b.dim(b.rank() - 1));
  // The product has: batch, free left dims, rows, free right dims, columns.
  const auto both = std::int64_t(plan.attrs.lhs_batch.size());
  const auto left = std::int64_t(std::count(from.begin(), from.end(), From::left));
  std::int64_t next_both = 0, next_left = both, next_right = both + left + (rows ? 1 : 0);
  for (From f : from) {
    plan.perm.push_back(f == From::both   ? next_both++
                        : f == From::left ? next_left++
                                          : next_right++);
  }
  if (rows) plan.perm.push_back(both + left);
  if (columns) plan.perm.push_back(next_right);
  return plan;
}

}  // namespace

Array matmul(Operand a, Operand b, const MatmulOptions& options) {
  const Location location = where_of(a, b);
  const MatmulPlan plan = plan_matmul(shape_of(a), shape_of(b), location);
  check_preferred("matmul", frontend::promote({a.array, b.array}, location).dtype,
                  options.preferred, location);
  ir::DotAttrs attrs = plan.attrs;
  attrs.operand_precision = frontend::operand_precision(options.precision);
  return composed("matmul", location, [&] {
    const std::vector<Array> xs = common_dtype(a.array, b.array, location);
    const Array product = frontend::dotted(frontend::reshaped(xs[0], plan.a_dims, location),
                                           frontend::reshaped(xs[1], plan.b_dims, location), attrs,
                                           options.preferred, location, "matmul");
    return frontend::transposed(product, plan.perm, location, "matmul");
  });
}

namespace {

Array contracted(const std::string& op, const Operand& a, const Operand& b, Dims a_axes,
                 Dims b_axes, Location location) {
  check_pairs(op, "contracting", shape_of(a), a_axes, shape_of(b), b_axes, location);
  return composed(op, location, [&] {
    const std::vector<Array> xs = common_dtype(a.array, b.array, location);
    ir::DotAttrs attrs;
    attrs.lhs_contracting = a_axes;
    attrs.rhs_contracting = b_axes;
    return frontend::dotted(xs[0], xs[1], attrs, {}, location, op);
  });
}

}  // namespace

Array dot(Operand a, Operand b) {
  const Shape &left = shape_of(a), &right = shape_of(b);
  if (left.rank() == 0 || right.rank() == 0) return multiply(a, b);
  return contracted("dot", a, b, {left.rank() - 1}, {std::max<std::int64_t>(right.rank() - 2, 0)},
                    where_of(a, b));
}

Array vdot(Operand a, Operand b) {
  const Location location = where_of(a, b);
  if (shape_of(a).element_count() != shape_of(b).element_count()) {
    throw ShapeError("vdot of " + shape_of(a).to_string() + " and " + shape_of(b).to_string() +
                         ": both must have the same number of elements",
                     location);
  }
  return composed("vdot", location, [&] {
    return contracted("vdot", {ravel({conj(a), location}), location}, {ravel(b), location}, {0},
                      {0}, location);
  });
}

Array inner(Operand a, Operand b) {
  if (shape_of(a).rank() == 0 || shape_of(b).rank() == 0) return multiply(a, b);
  return contracted("inner", a, b, {-1}, {-1}, where_of(a, b));
}

Array outer(Operand a, Operand b) {
  const Location location = where_of(a, b);
  return composed("outer", location, [&] {
    return multiply({reshape({ravel(a), location}, {-1, 1}), location},
                    {reshape({ravel(b), location}, {1, -1}), location});
  });
}

Array tensordot(Operand a, Operand b, std::int64_t axes) {
  const Location location = where_of(a, b);
  const std::int64_t rank = shape_of(a).rank();
  const std::int64_t most = std::min(rank, shape_of(b).rank());
  if (axes < 0 || axes > most) {
    throw ValueError("tensordot of " + shape_of(a).to_string() + " and " + shape_of(b).to_string() +
                         " over " + std::to_string(axes) + " dims; valid are 0 to " +
                         std::to_string(most),
                     location);
  }
  Dims left(static_cast<std::size_t>(axes)), right(left.size());
  std::iota(left.begin(), left.end(), rank - axes);
  std::iota(right.begin(), right.end(), 0);
  return contracted("tensordot", a, b, left, right, location);
}
Array tensordot(Operand a, Operand b, std::vector<std::int64_t> a_axes,
                std::vector<std::int64_t> b_axes) {
  return contracted("tensordot", a, b, std::move(a_axes), std::move(b_axes), where_of(a, b));
}

Array kron(Operand a, Operand b) {
  const Location location = where_of(a, b);
  Dims left = shape_of(a).dims, right = shape_of(b).dims;
  const std::size_t rank = std::max(left.size(), right.size());
  left.insert(left.begin(), rank - left.size(), 1);
  right.insert(right.begin(), rank - right.size(), 1);
  return composed("kron", location, [&] {
    Dims a_dims, b_dims, out;
    for (std::size_t d = 0; d < rank; ++d) {
      a_dims.insert(a_dims.end(), {left[d], 1});
      b_dims.insert(b_dims.end(), {1, right[d]});
      out.push_back(frontend::multiply_sizes("kron", left[d], right[d], location));
    }
    const Array product = multiply({frontend::reshaped(a.array, a_dims, location), location},
                                   {frontend::reshaped(b.array, b_dims, location), location});
    return frontend::reshaped(product, out, location);
  });
}

}  // namespace tessera
