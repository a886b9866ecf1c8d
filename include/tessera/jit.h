// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/callable.h>
#include <tessera/sharding_tree.h>
#include <tessera/stages.h>
#include <tessera/tree.h>

namespace tessera {

/// How `jit` compiles a function.
struct JitOptions {
  /// Prefix of the tree of positional arguments: one sharding for all, or tree(...) with one per
  /// argument (static ones left out). An argument that lies otherwise is a ValueError.
  ShardingTree in_shardings{};
  /// Prefix of the result's tree.
  ShardingTree out_shardings{};
  /// Positions of arguments whose memory may be reused; they are deleted by the call if a result
  /// can take it.
  std::vector<int> donate_argnums{};
  /// Name in messages and in the text of programs.
  std::string name{};
  /// Names of the arguments in messages ("x", "params").
  std::vector<std::string> arg_names{};
  /// Compile parameters that the function doesn't use, too; otherwise they are left out.
  bool keep_unused = false;
};

namespace internal {

/// What the typed wrapper tells the core about one call.
struct CallInfo {
  std::vector<Array> leaves;                    ///< of all traced arguments
  std::vector<std::pair<int, int>> arg_ranges;  ///< (position, number of leaves) of each traced one
  std::size_t arg_count = 0;                    ///< static ones too
  std::string tree;                             ///< structure of the traced arguments
  std::string signature;                        ///< tree and static values
  std::function<std::vector<std::string>()> paths;  ///< of the leaves, for messages
  std::function<void(TreeVisitor&)> walk_args;      ///< for in_shardings
  /// Traces: arguments rebuilt from leaves, the function called, its leaves returned. Also sets the
  /// prototype of the result.
  std::function<std::vector<Array>(const std::vector<Array>&, std::shared_ptr<void>*)> trace;
  std::function<void(const std::shared_ptr<void>&, TreeVisitor&)> walk_result;
};

class JitCore {
 public:
  JitCore(JitOptions options, Location location, bool pjit);
  /// The results' leaves; `prototype`: the result's tree.
  std::vector<Array> call(const CallInfo& info, std::shared_ptr<void>* prototype,
                          Location location) const;
  Lowered lower(const CallInfo& info, Location location) const;
  std::int64_t trace_count() const;
  std::int64_t cache_size() const;
  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace internal

namespace internal {

/// A function and its programs; what calling and lowering share.
template <class F, class Statics>
class JitBody {
 public:
  JitBody(F f, JitOptions options, Location location, bool pjit)
      : f_(std::make_shared<F>(std::move(f))), core_(std::move(options), location, pjit) {}

  const JitCore& core() const { return core_; }

  template <class Args, class Then, class... Given>
  auto with_args(Then&& then, Given&&... given) const {
    constexpr bool same_number = sizeof...(Given) == std::tuple_size_v<Args>;
    static_assert(same_number,
                  "tessera: the function is called with another number of arguments than it takes");
    if constexpr (same_number) {
      using Seq = std::make_index_sequence<std::tuple_size_v<Args>>;
      if constexpr (check_arguments<Args, Statics>(Seq{})) {
        Args args{std::forward<Given>(given)...};
        return with_tuple(std::forward<Then>(then), args, Seq{});
      }
    }
  }

 private:
  template <class Then, class Args, std::size_t... I>
  auto with_tuple(Then&& then, Args& args, std::index_sequence<I...>) const {
    constexpr bool callable = std::is_invocable_v<F&, std::tuple_element_t<I, Args>&...>;
    static_assert(callable,
                  "tessera: the callable given to jit can't be called with these arguments");
    if constexpr (callable) {
      using R = std::remove_cvref_t<std::invoke_result_t<F&, std::tuple_element_t<I, Args>&...>>;
      static_assert(is_tree<R>(),
                    "tessera: a jitted function must return a tree of Array: Array, vector, array, "
                    "map, pair, tuple, optional, or a plain struct of these");
      if constexpr (is_tree<R>()) {
        CallInfo info;
        auto walk = [](Args& a, TreeVisitor& v) {
          v.begin(TreeVisitor::Node::tuple, traced_count<Args>());
          [[maybe_unused]] std::size_t n = 0;
          (walk_one<I>(std::get<I>(a), n, v), ...);
          v.end();
        };
        info.walk_args = [&args, walk](TreeVisitor& v) { walk(args, v); };
        info.leaves = collect_leaves(info.walk_args);
        info.arg_count = sizeof...(I);
        (add_range<I>(std::get<I>(args), info), ...);
        info.tree = tree_signature(info.walk_args);
        info.signature = info.tree;
        (add_static<I>(std::get<I>(args), info.signature), ...);
        info.paths = [&info] { return leaf_paths(info.walk_args); };
        info.trace = [&args, f = f_, walk](const std::vector<Array>& leaves,
                                           std::shared_ptr<void>* prototype) {
          Args copy = args;
          assign_leaves([&](TreeVisitor& v) { walk(copy, v); }, leaves);
          auto result = std::make_shared<R>(std::invoke(*f, std::get<I>(copy)...));
          std::vector<Array> out = tree_leaves(*result);
          *result = tree_map([](const Array&) { return Array(); }, *result);
          *prototype = result;
          return out;
        };
        info.walk_result = [](const std::shared_ptr<void>& prototype, TreeVisitor& v) {
          visit_tree(*std::static_pointer_cast<R>(prototype), v);
        };
        return then(info, std::type_identity<R>{});
      }
    }
  }

  template <class Args>
  static constexpr std::size_t traced_count() {
    std::size_t n = 0;
    for (int i = 0; i < int(std::tuple_size_v<Args>); ++i) n += Statics::contains(i) ? 0 : 1;
    return n;
  }
  template <std::size_t I, class T>
  static void walk_one(T& arg, std::size_t& n, TreeVisitor& v) {
    if constexpr (!Statics::contains(int(I))) {
      v.key(n++);
      visit_tree(arg, v);
    }
  }
  template <std::size_t I, class T>
  static void add_range(T& arg, CallInfo& info) {
    if constexpr (!Statics::contains(int(I))) {
      info.arg_ranges.emplace_back(
          int(I), int(collect_leaves([&](TreeVisitor& v) { visit_tree(arg, v); }).size()));
    }
  }
  template <std::size_t I, class T>
  static void add_static(const T& arg, std::string& signature) {
    if constexpr (Statics::contains(int(I))) {
      signature += ";" + std::to_string(I) + "=" + static_text(arg);
    }
  }

  std::shared_ptr<F> f_;
  JitCore core_;
};

/// The `lower` of a jitted function.
template <class F, class Statics>
class JitLower : public Calls<JitLower<F, Statics>, F> {
 public:
  explicit JitLower(const JitBody<F, Statics>& body) : body_(body) {}
  template <class... Given>
  auto call_at(Location location, Given&&... given) const {
    using Args = call_args_t<F, Statics, Given...>;
    return body_.template with_args<Args>(
        [&](CallInfo& info, auto result_tag) {
          using R = typename decltype(result_tag)::type;
          return LoweredFunction<R, typename traced_args<Args, Statics>::type>(
              body_.core().lower(info, location));
        },
        std::forward<Given>(given)...);
  }

 private:
  JitBody<F, Statics> body_;
};

}  // namespace internal

/// What jit returns: call it as the function itself. Copies share one cache of programs.
///
/// A call compiles at the first arguments of these types and placements, then runs. Inside another
/// trace it is a call of the traced function.
template <class F, class Statics>
class JitFunction : public internal::Calls<JitFunction<F, Statics>, F> {
 public:
  JitFunction(F f, JitOptions options, Location location, bool pjit)
      : JitFunction(
            internal::JitBody<F, Statics>(std::move(f), std::move(options), location, pjit)) {}

  /// `f.lower(arguments...)` traces without running and returns a LoweredFunction; arguments may be
  /// shape_dtype_structs. (An object, so that its messages know the line of the call.)
  internal::JitLower<F, Statics> lower;

  /// How often the function has been traced.
  std::int64_t trace_count() const { return body_.core().trace_count(); }
  /// Number of programs kept for calls.
  std::int64_t cache_size() const { return body_.core().cache_size(); }

  /// The call; `location` is named in messages.
  template <class... Given>
  auto call_at(Location location, Given&&... given) const {
    using Args = internal::call_args_t<F, Statics, Given...>;
    return body_.template with_args<Args>(
        [&](internal::CallInfo& info, auto result_tag) {
          using R = typename decltype(result_tag)::type;
          std::shared_ptr<void> prototype;
          std::vector<Array> leaves = body_.core().call(info, &prototype, location);
          return tree_unflatten(*std::static_pointer_cast<R>(prototype), leaves);
        },
        std::forward<Given>(given)...);
  }

 private:
  explicit JitFunction(const internal::JitBody<F, Statics>& body) : lower(body), body_(body) {}

  internal::JitBody<F, Statics> body_;
};

/// While in scope (on this thread), calls of jitted functions run the function itself: its
/// operations one by one, or as part of the function being traced. For debuggers and prints.
class DisableJit {
 public:
  DisableJit();
  ~DisableJit();
  DisableJit(const DisableJit&) = delete;
  DisableJit& operator=(const DisableJit&) = delete;
};

/// Forgets all compiled programs, of every jitted function and of single operations; what is called
/// next is traced and compiled anew. For programs that make many functions, or measure compiling:
/// each function keeps at most 4096 programs, the last ones called, until it is destroyed, and
/// equal programs of several functions are compiled once.
void clear_caches();

/// Compiles a function for the devices that its arguments lie on (jax.jit).
///
/// The function is traced once per combination of argument types, placements and static values;
/// after that the compiled program runs. Parameters that hold arrays are traced; those of
/// arithmetic, string or enum type must be listed in static_argnums. Of an overloaded function give
/// a lambda that calls it: its name alone doesn't say which one is meant. A function that calls
/// itself through jit never ends, and is a TracerError.
/// @code
/// auto step = jit([](Array x, Array w) { return relu(matmul(x, w)); },
///                 {.out_shardings = P("data")});
/// Array y = step(x, w);
/// auto power = jit([](Array x, int n) { ... }, static_argnums<1>);
/// @endcode
template <class F>
auto jit(F f, JitOptions options = {}, Location location = Location::current()) {
  return JitFunction<std::decay_t<F>, StaticArgnums<>>(std::move(f), std::move(options), location,
                                                       false);
}
template <class F, int... I>
auto jit(F f, StaticArgnums<I...>, JitOptions options = {},
         Location location = Location::current()) {
  return JitFunction<std::decay_t<F>, StaticArgnums<I...>>(std::move(f), std::move(options),
                                                           location, false);
}

/// jit in the manner of jax.experimental.pjit: nullptr in in_shardings and out_shardings means
/// replicated on the mesh in scope, if there is one.
template <class F>
auto pjit(F f, JitOptions options = {}, Location location = Location::current()) {
  return JitFunction<std::decay_t<F>, StaticArgnums<>>(std::move(f), std::move(options), location,
                                                       true);
}
template <class F, int... I>
auto pjit(F f, StaticArgnums<I...>, JitOptions options = {},
          Location location = Location::current()) {
  return JitFunction<std::decay_t<F>, StaticArgnums<I...>>(std::move(f), std::move(options),
                                                           location, true);
}

}  // namespace tessera
