// SPDX-License-Identifier: Apache-2.0
// Flops, bytes and times of small programs, against values computed by hand.
#include "src/compiler/cost_analysis.h"

#include <gtest/gtest.h>

#include "src/ir/hlo/hlo_text.h"

namespace tessera::compiler {
namespace {

/// On data=4, model=2: device 2 d + m.
CostAnalysis cost_of(const std::string& entry, const Network& network, const char* more = "") {
  const std::string text = std::string(R"(
HloModule m, num_partitions=8

sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
)") + more + "\nENTRY main {\n" +
                           entry + "\n}\n";
  auto module = ir::parse_hlo(text, "cost.hlo");
  module->mesh = make_logical_mesh({{"data", 4}, {"model", 2}});
  return analyze_cost(*module, network);
}

Network slow_and_fast() {
  Network n;
  n.axes["data"] = {50e9, 1e-6};
  n.axes["model"] = {300e9, 0.5e-6};
  n.flops_per_second = 1e12;
  n.memory_bytes_per_second = 1e11;
  return n;
}

const CollectiveCost& only(const CostAnalysis& c) {
  EXPECT_EQ(c.collectives.size(), 1u);
  return c.collectives.at(0);
}
using Axes = std::vector<std::pair<std::string, std::int64_t>>;

TEST(CostAnalysis, FlopsBytesAndTimes) {
  const CostAnalysis c = cost_of(R"(
  p0 = f32[16,32]{1,0} parameter(0)
  p1 = f32[32,8]{1,0} parameter(1)
  d = f32[16,8]{1,0} dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[16,8]{1,0} tanh(d)
  u = f32[16,8]{1,0} add(t, d)
  r = f32[16,8]{1,0} all-reduce(u), replica_groups={{0,2,4,6},{1,3,5,7}}, to_apply=sum
  ROOT g = f32[32,8]{1,0} all-gather(r), replica_groups={{0,1},{2,3},{4,5},{6,7}}, dimensions={0})",
                                 slow_and_fast());
  EXPECT_EQ(c.flops, 2 * 16 * 8 * 32 + 3 * 128);  // tanh, add, and the sum of the all-reduce
  EXPECT_EQ(c.transcendentals, 128);
  // The tanh is part of the addition.
  const double dot = 4 * (512 + 256 + 128), add = 512 + 512, reduce = 1024, gather = 512 + 1024;
  EXPECT_EQ(c.bytes_accessed, dot + add + reduce + gather);
  EXPECT_DOUBLE_EQ(c.compute_seconds, dot / 1e11 + add / 1e11);
  EXPECT_EQ(c.bytes_received, 2 * 512 * 3 / 4 + 512);
  ASSERT_EQ(c.collectives.size(), 2u);
  const CollectiveCost& all_reduce = c.collectives[0];
  EXPECT_EQ(all_reduce.kind, "all-reduce");
  EXPECT_EQ(all_reduce.instruction, "r");
  EXPECT_EQ(all_reduce.axes, (Axes{{"data", 4}}));
  EXPECT_EQ(all_reduce.group_size, 4);
  EXPECT_EQ(all_reduce.bytes, 768);
  EXPECT_DOUBLE_EQ(all_reduce.seconds, 2 * 3 * 1e-6 + 768 / 50e9);
  const CollectiveCost& all_gather = c.collectives[1];
  EXPECT_EQ(all_gather.axes, (Axes{{"model", 2}}));
  EXPECT_EQ(all_gather.bytes, 512);
  EXPECT_DOUBLE_EQ(all_gather.seconds, 0.5e-6 + 512 / 300e9);
  EXPECT_DOUBLE_EQ(c.collective_seconds, all_reduce.seconds + all_gather.seconds);
  EXPECT_DOUBLE_EQ(c.step_seconds(), c.compute_seconds + c.collective_seconds);
  EXPECT_DOUBLE_EQ(c.overlapped_seconds, c.step_seconds());  // each waits for the one before
  EXPECT_EQ(c.kinds.at("all-gather"), (CostAnalysis::Kind{1, 512, all_gather.seconds}));
}

TEST(CostAnalysis, TheSlowerOfArithmeticAndMemory) {
  const char* entry = R"(
  p0 = f32[256,256]{1,0} parameter(0)
  ROOT d = f32[256,256]{1,0} dot(p0, p0), lhs_contracting_dims={1}, rhs_contracting_dims={0})";
  Network n = slow_and_fast();
  const double flops = 2. * 256 * 256 * 256, bytes = 2. * 4 * 256 * 256;
  EXPECT_DOUBLE_EQ(cost_of(entry, n).compute_seconds, flops / 1e12);
  n.flops_per_second = 1e15;
  EXPECT_DOUBLE_EQ(cost_of(entry, n).compute_seconds, bytes / 1e11);
}

TEST(CostAnalysis, CollectivesRunBesideWhatStandsBetweenThemAndTheirUse) {
  const std::string dot = "dot(p0, p0), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n";
  const std::string params = "p0 = f32[256,256]{1,0} parameter(0)\n p1 = f32[9]{0} parameter(1)\n";
  const std::string gather =
      "g = f32[36]{0} all-gather(p1), replica_groups={{0,2,4,6},{1,3,5,7}}, dimensions={0}\n";
  const std::string use = "ROOT t = (f32[256,256]{1,0}, f32[36]{0}) tuple(d, n)\n";
  const std::string negate = "n = f32[36]{0} negate(g)\n";
  const CostAnalysis early =
      cost_of(params + gather + "d = f32[256,256]{1,0} " + dot + negate + use, slow_and_fast());
  const double d = 2. * 256 * 256 * 256 / 1e12, n = 2. * 4 * 36 / 1e11;
  ASSERT_LT(early.collective_seconds, d);
  EXPECT_DOUBLE_EQ(early.compute_seconds, d + n);
  EXPECT_DOUBLE_EQ(early.overlapped_seconds, d + n);
  // Used at once, it is waited for.
  const CostAnalysis late =
      cost_of(params + gather + negate + "d = f32[256,256]{1,0} " + dot + use, slow_and_fast());
  EXPECT_DOUBLE_EQ(late.overlapped_seconds, late.step_seconds());
  // Two share the network.
  const CostAnalysis two =
      cost_of(params + gather + "h" + gather.substr(1) + "d = f32[256,256]{1,0} " + dot +
                  "n = f32[36]{0} add(g, h)\n" + use,
              slow_and_fast());
  EXPECT_DOUBLE_EQ(two.overlapped_seconds,
                   std::max(d, 2 * early.collective_seconds) + 3. * 4 * 36 / 1e11);
}

TEST(CostAnalysis, SeveralAxesTheSlowestWithTheLeastData) {
  const CostAnalysis gather = cost_of(R"(
  p0 = f32[1000]{0} parameter(0)
  ROOT g = f32[8000]{0} all-gather(p0), replica_groups={{0,1,2,3,4,5,6,7}}, dimensions={0})",
                                      slow_and_fast());
  EXPECT_EQ(only(gather).axes, (Axes{{"data", 4}, {"model", 2}}));
  // 3 parts of 4,000 bytes over "data", then what 4 devices hold by now over "model".
  EXPECT_DOUBLE_EQ(only(gather).seconds, 3 * 1e-6 + 3 * 4000 / 50e9 + 0.5e-6 + 4 * 4000 / 300e9);

  const CostAnalysis reduce = cost_of(R"(
  p0 = f32[8000]{0} parameter(0)
  ROOT r = f32[8000]{0} all-reduce(p0), replica_groups={}, to_apply=sum)",
                                      slow_and_fast());
  EXPECT_EQ(only(reduce).axes, (Axes{{"data", 4}, {"model", 2}}));
  EXPECT_NEAR(only(reduce).seconds, 2 * (3 * 1e-6 + 3 * 4000 / 50e9 + 0.5e-6 + 4 * 4000 / 300e9),
              1e-15);

  const CostAnalysis swap = cost_of(R"(
  p0 = f32[8,1000]{1,0} parameter(0)
  ROOT a = f32[8,1000]{1,0} all-to-all(p0), replica_groups={{0,1,2,3,4,5,6,7}}, dimensions={0})",
                                    slow_and_fast());
  // Of 32,000 bytes 3/4 change "data" and 1/2 change "model".
  EXPECT_NEAR(only(swap).seconds, 3 * 1e-6 + 24000 / 50e9 + 0.5e-6 + 16000 / 300e9, 1e-15);
}

TEST(CostAnalysis, PermutesAndGroupsThatAreNoAxes) {
  const CostAnalysis permute = cost_of(R"(
  p0 = f32[1000]{0} parameter(0)
  ROOT c = f32[1000]{0} collective-permute(p0), source_target_pairs={{0,2},{2,4},{4,6},{6,0}})",
                                       slow_and_fast());
  EXPECT_EQ(only(permute).axes, (Axes{{"data", 2}}));
  EXPECT_DOUBLE_EQ(only(permute).seconds, 1e-6 + 4000 / 50e9);
  const CostAnalysis diagonal = cost_of(R"(
  p0 = f32[1000]{0} parameter(0)
  ROOT r = f32[1000]{0} all-reduce(p0), replica_groups={{0,3},{1,2},{4,7},{5,6}}, to_apply=sum)",
                                        slow_and_fast());
  EXPECT_EQ(only(diagonal).group_size, 2);
  EXPECT_DOUBLE_EQ(only(diagonal).seconds, 2 * 1e-6 + 4000 / 50e9);
}

TEST(CostAnalysis, LoopsAndBranches) {
  const CostAnalysis c = cost_of(R"(
  p0 = f32[1000]{0} parameter(0)
  which = pred[] parameter(1)
  zero = s32[] constant(0)
  init = (s32[], f32[1000]{0}) tuple(zero, p0)
  loop = (s32[], f32[1000]{0}) while(init), condition=cond, body=body, backend_config={"known_trip_count":{"n":"5"}}
  x = f32[1000]{0} get-tuple-element(loop), index=1
  ROOT out = f32[1000]{0} conditional(which, x, x), true_computation=quiet, false_computation=loud)",
                                 slow_and_fast(), R"(
body {
  t = (s32[], f32[1000]{0}) parameter(0)
  k = s32[] get-tuple-element(t), index=0
  one = s32[] constant(1)
  k1 = s32[] add(k, one)
  v = f32[1000]{0} get-tuple-element(t), index=1
  r = f32[1000]{0} all-reduce(v), replica_groups={{0,1},{2,3},{4,5},{6,7}}, to_apply=sum
  ROOT next = (s32[], f32[1000]{0}) tuple(k1, r)
}
cond {
  t = (s32[], f32[1000]{0}) parameter(0)
  k = s32[] get-tuple-element(t), index=0
  five = s32[] constant(5)
  ROOT less = pred[] compare(k, five), direction=LT
}
quiet {
  a = f32[1000]{0} parameter(0)
  ROOT e = f32[1000]{0} exponential(a)
}
loud {
  a = f32[1000]{0} parameter(0)
  ROOT r = f32[1000]{0} all-reduce(a), replica_groups={{0,2,4,6},{1,3,5,7}}, to_apply=sum
}
)");
  ASSERT_EQ(c.collectives.size(), 2u);
  const double once = 2 * 0.5e-6 + 4000 / 300e9;
  const auto& in_loop = c.collectives[0].times == 5 ? c.collectives[0] : c.collectives[1];
  EXPECT_EQ(in_loop.times, 5);
  EXPECT_DOUBLE_EQ(in_loop.seconds, once);
  EXPECT_EQ(c.kinds.at("all-reduce").count, 2);
  EXPECT_EQ(c.bytes_received, 5 * 4000 + 6000);
  EXPECT_DOUBLE_EQ(c.kinds.at("all-reduce").bytes, c.bytes_received);
  EXPECT_NEAR(c.collective_seconds, 5 * once + 6 * 1e-6 + 6000 / 50e9, 1e-15);
  EXPECT_EQ(c.transcendentals, 1000);
}

TEST(Network, FromText) {
  const Network n = Network::parse(
      "data=50GB/s:1us, model = 300GB/s:500ns  # inside of a box, all to all\n"
      "*=100MB/s:2ms\nflops=200T, memory=1.5TB/s\n");
  EXPECT_EQ(n.axes.size(), 2u);
  EXPECT_EQ(n.link("data"), (Network::Link{50e9, 1e-6}));
  EXPECT_DOUBLE_EQ(n.link("model").bytes_per_second, 300e9);
  EXPECT_DOUBLE_EQ(n.link("model").latency_seconds, 500e-9);
  EXPECT_EQ(n.link("expert"), n.other);
  EXPECT_DOUBLE_EQ(n.other.bytes_per_second, 1e8);
  EXPECT_DOUBLE_EQ(n.other.latency_seconds, 2e-3);
  EXPECT_EQ(n.flops_per_second, 200e12);
  EXPECT_EQ(n.memory_bytes_per_second, 1.5e12);
  EXPECT_EQ(n.to_string(),
            "data=50GB/s:1us, model=300GB/s:0.5us, *=0.1GB/s:2000us, flops=200T, memory=1500GB/s");
  EXPECT_EQ(Network::parse(n.to_string()).to_string(), n.to_string());
  EXPECT_EQ(Network::parse(""), Network());
  EXPECT_EQ(Network::parse("data=1GB/s").link("data").latency_seconds,
            Network::Link().latency_seconds);
}

TEST(Network, WrongText) {
  const auto message = [](const char* text) {
    try {
      (void)Network::parse(text);
    } catch (const ValueError& e) {
      return std::string(e.what());
    }
    return std::string("nothing was thrown");
  };
  const auto has = [&](const char* text, const std::string& part) {
    EXPECT_NE(message(text).find(part), std::string::npos) << message(text);
    EXPECT_NE(message(text).find("cost_analysis_test.cc:"), std::string::npos) << message(text);
  };
  has("data", "network 'data': expected name=value");
  has("data=50", "expected a positive bandwidth with a unit (B/s, kB/s, MB/s, GB/s");
  has("data=-5GB/s", "got '-5GB/s'");
  has("data=nanGB/s", "got 'nanGB/s'");
  has("data=0GB/s", "positive bandwidth");
  has("data=5GB/s:1", "expected a positive latency with a unit (ns, us");
  has("data=5GB/s:-1us", "latency");
  has("data=5GB/s,data=6GB/s", "'data' stands twice");
  has("flops=many", "number of operations in a second");
  has("memory=5T", "network 'memory=5T'");
  has("=5GB/s", "expected name=value");
}

}  // namespace
}  // namespace tessera::compiler
