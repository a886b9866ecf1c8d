// SPDX-License-Identifier: Apache-2.0
// Random arrays for tests.
#include "tests/support/random_literal.h"

#include <cmath>
#include <cstring>

namespace tessera::testing {
namespace {

std::int64_t below(std::mt19937_64* engine, std::int64_t n) {
  return std::int64_t((*engine)() % std::uint64_t(n));
}
bool chance(std::mt19937_64* engine, double p) {
  return double(below(engine, 1 << 20)) < p * (1 << 20);
}

}  // namespace

double random_number(std::mt19937_64* engine, DType type, bool special) {
  if (special && (is_floating(type) || is_complex(type)) && chance(engine, 0.15)) {
    static const double odd[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1e30, -1e-30};
    return odd[below(engine, std::ssize(odd))];
  }
  if (is_integer(type)) {
    return double(below(engine, 200) - (is_signed_integer(type) ? 100 : 0));
  }
  if (type == DType::pred) return double(below(engine, 2));
  return double(below(engine, 4001) - 2000) / 512;
}

Literal random_literal(std::mt19937_64* engine, DType type, const Dims& dims, bool special) {
  Literal out(Shape(type, dims));
  std::vector<double> re, im;
  for (std::int64_t i = 0; i < out.element_count(); ++i) {
    re.push_back(random_number(engine, type, special));
    im.push_back(random_number(engine, type, special));
  }
  dispatch_dtype(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    auto data = out.mutable_data<T>();
    for (std::size_t i = 0; i < data.size(); ++i) {
      if constexpr (is_complex_v<T>) {
        using R = typename T::value_type;
        data[i] = T(R(re[i]), R(im[i]));
      } else {
        data[i] = convert_element<T>(re[i]);
        if (special && std::is_integral_v<T> && chance(engine, 0.2)) {
          std::memset(static_cast<void*>(&data[i]), chance(engine, 0.5) ? 0xff : 0, sizeof(T));
          if (chance(engine, 0.3)) reinterpret_cast<std::uint8_t*>(&data[i])[sizeof(T) - 1] = 0x80;
        }
      }
    }
  });
  return out;
}

}  // namespace tessera::testing
