// SPDX-License-Identifier: Apache-2.0
// Prints constants as HLO text that reads back to the same bits.
#include <charconv>
#include <cmath>
#include <type_traits>

#include "src/base/arrays/literal_util.h"
#include "src/base/arrays/small_floats.h"
#include "src/ir/hlo/literal_text.h"
#include "src/ir/hlo/text_out.h"

namespace tessera::ir {
namespace {

constexpr std::int64_t kMaxEmptyBraces = 1 << 16;

// nan, -nan, nan(0x7fc123): the payload stands there if it isn't that of the plain quiet NaN.
void append_nan(std::string& out, std::uint64_t bits, int mantissa_bits, bool negative) {
  if (negative) out += '-';
  out += "nan";
  std::uint64_t payload = bits & ((std::uint64_t(1) << mantissa_bits) - 1);
  if (payload == std::uint64_t(1) << (mantissa_bits - 1)) return;
  char buffer[20];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, payload, 16).ptr;
  out += "(0x";
  out.append(buffer, end);
  out += ')';
}

template <class T>
void append_shortest(std::string& out, T v) {
  char buffer[40];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, v).ptr;
  out.append(buffer, end);
}

void append_element(std::string& out, float v) {
  if (std::isnan(v)) {
    auto bits = std::bit_cast<std::uint32_t>(v);
    return append_nan(out, bits, 23, bits >> 31);
  }
  append_shortest(out, v);
}

void append_element(std::string& out, double v) {
  if (std::isnan(v)) {
    auto bits = std::bit_cast<std::uint64_t>(v);
    return append_nan(out, bits, 52, bits >> 63);
  }
  append_shortest(out, v);
}

// The fewest digits that round back to the same bits of the small type.
template <class T>
void append_small_float(std::string& out, T v, int mantissa_bits) {
  float wide = float(v);
  if (std::isnan(wide)) return append_nan(out, v.bits, mantissa_bits, v.bits >> 15);
  for (int digits = 1; digits <= 5; ++digits) {
    char buffer[40];
    auto end =
        std::to_chars(buffer, buffer + sizeof buffer, wide, std::chars_format::general, digits).ptr;
    double read = 0;
    std::from_chars(buffer, end, read);
    if (std::isinf(wide) || T(read).bits == v.bits) {
      out.append(buffer, end);
      return;
    }
  }
  append_shortest(out, wide);
}

void append_element(std::string& out, Half v) { append_small_float(out, v, 10); }
void append_element(std::string& out, BFloat16 v) { append_small_float(out, v, 7); }
void append_element(std::string& out, Pred v) { out += v.value ? '1' : '0'; }

template <class T>
requires std::is_integral_v<T>
void append_element(std::string& out, T v) {
  if constexpr (std::is_unsigned_v<T> && sizeof(T) == 8) {
    append_shortest(out, v);
  } else {
    append_int(out, std::int64_t(v));
  }
}

template <class T>
void append_element(std::string& out, std::complex<T> v) {
  out += '(';
  append_element(out, v.real());
  out += ", ";
  append_element(out, v.imag());
  out += ')';
}

void append_small_float(std::string& out, DType t, std::uint8_t bits) {
  const double wide = small_float_value(t, bits);
  if (std::isnan(wide)) {
    const std::uint8_t plain = small_float_bits(t, wide);
    const int mantissa_bits = small_float_mantissa_bits(t);
    const bool negative = std::signbit(wide);
    if (bits == plain || mantissa_bits == 0) {
      out += negative ? "-nan" : "nan";
    } else {
      append_nan(out, bits, mantissa_bits, negative);
    }
    return;
  }
  append_shortest(out, float(wide));  // which holds it exactly
}

/// One byte of a literal of small floats.
struct SmallFloat {
  std::uint8_t bits;
};

template <class T>
const T* append_array(std::string& out, DType t, const T* data, const Dims& dims,
                      std::size_t depth) {
  if (depth == dims.size()) {
    if constexpr (std::is_same_v<T, SmallFloat>) {
      append_small_float(out, t, data->bits);
    } else {
      append_element(out, *data);
    }
    return data + 1;
  }
  std::int64_t n = dims[depth];
  bool spaced = dims.size() > 1 && n > 0;
  out += spaced ? "{ " : "{";
  for (std::int64_t i = 0; i < n; ++i) {
    if (i > 0) out += ", ";
    data = append_array(out, t, data, dims, depth + 1);
  }
  out += spaced ? " }" : "}";
  return data;
}

}  // namespace

void append_literal(std::string& out, const Literal& literal) {
  if (literal.is_tuple()) {
    out += '(';
    for (std::size_t i = 0; i < literal.elements().size(); ++i) {
      if (i > 0) out += ", ";
      append_literal(out, literal.elements()[i]);
    }
    out += ')';
    return;
  }
  if (literal.dtype() == DType::pred && literal.dims().empty()) {
    out += literal.data<Pred>()[0].value ? "true" : "false";
    return;
  }
  // XLA wants the braces of an empty array down to its dim of size 0; that may be too many.
  std::int64_t braces = 1;
  for (std::int64_t d : literal.dims()) {
    if (d == 0 || braces > kMaxEmptyBraces) break;
    braces = d > kMaxEmptyBraces ? d : braces * d;
  }
  if (literal.element_count() == 0 && braces > kMaxEmptyBraces) {
    out += "{}";
    return;
  }
  if (is_small_float(literal.dtype())) {
    append_array(out, literal.dtype(), literal.data<SmallFloat>().data(), literal.dims(), 0);
    return;
  }
  dispatch_dtype(literal.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    append_array(out, literal.dtype(), literal.data<T>().data(), literal.dims(), 0);
  });
}

}  // namespace tessera::ir
