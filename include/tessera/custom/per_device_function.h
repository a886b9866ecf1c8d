// SPDX-License-Identifier: Apache-2.0
// The per-device function of custom_partitioning.
#pragma once

#include <any>
#include <cstddef>
#include <functional>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <tessera/detail/callable.h>
#include <tessera/tree.h>

namespace tessera {

/// The per-device function that a `partition` callback returns.
///
/// Any callable with the parameters of the partitioned function, static ones left out; a copy is
/// kept. It is traced on the shapes of the shards, may use the collectives of tessera/collectives.h
/// by the mesh's axis names, and may not capture traced arrays (TracerError). Other arrays that it
/// captures are constants of the program: each device has the whole array, wherever it is placed.
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
  [[noreturn]] static void wrong_type(std::size_t position, const std::type_info& takes,
                                      const std::type_info& given, Location);

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
    wrong_type(i, typeid(Held), args[i].type(), location);
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

}  // namespace tessera
