// SPDX-License-Identifier: Apache-2.0
// What the public classes say about one line of tests/fixtures/sharding_facts.jsonl.
#pragma once

#include <nlohmann/json.hpp>

#include <tessera/sharding.h>

namespace tessera::test {

using Json = nlohmann::json;

/// From "mesh" (an object whose keys sort in the order of the axes), "device_order", "spec",
/// "shape" and "equivalent_to": the other keys of the line. A refusal gives "error" alone, or with
/// "hlo" if only the shape is refused.
Json sharding_facts(const Json& line);
PartitionSpec spec_from_json(const Json& entries);
Json spec_to_json(const PartitionSpec& spec);

}  // namespace tessera::test
