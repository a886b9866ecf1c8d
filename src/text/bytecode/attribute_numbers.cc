// SPDX-License-Identifier: Apache-2.0
// Encodes numbers, constants and types.
#include <algorithm>
#include <charconv>
#include <cstring>

#include "src/base/files/plain_numbers.h"
#include "src/text/bytecode/attributes.h"
#include "src/text/bytecode/codes.h"
#include "src/text/read/types.h"
#include "src/text/write/text.h"

namespace tessera::text {

using A = VhloAttribute;

namespace {

/// Bits that an integer of less than a byte has.
unsigned used_bits(DType t) {
  switch (t) {
    case DType::s2:
    case DType::u2:
      return 3;
    case DType::s4:
    case DType::u4:
      return 15;
    default:
      return 255;
  }
}

/// As MLIR stores elements: truth values are bits, equal elements stand once.
std::string stored(DType t, const std::byte* p, std::size_t count) {
  const std::size_t width = byte_size(t);
  const std::size_t size = width * count;
  const auto* bytes = reinterpret_cast<const char*>(p);
  const bool splat = count > 1 && std::memcmp(bytes, bytes + width, size - width) == 0;
  if (t == DType::pred) {
    if (splat) return std::string(1, *bytes != 0 ? '\xff' : '\0');
    std::string out((count + 7) / 8, '\0');
    std::size_t n = 0;
    for (; n + 8 <= count; n += 8) {
      // Eight bytes that become one or zero; then a bit of each comes to the highest byte.
      std::uint64_t v = 0;
      std::memcpy(&v, bytes + n, 8);
      v = ((((v & 0x7f7f7f7f7f7f7f7fu) + 0x7f7f7f7f7f7f7f7fu) | v) >> 7) & 0x0101010101010101u;
      out[n / 8] = char(v * 0x0102040810204080u >> 56);
    }
    for (; n < count; ++n) {
      if (bytes[n] != 0) out[n / 8] = char(out[n / 8] | 1 << (n % 8));
    }
    return out;
  }
  std::string out(bytes, splat ? width : size);
  if (const unsigned mask = used_bits(t); mask != 255) {
    for (char& c : out) c = char(static_cast<unsigned char>(c) & mask);
  }
  return out;
}

/// The bytes of a number; false if it isn't one of that type.
bool append_number(DType t, std::string_view text, std::string* out) {
  if (is_floating(t) && !text.starts_with("0x")) {
    const Literal v = Literal::scalar(t, read_double(std::string(text).c_str(), nullptr));
    out->append(reinterpret_cast<const char*>(v.bytes()), v.byte_count());
    return true;
  }
  if (t == DType::pred) {
    *out += text == "true" || text == "1" ? '\1' : '\0';
    return true;
  }
  if (is_complex(t)) return false;
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const bool hexadecimal = text.starts_with("0x");
  if (hexadecimal) text.remove_prefix(2);
  std::uint64_t v = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, v, hexadecimal ? 16 : 10);
  if (error != std::errc() || stop != end) return false;
  if (negative) v = 0 - v;
  out->append(reinterpret_cast<const char*>(&v), byte_size(t));
  return true;
}

DType element_dtype(Cursor& in, std::string_view type) {
  if (type == "index") return DType::s64;
  const std::optional<DType> t = dtype_from_mlir(type);
  if (!t) in.fail("numbers of type " + std::string(type) + " have no form in bytecode here");
  return *t;
}

std::string_view number_text(Cursor& in) {
  const char* start = in.position();
  const char* p = start;
  const auto part = [](char c) { return is_id_char(c) || c == '+'; };
  while (p < in.end() && part(*p)) ++p;
  if (p == start) in.fail("expected a number");
  in.seek(p);
  return {start, std::size_t(p - start)};
}

}  // namespace

std::uint32_t AttributeEncoder::number(Cursor& in) {
  const std::string_view text = number_text(in);
  std::string type = "i64";
  if (text.find_first_of(".eE") != std::string_view::npos && !text.starts_with("0x")) type = "f64";
  if (in.accept(':')) type = in.value();
  const DType t = element_dtype(in, type);
  std::string bytes;
  if (!append_number(t, text, &bytes)) in.fail("expected a number of type " + type);
  std::uint64_t bits = 0;
  std::memcpy(&bits, bytes.data(), bytes.size());
  ByteWriter out;
  out.varint(is_floating(t) ? A::kFloat : A::kInteger);
  out.varint(vhlo_type(type));
  if (bytes.size() == 1) {
    out.byte(std::uint8_t(bits & used_bits(t)));
  } else {
    // The zigzag of all its bits.
    const int unused = 64 - 8 * int(bytes.size());
    out.signed_varint(std::int64_t(bits << unused) >> unused);
  }
  return add(out);
}

std::uint32_t AttributeEncoder::tensor(const Dims& dims, std::string_view element,
                                       std::string bytes) {
  std::string type = "tensor<";
  for (std::int64_t d : dims) type += std::to_string(d) + "x";
  ByteWriter out;
  out.varint(A::kTensor);
  out.varint(vhlo_type(type + std::string(element) + ">"));
  out.blob(bytes);
  return add(out);
}

// vhlo has tensors for lists of numbers.
std::uint32_t AttributeEncoder::numbers(Cursor& in) {
  const std::string_view type = in.word("a type");
  const DType t = element_dtype(in, type);
  std::string bytes;
  if (!in.accept('>')) {
    in.expect(':', "behind the type of an array");
    in.items('>', "behind an array", [&] {
      in.skip();
      if (!append_number(t, number_text(in), &bytes)) in.fail("expected a number");
    });
  }
  const std::size_t count = bytes.size() / byte_size(t);
  return tensor({std::int64_t(count)}, type,
                stored(t, reinterpret_cast<const std::byte*>(bytes.data()), count));
}

std::uint32_t AttributeEncoder::dims(const Dims& dims) {
  std::string text;
  append_i64_array(text, dims);
  return vhlo(text);
}

// dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>
std::uint32_t AttributeEncoder::dense(Cursor& in) {
  std::vector<std::string_view> items;
  std::string_view digits;
  if (in.peek() == '"') {
    digits = in.raw_string("hexadecimal digits");
  } else {
    while (in.peek() != '>') {
      if (in.accept('[') || in.accept(']') || in.accept(',')) continue;
      items.push_back(number_text(in));
    }
  }
  in.expect('>', "behind the elements");
  in.expect(':', "before the type of the elements");
  const char* start = in.position();
  in.expect_text("tensor<", "in the type of elements");
  Dims dims;
  in.skip();
  std::size_t count = 1;
  while (is_decimal(in.peek())) {
    dims.push_back(in.integer("a size"));
    count *= std::size_t(dims.back());
    in.expect('x', "behind a size");
  }
  const std::string_view element = in.word("the type of the elements");
  in.expect('>', "behind the type of elements");
  const DType t = element_dtype(in, element);
  std::string bytes;
  if (digits.starts_with("0x")) {
    for (std::size_t n = 2; n + 1 < digits.size(); n += 2) {
      unsigned v = 0;
      std::from_chars(digits.data() + n, digits.data() + n + 2, v, 16);
      bytes += char(v);
    }
  }
  for (std::string_view item : items) {
    if (!append_number(t, item, &bytes)) in.fail_at(start, "these elements have no form here");
  }
  const std::size_t width = byte_size(t);
  const std::size_t given = bytes.size() / width;
  if (given == count) {
    bytes = stored(t, reinterpret_cast<const std::byte*>(bytes.data()), count);
  } else if (given != 1) {
    in.fail_at(start, std::to_string(given) + " elements of " + std::to_string(count));
  } else if (t == DType::pred) {
    bytes[0] = bytes[0] != 0 ? '\xff' : '\0';
  }
  return tensor(dims, element, std::move(bytes));
}

std::uint32_t AttributeEncoder::constant(const Literal& value) {
  ByteWriter out;
  out.varint(A::kTensor);
  out.varint(vhlo_type(value.shape()));
  out.blob(stored(value.dtype(), value.bytes(), std::size_t(value.element_count())));
  return add(out);
}

std::uint32_t AttributeEncoder::vhlo_type(const Shape& shape) {
  std::string text;
  append_type(text, shape);
  return vhlo_type(text);
}

std::uint32_t AttributeEncoder::vhlo_type(std::string_view text) {
  const auto it = known_types_.find(text);
  if (it != known_types_.end()) return it->second;
  Cursor in(text, "<type>");
  const std::uint32_t number = parsed_type(in);
  if (!in.at_end()) in.fail("expected the end of the type");
  known_types_.emplace(std::string(text), number);
  return number;
}

std::uint32_t AttributeEncoder::parsed_type(Cursor& in) {
  ByteWriter out;
  const char* start = in.position();
  if (in.accept_text("tensor<")) {
    Dims dims;
    while (is_decimal(in.peek())) {
      dims.push_back(in.integer("a size"));
      in.expect('x', "behind a size");
    }
    const std::uint32_t element = parsed_type(in);
    in.expect('>', "behind a type");
    out.varint(VhloType::kRankedTensor);
    out.varint(dims.size());
    for (std::int64_t d : dims) out.signed_varint(d);
    out.varint(element);
  } else if (in.accept_text("complex<")) {
    const std::uint32_t element = parsed_type(in);
    in.expect('>', "behind a type");
    out.varint(VhloType::kComplex);
    out.varint(element);
  } else {
    std::string name = in.accept('!') ? "!" : "";
    name += in.word_or_empty();
    const auto* const end = std::end(kSimpleTypes);
    const auto* const found = std::find(std::begin(kSimpleTypes), end, name);
    if (found == end || name.empty()) in.fail_at(start, "this has no form in vhlo");
    out.varint(std::uint64_t(found - std::begin(kSimpleTypes)));
  }
  return tables_.type("vhlo", out);
}

std::uint32_t AttributeEncoder::vhlo_function_type(const std::vector<const Shape*>& arguments,
                                                   const std::vector<const Shape*>& results) {
  ByteWriter type, out;
  type.varint(VhloType::kFunction);
  for (const auto* list : {&arguments, &results}) {
    type.varint(list->size());
    for (const Shape* s : *list) type.varint(vhlo_type(*s));
  }
  out.varint(A::kType);
  out.varint(tables_.type("vhlo", type));
  return add(out);
}

std::uint32_t AttributeEncoder::native_type(const Shape& shape) {
  std::string text;
  append_type(text, shape);
  return tables_.type_text(text[0] == '!' ? "stablehlo" : "builtin", text);
}

}  // namespace tessera::text
