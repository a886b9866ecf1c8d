// SPDX-License-Identifier: Apache-2.0
// Goes from indices to the iotas and constants that they are made of. Along some dims one index
// alone is wanted: so the numbers of vectors that were put together of several are found.
#include "src/ir/analysis/affine_numbers.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "src/base/arrays/literal_util.h"
#include "src/ir/analysis/splat_constants.h"

namespace tessera::ir {
namespace {

using Numbers = std::optional<AffineNumbers>;

/// Longer chains of operands, and larger constants, aren't looked at.
constexpr int kMostDepth = 64;
constexpr std::int64_t kMostElements = 16384;
/// Beyond it sums and products could leave 64 bits.
constexpr std::int64_t kMost = std::int64_t(1) << 31;

bool fits(DType t, std::int64_t least, std::int64_t greatest) {
  const int bits = int(byte_size(t)) * 8;
  if (bits == 0 || t == DType::u64) return false;
  if (!is_signed_integer(t)) return least >= 0 && greatest < (std::int64_t(1) << bits);
  if (bits == 64) return true;
  const std::int64_t end = std::int64_t(1) << (bits - 1);
  return least >= -end && greatest < end;
}

class Finder {
 public:
  /// `fixed`, for each dim: its only index that is wanted, or -1: all.
  Numbers of(const Instruction& x, const Dims& fixed) {
    if (!x.shape.is_array() || !is_integer(x.shape.dtype) || depth_ > kMostDepth ||
        x.shape.element_count() == 0) {
      return std::nullopt;
    }
    const auto [at, is_new] = found_.try_emplace({&x, fixed}, std::nullopt);
    if (!is_new) return at->second;
    ++depth_;
    Numbers n = make(x, fixed);
    --depth_;
    if (n && !bounded(x, &*n)) n.reset();
    return at->second = n;
  }

 private:
  /// Finds the least and the greatest; false if they might not be the type's.
  static bool bounded(const Instruction& x, AffineNumbers* n) {
    const auto small = [](std::int64_t v) { return v > -kMost && v < kMost; };
    if (!small(n->base)) return false;
    n->least = n->greatest = n->base;
    for (std::size_t d = 0; d < n->strides.size(); ++d) {
      const std::int64_t steps = x.shape.dims[d] - 1;
      if (steps == 0) n->strides[d] = 0;
      if (!small(n->strides[d]) || !small(steps)) return false;
      if (n->strides[d] != 0 && !small(n->strides[d] * steps)) return false;
      (n->strides[d] < 0 ? n->least : n->greatest) += n->strides[d] * steps;
    }
    return small(n->least) && small(n->greatest) && fits(x.shape.dtype, n->least, n->greatest);
  }

  Numbers make(const Instruction& x, const Dims& fixed) {
    switch (x.opcode) {
      case Opcode::constant:
        return of_constant(x, fixed);
      case Opcode::iota: {
        AffineNumbers out{0, Dims(fixed.size(), 0), 0, 0};
        const auto d = std::size_t(x.get<IotaAttrs>().dim);
        (fixed[d] >= 0 ? out.base : out.strides[d]) = fixed[d] >= 0 ? fixed[d] : 1;
        return out;
      }
      case Opcode::copy:
      case Opcode::convert:
        return of(*x.operand(0), fixed);
      case Opcode::broadcast:
        return of_broadcast(x, fixed);
      case Opcode::reshape:
        return of_reshape(x, fixed);
      case Opcode::transpose:
        return of_transpose(x, fixed);
      case Opcode::slice:
        return of_slice(x, fixed);
      case Opcode::concatenate:
        return of_concatenation(x, fixed);
      case Opcode::select: {
        const std::optional<bool> first = truth(*x.operand(0), fixed);
        if (!first) return std::nullopt;
        return operand(x, *first ? 1 : 2, fixed);
      }
      case Opcode::add:
      case Opcode::subtract:
      case Opcode::multiply:
      case Opcode::maximum:
      case Opcode::minimum:
        return combined(x.opcode, operand(x, 0, fixed), operand(x, 1, fixed));
      case Opcode::clamp: {
        const Numbers raised =
            combined(Opcode::maximum, operand(x, 0, fixed), operand(x, 1, fixed));
        return combined(Opcode::minimum, raised, operand(x, 2, fixed));
      }
      default:
        return std::nullopt;
    }
  }

  /// One that may be a scalar for all elements.
  Numbers operand(const Instruction& x, std::size_t k, const Dims& fixed) {
    const Instruction& o = *x.operand(k);
    if (o.shape.rank() == x.shape.rank()) return of(o, fixed);
    Numbers out = of(o, {});
    if (out) out->strides.assign(fixed.size(), 0);
    return out;
  }

  static Numbers combined(Opcode op, const Numbers& a, const Numbers& b) {
    if (!a || !b) return std::nullopt;
    if (op == Opcode::maximum || op == Opcode::minimum) {
      const bool is_first =
          op == Opcode::maximum ? a->least >= b->greatest : a->greatest <= b->least;
      const bool is_second =
          op == Opcode::maximum ? b->least >= a->greatest : b->greatest <= a->least;
      return is_first ? a : is_second ? b : std::nullopt;
    }
    AffineNumbers out = *a;
    if (op == Opcode::multiply) {
      if (!a->is_one() && !b->is_one()) return std::nullopt;
      const AffineNumbers& by = a->is_one() ? *a : *b;
      out = a->is_one() ? *b : *a;
      out.base *= by.base;
      for (std::int64_t& s : out.strides) s *= by.base;
      return out;
    }
    const std::int64_t sign = op == Opcode::add ? 1 : -1;
    out.base += sign * b->base;
    for (std::size_t d = 0; d < out.strides.size(); ++d) out.strides[d] += sign * b->strides[d];
    return out;
  }

  /// Of what is the same for all elements, if the text says it.
  std::optional<bool> truth(const Instruction& x, const Dims& fixed) {
    const Instruction* one = &x;
    Dims wanted = fixed;
    while (one->is(Opcode::broadcast) || one->is(Opcode::reshape) || one->is(Opcode::copy)) {
      if (!one->is(Opcode::copy)) wanted.assign(one->operand(0)->shape.dims.size(), -1);
      one = one->operand(0);
    }
    if (const Literal* known = splat_constant(*one)) return *known->bytes() != std::byte(0);
    if (!one->is(Opcode::compare)) return std::nullopt;
    const auto& attrs = one->get<CompareAttrs>();
    if (attrs.type == ComparisonType::float_ || attrs.type == ComparisonType::total_order) {
      return std::nullopt;
    }
    wanted.resize(one->shape.dims.size(), -1);
    const Numbers a = operand(*one, 0, wanted), b = operand(*one, 1, wanted);
    if (!a || !b) return std::nullopt;
    const bool below = a->greatest<b->least, above = a->least> b->greatest;
    const bool not_above = a->greatest <= b->least, not_below = a->least >= b->greatest;
    const bool same = a->is_one() && b->is_one() && a->base == b->base;
    const auto either = [](bool yes, bool no) {
      return yes ? std::optional(true) : no ? std::optional(false) : std::nullopt;
    };
    switch (attrs.direction) {
      case Direction::lt:
        return either(below, not_below);
      case Direction::le:
        return either(not_above, above);
      case Direction::gt:
        return either(above, not_above);
      case Direction::ge:
        return either(not_below, below);
      case Direction::eq:
        return either(same, below || above);
      case Direction::ne:
        return either(below || above, same);
    }
    return std::nullopt;
  }

  /// Looks at all of its elements that are wanted.
  static Numbers of_constant(const Instruction& x, const Dims& fixed) {
    const auto& attrs = x.get<ConstantAttrs>();
    if (attrs.elided || byte_size(x.shape.dtype) == 0 || x.shape.element_count() > kMostElements) {
      return std::nullopt;
    }
    const std::vector<std::int64_t> all = to_vector<std::int64_t>(attrs.value);
    const Dims steps = row_major_strides(x.shape.dims);
    std::int64_t first = 0;
    for (std::size_t d = 0; d < fixed.size(); ++d)
      first += std::max<std::int64_t>(fixed[d], 0) * steps[d];
    const auto is_small = [](std::int64_t n) { return n > -kMost && n < kMost; };
    if (!std::all_of(all.begin(), all.end(), is_small)) return std::nullopt;
    AffineNumbers out{all[std::size_t(first)], Dims(fixed.size(), 0), 0, 0};
    for (std::size_t d = 0; d < fixed.size(); ++d) {
      if (fixed[d] < 0 && x.shape.dims[d] > 1) {
        out.strides[d] = all[std::size_t(first + steps[d])] - out.base;
      }
    }
    Dims at(fixed.size(), 0);
    for (const std::int64_t n : all) {
      std::int64_t expected = out.base;
      bool wanted = true;
      for (std::size_t d = 0; d < at.size(); ++d) {
        expected += at[d] * out.strides[d];
        wanted = wanted && (fixed[d] < 0 || fixed[d] == at[d]);
      }
      if (wanted && n != expected) return std::nullopt;
      for (std::size_t d = at.size(); d-- > 0;) {
        if (++at[d] < x.shape.dims[d]) break;
        at[d] = 0;
      }
    }
    return out;
  }

  Numbers of_broadcast(const Instruction& x, const Dims& fixed) {
    const Dims& places = x.get<DimensionsAttrs>().dims;
    Dims wanted;
    for (const std::int64_t d : places) wanted.push_back(fixed[std::size_t(d)]);
    const Numbers n = of(*x.operand(0), wanted);
    if (!n) return std::nullopt;
    AffineNumbers out{n->base, Dims(fixed.size(), 0), 0, 0};
    for (std::size_t k = 0; k < places.size(); ++k) {
      out.strides[std::size_t(places[k])] = n->strides[k];
    }
    return out;
  }

  Numbers of_transpose(const Instruction& x, const Dims& fixed) {
    const Dims& perm = x.get<DimensionsAttrs>().dims;
    Dims wanted(perm.size(), -1);
    for (std::size_t d = 0; d < perm.size(); ++d) wanted[std::size_t(perm[d])] = fixed[d];
    const Numbers n = of(*x.operand(0), wanted);
    if (!n) return std::nullopt;
    AffineNumbers out = *n;
    for (std::size_t d = 0; d < perm.size(); ++d) {
      out.strides[d] = n->strides[std::size_t(perm[d])];
    }
    return out;
  }

  Numbers of_slice(const Instruction& x, const Dims& fixed) {
    const auto& a = x.get<SliceAttrs>();
    Dims wanted = fixed;
    const auto step = [&](std::size_t d) { return a.strides.empty() ? 1 : a.strides[d]; };
    for (std::size_t d = 0; d < wanted.size(); ++d) {
      if (wanted[d] < 0 && x.shape.dims[d] == 1) wanted[d] = 0;
      if (wanted[d] >= 0) wanted[d] = a.starts[d] + wanted[d] * step(d);
    }
    Numbers n = of(*x.operand(0), wanted);
    if (!n) return std::nullopt;
    for (std::size_t d = 0; d < wanted.size(); ++d) {
      n->base += a.starts[d] * n->strides[d];
      n->strides[d] *= step(d);
    }
    return n;
  }

  /// Of vectors that were put together: the part that has the wanted index.
  Numbers of_concatenation(const Instruction& x, const Dims& fixed) {
    const std::int64_t dim = x.get<DimensionsAttrs>().dims.at(0);
    Dims wanted = fixed;
    std::int64_t& k = wanted[std::size_t(dim)];
    if (k < 0) return std::nullopt;
    for (const Instruction* part : x.operands()) {
      if (k < part->shape.dim(dim)) return of(*part, wanted);
      k -= part->shape.dim(dim);
    }
    return std::nullopt;
  }

  /// Dims that go on at one pace are cut anew; those of one element come and go.
  Numbers of_reshape(const Instruction& x, const Dims& fixed) {
    const Dims &from = x.operand(0)->shape.dims, &to = x.shape.dims;
    std::vector<std::size_t> old, made;
    for (std::size_t d = 0; d < from.size(); ++d) {
      if (from[d] != 1) old.push_back(d);
    }
    for (std::size_t d = 0; d < to.size(); ++d) {
      if (to[d] != 1) made.push_back(d);
    }
    struct Run {
      std::size_t old_begin, old_end, made_begin, made_end;
    };
    std::vector<Run> runs;
    Dims wanted(from.size(), -1);
    for (std::size_t o = 0, n = 0; o < old.size() && n < made.size();) {
      Run run = {o, o + 1, n, n + 1};
      std::int64_t before = from[old[o]], now = to[made[n]];
      while (before != now) {
        if (now < before) {
          now *= to[made[run.made_end++]];
        } else {
          before *= from[old[run.old_end++]];
        }
      }
      const bool stays = run.old_end == o + 1 && run.made_end == n + 1;
      if (stays) wanted[old[o]] = fixed[made[n]];
      for (std::size_t k = n; k < run.made_end && !stays; ++k) {
        if (fixed[made[k]] >= 0) return std::nullopt;
      }
      o = run.old_end;
      n = run.made_end;
      runs.push_back(run);
    }
    const Numbers n = of(*x.operand(0), wanted);
    if (!n) return std::nullopt;
    AffineNumbers out{n->base, Dims(to.size(), 0), 0, 0};
    for (const Run& run : runs) {
      for (std::size_t k = run.old_begin; k + 1 < run.old_end; ++k) {
        if (n->strides[old[k]] != n->strides[old[k + 1]] * from[old[k + 1]]) return std::nullopt;
      }
      std::int64_t stride = n->strides[old[run.old_end - 1]];
      for (std::size_t k = run.made_end; k-- > run.made_begin;) {
        out.strides[made[k]] = stride;
        stride *= to[made[k]];
      }
    }
    return out;
  }

  std::map<std::pair<const Instruction*, Dims>, Numbers> found_;  // looked up, never walked
  int depth_ = 0;
};

}  // namespace

std::optional<AffineNumbers> affine_numbers(const Instruction& x) {
  if (!x.shape.is_array()) return std::nullopt;
  return Finder().of(x, Dims(x.shape.dims.size(), -1));
}

std::optional<AffineNumbers> affine_component(const Instruction& indices, std::int64_t vector_dim,
                                              std::int64_t k) {
  Dims fixed(indices.shape.dims.size(), -1);
  if (vector_dim == indices.shape.rank()) return affine_numbers(indices);
  fixed[std::size_t(vector_dim)] = k;
  std::optional<AffineNumbers> out = Finder().of(indices, fixed);
  if (out) out->strides.erase(out->strides.begin() + vector_dim);
  return out;
}

}  // namespace tessera::ir
