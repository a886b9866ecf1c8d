// SPDX-License-Identifier: Apache-2.0
// Comparisons, selections and copies.
#include <complex>
#include <cstring>
#include <limits>
#include <type_traits>

#include "src/codegen/kernels/elementwise/block_loops.h"
#include "src/codegen/kernels/type_dispatch.h"

namespace tessera::codegen {
namespace {

using ir::Direction;

#define COMPARE(Name, op)                     \
  struct Name {                               \
    template <class T>                        \
    std::uint8_t operator()(T a, T b) const { \
      return a op b;                          \
    }                                         \
  };
COMPARE(Eq, ==)
COMPARE(Ne, !=)
COMPARE(Lt, <)
COMPARE(Le, <=)
COMPARE(Gt, >)
COMPARE(Ge, >=)
#undef COMPARE

/// -NaN < -inf < ... < -0 < 0 < ... < inf < NaN, as integers.
template <class F, class Op>
struct Total {
  using S = std::conditional_t<sizeof(F) == 4, std::int32_t, std::int64_t>;
  using U = std::make_unsigned_t<S>;
  static S key(F v) {
    S s;
    std::memcpy(&s, &v, sizeof s);
    return s < 0 ? S(U(s) ^ U(std::numeric_limits<S>::max())) : s;
  }
  std::uint8_t operator()(F a, F b) const { return Op{}(key(a), key(b)); }
};

template <class T>
BlockFunction compare(Direction d) {
  switch (d) {
    case Direction::eq:
      return binary_loop<T, std::uint8_t, Eq>;
    case Direction::ne:
      return binary_loop<T, std::uint8_t, Ne>;
    default:
      break;
  }
  if constexpr (!std::is_same_v<T, std::complex<float>> &&
                !std::is_same_v<T, std::complex<double>>) {
    switch (d) {
      case Direction::lt:
        return binary_loop<T, std::uint8_t, Lt>;
      case Direction::le:
        return binary_loop<T, std::uint8_t, Le>;
      case Direction::gt:
        return binary_loop<T, std::uint8_t, Gt>;
      default:
        return binary_loop<T, std::uint8_t, Ge>;
    }
  }
  return nullptr;
}

template <class T>
BlockFunction total(Direction d) {
  switch (d) {
    case Direction::eq:
      return binary_loop<T, std::uint8_t, Total<T, Eq>>;
    case Direction::ne:
      return binary_loop<T, std::uint8_t, Total<T, Ne>>;
    case Direction::lt:
      return binary_loop<T, std::uint8_t, Total<T, Lt>>;
    case Direction::le:
      return binary_loop<T, std::uint8_t, Total<T, Le>>;
    case Direction::gt:
      return binary_loop<T, std::uint8_t, Total<T, Gt>>;
    case Direction::ge:
      return binary_loop<T, std::uint8_t, Total<T, Ge>>;
  }
  return nullptr;
}

template <class T, bool scalar_a, bool scalar_b>
void select_loop(const std::uint8_t* p, const T* a, const T* b, T* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const T x = a[scalar_a ? 0 : i], y = b[scalar_b ? 0 : i];
    out[i] = p[i] != 0 ? x : y;
  }
}

template <class T>
void copy(const BlockCall& c) {
  if (c.scalars & 1u) {
    const T v = *reinterpret_cast<const T*>(c.in[0]);
    T* out = reinterpret_cast<T*>(c.out);
    for (std::int64_t i = 0; i < c.n; ++i) out[i] = v;
  } else if (c.out != c.in[0] && c.n > 0) {
    std::memmove(c.out, c.in[0], std::size_t(c.n) * sizeof(T));
  }
}

template <class T>
void select(const BlockCall& c) {
  const T* a = reinterpret_cast<const T*>(c.in[1]);
  const T* b = reinterpret_cast<const T*>(c.in[2]);
  T* out = reinterpret_cast<T*>(c.out);
  const auto* p = reinterpret_cast<const std::uint8_t*>(c.in[0]);
  if (c.scalars & 1u) {
    const int k = *p != 0 ? 1 : 2;
    copy<T>({nullptr, c.out, c.in + k, (c.scalars >> k) & 1u, c.n});
    return;
  }
  switch (c.scalars >> 1 & 3u) {
    case 0:
      return select_loop<T, false, false>(p, a, b, out, c.n);
    case 1:
      return select_loop<T, true, false>(p, a, b, out, c.n);
    case 2:
      return select_loop<T, false, true>(p, a, b, out, c.n);
    default:
      return select_loop<T, true, true>(p, a, b, out, c.n);
  }
}

template <class T>
void take(const BlockCall& c) {
  const T* array = reinterpret_cast<const T*>(c.in[0]);
  const auto* indices = reinterpret_cast<const std::int32_t*>(c.in[1]);
  const std::int32_t last = *static_cast<const std::int32_t*>(c.attributes);
  T* out = reinterpret_cast<T*>(c.out);
  const bool one = (c.scalars & 2u) != 0;
  for (std::int64_t i = 0; i < c.n; ++i) {
    out[i] = array[std::clamp<std::int32_t>(indices[one ? 0 : i], 0, last)];
  }
}

}  // namespace

BlockFunction compare_block(Direction d, ir::ComparisonType type, DType t) {
  if (type == ir::ComparisonType::total_order && is_floating(t)) {
    return for_type(kFloats, t, [&](auto tag) { return total<typename decltype(tag)::type>(d); });
  }
  if (t == DType::pred) return compare<std::uint8_t>(d);
  return for_type(kFloats + kSigned + kUnsigned + kComplex, t,
                  [&](auto tag) { return compare<typename decltype(tag)::type>(d); });
}

BlockFunction select_block(std::size_t bytes) {
  return for_size(kOfEachSize, bytes,
                  [](auto tag) -> BlockFunction { return select<typename decltype(tag)::type>; });
}
BlockFunction copy_block(std::size_t bytes) {
  return for_size(kOfEachSize, bytes,
                  [](auto tag) -> BlockFunction { return copy<typename decltype(tag)::type>; });
}
BlockFunction take_block(std::size_t bytes) {
  return for_size(kOfEachSize, bytes,
                  [](auto tag) -> BlockFunction { return take<typename decltype(tag)::type>; });
}

BlockFunction unary_block(ir::Opcode op, DType t) {
  if (op == ir::Opcode::copy) return copy_block(byte_size(t));
  if (op == ir::Opcode::real && is_floating(t)) return copy_block(byte_size(t));
  if (is_floating(t)) return float_unary_block(op, t);
  if (is_complex(t)) return complex_unary_block(op, t);
  return integer_unary_block(op, t);
}
BlockFunction binary_block(ir::Opcode op, DType t) {
  if (op == ir::Opcode::complex || is_complex(t)) return complex_binary_block(op, t);
  if (is_floating(t)) return float_binary_block(op, t);
  return integer_binary_block(op, t);
}

BlockFunction block_function(const BlockOp& op) {
  switch (op.kind) {
    case BlockOp::Kind::unary:
      return unary_block(op.opcode, op.type);
    case BlockOp::Kind::binary:
      return binary_block(op.opcode, op.type);
    case BlockOp::Kind::clamp:
      return clamp_block(op.type);
    case BlockOp::Kind::compare:
      return compare_block(op.direction, op.comparison, op.type);
    case BlockOp::Kind::convert:
      return convert_block(op.type, op.to);
    case BlockOp::Kind::lift:
      return lift_block(op.type);
    case BlockOp::Kind::round:
      return round_block(op.type);
    case BlockOp::Kind::select:
      return select_block(std::size_t(op.element_bytes));
    case BlockOp::Kind::copy:
      return copy_block(std::size_t(op.element_bytes));
    case BlockOp::Kind::take:
      return take_block(std::size_t(op.element_bytes));
    case BlockOp::Kind::reduce_precision:
      return reduce_precision_block(op.type);
  }
  return nullptr;
}

}  // namespace tessera::codegen
