// SPDX-License-Identifier: Apache-2.0
// The fields of plain structs, for trees of arrays.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace tessera::internal {

struct AnyField {
  template <class T>
  constexpr operator T&() const& noexcept;
  template <class T>
  constexpr operator T&&() const&& noexcept;
};

template <class T, std::size_t... I>
constexpr bool brace_constructible(std::index_sequence<I...>) {
  return requires { T{(void(I), AnyField{})...}; };
}

/// Converts to the base classes of T only.
template <class T>
struct BaseField {
  template <class U>
  requires(std::is_base_of_v<U, T> && !std::is_same_v<U, T>) constexpr operator U() const noexcept;
};
/// Whether an aggregate has a base class: it would take the first initializer.
template <class T>
constexpr bool has_base_class() {
  return requires { T{BaseField<T>{}}; };
}

/// Whether T{any, ..., {any, ...}, any, ...} is valid.
template <class T, std::size_t... I, std::size_t... J, std::size_t... K>
constexpr bool nested_constructible(std::index_sequence<I...>, std::index_sequence<J...>,
                                    std::index_sequence<K...>) {
  return requires {
    T{(void(I), AnyField{})..., {(void(J), AnyField{})...}, (void(K), AnyField{})...};
  };
}
template <class T, std::size_t Before, std::size_t Within, std::size_t After>
inline constexpr bool takes_nested = nested_constructible<T>(std::make_index_sequence<Before>{},
                                                             std::make_index_sequence<Within>{},
                                                             std::make_index_sequence<After>{});

/// Fields of automatic trees; TESSERA_TREE takes more.
inline constexpr std::size_t kMaxFields = 24;

/// Number of initializers of an aggregate without inner braces; an array takes one per element.
template <class T, std::size_t N = kMaxFields + 1>
constexpr std::size_t initializer_count() {
  if constexpr (N == 0) {
    return 0;
  } else if constexpr (brace_constructible<T>(std::make_index_sequence<N>{})) {
    return N;
  } else {
    return initializer_count<T, N - 1>();
  }
}
/// Number of elements of the array that takes the initializers from P on, of N; 1 for other fields.
template <class T, std::size_t N, std::size_t P, std::size_t Size>
constexpr std::size_t elements_at() {
  if constexpr (Size < 2) {
    return 1;
  } else if constexpr (takes_nested<T, P, Size, N - P - Size> &&
                       !takes_nested<T, P, Size, N - P - Size + 1>) {
    return Size;
  } else {
    return elements_at<T, N, P, Size - 1>();
  }
}
template <class T, std::size_t N, std::size_t P = 0>
constexpr std::size_t count_fields() {
  if constexpr (P >= N) {
    return 0;
  } else if constexpr (takes_nested<T, P, 0, N - P - 1> || takes_nested<T, P, 1, N - P - 1>) {
    return 1 + count_fields<T, N, P + 1>();
  } else {
    return 1 + count_fields<T, N, P + elements_at<T, N, P, N - P>()>();
  }
}
/// Number of fields of an aggregate without base classes, if `initializer_count` is at most
/// kMaxFields.
template <class T>
constexpr std::size_t field_count() {
  return count_fields<T, initializer_count<T>()>();
}

/// References to the fields of an aggregate, as a tuple.
template <class T>
auto tie_fields(T& value) {
  constexpr std::size_t count = field_count<std::remove_const_t<T>>();
  if constexpr (count == 0) {
    (void)value;
    return std::tuple<>{};
  } else if constexpr (count == 1) {
    auto& [f0] = value;
    return std::tie(f0);
  } else if constexpr (count == 2) {
    auto& [f0, f1] = value;
    return std::tie(f0, f1);
  } else if constexpr (count == 3) {
    auto& [f0, f1, f2] = value;
    return std::tie(f0, f1, f2);
  } else if constexpr (count == 4) {
    auto& [f0, f1, f2, f3] = value;
    return std::tie(f0, f1, f2, f3);
  } else if constexpr (count == 5) {
    auto& [f0, f1, f2, f3, f4] = value;
    return std::tie(f0, f1, f2, f3, f4);
  } else if constexpr (count == 6) {
    auto& [f0, f1, f2, f3, f4, f5] = value;
    return std::tie(f0, f1, f2, f3, f4, f5);
  } else if constexpr (count == 7) {
    auto& [f0, f1, f2, f3, f4, f5, f6] = value;
    return std::tie(f0, f1, f2, f3, f4, f5, f6);
  } else if constexpr (count == 8) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7] = value;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7);
  } else if constexpr (count == 9) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8] = value;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8);
  } else if constexpr (count == 10) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9] = value;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9);
  } else if constexpr (count == 11) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10] = value;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10);
  } else if constexpr (count == 12) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11] = value;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11);
  } else if constexpr (count == 13) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12] = value;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12);
  } else if constexpr (count == 14) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13] = value;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13);
  } else if constexpr (count == 15) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14] = value;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14);
  } else if constexpr (count == 16) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15] = value;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15);
  } else if constexpr (count == 17) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16] = value;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16);
  } else if constexpr (count == 18) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17] = value;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17);
  } else if constexpr (count == 19) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18] =
        value;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                    f18);
  } else if constexpr (count == 20) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18,
           f19] = value;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                    f18, f19);
  } else if constexpr (count == 21) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
           f20] = value;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                    f18, f19, f20);
  } else if constexpr (count == 22) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
           f20, f21] = value;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                    f18, f19, f20, f21);
  } else if constexpr (count == 23) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
           f20, f21, f22] = value;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                    f18, f19, f20, f21, f22);
  } else if constexpr (count == 24) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
           f20, f21, f22, f23] = value;
    return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                    f18, f19, f20, f21, f22, f23);
  }
}

}  // namespace tessera::internal

// clang-format off
#define TESSERA_FE_PARENS ()
#define TESSERA_FE_AGAIN() TESSERA_FE_ONE
#define TESSERA_FE_ONE(M, a, ...) M(a) __VA_OPT__(, TESSERA_FE_AGAIN TESSERA_FE_PARENS (M, __VA_ARGS__))
#define TESSERA_FE_4(...) TESSERA_FE_3(TESSERA_FE_3(TESSERA_FE_3(TESSERA_FE_3(__VA_ARGS__))))
#define TESSERA_FE_3(...) TESSERA_FE_2(TESSERA_FE_2(TESSERA_FE_2(TESSERA_FE_2(__VA_ARGS__))))
#define TESSERA_FE_2(...) TESSERA_FE_1(TESSERA_FE_1(TESSERA_FE_1(TESSERA_FE_1(__VA_ARGS__))))
#define TESSERA_FE_1(...) __VA_ARGS__
#define TESSERA_FE(M, ...) TESSERA_FE_4(TESSERA_FE_ONE(M, __VA_ARGS__))
#define TESSERA_FE_VIEW(a) std::string_view(#a)
#define TESSERA_FE_MEMBER(a) tessera_tree_value_.a
// clang-format on

/// Lets TESSERA_TREE name private fields. Write it in the class, with the name of the class.
/// @code
/// class Params {
///   TESSERA_TREE_FRIEND(Params);
///   Array w1, w2;
/// };
/// TESSERA_TREE(Params, w1, w2)
/// @endcode
#define TESSERA_TREE_FRIEND(Type) friend auto tessera_tree_tie(Type&)

/// Names the fields of a struct in messages and for `dict`, and makes a struct that isn't an
/// aggregate, has a base class or more than 24 fields, a tree. Write it after the struct, in the
/// same namespace; fields of base classes may be named too.
/// @code
/// struct Params {
///   Array w1, w2;
/// };
/// TESSERA_TREE(Params, w1, w2)
/// @endcode
#define TESSERA_TREE(Type, ...)                                              \
  [[maybe_unused]] inline auto tessera_tree_tie(Type& tessera_tree_value_) { \
    return std::tie(TESSERA_FE(TESSERA_FE_MEMBER, __VA_ARGS__));             \
  }                                                                          \
  [[maybe_unused]] inline auto tessera_tree_names(const Type*) {             \
    return std::array{TESSERA_FE(TESSERA_FE_VIEW, __VA_ARGS__)};             \
  }
