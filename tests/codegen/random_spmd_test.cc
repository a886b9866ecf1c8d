// SPDX-License-Identifier: Apache-2.0
// Random programs of one device, run by the plan on eight in lockstep and by the evaluator as eight
// programs that share nothing. Integers, compared bit for bit.
#include <gtest/gtest.h>

#include <random>

#include "src/base/arrays/literal_util.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/rewrite/builder.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/passes/control/inline_calls.h"
#include "src/passes/eliminate_common.h"
#include "src/passes/simplify.h"
#include "tests/codegen/run_module.h"

namespace tessera::testing {
namespace {

using ir::Instruction;
using ir::Opcode;

constexpr std::int64_t kRandomDevices = 8;

class RandomSpmd {
 public:
  RandomSpmd(std::uint64_t seed, Dims dims) : dims_(std::move(dims)), engine_(seed) {
    module_ = std::make_unique<ir::Module>("spmd");
    module_->num_partitions = kRandomDevices;
    mesh_ = make_logical_mesh({{"x", 2}, {"y", 4}});
    module_->mesh = mesh_;
    ir::Computation* entry = module_->add_computation("main");
    module_->set_entry(entry);
    arguments.resize(std::size_t(kRandomDevices));
    ir::Builder b(entry);
    std::vector<Instruction*> values;
    for (int k = 0; k < 4; ++k) values.push_back(parameter(b, k));
    grow(b, &values, 4 + below(10), 2, true);
    std::vector<Instruction*> results;
    for (int k = 0; k < 3; ++k) results.push_back(pick(values));
    results.push_back(values.back());
    entry->set_root(b.tuple(results));
    entry->remove_dead();
    ir::verify(*module_);
  }

  const ir::Module& module() const { return *module_; }
  ir::Module* mutable_module() { return module_.get(); }
  std::vector<std::vector<Literal>> arguments;

 private:
  std::int64_t below(std::int64_t n) { return std::int64_t(engine_() % std::uint64_t(n)); }
  bool chance(double p) { return double(below(1 << 20)) < p * (1 << 20); }
  Instruction* pick(const std::vector<Instruction*>& v) {
    return v[std::size_t(below(std::int64_t(v.size())))];
  }

  /// Equal on devices that hold the same shard.
  Instruction* parameter(ir::Builder& b, int number) {
    Instruction* p = b.parameter(number, Shape(DType::f32, dims_));
    TensorSharding s = TensorSharding::replicated_on(mesh_, 2);
    const std::int64_t kind = below(4);
    if (kind == 1) s.dims[0].axes = {0};
    if (kind == 2) s.dims[std::size_t(below(2))].axes = {1};
    if (kind != 3) p->sharding = {s};
    std::map<Dims, Literal> shards;
    for (std::int64_t d = 0; d < kRandomDevices; ++d) {
      const Dims key = kind == 3 ? Dims{d} : s.shard_coordinates(d);
      auto [it, added] = shards.try_emplace(key, Literal(Shape(DType::f32, dims_)));
      if (added) {
        for (float& v : it->second.mutable_data<float>()) v = float(below(9) - 4);
      }
      arguments[std::size_t(d)].push_back(it->second);
    }
    return p;
  }

  ir::DeviceGroups groups() {
    switch (below(4)) {
      case 0:
        return ir::DeviceGroups::over(mesh_, {int(below(2))});
      case 1:
        return ir::DeviceGroups::over(mesh_, {0, 1});
      default: {
        std::vector<std::int64_t> order(static_cast<std::size_t>(kRandomDevices));
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), engine_);
        const std::int64_t size = std::int64_t(1) << below(4);
        ir::DeviceGroups g;
        for (std::int64_t d = 0; d < kRandomDevices; d += size) {
          g.lists.emplace_back(order.begin() + d, order.begin() + d + size);
        }
        return g;
      }
    }
  }

  /// Keeps numbers small, so that sums are exact.
  Instruction* tame(ir::Builder& b, Instruction* x) {
    Instruction* limit = b.splat(b.scalar(DType::f32, 64), x->shape.dims);
    return b.binary(Opcode::remainder, x, limit);
  }

  Instruction* collective(ir::Builder& b, Instruction* x) {
    ir::Computation* sum = ir::scalar_computation(module_.get(), Opcode::add, DType::f32);
    const ir::DeviceGroups g = groups();
    const std::int64_t n = g.group_size(kRandomDevices);
    const std::int64_t dim = below(2);
    switch (below(6)) {
      case 0:
        return tame(b, b.all_reduce(x, sum, g));
      case 1: {
        Instruction* all = b.all_gather(x, dim, g);
        Dims starts = {0, 0}, limits = all->shape.dims;
        starts[std::size_t(dim)] = below(n) * dims_[std::size_t(dim)];
        limits[std::size_t(dim)] = starts[std::size_t(dim)] + dims_[std::size_t(dim)];
        return b.slice(all, starts, limits);
      }
      case 2: {
        Instruction* wide = b.concatenate(std::vector<Instruction*>(std::size_t(n), x), dim);
        return tame(b, b.reduce_scatter(wide, sum, dim, g));
      }
      case 3:
        return dims_[std::size_t(dim)] % n == 0 ? b.all_to_all(x, dim, g) : x;
      default: {
        std::vector<std::int64_t> order(static_cast<std::size_t>(kRandomDevices));
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), engine_);
        std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
        const std::int64_t count = 1 + below(kRandomDevices);
        for (std::int64_t d = 0; d < count; ++d) {
          pairs.emplace_back(d, order[std::size_t(d)]);
        }
        return b.collective_permute(x, pairs);
      }
    }
  }

  /// s32: the device's coordinate along an axis.
  Instruction* coordinate(ir::Builder& b) {
    Instruction* id = b.convert(b.partition_id(), DType::s32);
    Instruction* four = b.scalar(DType::s32, 4);
    return b.binary(chance(0.5) ? Opcode::divide : Opcode::remainder, id, four);
  }

  Instruction* first_element(ir::Builder& b, Instruction* x) {
    return b.reshape(b.slice(x, {1, 2}, {2, 3}), {});
  }

  /// How often to loop, or which branch to take; in lockstep or not.
  Instruction* number(ir::Builder& b, const std::vector<Instruction*>& values, bool lockstep) {
    Instruction* x;
    if (lockstep) {
      ir::Computation* sum = ir::scalar_computation(module_.get(), Opcode::maximum, DType::f32);
      x = b.all_reduce(first_element(b, pick(values)), sum, ir::DeviceGroups::over(mesh_, {0, 1}));
    } else {
      x = first_element(b, pick(values));
    }
    x = b.convert(x, DType::s32);
    return b.binary(Opcode::remainder, b.unary(Opcode::abs, x), b.scalar(DType::s32, 3));
  }

  Instruction* loop(ir::Builder& b, std::vector<Instruction*>& values, int depth, bool lockstep) {
    Instruction* trips = number(b, values, lockstep);
    Instruction* init = b.tuple({b.scalar(DType::s32, 0), trips, pick(values), pick(values)});
    ir::Computation* condition = module_->add_computation("condition");
    {
      ir::Builder c(condition);
      Instruction* p = c.parameter(0, init->shape);
      condition->set_root(
          c.compare(ir::Direction::lt, c.get_tuple_element(p, 0), c.get_tuple_element(p, 1)));
    }
    ir::Computation* body = module_->add_computation("body");
    {
      ir::Builder c(body);
      Instruction* p = c.parameter(0, init->shape);
      std::vector<Instruction*> inner{c.get_tuple_element(p, 2), c.get_tuple_element(p, 3)};
      grow(c, &inner, 1 + below(4), depth - 1, lockstep);
      Instruction* next = c.binary(Opcode::add, c.get_tuple_element(p, 0), c.scalar(DType::s32, 1));
      body->set_root(c.tuple({next, c.get_tuple_element(p, 1), inner.back(), pick(inner)}));
    }
    Instruction* w = b.while_loop(condition, body, init);
    values.push_back(b.get_tuple_element(w, 3));
    return b.get_tuple_element(w, 2);
  }

  Instruction* branch(ir::Builder& b, const std::vector<Instruction*>& values, int depth,
                      bool lockstep) {
    Instruction* which = number(b, values, lockstep);
    const std::int64_t count = 2 + below(2);
    if (count == 2) {
      which = b.compare(ir::Direction::lt, which, b.scalar(DType::s32, 1));
    }
    std::vector<Instruction*> operands;
    std::vector<ir::Computation*> branches;
    for (std::int64_t k = 0; k < count; ++k) {
      operands.push_back(b.tuple({pick(values), pick(values)}));
      ir::Computation* c = module_->add_computation("branch");
      ir::Builder cb(c);
      Instruction* p = cb.parameter(0, operands.back()->shape);
      std::vector<Instruction*> inner{cb.get_tuple_element(p, 0), cb.get_tuple_element(p, 1)};
      grow(cb, &inner, below(3), depth - 1, lockstep);
      c->set_root(inner.back());
      branches.push_back(c);
    }
    return b.conditional(which, operands, branches);
  }

  void grow(ir::Builder& b, std::vector<Instruction*>* values, std::int64_t ops, int depth,
            bool lockstep) {
    for (std::int64_t k = 0; k < ops; ++k) {
      Instruction* x = pick(*values);
      Instruction* y = pick(*values);
      Instruction* out = nullptr;
      switch (below(11)) {
        case 0:
          out = tame(b, b.binary(Opcode::multiply, x, y));
          break;
        case 1:
          out = b.dynamic_update_slice(x, b.slice(y, {0, 0}, {1, dims_[1]}),
                                       {coordinate(b), b.scalar(DType::s32, 0)});
          break;
        case 2: {
          Instruction* row =
              b.dynamic_slice(x, {coordinate(b), b.scalar(DType::s32, 0)}, {1, dims_[1]});
          out = b.binary(Opcode::add, y, b.broadcast(b.reshape(row, {dims_[1]}), dims_, {1}));
          break;
        }
        case 3:
          out = b.reshape(b.transpose(x, {1, 0}), dims_);
          break;
        case 4: {
          ir::Computation* max = ir::scalar_computation(module_.get(), Opcode::maximum, DType::f32);
          out = b.broadcast(b.reduce(x, b.scalar(DType::f32, -99), {1}, max), dims_, {0});
          break;
        }
        case 5:
        case 6:
          out = lockstep ? collective(b, x) : b.binary(Opcode::maximum, x, y);
          break;
        case 7:
          if (depth > 0) out = loop(b, *values, depth, lockstep && chance(0.5));
          break;
        case 8:
          if (depth > 0) out = branch(b, *values, depth, lockstep && chance(0.5));
          break;
        default:
          out = b.binary(chance(0.5) ? Opcode::add : Opcode::subtract, x, y);
      }
      if (out != nullptr) values->push_back(tame(b, out));
    }
  }

  const Dims dims_;
  std::mt19937_64 engine_;
  std::unique_ptr<ir::Module> module_;
  MeshRef mesh_;
};

struct SpmdCase {
  bool passes;
  Dims dims;
  std::uint64_t programs;
};

class RandomSpmdPrograms : public ::testing::TestWithParam<SpmdCase> {};

TEST_P(RandomSpmdPrograms, LockstepGivesWhatSeparateDevicesDo) {
  for (std::uint64_t seed = 0; seed < GetParam().programs; ++seed) {
    RandomSpmd program(seed, GetParam().dims);
    if (GetParam().passes) {
      passes::inline_calls(program.mutable_module());
      passes::simplify(program.mutable_module());
      passes::eliminate_common(program.mutable_module());
      passes::eliminate_dead(program.mutable_module());
      ir::verify(program.module());
    }
    SCOPED_TRACE("seed " + std::to_string(seed));
    try {
      const auto want = evaluator::evaluate_spmd(program.module(), program.arguments);
      const auto built = plan_of(program.module());
      const auto got = run_plan(program.module(), built.plan, program.arguments);
      for (std::size_t d = 0; d < std::size_t(kRandomDevices); ++d) {
        ASSERT_TRUE(Literal::tuple(got[d]) == want[d])
            << "device " << d << "\n"
            << ir::to_string(program.module()) << runtime::to_string(built.plan);
      }
    } catch (const Error& e) {
      FAIL() << e.what() << "\n" << ir::to_string(program.module());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AsBuilt, RandomSpmdPrograms,
                         ::testing::Values(SpmdCase{false, {4, 8}, 300}));
INSTANTIATE_TEST_SUITE_P(AfterThePasses, RandomSpmdPrograms,
                         ::testing::Values(SpmdCase{true, {4, 8}, 300}));
// Large enough for the workers to share the work.
INSTANTIATE_TEST_SUITE_P(Large, RandomSpmdPrograms,
                         ::testing::Values(SpmdCase{true, {16, 4096}, 30}));

}  // namespace
}  // namespace tessera::testing
