// SPDX-License-Identifier: Apache-2.0
// Puts random programs together.
#include "tests/support/random_program.h"

#include <algorithm>
#include <complex>

#include "src/base/arrays/literal_util.h"
#include "tests/support/random_scope.h"

namespace tessera::testing {

std::uint64_t Dice::next() {
  std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

TensorSharding random_sharding(Dice& dice, const MeshRef& mesh, const Dims& dims,
                               bool may_be_uneven) {
  TensorSharding s = TensorSharding::replicated_on(mesh, std::int64_t(dims.size()));
  if (dims.empty()) return s;
  IndexList axes;
  for (std::size_t a = 0; a < mesh->axes.size(); ++a) axes.push_back(int(a));
  for (std::size_t i = axes.size(); i > 1; --i) {
    std::swap(axes[i - 1], axes[std::size_t(dice.below(std::int64_t(i)))]);
  }
  for (int axis : axes) {
    if (dice.chance(0.3)) continue;
    const std::size_t d = std::size_t(dice.below(std::int64_t(dims.size())));
    const std::int64_t ways = s.shards(std::int64_t(d)) * mesh->axes[std::size_t(axis)].size;
    if (!may_be_uneven && dims[d] % ways != 0) continue;
    s.dims[d].axes.push_back(axis);
  }
  return s;
}

void shard_randomly(Dice& dice, ir::Module* module) {
  auto leaves = [&](const Shape& shape) {
    std::vector<TensorSharding> out;
    for (const Shape& leaf : flatten(shape)) {
      out.push_back(random_sharding(dice, module->mesh, leaf.dims, dice.chance(0.3)));
    }
    return out;
  };
  for (const auto& c : module->computations()) {
    for (const auto& i : c->instructions()) {
      const bool fixed = c.get() == module->entry() && i->is(ir::Opcode::parameter);
      if (!fixed) i->sharding = leaves(i->shape);
    }
  }
  for (const auto& c : module->computations()) {
    for (const auto& i : c->instructions()) {
      if (i->is(ir::Opcode::while_)) {
        ir::Computation *condition = i->called()[0], *body = i->called()[1];
        body->root()->sharding = body->parameter(0)->sharding;
        condition->parameter(0)->sharding = body->parameter(0)->sharding;
      } else if (i->is(ir::Opcode::conditional)) {
        for (ir::Computation* b : i->called()) b->root()->sharding = i->sharding;
      }
    }
  }
}

Literal random_literal(Dice& dice, DType dtype, const Dims& dims, bool exact) {
  Literal l(Shape(dtype, dims));
  dispatch_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (T& x : l.mutable_data<T>()) {
      const double v = exact ? double(dice.between(-4, 4)) : 4 * dice.unit() - 2;
      if constexpr (std::is_same_v<T, Pred>) {
        x = Pred(v > 0);
      } else if constexpr (is_complex_v<T>) {
        x = T(typename T::value_type(v), typename T::value_type(2 * dice.unit() - 1));
      } else {
        x = convert_element<T>(v);
      }
    }
  });
  return l;
}

RandomProgram random_program(std::uint64_t seed, const RandomProgramOptions& options) {
  Dice dice(seed);
  static const std::vector<std::vector<std::pair<std::string, std::int64_t>>> meshes = {
      {{"x", 8}}, {{"x", 2}, {"y", 4}}, {{"x", 2}, {"y", 2}, {"z", 2}}};
  static const std::vector<std::vector<std::pair<std::string, std::int64_t>>> odd_meshes = {
      {{"x", 3}, {"y", 2}}, {{"x", 2}, {"one", 1}, {"y", 2}}, {{"x", 5}}, {{"x", 1}}};
  const auto& axes = dice.chance(0.1) ? dice.pick(odd_meshes) : dice.pick(meshes);
  std::vector<std::int64_t> order;
  if (dice.chance(0.15)) {
    std::int64_t devices = 1;
    for (const auto& [name, size] : axes) devices *= size;
    for (std::int64_t d = 0; d < devices; ++d) order.push_back(d);
    for (std::int64_t i = devices; i > 1; --i) {
      std::swap(order[std::size_t(i - 1)], order[std::size_t(dice.below(i))]);
    }
  }
  MeshRef mesh = make_logical_mesh(axes, order);
  if (dice.chance(0.15)) mesh = refine_to_primes(mesh);

  RandomProgram out;
  out.seed = seed;
  out.exact = options.exact;
  out.module = std::make_unique<ir::Module>("random_" + std::to_string(seed));
  out.module->mesh = mesh;
  ir::Computation* entry = out.module->add_computation("main");
  RandomScope scope(dice, mesh, options, entry, 0);
  scope.b().metadata.edit().op_name = "random";
  static const std::vector<std::int64_t> sizes = {1, 2,  3,  4,  5,  6,  7,  8, 8,
                                                  8, 10, 12, 13, 16, 16, 24, 32};
  const std::int64_t parameters = dice.between(1, 3);
  for (std::int64_t p = 0; p < parameters; ++p) {
    Dims dims;
    const std::int64_t rank = dice.chance(0.1) ? 0 : dice.between(1, 3);
    std::int64_t count = 1;
    for (std::int64_t d = 0; d < rank; ++d) {
      std::int64_t n = dice.pick(sizes);
      if (count * n > 768) n = 1 + dice.below(4);
      dims.push_back(n);
      count *= n;
    }
    DType dtype = f32;
    if (options.exact && dice.chance(0.2)) dtype = s32;
    if (!options.exact && dice.chance(0.2)) dtype = f64;
    ir::Instruction* x = scope.b().parameter(p, Shape(dtype, dims));
    x->sharding = {random_sharding(dice, mesh, dims, dice.chance(0.2))};
    out.arguments.push_back(random_literal(dice, dtype, dims, options.exact));
    scope.add({x, 4});
  }
  scope.grow(int(dice.between(options.min_ops, options.max_ops)));
  std::vector<ir::Instruction*> results;
  const std::int64_t count = dice.between(1, 3);
  const std::vector<Known>& pool = scope.pool();
  for (std::int64_t r = 0; r < count; ++r) {
    // The newest first, then any.
    const std::size_t at =
        r == 0 ? pool.size() - 1 : std::size_t(dice.below(std::int64_t(pool.size())));
    results.push_back(pool[at].x);
  }
  ir::Instruction* root = results.size() == 1 ? results[0] : scope.b().tuple(results);
  if (results.size() == 1 && (root->is(ir::Opcode::parameter) || root->has_sharding())) {
    root = scope.b().tuple(results);
  }
  entry->set_root(root);
  out.module->set_entry(entry);
  out.module->remove_dead_computations();  // and puts callees first
  if (dice.chance(0.7)) {
    for (ir::Instruction* r : results) {
      root->sharding.push_back(random_sharding(dice, mesh, r->shape.dims, dice.chance(0.2)));
    }
  }
  return out;
}

Owners owners_of(Dice& dice, std::int64_t devices, int processes) {
  Owners out;
  const std::int64_t kind = dice.below(3);
  for (std::int64_t d = 0; d < devices; ++d) {
    out.push_back(std::int32_t(kind == 0   ? d * processes / devices
                               : kind == 1 ? d % processes
                                           : dice.below(processes)));
  }
  return out;
}

}  // namespace tessera::testing
