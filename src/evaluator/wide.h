// SPDX-License-Identifier: Apache-2.0
// Elements are computed with in one of three wide forms: 64-bit integers, double, complex double.
// Every dtype is read into one of them and rounded (or cut) once when it is written back. Sums,
// products, quotients and roots of f32, f16 and bf16 come out as if rounded once: double has more
// than twice their digits.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/arrays/bit_width.h"
#include "src/base/arrays/literal.h"

namespace tessera::evaluator {

using Complex = std::complex<double>;

/// An element of 16 bytes that is only moved.
struct Bytes16 {
  std::uint64_t low, high;
};

enum class Domain : std::uint8_t { integer, real, complex };
/// pred counts as an integer.
Domain domain_of(DType);

/// Integers and pred; signed ones are sign-extended.
void load(DType, const std::byte* from, std::int64_t n, std::uint64_t* to);
/// Floats, integers and pred.
void load(DType, const std::byte* from, std::int64_t n, double* to);
/// Everything.
void load(DType, const std::byte* from, std::int64_t n, Complex* to);

/// To integers: the low bits stay; to pred: != 0.
void store(DType, const std::uint64_t* from, std::int64_t n, std::byte* to);
/// To floats: rounded once.
void store(DType, const double* from, std::int64_t n, std::byte* to);
/// To complex types: each part rounded once.
void store(DType, const Complex* from, std::int64_t n, std::byte* to);

/// The bits of the elements as they are, zero-extended; at most 8 bytes each.
void load_bits(std::size_t element_size, const std::byte* from, std::int64_t n, std::uint64_t* to);
void store_bits(std::size_t element_size, const std::uint64_t* from, std::int64_t n, std::byte* to);

template <class W>
std::vector<W> load_all(const Literal& x) {
  std::vector<W> out(std::size_t(x.element_count()));
  load(x.dtype(), x.bytes(), x.element_count(), out.data());
  return out;
}

template <class W>
Literal store_all(const Shape& shape, const std::vector<W>& values) {
  Literal out(Shape(shape.dtype, shape.dims));
  TESSERA_CHECK(std::size_t(out.element_count()) == values.size(), "wrong number of elements");
  store(shape.dtype, values.data(), out.element_count(), out.mutable_bytes());
  return out;
}

/// Calls f(TypeTag<W>) with the wide type of a dtype.
template <class F>
decltype(auto) dispatch_domain(DType t, F&& f) {
  switch (domain_of(t)) {
    case Domain::integer:
      return f(TypeTag<std::uint64_t>{});
    case Domain::real:
      return f(TypeTag<double>{});
    default:
      return f(TypeTag<Complex>{});
  }
}

/// Blocks of this many elements are computed at a time.
inline constexpr std::int64_t kBlock = 256;

/// Calls f(begin, count) for each block of n elements.
template <class F>
void for_each_block(std::int64_t n, F&& f) {
  for (std::int64_t i = 0; i < n; i += kBlock) f(i, n - i < kBlock ? n - i : kBlock);
}

}  // namespace tessera::evaluator
