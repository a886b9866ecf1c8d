// SPDX-License-Identifier: Apache-2.0
// Random manual computations over random subsets of a mesh's axes, against the plain execution of
// manual_case.h.
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>

#include "src/ir/hlo/hlo_text.h"
#include "src/ir/hooks.h"
#include "src/ir/rewrite/builder.h"
#include "src/spmd/manual/manual.h"
#include "tests/spmd/manual_case.h"
#include "tests/support/random_program.h"

namespace tessera::testing {
namespace {

using ir::Instruction;
using ir::Opcode;

class ManualProgram {
 public:
  explicit ManualProgram(std::uint64_t seed) : dice_(seed), m_(std::make_unique<ir::Module>("m")) {
    std::vector<std::int64_t> ids;
    if (dice_.chance(0.4)) {
      ids.resize(8);
      std::iota(ids.begin(), ids.end(), std::int64_t(0));
      for (std::int64_t k = 8; --k > 0;) {
        std::swap(ids[std::size_t(k)], ids[std::size_t(dice_.below(k + 1))]);
      }
    }
    mesh_ = make_logical_mesh({{"a", 2}, {"b", 2}, {"c", 2}}, ids);
    m_->num_partitions = 8;
    m_->mesh = mesh_;
    // Arguments and results may be on another order than the per-device code.
    outer_ = mesh_;
    if (dice_.chance(0.3)) {
      outer_ = make_logical_mesh({{"u", 4}, {"v", 2}}, {4, 1, 7, 2, 0, 3, 6, 5}, "outer");
      m_->mesh = outer_;
    }
    const std::int64_t set = dice_.between(1, 7);
    for (int a = 0; a < 3; ++a) {
      if (set >> a & 1) manual_.push_back(a);
    }
  }

  std::unique_ptr<ir::Module> make() {
    ir::Computation* entry = m_->add_computation("main");
    ir::Builder b(entry);
    const Dims dims{16, 8};
    std::vector<Instruction*> arrays;
    for (int k = 0; k < 2; ++k) {
      arrays.push_back(b.parameter(k, Shape(f32, dims)));
      if (dice_.chance(0.7))
        arrays.back()->sharding = {random_sharding(dice_, outer_, dims, false)};
    }
    for (Instruction*& x : arrays) {
      if (dice_.chance(0.5)) x = b.unary(Opcode::negate, x);
    }
    const int calls = int(dice_.between(1, 2));
    for (int k = 0; k < calls; ++k) {
      Instruction* x = call(b, arrays[0], arrays[1]);
      arrays[std::size_t(k)] = dice_.chance(0.5) ? b.unary(Opcode::abs, x) : x;
    }
    Instruction* root = b.binary(Opcode::add, arrays[0], arrays[1]);
    if (dice_.chance(0.6)) root->sharding = {random_sharding(dice_, outer_, dims, false)};
    entry->set_root(root);
    m_->set_entry(entry);
    return std::move(m_);
  }

 private:
  bool is_manual(int a) const {
    return std::find(manual_.begin(), manual_.end(), a) != manual_.end();
  }

  /// Manual axes on dims; automatic ones open, or here and there given.
  TensorSharding boundary(bool all_manual) {
    TensorSharding s = TensorSharding::replicated_on(mesh_, 2);
    for (int a : manual_) {
      if (all_manual || dice_.chance(0.7)) s.dims[std::size_t(dice_.below(2))].axes.push_back(a);
    }
    for (int a = 0; a < 3; ++a) {
      if (!is_manual(a) && dice_.chance(0.2)) s.dims[std::size_t(dice_.below(2))].axes.push_back(a);
    }
    for (DimSharding& d : s.dims) d.open = dice_.chance(0.7);
    return s;
  }

  Dims local(const TensorSharding& s) const {
    Dims dims{16, 8};
    for (std::size_t d = 0; d < 2; ++d) {
      for (int a : s.dims[d].axes) dims[d] /= is_manual(a) ? 2 : 1;
    }
    return dims;
  }

  ir::DeviceGroups groups(const IndexList& axes) const {
    ir::DeviceGroups out;
    out.lists = ir::DeviceGroups::over(mesh_, axes).expand(8);
    return out;
  }

  IndexList some_axes() {
    IndexList axes;
    for (int a : manual_) {
      if (dice_.chance(0.6)) axes.push_back(a);
    }
    if (axes.empty()) axes.push_back(manual_[0]);
    return axes;
  }

  Instruction* sum(ir::Builder& b, Instruction* x, const IndexList& axes) {
    return b.all_reduce(x, ir::scalar_computation(m_.get(), Opcode::add, f32), groups(axes));
  }

  int any_axis() { return manual_[std::size_t(dice_.below(std::int64_t(manual_.size())))]; }

  /// A scalar that tells the device's place along one manual axis.
  Instruction* place(ir::Builder& b) {
    const int axis = any_axis();
    Literal table(Shape(s32, {8}));
    for (std::int64_t d = 0; d < 8; ++d) {
      table.mutable_data<std::int32_t>()[std::size_t(d)] = std::int32_t(mesh_->coordinate(d, axis));
    }
    Instruction* at = b.convert(b.partition_id(), s32);
    return b.convert(b.reshape(b.dynamic_slice(b.constant(table), {at}, {1}), {}), f32);
  }

  Instruction* step(ir::Builder& b, Instruction* x, Instruction* y) {
    const Dims dims = x->shape.dims;
    switch (dice_.below(7)) {
      case 0:
        return b.binary(Opcode::add, x, b.splat(place(b), dims));
      case 1:
        return b.binary(Opcode::subtract, x, sum(b, x, some_axes()));
      case 2: {
        // Gathered and summed again.
        const IndexList axes = some_axes();
        const std::int64_t d = dice_.below(2);
        Instruction* all = b.all_gather(x, d, groups(axes));
        return b.reduce_scatter(all, ir::scalar_computation(m_.get(), Opcode::add, f32), d,
                                groups(axes));
      }
      case 3: {
        // To the next device along one axis.
        const int axis = any_axis();
        const bool both = dice_.chance(0.8);  // the same along automatic axes
        std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
        for (const auto& g : ir::DeviceGroups::over(mesh_, {axis}).expand(8)) {
          pairs.emplace_back(g[0], g[1]);
          if (both) pairs.emplace_back(g[1], g[0]);
        }
        return b.collective_permute(x, pairs);
      }
      case 4: {
        const std::int64_t d = dice_.below(2);
        const IndexList axes{any_axis()};
        return dims[std::size_t(d)] % 2 == 0 ? b.all_to_all(x, d, groups(axes)) : x;
      }
      case 5:
        return b.binary(Opcode::subtract, x, b.reverse(x, {dice_.below(2)}));
      default: {
        // Contracts a whole local dim.
        ir::DotAttrs attrs;
        attrs.lhs_contracting = attrs.rhs_contracting = {1};
        Instruction* gram = b.dot(x, x, attrs);
        attrs.lhs_contracting = {1};
        attrs.rhs_contracting = {0};
        Instruction* out = b.dot(gram, x, attrs);
        // Small again, so that sums stay exact.
        out = b.binary(Opcode::remainder, out, b.splat(b.scalar(f32, 7), dims));
        return y->shape.dims == dims ? b.binary(Opcode::add, out, y) : out;
      }
    }
  }

  Instruction* call(ir::Builder& outside, Instruction* p, Instruction* q) {
    const TensorSharding in = boundary(false), other = boundary(false);
    // Results that lie like the first operand; along manual axes on none of its dims all are equal.
    TensorSharding out = in;
    for (DimSharding& d : out.dims) d.open = dice_.chance(0.5);
    ir::Computation* body = m_->add_computation("body");
    ir::Builder b(body);
    Instruction* x = b.parameter(0, Shape(f32, local(in)));
    Instruction* y = b.parameter(1, Shape(f32, local(other)));
    const int steps = int(dice_.between(1, 4));
    for (int k = 0; k < steps; ++k) {
      x = step(b, x, y);
      x = b.binary(Opcode::remainder, x, b.splat(b.scalar(f32, 16), x->shape.dims));
    }
    IndexList rest;
    for (int a : manual_) {
      if (!in.uses_axis(a)) rest.push_back(a);
    }
    if (!rest.empty()) x = sum(b, x, rest);
    body->set_root(dice_.chance(0.5) ? x : b.tuple({x}));
    ir::ManualComputationAttrs attrs;
    attrs.in_shardings = {in, other};
    attrs.out_shardings = {out};
    attrs.mesh = mesh_;
    attrs.manual_axes = manual_;
    const Shape global(f32, {16, 8});
    const bool tuple = body->root()->shape.is_tuple;
    Instruction* made = outside.emit_shaped(
        Opcode::manual_computation, tuple ? Shape::tuple({global}) : global, {p, q}, attrs, {body});
    return tuple ? outside.get_tuple_element(made, 0) : made;
  }

  Dice dice_;
  std::unique_ptr<ir::Module> m_;
  MeshRef mesh_, outer_;
  IndexList manual_;
};

TEST(Manual, RandomBodies) {
  const char* text = std::getenv("SOAK_PROGRAMS");
  const int count = text && *text ? std::atoi(text) / 4 : 300;
  for (int seed = 1; seed <= count && !::testing::Test::HasFailure(); ++seed) {
    std::unique_ptr<ir::Module> m = ManualProgram(std::uint64_t(seed)).make();
    const std::string before = ir::to_string(*m);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + before);
    Dice dice{std::uint64_t(seed)};
    const std::vector<Literal> arguments{random_literal(dice, f32, {16, 8}, true),
                                         random_literal(dice, f32, {16, 8}, true)};
    try {
      // Small integers; the tolerance only lets zeros have either sign.
      check_manual(std::move(m), 1e-12, arguments);
    } catch (const std::exception& e) {
      FAIL() << e.what();
    }
  }
}

}  // namespace
}  // namespace tessera::testing
