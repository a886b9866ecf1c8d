// SPDX-License-Identifier: Apache-2.0
// Functions with user-defined partitioning.
#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <tessera/custom/custom_partitioning_rules.h>
#include <tessera/custom/partitioning_callbacks.h>
#include <tessera/custom/per_device_function.h>
#include <tessera/custom/shape_info.h>
#include <tessera/detail/callable.h>
#include <tessera/mesh.h>
#include <tessera/sharding.h>
#include <tessera/sharding/sharding_rule.h>
#include <tessera/tree.h>

namespace tessera {

namespace internal {

/// Runs the plain function, or stages the call in a traced program.
std::vector<Array> call_custom_partitioning(
    const std::vector<Array>& leaves, BoundCallbacks callbacks,
    const std::function<std::vector<Array>(const std::vector<Array>&)>& body, Location location);

template <class Args, class Statics, class Seq>
struct statics_of;
template <class Args, class Statics, std::size_t... I>
struct statics_of<Args, Statics, std::index_sequence<I...>> {
  template <std::size_t J>
  using one = std::conditional_t<Statics::contains(int(J)),
                                 std::tuple<std::tuple_element_t<J, Args>>, std::tuple<>>;
  using type = decltype(std::tuple_cat(std::declval<one<I>>()...));
};
/// The callbacks of a function F.
template <class F, class Statics>
struct callbacks_of {
  using type = PartitionCallbacks<std::tuple<>, UnknownTree, UnknownTree>;
};
template <KnownSignature F, class Statics>
struct callbacks_of<F, Statics> {
  template <class... A>
  static std::remove_cvref_t<std::invoke_result_t<F&, A&...>> result(std::tuple<A...>*);
  using Args = typename args_of<F>::type;
  using type = PartitionCallbacks<
      typename statics_of<Args, Statics, std::make_index_sequence<std::tuple_size_v<Args>>>::type,
      typename traced_args<Args, Statics>::type, decltype(result(static_cast<Args*>(nullptr)))>;
};

/// A copy of a tree without values, for its structure.
template <class T>
T structure_of(const T& tree) {
  return tree_unflatten(tree, std::vector<Array>(tree_leaves(tree).size()));
}

// What doesn't depend on the function itself stands apart from CustomPartitioning, so that it is
// compiled once for all functions of the same parameters.

/// The structures of the trees of one call.
template <class Callbacks>
struct CallTrees {
  std::optional<typename Callbacks::ArgsLike> args;
  std::optional<typename Callbacks::ResultLike> result;
  const typename Callbacks::ArgsLike* args_or_null() const { return args ? &*args : nullptr; }
  const typename Callbacks::ResultLike* result_or_null() const {
    return result ? &*result : nullptr;
  }
};

/// What `def_partition` has been given.
template <class Callbacks>
struct PartitioningState {
  std::string name;
  Location location;
  bool defined = false;
  Callbacks callbacks;
  std::optional<ShardingRule> rule;

  void define(Callbacks given, Location where) {
    if (!given.partition) {
      throw ValueError("def_partition of '" + name + "' needs a partition callback", where);
    }
    if (!given.sharding_rule.empty() && given.sharding_rule_fn) {
      throw ValueError(
          "def_partition of '" + name + "': sharding_rule and sharding_rule_fn exclude each other",
          where);
    }
    rule.reset();
    if (!given.sharding_rule.empty()) {
      const ShardingRuleOptions options{given.reduction_factors, given.need_replication_factors,
                                        given.permutation_factors, given.factor_sizes};
      rule = ShardingRule(given.sharding_rule, options, where);
    } else if (!given.factor_sizes.empty() || !given.reduction_factors.empty() ||
               !given.need_replication_factors.empty() || !given.permutation_factors.empty()) {
      throw ValueError(
          "def_partition of '" + name + "': factors are listed and there is no sharding_rule",
          where);
    }
    location = where;
    callbacks = std::move(given);
    defined = true;
  }
};

/// The callbacks for one call.
template <class Callbacks>
class PartitioningBinder {
 public:
  using State = PartitioningState<Callbacks>;
  using Statics = typename Callbacks::StaticTuple;
  using Trees = std::shared_ptr<const CallTrees<Callbacks>>;

  static BoundCallbacks bind(const State& state, const Statics& statics, const Trees& like) {
    const Callbacks& given = state.callbacks;
    BoundCallbacks bound;
    bound.name = state.name;
    bound.location = state.location;
    bound.decode_shardings = given.decode_shardings;
    bound.partition = bind_one(state, given.partition, statics, like);
    if (given.infer_sharding_from_operands) {
      bound.infer = bind_one(state, given.infer_sharding_from_operands, statics, like);
    }
    if (given.propagate_user_sharding) {
      bound.propagate = [f = bind_one(state, given.propagate_user_sharding, statics, like)](
                            const Mesh& mesh, const ShapeInfos& results) {
        return f(mesh, {}, results);
      };
    }
    if (state.rule) {
      bound.rule = [rule = *state.rule](const Mesh&, const ShapeInfos&, const ShapeInfos&) {
        return std::optional<ShardingRule>(rule);
      };
    } else if (given.sharding_rule_fn) {
      bound.rule = [f = bind_one(state, given.sharding_rule_fn, statics, like),
                    at = state.location](const Mesh& mesh, const ShapeInfos& in,
                                         const ShapeInfos& out) {
        const RuleAndOptions made = f(mesh, in, out);
        return std::optional<ShardingRule>(ShardingRule(made.rule, made.options, at));
      };
    }
    return bound;
  }

 private:
  template <class Fn>
  static auto bind_one(const State& state, const Fn& f, const Statics& statics, const Trees& like) {
    return [f, statics, like, name = state.name, at = state.location](
               const Mesh& mesh, const ShapeInfos& in, const ShapeInfos& out) {
      return f(statics, mesh, in, out, like->args_or_null(), like->result_or_null(), name, at);
    };
  }
};

/// The arguments of a call, those at the positions of Statics being static.
template <class Args, class Statics, class Seq = std::make_index_sequence<std::tuple_size_v<Args>>>
struct PartitionedArguments;
template <class Args, class Statics, std::size_t... I>
struct PartitionedArguments<Args, Statics, std::index_sequence<I...>> {
  static std::vector<Array> leaves(const Args& args) {
    std::vector<Array> out;
    (add_leaves<I>(std::get<I>(args), out), ...);
    return out;
  }
  static auto statics(const Args& args) {
    return std::tuple_cat(static_tuple<I>(std::get<I>(args))...);
  }
  static auto structures(const Args& args) {
    return std::tuple_cat(structure_tuple<I>(std::get<I>(args))...);
  }
  /// A copy with other arrays.
  static Args with_leaves(const Args& args, const std::vector<Array>& flat) {
    Args copy = args;
    [[maybe_unused]] std::size_t next = 0;
    (take<I>(std::get<I>(copy), flat, next), ...);
    return copy;
  }
  /// The trees that a call has of its leaves, long after it.
  static auto rebuild(Args kept) {
    (keep_texts(std::get<I>(kept)), ...);
    return [kept = std::move(kept)](const std::vector<Array>& flat) {
      Args copy = with_leaves(kept, flat);
      std::vector<std::any> out;
      (add_any<I>(std::get<I>(copy), out), ...);
      return out;
    };
  }

 private:
  template <std::size_t J, class T>
  static auto static_tuple(const T& value) {
    if constexpr (Statics::contains(int(J))) {
      T kept = value;
      keep_texts(kept);
      return std::tuple<T>(std::move(kept));
    } else {
      return std::tuple<>();
    }
  }
  template <std::size_t J, class T>
  static auto structure_tuple(const T& value) {
    if constexpr (Statics::contains(int(J))) {
      return std::tuple<>();
    } else if constexpr (is_array_like<T>) {
      return std::tuple<Array>();
    } else {
      T kept = structure_of(value);
      keep_texts(kept);
      return std::tuple<T>(std::move(kept));
    }
  }
  template <std::size_t J, class T>
  static void take(T& arg, const std::vector<Array>& leaves, std::size_t& next) {
    if constexpr (!Statics::contains(int(J))) {
      const std::size_t n = tree_leaves(arg).size();
      const auto at = leaves.begin() + std::ptrdiff_t(next);
      arg = tree_unflatten(arg, std::vector<Array>(at, at + std::ptrdiff_t(n)));
      next += n;
    }
  }
  template <std::size_t J, class T>
  static void add_leaves(const T& arg, std::vector<Array>& leaves) {
    if constexpr (!Statics::contains(int(J))) {
      for (Array& leaf : tree_leaves(arg)) leaves.push_back(leaf);
    }
  }
  template <std::size_t J, class T>
  static void add_any(T& arg, std::vector<std::any>& out) {
    if constexpr (!Statics::contains(int(J))) {
      if constexpr (is_array_like<T>) {
        out.emplace_back(Array(collect_leaves([&](TreeVisitor& v) { visit_tree(arg, v); })[0]));
      } else {
        out.emplace_back(arg);
      }
    }
  }
};
}  // namespace internal

/// A function with user-defined partitioning, made by `custom_partitioning`.
///
/// Eagerly, on one device and in per-device code the plain function runs. In a program for several
/// devices propagation applies `sharding_rule` or calls `infer_sharding_from_operands` and
/// `propagate_user_sharding`; then the partitioner calls `partition` and inlines the per-device
/// function. Exceptions thrown by callbacks pass through unchanged.
/// @code
/// auto my_fft = custom_partitioning([](Array x) { return fft(x); });
/// my_fft.def_partition({
///     .partition = [](const Mesh& mesh, const ShapeInfos& args, const ShapeInfos&) {
///       Sharding s = supported_sharding(args[0]);
///       return Partition{mesh, [](Array x) { return fft(x); }, {s}, {s}};
///     },
///     .infer_sharding_from_operands = [](const Mesh&, const ShapeInfos& args, const ShapeInfos&) {
///       return std::vector<Sharding>{supported_sharding(args[0])};
///     }});
/// @endcode
///
/// Derivatives go through the plain function, unless `def_jvp` or `def_vjp` gives a rule. A batch
/// of calls is partitioned as each of them is, the batch being one more dimension that passes
/// through, unless `def_vmap` gives a rule. Rules may call the function, and need one whose
/// parameters have stated types, not `auto`.
template <class F, class Statics>
class CustomPartitioning : public internal::Calls<CustomPartitioning<F, Statics>, F> {
 public:
  /// The callbacks' type: an internal::PartitionCallbacks.
  using Callbacks = typename internal::callbacks_of<F, Statics>::type;
  /// Type of the partition callback.
  using PartitionFn = decltype(Callbacks::partition);
  /// The wrapped function's type.
  using wrapped_function = F;

  /// For internal use; see `custom_partitioning`.
  CustomPartitioning(F f, std::string name, Location location)
      : f_(std::make_shared<F>(std::move(f))), state_(std::make_shared<State>()) {
    state_->name = std::move(name);
    state_->location = location;
  }

  /// Sets the callbacks; a second call replaces them.
  /// @return The partition callback.
  /// @throws ValueError if there is no partition callback, a rule is malformed, both kinds of rules
  ///   are given, or factors without a rule.
  PartitionFn def_partition(Callbacks callbacks, Location location = Location::current()) const {
    state_->define(std::move(callbacks), location);
    return state_->callbacks.partition;
  }
  /// Sets the partition callback alone.
  /// @return The partition callback.
  template <class Partitioning>
  requires(!std::is_convertible_v<Partitioning, Callbacks>) PartitionFn
      def_partition(Partitioning partition, Location location = Location::current())
  const {
    Callbacks callbacks;
    callbacks.partition = std::move(partition);
    return def_partition(std::move(callbacks), location);
  }
  /// Sets the partition callback, and infer_sharding_from_operands or propagate_user_sharding, of
  /// which the latter is the one without arguments of the function.
  /// @return The partition callback.
  template <class Partitioning, class Second>
  requires(!std::is_convertible_v<Second, Location>) PartitionFn
      def_partition(Partitioning partition, Second second, Location location = Location::current())
  const {
    Callbacks callbacks;
    callbacks.partition = std::move(partition);
    set_propagation(callbacks, std::move(second));
    return def_partition(std::move(callbacks), location);
  }
  /// Sets the callbacks by position.
  /// @param partition  The partition callback.
  /// @param second  infer_sharding_from_operands or propagate_user_sharding.
  /// @param third  The other of the two, which are told apart by their parameters.
  /// @param decode_shardings  Pass NamedShardings to callbacks where possible.
  /// @param location  The line named in messages.
  /// @return The partition callback.
  /// @code
  /// f.def_partition(partition, propagate_user_sharding, infer_sharding_from_operands);
  /// @endcode
  template <class Partitioning, class Second, class Third>
  requires(!std::is_convertible_v<Third, Location>) PartitionFn
      def_partition(Partitioning partition, Second second, Third third,
                    bool decode_shardings = true, Location location = Location::current())
  const {
    constexpr bool differ = internal::takes_results_alone<Second, StaticTuple>() !=
                            internal::takes_results_alone<Third, StaticTuple>();
    static_assert(differ,
                  "tessera: one of the second and third callbacks of def_partition must be "
                  "infer_sharding_from_operands(static arguments..., mesh, arguments, results) and "
                  "the other propagate_user_sharding(static arguments..., mesh, results)");
    Callbacks callbacks;
    callbacks.decode_shardings = decode_shardings;
    if constexpr (differ) {
      callbacks.partition = std::move(partition);
      set_propagation(callbacks, std::move(second));
      set_propagation(callbacks, std::move(third));
    }
    return def_partition(std::move(callbacks), location);
  }

  /// Gives the function a forward-mode rule of its own, in place of an earlier rule for
  /// derivatives: as CustomJvp::def_jvp, `rule(primals, tangents)`; with static arguments
  /// `rule(static..., primals, tangents)`. Copies made before don't see it.
  /// @param zeros  Nothing, or `symbolic_zeros`.
  template <class Rule, class... Zeros>
  CustomPartitioning& def_jvp(Rule rule, Zeros... zeros) {
    rules().def_jvp(std::move(rule), zeros...);
    return *this;
  }
  /// Gives the function reverse-mode rules of its own, in place of an earlier rule for derivatives:
  /// as CustomVjp::def_vjp, `forward(arguments...)` and `backward(residuals, cotangent)`; with
  /// static arguments `backward(static..., residuals, cotangent)`.
  /// @param zeros  Nothing, or `symbolic_zeros`.
  /// @code
  /// my_fft.def_vjp([=](Array x) { return std::pair(my_fft(x), std::tuple<>()); },
  ///                [=](std::tuple<>, Array g) { return my_fft(g); });
  /// @endcode
  template <class Forward, class Backward, class... Zeros>
  CustomPartitioning& def_vjp(Forward forward, Backward backward, Zeros... zeros) {
    rules().def_vjp(std::move(forward), std::move(backward), zeros...);
    return *this;
  }
  /// Gives the function a rule for batches: as CustomVmap::def_vmap, `rule(batch, arguments...)`;
  /// with static arguments `rule(static..., batch, arguments...)`.
  template <class Rule>
  CustomPartitioning& def_vmap(Rule rule) {
    rules().def_vmap(std::move(rule));
    return *this;
  }

  /// Calls the function; messages name `location`.
  /// @throws ValueError if `def_partition` hasn't been called.
  template <class... Given>
  auto call_at(Location location, Given&&... given) const {
    using Args = internal::call_args_t<F, Statics, Given...>;
    using Seq = std::make_index_sequence<std::tuple_size_v<Args>>;
    if constexpr (internal::check_arguments<Args, Statics>(Seq{})) {
      Args args{std::forward<Given>(given)...};
      if constexpr (internal::KnownSignature<F>) {
        if (rules_.any() && internal::is_tracing()) {
          return call_with_rules(args, location, Seq{});
        }
      }
      return call(args, location, Seq{});
    }
  }

 private:
  using Rules = typename internal::partitioned_rules<F, Statics>::type;
  using StaticTuple = typename Callbacks::StaticTuple;
  using State = internal::PartitioningState<Callbacks>;

  Rules& rules() {
    static_assert(internal::KnownSignature<F>,
                  "tessera: rules of a custom_partitioning function need a function whose "
                  "parameters have stated types");
    return rules_;
  }

  template <class Fn>
  static void set_propagation(Callbacks& callbacks, Fn f) {
    if constexpr (internal::takes_results_alone<Fn, StaticTuple>()) {
      callbacks.propagate_user_sharding = std::move(f);
    } else {
      callbacks.infer_sharding_from_operands = std::move(f);
    }
  }

  template <class Args, std::size_t... I>
  auto call_with_rules(const Args& args, Location location, std::index_sequence<I...> seq) const {
    const auto partitioned = [this, seq](Location at,
                                         const std::tuple_element_t<I, Args>&... given) {
      return call(Args{given...}, at, seq);
    };
    // Rules may run long after this call.
    Args kept = args;
    (internal::keep_texts(std::get<I>(kept)), ...);
    return rules_.call(partitioned, state_->name, location.known() ? location : state_->location,
                       std::get<I>(kept)...);
  }
  template <class Args, std::size_t... I>
  auto call(const Args& args, Location location, std::index_sequence<I...>) const {
    using R = std::remove_cvref_t<std::invoke_result_t<F&, std::tuple_element_t<I, Args>&...>>;
    static_assert(!internal::fields_found<R>() || internal::is_tree<R>(),
                  "tessera: a custom_partitioning function must return a tree of Array");
    if (!state_->defined) {
      throw ValueError("custom_partitioning function '" + state_->name +
                           "' has no callbacks: call def_partition first",
                       location.known() ? location : state_->location);
    }
    using Arguments = internal::PartitionedArguments<Args, Statics>;
    const std::vector<Array> leaves = Arguments::leaves(args);
    // What callbacks that take trees need to know of them; that of the result once it is traced.
    const auto like = std::make_shared<internal::CallTrees<Callbacks>>();
    if constexpr (internal::KnownSignature<F>) like->args.emplace(Arguments::structures(args));
    internal::BoundCallbacks bound =
        internal::PartitioningBinder<Callbacks>::bind(*state_, Arguments::statics(args), like);
    bound.rebuild = Arguments::rebuild(args);
    std::shared_ptr<R> prototype;
    const auto body = [&, f = f_](const std::vector<Array>& flat) {
      Args copy = Arguments::with_leaves(args, flat);
      prototype = std::make_shared<R>(std::invoke(*f, std::get<I>(copy)...));
      if constexpr (internal::KnownSignature<F>) {
        like->result.emplace(internal::structure_of(*prototype));
        internal::keep_texts(*like->result);
      }
      return tree_leaves(*prototype);
    };
    const std::vector<Array> results =
        internal::call_custom_partitioning(leaves, std::move(bound), body, location);
    return tree_unflatten(*prototype, results);
  }

  std::shared_ptr<F> f_;
  std::shared_ptr<State> state_;
  Rules rules_;
};

/// Wraps a function whose partitioning the callbacks given to `def_partition` define
/// (jax.experimental.custom_partitioning). See CustomPartitioning for an example.
/// @param f  The plain function of trees of arrays; defines shapes and dtypes of the results.
/// @param name  Name in messages and in the text of programs.
/// @param location  The line named in messages where a call has none.
///
/// When a program is compiled, results of callbacks are checked:
/// @throws ValueError if the number of shardings is wrong, one is empty, or one is on other devices
///   than the program.
/// @throws ShapeError if the per-device function's results don't have the shapes of the shards.
/// @throws TypeError if it has a different number of arguments or results than the plain function.
/// @throws NotImplementedError if a sharding can't be expressed by the axes of the program's mesh.
template <class F>
auto custom_partitioning(F f, std::string name = "custom_partitioning_fn",
                         Location location = Location::current()) {
  return CustomPartitioning<std::decay_t<F>, StaticArgnums<>>(std::move(f), std::move(name),
                                                              location);
}
/// The same with static parameters, which come first in every callback.
template <class F, int... I>
auto custom_partitioning(F f, StaticArgnums<I...>, std::string name = "custom_partitioning_fn",
                         Location location = Location::current()) {
  static_assert(internal::KnownSignature<std::decay_t<F>>,
                "tessera: with static_argnums the function must state its parameter types");
  return CustomPartitioning<std::decay_t<F>, StaticArgnums<I...>>(std::move(f), std::move(name),
                                                                  location);
}

}  // namespace tessera
