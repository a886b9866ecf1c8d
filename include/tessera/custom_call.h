// SPDX-License-Identifier: Apache-2.0
// Targets of custom calls: those of programs exported from JAX, and one's own.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <tessera/array.h>
#include <tessera/buffer_view.h>
#include <tessera/call_attributes.h>
#include <tessera/sharding_rule.h>

namespace tessera {

/// What a custom call target does: either `compute` or `like`.
struct CustomCall {
  /// Fills the results from the operands: one device's parts, row-major, whatever layouts a text
  /// asks for. May be called from several threads at once, for several devices. What it throws
  /// arrives unchanged.
  std::function<void(std::span<const BufferView> operands,
                     std::span<const MutableBufferView> results, const CallAttributes& attributes)>
      compute{};
  /// The same in Tessera's own operations, traced where the call stands: sharded like any program.
  std::function<std::vector<Array>(const std::vector<Array>& operands,
                                   const CallAttributes& attributes)>
      like{};
  /// Of `compute`: how the dims of operands and results hang together, "... i j -> ... i j"
  /// (see ShardingRule). Along factors that are not listed as need_replication, `compute` is given
  /// parts. Empty: each device is given whole arrays.
  std::string sharding_rule{};
  /// More about the rule's factors. Reduction factors are gathered: `compute` can't sum over
  /// devices.
  ShardingRuleOptions sharding_rule_options{};
  /// Throws if operands, results or attributes don't fit; called when the call is made and again
  /// when a program is compiled. The views' elements must not be read.
  std::function<void(std::span<const BufferView> operands,
                     std::span<const MutableBufferView> results, const CallAttributes& attributes)>
      check{};
  /// Equal operands give equal results and nothing else happens: a call may then be dropped, done
  /// once for several devices, or done while compiling.
  bool pure = true;
};

/// Makes a target known by its name in HLO and StableHLO text and to `custom_call`, until the
/// process ends. ValueError: the name is taken, not exactly one of `compute` and `like`, a rule
/// that can't be read or comes with `like`.
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
void register_custom_call(const std::string& target, CustomCall call,
                          Location location = Location::current());

/// Names of all targets that are known: Tessera's own and those registered, sorted.
std::vector<std::string> custom_call_targets();

/// Shape and dtype of a result of a custom call.
struct ResultType {
  std::vector<std::int64_t> shape;
  DType dtype = DType::f32;
};

/// Calls a target, eagerly or in a traced function, on one device or many (jax.ffi.ffi_call).
/// NotImplementedError: an unknown target. What the target's check throws.
std::vector<Array> custom_call(const std::string& target, const std::vector<Array>& operands,
                               const std::vector<ResultType>& results,
                               const CallAttributes& attributes = {},
                               Location location = Location::current());
/// A target with one result.
Array custom_call(const std::string& target, const std::vector<Array>& operands,
                  const ResultType& result, const CallAttributes& attributes = {},
                  Location location = Location::current());

}  // namespace tessera
