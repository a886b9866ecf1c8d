// SPDX-License-Identifier: Apache-2.0
// Functions with derivatives of their own, some of whose arguments are no arrays to differentiate.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <tessera/custom/custom_batching.h>
#include <tessera/custom_derivative.h>

namespace tessera {

/// Type of `nondiff_argnums`.
template <int... I>
struct NondiffArgnums {
  /// Whether position k is one of them.
  static constexpr bool contains(int k) { return ((k == I) || ...); }
};
/// Positions of parameters that `custom_jvp`, `custom_vjp` and `custom_vmap` hand to rules as they
/// are: of any type, functions and numbers among them.
/// @code
/// auto f = custom_vjp([](std::function<Array(Array)> g, Array x) { return g(x); },
///                     nondiff_argnums<0>);
/// @endcode
template <int... I>
inline constexpr NondiffArgnums<I...> nondiff_argnums{};

namespace internal {

/// The positions below N that are, or aren't, among those.
template <class Nondiff, bool wanted, std::size_t... I>
constexpr auto split_positions(std::index_sequence<I...>) {
  constexpr std::size_t count = (std::size_t(Nondiff::contains(int(I)) == wanted) + ... + 0);
  std::array<std::size_t, count> out{};
  std::size_t next = 0;
  ((Nondiff::contains(int(I)) == wanted ? void(out[next++] = I) : void()), ...);
  return out;
}

/// A function of those of F's arguments that are differentiated, the others being held.
template <class F, class Nondiff>
class WithoutNondiff {
  using All = typename args_of<F>::type;
  static constexpr std::size_t kCount = std::tuple_size_v<All>;
  static constexpr auto kFixed = split_positions<Nondiff, true>(std::make_index_sequence<kCount>{});
  static constexpr auto kFree = split_positions<Nondiff, false>(std::make_index_sequence<kCount>{});

  template <const auto& positions, std::size_t... K>
  static auto pick_types(std::index_sequence<K...>)
      -> std::tuple<std::tuple_element_t<positions[K], All>...>;
  template <const auto& positions>
  using picked = decltype(pick_types<positions>(std::make_index_sequence<positions.size()>{}));

  template <class Args>
  struct bound;
  template <class... A>
  struct bound<std::tuple<A...>> {
    std::shared_ptr<F> f;
    picked<kFixed> fixed;

    auto operator()(A... free) const {
      return call(std::tuple<A&...>(free...), std::make_index_sequence<kCount>{});
    }

   private:
    template <std::size_t P, class Free>
    decltype(auto) at(Free& free) const {
      constexpr auto before = [](const auto& positions) {
        std::size_t n = 0;
        for (const std::size_t p : positions) n += int(p) < int(P) ? 1 : 0;
        return n;
      };
      if constexpr (Nondiff::contains(int(P))) {
        return std::get<before(kFixed)>(fixed);
      } else {
        return std::get<before(kFree)>(free);
      }
    }
    template <class Free, std::size_t... P>
    auto call(Free free, std::index_sequence<P...>) const {
      return std::invoke(*f, at<P>(free)...);
    }
  };

 public:
  using Fixed = picked<kFixed>;
  using Free = picked<kFree>;
  using type = bound<Free>;

  template <class Args, std::size_t... K>
  static Fixed fixed_of(const Args& args, std::index_sequence<K...>) {
    return Fixed{std::get<kFixed[K]>(args)...};
  }
  template <class Args, class Then, std::size_t... K>
  static auto with_free(const Args& args, Then&& then, std::index_sequence<K...>) {
    return then(std::get<kFree[K]>(args)...);
  }
  static Fixed fixed_of(const All& args) {
    return fixed_of(args, std::make_index_sequence<kFixed.size()>{});
  }
  template <class Then>
  static auto with_free(const All& args, Then&& then) {
    return with_free(args, std::forward<Then>(then), std::make_index_sequence<kFree.size()>{});
  }
};

/// A function whose rule is that of `Custom` for its other arguments, once some are known.
template <template <class> class Custom, class F, class Nondiff>
class CustomWithNondiff : public Calls<CustomWithNondiff<Custom, F, Nondiff>, F> {
 protected:
  using Split = WithoutNondiff<F, Nondiff>;
  using Fixed = typename Split::Fixed;
  using Bound = typename Split::type;

 public:
  /// The wrapped function's type.
  using wrapped_function = F;

  /// For internal use.
  CustomWithNondiff(F f, std::string name, Location location)
      : f_(std::make_shared<F>(std::move(f))), name_(std::move(name)), location_(location) {}

  /// Calls the function; messages name `location`.
  template <class... Given>
  auto call_at(Location location, Given&&... given) const {
    if (!location.known()) location = location_;
    const typename args_of<F>::type args{std::forward<Given>(given)...};
    const Fixed fixed = Split::fixed_of(args);
    Custom<Bound> custom(Bound{f_, fixed}, name_, location);
    if (!define_) no_rule(Custom<Bound>::kMade, Custom<Bound>::kDefinition, location);
    define_(custom, fixed);
    return Split::with_free(args,
                            [&](const auto&... free) { return custom.call_at(location, free...); });
  }

 protected:
  std::function<void(Custom<Bound>&, const Fixed&)> define_;

 private:
  std::shared_ptr<F> f_;
  std::string name_;
  Location location_;
};

}  // namespace internal

/// A custom_jvp function some of whose arguments aren't differentiated.
template <class F, class Nondiff>
class CustomJvpWithNondiff : public internal::CustomWithNondiff<CustomJvp, F, Nondiff> {
  using Base = internal::CustomWithNondiff<CustomJvp, F, Nondiff>;

 public:
  using Base::Base;

  /// As CustomJvp::def_jvp, with the arguments that aren't differentiated before the tuples of
  /// primals and tangents of the others: `rule(nondiff..., primals, tangents)`.
  template <class Rule, class... Zeros>
  CustomJvpWithNondiff& def_jvp(Rule rule, Zeros... zeros) {
    this->define_ = [rule = std::make_shared<Rule>(std::move(rule)), zeros...](
                        auto& custom, const typename Base::Fixed& fixed) {
      custom.def_jvp(
          [rule, fixed](const auto& primals, const auto& tangents) {
            return std::apply(
                [&](const auto&... n) { return std::invoke(*rule, n..., primals, tangents); },
                fixed);
          },
          zeros...);
    };
    return *this;
  }
};

/// A custom_vjp function some of whose arguments aren't differentiated.
template <class F, class Nondiff>
class CustomVjpWithNondiff : public internal::CustomWithNondiff<CustomVjp, F, Nondiff> {
  using Base = internal::CustomWithNondiff<CustomVjp, F, Nondiff>;

 public:
  using Base::Base;

  /// As CustomVjp::def_vjp: `forward` takes all arguments, `backward(nondiff..., residuals,
  /// cotangent)` gives the cotangents of those that are differentiated.
  template <class Forward, class Backward, class... Zeros>
  CustomVjpWithNondiff& def_vjp(Forward forward, Backward backward, Zeros... zeros) {
    using Forwards = internal::WithoutNondiff<Forward, Nondiff>;
    this->define_ = [forward = std::make_shared<Forward>(std::move(forward)),
                     backward = std::make_shared<Backward>(std::move(backward)),
                     zeros...](auto& custom, const typename Base::Fixed& fixed) {
      custom.def_vjp(
          typename Forwards::type{forward, fixed},
          [backward, fixed](const auto& residuals, const auto& cotangent) {
            return std::apply(
                [&](const auto&... n) {
                  return std::invoke(*backward, n..., residuals, cotangent);
                },
                fixed);
          },
          zeros...);
    };
    return *this;
  }
};

/// A custom_vmap function some of whose arguments are no arrays.
template <class F, class Nondiff>
class CustomVmapWithNondiff : public internal::CustomWithNondiff<CustomVmap, F, Nondiff> {
  using Base = internal::CustomWithNondiff<CustomVmap, F, Nondiff>;

 public:
  using Base::Base;

  /// As CustomVmap::def_vmap, with the arguments that are no arrays first: `rule(nondiff..., batch,
  /// arguments...)`.
  template <class Rule>
  CustomVmapWithNondiff& def_vmap(Rule rule) {
    this->define_ = [rule = std::make_shared<Rule>(std::move(rule))](
                        auto& custom, const typename Base::Fixed& fixed) {
      custom.def_vmap([rule, fixed](const BatchInfo& batch, const auto&... args) {
        return std::apply(
            [&](const auto&... n) { return std::invoke(*rule, n..., batch, args...); }, fixed);
      });
    };
    return *this;
  }
};

/// `custom_jvp` of a function some of whose arguments aren't differentiated (`nondiff_argnums` of
/// jax.custom_jvp).
template <class F, int... I>
auto custom_jvp(F f, NondiffArgnums<I...>, std::string name = "custom_jvp",
                Location location = Location::current()) {
  static_assert(internal::KnownSignature<F>,
                "tessera: custom_jvp needs a function whose parameters have stated types");
  return CustomJvpWithNondiff<std::decay_t<F>, NondiffArgnums<I...>>(std::move(f), std::move(name),
                                                                     location);
}
/// `custom_vjp` of a function some of whose arguments aren't differentiated (`nondiff_argnums` of
/// jax.custom_vjp).
template <class F, int... I>
auto custom_vjp(F f, NondiffArgnums<I...>, std::string name = "custom_vjp",
                Location location = Location::current()) {
  static_assert(internal::KnownSignature<F>,
                "tessera: custom_vjp needs a function whose parameters have stated types");
  return CustomVjpWithNondiff<std::decay_t<F>, NondiffArgnums<I...>>(std::move(f), std::move(name),
                                                                     location);
}
/// `custom_vmap` of a function some of whose arguments are no arrays.
template <class F, int... I>
auto custom_vmap(F f, NondiffArgnums<I...>, std::string name = "custom_vmap",
                 Location location = Location::current()) {
  static_assert(internal::KnownSignature<F>,
                "tessera: custom_vmap needs a function whose parameters have stated types");
  return CustomVmapWithNondiff<std::decay_t<F>, NondiffArgnums<I...>>(std::move(f), std::move(name),
                                                                      location);
}

}  // namespace tessera
