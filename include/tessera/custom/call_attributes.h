// SPDX-License-Identifier: Apache-2.0
// Attributes of custom calls.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <tessera/dtype.h>
#include <tessera/error.h>

namespace tessera {

class CallAttributes;

/// The value of an attribute of a custom call and its type, as in the text `76 : ui8`, `true`,
/// `1.0 : f32`, `"L"`, `array<i64: 1, 2>`, `{a = 1 : i32}`.
class CallAttribute {
 public:
  /// The C++ types of values.
  using Value = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                             std::vector<double>, std::map<std::string, CallAttribute>>;

  /// A number: bool is pred, integers are s32, s64, u8 etc. by their C++ type, float is f32 and
  /// double f64.
  template <class T>
  requires std::is_arithmetic_v<T> CallAttribute(T v)  // NOLINT: implicit by design
      : CallAttribute(number(type_of<T>(), Number<T>(v))) {}
  /// A string.
  CallAttribute(const char* text);  // NOLINT: implicit by design
  /// A string.
  CallAttribute(std::string text);  // NOLINT: implicit by design
  /// A list of integers, `array<i64: ...>`.
  CallAttribute(std::vector<std::int64_t> values);  // NOLINT: implicit by design
  /// A list of floats, `array<f64: ...>`.
  CallAttribute(std::vector<double> values);  // NOLINT: implicit by design
  /// A dictionary.
  CallAttribute(std::map<std::string, CallAttribute> entries);  // NOLINT: implicit by design
  /// A value with an explicit type.
  CallAttribute(DType type, Value v);
  /// Copies, moves and destructors are compiled in the library.
  CallAttribute(const CallAttribute&);
  /// Moves.
  CallAttribute(CallAttribute&&) noexcept;
  /// Copies.
  CallAttribute& operator=(const CallAttribute&);
  /// Moves.
  CallAttribute& operator=(CallAttribute&&) noexcept;
  /// Destroys the value.
  ~CallAttribute();

  /// Dtype of the number or of the list's elements; token for strings and dictionaries.
  DType dtype;
  /// The value.
  Value value;

  /// Returns the attribute as in HLO text.
  std::string to_string() const;
  /// True if types and values are equal.
  friend bool operator==(const CallAttribute& a, const CallAttribute& b);

 private:
  template <class T>
  using Number =
      std::conditional_t<std::is_same_v<T, bool>, bool,
                         std::conditional_t<std::is_integral_v<T>, std::int64_t, double>>;
  static CallAttribute number(DType type, bool v);
  static CallAttribute number(DType type, std::int64_t v);
  static CallAttribute number(DType type, double v);
  template <class T>
  static constexpr DType type_of() {
    if constexpr (std::is_same_v<T, bool>) return DType::pred;
    if constexpr (std::is_same_v<T, float>) return DType::f32;
    if constexpr (std::is_floating_point_v<T>) return DType::f64;
    constexpr bool is_signed = std::is_signed_v<T>;
    switch (sizeof(T)) {
      case 1:
        return is_signed ? DType::s8 : DType::u8;
      case 2:
        return is_signed ? DType::s16 : DType::u16;
      case 4:
        return is_signed ? DType::s32 : DType::u32;
      default:
        return is_signed ? DType::s64 : DType::u64;
    }
  }
};

/// The attributes of a custom call by name: what JAX passes to `ffi_call` as keywords, and HLO text
/// prints as `backend_config={uplo = 76 : ui8}`.
/// @code
/// CallAttributes attributes{{"power", 2.0f}, {"name", "L"}};
/// float power = attributes.get<float>("power");
/// @endcode
class CallAttributes {
 public:
  /// Attributes by name.
  using Entries = std::map<std::string, CallAttribute>;

  /// No attributes.
  CallAttributes();
  /// Attributes with these names and values.
  CallAttributes(std::initializer_list<std::pair<const std::string, CallAttribute>> entries);
  /// Attributes with these names and values.
  explicit CallAttributes(Entries entries);
  /// Copies, moves and destructors are compiled in the library.
  CallAttributes(const CallAttributes&);
  /// Moves.
  CallAttributes(CallAttributes&&) noexcept;
  /// Copies.
  CallAttributes& operator=(const CallAttributes&);
  /// Moves.
  CallAttributes& operator=(CallAttributes&&) noexcept;
  /// Destroys the attributes.
  ~CallAttributes();
  /// Parses HLO text: a dictionary. Any other text is kept as an opaque string, as custom calls of
  /// older interfaces have it.
  /// @throws ParseError, with the character, for a malformed dictionary.
  static CallAttributes parse(std::string_view text, Location location = {});

  /// True if there is an attribute of that name.
  bool has(const std::string& name) const;
  /// All attributes.
  const Entries& entries() const { return entries_; }
  /// The string that custom calls of older interfaces carry in place of attributes.
  const std::string& opaque() const { return opaque_; }

  /// Returns the value as T: bool, any integer type, float, double, std::string, or a std::vector
  /// of std::int64_t or double.
  /// @throws ValueError if there is no such attribute, or its value is of another kind or doesn't
  /// fit into
  ///   T.
  template <class T>
  T get(const std::string& name, Location location = Location::current()) const {
    const CallAttribute& a = find(name, location);
    if constexpr (std::is_same_v<T, bool>) {
      if (const bool* b = std::get_if<bool>(&a.value)) return *b;
    } else if constexpr (std::is_integral_v<T>) {
      const auto* v = std::get_if<std::int64_t>(&a.value);
      if (v && std::int64_t(T(*v)) == *v) return T(*v);
    } else if constexpr (std::is_floating_point_v<T>) {
      if (const double* v = std::get_if<double>(&a.value)) return T(*v);
    } else {
      if (const T* v = std::get_if<T>(&a.value)) return *v;
    }
    wrong_type(name, a, location);
  }
  /// Returns the value as T, or `fallback` if there is no such attribute.
  /// @throws ValueError if the attribute is of another kind or doesn't fit into T.
  template <class T>
  T get_or(const std::string& name, T fallback, Location location = Location::current()) const {
    return has(name) ? get<T>(name, location) : fallback;
  }

  /// Returns the attributes as in HLO text, sorted by name: `{low = 1 : i32, uplo = 76 : ui8}`.
  std::string to_string() const;
  /// True if names and values are equal.
  friend bool operator==(const CallAttributes&, const CallAttributes&);

 private:
  const CallAttribute& find(const std::string& name, Location location) const;
  [[noreturn]] void wrong_type(const std::string& name, const CallAttribute& a,
                               Location location) const;

  Entries entries_;
  std::string opaque_;
};

}  // namespace tessera
