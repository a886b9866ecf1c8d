// SPDX-License-Identifier: Apache-2.0
// Block functions that convert between element types.
#include <array>
#include <type_traits>

#include "src/base/arrays/small_floats.h"
#include "src/codegen/kernels/elementwise/block_loops.h"
#include "src/codegen/kernels/elementwise/half_conversions.h"
#include "src/codegen/kernels/type_dispatch.h"

namespace tessera::codegen {
namespace {

template <class From, class To>
struct Convert {
  To operator()(From v) const { return convert_element<To>(v); }
};

template <class H>
struct Lift {
  float operator()(H v) const { return float(v); }
};

/// By the machine's instructions, if it has them.
void lift_f16(const BlockCall& c) {
  if ((c.scalars & 1) != 0 || !lifts_halves_fast()) return unary_loop<Half, float, Lift<Half>>(c);
  lift_halves(DType::f16, c.in[0], c.n, reinterpret_cast<float*>(c.out));
}
void f32_to_f16(const BlockCall& c) {
  if ((c.scalars & 1) != 0 || !lifts_halves_fast()) {
    return unary_loop<float, Half, Convert<float, Half>>(c);
  }
  round_to_halves(DType::f16, reinterpret_cast<const float*>(c.in[0]), c.n, c.out);
}

/// The bits of floats of a byte.
template <DType to>
struct ToSmall {
  template <class From>
  std::uint8_t operator()(From v) const {
    return small_float_bits(to, double(v));
  }
};
/// By code.
template <DType from>
const std::array<float, 256>& numbers_of() {
  static const std::array<float, 256> all = [] {
    std::array<float, 256> out{};
    for (std::size_t n = 0; n < out.size(); ++n) {
      out[n] = float(small_float_value(from, std::uint8_t(n)));
    }
    return out;
  }();
  return all;
}
template <DType from>
struct LiftSmall {
  float operator()(std::uint8_t v) const { return numbers_of<from>()[v]; }
};
template <DType small>
struct RoundSmall {
  float operator()(float v) const {
    return float(small_float_value(small, small_float_bits(small, double(v))));
  }
};

/// What F::get<t>() is for a float of a byte; null for other types.
template <class F>
BlockFunction of_small_float(DType t) {
  switch (t) {
    case DType::f4e2m1fn:
      return F::template get<DType::f4e2m1fn>();
    case DType::f6e2m3fn:
      return F::template get<DType::f6e2m3fn>();
    case DType::f6e3m2fn:
      return F::template get<DType::f6e3m2fn>();
    case DType::f8e3m4:
      return F::template get<DType::f8e3m4>();
    case DType::f8e4m3:
      return F::template get<DType::f8e4m3>();
    case DType::f8e4m3b11fnuz:
      return F::template get<DType::f8e4m3b11fnuz>();
    case DType::f8e4m3fn:
      return F::template get<DType::f8e4m3fn>();
    case DType::f8e4m3fnuz:
      return F::template get<DType::f8e4m3fnuz>();
    case DType::f8e5m2:
      return F::template get<DType::f8e5m2>();
    case DType::f8e5m2fnuz:
      return F::template get<DType::f8e5m2fnuz>();
    case DType::f8e8m0fnu:
      return F::template get<DType::f8e8m0fnu>();
    default:
      return nullptr;
  }
}
template <class From>
struct ConvertsToSmall {
  template <DType t>
  static BlockFunction get() {
    return unary_loop<From, std::uint8_t, ToSmall<t>>;
  }
};
struct LiftsSmall {
  template <DType t>
  static BlockFunction get() {
    return unary_loop<std::uint8_t, float, LiftSmall<t>>;
  }
};
struct RoundsSmall {
  template <DType t>
  static BlockFunction get() {
    return unary_loop<float, float, RoundSmall<t>>;
  }
};

template <class From>
BlockFunction to_type(DType to) {
  if constexpr ((std::is_integral_v<From> && sizeof(From) <= 4) || std::is_floating_point_v<From>) {
    if (is_small_float(to)) return of_small_float<ConvertsToSmall<From>>(to);
  }
  return for_type(kWholeBytes, to, [](auto tag) -> BlockFunction {
    using To = typename decltype(tag)::type;
    if constexpr (std::is_same_v<From, float> && std::is_same_v<To, Half>) return f32_to_f16;
    return unary_loop<From, To, Convert<From, To>>;
  });
}

template <class H>
struct Round {
  float operator()(float v) const { return float(H(v)); }
};

}  // namespace

BlockFunction convert_block(DType from, DType to) {
  return for_type(kPred + kSigned + kUnsigned + kFloats + kComplex, from,
                  [&](auto tag) { return to_type<typename decltype(tag)::type>(to); });
}

BlockFunction lift_block(DType small) {
  return small == DType::f16    ? lift_f16
         : small == DType::bf16 ? unary_loop<BFloat16, float, Lift<BFloat16>>
                                : of_small_float<LiftsSmall>(small);
}
BlockFunction round_block(DType small) {
  return small == DType::f16    ? unary_loop<float, float, Round<Half>>
         : small == DType::bf16 ? unary_loop<float, float, Round<BFloat16>>
                                : of_small_float<RoundsSmall>(small);
}

}  // namespace tessera::codegen
