// SPDX-License-Identifier: Apache-2.0
// custom_partitioning calls: the program uses the callback's layouts and per-device function.
#include <gtest/gtest.h>

#include <functional>

#include "src/evaluator/evaluator.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/hooks.h"
#include "src/ir/rewrite/builder.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/spmd/partitioner/partition.h"
#include "tests/support/random_program.h"
#include "tests/support/shards.h"

namespace tessera::testing {
namespace {

using ir::Opcode;

/// A partitioner made of two functions.
class Hook : public ir::CustomPartitioner {
 public:
  using Layouts = std::function<void(Partition*, const MeshRef&)>;
  using Body = std::function<ir::Instruction*(ir::Builder&, const std::vector<ir::Instruction*>&)>;
  Hook(Layouts layouts, Body body) : layouts_(std::move(layouts)), body_(std::move(body)) {}

  std::string name() const override { return "my_op"; }
  std::optional<ir::FactorRuleSpec> rule(const MeshRef&, const std::vector<ir::ShapeWithSharding>&,
                                         const std::vector<ir::ShapeWithSharding>&) override {
    return std::nullopt;
  }
  bool has_infer_callback() const override { return false; }
  bool has_propagate_callback() const override { return false; }
  std::vector<TensorSharding> infer_sharding_from_operands(
      const MeshRef&, const std::vector<ir::ShapeWithSharding>&,
      const std::vector<ir::ShapeWithSharding>&) override {
    return {};
  }
  std::vector<TensorSharding> propagate_user_sharding(
      const MeshRef&, const std::vector<ir::ShapeWithSharding>&) override {
    return {};
  }
  Partition partition(ir::Module* module, const MeshRef& mesh,
                      const std::vector<ir::ShapeWithSharding>& args,
                      const std::vector<ir::ShapeWithSharding>& results) override {
    Partition p;
    for (const auto& a : args) p.args.push_back(*a.sharding);
    for (const auto& r : results) p.results.push_back(*r.sharding);
    if (layouts_) layouts_(&p, mesh);
    p.body = module->add_computation("my_op_shard");
    ir::Builder b(p.body);
    std::vector<ir::Instruction*> parameters;
    for (std::size_t i = 0; i < args.size(); ++i) {
      Shape local(args[i].shape.dtype, p.args[i].shard_dims(args[i].shape.dims));
      parameters.push_back(b.parameter(std::int64_t(i), local));
    }
    mesh_ = mesh;
    p.body->set_root(b.tuple({body_(b, parameters)}));
    return p;
  }
  MeshRef mesh_;

 private:
  Layouts layouts_;
  Body body_;
};

/// x f32[16,8] split along rows → my_op(x), shape [16,8], split along rows; plain body: x + x.
std::unique_ptr<ir::Module> program(std::shared_ptr<ir::CustomPartitioner> hook,
                                    std::int64_t devices = 8) {
  auto m = std::make_unique<ir::Module>("m");
  m->num_partitions = devices;
  m->mesh = make_logical_mesh({{"x", devices}});
  const Shape shape(f32, {16, 8});
  TensorSharding rows = TensorSharding::replicated_on(m->mesh, 2);
  rows.dims[0].axes = {0};
  ir::Computation* plain = m->add_computation("plain");
  {
    ir::Builder b(plain);
    ir::Instruction* x = b.parameter(0, shape);
    plain->set_root(b.tuple({b.binary(Opcode::add, x, x)}));
  }
  ir::Computation* entry = m->add_computation("main");
  ir::Builder b(entry);
  b.metadata.edit().source_file = "model.cc";
  b.metadata.edit().source_line = 31;
  ir::Instruction* x = b.parameter(0, shape);
  x->sharding = {rows};
  ir::CustomPartitioningAttrs attrs;
  attrs.partitioner = std::move(hook);
  ir::Instruction* call =
      b.emit_shaped(Opcode::custom_partitioning, Shape::tuple({shape}), {x}, attrs, {plain});
  call->sharding = {rows};
  ir::Instruction* out = b.get_tuple_element(call, 0);
  out->sharding = {rows};
  entry->set_root(out);
  m->set_entry(entry);
  m->remove_dead_computations();
  return m;
}

ir::Instruction* twice(ir::Builder& b, const std::vector<ir::Instruction*>& p) {
  return b.binary(Opcode::add, p[0], p[0]);
}

std::unique_ptr<ir::Module> run(std::shared_ptr<Hook> hook, spmd::PartitionReport* report,
                                std::int64_t devices = 8) {
  auto source = program(hook, devices);
  auto device = spmd::partition(*source, {}, report);
  ir::verify(*device);
  Dice dice(3);
  const std::vector<Literal> arguments{random_literal(dice, f32, {16, 8}, true)};
  Literal whole = arguments[0];
  for (float& v : whole.mutable_data<float>()) v *= 2;
  const auto results = evaluator::evaluate_spmd(*device, shard_arguments(*device, arguments));
  const auto fault = difference(results, whole, source->entry()->root()->sharding, 0);
  EXPECT_FALSE(fault) << *fault << ir::to_string(*device);
  return device;
}

int count(const ir::Module& m, Opcode op) {
  int n = 0;
  for (const auto& c : m.computations()) {
    for (const auto& i : c->instructions()) n += i->is(op);
  }
  return n;
}

TEST(PartitionCustom, SuggestedLayoutsNeedNoCommunication) {
  spmd::PartitionReport report;
  auto device = run(std::make_shared<Hook>(nullptr, twice), &report);
  EXPECT_TRUE(report.records.empty());
  EXPECT_EQ(count(*device, Opcode::custom_partitioning), 0) << ir::to_string(*device);
  EXPECT_EQ(count(*device, Opcode::dynamic_slice), 0);
}

TEST(PartitionCustom, OverriddenLayoutsCauseReshards) {
  // Replicated in and out: gathered before, cut after.
  spmd::PartitionReport report;
  auto device = run(std::make_shared<Hook>(
                        [](Hook::Partition* p, const MeshRef& mesh) {
                          p->args[0] = TensorSharding::replicated_on(mesh, 2);
                          p->results[0] = TensorSharding::replicated_on(mesh, 2);
                        },
                        twice),
                    &report);
  EXPECT_EQ(count(*device, Opcode::all_gather), 1) << ir::to_string(*device);
  EXPECT_EQ(count(*device, Opcode::dynamic_slice), 1);
  ASSERT_EQ(report.records.size(), 1u);
  EXPECT_EQ(report.records[0].reason, "argument 0 of my_op");
  EXPECT_EQ(report.records[0].location.to_string(), "model.cc:31");
  // The other dim: two all-to-alls.
  device = run(std::make_shared<Hook>(
                   [](Hook::Partition* p, const MeshRef& mesh) {
                     TensorSharding columns = TensorSharding::replicated_on(mesh, 2);
                     columns.dims[1].axes = {0};
                     p->args[0] = columns;
                     p->results[0] = columns;
                   },
                   twice),
               nullptr);
  EXPECT_EQ(count(*device, Opcode::all_to_all), 2) << ir::to_string(*device);
}

TEST(PartitionCustom, CollectivesOfThePerShardFunctionStay) {
  spmd::PartitionReport report;
  auto hook = std::make_shared<Hook>(nullptr, nullptr);
  *hook = Hook(nullptr, [](ir::Builder& b, const std::vector<ir::Instruction*>& p) {
    // The sum over all devices is taken away again: 2x + s - s.
    ir::Computation* add = ir::scalar_computation(b.module(), Opcode::add, f32);
    ir::Instruction* s = b.all_reduce(p[0], add, {});
    return b.binary(Opcode::subtract, b.binary(Opcode::add, b.binary(Opcode::add, p[0], p[0]), s),
                    s);
  });
  auto device = run(hook, &report);
  EXPECT_EQ(count(*device, Opcode::all_reduce), 1) << ir::to_string(*device);
  ASSERT_EQ(report.records.size(), 1u);
  EXPECT_EQ(report.records[0].bytes_received, 2 * 2 * 8 * 4 * 7 / 8.0);
}

TEST(PartitionCustom, WrongTilesAreErrorsThatNameBothShapes) {
  auto bad =
      std::make_shared<Hook>(nullptr, [](ir::Builder& b, const std::vector<ir::Instruction*>& p) {
        return b.slice(p[0], {0, 0}, {1, 8});
      });
  auto source = program(bad);
  try {
    spmd::partition(*source, {}, nullptr);
    FAIL() << "nothing was thrown";
  } catch (const ShapeError& e) {
    EXPECT_EQ(e.location().to_string(), "model.cc:31");
    for (const char* part : {"my_op", "f32[1,8]", "f32[2,8]", "f32[16,8]"}) {
      EXPECT_NE(e.message().find(part), std::string::npos) << e.message();
    }
  }
  // The dtype counts.
  auto wrong_type = std::make_shared<Hook>(
      nullptr,
      [](ir::Builder& b, const std::vector<ir::Instruction*>& p) { return b.convert(p[0], s32); });
  source = program(wrong_type);
  EXPECT_THROW(spmd::partition(*source, {}, nullptr), ShapeError);
}

struct Mine : std::runtime_error {
  using std::runtime_error::runtime_error;
};

TEST(PartitionCustom, ExceptionsKeepTheirType) {
  auto throws =
      std::make_shared<Hook>([](Hook::Partition*, const MeshRef&) { throw Mine("no"); }, twice);
  auto source = program(throws);
  EXPECT_THROW(spmd::partition(*source, {}, nullptr), Mine);
}

TEST(PartitionCustom, OneDeviceRunsThePlainBody) {
  auto throws =
      std::make_shared<Hook>([](Hook::Partition*, const MeshRef&) { throw Mine("no"); }, twice);
  auto device = run(throws, nullptr, 1);
  EXPECT_EQ(count(*device, Opcode::custom_partitioning), 0) << ir::to_string(*device);
}

}  // namespace
}  // namespace tessera::testing
