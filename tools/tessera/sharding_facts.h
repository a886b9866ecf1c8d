// SPDX-License-Identifier: Apache-2.0
// Facts about a sharding as JSON.
#pragma once

#include <tessera/sharding.h>

#include <nlohmann/json.hpp>

namespace tessera::tool {

using OrderedJson = nlohmann::ordered_json;

/// From "mesh" (name → size, in order), "device_order", "spec", "shape" and maybe "equivalent_to"
/// ([spec] or spec): these and "hlo", "shard_shape", "index_map", "replica_ids",
/// "fully_replicated", "parsed_spec", "equivalent_to" ([spec, yes or no]). What is refused has
/// "error" (the kind) and "message" instead. ValueError: keys missing or of a wrong kind.
OrderedJson sharding_facts(const OrderedJson& line);

PartitionSpec spec_from_json(const OrderedJson& entries);

}  // namespace tessera::tool
