// SPDX-License-Identifier: Apache-2.0
// Literal: a constant value on the host, an array or a tuple, and dispatch on its dtype.
#pragma once

#include <complex>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/base/arrays/float_types.h"
#include "src/base/arrays/shape.h"
#include "src/base/check.h"

namespace tessera {

/// A value on the host: row-major elements, or a tuple of literals. Copies share their bytes; the
/// first write to a shared literal copies them.
class Literal {
 public:
  Literal() : Literal(Shape(DType::f32, {0})) {}
  /// A literal of zeros.
  explicit Literal(Shape shape);
  /// An array with a copy of these bytes, in row-major order.
  Literal(Shape shape, std::span<const std::byte> bytes);
  static Literal tuple(std::vector<Literal> elements);
  template <class T>
  static Literal scalar(DType dtype, T value);  // defined in literal_util.h

  const Shape& shape() const { return shape_; }
  DType dtype() const { return shape_.dtype; }
  const Dims& dims() const { return shape_.dims; }
  bool is_tuple() const { return shape_.is_tuple; }
  const std::vector<Literal>& elements() const { return elements_; }
  std::vector<Literal>& mutable_elements() { return elements_; }

  std::size_t byte_count() const { return byte_count_; }
  std::int64_t element_count() const { return count_; }
  const std::byte* bytes() const { return data_.get(); }
  /// For writing: copies the bytes first if they are shared.
  std::byte* mutable_bytes();

  /// T must be the storage type of the dtype (see TypeTag below).
  template <class T>
  std::span<const T> data() const {
    TESSERA_CHECK(sizeof(T) == byte_size(shape_.dtype), "literal read with a wrong type");
    return {reinterpret_cast<const T*>(data_.get()), std::size_t(count_)};
  }
  template <class T>
  std::span<T> mutable_data() {
    TESSERA_CHECK(sizeof(T) == byte_size(shape_.dtype), "literal written with a wrong type");
    return {reinterpret_cast<T*>(mutable_bytes()), std::size_t(count_)};
  }

  /// The same elements with other dims; their product must be the same.
  Literal reshaped(Dims dims) const;
  /// Bitwise equality of shape and bytes.
  friend bool operator==(const Literal& a, const Literal& b);

 private:
  Shape shape_;
  std::int64_t count_ = 0;
  std::size_t byte_count_ = 0;
  std::shared_ptr<std::byte[]> data_;
  std::vector<Literal> elements_;
};

template <class T>
struct TypeTag {
  using type = T;
};

/// Calls f(TypeTag<T>) with the storage type of a dtype: bool-like pred is std::uint8_t tagged by
/// struct Pred; s1..s4 are std::int8_t, u1..u4 std::uint8_t.
struct Pred {
  std::uint8_t value = 0;
  Pred() = default;
  explicit Pred(bool b) : value(b) {}
  explicit operator bool() const { return value != 0; }
};

template <class F>
decltype(auto) dispatch_dtype(DType t, F&& f) {
  switch (t) {
    case DType::pred:
      return f(TypeTag<Pred>{});
    case DType::s1:
    case DType::s2:
    case DType::s4:
    case DType::s8:
      return f(TypeTag<std::int8_t>{});
    case DType::s16:
      return f(TypeTag<std::int16_t>{});
    case DType::s32:
      return f(TypeTag<std::int32_t>{});
    case DType::s64:
      return f(TypeTag<std::int64_t>{});
    case DType::u1:
    case DType::u2:
    case DType::u4:
    case DType::u8:
      return f(TypeTag<std::uint8_t>{});
    case DType::u16:
      return f(TypeTag<std::uint16_t>{});
    case DType::u32:
      return f(TypeTag<std::uint32_t>{});
    case DType::u64:
      return f(TypeTag<std::uint64_t>{});
    case DType::f16:
      return f(TypeTag<Half>{});
    case DType::bf16:
      return f(TypeTag<BFloat16>{});
    case DType::f32:
      return f(TypeTag<float>{});
    case DType::f64:
      return f(TypeTag<double>{});
    case DType::c64:
      return f(TypeTag<std::complex<float>>{});
    case DType::c128:
      return f(TypeTag<std::complex<double>>{});
    default:
      throw NotImplementedError("element type " + std::string(name(t)) +
                                " has no kernels in this version");
  }
}

/// An array whose elements all have the same bits, of which there is at least one.
bool is_splat(const Literal& array);

}  // namespace tessera
