// SPDX-License-Identifier: Apache-2.0
// Topologies as bytes: text with the count of devices and a checksum.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/pjrt/status.h"

namespace tessera::pjrt {

struct StoredTopology {
  /// The process of each device. Device k has id k.
  std::vector<std::int32_t> processes;
};

std::string write_stored_topology(const StoredTopology& topology);
/// A Failure for text that write_stored_topology of this version didn't write.
StoredTopology read_stored_topology(std::string_view text);
/// The lines of devices and their count, with the head and the checksum that belong to them.
std::string with_topology_checksum(std::string_view body);

}  // namespace tessera::pjrt
