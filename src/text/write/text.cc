// SPDX-License-Identifier: Apache-2.0
// Writes MLIR attributes and dense constants.
#include "src/text/write/text.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <complex>

#include "src/base/arrays/bit_width.h"
#include "src/base/arrays/dtype_names.h"
#include "src/base/arrays/small_floats.h"
#include "src/ir/hlo/text_out.h"

namespace tessera::text {
namespace {

using ir::append_int;

// MLIR prints longer lists as one string of hexadecimal digits.
constexpr std::int64_t kMaxListed = 100;

constexpr char kHex[] = "0123456789ABCDEF";

void append_hex(std::string& out, std::uint64_t bits, int digits) {
  out += "0x";
  for (int i = digits - 1; i >= 0; --i) out += kHex[(bits >> (4 * i)) & 15];
}

/// Six decimals as MLIR prints them, if `same` says that they are read back as the same bits;
/// else the fewest that are.
template <class F>
bool append_decimal(std::string& out, double v, F&& same) {
  if (!std::isfinite(v)) return false;
  char buffer[48];
  for (int digits : {6, 8, 9, 16, 17}) {
    char* end =
        std::to_chars(buffer, buffer + sizeof buffer, v, std::chars_format::scientific, digits).ptr;
    double read = 0;
    std::from_chars(buffer, end, read);
    if (same(read)) {
      out.append(buffer, end);
      return true;
    }
  }
  return false;
}

void append_element(std::string& out, float v) {
  const auto bits = std::bit_cast<std::uint32_t>(v);
  auto same = [&](double d) { return std::bit_cast<std::uint32_t>(float(d)) == bits; };
  if (!append_decimal(out, v, same)) append_hex(out, bits, 8);
}
void append_element(std::string& out, double v) {
  const auto bits = std::bit_cast<std::uint64_t>(v);
  auto same = [&](double d) { return std::bit_cast<std::uint64_t>(d) == bits; };
  if (!append_decimal(out, v, same)) append_hex(out, bits, 16);
}
template <class T>
void append_half(std::string& out, T v) {
  auto same = [&](double d) { return T(d).bits == v.bits; };
  if (!append_decimal(out, double(v), same)) append_hex(out, v.bits, 4);
}
void append_element(std::string& out, Half v) { append_half(out, v); }
void append_element(std::string& out, BFloat16 v) { append_half(out, v); }
void append_element(std::string& out, Pred v) { out += v.value != 0 ? "true" : "false"; }
template <class T>
requires std::is_integral_v<T>
void append_element(std::string& out, T v) {
  char buffer[24];
  out.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, v).ptr);
}
template <class T>
void append_element(std::string& out, std::complex<T> v) {
  out += '(';
  append_element(out, v.real());
  out += ',';
  append_element(out, v.imag());
  out += ')';
}

template <class T>
T load(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

void append_element(std::string& out, DType t, const std::byte* p) {
  if (is_small_float(t)) {
    const int bits = bit_width(t);
    return append_hex(out, load<std::uint8_t>(p) & ((1U << bits) - 1), (bits + 3) / 4);
  }
  dispatch_dtype(t, [&](auto tag) { append_element(out, load<typename decltype(tag)::type>(p)); });
}

const std::byte* append_nested(std::string& out, const Literal& x, std::size_t depth,
                               const std::byte* p) {
  if (depth == x.dims().size()) {
    append_element(out, x.dtype(), p);
    return p + byte_size(x.dtype());
  }
  out += '[';
  for (std::int64_t i = 0; i < x.dims()[depth]; ++i) {
    if (i > 0) out += ", ";
    p = append_nested(out, x, depth + 1, p);
  }
  out += ']';
  return p;
}

// Elements that MLIR stores as they are stored here.
bool whole_bytes(DType t) { return bit_width(t) >= 8; }

bool is_bare(std::string_view name) {
  if (name.empty()) return false;
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return letter(name[0]) && std::all_of(name.begin(), name.end(), [&](char c) {
           return letter(c) || digit(c) || c == '$' || c == '.';
         });
}

}  // namespace

std::string_view element_type(DType t) {
  const std::string_view mlir = mlir_name(t);
  // MLIR has integers of one bit that StableHLO lacks.
  if (mlir.empty() || t == DType::u1) {
    throw NotImplementedError("StableHLO has no arrays of element type " +
                              std::string(tessera::name(t)));
  }
  return mlir;
}

void append_type(std::string& out, const Shape& array) {
  TESSERA_CHECK(!array.is_tuple, "a tuple where an array was expected");
  if (array.dtype == DType::token) {
    out += "!stablehlo.token";
    return;
  }
  out += "tensor<";
  for (std::int64_t d : array.dims) {
    append_int(out, d);
    out += 'x';
  }
  out += element_type(array.dtype);
  out += '>';
}

void append_symbol(std::string& out, std::string_view name) {
  out += '@';
  if (is_bare(name)) {
    out += name;
  } else {
    append_string(out, name);
  }
}

void append_key(std::string& out, std::string_view key) {
  if (is_bare(key)) {
    out += key;
  } else {
    append_string(out, key);
  }
}

void append_string(std::string& out, std::string_view text) {
  out += '"';
  for (char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '"' || u < 0x20 || u >= 0x7f) {
      out += '\\';
      out += kHex[u >> 4];
      out += kHex[u & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

void append_list(std::string& out, const Dims& values) {
  out += '[';
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out += ", ";
    append_int(out, values[i]);
  }
  out += ']';
}

void append_i64_array(std::string& out, const Dims& values) {
  out += "array<i64";
  for (std::size_t i = 0; i < values.size(); ++i) {
    out += i > 0 ? ", " : ": ";
    append_int(out, values[i]);
  }
  out += '>';
}

void append_dense(std::string& out, const Literal& x) {
  out += "dense<";
  const std::int64_t count = x.element_count();
  if (count == 0) {
    // Nothing between the brackets.
  } else if (is_splat(x)) {
    append_element(out, x.dtype(), x.bytes());
  } else if (count > kMaxListed && whole_bytes(x.dtype())) {
    out += "\"0x";
    const std::size_t at = out.size();
    out.resize(at + 2 * x.byte_count());
    for (std::size_t i = 0; i < x.byte_count(); ++i) {
      const auto b = std::to_integer<unsigned>(x.bytes()[i]);
      out[at + 2 * i] = kHex[b >> 4];
      out[at + 2 * i + 1] = kHex[b & 15];
    }
    out += '"';
  } else {
    append_nested(out, x, 0, x.bytes());
  }
  out += '>';
}

void append_matrix(std::string& out, const std::vector<Dims>& rows, std::int64_t columns) {
  out += "dense<";
  if (!rows.empty() && columns > 0) {
    out += '[';
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (i > 0) out += ", ";
      append_list(out, rows[i]);
    }
    out += ']';
  }
  out += "> : ";
  append_type(out, Shape(DType::s64, {std::int64_t(rows.size()), columns}));
}

void append_pairs(std::string& out, const DevicePairs& rows) {
  out += "dense<";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    out += i > 0 ? ", [" : "[[";
    append_int(out, rows[i].first);
    out += ", ";
    append_int(out, rows[i].second);
    out += ']';
  }
  if (!rows.empty()) out += ']';
  out += "> : ";
  append_type(out, Shape(DType::s64, {std::int64_t(rows.size()), 2}));
}

std::string unquoted(std::string_view text) {
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') return std::string(text);
  text = text.substr(1, text.size() - 2);
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char c = text[++i];
    if (c == 'n') {
      out += '\n';
    } else if (c == 't') {
      out += '\t';
    } else if (c == 'r') {
      out += '\r';
    } else if (c >= '0' && c <= '7') {
      int value = 0;
      std::size_t end = std::min(i + 3, text.size());
      for (; i < end && text[i] >= '0' && text[i] <= '7'; ++i) value = value * 8 + (text[i] - '0');
      --i;
      out += char(value);
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace tessera::text
