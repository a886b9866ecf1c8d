// SPDX-License-Identifier: Apache-2.0
// Modules, computations and the builder.
#include "src/ir/module.h"

#include <set>

#include "src/base/arrays/literal_util.h"
#include "src/base/arrays/small_floats.h"
#include "src/ir/cloner.h"
#include "src/ir/hooks.h"
#include "src/ir/post_order.h"
#include "src/ir/rewrite/builder.h"
#include "src/ir/shapes/shape_inference.h"
#include "tests/ir/first_difference.h"
#include "tests/ir/text_cases.h"

namespace tessera::ir::testing {
namespace {

struct Fixture {
  Module module{"m"};
  Computation* entry = module.add_computation("main");
  Builder b{entry};
  Instruction* x = b.parameter(0, Shape(DType::f32, {4, 6}), "x");

  void finish(Instruction* root) {
    entry->set_root(root);
    module.set_entry(entry);
  }
};

TEST(Opcodes, TableAndNames) {
  std::set<std::string_view> names;
  for (int i = 0; i < opcode_count(); ++i) {
    auto op = Opcode(i);
    names.insert(name(op));
    EXPECT_EQ(opcode_from_name(name(op)), op);
  }
  EXPECT_EQ(std::int64_t(names.size()), opcode_count());
  EXPECT_GE(opcode_count(), 133);  // HLO's
  EXPECT_FALSE(opcode_from_name("atan").has_value());
  EXPECT_TRUE(is_elementwise(Opcode::tanh));
  EXPECT_FALSE(is_elementwise(Opcode::dot));
  EXPECT_TRUE(is_commutative(Opcode::add));
  EXPECT_FALSE(is_commutative(Opcode::subtract));
  EXPECT_TRUE(is_collective(Opcode::all_to_all));
  EXPECT_TRUE(has_side_effect(Opcode::send));
}

TEST(Computations, NamesAreUniqueAndReadable) {
  Fixture f;
  EXPECT_EQ(f.b.unary(Opcode::abs, f.x)->name, "abs");
  EXPECT_EQ(f.b.unary(Opcode::abs, f.x)->name, "abs.1");
  EXPECT_EQ(f.b.unary(Opcode::abs, f.x)->name, "abs.2");
  auto named = [&](const std::string& wanted) {
    auto i = std::make_unique<Instruction>();
    i->opcode = Opcode::abs;
    i->shape = f.x->shape;
    i->set_operands({f.x});
    i->name = wanted;
    return f.entry->add(std::move(i))->name;
  };
  EXPECT_EQ(named("abs.1"), "abs.3");
  EXPECT_EQ(named("f<lambda> (3)"), "f_lambda___3_");
  EXPECT_EQ(named("7up"), "_7up");
  EXPECT_EQ(named("nan"), "nan_");
  EXPECT_EQ(named("f32"), "f32_");
  EXPECT_EQ(named("x"), "x.1");
  EXPECT_EQ(f.module.add_computation("main")->name(), "main.1");
  EXPECT_EQ(f.module.add_computation("")->name(), "computation");
}

TEST(Computations, ParametersMayComeInAnyOrder) {
  Module m;
  Computation* c = m.add_computation("c");
  Builder b(c);
  b.parameter(1, Shape(DType::f32, {}), "second");
  b.parameter(0, Shape(DType::s32, {}), "first");
  EXPECT_EQ(c->parameter(0)->name, "first");
  EXPECT_EQ(c->parameter(1)->name, "second");
  EXPECT_THROW(b.parameter(1, Shape(DType::f32, {})), ValueError);
  EXPECT_THROW(b.parameter(-1, Shape(DType::f32, {})), ValueError);
}

TEST(Computations, ReplaceFollowsChainsAndTheRoot) {
  Fixture f;
  Instruction* a = f.b.unary(Opcode::abs, f.x);
  Instruction* n = f.b.unary(Opcode::negate, f.x);
  Instruction* s = f.b.unary(Opcode::sign, f.x);
  Instruction* sum = f.b.binary(Opcode::add, a, n);
  f.finish(a);
  f.entry->replace_all_uses({{a, n}, {n, s}});
  EXPECT_EQ(sum->operands(), (std::vector<Instruction*>{s, s}));
  EXPECT_EQ(f.entry->root(), s);
  s->replace_all_uses_with(f.x);
  EXPECT_EQ(f.entry->root(), f.x);
  EXPECT_THROW(f.entry->replace_all_uses({{f.x, s}, {s, f.x}}), InternalError);
}

TEST(Computations, RemoveDeadKeepsParametersAndSideEffects) {
  Fixture f;
  Instruction* unused = f.b.parameter(1, Shape(DType::f32, {}), "unused");
  Instruction* dead = f.b.unary(Opcode::abs, f.x);
  f.b.unary(Opcode::negate, dead);
  Instruction* used = f.b.unary(Opcode::sign, f.x);
  CustomCallAttrs effect;
  effect.target = "print";
  effect.has_side_effect = true;
  Instruction* shown = f.b.unary(Opcode::floor, f.x);
  f.b.emit_shaped(Opcode::custom_call, Shape(DType::f32, {}), {shown}, effect);
  f.finish(used);
  EXPECT_EQ(f.entry->remove_dead(), 2u);
  std::vector<std::string> names;
  for (const auto& i : f.entry->instructions()) {
    EXPECT_EQ(i->index, std::int64_t(names.size()));
    names.push_back(i->name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"x", "unused", "sign", "floor", "custom-call"}));
  EXPECT_EQ(f.entry->parameter(1), unused);
  verify(f.module);
}

TEST(Computations, RemoveDeadKeepsCallsOfComputationsWithSideEffects) {
  Fixture f;
  Computation* callee = f.module.add_computation("callee");
  Builder cb(callee);
  Instruction* p = cb.parameter(0, f.x->shape);
  CustomCallAttrs effect;
  effect.target = "print";
  effect.has_side_effect = true;
  callee->set_root(cb.emit_shaped(Opcode::custom_call, p->shape, {p}, effect));
  Computation* pure = f.module.add_computation("pure");
  Builder pb(pure);
  pure->set_root(pb.parameter(0, f.x->shape));
  f.b.call(callee, {f.x});
  f.b.call(pure, {f.x});
  f.finish(f.x);
  EXPECT_EQ(f.entry->remove_dead(), 1u);
  EXPECT_EQ(f.entry->instructions().size(), 2u);
}

TEST(Computations, SortRestoresTheOrderAndMovesLittle) {
  Fixture f;
  Instruction* a = f.b.unary(Opcode::abs, f.x);
  Instruction* user = f.b.unary(Opcode::negate, a);
  Instruction* other = f.b.unary(Opcode::sign, f.x);
  Instruction* late = f.b.unary(Opcode::floor, f.x);
  user->set_operand(0, late);
  f.finish(user);
  EXPECT_THROW(verify(f.module), ValueError);
  f.entry->sort_topologically();
  verify(f.module);
  std::vector<Instruction*> order;
  for (const auto& i : f.entry->instructions()) order.push_back(i.get());
  EXPECT_EQ(order, (std::vector<Instruction*>{f.x, a, late, user, other}));
  late->set_operand(0, user);
  EXPECT_THROW(f.entry->sort_topologically(), InternalError);
}

TEST(Computations, SortTakesLongChains) {
  Fixture f;
  Instruction* last = f.x;
  for (int i = 0; i < 200000; ++i) last = f.b.unary(Opcode::negate, last);
  f.finish(last);
  f.entry->sort_topologically();
  EXPECT_EQ(f.entry->root()->index, 200000);
}

TEST(Computations, Users) {
  Fixture f;
  Instruction* square = f.b.binary(Opcode::multiply, f.x, f.x);
  Instruction* sum = f.b.binary(Opcode::add, f.x, square);
  f.finish(sum);
  EXPECT_EQ(f.x->users(), (UserList{square, sum}));
  EXPECT_EQ(f.x->use_count(), 3u);
  EXPECT_EQ(square->users(), UserList{sum});
  EXPECT_TRUE(sum->users().empty());
  ASSERT_TRUE(square->only_use().has_value());
  EXPECT_EQ(square->only_use()->operand_number, 1);
  EXPECT_FALSE(f.x->only_use().has_value());
}

TEST(Modules, EntryStaysLast) {
  Fixture f;
  Instruction* zero = f.b.zero(DType::f32);
  f.module.set_entry(f.entry);
  Computation* add = scalar_computation(&f.module, Opcode::add, DType::f32);
  f.finish(f.b.reduce(f.x, zero, {0}, add));
  EXPECT_EQ(f.module.computations().back().get(), f.entry);
  EXPECT_EQ(f.module.instruction_count(), 6u);
  verify(f.module);
}

TEST(Modules, RemoveDeadComputationsOrdersCalleesFirst) {
  Fixture f;  // the entry is added first and not yet marked
  Computation* unused = f.module.add_computation("unused");
  Builder(unused).parameter(0, Shape(DType::f32, {}));
  Instruction* zero = f.b.zero(DType::f32);
  f.finish(f.b.reduce(f.x, zero, {0}, scalar_computation(&f.module, Opcode::add, DType::f32)));
  f.module.remove_dead_computations();
  ASSERT_EQ(f.module.computations().size(), 2u);
  EXPECT_EQ(f.module.computations()[0]->name(), "add_f32");
  EXPECT_EQ(f.module.computations()[1].get(), f.entry);
}

class NamedPartitioner : public CustomPartitioner {
 public:
  std::string name() const override { return "named"; }
  std::optional<FactorRuleSpec> rule(const MeshRef&, const std::vector<ShapeWithSharding>&,
                                     const std::vector<ShapeWithSharding>&) override {
    return std::nullopt;
  }
  bool has_infer_callback() const override { return false; }
  bool has_propagate_callback() const override { return false; }
  std::vector<TensorSharding> infer_sharding_from_operands(
      const MeshRef&, const std::vector<ShapeWithSharding>&,
      const std::vector<ShapeWithSharding>&) override {
    return {};
  }
  std::vector<TensorSharding> propagate_user_sharding(
      const MeshRef&, const std::vector<ShapeWithSharding>&) override {
    return {};
  }
  Partition partition(Module*, const MeshRef&, const std::vector<ShapeWithSharding>&,
                      const std::vector<ShapeWithSharding>&) override {
    return {};
  }
};

TEST(Modules, CloneIsDeepAndSharesHooks) {
  Fixture f;
  f.module.num_partitions = 4;
  f.module.input_output_alias = {{{}, 0, {}, true}};
  CustomPartitioningAttrs call;
  call.partitioner = std::make_shared<NamedPartitioner>();
  Instruction* i = f.b.emit_shaped(Opcode::custom_partitioning, f.x->shape, {f.x}, call);
  Instruction* n = f.b.unary(Opcode::negate, i);
  n->set_control_predecessors({f.x});
  f.finish(n);
  auto copy = f.module.clone();
  verify(*copy);
  EXPECT_EQ(first_difference(f.module, *copy), "");
  EXPECT_EQ(copy->num_partitions, 4);
  EXPECT_EQ(copy->input_output_alias, f.module.input_output_alias);
  const Instruction& ci = *copy->entry()->instructions()[1];
  EXPECT_NE(&ci, i);
  EXPECT_EQ(ci.parent, copy->entry());
  EXPECT_EQ(ci.get<CustomPartitioningAttrs>().partitioner, call.partitioner);
  EXPECT_EQ(copy->entry()->root()->control_predecessors()[0], copy->entry()->parameter(0));
  // Changing the copy leaves the original alone.
  copy->entry()->parameter(0)->shape = Shape(DType::f32, {1});
  EXPECT_EQ(f.x->shape.to_string(), "f32[4,6]");
  EXPECT_EQ(to_string(f.module).find("partitioner"), std::string::npos);
  EXPECT_NE(to_string(f.module).find("custom_call_target=\"CustomSPMDPartitioning\""),
            std::string::npos);
}

TEST(Modules, CopiesKeepTheNumberOfTheirRecord) {
  Fixture f;
  Instruction* n = f.b.unary(Opcode::negate, f.x);
  f.finish(n);
  const std::string text = to_string(f.module);
  n->metadata.edit().communication_record = 3;
  EXPECT_EQ(to_string(f.module), text);
  EXPECT_EQ(f.module.clone()->entry()->root()->metadata->communication_record, 3);
  // So does one that comes to stand where a call stood.
  Computation* caller = f.module.add_computation("caller");
  Instruction* x = Builder(caller).parameter(0, f.x->shape);
  CloneOptions options;
  options.default_metadata.edit().source_line = 7;
  caller->set_root(inline_computation(caller, *f.module.entry(), std::vector{x}, options));
  EXPECT_EQ(caller->root()->metadata->source_line, 7);
  EXPECT_EQ(caller->root()->metadata->communication_record, 3);
}

TEST(Modules, ImportBringsCallees) {
  Fixture f;
  Instruction* zero = f.b.zero(DType::f32);
  Computation* add = scalar_computation(&f.module, Opcode::add, DType::f32);
  Instruction* once = f.b.reduce(f.x, zero, {0}, add);
  f.finish(f.b.reduce(once, zero, {0}, add));
  Module other("other");
  Computation* copy = other.import(*f.entry);
  EXPECT_EQ(other.computations().size(), 2u);
  EXPECT_EQ(copy->module(), &other);
  EXPECT_EQ(copy->root()->called()[0], other.computations()[0].get());
  EXPECT_EQ(copy->root()->operand(0)->called()[0], copy->root()->called()[0]);
  other.set_entry(copy);
  verify(other);
  Computation* again = other.import(*copy);
  EXPECT_EQ(again->name(), "main.1");
  verify(other);
}

TEST(Modules, RecursionIsRefused) {
  Fixture f;
  Computation* a = f.module.add_computation("a");
  Builder ab(a);
  Instruction* p = ab.parameter(0, f.x->shape);
  a->set_root(p);
  f.finish(f.b.call(a, {f.x}));
  auto i = std::make_unique<Instruction>();
  i->opcode = Opcode::call;
  i->shape = p->shape;
  i->set_operands({p});
  i->set_called({a});
  a->set_root(a->add(std::move(i)));
  EXPECT_THROW(verify(f.module), ValueError);
  EXPECT_THROW(to_string(f.module), ValueError);
}

TEST(Groups, TextLengthDoesNotDependOnTheNumberOfDevices) {
  const MeshRef mesh = make_logical_mesh({{"x", 16}, {"y", 4}, {"z", 8}});
  for (const std::vector<int>& axes :
       std::vector<std::vector<int>>{{0}, {1}, {2}, {0, 1}, {1, 0}, {2, 0}, {0, 1, 2}, {}}) {
    Module module("m");
    module.num_partitions = mesh->num_devices();
    Computation* entry = module.add_computation("e");
    module.set_entry(entry);
    Builder b(entry);
    Instruction* p = b.parameter(0, Shape(f32, {4}), "p");
    const DeviceGroups groups = DeviceGroups::over(mesh, axes);
    Instruction* sum = b.all_reduce(p, scalar_computation(&module, Opcode::add, f32), groups);
    entry->set_root(sum);
    const std::string text = to_string(module);
    EXPECT_LT(text.size(), 700u) << text;
    const auto again = parse_hlo(text);
    EXPECT_EQ(again->entry()->root()->get<CollectiveAttrs>().groups.expand(512), groups.expand(512))
        << text;
    EXPECT_EQ(to_string(*parse_hlo(to_string(*again))), to_string(*again));
  }
}

TEST(Groups, ExpandSymbolicRowMajorOverTheAxesAsListed) {
  MeshRef mesh = make_logical_mesh({{"x", 2}, {"y", 2}, {"z", 2}});
  using Lists = std::vector<std::vector<std::int64_t>>;
  EXPECT_EQ(DeviceGroups::over(mesh, {2}).expand(8), (Lists{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(DeviceGroups::over(mesh, {0, 1}).expand(8), (Lists{{0, 2, 4, 6}, {1, 3, 5, 7}}));
  EXPECT_EQ(DeviceGroups::over(mesh, {1, 0}).expand(8), (Lists{{0, 4, 2, 6}, {1, 5, 3, 7}}));
  EXPECT_EQ(DeviceGroups::over(mesh, {}).expand(8).size(), 8u);
  EXPECT_EQ(DeviceGroups::over(mesh, {0, 2}).group_size(8), 4);
  MeshRef turned = make_logical_mesh({{"x", 2}, {"y", 2}}, {3, 1, 2, 0});
  EXPECT_EQ(DeviceGroups::over(turned, {1}).expand(4), (Lists{{3, 1}, {2, 0}}));
  EXPECT_EQ(DeviceGroups().expand(3), (Lists{{0, 1, 2}}));
  EXPECT_EQ(DeviceGroups().group_size(3), 3);
  EXPECT_THROW(DeviceGroups::over(mesh, {3}), InternalError);
}

TEST(Groups, PrintAsLists) {
  Fixture f;
  f.module.num_partitions = 8;
  MeshRef mesh = make_logical_mesh({{"x", 2}, {"y", 4}});
  Instruction* r = f.b.all_reduce(f.x, scalar_computation(&f.module, Opcode::add, DType::f32),
                                  DeviceGroups::over(mesh, {0}));
  f.finish(f.b.all_gather(r, 0, {}));
  EXPECT_EQ(to_string(*r),
            "all-reduce = f32[4,6]{1,0} all-reduce(x), channel_id=1, "
            "replica_groups={{0,4},{1,5},{2,6},{3,7}}, use_global_device_ids=true, "
            "to_apply=add_f32");
  EXPECT_EQ(to_string(*f.entry->root()),
            "all-gather = f32[32,6]{1,0} all-gather(all-reduce), channel_id=2, replica_groups={}, "
            "use_global_device_ids=true, dimensions={0}");
}

TEST(Builders, ShortcutsThatDoNothing) {
  Fixture f;
  EXPECT_EQ(f.b.convert(f.x, DType::f32), f.x);
  EXPECT_EQ(f.b.reshape(f.x, {4, 6}), f.x);
  EXPECT_EQ(f.b.splat(f.x, {4, 6}), f.x);
  EXPECT_EQ(f.entry->instructions().size(), 1u);
}

TEST(Builders, EveryMethodGivesItsShape) {
  Fixture f;
  Builder& b = f.b;
  Instruction* i = b.scalar(DType::s32, 1);
  Instruction* zero = b.zero(DType::f32);
  Computation* add = scalar_computation(&f.module, Opcode::add, DType::f32);
  auto shape = [](Instruction* x) { return x->shape.to_string(); };
  EXPECT_EQ(shape(b.iota(Shape(DType::s32, {3, 4}), 1)), "s32[3,4]");
  EXPECT_EQ(shape(b.convert(f.x, DType::bf16)), "bf16[4,6]");
  EXPECT_EQ(shape(b.broadcast(f.x, {4, 2, 6}, {0, 2})), "f32[4,2,6]");
  EXPECT_EQ(shape(b.splat(zero, {2, 3})), "f32[2,3]");
  EXPECT_EQ(shape(b.reshape(f.x, {24})), "f32[24]");
  EXPECT_EQ(shape(b.transpose(f.x, {1, 0})), "f32[6,4]");
  EXPECT_EQ(shape(b.slice(f.x, {0, 1}, {4, 6}, {2, 2})), "f32[2,3]");
  EXPECT_EQ(shape(b.slice(f.x, {0, 1}, {4, 6})), "f32[4,5]");
  EXPECT_EQ(shape(b.dynamic_slice(f.x, {i, i}, {1, 2})), "f32[1,2]");
  EXPECT_EQ(shape(b.dynamic_update_slice(f.x, b.splat(zero, {1, 1}), {i, i})), "f32[4,6]");
  EXPECT_EQ(shape(b.pad(f.x, zero, {{1, 0, 0}, {0, 0, 1}})), "f32[5,11]");
  EXPECT_EQ(shape(b.concatenate({f.x, f.x}, 0)), "f32[8,6]");
  EXPECT_EQ(shape(b.reverse(f.x, {0})), "f32[4,6]");
  Instruction* less = b.compare(Direction::lt, f.x, f.x);
  EXPECT_EQ(shape(less), "pred[4,6]");
  EXPECT_EQ(shape(b.select(less, f.x, f.x)), "f32[4,6]");
  DotAttrs dot;
  dot.lhs_contracting = {1};
  dot.rhs_contracting = {1};
  EXPECT_EQ(shape(b.dot(f.x, f.x, dot)), "f32[4,4]");
  EXPECT_EQ(shape(b.reduce(f.x, zero, {1}, add)), "f32[4]");
  Instruction* pair = b.tuple({f.x, i});
  EXPECT_EQ(shape(pair), "(f32[4,6], s32[])");
  EXPECT_EQ(shape(b.get_tuple_element(pair, 1)), "s32[]");
  EXPECT_EQ(shape(b.call(add, {zero, zero})), "f32[]");
  EXPECT_EQ(shape(b.fft(f.x, FftType::rfft, {6})), "c64[4,4]");
  EXPECT_EQ(shape(b.partition_id()), "u32[]");
  Computation* less_than = f.module.add_computation("less");
  Builder lb(less_than);
  Instruction* pa = lb.parameter(0, Shape(DType::f32, {}));
  Instruction* pb = lb.parameter(1, Shape(DType::f32, {}));
  less_than->set_root(lb.compare(Direction::lt, pa, pb));
  EXPECT_EQ(shape(b.sort({f.x}, 0, true, less_than)), "f32[4,6]");
  f.module.num_partitions = 2;
  EXPECT_EQ(shape(b.reduce_scatter(f.x, add, 0, {})), "f32[2,6]");
  EXPECT_EQ(shape(b.all_to_all(f.x, 0, {})), "f32[4,6]");
  EXPECT_EQ(shape(b.collective_permute(f.x, {{0, 1}})), "f32[4,6]");
  Computation* branch = f.module.add_computation("branch");
  branch->set_root(Builder(branch).parameter(0, f.x->shape));
  EXPECT_EQ(shape(b.conditional(i, {f.x, f.x}, {branch, branch})), "f32[4,6]");
  Computation* stop = f.module.add_computation("stop");
  Builder sb(stop);
  sb.parameter(0, f.x->shape);
  stop->set_root(sb.constant(Literal::scalar(DType::pred, false)));
  Instruction* loop = b.while_loop(stop, branch, f.x, 0);
  EXPECT_EQ(shape(loop), "f32[4,6]");
  f.finish(loop);
  verify(f.module);
}

TEST(Builders, ErrorsCarryTheUsersLine) {
  Fixture f;
  f.b.metadata.edit().source_file = "/home/user/model.cc";
  f.b.metadata.edit().source_line = 42;
  Instruction* y = f.b.reshape(f.x, {6, 4});
  EXPECT_EQ(y->metadata->source_line, 42);
  EXPECT_EQ(y->describe(), "reshape (/home/user/model.cc:42)");
  try {
    f.b.binary(Opcode::add, f.x, y);
    FAIL();
  } catch (const ShapeError& e) {
    EXPECT_EQ(std::string(e.what()),
              "/home/user/model.cc:42: add(f32[4,6], f32[6,4]): operands 0 and 1 have dims [4,6] "
              "and [6,4]; they must be equal (broadcast one)");
  }
  // The failed instruction was not added.
  EXPECT_EQ(f.entry->instructions().back().get(), y);
}

TEST(Scalars, ComputationsAreSharedPerModule) {
  Module m;
  Computation* add = scalar_computation(&m, Opcode::add, DType::f32);
  EXPECT_EQ(scalar_computation(&m, Opcode::add, DType::f32), add);
  EXPECT_NE(scalar_computation(&m, Opcode::add, DType::f64), add);
  EXPECT_NE(scalar_computation(&m, Opcode::maximum, DType::f32), add);
  EXPECT_EQ(as_binary_reducer(*add), Opcode::add);
  Computation* sub = scalar_computation(&m, Opcode::subtract, DType::f32);
  EXPECT_FALSE(as_binary_reducer(*sub).has_value());
}

TEST(Scalars, ReducersAreRecognised) {
  auto of = [](const std::string& body) {
    auto m = parse_hlo("ENTRY e { a = f32[] parameter(0) b = f32[] parameter(1) " + body + " }");
    return as_binary_reducer(*m->entry());
  };
  EXPECT_EQ(of("ROOT r = f32[] multiply(b, a)"), Opcode::multiply);
  EXPECT_EQ(of("ROOT r = f32[] maximum(a, b)"), Opcode::maximum);
  EXPECT_EQ(of("ROOT r = f32[] add(a, a)"), std::nullopt);
  EXPECT_EQ(of("ROOT r = f32[] divide(a, b)"), std::nullopt);
  EXPECT_EQ(of("c = f32[] abs(b) ROOT r = f32[] add(a, c)"), std::nullopt);
}

TEST(Scalars, Identities) {
  auto value = [](Opcode op, DType t) { return to_scalar<double>(*identity_of(op, t)); };
  for (DType t : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    EXPECT_EQ(value(Opcode::add, t), 0);
    EXPECT_EQ(value(Opcode::multiply, t), 1);
    EXPECT_EQ(value(Opcode::maximum, t), -INFINITY);
    EXPECT_EQ(value(Opcode::minimum, t), INFINITY);
  }
  EXPECT_EQ(value(Opcode::maximum, DType::s8), -128);
  EXPECT_EQ(value(Opcode::minimum, DType::s4), 7);
  EXPECT_EQ(value(Opcode::maximum, DType::s4), -8);
  EXPECT_EQ(value(Opcode::minimum, DType::u4), 15);
  EXPECT_EQ(value(Opcode::maximum, DType::u32), 0);
  EXPECT_EQ(value(Opcode::and_, DType::u16), 65535);
  EXPECT_EQ(value(Opcode::and_, DType::pred), 1);
  EXPECT_EQ(value(Opcode::or_, DType::pred), 0);
  EXPECT_EQ(value(Opcode::xor_, DType::s64), 0);
  EXPECT_EQ(value(Opcode::minimum, DType::pred), 1);
  const auto small = [](Opcode op, DType t) {
    return small_float_value(t, identity_of(op, t)->data<std::uint8_t>()[0]);
  };
  EXPECT_EQ(small(Opcode::add, DType::f8e4m3fn), 0);
  EXPECT_EQ(small(Opcode::multiply, DType::f6e2m3fn), 1);
  EXPECT_EQ(small(Opcode::maximum, DType::f8e5m2), -INFINITY);
  EXPECT_EQ(small(Opcode::minimum, DType::f8e4m3fn), 448);  // there is no infinity
  EXPECT_EQ(small(Opcode::maximum, DType::f8e5m2fnuz), -57344);
  EXPECT_EQ(small(Opcode::maximum, DType::f4e2m1fn), -6);
  EXPECT_EQ(small(Opcode::minimum, DType::f6e3m2fn), 28);
  EXPECT_EQ(small(Opcode::maximum, DType::f8e8m0fnu), std::ldexp(1, -127));
  EXPECT_EQ(small(Opcode::minimum, DType::f8e8m0fnu), std::ldexp(1, 127));
  EXPECT_FALSE(identity_of(Opcode::add, DType::f8e8m0fnu).has_value());
  EXPECT_FALSE(identity_of(Opcode::or_, DType::f8e4m3fn).has_value());
  EXPECT_EQ(to_scalar<std::complex<float>>(*identity_of(Opcode::multiply, DType::c64)),
            std::complex<float>(1));
  EXPECT_FALSE(identity_of(Opcode::maximum, DType::c64).has_value());
  EXPECT_FALSE(identity_of(Opcode::and_, DType::f32).has_value());
  EXPECT_FALSE(identity_of(Opcode::subtract, DType::f32).has_value());
}

TEST(Channels, AreUniqueAfterParsingToo) {
  auto m = parse_body(
      "p = f32[4] parameter(0)\nROOT r = f32[4] collective-permute(p), channel_id=17, "
      "source_target_pairs={{0,1}}");
  EXPECT_EQ(next_channel_id(m.get()), 18);
  EXPECT_EQ(next_channel_id(m.get()), 19);
  EXPECT_EQ(next_channel_id(m->clone().get()), 18);
}

}  // namespace
}  // namespace tessera::ir::testing
