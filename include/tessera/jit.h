// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/callable.h>
#include <tessera/function_body.h>
#include <tessera/layouts.h>
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
  /// How intermediate arrays are sharded: Layouts::propagated as the annotations imply, which
  /// compiles fast, Layouts::searched as a search finds to be cheaper. If it isn't set,
  /// TESSERA_LAYOUTS says it when a program is compiled, else it is searched. Where one jitted
  /// function calls another, what is asked of the outer one holds.
  std::optional<Layouts> layouts{};
};

namespace internal {

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
class JitBody : public FunctionBody<F, Statics> {
 public:
  JitBody(F f, JitOptions options, Location location, bool pjit)
      : FunctionBody<F, Statics>(std::move(f)), core_(std::move(options), location, pjit) {}

  const JitCore& core() const { return core_; }

 private:
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
  using wrapped_function = F;

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
    return body_.call_with(body_.core(), location, std::forward<Given>(given)...);
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
