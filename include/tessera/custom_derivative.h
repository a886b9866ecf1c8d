// SPDX-License-Identifier: Apache-2.0
// Functions with derivatives of their own, and what derivatives save.
#pragma once

#include <any>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/detail/callable.h>
#include <tessera/detail/function_body.h>
#include <tessera/detail/held_arguments.h>
#include <tessera/tree.h>

namespace tessera {

namespace internal {

using FlatRule =
    std::function<std::vector<Array>(const std::vector<Array>&, const std::vector<Array>&)>;

/// The rule of one custom_jvp function: primals and tangents to results and tangents.
struct FlatJvpRule {
  FlatRule rule;
  bool symbolic_zeros = false;  ///< tangents that are zero are empty handles
};
/// The rules of one custom_vjp function. `forward` gives the results and then the residuals, and
/// keeps the tree of these in what it returns last.
struct FlatVjpRule {
  std::function<std::vector<Array>(const std::vector<Array>&, const std::vector<bool>& perturbed,
                                   std::any* residuals)>
      forward;
  std::function<std::vector<Array>(const std::vector<Array>& residual_leaves,
                                   const std::vector<Array>& cotangents, const std::any& residuals)>
      backward;
  bool symbolic_zeros = false;  ///< `perturbed` says something
};

std::vector<Array> call_custom_jvp(const CallInfo& info, Prototype* prototype,
                                   const std::string& name, FlatJvpRule rule, Location location);
std::vector<Array> call_custom_vjp(const CallInfo& info, Prototype* prototype,
                                   const std::string& name, FlatVjpRule rule, Location location);
[[noreturn]] void no_rule(const char* api, const char* definition, Location location);

/// A function with a rule of its own. `D` has `stage(info, prototype, rule, location)`.
template <class D, class F, class Rule>
class CustomFunction : public Calls<CustomFunction<D, F, Rule>, F> {
 public:
  using wrapped_function = F;

  CustomFunction(F f, std::string name, Location location)
      : body_(std::move(f)), name_(std::move(name)), location_(location) {}

  /// Calls the function; messages name `location`.
  template <class... Given>
  auto call_at(Location location, Given&&... given) const {
    using Args = call_args_t<F, StaticArgnums<>, Given...>;
    if (!location.known()) location = location_;
    if (!rule_) no_rule(D::kMade, D::kDefinition, location);
    const held_args<Args> held{as_tree(given)...};
    return std::apply(
        [&](const auto&... args) {
          return body_.template with_args<Args>(
              [&](CallInfo& info, auto tag) {
                using R = typename decltype(tag)::type;
                Prototype prototype;
                const std::vector<Array> out =
                    D::stage(info, &prototype, name_, rule_(held), location);
                return tree_unflatten(prototype.as<R>(), out);
              },
              args...);
        },
        held);
  }

 protected:
  using Held = held_args<typename args_of<F>::type>;
  /// For arguments like these, whose arrays don't matter.
  std::function<Rule(const Held&)> rule_;

 private:
  FunctionBody<F, StaticArgnums<>> body_;
  std::string name_;
  Location location_;
};

}  // namespace internal

/// Says that a rule is told which tangents are zero: see `symbolic_zeros`.
struct SymbolicZeros {};
/// `f.def_jvp(rule, symbolic_zeros)`: tangents that are known to be zero are no arrays of zeros but
/// empty handles, of which `is_symbolic_zero` is true. `f.def_vjp(forward, backward,
/// symbolic_zeros)`: `forward` gets a std::vector<bool> as its last argument, which says for each
/// array of the arguments whether a cotangent is asked of it; cotangents that are known to be zero
/// are empty handles in `backward`.
inline constexpr SymbolicZeros symbolic_zeros{};
/// Whether a tangent, or cotangent, that a rule with `symbolic_zeros` is given is known to be zero.
inline bool is_symbolic_zero(const Array& tangent) { return !tangent.valid(); }

/// A function with a forward-mode rule of its own, made by `custom_jvp`.
template <class F>
class CustomJvp : public internal::CustomFunction<CustomJvp<F>, F, internal::FlatJvpRule> {
  using Base = internal::CustomFunction<CustomJvp<F>, F, internal::FlatJvpRule>;
  using typename Base::Held;

 public:
  using Base::Base;

  /// The rule: `rule(primals, tangents)`, two tuples of the function's arguments, returns a pair of
  /// the result and its tangent. It must be linear in the tangents. An empty Array is a tangent of
  /// zeros. Copies made before don't see it.
  /// @code
  /// auto f = custom_jvp([](Array x) { return log1p(exp(x)); });
  /// f.def_jvp([](std::tuple<Array> x, std::tuple<Array> dx) {
  ///   return std::pair(log1p(exp(std::get<0>(x))), sigmoid(std::get<0>(x)) * std::get<0>(dx));
  /// });
  /// @endcode
  template <class Rule>
  CustomJvp& def_jvp(Rule rule) {
    return define(std::move(rule), false);
  }
  /// The same with a rule that is told which tangents are zero.
  template <class Rule>
  CustomJvp& def_jvp(Rule rule, SymbolicZeros) {
    return define(std::move(rule), true);
  }

  /// For internal use.
  static constexpr const char *kMade = "custom_jvp", *kDefinition = "def_jvp";
  /// For internal use.
  static std::vector<Array> stage(const internal::CallInfo& info, internal::Prototype* prototype,
                                  const std::string& name, internal::FlatJvpRule rule,
                                  Location location) {
    return internal::call_custom_jvp(info, prototype, name, std::move(rule), location);
  }

 private:
  template <class Rule>
  CustomJvp& define(Rule rule, bool zeros) {
    using Pair = std::invoke_result_t<Rule&, Held, Held>;
    static_assert(std::is_same_v<std::tuple_element_t<0, Pair>, std::tuple_element_t<1, Pair>>,
                  "tessera: a rule of custom_jvp returns a pair of two trees of one type");
    this->rule_ = [rule = std::make_shared<Rule>(std::move(rule)), zeros](const Held& held) {
      return internal::FlatJvpRule{
          [rule, held](const std::vector<Array>& primals, const std::vector<Array>& tangents) {
            const auto out = std::invoke(*rule, internal::trees_in_order(held, primals),
                                         internal::trees_in_order(held, tangents));
            return internal::leaves_in_order(std::get<0>(out), std::get<1>(out));
          },
          zeros};
    };
    return *this;
  }
};

/// A function with a rule of its own for derivatives in forward mode, and by transposition in
/// reverse mode (jax.custom_jvp). Its parameters must be stated types, not `auto`. Values that it
/// captures have no derivative.
/// @param f  The function, of trees of Array.
/// @param name  Its name in messages.
/// @return A CustomJvp; its rule is set by `def_jvp`.
/// Calls throw TypeError if there is no rule, or if the rule's trees, shapes or dtypes are wrong.
template <class F>
auto custom_jvp(F f, std::string name = "custom_jvp", Location location = Location::current()) {
  static_assert(internal::KnownSignature<F>,
                "tessera: custom_jvp needs a function whose parameters have stated types");
  return CustomJvp<std::decay_t<F>>(std::move(f), std::move(name), location);
}

/// A function with a reverse-mode rule of its own, made by `custom_vjp`.
template <class F>
class CustomVjp : public internal::CustomFunction<CustomVjp<F>, F, internal::FlatVjpRule> {
  using Base = internal::CustomFunction<CustomVjp<F>, F, internal::FlatVjpRule>;
  using typename Base::Held;

 public:
  using Base::Base;

  /// The rules: `forward(arguments...)` returns a pair of the result and residuals, a tree of
  /// Array; `backward(residuals, cotangent)` returns the cotangents of the arguments: a tree like
  /// the argument if there is one, else a tuple of such. An empty Array is a cotangent of zeros.
  /// @code
  /// auto f = custom_vjp([](Array x, Array y) { return sin(x) * y; });
  /// f.def_vjp(
  ///     [](Array x, Array y) { return std::pair(sin(x) * y, std::tuple(cos(x), sin(x), y)); },
  ///     [](std::tuple<Array, Array, Array> saved, Array g) {
  ///       auto [c, s, y] = saved;
  ///       return std::tuple(c * g * y, s * g);
  ///     });
  /// @endcode
  template <class Forward, class Backward>
  CustomVjp& def_vjp(Forward forward, Backward backward) {
    return define(
        [forward = std::move(forward)](const Held& args, const std::vector<bool>&) mutable {
          return std::apply(forward, args);
        },
        std::move(backward), false);
  }
  /// The same with a forward rule that is told of which arrays cotangents are asked, and a backward
  /// rule that is told which cotangents are zero.
  template <class Forward, class Backward>
  CustomVjp& def_vjp(Forward forward, Backward backward, SymbolicZeros) {
    return define(
        [forward = std::move(forward)](const Held& args,
                                       const std::vector<bool>& perturbed) mutable {
          return std::apply([&](const auto&... a) { return std::invoke(forward, a..., perturbed); },
                            args);
        },
        std::move(backward), true);
  }

  /// For internal use.
  static constexpr const char *kMade = "custom_vjp", *kDefinition = "def_vjp";
  /// For internal use.
  static std::vector<Array> stage(const internal::CallInfo& info, internal::Prototype* prototype,
                                  const std::string& name, internal::FlatVjpRule rule,
                                  Location location) {
    return internal::call_custom_vjp(info, prototype, name, std::move(rule), location);
  }

 private:
  template <class Forward, class Backward>
  CustomVjp& define(Forward forward, Backward backward, bool zeros) {
    this->rule_ = [forward = std::make_shared<Forward>(std::move(forward)),
                   backward = std::make_shared<Backward>(std::move(backward)),
                   zeros](const Held& held) {
      using Pair = decltype((*forward)(held, std::vector<bool>()));
      using R = std::tuple_element_t<0, Pair>;
      using Residuals = std::tuple_element_t<1, Pair>;
      struct Kept {
        R result;
        Residuals residuals;
      };
      internal::FlatVjpRule out;
      out.symbolic_zeros = zeros;
      out.forward = [forward, held](const std::vector<Array>& leaves,
                                    const std::vector<bool>& perturbed, std::any* kept) {
        Pair pair = (*forward)(internal::trees_in_order(held, leaves), perturbed);
        std::vector<Array> flat = internal::leaves_in_order(std::get<0>(pair), std::get<1>(pair));
        const auto nothing = [](const Array&) { return Array(); };
        *kept = Kept{tree_map(nothing, std::get<0>(pair)), tree_map(nothing, std::get<1>(pair))};
        return flat;
      };
      out.backward = [backward](const std::vector<Array>& residuals,
                                const std::vector<Array>& cotangents, const std::any& kept) {
        const Kept& like = std::any_cast<const Kept&>(kept);
        const auto given = std::invoke(*backward, tree_unflatten(like.residuals, residuals),
                                       tree_unflatten(like.result, cotangents));
        return internal::leaves_in_order(given);
      };
      return out;
    };
    return *this;
  }
};

/// A function with rules of its own for derivatives in reverse mode (jax.custom_vjp). Forward mode
/// refuses it. Its parameters must be stated types, not `auto`; values that it captures have no
/// derivative.
/// @param f  The function, of trees of Array.
/// @param name  Its name in messages.
/// @return A CustomVjp; its rules are set by `def_vjp`.
/// Calls throw TypeError if there are no rules, or if their trees, shapes or dtypes are wrong.
template <class F>
auto custom_vjp(F f, std::string name = "custom_vjp", Location location = Location::current()) {
  static_assert(internal::KnownSignature<F>,
                "tessera: custom_vjp needs a function whose parameters have stated types");
  return CustomVjp<std::decay_t<F>>(std::move(f), std::move(name), location);
}

/// Returns `x`, of which derivatives see a constant (jax.lax.stop_gradient).
Array stop_gradient(const Operand& x);
/// The same for each array of a tree.
template <class T>
requires(TreeLike<T> && !std::is_same_v<T, Array> && !std::is_same_v<T, Operand>) T
    stop_gradient(const T& tree, Location location = Location::current()) {
  return tree_map([&](const Array& a) { return stop_gradient(Operand(a, location)); }, tree);
}

/// Names a value for policies of `remat` (jax.ad_checkpoint.checkpoint_name).
Array checkpoint_name(const Operand& x, const std::string& name);

/// What `remat` saves (jax.checkpoint_policies). Several may be joined by `|`.
class CheckpointPolicy {
 public:
  /// Nothing but arguments.
  static CheckpointPolicy nothing_saveable();
  /// All values that the derivative needs: as if there were no remat.
  static CheckpointPolicy everything_saveable();
  /// Results of products of matrices.
  static CheckpointPolicy dots_saveable();
  /// Results of products without batch dimensions: those with weights.
  static CheckpointPolicy dots_with_no_batch_dims_saveable();
  /// Values that `checkpoint_name` gave one of these names.
  static CheckpointPolicy save_only_these_names(std::vector<std::string> names);
  /// Values with any other name.
  static CheckpointPolicy save_any_names_but_these(std::vector<std::string> names);
  /// All values but those with these names.
  static CheckpointPolicy save_anything_except_these_names(std::vector<std::string> names);
  /// Values with these names; those in `offloaded` wait in memory of kind `to`, and are copied back
  /// to `from` where the derivative needs them.
  /// @throws ValueError if there is no memory of one of the kinds.
  static CheckpointPolicy save_and_offload_only_these_names(
      std::vector<std::string> saved, std::vector<std::string> offloaded, std::string from,
      std::string to, Location location = Location::current());
  /// Results of products without batch dimensions, which wait in memory of kind `to`.
  /// @throws ValueError if there is no memory of one of the kinds.
  static CheckpointPolicy offload_dot_with_no_batch_dims(std::string from, std::string to,
                                                         Location location = Location::current());
  /// What one of both saves (jax.checkpoint_policies.save_from_both_policies).
  friend CheckpointPolicy operator|(const CheckpointPolicy& a, const CheckpointPolicy& b);

  struct Data;
  /// For internal use.
  const std::vector<std::shared_ptr<const Data>>& parts() const { return parts_; }

 private:
  static CheckpointPolicy of(Data data);
  std::vector<std::shared_ptr<const Data>> parts_;
};

/// Options of `remat`.
struct RematOptions {
  /// What is saved.
  CheckpointPolicy policy{};
  /// Keep the compiler from joining what is computed again with the first time.
  bool prevent_cse = true;
  /// Name of the function in messages and in the text of programs.
  std::string name = "remat";
};

namespace internal {
std::vector<Array> call_remat(const CallInfo& info, Prototype* prototype,
                              const RematOptions& options, Location location);
}  // namespace internal

/// A function wrapped by `remat`.
template <class F>
class RematFunction : public internal::Calls<RematFunction<F>, F> {
 public:
  /// The wrapped function's type.
  using wrapped_function = F;

  /// For internal use; see `remat`.
  RematFunction(F f, RematOptions options, Location location)
      : body_(std::move(f)), options_(std::move(options)), location_(location) {}

  /// Calls the function; messages name `location`.
  template <class... Given>
  auto call_at(Location location, Given&&... given) const {
    using Args = internal::call_args_t<F, StaticArgnums<>, Given...>;
    if (!location.known()) location = location_;
    return body_.template with_args<Args>(
        [&](internal::CallInfo& info, auto tag) {
          using R = typename decltype(tag)::type;
          internal::Prototype prototype;
          const std::vector<Array> out = internal::call_remat(info, &prototype, options_, location);
          return tree_unflatten(prototype.as<R>(), out);
        },
        std::forward<Given>(given)...);
  }

 private:
  internal::FunctionBody<F, StaticArgnums<>> body_;
  RematOptions options_;
  Location location_;
};

/// A function whose derivative saves little and computes the rest again (jax.checkpoint, also known
/// as jax.remat): time for memory.
/// @code
/// auto layer = remat([](Params p, Array x) { return block(p, x); },
///                    {.policy = CheckpointPolicy::dots_saveable()});
/// @endcode
template <class F>
auto remat(F f, RematOptions options = {}, Location location = Location::current()) {
  return RematFunction<std::decay_t<F>>(std::move(f), std::move(options), location);
}
/// `remat` by its other name.
template <class F>
auto checkpoint(F f, RematOptions options = {}, Location location = Location::current()) {
  return remat(std::move(f), std::move(options), location);
}

}  // namespace tessera
