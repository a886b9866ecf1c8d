// SPDX-License-Identifier: Apache-2.0
// Times of collectives on described networks, by hand.
#include "src/cost/machine.h"

#include <gtest/gtest.h>

#include "src/cost/count.h"
#include "src/cost/executions.h"
#include "src/ir/hlo/hlo_text.h"

namespace tessera::testing {
namespace machine_test {

using cost::Machine;
using cost::Route;
using ir::Opcode;

constexpr Opcode kKinds[] = {Opcode::all_gather, Opcode::all_reduce, Opcode::reduce_scatter,
                             Opcode::all_to_all, Opcode::collective_permute};

LogicalMesh mesh(std::int64_t x, std::int64_t y) {
  return *make_logical_mesh({{"x", x}, {"y", y}});
}

TEST(Machine, UndescribedNetworksCountBytesAndStarts) {
  const Machine machine;
  EXPECT_TRUE(machine.is_uniform());
  const double byte = machine.least(1) - machine.least_of_bytes(0) - machine.start();
  for (const Opcode kind : kKinds) {
    for (const auto& axes : {IndexList{0}, IndexList{1}, IndexList{0, 1}}) {
      const double seconds = machine.collective(kind, 4096, machine.route(mesh(2, 4), axes));
      EXPECT_NEAR(seconds, (4096 + 256) * byte, 1e-9 * seconds);
      // The library says the same where it is asked for the axes.
      Route route;
      for (const int a : axes) machine.extend(&route, mesh(2, 4), a);
      EXPECT_NEAR(seconds, collective_seconds(kind, 4096, route, machine.network()),
                  1e-9 * seconds);
    }
    EXPECT_EQ(machine.collective(kind, 0, {}), 0);
  }
  EXPECT_NEAR(machine.work(1000), 3 * byte, 1e-9 * byte);
}

TEST(Machine, RingsTakeStepsAndTheSlowAxisMovesLeast) {
  const Machine machine(Network::parse("x=1GB/s:1us, y=10GB/s:2us, start=5us"));
  const auto seconds = [&](Opcode kind, double bytes, const IndexList& axes) {
    return machine.collective(kind, bytes, machine.route(mesh(2, 4), axes));
  };
  EXPECT_DOUBLE_EQ(seconds(Opcode::all_gather, 3000, {1}), 5e-6 + 3 * 2e-6 + 3000 / 10e9);
  EXPECT_DOUBLE_EQ(seconds(Opcode::all_reduce, 3000, {1}), 5e-6 + 6 * 2e-6 + 3000 / 10e9);
  // Seven parts of 1000: one comes over x, then six over y.
  EXPECT_DOUBLE_EQ(seconds(Opcode::all_gather, 7000, {0, 1}),
                   5e-6 + 1e-6 + 1000 / 1e9 + 3 * 2e-6 + 6000 / 10e9);
  EXPECT_DOUBLE_EQ(seconds(Opcode::collective_permute, 1000, {0, 1}), 5e-6 + 3e-6 + 1000 / 1e9);
  // Of 8000 bytes a half crosses x and three quarters cross y; directly seven eighths cross x.
  EXPECT_DOUBLE_EQ(seconds(Opcode::all_to_all, 7000, {0, 1}),
                   5e-6 + 1e-6 + 4000 / 1e9 + 3 * 2e-6 + 6000 / 10e9);
}

TEST(Machine, AllToAllsGoDirectlyWhereThatIsFaster) {
  const Machine machine(Network::parse("*=1GB/s:0s"));
  const Route route = machine.route(mesh(2, 4), {0, 1});
  EXPECT_DOUBLE_EQ(machine.collective(Opcode::all_to_all, 7000, route), 7000 / 1e9);
}

TEST(Machine, PiecesOfAnAxisAreOneRing) {
  const Machine machine(Network::parse("x=1GB/s:1us"));
  LogicalMesh pieces = mesh(2, 4);
  pieces.axes[1].name = "x";
  EXPECT_DOUBLE_EQ(machine.collective(Opcode::all_gather, 7000, machine.route(pieces, {0, 1})),
                   7 * 1e-6 + 7000 / 1e9);
}

TEST(Machine, NothingIsFasterThanTheLeast) {
  const Machine machine(Network::parse("x=3GB/s:1us, y=40GB/s:10ns, *=7GB/s:2us, start=1us"));
  for (const Opcode kind : kKinds) {
    for (const auto& axes : {IndexList{0}, IndexList{1}, IndexList{0, 1}}) {
      for (const double bytes : {1.0, 1e3, 1e6}) {
        EXPECT_LE(machine.least(bytes),
                  machine.collective(kind, bytes, machine.route(mesh(4, 8), axes)));
      }
    }
  }
}

TEST(Machine, CollectivesOfAProgramAreTimedOverTheirAxes) {
  const auto module = ir::parse_hlo(R"(
HloModule m, num_partitions=8
cond { p = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(5)
  ROOT r = pred[] compare(i, n), direction=LT }
body { p = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[8] get-tuple-element(p), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  y = f32[8] collective-permute(x), source_target_pairs={{0,1},{1,0}}
  ROOT r = (s32[], f32[8]) tuple(next, y) }
ENTRY e {
  x = f32[8] parameter(0)
  zero = s32[] constant(0)
  init = (s32[], f32[8]) tuple(zero, x)
  w = (s32[], f32[8]) while(init), condition=cond, body=body,
    backend_config={"known_trip_count":{"n":"5"}}
  ROOT r = f32[8] get-tuple-element(w), index=1
})");
  module->mesh = make_logical_mesh({{"x", 2}, {"y", 4}});
  const Machine machine(Network::parse("x=1GB/s:1us, y=2GB/s:3us"));
  const cost::CommunicationCount count = cost::count_communication(*module, machine);
  EXPECT_DOUBLE_EQ(count.seconds, 5 * (3e-6 + 32 / 2e9));
  const auto runs = cost::executions(*module);
  for (const auto& [c, times] : runs) EXPECT_EQ(times.counted, c == module->entry() ? 1 : 5);
  EXPECT_EQ(runs.size(), 3u);
}

}  // namespace machine_test
}  // namespace tessera::testing
