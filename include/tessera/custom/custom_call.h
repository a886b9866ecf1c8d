// SPDX-License-Identifier: Apache-2.0
// Custom calls: functions by name, implemented by Tessera or by the user.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <tessera/array.h>
#include <tessera/custom/buffer_view.h>
#include <tessera/custom/call_attributes.h>
#include <tessera/sharding/sharding_rule.h>

namespace tessera {

/// Implementation of a custom call target: either `compute` or `like`.
struct CustomCall {
  /// Computes one device's parts of the results from its parts of the operands, all row-major
  /// whatever layouts a program's text requests. It may be called from several threads at once.
  /// Exceptions pass through unchanged.
  std::function<void(std::span<const BufferView> operands,
                     std::span<const MutableBufferView> results, const CallAttributes& attributes)>
      compute{};
  /// The same in terms of Tessera's operations: traced in place of the call and partitioned like
  /// any program.
  std::function<std::vector<Array>(const std::vector<Array>& operands,
                                   const CallAttributes& attributes)>
      like{};
  /// How the dimensions of the operands and results of `compute` correspond, for example "... i j
  /// -> ... i j" (see ShardingRule). Arrays may be split along factors that aren't listed in
  /// need_replication_factors. Without a rule `compute` is given entire arrays on each device.
  std::string sharding_rule{};
  /// Kinds and sizes of the rule's factors. Reduction factors are gathered, as `compute` can't sum
  /// over devices.
  ShardingRuleOptions sharding_rule_options{};
  /// Validates operands, results and attributes by throwing if they don't fit; called when the call
  /// is staged and again when a program is compiled. It must not read the views' elements.
  std::function<void(std::span<const BufferView> operands,
                     std::span<const MutableBufferView> results, const CallAttributes& attributes)>
      check{};
  /// Whether the function is pure: its results depend on its operands only and it has no side
  /// effects. Calls of a pure function may be removed, merged, run once for several devices, or run
  /// while compiling.
  bool pure = true;
};

/// Registers a target by its name, for `custom_call` and for calls in HLO and StableHLO text, until
/// the process ends.
/// @code
/// register_custom_call("scale", {.compute =
///                                    [](std::span<const BufferView> in,
///                                       std::span<const MutableBufferView> out,
///                                       const CallAttributes& attributes) {
///                                      const float by = attributes.get<float>("by");
///                                      auto x = in[0].data<float>();
///                                      auto y = out[0].data<float>();
///                                      for (std::size_t i = 0; i < x.size(); ++i) y[i] = by *
///                                      x[i];
///                                    },
///                                .sharding_rule = "... -> ..."});
/// Array y = custom_call("scale", {x}, {{x.shape(), x.dtype()}}, {{"by", 2.0f}})[0];
/// @endcode
/// @throws ValueError if the name is taken or empty, not exactly one of `compute` and `like` is
///   given, or a rule is malformed or given with `like`.
void register_custom_call(const std::string& target, CustomCall call,
                          Location location = Location::current());

/// Returns the names of all targets, Tessera's own and those registered, sorted.
std::vector<std::string> custom_call_targets();

/// Shape and dtype of a result of a custom call.
struct ResultType {
  std::vector<std::int64_t> shape;  ///< global shape
  DType dtype = DType::f32;         ///< dtype
};

/// Calls a target, eagerly or in a traced function, on one or many devices (jax.ffi.ffi_call).
/// @param target  The target's name.
/// @param operands  Any number of arrays.
/// @param results  Shapes and dtypes of the results.
/// @param attributes  Static values passed to the target.
/// @param location  The line named in messages.
/// @throws NotImplementedError if there is no such target.
/// @throws ShapeError if the target's sharding rule doesn't fit the shapes.
/// @throws ValueError if a size is negative. Whatever the target's `check` throws passes through.
std::vector<Array> custom_call(const std::string& target, const std::vector<Array>& operands,
                               const std::vector<ResultType>& results,
                               const CallAttributes& attributes = {},
                               Location location = Location::current());
/// The same for a target with one result.
Array custom_call(const std::string& target, const std::vector<Array>& operands,
                  const ResultType& result, const CallAttributes& attributes = {},
                  Location location = Location::current());

}  // namespace tessera
