// SPDX-License-Identifier: Apache-2.0
// Programs in StableHLO and HLO text, such as JAX exports, as C++ functions.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/array.h>
#include <tessera/detail/callable.h>
#include <tessera/mesh.h>
#include <tessera/sharding/layouts.h>
#include <tessera/stages.h>
#include <tessera/tree.h>

namespace tessera {

/// Options of `load_stablehlo` and `load_hlo`.
struct LoadOptions {
  /// Keep the shardings in the file. If false, they are dropped and the program is partitioned
  /// according to its arguments' shardings, as any function under `jit`.
  bool shardings = true;
  /// As JitOptions::layouts, for calls outside of traced functions. Under `jit` the option of the
  /// jitted function applies.
  std::optional<Layouts> layouts{};
};

template <class Signature>
class TypedLoadedFunction;

namespace internal {
struct LoadedState;
struct AnyArguments {};
}  // namespace internal

/// A program loaded from text. Called with arrays, or a vector of them, it returns a vector with
/// one array per result. Copies share one cache of compiled programs.
///
/// The first call for a combination of arguments' shardings compiles the program. Within a traced
/// function a call becomes part of that program. With the file's shardings the program runs on the
/// first devices, as many as its mesh has; arguments are placed or resharded to match its
/// parameters, and results have the shardings that it states. Arguments that the file marks as
/// donated stay alive; `donate_argnums` of `jit` donates them.
///
/// A program with dimensions of unknown size, such as `jax.export` writes for symbolic shapes, is
/// specialised to the sizes of the arguments at the first call with them, and compiled once for
/// each list of sizes. The 256 lists that were used last are kept.
/// @code
/// auto model = load_stablehlo("model.mlir");
/// Array y = model(x, w)[0];
/// auto step = jit([&](Array x, Array w) { return relu(model(x, w)[0]); });
/// @endcode
class LoadedFunction : public internal::Calls<LoadedFunction, internal::AnyArguments> {
 public:
  /// For internal use; see `load_stablehlo`.
  explicit LoadedFunction(std::shared_ptr<internal::LoadedState> state)
      : state_(std::move(state)) {}

  /// Name of the module.
  const std::string& name() const;
  /// Describes the parameters: names, shapes, dtypes, and the file's shardings. In a program with
  /// dimensions of unknown size these are -1, and the shardings aren't `valid()`.
  /// @throws ValueError if the file's shardings need more devices than there are.
  std::vector<ValueInfo> parameters(Location location = Location::current()) const;
  /// Describes the results, as `parameters`.
  std::vector<ValueInfo> results(Location location = Location::current()) const;
  /// The file's mesh, over the first devices; empty if the file has none or its order of devices
  /// can't be that of a mesh, or for a program with dimensions of unknown size.
  /// @throws ValueError if it needs more devices than there are.
  Mesh mesh(Location location = Location::current()) const;
  /// Number of compiled programs kept for calls outside of traced functions.
  std::int64_t cache_size() const;

  /// Calls the program with up to four arrays or plain numbers, or more.
  using internal::Calls<LoadedFunction, internal::AnyArguments>::operator();
  /// Calls the program. Plain C++ numbers adopt the parameter's dtype.
  /// @throws TypeError if the number of arguments is wrong.
  /// @throws ShapeError if an argument's shape, or DTypeError if its dtype differs from the
  ///   parameter's; messages name the parameter, the file and the line of the call. ShapeError,
  ///   too, if the program states constraints on unknown sizes that these don't meet.
  /// @throws ParseError or NotImplementedError if a program with dimensions of unknown size has a
  ///   fault, or one of its sizes doesn't follow from those of the arguments.
  /// @throws ValueError if the file's shardings need more devices than there are, or the program
  ///   has shardings and is called in per-device code.
  std::vector<Array> operator()(const std::vector<Array>& args,
                                Location location = Location::current()) const {
    return call_at(location, args);
  }
  /// Calls the program; messages name `location`.
  std::vector<Array> call_at(Location location, const std::vector<Array>& args) const;
  /// The same for arrays or plain numbers.
  template <class... A>
  requires(std::is_convertible_v<A, Array>&&...) std::vector<Array> call_at(Location location,
                                                                            A&&... args)
  const { return call_at(location, std::vector<Array>{Array(std::forward<A>(args))...}); }

  /// Returns the same function with C++ types `Result(Parameters...)`: trees whose arrays, in
  /// order, are the program's parameters and results.
  /// @code
  /// auto step = load_stablehlo("step.mlir").as<std::tuple<Params, Array>(Params, Array)>();
  /// auto [params, loss] = step(old, batch);
  /// @endcode
  /// @throws TypeError if the result type doesn't have as many arrays as the program has results.
  template <class Signature>
  TypedLoadedFunction<Signature> as(Location location = Location::current()) const {
    return TypedLoadedFunction<Signature>(*this, location);
  }

 private:
  std::shared_ptr<internal::LoadedState> state_;
};

/// A loaded program with C++ types, as LoadedFunction::as returns it.
template <class R, class... A>
class TypedLoadedFunction<R(A...)>
    : public internal::Calls<TypedLoadedFunction<R(A...)>, R (*)(A...)> {
  static constexpr bool any_number = std::is_same_v<R, std::vector<Array>>;
  static_assert(!internal::fields_found<R>() || internal::is_tree<R>(),
                "tessera: the result must be a tree of Array");
  static_assert(((!internal::fields_found<std::remove_cvref_t<A>>() ||
                  internal::is_tree<std::remove_cvref_t<A>>()) &&
                 ...),
                "tessera: each parameter must be a tree of Array");

 public:
  /// For internal use; see LoadedFunction::as.
  TypedLoadedFunction(LoadedFunction f, Location location) : f_(std::move(f)) {
    if constexpr (!any_number) {
      const std::size_t want = tree_leaves(R{}).size(), met = f_.results(location).size();
      if (want != met) {
        throw TypeError("'" + f_.name() + "' has " + std::to_string(met) +
                            " results, and the requested type has " + std::to_string(want) +
                            " arrays",
                        location);
      }
    }
  }
  /// Calls the program; messages name `location`. Errors are those of LoadedFunction.
  R call_at(Location location, const std::remove_cvref_t<A>&... args) const {
    std::vector<Array> leaves;
    auto append = [&](const auto& tree) {
      for (Array& leaf : tree_leaves(tree)) leaves.push_back(std::move(leaf));
    };
    (append(args), ...);
    std::vector<Array> results = f_.call_at(location, leaves);
    if constexpr (any_number) {
      return results;
    } else {
      return tree_unflatten(R{}, results);
    }
  }

 private:
  LoadedFunction f_;
};

/// Loads a program in StableHLO text, as `jax.jit(f).lower(...).as_text()` prints it, or in MLIR
/// bytecode, as `jax.export` and `stablehlo.serialize_portable_artifact` write it.
/// @code
/// auto step = load_stablehlo("step.mlir");
/// std::vector<Array> out = step(w, x);
/// @endcode
/// @throws IoError if the file can't be read.
/// @throws ParseError, with line and column (of bytecode: with the byte and the operation), if the
///   program can't be parsed.
/// @throws NotImplementedError for unsupported constructs, or parameters or results that aren't
///   arrays.
/// @throws ShardingError if the program has per-device code and `options.shardings` is false.
LoadedFunction load_stablehlo(const std::string& path, const LoadOptions& options = {},
                              Location location = Location::current());
/// Loads a program in HLO text, as XLA prints it. Errors are those of `load_stablehlo`.
LoadedFunction load_hlo(const std::string& path, const LoadOptions& options = {},
                        Location location = Location::current());

}  // namespace tessera
