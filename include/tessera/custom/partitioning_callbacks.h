// SPDX-License-Identifier: Apache-2.0
// The callbacks of custom_partitioning.
#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/custom/per_device_function.h>
#include <tessera/custom/shape_info.h>
#include <tessera/mesh.h>
#include <tessera/sharding.h>
#include <tessera/sharding/sharding_rule.h>
#include <tessera/tree.h>

namespace tessera {

/// The result of a `partition` callback.
struct Partition {
  /// The mesh whose axis names `lower_fn` may use; it must have the program's devices.
  Mesh mesh;
  /// The per-device function. The shapes of its results must be those of the shards.
  PerDeviceFunction lower_fn;
  /// Shardings of the results.
  ShardingList result_shardings;
  /// Shardings that the arguments must have. Arguments and results are resharded where these differ
  /// from the suggestions.
  ShardingList arg_shardings;
  /// What the padding of the arguments holds, one per leaf or a single one for all. The last shards
  /// of a dimension that its axes don't divide evenly are padded, to the shape of the others; the
  /// padding holds any values, except where one is given here. Infinities stand for the lowest and
  /// highest values of integers; the value is cast to the argument's dtype.
  std::vector<std::optional<double>> arg_padding{};
};

/// The result of a `sharding_rule_fn` callback.
struct RuleAndOptions {
  std::string rule;               ///< the rule's text; see ShardingRule
  ShardingRuleOptions options{};  ///< kinds and sizes of its factors
};

namespace internal {

enum class CallbackKind { partition, infer, propagate, rule };

/// The arguments and result of a generic function, whose types aren't known.
struct UnknownTree {};

/// Whether a callback may take the arguments, of these types, as a `P`: as a list, as a tuple, or
/// the only argument itself.
template <class P, class Args>
struct takes_arguments : std::is_same<P, ShapeInfos> {};
template <class P>
struct takes_arguments<P, UnknownTree>
    : std::bool_constant<std::is_same_v<P, ShapeInfos> || std::is_same_v<P, ShapeInfo>> {};
template <class P, class... A>
struct takes_arguments<P, std::tuple<A...>>
    : std::bool_constant<std::is_same_v<P, ShapeInfos> || infos_fit<std::tuple<A...>, P>()> {};
template <class P, class A>
struct takes_arguments<P, std::tuple<A>>
    : std::bool_constant<std::is_same_v<P, ShapeInfos> || infos_fit<std::tuple<A>, P>() ||
                         infos_fit<A, P>()> {};
template <class P, class R>
struct takes_result : std::bool_constant<std::is_same_v<P, ShapeInfos> || infos_fit<R, P>()> {};
template <class P>
struct takes_result<P, UnknownTree> : takes_arguments<P, UnknownTree> {};

/// The infos in the form that a callback takes. `like`: the tree that they are of; null if it isn't
/// known.
template <class P, class Tree>
P infos_as(const ShapeInfos& flat, const Tree* like, const std::string& name, Location location) {
  if constexpr (std::is_same_v<P, ShapeInfos>) {
    return flat;
  } else if constexpr (std::is_same_v<P, ShapeInfo>) {
    if (flat.size() == 1) return flat[0];
    throw TypeError("a callback of '" + name + "' takes one ShapeInfo, and there are " +
                        std::to_string(flat.size()) + ": take ShapeInfos, the list of all",
                    location);
  } else {
    if (like == nullptr) {
      throw TypeError("a callback of '" + name +
                          "' takes a tree, whose structure is that of a call: it can't be called "
                          "with a list",
                      location);
    }
    Tree tree = *like;
    P out{};
    ShapeInfos::const_iterator next = flat.begin();
    if constexpr (infos_fit<Tree, P>()) {
      fill_infos(tree, out, next);
    } else {
      fill_infos(std::get<0>(tree), out, next);
    }
    return out;
  }
}

/// What is wrong with a callback.
enum class CallbackProblem { none, number, statics, mesh, arguments, results, generic, returned };

template <CallbackKind kind>
struct returned_by {
  using type = ShardingList;
};
template <>
struct returned_by<CallbackKind::partition> {
  using type = Partition;
};
template <>
struct returned_by<CallbackKind::rule> {
  using type = RuleAndOptions;
};

template <CallbackKind kind, class Returned>
constexpr bool callback_returns() {
  return std::is_convertible_v<Returned, typename returned_by<kind>::type> ||
         (kind == CallbackKind::rule && std::is_convertible_v<Returned, std::string>);
}

template <CallbackKind kind, class Fn, class Statics, class Args, class R>
struct callback_check;
template <CallbackKind kind, class Fn, class... S, class Args, class R>
struct callback_check<kind, Fn, std::tuple<S...>, Args, R> {
  static constexpr bool with_arguments = kind != CallbackKind::propagate;

  template <class... P>
  using Given = std::tuple<P...>;

  template <class... P, std::size_t... I>
  static constexpr CallbackProblem of_parameters(const std::tuple<P...>*,
                                                 std::index_sequence<I...>) {
    constexpr std::size_t mesh = sizeof...(S);
    if constexpr (sizeof...(P) != mesh + 2 + with_arguments) {
      return CallbackProblem::number;
    } else if constexpr (!(std::is_convertible_v<const std::tuple_element_t<I, std::tuple<S...>>&,
                                                 std::tuple_element_t<I, Given<P...>>> &&
                           ...)) {
      return CallbackProblem::statics;
    } else if constexpr (!std::is_same_v<std::tuple_element_t<mesh, Given<P...>>, Mesh>) {
      return CallbackProblem::mesh;
    } else if constexpr (!takes_result<std::tuple_element_t<mesh + 1 + with_arguments, Given<P...>>,
                                       R>::value) {
      return CallbackProblem::results;
    } else if constexpr (with_arguments) {
      return takes_arguments<std::tuple_element_t<mesh + 1, Given<P...>>, Args>::value
                 ? CallbackProblem::none
                 : CallbackProblem::arguments;
    } else {
      return CallbackProblem::none;
    }
  }
  template <class... Called>
  static constexpr CallbackProblem of_call() {
    if constexpr (!std::is_invocable_v<Fn&, Called...>) {
      return CallbackProblem::generic;
    } else {
      return callback_returns<kind, std::invoke_result_t<Fn&, Called...>>()
                 ? CallbackProblem::none
                 : CallbackProblem::returned;
    }
  }
  template <class... P>
  static constexpr CallbackProblem of_known(const std::tuple<P...>* parameters) {
    constexpr CallbackProblem found = of_parameters(static_cast<const std::tuple<P...>*>(nullptr),
                                                    std::index_sequence_for<S...>{});
    (void)parameters;
    if constexpr (found != CallbackProblem::none) {
      return found;
    } else if constexpr (with_arguments) {
      return of_call<const S&..., const Mesh&, std::tuple_element_t<sizeof...(S) + 1, Given<P...>>,
                     std::tuple_element_t<sizeof...(S) + 2, Given<P...>>>();
    } else {
      return of_call<const S&..., const Mesh&,
                     std::tuple_element_t<sizeof...(S) + 1, Given<P...>>>();
    }
  }
  static constexpr CallbackProblem problem() {
    if constexpr (KnownSignature<Fn>) {
      return of_known(static_cast<const typename args_of<Fn>::type*>(nullptr));
    } else if constexpr (with_arguments) {
      return of_call<const S&..., const Mesh&, const ShapeInfos&, const ShapeInfos&>();
    } else {
      return of_call<const S&..., const Mesh&, const ShapeInfos&>();
    }
  }
};

/// Fails with a readable message if there is a problem. Returns whether there is none.
#define TESSERA_EXPLAIN_CALLBACK(name, takes, returns)                                             \
  static_assert(problem != CallbackProblem::number,                                                \
                "tessera: the callback " name                                                      \
                " has the wrong number of parameters: it must "                                    \
                "take " takes);                                                                    \
  static_assert(problem != CallbackProblem::statics,                                               \
                "tessera: the first parameters of the callback " name                              \
                " don't take the function's "                                                      \
                "static arguments: it must take " takes);                                          \
  static_assert(problem != CallbackProblem::mesh, "tessera: the callback " name                    \
                                                  " has no const Mesh& where that is passed: it "  \
                                                  "must take " takes);                             \
  static_assert(problem != CallbackProblem::arguments,                                             \
                "tessera: the callback " name                                                      \
                " can't take the function's arguments by the "                                     \
                "parameter after the mesh, which must be const ShapeInfos&, ShapeInfo if there "   \
                "is one array, or the tuple of arguments with ShapeInfo in place of Array (the "   \
                "last if the function's parameters have stated types)");                           \
  static_assert(problem != CallbackProblem::results,                                               \
                "tessera: the callback " name                                                      \
                " can't take the function's result by its last "                                   \
                "parameter, which must be const ShapeInfos&, ShapeInfo if there is one array, or " \
                "the result's type with ShapeInfo in place of Array (the last if the function's "  \
                "parameters have stated types)");                                                  \
  static_assert(problem != CallbackProblem::generic,                                               \
                "tessera: the callback " name " can't be called: it must take " takes);            \
  static_assert(problem != CallbackProblem::returned,                                              \
                "tessera: the callback " name " must return " returns)

template <CallbackKind kind, CallbackProblem problem>
constexpr bool callback_fits() {
  if constexpr (kind == CallbackKind::partition) {
    TESSERA_EXPLAIN_CALLBACK(
        "partition", "(static arguments..., const Mesh&, arguments, results)",
        "a Partition: the mesh, the per-device function, shardings of results and of arguments");
  } else if constexpr (kind == CallbackKind::infer) {
    TESSERA_EXPLAIN_CALLBACK("infer_sharding_from_operands",
                             "(static arguments..., const Mesh&, arguments, results)",
                             "shardings of the results: a Sharding, or a list or tree of them");
  } else if constexpr (kind == CallbackKind::propagate) {
    TESSERA_EXPLAIN_CALLBACK("propagate_user_sharding",
                             "(static arguments..., const Mesh&, results)",
                             "shardings of the results: a Sharding, or a list or tree of them");
  } else {
    TESSERA_EXPLAIN_CALLBACK("sharding_rule_fn",
                             "(static arguments..., const Mesh&, arguments, results)",
                             "a rule: a std::string, or RuleAndOptions");
  }
  return problem == CallbackProblem::none;
}
#undef TESSERA_EXPLAIN_CALLBACK

template <class Fn>
inline constexpr bool may_be_empty = std::is_pointer_v<Fn>;
template <class Signature>
inline constexpr bool may_be_empty<std::function<Signature>> = true;

template <CallbackKind kind, class Statics, class Args, class R>
class PartitioningCallback;
/// A callback of `def_partition`: any callable that takes static arguments, the mesh, and arguments
/// and results as lists or as trees of ShapeInfo.
template <CallbackKind kind, class... S, class Args, class R>
class PartitioningCallback<kind, std::tuple<S...>, Args, R> {
 public:
  using Returned = typename returned_by<kind>::type;

  /// None.
  PartitioningCallback() = default;
  PartitioningCallback(std::nullptr_t) {}
  /// A copy of a callable.
  template <class Fn>
  requires(!std::is_same_v<Fn, PartitioningCallback>)
      PartitioningCallback(Fn f) {  // NOLINT: implicit by design
    if constexpr (callback_fits<kind,
                                callback_check<kind, Fn, std::tuple<S...>, Args, R>::problem()>()) {
      if constexpr (may_be_empty<Fn>) {
        if (f == nullptr) return;
      }
      call_ = [f = std::move(f)](const Call& call) mutable { return invoke(f, call); };
    }
  }
  explicit operator bool() const { return call_ != nullptr; }

  /// Calls it with lists.
  Returned operator()(const S&... statics, const Mesh& mesh, const ShapeInfos& args,
                      const ShapeInfos& results) const {
    return (*this)(std::tuple<S...>(statics...), mesh, args, results, nullptr, nullptr, "", {});
  }
  /// Calls it with lists, or with trees that are like these.
  Returned operator()(const std::tuple<S...>& statics, const Mesh& mesh, const ShapeInfos& args,
                      const ShapeInfos& results, const Args* args_like, const R* results_like,
                      const std::string& name, Location location) const {
    return call_({statics, mesh, args, results, args_like, results_like, name, location});
  }

 private:
  struct Call {
    const std::tuple<S...>& statics;
    const Mesh& mesh;
    const ShapeInfos& args;
    const ShapeInfos& results;
    const Args* args_like;
    const R* results_like;
    const std::string& name;
    Location location;
  };

  template <class Fn>
  static Returned invoke(Fn& f, const Call& call) {
    return std::apply(
        [&](const S&... statics) -> Returned {
          constexpr std::size_t at = sizeof...(S) + 1;
          if constexpr (kind == CallbackKind::propagate) {
            return read(f(statics..., call.mesh, results<Fn, at>(call)));
          } else {
            return read(
                f(statics..., call.mesh, arguments<Fn, at>(call), results<Fn, at + 1>(call)));
          }
        },
        call.statics);
  }
  template <class T>
  static Returned read(T&& returned) {
    if constexpr (std::is_convertible_v<T, Returned>) {
      return std::forward<T>(returned);
    } else {
      return Returned{std::forward<T>(returned)};
    }
  }
  /// The type of a parameter as the callback gets it.
  template <class Fn, std::size_t at>
  static auto parameter() {
    if constexpr (KnownSignature<Fn>) {
      return std::type_identity<std::tuple_element_t<at, typename args_of<Fn>::type>>{};
    } else {
      return std::type_identity<ShapeInfos>{};
    }
  }
  template <class Fn, std::size_t at>
  static auto arguments(const Call& c) {
    using P = typename decltype(parameter<Fn, at>())::type;
    return infos_as<P>(c.args, c.args_like, c.name, c.location);
  }
  template <class Fn, std::size_t at>
  static auto results(const Call& c) {
    using P = typename decltype(parameter<Fn, at>())::type;
    return infos_as<P>(c.results, c.results_like, c.name, c.location);
  }

  std::function<Returned(const Call&)> call_;
};

/// The callbacks of a `custom_partitioning` function. Static arguments come first in each of them.
/// Each takes arguments and results in the form that it states: as ShapeInfos, the list of all
/// leaves; as the tuple of arguments, or the result, with ShapeInfo in place of Array; as what
/// the only argument is then; or as the only ShapeInfo.
template <class Statics, class Args, class R>
struct PartitionCallbacks {
  using StaticTuple = Statics;
  using ArgsLike = Args;
  using ResultLike = R;
  /// Required: returns the per-device function and the final shardings, given the mesh, arguments
  /// and results with suggested shardings. Called when the program is partitioned.
  PartitioningCallback<CallbackKind::partition, Statics, Args, R> partition{};
  /// Returns the shardings of the results, given the mesh, arguments and results. Called during
  /// propagation.
  PartitioningCallback<CallbackKind::infer, Statics, Args, R> infer_sharding_from_operands{};
  /// Returns shardings of the results for propagation to use, given the mesh and the results with
  /// the shardings that their users suggest.
  PartitioningCallback<CallbackKind::propagate, Statics, Args, R> propagate_user_sharding{};
  /// Pass NamedShardings to callbacks where possible, with specs padded to full rank. False:
  /// GSPMDShardings.
  bool decode_shardings = true;
  /// Sharding rule that replaces the two propagation callbacks; see ShardingRule.
  std::string sharding_rule{};
  /// Returns the rule for the shapes of a call, in place of `sharding_rule`.
  PartitioningCallback<CallbackKind::rule, Statics, Args, R> sharding_rule_fn{};
  /// Options of `sharding_rule`; see ShardingRuleOptions.
  std::vector<std::string> reduction_factors{};
  /// See ShardingRuleOptions.
  std::vector<std::string> need_replication_factors{};
  /// See ShardingRuleOptions.
  std::vector<std::string> permutation_factors{};
  /// See ShardingRuleOptions.
  std::map<std::string, std::int64_t> factor_sizes{};
};

/// Whether a callable given by position is propagate_user_sharding, which takes no arguments of the
/// function, and not infer_sharding_from_operands.
template <class Fn, class Statics>
constexpr bool takes_results_alone() {
  if constexpr (KnownSignature<Fn>) {
    return std::tuple_size_v<typename args_of<Fn>::type> == std::tuple_size_v<Statics> + 2;
  } else {
    return []<class... S>(const std::tuple<S...>*) {
      return std::is_invocable_v<Fn&, const S&..., const Mesh&, const ShapeInfos&>;
    }(static_cast<const Statics*>(nullptr));
  }
}

/// The callbacks of one call, static arguments bound.
struct BoundCallbacks {
  std::string name;
  Location location;
  bool decode_shardings = true;
  std::function<Partition(const Mesh&, const ShapeInfos&, const ShapeInfos&)> partition;
  std::function<ShardingList(const Mesh&, const ShapeInfos&, const ShapeInfos&)> infer;
  std::function<ShardingList(const Mesh&, const ShapeInfos&)> propagate;
  std::function<std::optional<ShardingRule>(const Mesh&, const ShapeInfos&, const ShapeInfos&)>
      rule;
  /// Argument trees rebuilt from leaves, for the per-device function.
  std::function<std::vector<std::any>(const std::vector<Array>&)> rebuild;
};

}  // namespace internal
}  // namespace tessera
