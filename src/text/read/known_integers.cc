// SPDX-License-Identifier: Apache-2.0
// Follows operations on integers back to constants.
#include "src/text/read/known_integers.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "src/base/arrays/literal_util.h"
#include "src/ir/module.h"
#include "src/ir/rewrite/builder.h"

namespace tessera::text {
namespace {

using ir::Instruction;
using ir::Opcode;

constexpr std::int64_t kMostElements = 1 << 16;
/// Operations that are followed one behind the other.
constexpr int kMostDepth = 1 << 9;

std::int64_t wrapped(std::uint64_t v, DType t) {
  if (t == DType::pred) return std::int64_t(v != 0);
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

/// By zero it gives -1, as HLO's.
std::int64_t quotient(std::int64_t x, std::int64_t y, DType t) {
  if (y == 0) return -1;
  if (t == DType::u64) return std::int64_t(std::uint64_t(x) / std::uint64_t(y));
  return y == -1 ? std::int64_t(0 - std::uint64_t(x)) : x / y;
}
std::int64_t remainder(std::int64_t x, std::int64_t y, DType t) {
  if (y == 0) return x;
  if (t == DType::u64) return std::int64_t(std::uint64_t(x) % std::uint64_t(y));
  return y == -1 ? 0 : x % y;
}

std::int64_t power(std::int64_t x, std::int64_t y) {
  if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 == 0 ? 1 : -1) : 0;
  std::uint64_t out = 1;
  for (auto base = std::uint64_t(x); y > 0; y >>= 1, base *= base) {
    if ((y & 1) != 0) out *= base;
  }
  return std::int64_t(out);
}

bool less(std::int64_t x, std::int64_t y, DType t) {
  return t == DType::u64 ? std::uint64_t(x) < std::uint64_t(y) : x < y;
}

/// Whatever the type, before it is wrapped; nothing for operations that aren't computed.
std::optional<std::int64_t> binary(Opcode opcode, std::int64_t x, std::int64_t y, DType t) {
  const auto ux = std::uint64_t(x), uy = std::uint64_t(y);
  switch (opcode) {
    case Opcode::add:
      return std::int64_t(ux + uy);
    case Opcode::subtract:
      return std::int64_t(ux - uy);
    case Opcode::multiply:
      return std::int64_t(ux * uy);
    case Opcode::divide:
      return quotient(x, y, t);
    case Opcode::remainder:
      return remainder(x, y, t);
    case Opcode::power:
      return power(x, y);
    case Opcode::maximum:
      return less(x, y, t) ? y : x;
    case Opcode::minimum:
      return less(y, x, t) ? y : x;
    case Opcode::and_:
      return x & y;
    case Opcode::or_:
      return x | y;
    case Opcode::xor_:
      return x ^ y;
    default:
      return std::nullopt;
  }
}

std::optional<std::int64_t> unary(Opcode opcode, std::int64_t x, DType t) {
  switch (opcode) {
    case Opcode::negate:
      return std::int64_t(0 - std::uint64_t(x));
    case Opcode::abs:
      return x < 0 && !is_unsigned_integer(t) ? std::int64_t(0 - std::uint64_t(x)) : x;
    case Opcode::sign:
      return x == 0 ? 0 : x < 0 && !is_unsigned_integer(t) ? -1 : 1;
    case Opcode::not_:
      return t == DType::pred ? std::int64_t(x == 0) : ~x;
    case Opcode::convert:
    case Opcode::copy:
    case Opcode::opt_barrier:
    case Opcode::reshape:
    case Opcode::sharding_constraint:
      return x;
    default:
      return std::nullopt;
  }
}

bool holds(ir::Direction d, std::int64_t x, std::int64_t y, DType t) {
  switch (d) {
    case ir::Direction::eq:
      return x == y;
    case ir::Direction::ne:
      return x != y;
    case ir::Direction::lt:
      return less(x, y, t);
    case ir::Direction::gt:
      return less(y, x, t);
    case ir::Direction::le:
      return !less(y, x, t);
    default:
      return !less(x, y, t);
  }
}

bool may_be_known(const Shape& shape) {
  return shape.is_array() && (is_integer(shape.dtype) || shape.dtype == DType::pred) &&
         shape.element_count() <= kMostElements;
}

/// Goes through all indices of an array of these dims, in row-major order.
template <class F>
void each_index(const Dims& dims, F&& f) {
  Dims index(dims.size(), 0);
  for (std::int64_t n = element_count(dims); n > 0; --n) {
    f(index);
    for (std::size_t d = dims.size(); d-- > 0;) {
      if (++index[d] < dims[d]) break;
      index[d] = 0;
    }
  }
}

std::size_t place_of(const Dims& index, const Dims& strides) {
  std::int64_t at = 0;
  for (std::size_t d = 0; d < index.size(); ++d) at += index[d] * strides[d];
  return std::size_t(at);
}

}  // namespace

class KnownIntegers::Evaluation {
 public:
  explicit Evaluation(KnownIntegers& known) : known_(known) {}

  const Entry& of(const Instruction& i) {
    const auto there = known_.entries_.find(&i);
    if (there != known_.entries_.end()) return there->second;
    Entry out;
    if (depth_ < kMostDepth && may_be_known(i.shape)) {
      ++depth_;
      bool given = false;
      std::swap(given, given_);
      out.value = computed(i);
      out.given = given_ && out.value.has_value();
      given_ = given;
      --depth_;
    }
    return known_.entries_.emplace(&i, std::move(out)).first->second;
  }

 private:
  using Value = std::optional<Dims>;

  /// An operand, or what stands for it.
  Value get(const Instruction& i) {
    const Entry& e = of(i);
    given_ = given_ || e.given;
    return e.value;
  }

  Value computed(const Instruction& i) {
    switch (i.opcode) {
      case Opcode::constant:
        return to_vector<std::int64_t>(i.get<ir::ConstantAttrs>().value);
      case Opcode::get_dimension_size:
        return Dims{i.operand(0)->shape.dim(i.get<ir::DimensionsAttrs>().dims.at(0))};
      case Opcode::iota:
        return counted(i);
      case Opcode::broadcast:
        return spread(i);
      case Opcode::concatenate:
        return joined(i);
      case Opcode::slice:
        return part(i);
      case Opcode::dynamic_slice:
        return part_from(i);
      case Opcode::reverse:
      case Opcode::transpose:
        return moved(i);
      case Opcode::reduce:
        return reduced(i);
      case Opcode::compare:
      case Opcode::select:
      case Opcode::clamp:
        return chosen(i);
      case Opcode::get_tuple_element:
        return element(*i.operand(0), std::size_t(i.get<ir::GetTupleElementAttrs>().index));
      case Opcode::call:
        return i.called(0)->root() == nullptr ? std::nullopt : get(*i.called(0)->root());
      default:
        return i.operands().size() == 1   ? mapped(i)
               : i.operands().size() == 2 ? pairwise(i)
                                          : std::nullopt;
    }
  }

  Value element(const Instruction& tuple, std::size_t index) {
    const Instruction* t = &tuple;
    for (int steps = 0; t != nullptr && steps < kMostDepth; ++steps) {
      if (t->is(Opcode::tuple)) return get(*t->operand(index));
      if (t->is(Opcode::call)) {
        t = t->called(0)->root();
      } else if (t->is(Opcode::opt_barrier)) {
        t = t->operand(0);
      } else {
        break;
      }
    }
    return std::nullopt;
  }

  Value mapped(const Instruction& i) {
    Value x = may_be_known(i.operand(0)->shape) ? get(*i.operand(0)) : std::nullopt;
    if (!x) return x;
    for (std::int64_t& v : *x) {
      const std::optional<std::int64_t> to = unary(i.opcode, v, i.operand(0)->shape.dtype);
      if (!to) return std::nullopt;
      v = wrapped(std::uint64_t(*to), i.shape.dtype);
    }
    return x;
  }

  Value pairwise(const Instruction& i) {
    if (!binary(i.opcode, 1, 1, i.shape.dtype)) return std::nullopt;
    Value x = get(*i.operand(0));
    if (!x) return x;
    const Value y = get(*i.operand(1));
    if (!y || x->size() != y->size()) return std::nullopt;
    for (std::size_t n = 0; n < x->size(); ++n) {
      const DType t = i.shape.dtype;
      (*x)[n] = wrapped(std::uint64_t(*binary(i.opcode, (*x)[n], (*y)[n], t)), t);
    }
    return x;
  }

  Value chosen(const Instruction& i) {
    std::vector<Dims> given;
    for (const Instruction* o : i.operands()) {
      const Value x = get(*o);
      if (!x || x->size() != std::size_t(i.shape.element_count())) return std::nullopt;
      given.push_back(*x);
    }
    Dims out;
    const DType t = i.operands().back()->shape.dtype;
    for (std::size_t n = 0; n < given[0].size(); ++n) {
      const std::int64_t a = given[0][n], b = given[1][n];
      if (i.is(Opcode::compare)) {
        out.push_back(std::int64_t(holds(i.get<ir::CompareAttrs>().direction, a, b, t)));
        continue;
      }
      const std::int64_t c = given[2][n];
      if (i.is(Opcode::select)) {
        out.push_back(a != 0 ? b : c);
      } else {
        const std::int64_t raised = less(b, a, t) ? a : b;
        out.push_back(less(c, raised, t) ? c : raised);
      }
    }
    return out;
  }

  Value counted(const Instruction& i) {
    const auto dim = std::size_t(i.get<ir::IotaAttrs>().dim);
    Dims out;
    each_index(i.shape.dims, [&](const Dims& index) {
      out.push_back(wrapped(std::uint64_t(index[dim]), i.shape.dtype));
    });
    return out;
  }

  Value spread(const Instruction& i) {
    const Value x = get(*i.operand(0));
    if (!x) return x;
    if (x->size() == 1) return Dims(std::size_t(i.shape.element_count()), (*x)[0]);
    const Dims strides = row_major_strides(i.operand(0)->shape.dims);
    const Dims& dims = i.get<ir::DimensionsAttrs>().dims;
    Dims out;
    each_index(i.shape.dims, [&](const Dims& index) {
      std::int64_t at = 0;
      for (std::size_t d = 0; d < dims.size(); ++d) at += index[std::size_t(dims[d])] * strides[d];
      out.push_back((*x)[std::size_t(at)]);
    });
    return out;
  }

  Value joined(const Instruction& i) {
    if (i.get<ir::DimensionsAttrs>().dims.at(0) != 0) return std::nullopt;
    Dims out;
    for (const Instruction* o : i.operands()) {
      const Value x = get(*o);
      if (!x) return x;
      out.insert(out.end(), x->begin(), x->end());
    }
    return out;
  }

  Value part(const Instruction& i) {
    const Value x = get(*i.operand(0));
    if (!x) return x;
    const auto& a = i.get<ir::SliceAttrs>();
    const Dims strides = row_major_strides(i.operand(0)->shape.dims);
    Dims out;
    each_index(i.shape.dims, [&](const Dims& index) {
      std::int64_t at = 0;
      for (std::size_t d = 0; d < index.size(); ++d) {
        at += (a.starts[d] + index[d] * a.strides[d]) * strides[d];
      }
      out.push_back((*x)[std::size_t(at)]);
    });
    return out;
  }

  Value part_from(const Instruction& i) {
    const Value x = get(*i.operand(0));
    if (!x || i.operands().size() != i.shape.dims.size() + 1) return std::nullopt;
    const Dims& from = i.operand(0)->shape.dims;
    Dims starts;
    for (std::size_t d = 0; d < from.size(); ++d) {
      const Value start = get(*i.operand(d + 1));
      if (!start || start->size() != 1) return std::nullopt;
      starts.push_back(std::min(std::max<std::int64_t>((*start)[0], 0), from[d] - i.shape.dims[d]));
    }
    const Dims strides = row_major_strides(from);
    const auto first = place_of(starts, strides);
    Dims out;
    each_index(i.shape.dims,
               [&](const Dims& index) { out.push_back((*x)[first + place_of(index, strides)]); });
    return out;
  }

  Value moved(const Instruction& i) {
    const Value x = get(*i.operand(0));
    if (!x) return x;
    const Dims& from = i.operand(0)->shape.dims;
    const Dims& dims = i.get<ir::DimensionsAttrs>().dims;
    const Dims strides = row_major_strides(from);
    Dims out;
    each_index(i.shape.dims, [&](const Dims& index) {
      Dims at = index;
      for (std::size_t n = 0; n < dims.size(); ++n) {
        const auto d = std::size_t(dims[n]);
        if (i.is(Opcode::reverse)) {
          at[d] = from[d] - 1 - at[d];
        } else {
          at[d] = index[n];
        }
      }
      out.push_back((*x)[place_of(at, strides)]);
    });
    return out;
  }

  /// All elements by one operation.
  Value reduced(const Instruction& i) {
    const std::optional<Opcode> by = ir::as_binary_reducer(*i.called(0));
    if (!by || i.operands().size() != 2 || !i.shape.dims.empty() ||
        !binary(*by, 1, 1, i.shape.dtype)) {
      return std::nullopt;
    }
    const Value x = get(*i.operand(0)), init = get(*i.operand(1));
    if (!x || !init) return std::nullopt;
    std::int64_t out = init->at(0);
    for (const std::int64_t v : *x) {
      out = wrapped(std::uint64_t(*binary(*by, out, v, i.shape.dtype)), i.shape.dtype);
    }
    return Dims{out};
  }

  KnownIntegers& known_;
  int depth_ = 0;
  bool given_ = false;  ///< what is being computed depends on what a function was given
};

std::optional<Dims> KnownIntegers::of(const Instruction& i) {
  const Entry& e = Evaluation(*this).of(i);
  uses_given_ = uses_given_ || e.given;
  return e.value;
}

void KnownIntegers::note(const Instruction& i, Dims value, bool given) {
  entries_[&i] = {std::move(value), given};
}

}  // namespace tessera::text
