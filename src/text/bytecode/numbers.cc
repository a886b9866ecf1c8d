// SPDX-License-Identifier: Apache-2.0
// Numbers and constants of a bytecode file, as MLIR writes them.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "src/base/arrays/literal_util.h"
#include "src/base/files/plain_numbers.h"
#include "src/text/bytecode/entries.h"
#include "src/text/read/types.h"

namespace tessera::text {
namespace {

/// What a constant of more elements is written as by MLIR, hexadecimal digits, would only be read
/// back.
constexpr std::size_t kMostWritten = 100;

/// Of `i32`, `ui8`, `index`; 0 if it is no integer type.
int integer_width(std::string_view type) {
  if (type == "index") return 64;
  while (!type.empty() && (type[0] == 's' || type[0] == 'u')) type.remove_prefix(1);
  if (type.size() < 2 || type[0] != 'i') return 0;
  int width = 0;
  const char* end = type.data() + type.size();
  const auto [stop, error] = std::from_chars(type.data() + 1, end, width);
  return error == std::errc() && stop == end && width >= 1 && width <= 64 ? width : 0;
}

int float_width(std::string_view type) {
  if (type == "tf32") return 19;
  const std::optional<DType> t = dtype_from_mlir(type);
  if (!t || !is_floating(*t)) return 0;
  return int(byte_size(*t)) * 8;
}

std::int64_t sign_extended(std::uint64_t v, int width) {
  return std::int64_t(v << (64 - width)) >> (64 - width);
}

/// 1.500000e+00
std::string scientific_text(double v, int digits) {
  char text[48];
  const char* end =
      std::to_chars(text, text + sizeof text, v, std::chars_format::scientific, digits).ptr;
  return std::string(text, std::size_t(end - text));
}

/// As LLVM writes a number that six digits behind the point don't give: as many digits as the type
/// has, without zeros at the end, and an exponent where the point would be far away.
std::string all_digits(double v, int digits) {
  const std::string text = scientific_text(v, digits - 1);
  std::string_view all = text;
  const bool negative = all[0] == '-';
  if (negative) all.remove_prefix(1);
  const std::size_t e = all.find('e');
  int exponent = 0;
  const char* from = all.data() + e + 1;
  if (*from == '+') ++from;
  std::from_chars(from, all.data() + all.size(), exponent);
  std::string mantissa(1, all[0]);
  mantissa += all.substr(2, e - 2);
  while (mantissa.size() > 1 && mantissa.back() == '0') mantissa.pop_back();
  const int size = int(mantissa.size());
  const int last = exponent - (size - 1);  // the exponent of the last digit
  const bool scientific =
      last >= 0 ? last > 3 || size + last > digits : exponent < 0 && -exponent > 3;
  std::string out = negative ? "-" : "";
  if (scientific) {
    out += mantissa[0];
    out += '.';
    out += size > 1 ? mantissa.substr(1) : "0";
    out += exponent < 0 ? "E-" : "E+";
    return out + std::to_string(std::abs(exponent));
  }
  if (last >= 0) return out + mantissa + std::string(std::size_t(last), '0') + ".0";
  if (exponent >= 0) {
    const auto whole = std::size_t(exponent) + 1;
    return out + mantissa.substr(0, whole) + "." + mantissa.substr(whole);
  }
  return out + "0." + std::string(std::size_t(-exponent) - 1, '0') + mantissa;
}

}  // namespace

// Numbers of a byte stand as they are, others in a zigzag of all their bits.
std::uint64_t EntryTexts::bits(ByteReader& in, int width) const {
  if (width <= 8) return in.byte() & ((1u << width) - 1);
  const auto v = std::uint64_t(in.signed_varint());
  return width == 64 ? v : v & ((std::uint64_t(1) << width) - 1);
}

void EntryTexts::add_integer_of(ByteReader& in, std::string_view type, Elision elision) {
  const int width = integer_width(type);
  if (width == 0) in.fail("an integer of type " + std::string(type) + " is not supported");
  const std::uint64_t v = bits(in, width);
  if (type == "i1") {
    add(v != 0 ? "true" : "false");
    return;
  }
  if (type[0] == 'u') {
    out_ += std::to_string(v);
  } else {
    add_integer(sign_extended(v, width));
  }
  if (elision == Elision::may && type == "i64") return;
  add(" : ");
  add(type);
}

void EntryTexts::add_float_of(ByteReader& in, std::string_view type, Elision elision) {
  const int width = float_width(type);
  if (width == 0) in.fail("a number of type " + std::string(type) + " is not supported");
  const std::uint64_t pattern = bits(in, width);
  const std::optional<DType> dtype = dtype_from_mlir(type);
  std::string written;
  if (dtype) {
    Literal value(Shape(*dtype, {}));
    std::memcpy(value.mutable_bytes(), &pattern, byte_size(*dtype));
    const double v = to_vector<double>(value).at(0);
    if (std::isfinite(v)) {
      written = scientific_text(v, 6);
      if (!(Literal::scalar(*dtype, read_double(written.c_str(), nullptr)) == value)) {
        written = all_digits(v, *dtype == DType::f64 ? 17 : *dtype == DType::f32 ? 9 : 5);
      }
    }
  }
  if (written.empty()) {
    char digits[20];
    char* end = std::to_chars(digits, digits + sizeof digits, pattern, 16).ptr;
    std::transform(digits, end, digits, [](char c) { return c >= 'a' ? char(c - 32) : c; });
    written = "0x" + std::string(digits, std::size_t(end - digits));
  }
  add(written);
  if (elision == Elision::may && type == "f64") return;
  add(" : ");
  add(type);
}

void EntryTexts::add_double(ByteReader& in) {
  const std::uint64_t pattern = bits(in, 64);
  double v = 0;
  std::memcpy(&v, &pattern, 8);
  char text[40];
  const char* end = std::to_chars(text, text + sizeof text, v).ptr;
  out_.append(text, std::size_t(end - text));
}

TensorText::TensorText(std::string_view type) {
  constexpr std::size_t kMost = std::size_t(1) << 40;
  if (const std::size_t open = type.find('<'); open != std::string_view::npos) {
    type.remove_prefix(open + 1);
  }
  while (!type.empty() && is_decimal(type[0])) {
    std::int64_t size = 0;
    const char* stop = std::from_chars(type.data(), type.data() + type.size(), size).ptr;
    dims.push_back(size);
    count = size <= 0 ? 0 : std::min(kMost, count) * std::min(kMost, std::size_t(size));
    count = std::min(count, kMost);
    type.remove_prefix(std::min(type.size(), std::size_t(stop - type.data()) + 1));
  }
  element = type.substr(0, type.find_first_of(",>"));
}

bool is_truth_splat(std::string_view bytes, std::size_t count) {
  if (bytes.size() != 1 || count == 1) return false;
  return bytes[0] == '\xff' || count > 8;
}

bool truth_at(std::string_view bytes, std::size_t count, std::size_t i) {
  if (count == 1) return bytes[0] != 0;
  if (is_truth_splat(bytes, count)) return bytes[0] != 0;
  if (bytes.size() == count) return bytes[i] != 0;
  return ((static_cast<unsigned char>(bytes[i / 8]) >> (i % 8)) & 1) != 0;
}

void EntryTexts::add_dense(std::size_t n, std::string_view type, std::string_view bytes) {
  if (!add_small_dense(type, bytes)) {
    add("dense_resource<\"");
    add_integer(std::int64_t(n));
    add("\">");
  }
  add(" : ");
  add(type);
}

// A few integers, as attributes hold them: MLIR's text, nothing of it if they are others.
bool EntryTexts::add_small_dense(std::string_view type, std::string_view bytes) {
  const TensorText tensor(type);
  const int width = integer_width(tensor.element);
  const bool truth = tensor.element == "i1";
  if (width == 0 || tensor.count > kMostWritten || tensor.dims.size() > 16) return false;
  if (tensor.count == 0) {
    add("dense<>");
    return true;
  }
  const auto size = std::size_t(width + 7) / 8;
  const bool splat =
      truth ? is_truth_splat(bytes, tensor.count) : bytes.size() == size && tensor.count != 1;
  const std::size_t whole = truth ? (tensor.count + 7) / 8 : size * tensor.count;
  if (!splat && bytes.size() != whole && !(truth && bytes.size() == tensor.count)) return false;
  const auto element = [&](std::size_t i) {
    if (truth) {
      add(truth_at(bytes, tensor.count, i) ? "true" : "false");
      return;
    }
    std::uint64_t v = 0;
    std::memcpy(&v, bytes.data() + (splat ? 0 : i * size), size);
    if (width < 64) v &= (std::uint64_t(1) << width) - 1;
    if (tensor.element[0] == 'u') {
      out_ += std::to_string(v);
    } else {
      add_integer(sign_extended(v, width));
    }
  };
  add("dense<");
  if (splat || tensor.dims.empty()) {
    element(0);
  } else {
    // A list opens and closes where the elements of its dims begin and end.
    for (std::size_t i = 0; i < tensor.count; ++i) {
      if (i > 0) add(", ");
      std::size_t inside = 1;
      std::size_t opened = 0;
      for (std::size_t d = tensor.dims.size(); d-- > 0;) {
        inside *= std::size_t(tensor.dims[d]);
        if (i % inside == 0) ++opened;
      }
      out_.append(opened, '[');
      element(i);
      inside = 1;
      std::size_t closed = 0;
      for (std::size_t d = tensor.dims.size(); d-- > 0;) {
        inside *= std::size_t(tensor.dims[d]);
        if ((i + 1) % inside == 0) ++closed;
      }
      out_.append(closed, ']');
    }
  }
  add(">");
  return true;
}

// array<i64: 1, 2>
void EntryTexts::add_array(ByteReader& in) {
  const std::string type = type_text(in);
  const std::uint64_t count = in.varint();
  const std::string_view bytes = in.blob();
  add("array<");
  add(type);
  const int width = integer_width(type);
  const auto size = std::size_t(width + 7) / 8;
  if (width == 0) {
    add(": ...");  // floats: nothing reads them
  } else if (count > bytes.size() || bytes.size() != count * size) {
    in.fail("an array of " + std::to_string(count) + " " + type + " in " +
            std::to_string(bytes.size()) + " bytes: the file is damaged");
  }
  for (std::size_t i = 0; width != 0 && i < count; ++i) {
    add(i == 0 ? ": " : ", ");
    std::uint64_t v = 0;
    std::memcpy(&v, bytes.data() + i * size, size);
    if (type == "i1") {
      add(v != 0 ? "true" : "false");
    } else {
      add_integer(sign_extended(v, width));
    }
  }
  add(">");
}

}  // namespace tessera::text
