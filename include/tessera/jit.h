// SPDX-License-Identifier: Apache-2.0
// Traced and compiled functions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/detail/callable.h>
#include <tessera/detail/function_body.h>
#include <tessera/network.h>
#include <tessera/sharding/layouts.h>
#include <tessera/sharding/sharding_tree.h>
#include <tessera/stages.h>
#include <tessera/tree.h>

namespace tessera {

/// Options of `jit` and `pjit`.
struct JitOptions {
  /// Shardings of the arguments: one for all, `tree(...)` with one per argument, static ones left
  /// out, or `dict(...)` by the names of `arg_names`, where arguments without a name in it are
  /// UNSPECIFIED; each is a prefix of the argument's tree. Uncommitted arguments are placed
  /// accordingly; a committed argument with another sharding is a ValueError, as is any in another
  /// kind of memory.
  ShardingTree in_shardings{};
  /// Shardings of the results: a prefix of the result's tree. Unspecified ones are chosen by the
  /// compiler.
  ShardingTree out_shardings{};
  /// Positions of arguments whose memory results may reuse. An array whose memory is reused is
  /// deleted by the call; one whose memory no result can use stays alive, with a warning.
  std::vector<int> donate_argnums{};
  /// Name of the function in messages and in the text of programs.
  std::string name{};
  /// Names of the arguments in messages, from the first on.
  std::vector<std::string> arg_names{};
  /// Keep parameters that the function doesn't use in the compiled program; by default they are
  /// removed.
  bool keep_unused = false;
  /// How intermediate arrays are sharded: as propagation of the annotations implies
  /// (Layouts::propagated), or as a solver for the cheapest program finds (Layouts::solved). If
  /// unset, TESSERA_LAYOUTS decides when a program is compiled; its default is `solved`. When one
  /// jitted function calls another, the outer function's option applies.
  std::optional<Layouts> layouts{};
  /// Bytes that one device may hold, where shardings are solved for (Layouts::solved): the cheapest
  /// program that is found within them is taken, and the propagated one if there is none. If unset,
  /// TESSERA_MEMORY_BUDGET decides; its default is a quarter more than the propagated program
  /// takes. Memory is estimated before the program is compiled to the end.
  std::optional<std::int64_t> memory_budget{};
  /// The machine that shardings and reshards are chosen for. If unset, TESSERA_NETWORK decides; by
  /// default the bytes that a device receives count most, whichever axes they come over.
  std::optional<Network> network{};
  /// Names in `arg_names` of more arguments whose memory results may reuse; see donate_argnums.
  std::vector<std::string> donate_argnames{};
  /// The device on which the function runs: all arguments are moved there, also such as are split
  /// over several devices. Not with `in_shardings`, `out_shardings` or a mesh in scope, nor for a
  /// function that another traced function calls.
  std::optional<Device> device{};
  /// Older name of `in_shardings`, of pjit only: specs, nullptr (replicated) or FROM_GDA. Giving
  /// both is an error. A call needs a mesh in scope.
  ShardingTree in_axis_resources{};
  /// Older name of `out_shardings`, as `in_axis_resources`.
  ShardingTree out_axis_resources{};
};

namespace internal {

/// What the key of a call has besides its arrays.
struct KnownCall {
  std::string signature;
  TypeKey types;
};

class JitCore {
 public:
  JitCore(JitOptions options, Location location, bool pjit);
  /// The results' leaves; `prototype`: the result's tree.
  std::vector<Array> call(const CallInfo& info, Prototype* prototype, Location location) const;
  /// The results of a call like one before, without handles on the arguments, if that may be.
  std::optional<std::vector<Array>> call_known(const KnownCall& call, std::span<const Array> args,
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

/// The options with these names. ValueError if they state other ones.
JitOptions with_names(JitOptions options, std::vector<std::string> names, Location location);

/// A function and its cache of programs, shared by calls and `lower`.
template <class F, class Statics>
class JitBody : public FunctionBody<F, Statics> {
 public:
  JitBody(F f, JitCore core) : FunctionBody<F, Statics>(std::move(f)), core_(std::move(core)) {}

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

/// A function wrapped by `jit`: called like the function itself. Copies share one cache of compiled
/// programs. It may be called from several threads.
template <class F, class Statics>
class JitFunction : public internal::Calls<JitFunction<F, Statics>, F> {
 public:
  /// The wrapped function's type.
  using wrapped_function = F;

  /// For internal use; see `jit`.
  JitFunction(F f, internal::JitCore core)
      : JitFunction(internal::JitBody<F, Statics>(std::move(f), std::move(core))) {}

  /// `f.lower(arguments...)` traces the function without running it and returns a LoweredFunction
  /// (jax.stages). Arguments may be arrays or shape_dtype_structs.
  /// @code
  /// auto compiled = f.lower(x, w).compile();
  /// std::cout << compiled.as_text();   // one device's program
  /// @endcode
  /// Errors are those of a call; within a traced function it is a TracerError.
  internal::JitLower<F, Statics> lower;

  /// Number of times the function has been traced.
  std::int64_t trace_count() const { return body_.core().trace_count(); }
  /// Number of compiled programs kept for calls.
  std::int64_t cache_size() const { return body_.core().cache_size(); }

  /// For internal use.
  const internal::JitCore& core() const { return body_.core(); }

  /// Calls the function; messages name `location`.
  template <class... Given>
  auto call_at(Location location, Given&&... given) const {
    return body_.call_with(body_.core(), location, std::forward<Given>(given)...);
  }

 private:
  explicit JitFunction(const internal::JitBody<F, Statics>& body) : lower(body), body_(body) {}

  internal::JitBody<F, Statics> body_;
};

/// While in scope, calls of jitted functions on this thread run the function itself, one operation
/// after another (jax.disable_jit). For debugging: values can be printed and inspected. Loops and
/// branches remain programs.
class DisableJit {
 public:
  /// Begins the scope.
  DisableJit();
  /// Ends the scope.
  ~DisableJit();
  DisableJit(const DisableJit&) = delete;
  DisableJit& operator=(const DisableJit&) = delete;
};

/// Drops all compiled programs, of every jitted function and of single operations
/// (jax.clear_caches). Later calls trace and compile again.
///
/// It is seldom needed: a function keeps the 4096 programs called last until it is destroyed, and
/// equal programs of different functions are compiled once.
void clear_caches();

/// Wraps a function of arrays so that calls trace, compile and run it (jax.jit).
///
/// The first call for a combination of argument types, shardings and static values traces the
/// function: it runs once, with tracers for arrays, and records its operations. The program is
/// compiled for the devices of the committed arguments and of the given shardings, or else the
/// default device, and partitioned among them. Later calls run the compiled program. Within another
/// traced function a call becomes part of that program.
///
/// Parameters are trees of Array (or `auto`). Parameters of arithmetic, string or enum type must be
/// listed in `static_argnums`; otherwise the call doesn't compile. For an overloaded function pass
/// a lambda that calls it. C++ control flow runs while tracing; `cond`, `while_loop`, `fori_loop`
/// and `scan` become part of the program.
/// @code
/// auto step = jit([](Array x, Array w) { return relu(matmul(x, w)); },
///                 {.out_shardings = NamedSharding(mesh, P("data"))});
/// Array y = step(x, w);
///
/// auto power = jit([](Array x, int n) {
///   Array out = x;
///   for (int i = 1; i < n; ++i) out = out * x;
///   return out;
/// }, static_argnums<1>);
/// Array cubes = power(x, 3);
/// @endcode
/// @param f  The function; exceptions it throws pass through unchanged.
/// @param options  Shardings, donation, names.
/// @param location  The line named in messages where a call has none.
///
/// `jit` itself checks its options:
/// @throws ValueError if a spec holds UNCONSTRAINED, a position is negative, a name isn't in
///   `arg_names`, or an option is given by its older name too.
/// @throws DuplicateSpecError if a spec names an axis twice.
///
/// Calls check their arguments:
/// @throws ValueError if a committed argument's sharding isn't that of `in_shardings`, an argument
///   with FROM_GDA isn't placed on a mesh, arguments and shardings are on different devices, or
///   `in_shardings` or `out_shardings` isn't a prefix of its tree.
/// @throws IndivisibleError if an argument or result can't be split evenly as requested.
/// @throws RuntimeError if a spec has no mesh in scope, or an argument has been deleted.
/// @throws TracerError if the function reads the value of a tracer, or calls itself.
/// @throws CompileError if the program can't be compiled as requested.
template <class F>
auto jit(F f, JitOptions options = {}, Location location = Location::current()) {
  return JitFunction<std::decay_t<F>, StaticArgnums<>>(
      std::move(f), internal::JitCore(std::move(options), location, false));
}
/// The same with static parameters: `jit(f, static_argnums<1>)`.
template <class F, int... I>
auto jit(F f, StaticArgnums<I...>, JitOptions options = {},
         Location location = Location::current()) {
  return JitFunction<std::decay_t<F>, StaticArgnums<I...>>(
      std::move(f), internal::JitCore(std::move(options), location, false));
}
/// The same with static parameters by name: `jit(f, static_argnames<"n">, arg_names<"x", "n">)`.
/// @throws ValueError if `options.arg_names` has other names.
template <class F, internal::FixedText... Static, internal::FixedText... Name>
auto jit(F f, StaticArgnames<Static...>, ArgNames<Name...>, JitOptions options = {},
         Location location = Location::current()) {
  return jit(std::move(f), StaticArgnames<Static...>::template positions<ArgNames<Name...>>(),
             internal::with_names(std::move(options), ArgNames<Name...>::list(), location),
             location);
}

/// `jit`, except that nullptr in `in_shardings` and `out_shardings` means replicated on the mesh in
/// scope (jax.experimental.pjit). To `jit` nullptr is the same as UNSPECIFIED.
/// @code
/// const MeshScope scope(make_mesh({{"x", 8}}));
/// auto f = pjit([](Array a, Array b) { return a + b; },
///               {.in_shardings = tree(P("x"), nullptr), .out_shardings = P("x")});
/// @endcode
template <class F>
auto pjit(F f, JitOptions options = {}, Location location = Location::current()) {
  return JitFunction<std::decay_t<F>, StaticArgnums<>>(
      std::move(f), internal::JitCore(std::move(options), location, true));
}
/// The same with static parameters.
template <class F, int... I>
auto pjit(F f, StaticArgnums<I...>, JitOptions options = {},
          Location location = Location::current()) {
  return JitFunction<std::decay_t<F>, StaticArgnums<I...>>(
      std::move(f), internal::JitCore(std::move(options), location, true));
}
/// The same with static parameters by name: `pjit(f, static_argnames<"n">, arg_names<"x", "n">)`.
/// @throws ValueError if `options.arg_names` has other names.
template <class F, internal::FixedText... Static, internal::FixedText... Name>
auto pjit(F f, StaticArgnames<Static...>, ArgNames<Name...>, JitOptions options = {},
          Location location = Location::current()) {
  return pjit(std::move(f), StaticArgnames<Static...>::template positions<ArgNames<Name...>>(),
              internal::with_names(std::move(options), ArgNames<Name...>::list(), location),
              location);
}

}  // namespace tessera
