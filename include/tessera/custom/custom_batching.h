// SPDX-License-Identifier: Apache-2.0
// Functions that say themselves what they are on a batch.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/custom_derivative.h>

namespace tessera {

/// What the rule of a `custom_vmap` function is told of the batch.
struct BatchInfo {
  /// Entries of the batch.
  std::int64_t axis_size = 0;
  /// For each array of the arguments, in order, whether it holds the batch, as dimension 0; if not,
  /// it is the same for all entries.
  std::vector<bool> in_batched;
};

namespace internal {

/// The rule of one custom_vmap function: its results, and which of them hold the batch.
struct FlatVmapRule {
  using Results = std::pair<std::vector<Array>, std::vector<bool>>;
  /// Empty: one entry after the other.
  std::function<Results(const BatchInfo&, const std::vector<Array>&)> rule;
};

std::vector<Array> call_custom_vmap(const CallInfo& info, Prototype* prototype,
                                    const std::string& name, FlatVmapRule rule, Location location);

/// One flag per array.
inline std::vector<bool> flags_for(std::size_t count, bool all) {
  return std::vector<bool>(count, all);
}
inline std::vector<bool> flags_for(std::size_t, std::vector<bool> each) { return each; }

}  // namespace internal

/// A function with a rule for batches, made by `custom_vmap` or `sequential_vmap`.
template <class F>
class CustomVmap : public internal::CustomFunction<CustomVmap<F>, F, internal::FlatVmapRule> {
  using Base = internal::CustomFunction<CustomVmap<F>, F, internal::FlatVmapRule>;
  using typename Base::Held;

 public:
  using Base::Base;

  /// The rule: `rule(batch, arguments...)` gets a BatchInfo and the function's arguments, of which
  /// some hold the batch as dimension 0. It returns the result with the batch as dimension 0, or a
  /// pair of the result and a bool, or a std::vector<bool> with one for each array of the result:
  /// whether it holds the batch. Copies made before don't see it.
  /// @code
  /// auto f = custom_vmap([](Array a, Array x) { return matmul(a, x); });
  /// f.def_vmap([](const BatchInfo& batch, Array a, Array x) {
  ///   if (batch.in_batched[0]) throw ValueError("the matrix must be the same for all entries");
  ///   return matmul(x, transpose(a));
  /// });
  /// @endcode
  template <class Rule>
  CustomVmap& def_vmap(Rule rule) {
    this->rule_ = [rule = std::make_shared<Rule>(std::move(rule))](const Held& held) {
      return internal::FlatVmapRule{[rule, held](const BatchInfo& batch,
                                                 const std::vector<Array>& leaves) {
        return flat(std::apply([&](auto&&... args) { return std::invoke(*rule, batch, args...); },
                               internal::trees_in_order(held, leaves)));
      }};
    };
    return *this;
  }

  /// For internal use.
  CustomVmap& one_by_one() {
    this->rule_ = [](const Held&) { return internal::FlatVmapRule{}; };
    return *this;
  }
  /// For internal use.
  static constexpr const char *kMade = "custom_vmap", *kDefinition = "def_vmap";
  /// For internal use.
  static std::vector<Array> stage(const internal::CallInfo& info, internal::Prototype* prototype,
                                  const std::string& name, internal::FlatVmapRule rule,
                                  Location location) {
    return internal::call_custom_vmap(info, prototype, name, std::move(rule), location);
  }

 private:
  using Args = typename internal::args_of<F>::type;
  using Result = std::decay_t<decltype(std::apply(std::declval<F&>(), std::declval<Args&>()))>;

  template <class Given>
  static internal::FlatVmapRule::Results flat(const Given& given) {
    if constexpr (std::is_same_v<Given, Result>) {
      std::vector<Array> leaves = internal::leaves_in_order(given);
      std::vector<bool> all(leaves.size(), true);
      return {std::move(leaves), std::move(all)};
    } else {
      static_assert(std::is_same_v<std::decay_t<decltype(given.first)>, Result>,
                    "tessera: a rule of custom_vmap returns what the function returns, or a pair "
                    "of that and a bool or a std::vector<bool>");
      std::vector<Array> leaves = internal::leaves_in_order(given.first);
      std::vector<bool> flags = internal::flags_for(leaves.size(), given.second);
      return {std::move(leaves), std::move(flags)};
    }
  }
};

/// A function that says itself what it is on a batch (jax.custom_batching.custom_vmap). Its
/// derivative is that of `f`, and batched as that is. Its parameters must be stated types, not
/// `auto`; arrays that it captures must be the same for all entries.
/// @param f  The function, of trees of Array.
/// @param name  Its name in messages.
/// @return A CustomVmap; its rule is set by `def_vmap`.
/// Under vmap calls throw TypeError if the rule's trees, shapes or dtypes are wrong, ValueError if
/// the function captures an array that differs between entries; without a rule, TypeError.
template <class F>
auto custom_vmap(F f, std::string name = "custom_vmap", Location location = Location::current()) {
  static_assert(internal::KnownSignature<F>,
                "tessera: custom_vmap needs a function whose parameters have stated types");
  return CustomVmap<std::decay_t<F>>(std::move(f), std::move(name), location);
}

/// A function that a vmap calls for one entry after the other, in a loop
/// (jax.custom_batching.sequential_vmap): for what needs much memory, say. As `custom_vmap`.
template <class F>
auto sequential_vmap(F f, std::string name = "sequential_vmap",
                     Location location = Location::current()) {
  static_assert(internal::KnownSignature<F>,
                "tessera: sequential_vmap needs a function whose parameters have stated types");
  CustomVmap<std::decay_t<F>> out(std::move(f), std::move(name), location);
  out.one_by_one();
  return out;
}

}  // namespace tessera
