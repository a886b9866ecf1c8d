// SPDX-License-Identifier: Apache-2.0
// Derivative and batching rules of custom_partitioning functions.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <tessera/custom/custom_batching.h>
#include <tessera/custom/nondiff_arguments.h>
#include <tessera/custom_derivative.h>

namespace tessera::internal {

/// Whether calls are traced now.
bool is_tracing();

template <class Statics>
struct nondiff_of;
template <int... I>
struct nondiff_of<StaticArgnums<I...>> {
  using type = NondiffArgnums<I...>;
};

/// `Custom` of a function F, some of whose arguments may be static.
template <template <class> class Custom, template <class, class> class WithNondiff, class F,
          class Statics>
using custom_with = std::conditional_t<Statics::largest() < 0, Custom<F>,
                                       WithNondiff<F, typename nondiff_of<Statics>::type>>;

/// The rules of a partitioned function R(A...).
template <class Statics, class R, class Args>
class PartitionedRules;
template <class Statics, class R, class... A>
class PartitionedRules<Statics, R, std::tuple<A...>> {
 public:
  /// The function as it is partitioned.
  using Call = std::function<R(Location, const A&...)>;

  template <class Rule, class... Zeros>
  void def_jvp(Rule rule, Zeros... zeros) {
    define<custom_with<CustomJvp, CustomJvpWithNondiff, Plain, Statics>>(
        &derivative_, [rule = std::move(rule), zeros...](auto& f) { f.def_jvp(rule, zeros...); });
  }
  template <class Forward, class Backward, class... Zeros>
  void def_vjp(Forward forward, Backward backward, Zeros... zeros) {
    define<custom_with<CustomVjp, CustomVjpWithNondiff, Plain, Statics>>(
        &derivative_, [forward = std::move(forward), backward = std::move(backward),
                       zeros...](auto& f) { f.def_vjp(forward, backward, zeros...); });
  }
  template <class Rule>
  void def_vmap(Rule rule) {
    define<custom_with<CustomVmap, CustomVmapWithNondiff, Plain, Statics>>(
        &batch_, [rule = std::move(rule)](auto& f) { f.def_vmap(rule); });
  }

  bool any() const { return derivative_ || batch_; }
  /// Calls the function with its rules: derivatives are those of the rule also on a batch.
  R call(const Call& partitioned, const std::string& name, Location location,
         const A&... args) const {
    const Call one =
        batch_ ? Call([&](Location l, const A&... a) { return batch_(partitioned, name, l, a...); })
               : partitioned;
    return derivative_ ? derivative_(one, name, location, args...) : one(location, args...);
  }

 private:
  using Rule = std::function<R(const Call&, const std::string&, Location, const A&...)>;
  /// A call at one place, with known parameters.
  struct Plain {
    Call call;
    Location location;
    R operator()(A... args) const { return call(location, args...); }
  };

  template <class Custom, class Define>
  static void define(Rule* rule, Define set) {
    *rule = [set = std::move(set)](const Call& call, const std::string& name, Location location,
                                   const A&... args) {
      Custom custom(Plain{call, location}, name, location);
      set(custom);
      return custom.call_at(location, args...);
    };
  }

  Rule derivative_, batch_;
};

/// The rules of a generic function: none.
struct NoPartitionedRules {};

template <class F, class Statics>
struct partitioned_rules {
  using type = NoPartitionedRules;
};
template <KnownSignature F, class Statics>
struct partitioned_rules<F, Statics> {
  template <class... A>
  static auto pick(std::tuple<A...>*)
      -> PartitionedRules<Statics, std::remove_cvref_t<std::invoke_result_t<F&, A&...>>,
                          std::tuple<A...>>;
  using type = decltype(pick(static_cast<typename args_of<F>::type*>(nullptr)));
};

}  // namespace tessera::internal
