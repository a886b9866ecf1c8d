// SPDX-License-Identifier: Apache-2.0
// Programs of several replicas, alone and beside partitions, run against the evaluator.
#include <gtest/gtest.h>

#include "src/base/arrays/literal_util.h"
#include "src/compiler/guarantees.h"
#include "src/compiler/read_module.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/process_groups.h"
#include "src/passes/control/flatten_replicas.h"
#include "tests/compiler/run_executable.h"
#include "tests/support/against_evaluator.h"
#include "tests/support/random_program.h"
#include "tests/support/shards.h"

namespace tessera::testing {
namespace {

constexpr const char* kAdd = R"(
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
)";

std::string hlo(std::int64_t replicas, std::int64_t partitions, const std::string& entry) {
  return "HloModule m, replica_count=" + std::to_string(replicas) +
         ", num_partitions=" + std::to_string(partitions) + kAdd + "ENTRY e {\n" + entry + "\n}\n";
}

/// arguments[device], small integers: no two devices have the same.
std::vector<std::vector<Literal>> arguments_of(const ir::Module& module, std::int64_t devices) {
  Dice dice(5);
  return random_arguments_of_devices(module, devices, dice);
}

/// Runs one device's program and compares with the evaluator; returns results[device].
std::vector<Literal> check(const std::string& text, bool partitioned = false) {
  SCOPED_TRACE(text);
  const std::unique_ptr<ir::Module> module = compiler::read_module(text, "m");
  ir::ProcessGrid grid = module->grid();
  const auto arguments = arguments_of(*module, grid.devices());
  const std::vector<Literal> want = evaluator::evaluate_spmd(*module, arguments);
  compiler::Options options;
  options.partitioned_input = partitioned;
  const auto executable = compiler::compile(module->clone(), options);
  EXPECT_EQ(executable->num_replicas(), grid.num_replicas);
  EXPECT_EQ(executable->num_partitions(), grid.num_partitions);
  EXPECT_EQ(executable->num_devices(), grid.devices());
  const auto results = executable->run(to_device_arrays(arguments), {});
  const std::vector<Literal> got = to_literals(*executable, results);
  EXPECT_EQ(got.size(), want.size());
  for (std::size_t d = 0; d < got.size(); ++d) EXPECT_EQ(got[d], want[d]) << "device " << d;
  return got;
}

TEST(Replicas, GroupsOfTheProcessGrid) {
  // Two replicas of three partitions: devices 0 to 2 and 3 to 5.
  const ir::ProcessGrid grid{3, 2};
  using Lists = std::vector<std::vector<std::int64_t>>;
  ir::DeviceGroups both, all;
  both.lists = {{1, 0}};
  EXPECT_EQ(process_groups(both, ir::GroupMode::cross_replica, grid),
            (Lists{{3, 0}, {4, 1}, {5, 2}}));
  EXPECT_EQ(process_groups(both, ir::GroupMode::cross_replica_and_partition, grid),
            (Lists{{3, 0, 4, 1, 5, 2}}));
  EXPECT_EQ(process_groups(both, ir::GroupMode::cross_partition, grid), (Lists{{1, 0}, {4, 3}}));
  EXPECT_EQ(process_groups(both, ir::GroupMode::flattened_ids, grid), (Lists{{1, 0}}));
  EXPECT_EQ(process_groups(all, ir::GroupMode::cross_replica, grid),
            (Lists{{0, 3}, {1, 4}, {2, 5}}));
  EXPECT_EQ(process_groups(all, ir::GroupMode::flattened_ids, grid), (Lists{{0, 1, 2, 3, 4, 5}}));
  EXPECT_EQ(process_groups(all, ir::GroupMode::cross_partition, grid),
            (Lists{{0, 1, 2}, {3, 4, 5}}));
  using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;
  EXPECT_EQ(process_pairs({{0, 1}}, ir::GroupMode::cross_replica, grid),
            (Pairs{{0, 3}, {1, 4}, {2, 5}}));
  EXPECT_EQ(process_pairs({{0, 2}}, ir::GroupMode::cross_partition, grid), (Pairs{{0, 2}, {3, 5}}));
}

TEST(Replicas, CollectivesJoinReplicas) {
  for (const char* body : {
           "  x = f32[4] parameter(0)\n  ROOT r = f32[4] all-reduce(x), replica_groups={}, "
           "to_apply=add",
           "  x = f32[4] parameter(0)\n  ROOT r = f32[4] all-reduce(x), "
           "replica_groups={{0,2,4,6},{1,3,5,7}}, to_apply=add",
           "  x = f32[2,3] parameter(0)\n  ROOT r = f32[2,12] all-gather(x), "
           "replica_groups={{3,2,1,0},{4,5,6,7}}, dimensions={1}",
           "  x = f32[16] parameter(0)\n  ROOT r = f32[2] reduce-scatter(x), replica_groups={}, "
           "dimensions={0}, to_apply=add",
           "  x = f32[8,2] parameter(0)\n  ROOT r = f32[8,2] all-to-all(x), replica_groups={}, "
           "dimensions={0}",
           "  x = f32[3] parameter(0)\n  ROOT r = f32[3] collective-permute(x), "
           "source_target_pairs={{0,1},{1,2},{2,3},{7,0}}",
           "  x = f32[3] parameter(0)\n  ROOT r = f32[3] collective-broadcast(x), "
           "replica_groups={{2,0,1},{5,6,7}}",
           // With channels groups mean the one partition, or devices.
           "  x = f32[4] parameter(0)\n  ROOT r = f32[4] all-reduce(x), channel_id=1, "
           "use_global_device_ids=true, replica_groups={{0,1},{2,3},{4,5},{6,7}}, to_apply=add",
           "  x = f32[4] parameter(0)\n  ROOT r = f32[4] collective-permute(x), channel_id=1, "
           "source_target_pairs={{0,0}}",
       }) {
    check(hlo(8, 1, body));
  }
}

TEST(Replicas, KnowTheirNumbers) {
  const std::vector<Literal> got = check(hlo(4, 1, R"(
  x = u32[] parameter(0)
  r = u32[] replica-id()
  p = u32[] partition-id()
  ROOT t = (u32[], u32[]) tuple(r, p))"));
  for (std::size_t d = 0; d < 4; ++d) {
    EXPECT_EQ(to_vector<std::int64_t>(got[d].elements()[0])[0], std::int64_t(d));
    EXPECT_EQ(to_vector<std::int64_t>(got[d].elements()[1])[0], 0);
  }
}

TEST(Replicas, LeaveLoopsAtDifferentTrips) {
  check("HloModule m, replica_count=4" + std::string(kAdd) + R"(
c { s = (u32[], f32[3]) parameter(0)
  n = u32[] get-tuple-element(s), index=0
  z = u32[] constant(0)
  ROOT p = pred[] compare(n, z), direction=GT }
b { s = (u32[], f32[3]) parameter(0)
  n = u32[] get-tuple-element(s), index=0
  x = f32[3] get-tuple-element(s), index=1
  o = u32[] constant(1)
  m = u32[] subtract(n, o)
  y = f32[3] add(x, x)
  ROOT t = (u32[], f32[3]) tuple(m, y) }
ENTRY e {
  x = f32[3] parameter(0)
  r = u32[] replica-id()
  t = (u32[], f32[3]) tuple(r, x)
  w = (u32[], f32[3]) while(t), condition=c, body=b
  y = f32[3] get-tuple-element(w), index=1
  ROOT s = f32[3] all-reduce(y), replica_groups={}, to_apply=add })");
}

// As pmap writes it.
TEST(Replicas, StableHloOfReplicas) {
  check(R"(module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 4 : i32} {
  func.func public @main(%arg0: tensor<3xf32>) -> (tensor<3xf32>, tensor<ui32>) {
    %0 = "stablehlo.all_reduce"(%arg0) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<3xf32>) -> tensor<3xf32>
    %1 = stablehlo.replica_id : tensor<ui32>
    %2 = "stablehlo.collective_permute"(%0) <{source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}> : (tensor<3xf32>) -> tensor<3xf32>
    return %2, %1 : tensor<3xf32>, tensor<ui32>
  }
}
)");
}

TEST(Replicas, DeviceProgramsOfReplicasAndPartitions) {
  for (const char* body : {
           "  x = f32[4] parameter(0)\n  ROOT r = f32[4] all-reduce(x), replica_groups={{0,1}}, "
           "to_apply=add",
           "  x = f32[4] parameter(0)\n  ROOT r = f32[4] all-reduce(x), channel_id=1, "
           "replica_groups={{0},{1}}, to_apply=add",
           "  x = f32[4] parameter(0)\n  ROOT r = f32[4] all-reduce(x), channel_id=1, "
           "replica_groups={}, to_apply=add",
           "  x = f32[4] parameter(0)\n  ROOT r = f32[24] all-gather(x), channel_id=1, "
           "replica_groups={{1,0}}, dimensions={0}",
           "  x = f32[4] parameter(0)\n  ROOT r = f32[8] all-gather(x), channel_id=1, "
           "use_global_device_ids=true, replica_groups={{0,5},{1,4},{2,3}}, dimensions={0}",
           "  x = f32[6] parameter(0)\n  ROOT r = f32[6] all-to-all(x), channel_id=1, "
           "replica_groups={{2,0,1}}, dimensions={0}",
           "  x = f32[4] parameter(0)\n  ROOT r = f32[4] collective-permute(x), channel_id=1, "
           "source_target_pairs={{0,1},{1,2}}",
           "  x = f32[4] parameter(0)\n  ROOT r = f32[4] collective-permute(x), "
           "source_target_pairs={{0,1},{1,0}}",
           "  x = u32[] parameter(0)\n  r = u32[] replica-id()\n  p = u32[] partition-id()\n"
           "  s = u32[] add(r, p)\n  ROOT t = (u32[], u32[], u32[]) tuple(r, p, s)",
       }) {
    check(hlo(2, 3, body), /*partitioned=*/true);
  }
}

/// The partitions of each replica hold the parts of that replica's arrays.
TEST(Replicas, PartitionsOfReplicas) {
  const std::string entry = R"(
  x = f32[8,16] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  w = f32[16,8] parameter(1), sharding={devices=[2,2]<=[4]}
  b = f32[8] parameter(2), sharding={replicated}
  y = f32[8,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[8,8] all-reduce(y), replica_groups={{0,2},{1,3}}, to_apply=add
  r = u32[] replica-id()
  f = f32[] convert(r)
  z = f32[8,8] broadcast(f), dimensions={}
  c = f32[8,8] broadcast(b), dimensions={1}
  u = f32[8,8] add(s, z)
  v = f32[8,8] add(u, c)
  ROOT t = f32[8,8] collective-permute(v), source_target_pairs={{0,3},{3,0},{1,2}},
      sharding={devices=[2,2]<=[4]})";
  for (const Layouts layouts : {Layouts::propagated, Layouts::solved}) {
    const auto module = ir::parse_hlo(hlo(4, 4, entry));
    // The whole arrays of each replica, on one device each.
    const auto whole_program = module->clone();
    whole_program->num_partitions = 1;
    const auto wholes = arguments_of(*module, 4);
    const std::vector<Literal> want = evaluator::evaluate_spmd(*whole_program, wholes);
    compiler::Options options;
    options.layouts = layouts;
    const auto executable = compiler::compile(module->clone(), options);
    ASSERT_EQ(executable->num_devices(), 16);
    std::vector<std::vector<Literal>> args(16);
    for (std::size_t r = 0; r < 4; ++r) {
      for (std::size_t k = 0; k < wholes[r].size(); ++k) {
        const TensorSharding& s = executable->parameter_shardings()[k];
        for (std::size_t p = 0; p < 4; ++p) args[4 * r + p].push_back(shard_of(wholes[r][k], s, p));
      }
    }
    const auto got = to_literals(*executable, executable->run(to_device_arrays(args), {}));
    for (std::size_t r = 0; r < 4; ++r) {
      const std::vector<Literal> mine(got.begin() + std::int64_t(4 * r),
                                      got.begin() + std::int64_t(4 * r + 4));
      const auto fault = difference(mine, want[r], executable->result_shardings(), 0);
      EXPECT_FALSE(fault) << "replica " << r << ": " << *fault;
    }
    // What all partitions of a replica have is stored and computed once for them.
    EXPECT_EQ(executable->partitioned().num_partitions, 16);
    EXPECT_EQ(executable->partitioned().replica_count, 1);
  }
}

TEST(Replicas, DeviceAssignment) {
  const std::string text = hlo(1, 1,
                               "  x = f32[2] parameter(0)\n  ROOT r = f32[2] all-reduce(x), "
                               "replica_groups={}, to_apply=add");
  compiler::Options options;
  options.assignment = {2, 1, {5, 3}};
  const auto executable = compiler::compile(ir::parse_hlo(text), options);
  EXPECT_EQ(executable->assignment().device(1, 0), 3);
  EXPECT_EQ(executable->num_replicas(), 2);
  const std::vector<Literal> x = {make_literal(DType::f32, {2}, std::vector<double>{1, 2}),
                                  make_literal(DType::f32, {2}, std::vector<double>{10, 20})};
  const auto got =
      to_literals(*executable, executable->run(to_device_arrays({{x[0]}, {x[1]}}), {}));
  for (const Literal& l : got) EXPECT_EQ(to_vector<double>(l), (std::vector<double>{11, 22}));

  const auto refused = [&](const compiler::DeviceAssignment& a, const std::string& given,
                           const std::string& says) {
    compiler::Options wrong;
    wrong.assignment = a;
    try {
      compiler::compile(ir::parse_hlo(given), wrong);
      FAIL() << "not refused: " << says;
    } catch (const CompileError& e) {
      EXPECT_NE(e.message().find(says), std::string::npos) << e.message();
    }
  };
  const std::string two = hlo(2, 1, "  ROOT x = f32[2] parameter(0)");
  refused({4, 1, {}}, two, "replica_count=2, and the device assignment 4");
  refused({2, 1, {1, 1}}, two, "2 devices, 1 of them different");
  refused({2, 1, {0}}, two, "1 devices");
  refused({2, 1, {0, -1}}, two, "from 0");
  refused({1 << 21, 1, {}}, text, "valid are 1 to");
  refused({1 << 11, 1 << 11, {}}, text, "valid are up to");
}

TEST(Replicas, WhatJoinsPartsOfReplicasIsRefused) {
  const std::string text = hlo(2, 2,
                               "  x = f32[2] parameter(0)\n  ROOT r = f32[2] all-reduce(x), "
                               "channel_id=1, replica_groups={{0,1}}, to_apply=add");
  EXPECT_THROW(compiler::compile(ir::parse_hlo(text)), NotImplementedError);
  const std::string far = hlo(2, 1,
                              "  x = f32[2] parameter(0)\n  ROOT r = f32[2] all-reduce(x), "
                              "replica_groups={{0,2}}, to_apply=add");
  try {
    compiler::compile(ir::parse_hlo(far));
    FAIL() << "replica 2 of 2";
  } catch (const CompileError& e) {
    EXPECT_NE(e.message().find("names replica 2 in its replica_groups"), std::string::npos)
        << e.message();
  }
}

// As of several replicas, no replica-id is left behind: a loop's body has one as well.
TEST(Replicas, TheOnlyReplicaIsNumberZero) {
  const std::string text = R"(HloModule m
body {
  s = u32[2] parameter(0)
  id = u32[] replica-id()
  one = u32[] constant(1)
  next = u32[] add(id, one)
  more = u32[2] broadcast(next), dimensions={}
  ROOT r = u32[2] add(s, more)
}
until { s = u32[2] parameter(0)
  part = u32[1] slice(s), slice={[0:1]}
  x = u32[] reshape(part)
  five = u32[] constant(5)
  ROOT r = pred[] compare(x, five), direction=LT }
ENTRY e {
  x = u32[2] parameter(0)
  w = u32[2] while(x), condition=until, body=body
  id = u32[] replica-id()
  ROOT r = (u32[2], u32[]) tuple(w, id)
}
)";
  const auto module = ir::parse_hlo(text);
  EXPECT_EQ(passes::flatten_replicas(module.get()), 2U);
  EXPECT_EQ(compiler::broken_guarantee(*module, compiler::kPartitioned), "");
  const auto x = make_literal(DType::u32, {2}, std::vector<int>{1, 7});
  const auto [w, id] = std::pair(make_literal(DType::u32, {2}, std::vector<int>{5, 11}),
                                 Literal::scalar(DType::u32, 0));
  EXPECT_EQ(leaves_of(evaluator::evaluate(*module, std::vector<Literal>{x})),
            (std::vector<Literal>{w, id}));
  check(text);
}

TEST(Replicas, GroupsOfAllHaveAsManyDevicesAsTheShapesSay) {
  const std::string op =
      "  x = f32[2] parameter(0)\n  ROOT r = f32[8] all-gather(x), dimensions={0}, "
      "replica_groups={}";
  try {
    compiler::compile(ir::parse_hlo(hlo(1, 1, op)));
    FAIL() << "four parts of one device";
  } catch (const CompileError& e) {
    EXPECT_NE(e.message().find("is for 1: dim 0 of size 8 and 1 parts of 2"), std::string::npos)
        << e.message();
  }
  EXPECT_NO_THROW(compiler::compile(ir::parse_hlo(hlo(4, 1, op))));
}

}  // namespace
}  // namespace tessera::testing
