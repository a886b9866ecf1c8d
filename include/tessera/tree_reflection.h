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

/// Number of fields of an aggregate; 0 if there are none or more than 24.
template <class T, std::size_t N = 24>
constexpr std::size_t field_count() {
  if constexpr (N == 0) {
    return 0;
  } else if constexpr (brace_constructible<T>(std::make_index_sequence<N>{})) {
    return N;
  } else {
    return field_count<T, N - 1>();
  }
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
#define TESSERA_FE_1(M, a) M(a)
#define TESSERA_FE_2(M, a, ...) M(a), TESSERA_FE_1(M, __VA_ARGS__)
#define TESSERA_FE_3(M, a, ...) M(a), TESSERA_FE_2(M, __VA_ARGS__)
#define TESSERA_FE_4(M, a, ...) M(a), TESSERA_FE_3(M, __VA_ARGS__)
#define TESSERA_FE_5(M, a, ...) M(a), TESSERA_FE_4(M, __VA_ARGS__)
#define TESSERA_FE_6(M, a, ...) M(a), TESSERA_FE_5(M, __VA_ARGS__)
#define TESSERA_FE_7(M, a, ...) M(a), TESSERA_FE_6(M, __VA_ARGS__)
#define TESSERA_FE_8(M, a, ...) M(a), TESSERA_FE_7(M, __VA_ARGS__)
#define TESSERA_FE_9(M, a, ...) M(a), TESSERA_FE_8(M, __VA_ARGS__)
#define TESSERA_FE_10(M, a, ...) M(a), TESSERA_FE_9(M, __VA_ARGS__)
#define TESSERA_FE_11(M, a, ...) M(a), TESSERA_FE_10(M, __VA_ARGS__)
#define TESSERA_FE_12(M, a, ...) M(a), TESSERA_FE_11(M, __VA_ARGS__)
#define TESSERA_FE_13(M, a, ...) M(a), TESSERA_FE_12(M, __VA_ARGS__)
#define TESSERA_FE_14(M, a, ...) M(a), TESSERA_FE_13(M, __VA_ARGS__)
#define TESSERA_FE_15(M, a, ...) M(a), TESSERA_FE_14(M, __VA_ARGS__)
#define TESSERA_FE_16(M, a, ...) M(a), TESSERA_FE_15(M, __VA_ARGS__)
#define TESSERA_FE_17(M, a, ...) M(a), TESSERA_FE_16(M, __VA_ARGS__)
#define TESSERA_FE_18(M, a, ...) M(a), TESSERA_FE_17(M, __VA_ARGS__)
#define TESSERA_FE_19(M, a, ...) M(a), TESSERA_FE_18(M, __VA_ARGS__)
#define TESSERA_FE_20(M, a, ...) M(a), TESSERA_FE_19(M, __VA_ARGS__)
#define TESSERA_FE_21(M, a, ...) M(a), TESSERA_FE_20(M, __VA_ARGS__)
#define TESSERA_FE_22(M, a, ...) M(a), TESSERA_FE_21(M, __VA_ARGS__)
#define TESSERA_FE_23(M, a, ...) M(a), TESSERA_FE_22(M, __VA_ARGS__)
#define TESSERA_FE_24(M, a, ...) M(a), TESSERA_FE_23(M, __VA_ARGS__)
#define TESSERA_FE_PICK(a1,a2,a3,a4,a5,a6,a7,a8,a9,a10,a11,a12,a13,a14,a15,a16,a17,a18,a19,a20,a21,a22,a23,a24, NAME, ...) NAME
#define TESSERA_FE(M, ...) \
  TESSERA_FE_PICK(__VA_ARGS__, TESSERA_FE_24,TESSERA_FE_23,TESSERA_FE_22,TESSERA_FE_21,TESSERA_FE_20,TESSERA_FE_19,TESSERA_FE_18,TESSERA_FE_17,TESSERA_FE_16,TESSERA_FE_15,TESSERA_FE_14,TESSERA_FE_13,TESSERA_FE_12,TESSERA_FE_11,TESSERA_FE_10,TESSERA_FE_9,TESSERA_FE_8,TESSERA_FE_7,TESSERA_FE_6,TESSERA_FE_5,TESSERA_FE_4,TESSERA_FE_3,TESSERA_FE_2,TESSERA_FE_1)(M, __VA_ARGS__)
#define TESSERA_FE_VIEW(a) std::string_view(#a)
#define TESSERA_FE_MEMBER(a) tessera_tree_value_.a
// clang-format on

/// Names the fields of a struct in messages and for `dict`, and makes a struct that isn't an
/// aggregate a tree. Write it after the struct, in the same namespace; at most 24 fields.
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
