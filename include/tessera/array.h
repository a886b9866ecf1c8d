// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <complex>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <tessera/dtype.h>
#include <tessera/error.h>
#include <tessera/sharding.h>

namespace tessera {

class Array;
struct Shard;

namespace internal {
class ArrayImpl;

template <class T>
struct dtype_of;
#define TESSERA_DTYPE_OF(T, D)               \
  template <>                                \
  struct dtype_of<T> {                       \
    static constexpr DType value = DType::D; \
  };
TESSERA_DTYPE_OF(bool, pred)
TESSERA_DTYPE_OF(std::int8_t, s8)
TESSERA_DTYPE_OF(std::int16_t, s16)
TESSERA_DTYPE_OF(std::int32_t, s32)
TESSERA_DTYPE_OF(std::int64_t, s64)
TESSERA_DTYPE_OF(long long, s64)
TESSERA_DTYPE_OF(std::uint8_t, u8)
TESSERA_DTYPE_OF(std::uint16_t, u16)
TESSERA_DTYPE_OF(std::uint32_t, u32)
TESSERA_DTYPE_OF(std::uint64_t, u64)
TESSERA_DTYPE_OF(unsigned long long, u64)
TESSERA_DTYPE_OF(float, f32)
TESSERA_DTYPE_OF(double, f64)
TESSERA_DTYPE_OF(std::complex<float>, c64)
TESSERA_DTYPE_OF(std::complex<double>, c128)
#undef TESSERA_DTYPE_OF
}  // namespace internal

/// A C++ type whose values can be elements of an array.
template <class T>
concept ElementType = requires {
  internal::dtype_of<std::remove_cv_t<T>>::value;
};
/// A C++ type that turns into a weakly typed scalar array.
template <class T>
concept ScalarLike = std::is_arithmetic_v<T> || std::is_same_v<T, std::complex<float>> ||
    std::is_same_v<T, std::complex<double>>;

/// An N-d array on one or more devices, or, while a function is traced, a stand-in for one.
///
/// A handle: copies share the same immutable value. Plain C++ scalars convert to weakly typed
/// scalar arrays (s32, f32, c64, or the other operand's type in arithmetic).
class Array {
 public:
  using Dims = std::vector<std::int64_t>;

  /// No array: only good to be assigned to.
  Array() = default;
  /// A weakly typed scalar: bool is pred, integers s32 (s64 if the value needs it), floats f32,
  /// complex c64.
  template <ScalarLike T>
  Array(T value);  // NOLINT: implicit by design

  bool valid() const { return impl_ != nullptr; }
  const Dims& shape(Location location = Location::current()) const;
  /// Size of one dimension; negative counts from the end. ValueError if out of range.
  std::int64_t shape(std::int64_t dim, Location location = Location::current()) const;
  std::int64_t ndim(Location location = Location::current()) const {
    return std::int64_t(shape(location).size());
  }
  /// Number of elements.
  std::int64_t size(Location location = Location::current()) const;
  DType dtype(Location location = Location::current()) const;
  /// True for plain scalars and what is computed from them alone.
  bool weak_type() const;
  /// True while a function is traced: there is no value to read.
  bool is_tracer() const;

  /// Where the array lies. TracerError for a traced array.
  Sharding sharding(Location location = Location::current()) const;
  /// False for arrays made without saying where: they follow the others.
  bool committed() const;
  std::set<Device> devices() const { return sharding().device_set(); }
  bool is_fully_replicated() const { return sharding().is_fully_replicated(); }
  bool is_fully_addressable() const { return sharding().is_fully_addressable(); }
  /// The parts held by this process, in device order.
  std::vector<Shard> addressable_shards(Location location = Location::current()) const;
  /// The i-th part as an array on its device.
  Array addressable_data(std::size_t i, Location location = Location::current()) const;
  /// Bytes of all parts.
  std::int64_t on_device_size_in_bytes() const;

  /// All elements, row-major, gathered from the devices. T must be the dtype's C++ type (bool for
  /// pred, float for f16 and bf16), else TypeError. TracerError while tracing; RuntimeError if
  /// deleted or donated.
  template <ElementType T>
  std::vector<T> to_vector(Location location = Location::current()) const;
  /// The one element of an array of size 1, converted to T.
  template <ElementType T>
  T item(Location location = Location::current()) const;

  /// Gives the memory back. Further use is a RuntimeError; a second call does nothing.
  void delete_(Location location = Location::current());
  bool is_deleted(Location location = Location::current()) const;
  /// Another dtype: see astype in ops.
  Array astype(DType dtype, Location location = Location::current()) const;
  /// A name for messages: "f32[8,16]".
  std::string type_string() const;

  const std::shared_ptr<internal::ArrayImpl>& impl() const { return impl_; }
  explicit Array(std::shared_ptr<internal::ArrayImpl> impl) : impl_(std::move(impl)) {}

 private:
  void read(DType dtype, void* out, Location location) const;
  void read_item(DType dtype, void* out, Location location) const;
  static Array weak_bool(bool);
  static Array weak_int(std::int64_t);
  static Array weak_uint(std::uint64_t);
  static Array weak_float(double);
  static Array weak_complex(std::complex<double>);

  std::shared_ptr<internal::ArrayImpl> impl_;
};

/// One device's part of an array.
struct Shard {
  Device device;
  Index index;
  std::int64_t replica_id = 0;
  Array data;
};

/// An argument of an operation together with the place in the user's code where it was passed.
/// Converts from arrays and scalars; functions that take it count as taking `Array`.
struct Operand {
  Array array;
  Location location;

  Operand(const Array& a, Location l = Location::current())  // NOLINT: implicit by design
      : array(a), location(l) {}
  template <ScalarLike T>
  Operand(T value, Location l = Location::current())  // NOLINT: implicit by design
      : array(value), location(l) {}
};

/// Prints values (shortened), or type and sharding where there are none to print.
std::ostream& operator<<(std::ostream&, const Array&);
std::string to_string(const Array&);

/// Shape, dtype and (optionally) sharding without data, for `lower` (jax.ShapeDtypeStruct).
Array shape_dtype_struct(std::vector<std::int64_t> shape, DType dtype,
                         const Sharding& sharding = {}, Location location = Location::current());

template <ScalarLike T>
Array::Array(T v) {
  if constexpr (std::is_same_v<T, bool>) {
    *this = weak_bool(v);
  } else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    *this = weak_int(v);
  } else if constexpr (std::is_integral_v<T>) {
    *this = weak_uint(v);
  } else if constexpr (std::is_floating_point_v<T>) {
    *this = weak_float(double(v));
  } else {
    *this = weak_complex(std::complex<double>(v));
  }
}

template <ElementType T>
std::vector<T> Array::to_vector(Location location) const {
  constexpr DType want = internal::dtype_of<T>::value;
  const auto count = static_cast<std::size_t>(size(location));
  if constexpr (std::is_same_v<T, bool>) {
    std::unique_ptr<bool[]> values(new bool[count]);
    read(want, values.get(), location);
    return std::vector<bool>(values.get(), values.get() + count);
  } else {
    std::vector<T> values(count);
    read(want, values.data(), location);
    return values;
  }
}

template <ElementType T>
T Array::item(Location location) const {
  T value{};
  read_item(internal::dtype_of<T>::value, &value, location);
  return value;
}

}  // namespace tessera
