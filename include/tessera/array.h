// SPDX-License-Identifier: Apache-2.0
// Arrays.
#pragma once

#include <complex>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <tessera/detail/axes.h>
#include <tessera/dtype.h>
#include <tessera/error.h>
#include <tessera/sharding.h>
#include <tessera/sharding/format.h>

namespace tessera {

class Array;
class IndexedArray;
class IndexItem;
class Subscript;
struct Operand;
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

/// C++ types of elements: bool, 8- to 64-bit integers, float, double, and std::complex of these
/// two.
template <class T>
concept ElementType = requires {
  internal::dtype_of<std::remove_cv_t<T>>::value;
};
/// C++ types that convert to scalar arrays: arithmetic types and std::complex of float and double.
template <class T>
concept ScalarLike = std::is_arithmetic_v<T> || std::is_same_v<T, std::complex<float>> ||
    std::is_same_v<T, std::complex<double>>;

/// An N-dimensional array on one or more devices (jax.Array) or, while a function is traced, a
/// tracer that stands for one.
///
/// An array is a handle: copies share one immutable value. Plain C++ scalars convert to weakly
/// typed scalar arrays, which adopt the dtype of the other operand in arithmetic and are s32, f32
/// or c64 otherwise.
/// @code
/// Array x = ones({8, 16});
/// Array y = x * 2 + 1;                              // f32[8,16]
/// std::vector<float> values = y.to_vector<float>();
/// @endcode
///
/// @throws ValueError from all members but `valid`, `is_tracer` and `type_string` if the array is
///   empty (default constructed and never assigned).
class Array {
 public:
  /// A shape.
  using Dims = std::vector<std::int64_t>;

  /// An empty handle, to be assigned to.
  Array() = default;
  /// A scalar. bool gives pred; integers give a weakly typed s32, floats a weakly typed f32,
  /// complex numbers a weakly typed c64. Integers that don't fit into s32 give an s64 or u64, which
  /// isn't weakly typed.
  template <ScalarLike E>
  Array(E value);  // NOLINT: implicit by design

  /// False if the handle is empty.
  bool valid() const { return impl_ != nullptr; }
  /// Global shape.
  const Dims& shape(Location location = Location::current()) const;
  /// Size of one dimension; negative ones count from the end.
  /// @throws ValueError if `dim` is out of range.
  std::int64_t shape(std::int64_t dim, Location location = Location::current()) const;
  /// Number of dimensions.
  std::int64_t ndim(Location location = Location::current()) const {
    return std::int64_t(shape(location).size());
  }
  /// Number of elements.
  std::int64_t size(Location location = Location::current()) const;
  /// Dtype of the elements.
  DType dtype(Location location = Location::current()) const;
  /// True for plain scalars and results whose dtype comes from them: they adopt other operands'
  /// dtypes.
  bool weak_type() const;
  /// True for a tracer, which has no value to read.
  bool is_tracer() const;

  /// How the array is laid out on devices.
  /// @throws TracerError for a tracer.
  Sharding sharding(Location location = Location::current()) const;
  /// The layout that the array was given, row-major if none, and its sharding (jax.Array.format).
  /// @throws TracerError for a tracer.
  Format format(Location location = Location::current()) const;
  /// True if the array was placed explicitly, by `device_put` or as a result of a program on
  /// committed arrays. Uncommitted arrays move to the devices of committed ones they are used with.
  bool committed() const;
  /// The device of an array that is on one (jax.Array.device).
  /// @throws ValueError if it is on several: see `sharding` and `devices`.
  /// @throws TracerError for a tracer.
  Device device(Location location = Location::current()) const;
  /// The devices that hold parts of the array.
  /// @throws TracerError for a tracer.
  std::set<Device> devices() const { return sharding().device_set(); }
  /// True if every one of its devices holds the entire array.
  /// @throws TracerError for a tracer.
  bool is_fully_replicated() const { return sharding().is_fully_replicated(); }
  /// True if all its devices belong to this process.
  /// @throws TracerError for a tracer.
  bool is_fully_addressable() const { return sharding().is_fully_addressable(); }
  /// The parts on devices of this process, in the sharding's order of devices. No data is copied.
  /// @throws TracerError for a tracer, RuntimeError if the array has been deleted.
  std::vector<Shard> addressable_shards(Location location = Location::current()) const;
  /// The data of `addressable_shards()[i]`.
  /// @throws ValueError if there is no such part.
  Array addressable_data(std::size_t i, Location location = Location::current()) const;
  /// Number of bytes of all parts on all devices, copies included.
  std::int64_t on_device_size_in_bytes() const;

  /// Returns all elements in row-major order, gathered from the devices.
  /// @tparam E  The C++ type of the dtype: bool for pred, float also for f16 and bf16.
  /// @throws TypeError if E is another type, or the array is a shape_dtype_struct.
  /// @throws TracerError for a tracer.
  /// @throws RuntimeError if the array has been deleted or donated.
  template <ElementType E>
  std::vector<E> to_vector(Location location = Location::current()) const;
  /// Returns the element of an array of size 1, converted to E as by `astype`.
  /// @throws ValueError if the size isn't 1.
  /// @throws TypeError if the array is complex and E is real, or it is a shape_dtype_struct.
  /// @throws TracerError for a tracer.
  /// @throws RuntimeError if the array has been deleted or donated.
  template <ElementType E>
  E item(Location location = Location::current()) const;

  /// Deletes the value of all copies of this handle and releases its memory. Reading it afterwards
  /// is a RuntimeError. Does nothing for tracers and deleted arrays.
  void delete_(Location location = Location::current());
  /// True if the array has been deleted or donated.
  bool is_deleted(Location location = Location::current()) const;
  /// True if the elements are there, or what should have made them failed: reading them won't wait
  /// (jax.Array.is_ready). Always true for virtual devices, whose programs have run when their
  /// calls return.
  /// @throws TracerError for a tracer.
  /// @throws RuntimeError if the array has been deleted or donated.
  bool is_ready(Location location = Location::current()) const;
  /// Waits until the elements are there, and returns the array (jax.Array.block_until_ready).
  /// @throws Error what the program that should have made them threw.
  /// @throws TracerError for a tracer.
  /// @throws RuntimeError if the array has been deleted or donated.
  const Array& block_until_ready(Location location = Location::current()) const;
  /// Converts to another dtype; same as the function `astype`.
  Array astype(DType dtype, Location location = Location::current()) const;

  /// @name numpy's methods
  /// Each is the function of its name: see there.
  /// @{
  /// Some of the elements: `x[0]`, `x[{slice(0, 8), 3, ellipsis}]`; see `index`.
  Array operator[](const Subscript& index) const;
  /// Elements to be changed or read: `x.at({0}).set(1)`; see the function `at`.
  IndexedArray at(std::vector<IndexItem> items, Location location = Location::current()) const;
  /// See the function `reshape`.
  Array reshape(Dims shape, Location location = Location::current()) const;
  /// The dimensions in reverse order.
  Array T(Location location = Location::current()) const;
  /// The dimensions in this order; without one, reversed.
  Array transpose(Dims perm = {}, Location location = Location::current()) const;
  /// See the function `swapaxes`.
  Array swapaxes(std::int64_t a, std::int64_t b, Location location = Location::current()) const;
  /// See the function `flatten`.
  Array flatten(Location location = Location::current()) const;
  /// See the function `ravel`.
  Array ravel(Location location = Location::current()) const;
  /// See the function `squeeze`.
  Array squeeze(const Axes& axes = {}, Location location = Location::current()) const;
  /// See the function `sum`.
  Array sum(const Axes& axes = {}, bool keepdims = false,
            Location location = Location::current()) const;
  /// See the function `prod`.
  Array prod(const Axes& axes = {}, bool keepdims = false,
             Location location = Location::current()) const;
  /// See the function `mean`.
  Array mean(const Axes& axes = {}, bool keepdims = false,
             Location location = Location::current()) const;
  /// See the function `var`.
  Array var(const Axes& axes = {}, bool keepdims = false,
            Location location = Location::current()) const;
  /// numpy's std.
  Array stddev(const Axes& axes = {}, bool keepdims = false,
               Location location = Location::current()) const;
  /// See the function `max`.
  Array max(const Axes& axes = {}, bool keepdims = false,
            Location location = Location::current()) const;
  /// See the function `min`.
  Array min(const Axes& axes = {}, bool keepdims = false,
            Location location = Location::current()) const;
  /// See the function `any`.
  Array any(const Axes& axes = {}, bool keepdims = false,
            Location location = Location::current()) const;
  /// See the function `all`.
  Array all(const Axes& axes = {}, bool keepdims = false,
            Location location = Location::current()) const;
  /// See the function `argmax`.
  Array argmax(std::optional<std::int64_t> axis = {}, bool keepdims = false,
               Location location = Location::current()) const;
  /// See the function `argmin`.
  Array argmin(std::optional<std::int64_t> axis = {}, bool keepdims = false,
               Location location = Location::current()) const;
  /// See the function `cumsum`.
  Array cumsum(std::optional<std::int64_t> axis = {},
               Location location = Location::current()) const;
  /// See the function `cumprod`.
  Array cumprod(std::optional<std::int64_t> axis = {},
                Location location = Location::current()) const;
  /// See the function `dot`.
  Array dot(const Operand& other) const;
  /// See the function `clip`.
  Array clip(const Operand& lower, const Operand& upper) const;
  /// See the function `round`.
  Array round(int decimals = 0, Location location = Location::current()) const;
  /// See the function `conj`.
  Array conj(Location location = Location::current()) const;
  /// See the function `repeat`.
  Array repeat(std::int64_t count, std::optional<std::int64_t> axis = {},
               Location location = Location::current()) const;
  /// The elements in order along an axis, the last one by default.
  Array sort(std::optional<std::int64_t> axis = -1, Location location = Location::current()) const;
  /// See the function `argsort`.
  Array argsort(std::optional<std::int64_t> axis = -1,
                Location location = Location::current()) const;
  /// See the function `take`.
  Array take(const Operand& indices, std::optional<std::int64_t> axis = {}) const;
  /// An array of its own with the same elements.
  Array copy(Location location = Location::current()) const;
  /// Bytes of all elements.
  std::int64_t nbytes(Location location = Location::current()) const;
  /// @}
  /// Returns dtype and shape, for example "f32[8,16]".
  std::string type_string() const;

  /// The representation; for internal use.
  const std::shared_ptr<internal::ArrayImpl>& impl() const { return impl_; }
  /// For internal use.
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
  /// The device.
  Device device;
  /// Which part of the array it is.
  Index index;
  /// Which copy of the part this is, counted from 0 in the order of the devices.
  std::int64_t replica_id = 0;
  /// The part, as an array on the device.
  Array data;
};

/// An argument of an operation and the line that passed it. Converts implicitly from arrays and
/// plain scalars. To `jit` and the like a parameter of type Operand counts as an Array.
struct Operand {
  /// The array.
  Array array;
  /// The line of the call.
  Location location;

  /// An array.
  Operand(const Array& a, Location l = Location::current())  // NOLINT: implicit by design
      : array(a), location(l) {}
  /// A plain scalar.
  template <ScalarLike T>
  Operand(T value, Location l = Location::current())  // NOLINT: implicit by design
      : array(value), location(l) {}
};

/// How arrays are printed (numpy.set_printoptions).
struct PrintOptions {
  /// Digits of floats: at most so many behind the point. Empty: as many as tell apart the values.
  std::optional<int> precision{};
  /// Arrays of more elements are abridged; empty: dimensions of more than 2 * edgeitems + 2.
  std::optional<std::int64_t> threshold{};
  /// Elements at the beginning and end of each dimension of abridged arrays.
  std::int64_t edgeitems = 3;
  /// No exponents: small numbers print as 0.
  bool suppress_small = false;
};
/// Prints arrays this way on this thread until the scope ends (numpy.printoptions).
/// @code
/// const PrintScope scope({.precision = 3, .threshold = 1000});
/// std::cout << x << "\n";
/// @endcode
class PrintScope {
 public:
  /// Begins the scope.
  /// @throws ValueError if a number is negative.
  explicit PrintScope(const PrintOptions& options, Location location = Location::current());
  /// Ends it.
  ~PrintScope();
  PrintScope(const PrintScope&) = delete;
  PrintScope& operator=(const PrintScope&) = delete;

 private:
  PrintOptions before_;
};
/// Those in scope on this thread.
PrintOptions print_options();
/// Prints the values, abridged for large arrays, or a description of an array without values, for
/// example "Tracer(f32[8])".
std::ostream& operator<<(std::ostream&, const Array&);
/// Returns what `operator<<` prints.
std::string to_string(const Array&);

/// Returns a description of an array, without data, to be passed to `lower` (jax.ShapeDtypeStruct).
/// @code
/// auto lowered = jit(f).lower(shape_dtype_struct({8, 16}, f32, NamedSharding(mesh, P("x"))));
/// @endcode
/// @throws ShardingError if the sharding doesn't fit the shape.
Array shape_dtype_struct(std::vector<std::int64_t> shape, DType dtype,
                         const Sharding& sharding = {}, Location location = Location::current());

template <ScalarLike E>
Array::Array(E v) {
  if constexpr (std::is_same_v<E, bool>) {
    *this = weak_bool(v);
  } else if constexpr (std::is_integral_v<E> && std::is_signed_v<E>) {
    *this = weak_int(v);
  } else if constexpr (std::is_integral_v<E>) {
    *this = weak_uint(v);
  } else if constexpr (std::is_floating_point_v<E>) {
    *this = weak_float(double(v));
  } else {
    *this = weak_complex(std::complex<double>(v));
  }
}

template <ElementType E>
std::vector<E> Array::to_vector(Location location) const {
  constexpr DType want = internal::dtype_of<E>::value;
  const auto count = static_cast<std::size_t>(size(location));
  if constexpr (std::is_same_v<E, bool>) {
    std::unique_ptr<bool[]> values(new bool[count]);
    read(want, values.get(), location);
    return std::vector<bool>(values.get(), values.get() + count);
  } else {
    std::vector<E> values(count);
    read(want, values.data(), location);
    return values;
  }
}

template <ElementType E>
E Array::item(Location location) const {
  E value{};
  read_item(internal::dtype_of<E>::value, &value, location);
  return value;
}

}  // namespace tessera
