// SPDX-License-Identifier: Apache-2.0
// Meshes, specs, shardings and other descriptions can be written to streams.
#pragma once

#include <concepts>
#include <iosfwd>
#include <string>

#include <tessera/cost_analysis.h>
#include <tessera/custom/call_attributes.h>
#include <tessera/device.h>
#include <tessera/dtype.h>
#include <tessera/error.h>
#include <tessera/explain.h>
#include <tessera/mesh.h>
#include <tessera/partition_spec.h>
#include <tessera/sharding.h>
#include <tessera/sharding/abstract_mesh.h>
#include <tessera/sharding/explicit_sharding.h>
#include <tessera/sharding/format.h>
#include <tessera/sharding/layouts.h>
#include <tessera/sharding/op_sharding.h>
#include <tessera/sharding/parsed_spec.h>
#include <tessera/sharding/sharding_rule.h>
#include <tessera/sharding/sharding_spec.h>
#include <tessera/sharding/sharding_tree.h>
#include <tessera/stages.h>

namespace tessera {

namespace internal {
template <class T, class... Ts>
concept one_of = (std::same_as<T, Ts> || ...);

/// Described by `to_string()`.
template <class T>
concept described = std::derived_from<T, Mesh> || std::derived_from<T, Sharding> ||
    one_of<T, Device, Memory, SpecEntry, PartitionSpec, ParsedPartitionSpec, IndexSlice,
           ShardingSpec, ShardingTree, ShardingRule, OpSharding, ArrayType, CallAttribute,
           CallAttributes, Location, HloModule, Layout, Format, Network, ExplainChain,
           ExplainSuggestion>;
/// Described by `to_text()`.
template <class T>
concept reported = one_of<T, Explanation, ExplainEntry, CostAnalysis>;
/// Described by a function of its namespace.
template <class T>
concept named = one_of<T, AxisType, Layouts>;
}  // namespace internal

/// Writes what `to_string()` returns: `std::cout << mesh << " " << P("x") << "\n"`.
template <internal::described T>
std::ostream& operator<<(std::ostream& stream, const T& value) {
  return stream << value.to_string();
}
/// Writes what `to_text()` returns.
template <internal::reported T>
std::ostream& operator<<(std::ostream& stream, const T& value) {
  return stream << value.to_text();
}
/// Writes the name of an enumerator.
template <internal::named T>
std::ostream& operator<<(std::ostream& stream, const T& value) {
  return stream << to_string(value);
}
/// Writes HLO's name of a dtype.
template <std::same_as<DType> T>
std::ostream& operator<<(std::ostream& stream, const T& value) {
  return stream << name(value);
}

}  // namespace tessera
