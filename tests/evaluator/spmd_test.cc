// SPDX-License-Identifier: Apache-2.0
// Programs of several devices run side by side: every collective against values computed by hand,
// and loops and branches that differ between devices.
#include <gtest/gtest.h>

#include "src/base/arrays/literal_util.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/rewrite/builder.h"

namespace tessera {
namespace {

using ir::Builder;
using ir::DeviceGroups;
using ir::Instruction;
using ir::Opcode;

/// A module whose entry has one parameter.
struct Program {
  explicit Program(std::int64_t devices, Shape input = Shape(s32, {2})) : b(make(devices)) {
    x = b.parameter(0, input, "x");
  }
  /// Device d gets inputs[d]; the results' elements, device by device.
  std::vector<std::vector<int>> run(Instruction* root,
                                    const std::vector<std::vector<int>>& inputs) {
    std::vector<std::vector<int>> out;
    for (const Literal& r : run_literals(root, inputs)) out.push_back(to_vector<int>(r));
    return out;
  }
  std::vector<Literal> run_literals(Instruction* root,
                                    const std::vector<std::vector<int>>& inputs) {
    b.computation()->set_root(root);
    std::vector<std::vector<Literal>> arguments;
    for (const auto& v : inputs) {
      arguments.push_back({make_literal(x->shape.dtype, x->shape.dims, v)});
    }
    return evaluator::evaluate_spmd(module, arguments);
  }
  ir::Computation* adder() { return ir::scalar_computation(&module, Opcode::add, s32); }

  ir::Module module;
  Builder b;
  Instruction* x;

 private:
  Builder make(std::int64_t devices) {
    module.num_partitions = devices;
    ir::Computation* entry = module.add_computation("main");
    module.set_entry(entry);
    return Builder(entry);
  }
};

using Ints = std::vector<std::vector<int>>;

DeviceGroups lists(std::vector<std::vector<std::int64_t>> lists) {
  DeviceGroups g;
  g.lists = std::move(lists);
  return g;
}

ir::CollectiveAttrs over(DeviceGroups groups, Dims dims = {}) {
  ir::CollectiveAttrs attrs;
  attrs.groups = std::move(groups);
  attrs.dims = std::move(dims);
  attrs.channel_id = 1;
  attrs.use_global_device_ids = true;
  return attrs;
}

const Ints kFour = {{1, 2}, {10, 20}, {100, 200}, {1000, 2000}};

TEST(Spmd, AllReduceOverAllDevices) {
  Program p(4);
  EXPECT_EQ(p.run(p.b.all_reduce(p.x, p.adder(), {}), kFour), Ints(4, {1111, 2222}));
}

TEST(Spmd, AllReduceInGroups) {
  Program p(4);
  EXPECT_EQ(p.run(p.b.all_reduce(p.x, p.adder(), lists({{0, 2}, {1, 3}})), kFour),
            (Ints{{101, 202}, {1010, 2020}, {101, 202}, {1010, 2020}}));
}

TEST(Spmd, AllReduceOverMeshAxes) {
  Program p(4);
  const MeshRef mesh = make_logical_mesh({{"a", 2}, {"b", 2}});
  EXPECT_EQ(p.run(p.b.all_reduce(p.x, p.adder(), DeviceGroups::over(mesh, {0})), kFour),
            (Ints{{101, 202}, {1010, 2020}, {101, 202}, {1010, 2020}}));
  Program q(4);
  EXPECT_EQ(q.run(q.b.all_reduce(q.x, q.adder(), DeviceGroups::over(mesh, {1})), kFour),
            (Ints{{11, 22}, {11, 22}, {1100, 2200}, {1100, 2200}}));
}

TEST(Spmd, AllReduceWithAnyReducer) {
  Program p(3);
  // (a, b) -> a * 10 + b shows the order, and needs the slow way through a computation.
  ir::Computation* c = p.module.add_computation("digits");
  Builder b(c);
  Instruction* left = b.parameter(0, Shape(s32, {}));
  Instruction* right = b.parameter(1, Shape(s32, {}));
  c->set_root(b.binary(Opcode::add, b.binary(Opcode::multiply, left, b.scalar(s32, 10)), right));
  EXPECT_EQ(p.run(p.b.all_reduce(p.x, c, lists({{2, 0, 1}})), {{1, 2}, {3, 4}, {5, 6}}),
            Ints(3, {513, 624}));
}

TEST(Spmd, AllReduceOfSeveralOperandsGivesATuple) {
  Program p(2);
  Instruction* twice = p.b.binary(Opcode::add, p.x, p.x);
  Instruction* r = p.b.emit(Opcode::all_reduce, {p.x, twice}, over({}), {p.adder()});
  ASSERT_TRUE(r->shape.is_tuple);
  const auto out = p.run_literals(r, {{1, 2}, {10, 20}});
  for (const Literal& l : out) {
    EXPECT_EQ(to_vector<int>(l.elements()[0]), (std::vector<int>{11, 22}));
    EXPECT_EQ(to_vector<int>(l.elements()[1]), (std::vector<int>{22, 44}));
  }
}

TEST(Spmd, AllGatherInTheGroupsOrder) {
  Program p(4);
  EXPECT_EQ(p.run(p.b.all_gather(p.x, 0, lists({{2, 0}, {1, 3}})), kFour),
            (Ints{{100, 200, 1, 2}, {10, 20, 1000, 2000}, {100, 200, 1, 2}, {10, 20, 1000, 2000}}));
}

TEST(Spmd, AllGatherAlongAMinorDim) {
  Program p(2, Shape(s32, {2, 1}));
  Instruction* g = p.b.all_gather(p.x, 1, {});
  EXPECT_EQ(g->shape, Shape(s32, {2, 2}));
  EXPECT_EQ(p.run(g, {{1, 2}, {3, 4}}), Ints(2, {1, 3, 2, 4}));
}

TEST(Spmd, ReduceScatter) {
  Program p(4);
  EXPECT_EQ(p.run(p.b.reduce_scatter(p.x, p.adder(), 0, lists({{1, 0}, {2, 3}})), kFour),
            (Ints{{22}, {11}, {1100}, {2200}}));
}

TEST(Spmd, AllToAllOfAnArray) {
  Program p(2, Shape(s32, {2, 2}));
  // Device i keeps column i of each member's 2x2 block, side by side.
  EXPECT_EQ(p.run(p.b.all_to_all(p.x, 1, {}), {{1, 2, 3, 4}, {5, 6, 7, 8}}),
            (Ints{{1, 5, 3, 7}, {2, 6, 4, 8}}));
}

TEST(Spmd, AllToAllOfATuple) {
  Program p(2);
  Instruction* negative = p.b.unary(Opcode::negate, p.x);
  Instruction* r = p.b.emit(Opcode::all_to_all, {p.x, negative}, over(lists({{0, 1}})));
  const auto out = p.run_literals(r, {{1, 2}, {3, 4}});
  EXPECT_EQ(to_vector<int>(out[0].elements()[0]), (std::vector<int>{1, 2}));
  EXPECT_EQ(to_vector<int>(out[0].elements()[1]), (std::vector<int>{3, 4}));
  EXPECT_EQ(to_vector<int>(out[1].elements()[0]), (std::vector<int>{-1, -2}));
  EXPECT_EQ(to_vector<int>(out[1].elements()[1]), (std::vector<int>{-3, -4}));
}

TEST(Spmd, PermuteLeavesZerosWhereNothingArrives) {
  Program p(4);
  EXPECT_EQ(p.run(p.b.collective_permute(p.x, {{0, 1}, {1, 0}, {3, 3}}), kFour),
            (Ints{{10, 20}, {1, 2}, {0, 0}, {1000, 2000}}));
}

TEST(Spmd, Broadcast) {
  Program p(4);
  Instruction* r = p.b.emit(Opcode::collective_broadcast, {p.x}, over(lists({{3, 0, 1}})));
  EXPECT_EQ(p.run(r, kFour), (Ints{{1000, 2000}, {1000, 2000}, {0, 0}, {1000, 2000}}));
}

TEST(Spmd, PartitionIdDiffers) {
  Program p(3);
  EXPECT_EQ(p.run(p.b.partition_id(), {{0, 0}, {0, 0}, {0, 0}}), (Ints{{0}, {1}, {2}}));
}

/// while (state.0 < state.1) { state.0 += 1; state.2 = f(state.2) } on each device's own limit.
struct Loop {
  Program p;
  ir::Computation *condition, *body;
  Shape state = Shape::tuple({Shape(s32, {}), Shape(s32, {}), Shape(s32, {2})});
  Instruction* loop = nullptr;

  explicit Loop(std::int64_t devices) : p(devices) {
    condition = p.module.add_computation("condition");
    Builder c(condition);
    Instruction* s = c.parameter(0, state);
    condition->set_root(
        c.compare(ir::Direction::lt, c.get_tuple_element(s, 0), c.get_tuple_element(s, 1)));
    body = p.module.add_computation("body");
  }
  template <class F>
  void build(F&& step) {
    Builder b(body);
    Instruction* s = b.parameter(0, state);
    Instruction* next = b.binary(Opcode::add, b.get_tuple_element(s, 0), b.scalar(s32, 1));
    body->set_root(b.tuple({next, b.get_tuple_element(s, 1), step(b, b.get_tuple_element(s, 2))}));
    // The limit is the first element of x.
    Instruction* limit = p.b.reshape(p.b.slice(p.x, {0}, {1}), {});
    Instruction* init = p.b.tuple({p.b.scalar(s32, 0), limit, p.x});
    p.b.metadata.edit().source_file = "model.cc";
    p.b.metadata.edit().source_line = 7;
    loop = p.b.while_loop(condition, body, init);
    p.b.computation()->set_root(loop);
  }
};

TEST(Spmd, DevicesLeaveALoopAtTheirOwnTrips) {
  Loop l(3);
  l.build([](Builder& b, Instruction* v) { return b.binary(Opcode::add, v, v); });
  const auto out = l.p.run_literals(l.loop, {{3, 1}, {0, 5}, {1, 7}});
  EXPECT_EQ(to_vector<int>(out[0].elements()[2]), (std::vector<int>{24, 8}));
  EXPECT_EQ(to_vector<int>(out[1].elements()[2]), (std::vector<int>{0, 5}));
  EXPECT_EQ(to_vector<int>(out[2].elements()[2]), (std::vector<int>{2, 14}));
  EXPECT_EQ(to_scalar<int>(out[0].elements()[0]), 3);
}

TEST(Spmd, CollectivesInALoopThatAllMembersOfAGroupLeaveTogether) {
  Loop l(4);
  ir::Computation* add = l.p.adder();
  l.build([&](Builder& b, Instruction* v) {
    return b.all_reduce(v, add, lists({{0, 1}, {2, 3}}));
  });
  const auto out = l.p.run_literals(l.loop, {{2, 1}, {2, 3}, {0, 5}, {0, 6}});
  EXPECT_EQ(to_vector<int>(out[0].elements()[2]), (std::vector<int>{8, 8}));
  EXPECT_EQ(to_vector<int>(out[1].elements()[2]), (std::vector<int>{8, 8}));
  EXPECT_EQ(to_vector<int>(out[2].elements()[2]), (std::vector<int>{0, 5}));
}

TEST(Spmd, ACollectiveOfPartOfAGroupNamesItAndTheLoop) {
  Loop l(2);
  ir::Computation* add = l.p.adder();
  l.build([&](Builder& b, Instruction* v) {
    b.metadata.edit().source_file = "model.cc";
    b.metadata.edit().source_line = 42;
    return b.all_reduce(v, add, {});
  });
  try {
    l.p.run_literals(l.loop, {{1, 1}, {2, 1}});
    FAIL() << "device 0 left the loop and took part all the same";
  } catch (const RuntimeError& e) {
    const std::string what = e.what();
    EXPECT_NE(what.find("all-reduce"), std::string::npos) << what;
    EXPECT_NE(what.find("model.cc:42"), std::string::npos) << what;
    EXPECT_NE(what.find("model.cc:7"), std::string::npos) << what;
    EXPECT_NE(what.find("left the loop while"), std::string::npos) << what;
  }
}

/// x in branch 0, -x or its sum over all devices in branch 1, chosen by x[0] > 5.
struct Branches {
  Program p;
  Instruction* result = nullptr;

  Branches(std::int64_t devices, const DeviceGroups* groups) : p(devices) {
    ir::Computation* yes = p.module.add_computation("yes");
    Builder y(yes);
    yes->set_root(
        y.binary(Opcode::add, y.parameter(0, p.x->shape), y.splat(y.scalar(s32, 1), {2})));
    ir::Computation* no = p.module.add_computation("no");
    Builder n(no);
    n.metadata.edit().source_file = "model.cc";
    n.metadata.edit().source_line = 42;
    Instruction* v = n.parameter(0, p.x->shape);
    no->set_root(groups ? n.all_reduce(v, p.adder(), *groups) : n.unary(Opcode::negate, v));
    Instruction* first = p.b.reshape(p.b.slice(p.x, {0}, {1}), {});
    Instruction* big = p.b.compare(ir::Direction::gt, first, p.b.scalar(s32, 5));
    p.b.metadata.edit().source_file = "model.cc";
    p.b.metadata.edit().source_line = 9;
    result = p.b.conditional(big, {p.x, p.x}, {yes, no});
  }
};

TEST(Spmd, DevicesTakeTheirOwnBranch) {
  Branches b(3, nullptr);
  EXPECT_EQ(b.p.run(b.result, {{1, 2}, {6, 7}, {3, 4}}), (Ints{{-1, -2}, {7, 8}, {-3, -4}}));
}

TEST(Spmd, CollectiveInABranchThatAWholeGroupTakes) {
  const DeviceGroups groups = lists({{0, 2}, {1, 3}});
  Branches b(4, &groups);
  EXPECT_EQ(b.p.run(b.result, {{1, 2}, {6, 7}, {3, 4}, {8, 9}}),
            (Ints{{4, 6}, {7, 8}, {4, 6}, {9, 10}}));
}

TEST(Spmd, ACollectiveInABranchNotAllTakeIsAnError) {
  const DeviceGroups all;
  Branches b(3, &all);
  try {
    b.p.run(b.result, {{1, 2}, {6, 7}, {3, 4}});
    FAIL();
  } catch (const RuntimeError& e) {
    const std::string what = e.what();
    EXPECT_NE(what.find("model.cc:42"), std::string::npos) << what;
    EXPECT_NE(what.find("model.cc:9"), std::string::npos) << what;
    EXPECT_NE(what.find("took another branch"), std::string::npos) << what;
    EXPECT_NE(what.find("only the devices 0,2"), std::string::npos) << what;
  }
}

TEST(Spmd, IndexBeyondTheBranchesTakesTheLast) {
  Program p(3, Shape(s32, {}));
  std::vector<ir::Computation*> branches;
  for (int i = 0; i < 2; ++i) {
    branches.push_back(p.module.add_computation("branch"));
    Builder b(branches.back());
    Instruction* v = b.parameter(0, Shape(s32, {}));
    branches.back()->set_root(b.binary(Opcode::add, v, b.scalar(s32, 100 * (i + 1))));
  }
  Instruction* r = p.b.conditional(p.x, {p.x, p.x}, branches);
  EXPECT_EQ(p.run(r, {{0}, {-3}, {9}}), (Ints{{100}, {197}, {209}}));
}

TEST(Spmd, ArgumentsAreChecked) {
  Program p(2);
  p.b.computation()->set_root(p.x);
  const std::vector<std::vector<Literal>> one = {{make_literal(s32, {2}, std::vector<int>{1, 2})}};
  EXPECT_THROW(evaluator::evaluate_spmd(p.module, one), ValueError);
  const std::vector<std::vector<Literal>> wrong(2, {make_literal(s32, {1}, std::vector<int>{1})});
  EXPECT_THROW(evaluator::evaluate_spmd(p.module, wrong), ShapeError);
}

TEST(SingleMode, CollectivesNeedTheOtherDevices) {
  Program p(2);
  p.b.computation()->set_root(p.b.all_reduce(p.x, p.adder(), {}));
  const std::vector<Literal> arguments = {make_literal(s32, {2}, std::vector<int>{1, 2})};
  EXPECT_THROW(evaluator::evaluate(p.module, arguments), RuntimeError);
  p.module.num_partitions = 1;
  EXPECT_EQ(to_vector<int>(evaluator::evaluate(p.module, arguments)), (std::vector<int>{1, 2}));
}

TEST(SingleMode, CustomCalls) {
  Program p(1);
  ir::CustomCallAttrs attrs;
  attrs.target = "Sharding";
  Instruction* r = p.b.emit_shaped(Opcode::custom_call, p.x->shape, {p.x}, attrs);
  p.b.computation()->set_root(r);
  const std::vector<Literal> arguments = {make_literal(s32, {2}, std::vector<int>{1, 2})};
  EXPECT_EQ(to_vector<int>(evaluator::evaluate(p.module, arguments)), (std::vector<int>{1, 2}));
  attrs.target = "my_kernel";
  p.b.computation()->set_root(p.b.emit_shaped(Opcode::custom_call, p.x->shape, {p.x}, attrs));
  try {
    evaluator::evaluate(p.module, arguments);
    FAIL();
  } catch (const NotImplementedError& e) {
    EXPECT_NE(std::string(e.what()).find("my_kernel"), std::string::npos);
  }
}

}  // namespace
}  // namespace tessera
