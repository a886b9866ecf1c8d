// SPDX-License-Identifier: Apache-2.0
// Topologies: named, serialized, and damaged.
#include <gtest/gtest.h>

#include "tests/pjrt/api_client.h"

namespace tessera::pjrt_tests {
namespace {

struct Made {
  Answer answer;
  PJRT_TopologyDescription* topology = nullptr;
};

Made named(std::string name) {
  auto args = make<PJRT_TopologyDescription_Create_Args>();
  args.topology_name = name.data();
  args.topology_name_size = name.size();
  Answer a = answer(api().PJRT_TopologyDescription_Create(&args));
  return {std::move(a), args.topology};
}

Made read(const std::string& text) {
  auto args = make<PJRT_TopologyDescription_Deserialize_Args>();
  args.serialized_topology = text.data();
  args.serialized_topology_size = text.size();
  Answer a = answer(api().PJRT_TopologyDescription_Deserialize(&args));
  return {std::move(a), args.topology};
}

std::string written(PJRT_TopologyDescription* topology) {
  auto args = make<PJRT_TopologyDescription_Serialize_Args>();
  args.topology = topology;
  EXPECT_TRUE(answer(api().PJRT_TopologyDescription_Serialize(&args)).ok());
  std::string out(args.serialized_bytes, args.serialized_bytes_size);
  reinterpret_cast<void (*)(const void*)>(args.serialized_topology_deleter)(
      args.serialized_topology);
  return out;
}

std::size_t fingerprint(PJRT_TopologyDescription* topology) {
  auto args = make<PJRT_TopologyDescription_Fingerprint_Args>();
  args.topology = topology;
  EXPECT_TRUE(answer(api().PJRT_TopologyDescription_Fingerprint(&args)).ok());
  return args.fingerprint;
}

std::size_t devices(PJRT_TopologyDescription* topology) {
  auto args = make<PJRT_TopologyDescription_GetDeviceDescriptions_Args>();
  args.topology = topology;
  EXPECT_TRUE(answer(api().PJRT_TopologyDescription_GetDeviceDescriptions(&args)).ok());
  return args.num_descriptions;
}

void drop(PJRT_TopologyDescription* topology) {
  auto args = make<PJRT_TopologyDescription_Destroy_Args>();
  args.topology = topology;
  EXPECT_TRUE(answer(api().PJRT_TopologyDescription_Destroy(&args)).ok());
}

TEST(PjrtTopology, IsReadAsItWasWritten) {
  const Made three = named("cpu:3"), four = named("cpu:4");
  ASSERT_TRUE(three.answer.ok()) << three.answer.message;
  ASSERT_TRUE(four.answer.ok()) << four.answer.message;
  EXPECT_EQ(devices(three.topology), 3U);
  EXPECT_NE(fingerprint(three.topology), fingerprint(four.topology));
  const std::string text = written(three.topology);
  const Made again = read(text);
  ASSERT_TRUE(again.answer.ok()) << again.answer.message;
  EXPECT_EQ(devices(again.topology), 3U);
  EXPECT_EQ(fingerprint(again.topology), fingerprint(three.topology));
  for (std::size_t n = 0; n < text.size(); ++n) {
    EXPECT_FALSE(read(text.substr(0, n)).answer.ok()) << n;
    std::string damaged = text;
    damaged[n] = char(damaged[n] ^ 1);
    EXPECT_FALSE(read(damaged).answer.ok()) << n;
  }
  EXPECT_FALSE(read(text + "x").answer.ok());
  for (PJRT_TopologyDescription* t : {three.topology, four.topology, again.topology}) drop(t);
}

TEST(PjrtTopology, RefusesOtherNames) {
  for (const char* name : {"", "cpu", "cpu:", "cpu:0", "cpu:-1", "cpu:8x", "v5e:2x2"}) {
    const Answer a = named(name).answer;
    EXPECT_EQ(a.code, PJRT_Error_Code_INVALID_ARGUMENT) << name;
    EXPECT_NE(a.message.find("'cpu:8'"), std::string::npos) << a.message;
  }
}

}  // namespace
}  // namespace tessera::pjrt_tests
