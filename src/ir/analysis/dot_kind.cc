// SPDX-License-Identifier: Apache-2.0
// Classifies dots as outer products, products of vectors, or general ones.
#include "src/ir/analysis/dot_kind.h"

namespace tessera::ir {

namespace {

/// Sums in this type are what a dot's are: narrower ones are summed in a wider one.
bool sums_as_dots_do(DType t) {
  switch (t) {
    case DType::f32:
    case DType::f64:
    case DType::c64:
    case DType::c128:
    case DType::s32:
    case DType::s64:
    case DType::u32:
    case DType::u64:
      return true;
    default:
      return false;
  }
}

std::int64_t sizes(const Shape& shape, const Dims& dims) {
  std::int64_t n = 1;
  for (const std::int64_t d : dims) n *= shape.dim(d);
  return n;
}

}  // namespace

DotKind kind_of_dot(const Instruction& dot) {
  const Shape &lhs = dot.operand(0)->shape, &rhs = dot.operand(1)->shape;
  const DType t = dot.shape.dtype;
  if (lhs.dtype != t || rhs.dtype != t || !sums_as_dots_do(t)) return DotKind::general;
  const auto& attrs = dot.get<DotAttrs>();
  const std::int64_t terms = sizes(lhs, attrs.lhs_contracting);
  if (dot.shape.element_count() == 0 || terms == 0) return DotKind::general;
  if (terms == 1) return DotKind::outer;
  return dot.shape.element_count() == sizes(lhs, attrs.lhs_batch) ? DotKind::vectors
                                                                  : DotKind::general;
}

}  // namespace tessera::ir
