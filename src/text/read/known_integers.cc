// SPDX-License-Identifier: Apache-2.0
// Follows operations on integers back to constants.
#include "src/text/read/known_integers.h"

#include <algorithm>
#include <functional>

#include "src/base/arrays/literal_util.h"

namespace tessera::text {
namespace {

using ir::Opcode;

constexpr std::int64_t kMostElements = 1 << 16;
/// Instructions looked at: values that are used twice are computed twice.
constexpr int kMostSteps = 1 << 10;

std::int64_t wrapped(std::uint64_t v, DType t) {
  switch (byte_size(t)) {
    case 8:
      return std::int64_t(v);
    case 4:
      return is_unsigned_integer(t) ? std::int64_t(std::uint32_t(v)) : std::int32_t(v);
    case 2:
      return is_unsigned_integer(t) ? std::int64_t(std::uint16_t(v)) : std::int16_t(v);
    default:
      return is_unsigned_integer(t) ? std::int64_t(wrap_to_dtype(t, std::uint8_t(v)))
                                    : std::int64_t(wrap_to_dtype(t, std::int8_t(v)));
  }
}

class Computed {
 public:
  std::optional<Dims> of(const ir::Instruction& i) {
    if (++steps_ > kMostSteps || !i.shape.is_array() || !is_integer(i.shape.dtype) ||
        i.shape.element_count() > kMostElements) {
      return std::nullopt;
    }
    switch (i.opcode) {
      case Opcode::constant:
        return to_vector<std::int64_t>(i.get<ir::ConstantAttrs>().value);
      case Opcode::get_dimension_size:
        return Dims{i.operand(0)->shape.dim(i.get<ir::DimensionsAttrs>().dims.at(0))};
      case Opcode::broadcast:
        return splat(i);
      case Opcode::reshape:
        return of(*i.operand(0));
      case Opcode::convert:
        return converted(i);
      case Opcode::concatenate:
        return joined(i);
      case Opcode::slice:
        return part(i);
      case Opcode::add:
      case Opcode::subtract:
      case Opcode::multiply:
      case Opcode::maximum:
      case Opcode::minimum:
        return pairwise(i);
      default:
        return std::nullopt;
    }
  }

 private:
  std::optional<Dims> splat(const ir::Instruction& i) {
    const std::optional<Dims> one = of(*i.operand(0));
    if (!one || one->size() != 1) return std::nullopt;
    return Dims(std::size_t(i.shape.element_count()), (*one)[0]);
  }
  std::optional<Dims> converted(const ir::Instruction& i) {
    std::optional<Dims> x = of(*i.operand(0));
    if (!x) return x;
    for (std::int64_t& v : *x) v = wrapped(std::uint64_t(v), i.shape.dtype);
    return x;
  }
  std::optional<Dims> joined(const ir::Instruction& i) {
    if (i.shape.rank() != 1) return std::nullopt;
    Dims out;
    for (const ir::Instruction* o : i.operands()) {
      const std::optional<Dims> x = of(*o);
      if (!x) return x;
      out.insert(out.end(), x->begin(), x->end());
    }
    return out;
  }
  std::optional<Dims> part(const ir::Instruction& i) {
    const std::optional<Dims> x = of(*i.operand(0));
    if (!x || i.shape.rank() != 1) return std::nullopt;
    const auto& a = i.get<ir::SliceAttrs>();
    Dims out;
    for (std::int64_t n = a.starts.at(0); n < a.limits.at(0); n += a.strides.at(0)) {
      out.push_back(x->at(std::size_t(n)));
    }
    return out;
  }
  std::optional<Dims> pairwise(const ir::Instruction& i) {
    const std::optional<Dims> a = of(*i.operand(0)), b = of(*i.operand(1));
    // The greatest of u64 aren't in order here.
    const bool ordered = i.shape.dtype != DType::u64;
    if (!a || !b || a->size() != b->size()) return std::nullopt;
    Dims out;
    for (std::size_t n = 0; n < a->size(); ++n) {
      const std::int64_t x = (*a)[n], y = (*b)[n];
      const auto ux = std::uint64_t(x), uy = std::uint64_t(y);
      if (i.is(Opcode::add)) out.push_back(wrapped(ux + uy, i.shape.dtype));
      if (i.is(Opcode::subtract)) out.push_back(wrapped(ux - uy, i.shape.dtype));
      if (i.is(Opcode::multiply)) out.push_back(wrapped(ux * uy, i.shape.dtype));
      if (i.is(Opcode::maximum) && ordered) out.push_back(std::max(x, y));
      if (i.is(Opcode::minimum) && ordered) out.push_back(std::min(x, y));
    }
    if (out.size() != a->size()) return std::nullopt;
    return out;
  }

  int steps_ = 0;
};

}  // namespace

std::optional<Dims> known_integers(const ir::Instruction& i) { return Computed().of(i); }

}  // namespace tessera::text
