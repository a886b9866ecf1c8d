// SPDX-License-Identifier: Apache-2.0
// `tessera partition`: one device's program, and what it costs.
#include <gtest/gtest.h>

#include "tests/tools/command_runner.h"

namespace tessera::testing {
namespace {

TEST(Partition, ListsNoCollectiveThatALoopOfRowsDoesWithout) {
  const char* text = R"(HloModule rows, num_partitions=8
any { a = pred[] parameter(0)
  b = pred[] parameter(1)
  ROOT r = pred[] or(a, b) }
test { s = (s32[16]) parameter(0)
  x = s32[16] get-tuple-element(s), index=0
  zero = s32[] constant(0)
  zeros = s32[16] broadcast(zero), dimensions={}
  go = pred[16] compare(x, zeros), direction=GT
  no = pred[] constant(false)
  ROOT p = pred[] reduce(go, no), dimensions={0}, to_apply=any }
body { s = (s32[16]) parameter(0)
  x = s32[16] get-tuple-element(s), index=0
  zero = s32[] constant(0)
  zeros = s32[16] broadcast(zero), dimensions={}
  go = pred[16] compare(x, zeros), direction=GT
  one = s32[] constant(1)
  ones = s32[16] broadcast(one), dimensions={}
  less = s32[16] subtract(x, ones)
  next = s32[16] select(go, less, x)
  ROOT t = (s32[16]) tuple(next) }
ENTRY e { x = s32[16] parameter(0), sharding={devices=[8]<=[8]}
  s = (s32[16]) tuple(x)
  w = (s32[16]) while(s), condition=test, body=body
  ROOT r = s32[16] get-tuple-element(w), index=0, sharding={devices=[8]<=[8]} })";
  const TemporaryFolder folder;
  const Ran ran = run_tool({"partition", "-", "--json", "-o", folder / "out.hlo"}, text);
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.json()["bytes_received"], 0);
  EXPECT_TRUE(ran.json()["collectives"].empty()) << ran.out;
}

TEST(Partition, PrintsOneDevicesProgram) {
  const TemporaryFolder folder;
  const Ran ran = run_tool({"partition", of_case("rnn_scan/s0.hlo"), "--stats"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out.substr(0, 9), "HloModule");
  EXPECT_TRUE(contains(ran.out, "num_partitions=8"));
  EXPECT_TRUE(contains(ran.out, "known_trip_count"));
  EXPECT_TRUE(contains(ran.err, "flops"));
  // The text is a module again.
  const Ran again = run_tool({"opt", "-"}, ran.out);
  EXPECT_EQ(again.code, 0) << again.err;

  const std::string file = folder / "out.hlo";
  const Ran json = run_tool({"partition", of_case("mlp_forward/s1.hlo"), "-o", file, "--json"});
  ASSERT_EQ(json.code, 0) << json.err;
  EXPECT_EQ(json.err, "");
  const Json stats = json.json();
  EXPECT_EQ(stats["devices"], 8);
  EXPECT_GT(stats["flops"].get<double>(), 0);
  EXPECT_GT(stats["peak_bytes_per_device"].get<double>(), 0);
  ASSERT_FALSE(stats["collectives"].empty());
  for (const Json& c : stats["collectives"]) {
    for (const char* key : {"kind", "bytes", "op", "location", "from", "to", "reason"}) {
      EXPECT_TRUE(c.contains(key)) << key;
    }
  }
  EXPECT_EQ(read_file(file).substr(0, 9), "HloModule");
}

TEST(Partition, ForAMeshThatIsNotThereOnADescribedNetwork) {
  const std::vector<std::string> what = {"partition", of_case("transformer_block/plain.hlo"),
                                         "--mesh", "data=64,model=32"};
  auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), what.begin(), what.end());
    return run_tool(more);
  };
  const Ran plain = with({"--stats"});
  ASSERT_EQ(plain.code, 0) << plain.err;
  EXPECT_TRUE(contains(plain.out, "num_partitions=2048"));
  EXPECT_FALSE(contains(plain.err, "estimated")) << plain.err;

  const TemporaryFolder folder;
  write_file(folder / "net.txt", "data=50GB/s:2us  # slow, between boxes\n*=300GB/s\nflops=1T\n");
  const Ran ran = run_tool(
      {"partition", of_case("mlp_forward/s1.hlo"), "--network", folder / "net.txt", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json cost = ran.json()["cost"];
  EXPECT_EQ(cost["network"], "data=50GB/s:2us, *=300GB/s:1us, flops=1T, memory=1000GB/s");
  double sum = 0, bytes = 0;
  ASSERT_FALSE(cost["collectives"].empty());
  for (const Json& c : cost["collectives"]) {
    EXPECT_GT(c["seconds"].get<double>(), 0);
    EXPECT_FALSE(c["axes"].empty());
    sum += c["seconds"].get<double>() * c["times"].get<double>();
    bytes += c["bytes"].get<double>() * c["times"].get<double>();
  }
  EXPECT_NEAR(cost["collective_seconds"].get<double>(), sum, 1e-9 * sum);
  EXPECT_NEAR(ran.json()["bytes_received"].get<double>(), bytes, 1e-9 * bytes);
  EXPECT_NEAR(cost["step_seconds"].get<double>(), cost["compute_seconds"].get<double>() + sum,
              1e-9 * sum);
  EXPECT_LE(cost["overlapped_seconds"], cost["step_seconds"]);
  EXPECT_GE(cost["overlapped_seconds"], cost["collective_seconds"]);

  const Ran table =
      run_tool({"partition", of_case("mlp_forward/s1.hlo"), "--network", "*=300GB/s:1us"});
  ASSERT_EQ(table.code, 0) << table.err;
  EXPECT_TRUE(contains(table.err, "estimated: ")) << table.err;
  EXPECT_TRUE(contains(table.err, "bytes received")) << table.err;

  const Ran wrong = with({"--network", "data=fast"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_TRUE(contains(wrong.err, "network 'data=fast': expected a positive bandwidth"))
      << wrong.err;
  EXPECT_EQ(with({"--network", folder / "none.txt"}).code, 1);
}

}  // namespace
}  // namespace tessera::testing
