// SPDX-License-Identifier: Apache-2.0
// The custom_call_target of calls that the compiler knows by name.
#pragma once

#include <string_view>

namespace tessera::ir {

/// Calls of the host (HostCallback). Their backend_config holds a number that is unique in the
/// process: programs that differ in their callbacks alone have different texts.
inline constexpr const char* kPureCallbackTarget = "tessera.PureCallback";
inline constexpr const char* kIoCallbackTarget = "tessera.IoCallback";
inline constexpr const char* kDebugCallbackTarget = "tessera.DebugCallback";

// Of a sharding_constraint of each kind.
inline constexpr const char* kShardingTarget = "Sharding";
inline constexpr const char* kResultShardingTarget = "xla.sdy.FuncResultSharding";
inline constexpr const char* kBarrierTarget = "xla.sdy.PropagationBarrier";
inline constexpr const char* kShardingGroupTarget = "xla.sdy.ShardingGroup";
inline constexpr const char* kCustomPartitioningTarget = "CustomSPMDPartitioning";

/// Of a manual_computation. Its attributes:
///   in_shardings, out_shardings: sdy's lists, `[<@mesh, [{"x"}, {}]>, <@mesh, [{}]>]`, one entry
///     per operand and per result; `[]` if there are none. `@mesh` may be a whole mesh in place,
///     `mesh<["x"=2, "y"=4]>`.
///   manual_axes: `["x", "y"]`; whole named axes, none for `[]`.
inline constexpr const char* kManualComputationTarget = "tessera.ManualComputation";
inline constexpr const char* kManualInShardings = "in_shardings";
inline constexpr const char* kManualOutShardings = "out_shardings";
inline constexpr const char* kManualAxes = "manual_axes";
/// Of a pvary, whose axes are written as manual_axes.
inline constexpr const char* kPvaryTarget = "tessera.pvary";

/// Of a device-placement. Where to is in the frontend attribute kPlacement, by the name of the kind
/// of memory; kPlacementSource is there, too, if it isn't kept in the obvious memory before: that
/// of the device, or for a placement there pinned_host.
inline constexpr const char* kPlacementTarget = "annotate_device_placement";
inline constexpr const char* kPlacement = "_xla_buffer_placement";
inline constexpr const char* kPlacementSource = "tessera.source_placement";
/// XLA's later words for placements in pinned_host and device.
inline constexpr const char* kMoveToHostTarget = "MoveToHost";
inline constexpr const char* kMoveToDeviceTarget = "MoveToDevice";

// Where per-device code begins and ends: in GSPMD's form, and in Shardy's.
inline constexpr const char* kFullToShardShapeTarget = "SPMDFullToShardShape";
inline constexpr const char* kShardToFullShapeTarget = "SPMDShardToFullShape";
inline constexpr const char* kGlobalToLocalShapeTarget = "xla.sdy.GlobalToLocalShape";
inline constexpr const char* kLocalToGlobalShapeTarget = "xla.sdy.LocalToGlobalShape";
/// Whether it is one of GSPMD's two.
inline bool is_shard_shape_target(std::string_view target) {
  return target == kFullToShardShapeTarget || target == kShardToFullShapeTarget;
}

/// Of a scan that HLO's scan can't express (ScanAttrs). Its attributes are those of HLO's scan with
/// `length`, `num_constants` and, unless it is 1, `unroll`.
inline constexpr const char* kScanTarget = "tessera.Scan";

// Of a topk, in the text of older exporters: `raise_custom_call` makes it the op.
inline constexpr const char* kTopKTarget = "TopK";
inline constexpr const char* kMhloTopKTarget = "mhlo.topk";

}  // namespace tessera::ir
