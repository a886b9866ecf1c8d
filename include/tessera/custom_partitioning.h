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

#include <tessera/callable.h>
#include <tessera/custom_partitioning_rules.h>
#include <tessera/mesh.h>
#include <tessera/sharding.h>
#include <tessera/sharding_rule.h>
#include <tessera/tree.h>

namespace tessera {

/// An argument or result as the callbacks of `custom_partitioning` see it.
struct ShapeInfo {
  std::vector<std::int64_t> shape;  ///< global shape
  DType dtype = DType::f32;         ///< dtype
  /// The suggested sharding; not `valid()` if there is none, as for results in
  /// infer_sharding_from_operands.
  Sharding sharding;
};
/// All arguments or results: the leaves of their trees, in order.
using ShapeInfos = std::vector<ShapeInfo>;

/// The per-device function that a `partition` callback returns.
///
/// Any callable with the parameters of the partitioned function, static ones left out; a copy is
/// kept. It is traced on the shapes of the shards, may use the collectives of tessera/collectives.h
/// by the mesh's axis names, and may not capture traced or committed arrays (TracerError).
class PerDeviceFunction {
 public:
  /// No function.
  PerDeviceFunction() = default;
  /// A copy of a callable.
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, PerDeviceFunction>)
      PerDeviceFunction(F f,  // NOLINT: implicit by design
                        Location location = Location::current()) {
    call_ = [f = std::move(f), location](const std::vector<std::any>& args) mutable {
      return invoke(f, args, location);
    };
  }
  /// True if there is a function.
  explicit operator bool() const { return call_ != nullptr; }
  /// Calls the function; for internal use.
  std::vector<Array> operator()(const std::vector<std::any>& args) const { return call_(args); }

 private:
  static constexpr std::size_t kMaxArguments = 8;

  [[noreturn]] static void wrong_count(std::size_t takes, std::size_t given, Location);
  [[noreturn]] static void wrong_type(std::size_t position, Location);

  template <class T>
  static T pick(const std::vector<std::any>& args, std::size_t i, Location location) {
    using Held = internal::traced_type<T>;
    if (const Held* value = std::any_cast<Held>(&args[i])) {
      if constexpr (std::is_same_v<T, Operand>) {
        return Operand(*value, location);
      } else {
        return *value;
      }
    }
    wrong_type(i, location);
  }
  template <class R>
  static std::vector<Array> leaves_of(const R& result) {
    static_assert(internal::is_tree<R>(),
                  "tessera: a per-device function must return a tree of Array");
    return tree_leaves(result);
  }
  template <class F>
  static std::vector<Array> invoke(F& f, const std::vector<std::any>& args, Location location) {
    if constexpr (internal::KnownSignature<F>) {
      using Args = typename internal::args_of<F>::type;
      constexpr std::size_t n = std::tuple_size_v<Args>;
      if (args.size() != n) wrong_count(n, args.size(), location);
      return [&]<std::size_t... I>(std::index_sequence<I...>) {
        return call(f, pick<std::tuple_element_t<I, Args>>(args, I, location)...);
      }
      (std::make_index_sequence<n>{});
    } else {
      return invoke_generic<0>(f, args, location);
    }
  }
  template <class F, class... A>
  static std::vector<Array> call(F& f, A... args) {
    return leaves_of(f(args...));
  }
  template <std::size_t N, class F>
  static std::vector<Array> invoke_generic(F& f, const std::vector<std::any>& args,
                                           Location location) {
    if constexpr (N > kMaxArguments) {
      wrong_count(kMaxArguments, args.size(), location);
    } else {
      if (args.size() != N) return invoke_generic<N + 1>(f, args, location);
      return [&]<std::size_t... I>(std::index_sequence<I...>)->std::vector<Array> {
        if constexpr (std::is_invocable_v<F&, decltype((void(I), Array()))...>) {
          return leaves_of(f(pick<Array>(args, I, location)...));
        } else {
          wrong_count(N + 1, args.size(), location);
        }
      }
      (std::make_index_sequence<N>{});
    }
  }

  std::function<std::vector<Array>(const std::vector<std::any>&)> call_;
};

/// The result of a `partition` callback.
struct Partition {
  /// The mesh whose axis names `lower_fn` may use; it must have the program's devices.
  Mesh mesh;
  /// The per-device function. The shapes of its results must be those of the shards.
  PerDeviceFunction lower_fn;
  /// Shardings of the results, one per leaf or a single one for all.
  std::vector<Sharding> result_shardings;
  /// Shardings that the arguments must have, one per leaf or a single one for all. Arguments and
  /// results are resharded where these differ from the suggestions.
  std::vector<Sharding> arg_shardings;
};

/// The result of a `sharding_rule_fn` callback.
struct RuleAndOptions {
  std::string rule;               ///< the rule's text; see ShardingRule
  ShardingRuleOptions options{};  ///< kinds and sizes of its factors
};

namespace internal {

/// The callbacks of a `custom_partitioning` function. Static arguments come first in each of them.
template <class... Statics>
struct PartitionCallbacks {
  /// Required: returns the per-device function and the final shardings, given the mesh, arguments
  /// and results with suggested shardings. Called when the program is partitioned.
  std::function<Partition(Statics..., const Mesh&, const ShapeInfos&, const ShapeInfos&)>
      partition{};
  /// Returns the shardings of the results, given the mesh, arguments and results. Called during
  /// propagation.
  std::function<std::vector<Sharding>(Statics..., const Mesh&, const ShapeInfos&,
                                      const ShapeInfos&)>
      infer_sharding_from_operands{};
  /// Returns shardings of the results for propagation to use, given the mesh and the results with
  /// the shardings that their users suggest.
  std::function<std::vector<Sharding>(Statics..., const Mesh&, const ShapeInfos&)>
      propagate_user_sharding{};
  /// Pass NamedShardings to callbacks where possible, with specs padded to full rank. False:
  /// GSPMDShardings.
  bool decode_shardings = true;
  /// Sharding rule that replaces the two propagation callbacks; see ShardingRule.
  std::string sharding_rule{};
  /// Returns the rule for the shapes of a call, in place of `sharding_rule`.
  std::function<RuleAndOptions(Statics..., const Mesh&, const ShapeInfos&, const ShapeInfos&)>
      sharding_rule_fn{};
  /// Options of `sharding_rule`; see ShardingRuleOptions.
  std::vector<std::string> reduction_factors{};
  /// See ShardingRuleOptions.
  std::vector<std::string> need_replication_factors{};
  /// See ShardingRuleOptions.
  std::vector<std::string> permutation_factors{};
  /// See ShardingRuleOptions.
  std::map<std::string, std::int64_t> factor_sizes{};
};

/// The callbacks of one call, static arguments bound.
struct BoundCallbacks {
  std::string name;
  Location location;
  bool decode_shardings = true;
  std::function<Partition(const Mesh&, const ShapeInfos&, const ShapeInfos&)> partition;
  std::function<std::vector<Sharding>(const Mesh&, const ShapeInfos&, const ShapeInfos&)> infer;
  std::function<std::vector<Sharding>(const Mesh&, const ShapeInfos&)> propagate;
  std::function<std::optional<ShardingRule>(const Mesh&, const ShapeInfos&, const ShapeInfos&)>
      rule;
  /// Argument trees rebuilt from leaves, for the per-device function.
  std::function<std::vector<std::any>(const std::vector<Array>&)> rebuild;
};

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
template <class Tuple>
struct callbacks_of;
template <class... S>
struct callbacks_of<std::tuple<S...>> {
  using type = PartitionCallbacks<S...>;
};
template <class F, class Statics>
struct custom_args {
  using type = std::tuple<>;  // generic: no static arguments
};
template <KnownSignature F, class Statics>
struct custom_args<F, Statics> {
  using type = typename args_of<F>::type;
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
  using KnownArgs = typename internal::custom_args<F, Statics>::type;
  using StaticTuple =
      typename internal::statics_of<KnownArgs, Statics,
                                    std::make_index_sequence<std::tuple_size_v<KnownArgs>>>::type;

 public:
  /// The callbacks' type: internal::PartitionCallbacks of the static parameters' types.
  using Callbacks = typename internal::callbacks_of<StaticTuple>::type;
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
    if (!callbacks.partition) {
      throw ValueError("def_partition of '" + state_->name + "' needs a partition callback",
                       location);
    }
    if (!callbacks.sharding_rule.empty() && callbacks.sharding_rule_fn) {
      throw ValueError("def_partition of '" + state_->name +
                           "': sharding_rule and sharding_rule_fn exclude each other",
                       location);
    }
    state_->rule.reset();
    if (!callbacks.sharding_rule.empty()) {
      state_->rule = ShardingRule(callbacks.sharding_rule, options_of(callbacks), location);
    } else if (!callbacks.factor_sizes.empty() || !callbacks.reduction_factors.empty() ||
               !callbacks.need_replication_factors.empty() ||
               !callbacks.permutation_factors.empty()) {
      throw ValueError("def_partition of '" + state_->name +
                           "': factors are listed and there is no sharding_rule",
                       location);
    }
    state_->location = location;
    state_->callbacks = std::move(callbacks);
    state_->defined = true;
    return state_->callbacks.partition;
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
  struct State {
    std::string name;
    Location location;
    bool defined = false;
    Callbacks callbacks;
    std::optional<ShardingRule> rule;
  };

  Rules& rules() {
    static_assert(internal::KnownSignature<F>,
                  "tessera: rules of a custom_partitioning function need a function whose "
                  "parameters have stated types");
    return rules_;
  }

  static ShardingRuleOptions options_of(const Callbacks& c) {
    return {c.reduction_factors, c.need_replication_factors, c.permutation_factors, c.factor_sizes};
  }

  template <std::size_t I, class T>
  static auto static_tuple(const T& value) {
    if constexpr (Statics::contains(int(I))) {
      T kept = value;
      internal::keep_texts(kept);
      return std::tuple<T>(std::move(kept));
    } else {
      return std::tuple<>();
    }
  }
  template <std::size_t I, class T>
  static void take(T& arg, const std::vector<Array>& leaves, std::size_t& next) {
    if constexpr (!Statics::contains(int(I))) {
      const std::size_t n = tree_leaves(arg).size();
      const auto at = leaves.begin() + std::ptrdiff_t(next);
      arg = tree_unflatten(arg, std::vector<Array>(at, at + std::ptrdiff_t(n)));
      next += n;
    }
  }
  template <std::size_t I, class T>
  static void add_leaves(const T& arg, std::vector<Array>& leaves) {
    if constexpr (!Statics::contains(int(I))) {
      for (Array& leaf : tree_leaves(arg)) leaves.push_back(leaf);
    }
  }
  template <std::size_t I, class T>
  static void add_any(T& arg, std::vector<std::any>& out) {
    if constexpr (!Statics::contains(int(I))) {
      if constexpr (internal::is_array_like<T>) {
        out.emplace_back(Array(internal::collect_leaves(
            [&](internal::TreeVisitor& v) { internal::visit_tree(arg, v); })[0]));
      } else {
        out.emplace_back(arg);
      }
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
    std::vector<Array> leaves;
    (add_leaves<I>(std::get<I>(args), leaves), ...);
    const auto statics = std::tuple_cat(static_tuple<I>(std::get<I>(args))...);
    internal::BoundCallbacks bound;
    bound.name = state_->name;
    bound.location = state_->location;
    bound.decode_shardings = state_->callbacks.decode_shardings;
    bound.partition = bind<Partition>(state_->callbacks.partition, statics);
    if (state_->callbacks.infer_sharding_from_operands) {
      bound.infer =
          bind<std::vector<Sharding>>(state_->callbacks.infer_sharding_from_operands, statics);
    }
    if (state_->callbacks.propagate_user_sharding) {
      bound.propagate = [f = state_->callbacks.propagate_user_sharding, statics](
                            const Mesh& mesh, const ShapeInfos& results) {
        return std::apply([&](const auto&... s) { return f(s..., mesh, results); }, statics);
      };
    }
    if (state_->rule) {
      bound.rule = [rule = *state_->rule](const Mesh&, const ShapeInfos&, const ShapeInfos&) {
        return std::optional<ShardingRule>(rule);
      };
    } else if (state_->callbacks.sharding_rule_fn) {
      bound.rule = [f = state_->callbacks.sharding_rule_fn, statics, at = state_->location](
                       const Mesh& mesh, const ShapeInfos& in, const ShapeInfos& out) {
        const RuleAndOptions made =
            std::apply([&](const auto&... s) { return f(s..., mesh, in, out); }, statics);
        return std::optional<ShardingRule>(ShardingRule(made.rule, made.options, at));
      };
    }
    // The callbacks may run long after this call.
    Args kept = args;
    (internal::keep_texts(std::get<I>(kept)), ...);
    bound.rebuild = [kept](const std::vector<Array>& flat) {
      Args copy = kept;
      std::size_t next = 0;
      (take<I>(std::get<I>(copy), flat, next), ...);
      std::vector<std::any> out;
      (add_any<I>(std::get<I>(copy), out), ...);
      return out;
    };
    std::shared_ptr<R> prototype;
    auto body = [&, f = f_](const std::vector<Array>& flat) {
      Args copy = args;
      std::size_t next = 0;
      (take<I>(std::get<I>(copy), flat, next), ...);
      prototype = std::make_shared<R>(std::invoke(*f, std::get<I>(copy)...));
      return tree_leaves(*prototype);
    };
    const std::vector<Array> results =
        internal::call_custom_partitioning(leaves, std::move(bound), body, location);
    return tree_unflatten(*prototype, results);
  }

  template <class R, class Fn, class S>
  static auto bind(const Fn& f, const S& statics) {
    return [f, statics](const Mesh& mesh, const ShapeInfos& in, const ShapeInfos& out) -> R {
      return std::apply([&](const auto&... s) { return f(s..., mesh, in, out); }, statics);
    };
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
