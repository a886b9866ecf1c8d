// SPDX-License-Identifier: Apache-2.0
// Programs from files: what `jax.jit(f).lower(...).as_text()` printed, called as C++ functions.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/array.h>
#include <tessera/callable.h>
#include <tessera/layouts.h>
#include <tessera/mesh.h>
#include <tessera/stages.h>
#include <tessera/tree.h>

namespace tessera {

/// How a program is loaded.
struct LoadOptions {
  /// Keep the shardings in the file. Otherwise the program lies where its arguments lie, and is
  /// partitioned as they are sharded.
  bool shardings = true;
  /// As JitOptions::layouts, for calls outside of any trace. Under jit that function's is what
  /// counts.
  std::optional<Layouts> layouts{};
};

template <class Signature>
class TypedLoadedFunction;

namespace internal {
struct LoadedState;
struct AnyArguments {};
}  // namespace internal

/// A program that was read from text. Call it with arrays, or with a vector of them; it gives a
/// vector of arrays, one per result. Copies share one cache of compiled programs.
///
/// A call outside of any trace compiles at the first arguments of these placements, then runs.
/// Under `jit` (or in any other trace) it is staged as a call. Shardings in the file are kept:
/// uncommitted arguments are placed as their parameters say, others are resharded, and the
/// results lie as the file says. The devices are then the first ones there are, as many as the
/// file's mesh has. Arguments that the file marks as donated stay alive, unless jit's
/// donate_argnums names them.
/// @code
/// auto model = load_stablehlo("model.mlir");
/// Array y = model(x, w)[0];
/// auto step = jit([&](Array x, Array w) { return relu(model(x, w)[0]); });
/// @endcode
class LoadedFunction : public internal::Calls<LoadedFunction, internal::AnyArguments> {
 public:
  explicit LoadedFunction(std::shared_ptr<internal::LoadedState> state)
      : state_(std::move(state)) {}

  /// The module's name.
  const std::string& name() const;
  /// Names, shapes and dtypes. The sharding is set where the file has one.
  std::vector<ValueInfo> parameters(Location location = Location::current()) const;
  std::vector<ValueInfo> results(Location location = Location::current()) const;
  /// The file's mesh over the first devices; empty if the file has none, or one whose order of
  /// devices no mesh of axes can say.
  Mesh mesh(Location location = Location::current()) const;
  /// How often the program has been compiled for calls of its own.
  std::int64_t cache_size() const;

  using internal::Calls<LoadedFunction, internal::AnyArguments>::operator();
  /// TypeError for a wrong number of arguments, ShapeError and DTypeError for arguments that don't
  /// fit: they name the parameter, the file and the line of the call. Plain C++ numbers take the
  /// parameter's dtype.
  std::vector<Array> operator()(const std::vector<Array>& args,
                                Location location = Location::current()) const {
    return call_at(location, args);
  }
  /// The call; `location` is named in messages.
  std::vector<Array> call_at(Location location, const std::vector<Array>& args) const;
  template <class... A>
  requires(std::is_convertible_v<A, Array>&&...) std::vector<Array> call_at(Location location,
                                                                            A&&... args)
  const { return call_at(location, std::vector<Array>{Array(std::forward<A>(args))...}); }

  /// The same function with C++ types: parameters and results are trees whose arrays, in order,
  /// are those of the program. TypeError if the program has other numbers of them.
  /// @code
  /// auto step = load_stablehlo("step.mlir").as<std::tuple<Params, Array>(Params, Array)>();
  /// auto [params, loss] = step(old, batch);
  /// @endcode
  template <class Signature>
  TypedLoadedFunction<Signature> as(Location location = Location::current()) const {
    return TypedLoadedFunction<Signature>(*this, location);
  }

 private:
  std::shared_ptr<internal::LoadedState> state_;
};

/// What LoadedFunction::as returns.
template <class R, class... A>
class TypedLoadedFunction<R(A...)>
    : public internal::Calls<TypedLoadedFunction<R(A...)>, R (*)(A...)> {
  static constexpr bool any_number = std::is_same_v<R, std::vector<Array>>;
  static_assert(internal::is_tree<R>(), "tessera: the result must be a tree of Array");
  static_assert((internal::is_tree<std::remove_cvref_t<A>>() && ...),
                "tessera: each parameter must be a tree of Array");

 public:
  TypedLoadedFunction(LoadedFunction f, Location location) : f_(std::move(f)) {
    if constexpr (!any_number) {
      const std::size_t want = tree_leaves(R{}).size(), met = f_.results(location).size();
      if (want != met) {
        throw TypeError("'" + f_.name() + "' has " + std::to_string(met) +
                            " results, and the type asked for holds " + std::to_string(want) +
                            " arrays",
                        location);
      }
    }
  }
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

/// Reads a program in StableHLO text. IoError, or ParseError with line and column.
LoadedFunction load_stablehlo(const std::string& path, const LoadOptions& options = {},
                              Location location = Location::current());
/// Reads a program in HLO text. IoError, or ParseError with line and column.
LoadedFunction load_hlo(const std::string& path, const LoadOptions& options = {},
                        Location location = Location::current());

}  // namespace tessera
