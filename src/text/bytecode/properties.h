// SPDX-License-Identifier: Apache-2.0
// The properties of operations in bytecode: which attributes stand in which order.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::text {

struct Property {
  std::string_view key;
  bool optional = false;
  /// Optional, and not known to all versions of an operation that has no versions.
  bool newer = false;
  /// Into how many groups the operands are parted, which is encoded as numbers; 0: an attribute.
  int segments = 0;
};

/// The properties of an operation by its full name, such as `vhlo.sort_v1`; null if they aren't
/// known. Operations that have none aren't listed.
const std::vector<Property>* find_properties(std::string_view name);

/// The name that an operation of vhlo has in StableHLO: `stablehlo.sort` of `vhlo.sort_v1`; other
/// names as they are.
std::string stable_name(std::string_view name);

/// The version of StableHLO that is written: that of April 2025.
inline constexpr std::string_view kWrittenVersion = "1.10.0";
/// The name that an operation has there: `vhlo.sort_v1` of `stablehlo.sort`; those of dialects
/// without versions as they are.
std::string written_name(std::string_view name);

}  // namespace tessera::text
