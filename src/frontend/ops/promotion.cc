// SPDX-License-Identifier: Apache-2.0
// JAX's type promotion: the least upper bound in its lattice.
#include <array>
#include <map>
#include <set>

#include <tessera/ops/elementwise.h>

#include "src/frontend/ops/internal.h"

namespace tessera::frontend {

namespace {

/// Nodes of the lattice: dtypes, and the weak int, float and complex of plain scalars.
enum class Weak : int { none = -1, i = 0, f = 1, c = 2 };
using LatticeNode = std::pair<int, int>;  // (dtype or -1, weak or -1)

LatticeNode strong(DType t) { return {int(t), -1}; }
constexpr LatticeNode weak_int{-1, 0}, weak_float{-1, 1}, weak_complex{-1, 2};

const std::map<LatticeNode, std::vector<LatticeNode>>& edges() {
  using Edges = std::map<LatticeNode, std::vector<LatticeNode>>;
  // Never destroyed, as programs may still run when static objects are.
  static const auto& table = *new const Edges([] {
    Edges e;
    e[strong(pred)] = {weak_int};
    e[weak_int] = {strong(DType::u2), strong(DType::s2), strong(u8),        strong(s8),
                   strong(DType::u4), strong(DType::s4), strong(DType::u1), strong(DType::s1)};
    for (DType small : {DType::u1, DType::u2, DType::u4}) e[strong(small)] = {strong(u8)};
    for (DType small : {DType::s1, DType::s2, DType::s4}) e[strong(small)] = {strong(s8)};
    e[strong(u8)] = {strong(s16), strong(u16)};
    e[strong(u16)] = {strong(s32), strong(u32)};
    e[strong(u32)] = {strong(s64), strong(u64)};
    e[strong(u64)] = {weak_float};
    e[strong(s8)] = {strong(s16)};
    e[strong(s16)] = {strong(s32)};
    e[strong(s32)] = {strong(s64)};
    e[strong(s64)] = {weak_float};
    e[weak_float] = {strong(bf16), strong(f16), weak_complex};
    for (DType small : {DType::f4e2m1fn, DType::f6e2m3fn, DType::f6e3m2fn, DType::f8e3m4,
                        DType::f8e4m3, DType::f8e4m3b11fnuz, DType::f8e4m3fn, DType::f8e4m3fnuz,
                        DType::f8e5m2, DType::f8e5m2fnuz, DType::f8e8m0fnu}) {
      e[weak_float].push_back(strong(small));
      e[strong(small)] = {};
    }
    e[strong(bf16)] = {strong(f32)};
    e[strong(f16)] = {strong(f32)};
    e[strong(f32)] = {strong(f64), strong(c64)};
    e[strong(f64)] = {strong(c128)};
    e[weak_complex] = {strong(c64)};
    e[strong(c64)] = {strong(c128)};
    e[strong(c128)] = {};
    return e;
  }());
  return table;
}

std::set<LatticeNode> above(const LatticeNode& node) {
  std::set<LatticeNode> seen{node};
  std::vector<LatticeNode> work{node};
  while (!work.empty()) {
    const LatticeNode at = work.back();
    work.pop_back();
    const auto found = edges().find(at);
    if (found == edges().end()) continue;
    for (const LatticeNode& next : found->second) {
      if (seen.insert(next).second) work.push_back(next);
    }
  }
  return seen;
}

std::optional<LatticeNode> join(const LatticeNode& a, const LatticeNode& b) {
  if (a == b) return a;
  const std::set<LatticeNode> over_a = above(a), over_b = above(b);
  std::vector<LatticeNode> common;
  for (const LatticeNode& n : over_a) {
    if (over_b.count(n)) common.push_back(n);
  }
  // The least upper bound is the one below all others.
  for (const LatticeNode& n : common) {
    const std::set<LatticeNode> over = above(n);
    bool least = true;
    for (const LatticeNode& other : common) least = least && over.count(other);
    if (least) return n;
  }
  return std::nullopt;
}

LatticeNode node_of(const Array& a) {
  if (!a.weak_type()) return strong(a.dtype());
  if (is_complex(a.dtype())) return weak_complex;
  return is_floating(a.dtype()) ? weak_float : weak_int;
}

TypeNode type_of_node(const LatticeNode& n) {
  if (n == weak_int) return {s32, true};
  if (n == weak_float) return {f32, true};
  if (n == weak_complex) return {c64, true};
  return {DType(n.first), false};
}

}  // namespace

TypeNode promote(const std::vector<Array>& arrays, Location location) {
  TESSERA_CHECK(!arrays.empty(), "promotion of nothing");
  // If all have the same dtype, weak or not, that is the result (a weak s64 stays a weak s64).
  bool all_equal = true;
  for (const Array& a : arrays) {
    all_equal =
        all_equal && a.dtype() == arrays[0].dtype() && a.weak_type() == arrays[0].weak_type();
  }
  if (all_equal) return {arrays[0].dtype(), arrays[0].weak_type()};
  LatticeNode node = node_of(arrays[0]);
  for (std::size_t i = 1; i < arrays.size(); ++i) {
    const auto next = join(node, node_of(arrays[i]));
    if (!next) {
      throw DTypeError("no dtype holds both " + std::string(name(type_of_node(node).dtype)) +
                           " and " + std::string(name(arrays[i].dtype())) +
                           "; convert one with astype",
                       location);
    }
    node = *next;
  }
  return type_of_node(node);
}

DType to_inexact(DType dtype) { return is_floating(dtype) || is_complex(dtype) ? dtype : f32; }

}  // namespace tessera::frontend

namespace tessera {

DType promote_types(DType a, DType b) {
  return frontend::promote({shape_dtype_struct({}, a), shape_dtype_struct({}, b)}, {}).dtype;
}
DType result_type(const std::vector<Array>& arrays) {
  if (arrays.empty()) throw ValueError("result_type of nothing");
  return frontend::promote(arrays, {}).dtype;
}

}  // namespace tessera
