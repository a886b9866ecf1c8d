// SPDX-License-Identifier: Apache-2.0
// Shapes: printing, element counts with overflow checks, flattening of tuples.
#include "src/base/arrays/shape.h"

namespace tessera {

std::string join(std::span<const std::int64_t> values, const char* separator) {
  std::string out;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i) out += separator;
    out += std::to_string(values[i]);
  }
  return out;
}

std::string to_string(std::span<const std::int64_t> dims) { return "[" + join(dims) + "]"; }

std::int64_t checked_multiply(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) {
    throw ValueError("the product of " + std::to_string(a) + " and " + std::to_string(b) +
                     " is too large for a 64-bit count");
  }
  return result;
}

std::int64_t element_count(std::span<const std::int64_t> dims) {
  bool zero = false;
  for (std::int64_t d : dims) {
    if (d < 0) throw ValueError("negative dimension in shape " + to_string(dims));
    zero = zero || d == 0;
  }
  if (zero) return 0;
  std::int64_t n = 1;
  for (std::int64_t d : dims) {
    if (__builtin_mul_overflow(n, d, &n)) {
      throw ValueError("shape " + to_string(dims) + " has more elements than a 64-bit count holds");
    }
  }
  return n;
}

Dims row_major_strides(std::span<const std::int64_t> dims) {
  Dims strides(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) {
    // The strides of an array without elements are never used.
    if (__builtin_mul_overflow(strides[i], dims[i], &strides[i - 1])) strides[i - 1] = 0;
  }
  return strides;
}

Dims byte_strides(std::span<const std::int64_t> dims, std::size_t element_bytes) {
  Dims strides = row_major_strides(dims);
  for (std::int64_t& s : strides) {
    if (__builtin_mul_overflow(s, std::int64_t(element_bytes), &s)) s = 0;
  }
  return strides;
}

bool is_identity_order(std::span<const std::int64_t> order) {
  for (std::size_t d = 0; d < order.size(); ++d) {
    if (order[d] != std::int64_t(d)) return false;
  }
  return true;
}

bool is_row_major(std::span<const std::int64_t> layout) {
  for (std::size_t d = 0; d < layout.size(); ++d) {
    if (layout[d] != std::int64_t(layout.size() - 1 - d)) return false;
  }
  return true;
}

Shape Shape::tuple(std::vector<Shape> parts) {
  Shape s;
  s.is_tuple = true;
  s.elements = std::move(parts);
  return s;
}

std::int64_t Shape::byte_count() const {
  if (!is_tuple) return checked_multiply(element_count(), std::int64_t(byte_size(dtype)));
  std::int64_t total = 0;
  for (const Shape& s : elements) {
    if (__builtin_add_overflow(total, s.byte_count(), &total)) {
      throw ValueError("tuple " + to_string() + " has more bytes than a 64-bit count holds");
    }
  }
  return total;
}

namespace {
std::string print(const Shape& s, bool with_layout) {
  if (s.is_tuple) {
    std::string out = "(";
    for (std::size_t i = 0; i < s.elements.size(); ++i) {
      if (i) out += ", ";
      out += print(s.elements[i], with_layout);
    }
    return out + ")";
  }
  std::string out = std::string(name(s.dtype)) + to_string(s.dims);
  if (with_layout && !s.dims.empty()) {
    Dims order = s.layout;
    if (order.empty()) {
      for (std::int64_t i = s.rank(); i-- > 0;) order.push_back(i);
    }
    out += "{" + join(order) + "}";
  }
  return out;
}
}  // namespace

std::string Shape::to_string() const { return print(*this, false); }
std::string Shape::to_string_with_layout() const { return print(*this, true); }

bool operator==(const Shape& a, const Shape& b) {
  if (a.is_tuple != b.is_tuple) return false;
  if (a.is_tuple) return a.elements == b.elements;
  return a.dtype == b.dtype && a.dims == b.dims;
}

namespace {
void collect_leaves(const Shape& s, std::vector<Shape>& out) {
  if (!s.is_tuple) {
    out.push_back(s);
    return;
  }
  for (const Shape& e : s.elements) collect_leaves(e, out);
}
}  // namespace

std::vector<Shape> flatten(const Shape& s) {
  std::vector<Shape> out;
  collect_leaves(s, out);
  return out;
}

std::size_t leaf_count(const Shape& shape) {
  if (!shape.is_tuple) return 1;
  std::size_t n = 0;
  for (const Shape& s : shape.elements) n += leaf_count(s);
  return n;
}

}  // namespace tessera
