// SPDX-License-Identifier: Apache-2.0
// Adapts a C++ function of trees to a function of lists of arrays, for jit and shard_map.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/detail/callable.h>
#include <tessera/detail/type_key.h>
#include <tessera/tree.h>

namespace tessera::internal {

template <class R, class Args>
struct call_type;
/// The function type R(A...), of which the TypeKey is taken.
template <class R, class... A>
struct call_type<R, std::tuple<A...>> {
  using type = R(A...);
};
template <class R, class Args>
TypeKey call_key() {
  return TypeKey::of<typename call_type<R, Args>::type>();
}

/// One call, as the typed wrapper describes it to the untyped core.
struct CallInfo {
  std::vector<Array> leaves;                    ///< of all traced arguments
  std::vector<std::pair<int, int>> arg_ranges;  ///< (position, number of leaves) of each traced one
  std::size_t arg_count = 0;                    ///< static ones too
  std::string tree;                             ///< structure of the traced arguments
  std::string signature;                        ///< tree and static values
  /// (position, begin, end) of each static value's text in the signature.
  std::vector<std::tuple<int, std::size_t, std::size_t>> statics;
  TypeKey types;         ///< of the result and of all arguments, as the function sees them
  TypeKey traced_types;  ///< the same without static arguments
  std::function<std::vector<std::string>()> paths;  ///< of the leaves, for messages
  std::function<void(TreeVisitor&)> walk_args;      ///< for in_shardings
  /// Traces: arguments rebuilt from leaves, the function called, its leaves returned. Also sets the
  /// prototype of the result.
  std::function<std::vector<Array>(const std::vector<Array>&, Prototype*)> trace;
  std::function<void(const Prototype&, TreeVisitor&)> walk_result;
};

class LeafCounter final : public TreeVisitor {
 public:
  void leaf(Array&) override { ++count; }
  int count = 0;
};

// What depends on the types of arguments and results alone stands apart from FunctionBody, so that
// it is compiled once for all functions that have them.

/// The arguments of a call.
template <class Args, class Statics>
struct ArgumentList {
  static void walk(Args& args, TreeVisitor& v) { walk(args, v, Positions{}); }

  /// Fills in what is known of the arguments; `info` refers to them.
  static void describe(Args& args, CallInfo& info) {
    info.walk_args = [&args](TreeVisitor& v) { walk(args, v); };
    info.leaves = collect_leaves(info.walk_args);
    info.arg_count = std::tuple_size_v<Args>;
    info.tree = tree_signature(info.walk_args);
    info.signature = info.tree;
    describe(args, info, Positions{});
    info.paths = [&info] { return leaf_paths(info.walk_args); };
  }

  /// A copy with other arrays.
  static Args with_leaves(const Args& args, const std::vector<Array>& leaves) {
    Args copy = args;
    assign_leaves([&](TreeVisitor& v) { walk(copy, v); }, leaves);
    return copy;
  }

 private:
  using Positions = std::make_index_sequence<std::tuple_size_v<Args>>;

  template <std::size_t... I>
  static void walk(Args& args, TreeVisitor& v, std::index_sequence<I...>) {
    v.begin(TreeVisitor::Node::tuple, (std::size_t(!Statics::contains(int(I))) + ... + 0));
    [[maybe_unused]] std::size_t n = 0;
    (walk_one<I>(std::get<I>(args), n, v), ...);
    v.end();
  }
  template <std::size_t I, class T>
  static void walk_one(T& arg, std::size_t& n, TreeVisitor& v) {
    if constexpr (!Statics::contains(int(I))) {
      v.key(n++);
      visit_tree(arg, v);
    }
  }
  template <std::size_t... I>
  static void describe(Args& args, CallInfo& info, std::index_sequence<I...>) {
    (describe_one<I>(std::get<I>(args), info), ...);
  }
  template <std::size_t I, class T>
  static void describe_one(T& arg, CallInfo& info) {
    if constexpr (Statics::contains(int(I))) {
      info.signature += ";" + std::to_string(I) + "=";
      const std::size_t begin = info.signature.size();
      info.signature += static_key<T>(arg);
      info.statics.emplace_back(int(I), begin, info.signature.size());
    } else {
      LeafCounter counter;
      visit_tree(arg, counter);
      info.arg_ranges.emplace_back(int(I), counter.count);
    }
  }
};

/// The leaves of a traced function's result, whose tree becomes the prototype.
template <class R>
std::vector<Array> keep_result(R value, Prototype* prototype) {
  auto result = std::make_shared<R>(std::move(value));
  std::vector<Array> out = tree_leaves(*result);
  *result = tree_map([](const Array&) { return Array(); }, *result);
  keep_texts(*result);
  *prototype = Prototype(std::move(result));
  return out;
}
template <class R>
void walk_result(const Prototype& prototype, TreeVisitor& v) {
  visit_tree(prototype.as<R>(), v);
}

/// A function and the arguments of one call. It has no parameters of type: what each traced
/// function brings of its own is `run` alone, which keeps programs with many of them quick to
/// compile.
struct TracedCall {
  std::shared_ptr<void> function;
  const void* args;
  std::vector<Array> (*run)(void* function, const void* args, const std::vector<Array>& leaves,
                            Prototype*);

  /// Sets `info.trace`, which refers to this call.
  void give(CallInfo& info) const {
    info.trace = [this](const std::vector<Array>& leaves, Prototype* prototype) {
      return run(function.get(), args, leaves, prototype);
    };
  }
};

/// A function to be traced, with the conversion of its C++ arguments and result to lists of arrays.
/// Copies share the function.
template <class F, class Statics>
class FunctionBody {
 public:
  explicit FunctionBody(F f) : f_(static_cast<void*>(new F(std::move(f))), &destroy) {}

  /// Returns `then(info, std::type_identity<Result>)` for a call with these arguments.
  template <class Args, class Then, class... Given>
  auto with_args(Then&& then, Given&&... given) const {
    constexpr bool same_number = sizeof...(Given) == std::tuple_size_v<Args>;
    static_assert(
        same_number,
        "tessera: the function is called with a different number of arguments than it takes");
    if constexpr (same_number) {
      using Seq = std::make_index_sequence<std::tuple_size_v<Args>>;
      if constexpr (check_arguments<Args, Statics>(Seq{})) {
        Args args{std::forward<Given>(given)...};
        return with_tuple(std::forward<Then>(then), args, Seq{});
      }
    }
  }

  /// Returns the arrays of `core.call(info, &prototype, location)` for a call with these arguments,
  /// as the function's result type.
  template <class Core, class... Given>
  auto call_with(const Core& core, Location location, Given&&... given) const {
    return with_args<call_args_t<F, Statics, Given...>>(
        [&](CallInfo& info, auto result_tag) {
          using R = typename decltype(result_tag)::type;
          Prototype prototype;
          std::vector<Array> leaves = core.call(info, &prototype, location);
          return tree_unflatten(prototype.as<R>(), leaves);
        },
        std::forward<Given>(given)...);
  }

 private:
  static void destroy(void* f) { delete static_cast<F*>(f); }

  /// A function that jit or shard_map has wrapped already is called without a location: its
  /// messages name the line that wrapped it.
  template <class... A>
  static decltype(auto) run(F& f, A&... args) {
    if constexpr (requires { f.call_at(Location(), args...); }) {
      return f.call_at(Location(), args...);
    } else if constexpr (requires { f(args...); }) {
      return f(args...);
    } else {
      return std::invoke(f, args...);
    }
  }

  /// TracedCall::run.
  template <class R, class Args, std::size_t... I>
  static std::vector<Array> trace(void* f, const void* args, const std::vector<Array>& leaves,
                                  Prototype* prototype) {
    [[maybe_unused]] Args copy =
        ArgumentList<Args, Statics>::with_leaves(*static_cast<const Args*>(args), leaves);
    return keep_result<R>(run(*static_cast<F*>(f), std::get<I>(copy)...), prototype);
  }

  template <class Then, class Args, std::size_t... I>
  auto with_tuple(Then&& then, Args& args, std::index_sequence<I...>) const {
    constexpr bool callable = std::is_invocable_v<F&, std::tuple_element_t<I, Args>&...>;
    static_assert(
        callable,
        "tessera: the callable given to jit or shard_map can't be called with these arguments");
    if constexpr (callable) {
      using R = std::remove_cvref_t<std::invoke_result_t<F&, std::tuple_element_t<I, Args>&...>>;
      static_assert(!fields_found<R>() || is_tree<R>(),
                    "tessera: a function under jit or shard_map must return a tree of Array: "
                    "Array, vector, array, map, pair, tuple, optional, variant, or a plain struct "
                    "of these (TESSERA_TREE names the fields of others)");
      if constexpr (is_tree<R>()) {
        CallInfo info;
        ArgumentList<Args, Statics>::describe(args, info);
        info.types = call_key<R, Args>();
        info.traced_types = call_key<R, typename traced_args<Args, Statics>::type>();
        const TracedCall call{f_, &args, &trace<R, Args, I...>};
        call.give(info);
        info.walk_result = &walk_result<R>;
        return then(info, std::type_identity<R>{});
      }
    }
  }

  std::shared_ptr<void> f_;  ///< an F
};

/// What a transformation makes of a function: called like it, and its results are those of
/// `core(info, &prototype, options, location)`. Messages name the line of the call, or that where
/// the function was transformed.
template <class F, class Options, auto core>
class TransformedFunction : public Calls<TransformedFunction<F, Options, core>, F> {
 public:
  using wrapped_function = F;
  TransformedFunction(F f, Options options, Location location)
      : body_(std::move(f)), options_(std::move(options)), location_(location) {}

  template <class... Given>
  auto call_at(Location location, Given&&... given) const {
    if (!location.known()) location = location_;
    return body_.call_with(Core{options_}, location, std::forward<Given>(given)...);
  }

 private:
  struct Core {
    const Options& options;
    auto call(const CallInfo& info, Prototype* prototype, Location location) const {
      return core(info, prototype, options, location);
    }
  };

  FunctionBody<F, StaticArgnums<>> body_;
  Options options_;
  Location location_;
};

}  // namespace tessera::internal
