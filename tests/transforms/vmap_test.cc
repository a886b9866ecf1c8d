// SPDX-License-Identifier: Apache-2.0
// Whole programs on batches: shardings, aliases, what is shared, rules of derivatives, code per
// device, random programs, and what is refused.
#include "src/transforms/vmap.h"

#include "src/ir/custom_calls/custom_call.h"
#include "src/ir/hooks.h"
#include "src/ir/rewrite/derivative_rules.h"
#include "tests/support/count.h"
#include "tests/transforms/batch_case.h"

namespace tessera::testing {
namespace {

using ir::Instruction;
using ir::Opcode;

std::unique_ptr<ir::Module> vmapped(const std::string& text, const Dims& axes,
                                    std::int64_t size = 3) {
  auto out = transforms::vmap(*ir::parse_hlo(text, "vmap.hlo"), axes, size);
  ir::verify(*out);
  return out;
}

const Instruction* first_of(const ir::Module& module, Opcode op) {
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) {
      if (i->is(op)) return i.get();
    }
  }
  return nullptr;
}

TEST(Vmap, ResultsAreBatchedOnDim0) {
  const std::string text = batch_program(
      "x = f32[2] parameter(0)\n y = f32[3] parameter(1)\n n = f32[3] negate(y)\n"
      "s = f32[2] sine(x)\n ROOT r = (f32[2], f32[3], f32[2]) tuple(s, n, x)");
  const auto module = vmapped(text, {1, -1}, 4);
  EXPECT_EQ(module->entry()->parameter(0)->shape, Shape(DType::f32, {2, 4}));
  EXPECT_EQ(module->entry()->parameter(1)->shape, Shape(DType::f32, {3}));
  EXPECT_EQ(module->entry()->root()->shape.to_string(), "(f32[4,2], f32[4,3], f32[4,2])");
  EXPECT_EQ(module->entry()->name(), "e");
  // What all entries share is computed once.
  EXPECT_EQ(first_of(*module, Opcode::negate)->shape, Shape(DType::f32, {3}));
  const auto of_none = vmapped(text, {-1, -1}, 4);
  EXPECT_EQ(of_none->entry()->root()->shape.to_string(), "(f32[4,2], f32[4,3], f32[4,2])");
  const auto empty = vmapped(text, {0, 1}, 0);
  EXPECT_EQ(empty->entry()->root()->shape.to_string(), "(f32[0,2], f32[0,3], f32[0,2])");
}

template <class E>
void expect_refused(const std::string& text, const Dims& axes, const std::string& message,
                    std::int64_t size = 3) {
  try {
    vmapped(text, axes, size);
    FAIL() << "nothing was thrown: " << message;
  } catch (const E& e) {
    EXPECT_NE(std::string(e.what()).find(message), std::string::npos) << e.what();
  }
}

TEST(Vmap, WrongAxesAreRefused) {
  const std::string text = batch_program(
      "x = f32[2] parameter(0), metadata={source_file=\"f.cc\" source_line=7}\n"
      "ROOT n = f32[2] negate(x)");
  expect_refused<ValueError>(text, {0, 0}, "axes of 2 arguments, and the program has 1");
  expect_refused<ValueError>(text, {2},
                             "f.cc:7: vmap can't batch argument 0, f32[2] for an entry, "
                             "on axis 2; valid: 0 to 1");
  expect_refused<ValueError>(text, {-2}, "on axis -2");
  expect_refused<ValueError>(text, {0}, "a batch of -1 entries", -1);
}

TEST(Vmap, SizesThatDifferAreRefusedAtTheirLine) {
  expect_refused<NotImplementedError>(
      batch_program("x = f32[4] parameter(0)\n n = s32[] parameter(1)\n"
                    "ROOT r = f32[4] set-dimension-size(x, n), dimensions={0}, "
                    "metadata={source_file=\"f.cc\" source_line=9}"),
      {0, 0},
      "f.cc:9: set-dimension-size r (f.cc:9) can't be batched: the entries of a batch are of one "
      "size");
  // Where the batch doesn't reach it, it stays.
  EXPECT_NO_THROW(vmapped(
      batch_program("x = f32[4] parameter(0)\n n = s32[] constant(2)\n y = f32[] parameter(1)\n"
                    "r = f32[4] set-dimension-size(x, n), dimensions={0}\n"
                    "ROOT t = (f32[4], f32[]) tuple(r, y)"),
      {-1, 0}));
}

TEST(Vmap, SideEffectsOfSomeEntriesAreRefused) {
  const std::string callees = R"(
say { x = f32[2] parameter(0)
  ROOT r = f32[2] custom-call(x), custom_call_target="test.say", custom_call_has_side_effect=true }
same { ROOT x = f32[2] parameter(0) }
)";
  const std::string text = batch_program(
      "p = pred[] parameter(0)\n x = f32[2] parameter(1)\n"
      "ROOT r = f32[2] conditional(p, x, x), true_computation=say, false_computation=same",
      callees);
  expect_refused<NotImplementedError>(
      text, {0, -1}, "which entries run say differs, and r in it has side effects");
  // All of them take the same branch.
  EXPECT_EQ(count_of(*vmapped(text, {-1, 0}), Opcode::conditional), 1);
  const auto ordered =
      vmapped(batch_program("x = f32[2] parameter(0)\n y = f32[2] parameter(1)\n"
                            "a = (f32[2]) custom-call(x), custom_call_target=\"test.say\", "
                            "custom_call_has_side_effect=true\n"
                            "b = (f32[2]) custom-call(y), custom_call_target=\"test.say\", "
                            "custom_call_has_side_effect=true, control-predecessors={a}\n"
                            "c = f32[2] get-tuple-element(b), index=0\n n = f32[2] negate(x), "
                            "control-predecessors={b}\n ROOT t = (f32[2], f32[2]) tuple(c, n)"),
              {0, -1});
  const Instruction* scan = first_of(*ordered, Opcode::scan);
  ASSERT_NE(scan, nullptr);
  ASSERT_EQ(scan->control_successors().size(), 1u);
  EXPECT_TRUE(scan->control_successors()[0]->is(Opcode::custom_call));
}

TEST(Vmap, MetadataStays) {
  const auto module = vmapped(
      batch_program("x = f32[4,2] parameter(0)\n y = f32[2,3] parameter(1)\n"
                    "ROOT d = f32[4,3] dot(x, y), lhs_contracting_dims={1}, "
                    "rhs_contracting_dims={0}, metadata={op_name=\"f/dot\" source_file=\"f.cc\" "
                    "source_line=3}"),
      {-1, 0});
  for (const auto& i : module->entry()->instructions()) {
    if (i->is(Opcode::parameter)) continue;
    EXPECT_EQ(i->metadata->op_name, "f/dot") << i->describe();
    EXPECT_EQ(i->metadata->source_line, 3) << i->describe();
  }
}

TEST(Vmap, NothingMovesWithoutNeed) {
  const auto module = vmapped(
      batch_program("x = f32[4,6] parameter(0)\n y = f32[4,6] parameter(1)\n"
                    "s = f32[4,6] add(x, y)\n z = f32[] constant(0)\n"
                    "m = f32[4] reduce(s, z), dimensions={1}, to_apply=add\n"
                    "b = f32[4,6] broadcast(m), dimensions={0}\n d = f32[4,6] divide(s, b)\n"
                    "t = f32[6,4] transpose(d), dimensions={1,0}\n"
                    "w = f32[6,5] parameter(2)\n"
                    "ROOT r = f32[4,5] dot(t, w), lhs_contracting_dims={0}, "
                    "rhs_contracting_dims={0}"),
      {0, 0, -1});
  EXPECT_EQ(count_of(*module, Opcode::transpose), 1) << ir::to_string(*module);
}

TEST(Vmap, EqualCalleesAreShared) {
  const std::string f = R"(
f { x = f32[2] parameter(0)
  y = f32[2] parameter(1)
  ROOT r = f32[2] multiply(x, y) }
)";
  const auto module = vmapped(
      batch_program("x = f32[2] parameter(0)\n y = f32[2] parameter(1)\n"
                    "a = f32[2] call(x, y), to_apply=f\n b = f32[2] call(a, y), to_apply=f\n"
                    "c = f32[2] call(y, y), to_apply=f\n d = f32[2] call(c, b), to_apply=f\n"
                    "ROOT r = (f32[2], f32[2]) tuple(b, d)",
                    f),
      {0, -1});
  // On (batched, not), (not, batched) and on neither.
  EXPECT_EQ(count_of(*module, Opcode::multiply), 3) << ir::to_string(*module);
}

TEST(Vmap, LoopsCarryTheBatchOnlyWhereItGoes) {
  const std::string parts = R"(
below { s = (s32[], f32[3], f32[3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT r = pred[] compare(i, n), direction=LT }
grow { s = (s32[], f32[3], f32[3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[3] get-tuple-element(s), index=1
  w = f32[3] get-tuple-element(s), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[3] add(x, w)
  ROOT r = (s32[], f32[3], f32[3]) tuple(j, y, w) }
)";
  const std::string text = batch_program(
      "i = s32[] parameter(0)\n x = f32[3] parameter(1)\n w = f32[3] parameter(2)\n"
      "t = (s32[], f32[3], f32[3]) tuple(i, x, w)\n"
      "ROOT r = (s32[], f32[3], f32[3]) while(t), condition=below, body=grow",
      parts);
  const auto shape_of_loop = [&](const Dims& axes) {
    return first_of(*vmapped(text, axes), Opcode::while_)->shape.to_string();
  };
  EXPECT_EQ(shape_of_loop({-1, -1, -1}), "(s32[], f32[3], f32[3])");
  EXPECT_EQ(shape_of_loop({-1, 1, -1}), "(s32[], f32[3,3], f32[3])");
  EXPECT_EQ(shape_of_loop({-1, -1, 0}), "(s32[], f32[3,3], f32[3,3])");
  // Entries leave at different trips: what changes is kept for each, and whether it still runs.
  EXPECT_EQ(shape_of_loop({0, -1, -1}), "(s32[3], f32[3,3], f32[3], pred[3])");
}

TEST(Vmap, AliasesAreDropped) {
  const auto module = vmapped(
      batch_program("x = f32[2] parameter(0)\n y = f32[2] parameter(1)\n"
                    "ROOT r = f32[2] add(x, y)",
                    "",
                    ", input_output_alias={ {}: (0, {}, may-alias) }, buffer_donor={ (1, {}) }, "
                    "is_scheduled=true"),
      {0, -1});
  EXPECT_TRUE(module->input_output_alias.empty());
  EXPECT_TRUE(module->buffer_donor.empty());
  EXPECT_EQ(ir::to_string(*module).find("is_scheduled"), std::string::npos);
}

TEST(Vmap, ShardingsLeaveTheBatchOpen) {
  const auto source = ir::parse_hlo(
      batch_program("x = f32[8,4] parameter(0), sharding={devices=[2,1]<=[2]}\n"
                    "c = f32[8,4] custom-call(x), custom_call_target=\"Sharding\", "
                    "sharding={devices=[1,2]<=[2]}, backend_config=\"unspecified_dims=[1]\"\n"
                    "t = f32[4,8] transpose(c), dimensions={1,0}\n"
                    "ROOT r = (f32[4,8], f32[8,4]) tuple(t, x), "
                    "sharding={{devices=[1,2]<=[2]}, {replicated}}",
                    "", ", num_partitions=2"));
  const auto module = transforms::vmap(*source, Dims{1}, 3);
  ir::verify(*module);
  const auto expect_open = [](const TensorSharding& s, std::size_t at, const TensorSharding& was) {
    ASSERT_EQ(s.rank(), was.rank() + 1);
    EXPECT_TRUE(s.dims[at].open);
    EXPECT_TRUE(s.dims[at].axes.empty());
    TensorSharding rest = s;
    rest.dims.erase(rest.dims.begin() + std::ptrdiff_t(at));
    EXPECT_TRUE(rest.same_placement(was)) << rest.to_string() << was.to_string();
  };
  expect_open(module->entry()->parameter(0)->sharding.at(0), 1,
              source->entry()->parameter(0)->sharding.at(0));
  const Instruction* root = module->entry()->root();
  ASSERT_EQ(root->sharding.size(), 2u);
  expect_open(root->sharding[0], 0, source->entry()->root()->sharding[0]);
  expect_open(root->sharding[1], 0, source->entry()->root()->sharding[1]);
  const Instruction* constraint = first_of(*module, Opcode::sharding_constraint);
  expect_open(constraint->sharding.at(0), 1,
              first_of(*source, Opcode::sharding_constraint)->sharding.at(0));
  EXPECT_EQ(constraint->get<ir::ShardingConstraintAttrs>().unspecified_dims, (Dims{1, 2}));
}

TEST(Vmap, CodePerDeviceHasWholeBatches) {
  const std::string text = batch_program(
      "a = f32[8,2] parameter(0)\n b = f32[4] parameter(1)\n"
      "ROOT m = f32[8,2] custom-call(a, b), custom_call_target=\"tessera.ManualComputation\", "
      "in_shardings=[<mesh<[\"x\"=2, \"y\"=4]>, [{\"x\"}, {}]>, <mesh<[\"x\"=2, \"y\"=4]>, [{}]>], "
      "out_shardings=[<mesh<[\"x\"=2, \"y\"=4]>, [{\"x\"}, {}]>], manual_axes=[\"x\"], "
      "called_computations={body}",
      R"(
body { p = f32[4,2] parameter(0)
  q = f32[4] parameter(1)
  r = f32[4,2] broadcast(q), dimensions={0}
  ROOT s = f32[4,2] add(p, r) }
)",
      ", num_partitions=8");
  const auto module = vmapped(text, {1, 0}, 3);
  const Instruction* manual = first_of(*module, Opcode::manual_computation);
  ASSERT_NE(manual, nullptr);
  const auto& attrs = manual->get<ir::ManualComputationAttrs>();
  EXPECT_EQ(manual->called(0)->parameter(0)->shape, Shape(DType::f32, {4, 3, 2}));
  EXPECT_EQ(attrs.in_shardings[0].shards(), (Dims{2, 1, 1}));
  EXPECT_TRUE(attrs.in_shardings[0].dims[1].open);
  EXPECT_EQ(attrs.in_shardings[1].shards(), (Dims{1, 1}));
  ASSERT_EQ(attrs.out_shardings[0].rank(), 3);
  // The body's result is batched where its operands are.
  EXPECT_EQ(attrs.out_shardings[0].shards(), (Dims{2, 1, 1}));
}

TEST(Vmap, CollectivesOnBatches) {
  const std::string groups = "replica_groups={{0,1},{2,3}}, use_global_device_ids=true";
  const std::string text = batch_program(
      "x = f32[4,6] parameter(0)\n y = f32[4] parameter(1)\n"
      "a = f32[4,6] all-reduce(x), channel_id=1, " +
          groups +
          ", to_apply=add\n"
          "b = (f32[4,6], f32[4]) all-reduce(x, y), channel_id=2, " +
          groups +
          ", to_apply=add\n"
          "c = f32[8,6] all-gather(x), channel_id=3, " +
          groups +
          ", dimensions={0}\n"
          "d = (f32[4,12], f32[4,12]) all-gather(x, a), channel_id=4, " +
          groups +
          ", dimensions={1}\n"
          "f = f32[4,3] reduce-scatter(x), channel_id=5, " +
          groups +
          ", dimensions={1}, to_apply=add\n"
          "g = f32[4,6] all-to-all(x), channel_id=6, replica_groups={{0,1},{2,3}}, dimensions={0}\n"
          "n = f32[4,6] negate(x)\n"
          "h = (f32[4,6], f32[4,6]) all-to-all(x, n), channel_id=7, replica_groups={{0,2},{1,3}}\n"
          "i = f32[4,6] collective-permute(x), channel_id=8, "
          "source_target_pairs={{0,1},{1,2},{3,0}}\n"
          "j = f32[4,6] collective-broadcast(x), channel_id=9, replica_groups={{2,0},{1,3}}\n"
          "ROOT r = (f32[4,6], (f32[4,6], f32[4]), f32[8,6], (f32[4,12], f32[4,12]), f32[4,3], "
          "f32[4,6], (f32[4,6], f32[4,6]), f32[4,6], f32[4,6]) tuple(a, b, c, d, f, g, h, i, j)",
      "", ", num_partitions=4");
  const auto module = ir::parse_hlo(text);
  Dice dice(5);
  for (const Dims& axes : {Dims{0, 0}, Dims{1, 1}, Dims{2, -1}, Dims{-1, 1}}) {
    const auto batched = transforms::vmap(*module, axes, 3);
    ir::verify(*batched);
    std::vector<std::vector<Literal>> args(4);
    for (auto& own : args) {
      for (const Instruction* p : batched->entry()->parameters()) {
        own.push_back(random_literal(dice, DType::f32, p->shape.dims, true));
      }
    }
    const std::vector<Literal> got = evaluator::evaluate_spmd(*batched, args);
    for (std::int64_t e = 0; e < 3; ++e) {
      auto own = args;
      for (auto& of_device : own) {
        for (std::size_t k = 0; k < 2; ++k) {
          if (axes[k] >= 0) of_device[k] = entry_of(of_device[k], axes[k], e);
        }
      }
      const std::vector<Literal> want = evaluator::evaluate_spmd(*module, own);
      for (std::size_t device = 0; device < 4; ++device) {
        const auto g = leaves_of(got[device]), w = leaves_of(want[device]);
        ASSERT_EQ(g.size(), w.size());
        for (std::size_t k = 0; k < w.size(); ++k) {
          EXPECT_TRUE(entry_of(g[k], 0, e) == w[k]) << "result " << k << ", axes " << join(axes);
        }
      }
    }
  }
}

TEST(Vmap, NoiseDiffersBetweenDistributions) {
  const auto module = vmapped(batch_program("a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
                                            "ROOT r = f32[50] rng(a, b), distribution=rng_uniform"),
                              {0, -1}, 2);
  const Literal out = evaluator::evaluate(
      *module, std::vector<Literal>{make_literal<float>(DType::f32, {2}, {0, 9}),
                                    Literal::scalar(DType::f32, 10)});
  ASSERT_EQ(out.dims(), (Dims{2, 50}));
  bool below = false;
  for (std::size_t i = 0; i < 50; ++i) below |= out.data<float>()[i] < 9;
  EXPECT_TRUE(below);
  for (std::size_t i = 50; i < 100; ++i) EXPECT_GE(out.data<float>()[i], 9);
}

// Custom calls: x + 1 and the sum of a row, by a kernel.

class RowTarget : public ir::CustomCallTarget {
 public:
  explicit RowTarget(bool batches) : batches_(batches) {}
  bool has_leading_batch_dims() const override { return batches_; }

 private:
  bool batches_;
};

evaluator::CallFunction prepare_row_call(const Instruction& call) {
  const Shape shape = call.shape.elements.at(0);
  const Shape sums = call.shape.elements.at(1);
  return [shape, sums](std::span<const Literal* const> xs) {
    Literal next(Shape(shape.dtype, shape.dims)), sum(Shape(sums.dtype, sums.dims));
    const auto x = xs[0]->data<float>();
    for (std::size_t i = 0; i < x.size(); ++i) {
      next.mutable_data<float>()[i] = x[i] + 1;
      sum.mutable_data<float>()[i / 4] += x[i];
    }
    return Literal::tuple({next, sum});
  };
}

TEST(Vmap, CustomCallsTakeTheBatchOrAreRepeated) {
  ir::register_custom_call("test.rows", std::make_shared<RowTarget>(true));
  ir::register_custom_call("test.row", std::make_shared<RowTarget>(false));
  evaluator::set_custom_calls(prepare_row_call);
  for (const char* target : {"test.rows", "test.row"}) {
    const auto module = ir::parse_hlo(
        batch_program("x = f32[3,4]{0,1} parameter(0)\n"
                      "ROOT r = (f32[3,4]{0,1}, f32[3]{0}) custom-call(x), custom_call_target=\"" +
                      std::string(target) +
                      "\", operand_layout_constraints={f32[3,4]{0,1}}, "
                      "frontend_attributes={num_batch_dims=\"1\",xla.sdy.sharding_rule=\"?\"}"));
    Dice dice(2);
    for (std::int64_t axis : {0, 1, 2}) {
      const auto batched = expect_batched(*module, {axis}, 5, dice, true);
      const bool whole = std::string(target) == "test.rows";
      EXPECT_EQ(count_of(*batched, Opcode::scan), whole ? 0 : 1);
      const std::string text = ir::to_string(*first_of(*batched, Opcode::custom_call));
      if (!whole) continue;
      EXPECT_NE(text.find("(f32[5,3,4]{1,2,0}, f32[5,3]{1,0}) custom-call("), std::string::npos)
          << text;
      EXPECT_NE(text.find("operand_layout_constraints={f32[5,3,4]{1,2,0}}"), std::string::npos)
          << text;
      EXPECT_NE(text.find("num_batch_dims=\"2\""), std::string::npos) << text;
      EXPECT_EQ(text.find("sharding_rule"), std::string::npos) << text;
    }
  }
  evaluator::set_custom_calls(nullptr);
}

// Rules of custom derivatives: f(x, w) = (x w, 2 w).

const std::string kDerivative = R"(
primal { x = f32[3] parameter(0)
  w = f32[3] parameter(1)
  m = f32[3] multiply(x, w)
  d = f32[3] add(w, w)
  ROOT t = (f32[3], f32[3]) tuple(m, d) }
tangent { x = f32[3] parameter(0)
  w = f32[3] parameter(1)
  dx = f32[3] parameter(2)
  dw = f32[3] parameter(3)
  m = f32[3] multiply(x, w)
  d = f32[3] add(w, w)
  a = f32[3] multiply(dx, w)
  b = f32[3] multiply(x, dw)
  s = f32[3] add(a, b)
  e = f32[3] add(dw, dw)
  ROOT t = (f32[3], f32[3], f32[3], f32[3]) tuple(m, d, s, e) }
forward { x = f32[3] parameter(0)
  w = f32[3] parameter(1)
  m = f32[3] multiply(x, w)
  d = f32[3] add(w, w)
  ROOT t = (f32[3], f32[3], f32[3], f32[3]) tuple(m, d, x, w) }
backward { x = f32[3] parameter(0)
  w = f32[3] parameter(1)
  cm = f32[3] parameter(2)
  cd = f32[3] parameter(3)
  a = f32[3] multiply(cm, w)
  b = f32[3] multiply(cm, x)
  c = f32[3] add(cd, cd)
  d = f32[3] add(b, c)
  ROOT t = (f32[3], f32[3]) tuple(a, d) }
)";

std::string derivative_program(const std::string& rule) {
  return batch_program(
      "x = f32[3] parameter(0)\n w = f32[3] parameter(1)\n"
      "ROOT r = (f32[3], f32[3]) custom-call(x, w), "
      "custom_call_target=\"tessera.CustomDerivative\", " +
          rule,
      kDerivative);
}

/// The rules of `op` on the batch give what the text's rules give for each entry; an operand that
/// all entries share gets the sum of their cotangents.
void expect_rules_on_batch(const Instruction& op, const ir::Module& source, const Dims& axes) {
  const auto callee = [&](const std::string& name) -> const ir::Computation& {
    for (const auto& c : source.computations()) {
      if (c->name() == name) return *c;
    }
    throw std::runtime_error(name);
  };
  const bool vjp = op.called().size() == 3;
  Dice dice(4);
  const auto args_of = [&](const ir::Computation& c) {
    std::vector<Literal> args;
    for (const Instruction* p : c.parameters()) {
      args.push_back(random_literal(dice, DType::f32, p->shape.dims, true));
    }
    return args;
  };
  const auto entry_at = [](const Literal& x, std::int64_t axis, std::int64_t e) {
    return axis < 0 ? x : entry_of(x, axis, e);
  };
  const auto own_args = [&](const std::vector<Literal>& args, const Dims& dims, std::int64_t e) {
    std::vector<Literal> out;
    for (std::size_t k = 0; k < args.size(); ++k) out.push_back(entry_at(args[k], dims[k], e));
    return out;
  };
  Dims in = axes;
  if (!vjp) in.insert(in.end(), axes.begin(), axes.end());
  const std::vector<Literal> args = args_of(*op.called(1));
  const auto got = leaves_of(evaluator::evaluate(*op.called(1), args));
  for (std::int64_t e = 0; e < 2; ++e) {
    const auto want =
        leaves_of(evaluator::evaluate(callee(vjp ? "forward" : "tangent"), own_args(args, in, e)));
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t k = 0; k < want.size(); ++k) {
      const bool batched = got[k].dims().size() == 2;
      EXPECT_TRUE((batched ? entry_of(got[k], 0, e) : got[k]) == want[k]) << k;
    }
  }
  if (!vjp) return;
  const auto back = args_of(*op.called(2));
  Dims dims;
  for (const Instruction* p : op.called(2)->parameters()) dims.push_back(p->shape.rank() - 2);
  for (std::int64_t& d : dims) d = d == 0 ? 0 : -1;
  const auto cotangents = leaves_of(evaluator::evaluate(*op.called(2), back));
  ASSERT_EQ(cotangents.size(), 2u);
  for (std::size_t k = 0; k < 2; ++k) {
    Literal sum(Shape(DType::f32, {3}));
    for (std::int64_t e = 0; e < 2; ++e) {
      const auto want = leaves_of(evaluator::evaluate(callee("backward"), own_args(back, dims, e)));
      if (axes[k] >= 0) {
        EXPECT_TRUE(entry_of(cotangents[k], axes[k], e) == want[k]) << k;
      }
      for (std::size_t i = 0; i < 3; ++i) {
        sum.mutable_data<float>()[i] += want[k].data<float>()[i];
      }
    }
    if (axes[k] < 0) {
      EXPECT_TRUE(cotangents[k] == sum) << k;
    }
  }
}

const std::vector<Dims> kDerivativeAxes{{0, 0}, {1, -1}, {-1, 0}, {-1, 1}};

TEST(Vmap, RulesOfDerivativesAreBatched) {
  for (const char* rule :
       {"rule=jvp, num_nondiff=0, symbolic_zeros=false, called_computations={primal, tangent}",
        "rule=vjp, num_nondiff=0, num_residuals=2, symbolic_zeros=false, "
        "called_computations={primal, forward, backward}"}) {
    const auto module = ir::parse_hlo(derivative_program(rule));
    for (const Dims& axes : kDerivativeAxes) {
      SCOPED_TRACE(rule + (" axes " + join(axes)));
      const auto batched = transforms::vmap(*module, axes, 2);
      ir::verify(*batched);
      expect_rules_on_batch(*first_of(*batched, Opcode::custom_derivative), *module, axes);
    }
  }
}

/// Takes its rules from the text of the program.
class RulesOfText : public ir::DerivativeRules {
 public:
  std::string name() const override { return "text"; }
  ir::Computation* jvp(const Instruction& op, const std::vector<bool>& perturbed) override {
    EXPECT_EQ(op.operand(0)->shape, Shape(DType::f32, {3}));
    EXPECT_EQ(perturbed, (std::vector<bool>{true, true}));
    return imported(op, "tangent");
  }
  Vjp vjp(const Instruction& op, const std::vector<bool>&) override {
    return {imported(op, "forward"), imported(op, "backward"), 2};
  }

 private:
  static ir::Computation* imported(const Instruction& op, const std::string& name) {
    const auto text = ir::parse_hlo(derivative_program(
        "rule=jvp, num_nondiff=0, symbolic_zeros=false, called_computations={primal}"));
    for (const auto& c : text->computations()) {
      if (c->name() == name) return op.parent->module()->import(*c);
    }
    return nullptr;
  }
};

TEST(Vmap, RulesThatAreTracedLaterAreBatchedThen) {
  for (const char* kind : {"rule=jvp", "rule=vjp, num_residuals=0"}) {
    const auto module = ir::parse_hlo(derivative_program(
        kind + std::string(", num_nondiff=0, symbolic_zeros=false, called_computations={primal}")));
    module->entry()->root()->edit<ir::CustomDerivativeAttrs>().rules =
        std::make_shared<RulesOfText>();
    for (const Dims& axes : kDerivativeAxes) {
      SCOPED_TRACE(kind + (" axes " + join(axes)));
      // The program that was batched is gone when the rule is asked for.
      auto batched = transforms::vmap(*module, axes, 2)->clone();
      Instruction* op = nullptr;
      for (const auto& i : batched->entry()->instructions()) {
        if (i->is(Opcode::custom_derivative)) op = i.get();
      }
      ASSERT_NE(op, nullptr);
      ir::trace_rules(op);
      ir::verify(*batched);
      expect_rules_on_batch(*op, *module, axes);
    }
  }
}

TEST(Vmap, RandomPrograms) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomProgram program = random_program(seed);
    Dice dice(seed);
    Dims axes;
    for (const Instruction* p : program.module->entry()->parameters()) {
      axes.push_back(p->shape.is_array() && dice.chance(0.7) ? dice.below(p->shape.rank() + 1)
                                                             : -1);
    }
    expect_batched(*program.module, axes, 2, dice, true);
    if (HasFailure()) return;
  }
}

TEST(Vmap, IntoTheMiddleOfAComputation) {
  const auto module = ir::parse_hlo(batch_program(
      "x = f32[2] parameter(0)\n y = f32[2] parameter(1)\n m = f32[2] multiply(x, y)\n"
      "ROOT t = (f32[2], f32[2]) tuple(m, y)"));
  ir::Builder b(module->add_computation("outer"));
  Instruction* x = b.parameter(0, Shape(DType::f32, {2, 3}));
  Instruction* y = b.parameter(1, Shape(DType::f32, {2}));
  const std::vector<transforms::BatchedArray> arguments{{x, 1}, {y, transforms::kNotBatched}};
  const auto results = transforms::batch_into(b, *module->entry(), arguments, {3});
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].value->shape, Shape(DType::f32, {2, 3}));
  EXPECT_EQ(results[0].dim, 1);
  EXPECT_EQ(results[1].value, y);
  EXPECT_EQ(results[1].dim, transforms::kNotBatched);
}

}  // namespace
}  // namespace tessera::testing
