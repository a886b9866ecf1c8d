// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/callable.h>
#include <tessera/sharding_tree.h>
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
  /// Keep parameters that the function doesn't use.
  bool keep_unused = false;
};

/// One HLO module of an executable.
class HloModule {
 public:
  explicit HloModule(std::string text) : text_(std::move(text)) {}
  const std::string& to_string() const { return text_; }

 private:
  std::string text_;
};

/// One collective of a compiled program, with the user's line that asked for it.
struct CollectiveInfo {
  std::string kind;           ///< "all-reduce", ...
  std::string op;             ///< the user's operation
  std::string location;       ///< "file:line"
  std::string from, to;       ///< specs in axis names
  double bytes_received = 0;  ///< by one device, per execution
  bool full_gather = false;
  std::string reason;
};

struct MemoryAnalysis {
  std::int64_t argument_bytes = 0, output_bytes = 0, temp_bytes = 0, alias_bytes = 0;
  std::int64_t peak_bytes_per_device = 0;
};
struct CostAnalysis {
  double flops = 0, bytes_received = 0;
};

namespace internal {
struct CompiledState;
struct LoweredState;
class JitCore;

/// What the typed wrapper tells the core about one call.
struct CallInfo {
  std::vector<Array> leaves;  ///< of all traced arguments
  std::vector<std::pair<int, int>>
      arg_ranges;         ///< (position, number of leaves) per traced argument
  std::string signature;  ///< trees and static values
  std::function<std::vector<std::string>()> paths;  ///< of the leaves, for messages
  std::function<void(TreeVisitor&)> walk_args;      ///< for in_shardings
  /// Traces: arguments rebuilt from leaves, the function called, its leaves returned. Also sets the
  /// prototype of the result.
  std::function<std::vector<Array>(const std::vector<Array>&, std::shared_ptr<void>*)> trace;
  std::function<void(const std::shared_ptr<void>&, TreeVisitor&)> walk_result;
};
}  // namespace internal

/// A compiled program (jax.stages.Compiled).
class Compiled {
 public:
  explicit Compiled(std::shared_ptr<internal::CompiledState> state) : state_(std::move(state)) {}
  /// HLO text of one device's program.
  std::string as_text() const;
  const Compiled& runtime_executable() const { return *this; }
  std::vector<HloModule> hlo_modules() const;
  /// One per array of the arguments and of the result.
  std::vector<Sharding> input_shardings() const;
  std::vector<Sharding> output_shardings() const;
  MemoryAnalysis memory_analysis() const;
  CostAnalysis cost_analysis() const;
  /// What is communicated and why.
  std::vector<CollectiveInfo> collectives() const;
  /// Operations computed on gathered operands because no partitioned form is known.
  std::vector<std::string> replicated_ops() const;
  /// Operations without a kernel, run by the reference interpreter.
  std::vector<std::string> evaluator_ops() const;
  /// Runs on the leaves of the arguments. TypeError listing the arguments that don't fit.
  std::vector<Array> call_flat(const std::vector<Array>& leaves,
                               Location location = Location::current()) const;
  const std::shared_ptr<internal::CompiledState>& state() const { return state_; }

 private:
  std::shared_ptr<internal::CompiledState> state_;
};

/// A traced program (jax.stages.Lowered).
class Lowered {
 public:
  explicit Lowered(std::shared_ptr<internal::LoweredState> state) : state_(std::move(state)) {}
  /// HLO text before partitioning, shardings as annotations. Only the dialect "hlo".
  std::string as_text(const std::string& dialect = "hlo",
                      Location location = Location::current()) const;
  Compiled compile(Location location = Location::current()) const;

 private:
  std::shared_ptr<internal::LoweredState> state_;
};

namespace internal {

class JitCore {
 public:
  JitCore(JitOptions options, Location location, bool pjit);
  /// The results' leaves; `prototype`: the result's tree.
  std::vector<Array> call(const CallInfo& info, std::shared_ptr<void>* prototype,
                          Location location);
  Lowered lower(const CallInfo& info, Location location);
  std::int64_t trace_count() const;
  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace internal

/// What jit returns: call it as the function itself.
template <class F, class Statics>
class JitFunction {
 public:
  JitFunction(F f, JitOptions options, Location location, bool pjit)
      : f_(std::make_shared<F>(std::move(f))), core_(std::move(options), location, pjit) {}

  /// Compiles at the first call with arguments of these types and placements, then runs. Inside
  /// another trace: a call of the traced function.
  template <class... Given>
  auto operator()(Given&&... given) const {
    using Args = internal::call_args_t<F, Statics, Given...>;
    return with_args<Args>(
        [&](internal::CallInfo& info, auto result_tag) {
          using R = typename decltype(result_tag)::type;
          std::shared_ptr<void> prototype;
          std::vector<Array> leaves = core_.call(info, &prototype, call_location(given...));
          return tree_unflatten(*std::static_pointer_cast<R>(prototype), leaves);
        },
        std::forward<Given>(given)...);
  }
  /// Traces without running: arguments may be shape_dtype_structs.
  template <class... Given>
  Lowered lower(Given&&... given) const {
    using Args = internal::call_args_t<F, Statics, Given...>;
    return with_args<Args>(
        [&](internal::CallInfo& info, auto) { return core_.lower(info, call_location(given...)); },
        std::forward<Given>(given)...);
  }
  /// How often the function has been traced.
  std::int64_t trace_count() const { return core_.trace_count(); }

 private:
  template <class... Given>
  static Location call_location(const Given&... given) {
    Location found;
    auto look = [&](const auto& g) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(g)>, Operand>) {
        if (!found.known()) found = g.location;
      }
    };
    (look(given), ...);
    return found;
  }

  template <class Args, class Then, class... Given>
  auto with_args(Then&& then, Given&&... given) const {
    static_assert(sizeof...(Given) == std::tuple_size_v<Args>,
                  "tessera: the jitted function is called with another number of arguments than it "
                  "takes");
    using Seq = std::make_index_sequence<std::tuple_size_v<Args>>;
    internal::check_arguments<Args, Statics>(Seq{});
    Args args{std::forward<Given>(given)...};
    return with_tuple(std::forward<Then>(then), args, Seq{});
  }

  template <class Then, class Args, std::size_t... I>
  auto with_tuple(Then&& then, Args& args, std::index_sequence<I...>) const {
    static_assert(std::is_invocable_v<F&, std::tuple_element_t<I, Args>&...>,
                  "tessera: the callable given to jit can't be called with these arguments");
    using R = std::remove_cvref_t<std::invoke_result_t<F&, std::tuple_element_t<I, Args>&...>>;
    static_assert(internal::is_tree<R>(),
                  "tessera: a jitted function must return a tree of Array: Array, vector, array, "
                  "map, pair, tuple, optional, or a plain struct of these");
    internal::CallInfo info;
    auto walk = [](Args& a, internal::TreeVisitor& v) {
      v.begin(internal::TreeVisitor::Node::tuple, traced_count<Args>());
      std::size_t n = 0;
      (walk_one<I>(std::get<I>(a), n, v), ...);
      v.end();
    };
    info.walk_args = [&args, walk](internal::TreeVisitor& v) { walk(args, v); };
    info.leaves = internal::collect_leaves(info.walk_args);
    (add_range<I>(std::get<I>(args), info), ...);
    info.signature = internal::tree_signature(info.walk_args);
    (add_static<I>(std::get<I>(args), info.signature), ...);
    info.paths = [&info] { return internal::leaf_paths(info.walk_args); };
    info.trace = [&args, f = f_, walk](const std::vector<Array>& leaves,
                                       std::shared_ptr<void>* prototype) {
      Args copy = args;
      internal::assign_leaves([&](internal::TreeVisitor& v) { walk(copy, v); }, leaves);
      auto result = std::make_shared<R>(std::invoke(*f, std::get<I>(copy)...));
      std::vector<Array> out = tree_leaves(*result);
      *result = tree_map([](const Array&) { return Array(); }, *result);
      *prototype = result;
      return out;
    };
    info.walk_result = [](const std::shared_ptr<void>& prototype, internal::TreeVisitor& v) {
      internal::visit_tree(*std::static_pointer_cast<R>(prototype), v);
    };
    return then(info, std::type_identity<R>{});
  }

  template <class Args>
  static constexpr std::size_t traced_count() {
    std::size_t n = 0;
    for (int i = 0; i < int(std::tuple_size_v<Args>); ++i) n += Statics::contains(i) ? 0 : 1;
    return n;
  }
  template <std::size_t I, class T>
  static void walk_one(T& arg, std::size_t& n, internal::TreeVisitor& v) {
    if constexpr (!Statics::contains(int(I))) {
      v.key(n++);
      internal::visit_tree(arg, v);
    }
  }
  template <std::size_t I, class T>
  static void add_range(T& arg, internal::CallInfo& info) {
    if constexpr (!Statics::contains(int(I))) {
      info.arg_ranges.emplace_back(int(I), int(tree_leaves(arg).size()));
    }
  }
  template <std::size_t I, class T>
  static void add_static(const T& arg, std::string& signature) {
    if constexpr (Statics::contains(int(I))) {
      signature += ";" + std::to_string(I) + "=" + internal::static_text(arg);
    }
  }

  std::shared_ptr<F> f_;
  mutable internal::JitCore core_;
};

/// Compiles a function for the devices that its arguments lie on (jax.jit).
///
/// The function is traced once per combination of argument types, placements and static values;
/// after that the compiled program runs. Parameters that hold arrays are traced; those of
/// arithmetic, string or enum type must be listed in static_argnums.
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
