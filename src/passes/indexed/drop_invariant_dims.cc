// SPDX-License-Identifier: Apache-2.0
// Goes from an array to what it is computed of, as long as that is one element from one element.
#include "src/passes/indexed/drop_invariant_dims.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "src/base/contains.h"
#include "src/ir/analysis/equivalence.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

/// Longer chains of operands aren't followed.
constexpr int kMostDepth = 64;

Dims sizes_of(const Shape& shape, const Dims& dims) {
  Dims out;
  for (const std::int64_t d : dims) out.push_back(shape.dim(d));
  return out;
}

struct Request {
  InvariantDims* invariant_dims;
  ir::Builder& b;
  Instruction* x;
  const Dims& kept;
  const Dims& fixed;

  std::int64_t fixed_at(std::int64_t d) const { return fixed[std::size_t(d)]; }
  Shape shape() const { return Shape(x->shape.dtype, sizes_of(x->shape, kept)); }

  Instruction* run() const {
    switch (x->opcode) {
      case Opcode::broadcast:
        return of_broadcast();
      case Opcode::reshape:
        return of_reshape();
      case Opcode::transpose:
        return of_transpose();
      case Opcode::concatenate:
        return of_concatenation();
      case Opcode::slice:
        return of_slice();
      case Opcode::iota:
        return of_iota();
      case Opcode::constant:
        return of_constant();
      default:
        break;
    }
    if (Instruction* part = taken()) return part;
    return ir::is_elementwise(x->opcode) && ir::is_pure(*x) ? of_elementwise() : nullptr;
  }

  /// Where nothing need be known of x: all other dims are of one element, or one is wanted.
  Instruction* taken() const {
    Dims starts(x->shape.dims.size(), 0), limits = x->shape.dims, order, rest;
    for (std::int64_t d = 0; d < x->shape.rank(); ++d) {
      if (contains(kept, d)) continue;
      if (fixed_at(d) < 0 && x->shape.dim(d) != 1) return nullptr;
      const std::int64_t at = std::max<std::int64_t>(0, fixed_at(d));
      starts[std::size_t(d)] = at;
      limits[std::size_t(d)] = at + 1;
      rest.push_back(d);
    }
    Instruction* out = x;
    if (limits != x->shape.dims ||
        std::any_of(starts.begin(), starts.end(), [](std::int64_t s) { return s != 0; })) {
      out = b.slice(out, starts, limits);
    }
    order = kept;
    order.insert(order.end(), rest.begin(), rest.end());
    if (!std::is_sorted(kept.begin(), kept.end())) out = b.transpose(out, order);
    return b.reshape(out, sizes_of(x->shape, kept));
  }

  Instruction* of(Instruction* operand, const Dims& k, const Dims& f) const {
    return invariant_dims->dropped(b, operand, k, f);
  }

  Instruction* of_broadcast() const {
    const Dims& dims = x->get<ir::DimensionsAttrs>().dims;
    Dims k, f, places;
    for (std::size_t n = 0; n < kept.size(); ++n) {
      const auto at = std::find(dims.begin(), dims.end(), kept[n]);
      if (at == dims.end()) continue;
      k.push_back(at - dims.begin());
      places.push_back(std::int64_t(n));
    }
    for (const std::int64_t d : dims) f.push_back(fixed_at(d));
    Instruction* part = of(x->operand(0), k, f);
    if (part == nullptr || places.size() == kept.size()) return part;
    return b.broadcast(part, shape().dims, places);
  }

  /// Where it only adds or drops dims of one element.
  Instruction* of_reshape() const {
    Instruction* y = x->operand(0);
    Dims place(x->shape.dims.size(), -1), f(y->shape.dims.size(), -1), k;
    std::int64_t at = 0;
    for (std::int64_t d = 0; d < x->shape.rank(); ++d) {
      if (x->shape.dim(d) == 1) continue;
      while (at < y->shape.rank() && y->shape.dim(at) == 1) ++at;
      if (at == y->shape.rank() || y->shape.dim(at) != x->shape.dim(d)) return taken();
      f[std::size_t(at)] = fixed_at(d);
      place[std::size_t(d)] = at++;
    }
    while (at < y->shape.rank() && y->shape.dim(at) == 1) ++at;
    if (at != y->shape.rank()) return taken();
    for (const std::int64_t d : kept) {
      if (place[std::size_t(d)] >= 0) k.push_back(place[std::size_t(d)]);
    }
    Instruction* part = of(y, k, f);
    if (part == nullptr || part->shape.dims == shape().dims) return part;
    return b.reshape(part, shape().dims);
  }

  Instruction* of_transpose() const {
    const Dims& perm = x->get<ir::DimensionsAttrs>().dims;
    Dims k, f(perm.size(), -1);
    for (const std::int64_t d : kept) k.push_back(perm[std::size_t(d)]);
    for (std::size_t d = 0; d < perm.size(); ++d) f[std::size_t(perm[d])] = fixed[d];
    return of(x->operand(0), k, f);
  }

  Instruction* of_concatenation() const {
    const std::int64_t dim = x->get<ir::DimensionsAttrs>().dims.at(0);
    if (fixed_at(dim) >= 0) {
      Dims f = fixed;
      for (Instruction* part : x->operands()) {
        if (f[std::size_t(dim)] < part->shape.dim(dim)) return of(part, kept, f);
        f[std::size_t(dim)] -= part->shape.dim(dim);
      }
    }
    const auto place = std::find(kept.begin(), kept.end(), dim);
    if (place == kept.end()) return taken();
    std::vector<Instruction*> parts;
    for (Instruction* part : x->operands()) {
      parts.push_back(of(part, kept, fixed));
      if (parts.back() == nullptr) return taken();
    }
    return b.concatenate(std::move(parts), place - kept.begin());
  }

  Instruction* of_slice() const {
    const auto& a = x->get<ir::SliceAttrs>();
    Instruction* y = x->operand(0);
    Dims f = fixed, starts, limits, strides;
    for (std::size_t d = 0; d < f.size(); ++d) {
      const std::int64_t stride = a.strides.empty() ? 1 : a.strides[d];
      if (contains(kept, std::int64_t(d))) continue;
      if (f[d] < 0 && x->shape.dims[d] == 1) f[d] = 0;
      if (f[d] >= 0) f[d] = a.starts[d] + f[d] * stride;
    }
    Instruction* part = of(y, kept, f);
    if (part == nullptr) return nullptr;
    for (const std::int64_t d : kept) {
      starts.push_back(a.starts[std::size_t(d)]);
      limits.push_back(a.limits[std::size_t(d)]);
      strides.push_back(a.strides.empty() ? 1 : a.strides[std::size_t(d)]);
    }
    return part->shape.dims == shape().dims ? part : b.slice(part, starts, limits, strides);
  }

  Instruction* of_iota() const {
    const std::int64_t dim = x->get<ir::IotaAttrs>().dim;
    const auto place = std::find(kept.begin(), kept.end(), dim);
    if (place != kept.end()) return b.iota(shape(), place - kept.begin());
    if (fixed_at(dim) < 0 && x->shape.dim(dim) != 1) return nullptr;
    const double at = double(std::max<std::int64_t>(0, fixed_at(dim)));
    return b.splat(b.scalar(x->shape.dtype, at), shape().dims);
  }

  /// Looks at its elements.
  Instruction* of_constant() const {
    const auto& attrs = x->get<ir::ConstantAttrs>();
    if (attrs.elided || is_sub_byte()) return taken();
    const Literal& value = attrs.value;
    const std::size_t size = byte_size(value.dtype());
    Literal out(shape());
    const Dims strides = row_major_strides(out.dims());
    std::byte* const to = out.mutable_bytes();
    std::vector<bool> seen(std::size_t(out.element_count()), false);
    Dims at(x->shape.dims.size(), 0);
    for (std::int64_t n = 0; n < value.element_count(); ++n) {
      bool wanted = true;
      for (std::size_t d = 0; d < at.size(); ++d) wanted &= fixed[d] < 0 || fixed[d] == at[d];
      if (wanted) {
        std::int64_t place = 0;
        for (std::size_t k = 0; k < kept.size(); ++k) {
          place += at[std::size_t(kept[k])] * strides[k];
        }
        const std::byte* from = value.bytes() + std::size_t(n) * size;
        std::byte* const here = to + std::size_t(place) * size;
        if (!seen[std::size_t(place)]) {
          std::memcpy(here, from, size);
          seen[std::size_t(place)] = true;
        } else if (std::memcmp(here, from, size) != 0) {
          return nullptr;
        }
      }
      for (std::size_t d = at.size(); d-- > 0;) {
        if (++at[d] < x->shape.dims[d]) break;
        at[d] = 0;
      }
    }
    return b.constant(std::move(out));
  }
  bool is_sub_byte() const { return byte_size(x->shape.dtype) == 0; }

  Instruction* of_elementwise() const {
    std::vector<Instruction*> operands;
    for (Instruction* o : x->operands()) {
      // Of some operations operands may be scalars.
      const bool is_scalar = o->shape.rank() == 0;
      operands.push_back(is_scalar ? o : of(o, kept, fixed));
      if (operands.back() == nullptr) return nullptr;
    }
    const Shape of_result = shape();
    return ir::emit_like(b, *x, std::move(operands), &of_result);
  }
};

}  // namespace

Instruction* InvariantDims::dropped(ir::Builder& b, Instruction* x, const Dims& kept,
                                    const Dims& fixed) {
  Dims all(x->shape.dims.size());
  std::iota(all.begin(), all.end(), 0);
  if (kept == all) return x;
  const auto [at, is_new] = made_.try_emplace({x, kept, fixed}, nullptr);
  if (!is_new || depth_ > kMostDepth || x->shape.is_tuple) return at->second;
  ++depth_;
  Instruction* const made = Request{this, b, x, kept, fixed}.run();
  --depth_;
  return at->second = made;
}

}  // namespace tessera::passes
