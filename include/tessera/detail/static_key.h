// SPDX-License-Identifier: Apache-2.0
// Static values: how functions are told apart by arguments that aren't traced.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <tessera/detail/tree_reflection.h>

namespace tessera {

class Array;
struct Operand;

namespace internal {

/// A text that is different for different values, also for 0.0 and -0.0 and for NaNs with different
/// bits.
std::string float_text(float);
std::string float_text(double);
std::string float_text(long double);
std::string string_text(std::string_view);

template <class T>
inline constexpr bool is_array_like = std::is_same_v<std::remove_cvref_t<T>, Array> ||
                                      std::is_same_v<std::remove_cvref_t<T>, Operand>;
template <class T>
inline constexpr bool is_static_like =
    std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, std::string> ||
    std::is_same_v<T, std::string_view> || std::is_same_v<T, const char*>;

/// A text that is different for different values of one type.
template <class T>
std::string static_text(const T& v) {
  if constexpr (std::is_enum_v<T>) {
    return std::to_string(static_cast<long long>(v));
  } else if constexpr (std::is_floating_point_v<T>) {
    return float_text(v);
  } else if constexpr (std::is_arithmetic_v<T>) {
    return std::to_string(v);
  } else if constexpr (std::is_pointer_v<T>) {
    return v == nullptr ? "nullptr" : string_text(v);
  } else {
    return string_text(v);
  }
}

/// Containers whose values are those of their elements.
template <class T>
struct value_list : std::false_type {};
template <class T, class A>
struct value_list<std::vector<T, A>> : std::true_type {
  using items = std::tuple<T>;
};
template <class T, std::size_t N>
struct value_list<std::array<T, N>> : std::true_type {
  using items = std::tuple<T>;
};
template <class T, std::size_t N>
struct value_list<T[N]> : std::true_type {
  using items = std::tuple<T>;
};
template <class T, class C, class A>
struct value_list<std::set<T, C, A>> : std::true_type {
  using items = std::tuple<T>;
};
template <class K, class T, class C, class A>
struct value_list<std::map<K, T, C, A>> : std::true_type {
  using items = std::tuple<K, T>;
};
template <class T>
struct value_tuple : std::false_type {};
template <class... T>
struct value_tuple<std::tuple<T...>> : std::true_type {
  using items = std::tuple<T...>;
};
template <class A, class B>
struct value_tuple<std::pair<A, B>> : std::true_type {
  using items = std::tuple<A, B>;
};
template <class T>
struct value_optional : std::false_type {};
template <class T>
struct value_optional<std::optional<T>> : std::true_type {
  using items = std::tuple<T>;
};
template <class T>
struct value_variant : std::false_type {};
template <class... T>
struct value_variant<std::variant<T...>> : std::true_type {
  using items = std::tuple<T...>;
};

/// A plain struct whose fields can be found.
template <class T>
constexpr bool is_plain_struct() {
  if constexpr (std::is_class_v<T> && std::is_aggregate_v<T> && !std::is_empty_v<T>) {
    return !has_base_class<T>() && initializer_count<T>() <= kMaxFields;
  } else {
    return false;
  }
}

/// What a static argument's type is.
enum class StaticKind { value, holds_arrays, no_equality };

template <class T, class... Around>
constexpr StaticKind static_kind();
template <class... Around, class... T>
constexpr StaticKind static_kind_of_all(const std::tuple<T...>*) {
  StaticKind out = StaticKind::value;
  for (const StaticKind k :
       {StaticKind::value, static_kind<std::remove_cvref_t<T>, Around...>()...}) {
    if (k == StaticKind::holds_arrays || out == StaticKind::value) out = k;
  }
  return out;
}
/// `Around`: the types that T is a part of. A struct may hold containers of itself.
template <class T, class... Around>
constexpr StaticKind static_kind() {
  if constexpr ((std::is_same_v<T, Around> || ...)) {
    return StaticKind::value;
  } else if constexpr (is_array_like<T>) {
    return StaticKind::holds_arrays;
  } else if constexpr (is_static_like<T> || std::is_empty_v<T>) {
    return StaticKind::value;
  } else if constexpr (value_list<T>::value) {
    return static_kind_of_all<T, Around...>(
        static_cast<const typename value_list<T>::items*>(nullptr));
  } else if constexpr (value_tuple<T>::value) {
    return static_kind_of_all<T, Around...>(
        static_cast<const typename value_tuple<T>::items*>(nullptr));
  } else if constexpr (value_optional<T>::value) {
    return static_kind_of_all<T, Around...>(
        static_cast<const typename value_optional<T>::items*>(nullptr));
  } else if constexpr (value_variant<T>::value) {
    return static_kind_of_all<T, Around...>(
        static_cast<const typename value_variant<T>::items*>(nullptr));
  } else if constexpr (is_plain_struct<T>()) {
    constexpr StaticKind fields = static_kind_of_all<T, Around...>(
        static_cast<const decltype(tie_fields(std::declval<T&>()))*>(nullptr));
    if (fields == StaticKind::holds_arrays) return fields;
    return std::equality_comparable<T> ? StaticKind::value : fields;
  } else {
    return std::equality_comparable<T> && std::copy_constructible<T> ? StaticKind::value
                                                                     : StaticKind::no_equality;
  }
}

template <class T>
concept StdHashable = requires(const T& v) {
  { std::hash<T>()(v) } -> std::convertible_to<std::size_t>;
};

/// See tree.h.
template <class T>
void keep_texts(T& value);

/// Held while the static values that were met are looked through. The same thread may take it
/// again: a type's own hash and operator== may call functions with static arguments.
class StaticValuesLock {
 public:
  StaticValuesLock();
  ~StaticValuesLock();
  StaticValuesLock(const StaticValuesLock&) = delete;
  StaticValuesLock& operator=(const StaticValuesLock&) = delete;
};

/// The number of a value among those of its type that were met before: equal values have equal
/// numbers. They are kept until the process ends.
template <class T>
std::uint64_t number_among_equals(const T& v) {
  const StaticValuesLock lock;
  if constexpr (StdHashable<T>) {
    static auto& known = *new std::unordered_map<T, std::uint64_t>;
    if (const auto found = known.find(v); found != known.end()) return found->second;
    T kept = v;
    keep_texts(kept);
    return known.try_emplace(std::move(kept), known.size()).first->second;
  } else {
    static auto& known = *new std::vector<T>;
    for (std::size_t i = 0; i < known.size(); ++i) {
      if (known[i] == v) return i;
    }
    T kept = v;
    keep_texts(kept);
    known.push_back(std::move(kept));
    return known.size() - 1;
  }
}

/// A text that is different for different values of one type, for all types of static arguments. A
/// type's own operator== decides where it has one.
template <class T>
std::string static_key(const T& v) {
  if constexpr (is_static_like<T>) {
    return static_text(v);
  } else if constexpr (std::is_empty_v<T>) {
    return "{}";
  } else if constexpr (value_list<T>::value) {
    std::string out = "[";
    for (const auto& item : v) {
      if constexpr (std::is_same_v<T, std::vector<bool>>) {
        out += item ? "1," : "0,";
      } else {
        out += static_key<std::remove_cvref_t<decltype(item)>>(item) + ",";
      }
    }
    return out + "]";
  } else if constexpr (value_tuple<T>::value) {
    std::string out = "(";
    std::apply(
        [&](const auto&... items) {
          ((out += static_key<std::remove_cvref_t<decltype(items)>>(items) + ","), ...);
        },
        v);
    return out + ")";
  } else if constexpr (value_optional<T>::value) {
    return v ? "?" + static_key<std::remove_cvref_t<decltype(*v)>>(*v) : "none";
  } else if constexpr (value_variant<T>::value) {
    return std::to_string(v.index()) + "|" +
           std::visit(
               [](const auto& item) {
                 return static_key<std::remove_cvref_t<decltype(item)>>(item);
               },
               v);
  } else if constexpr (std::equality_comparable<T>) {
    return "#" + std::to_string(number_among_equals(v));
  } else {
    std::string out = "<";
    std::apply(
        [&](const auto&... items) {
          ((out += static_key<std::remove_cvref_t<decltype(items)>>(items) + ","), ...);
        },
        tie_fields(const_cast<T&>(v)));
    return out + ">";
  }
}

/// Fails with a readable message for types that a static argument can't have.
template <class T>
constexpr void check_static() {
  static_assert(static_kind<T>() != StaticKind::holds_arrays,
                "tessera: a static argument can't hold arrays: those are traced, and have no value "
                "to compare by");
  static_assert(static_kind<T>() != StaticKind::no_equality,
                "tessera: a static argument needs a value to compare by: a number, an enum, a "
                "string, a container or plain struct of these, or any type with operator== (a "
                "lambda that captures has none: write a struct with operator() and operator==)");
}

}  // namespace internal
}  // namespace tessera
