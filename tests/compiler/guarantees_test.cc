// SPDX-License-Identifier: Apache-2.0
// What stages guarantee is checked: modules that break each guarantee.
#include "src/compiler/guarantees.h"

#include <gtest/gtest.h>

#include "src/ir/hlo/hlo_text.h"

namespace tessera::testing {
namespace {

using namespace compiler;

constexpr const char* kText = R"(HloModule m, num_partitions=4
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
id { ROOT x = f32[4] parameter(0) }
ENTRY e {
  x = f32[4] parameter(0)
)";

std::string broken(const std::string& entry, unsigned guarantees) {
  return broken_guarantee(*ir::parse_hlo(kText + entry + "\n}\n"), guarantees);
}

TEST(Guarantees, WhatIsForbidden) {
  for (const auto& [entry, forbidden] : {
           std::pair{"  ROOT r = f32[4] call(x), to_apply=id", unsigned(kNoCalls)},
           std::pair{"  ROOT r = f32[4] custom-call(x), custom_call_target=\"Sharding\", "
                     "sharding={devices=[4]<=[4]}",
                     unsigned(kPartitioned)},
           std::pair{"  s = f32[4] all-reduce-start(x), channel_id=1, use_global_device_ids=true, "
                     "replica_groups={{0,1,2,3}}, to_apply=add\n  ROOT r = f32[4] "
                     "all-reduce-done(s)",
                     unsigned(kNoAsync)},
           std::pair{"  r = u32[] replica-id()\n  ROOT y = f32[4] negate(x)",
                     unsigned(kPartitioned)},
       }) {
    EXPECT_NE(broken(entry, forbidden).find("may not be there any more"), std::string::npos)
        << entry;
    EXPECT_EQ(broken(entry, ~forbidden), "") << entry;
  }
  EXPECT_EQ(broken("  ROOT r = f32[4] negate(x)", ~0U), "");
  EXPECT_EQ(broken("  ROOT r = f32[4] call(x), to_apply=id, "
                   "frontend_attributes={inlineable=\"false\"}",
                   kNoCalls),
            "");
}

TEST(Guarantees, GroupsOfAllDevices) {
  const auto reduced = [](const std::string& groups) {
    return broken(
        "  ROOT r = f32[4] all-reduce(x), channel_id=1, use_global_device_ids=true, "
        "replica_groups=" +
            groups + ", to_apply=add",
        kGroupsOfAll);
  };
  EXPECT_EQ(reduced("{}"), "");
  EXPECT_EQ(reduced("{{0,2},{3,1}}"), "");
  EXPECT_NE(reduced("{{0,1}}").find("has 2 of 4 devices"), std::string::npos);
  EXPECT_NE(reduced("{{0,1},{2,4}}").find("names device 4 of 4"), std::string::npos);
}

TEST(Guarantees, OneReplicaAfterPartitioning) {
  const auto module =
      ir::parse_hlo("HloModule m, replica_count=2\nENTRY e {\n  ROOT x = f32[4] parameter(0)\n}\n");
  EXPECT_EQ(broken_guarantee(*module, kPartitioned), "the module is for 2 replicas");
  EXPECT_EQ(broken_guarantee(*module, kNoCalls), "");
}

}  // namespace
}  // namespace tessera::testing
