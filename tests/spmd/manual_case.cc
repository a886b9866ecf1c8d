// SPDX-License-Identifier: Apache-2.0
// Programs with manual computations, run plainly and partitioned.
#include "tests/spmd/manual_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "src/evaluator/evaluator.h"
#include "src/ir/analysis/device_computations.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/rewrite/builder.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/spmd/manual/manual.h"
#include "src/spmd/propagation/graph.h"
#include "tests/support/against_evaluator.h"
#include "tests/support/random_program.h"

namespace tessera::testing {
namespace {

using ir::Instruction;
using ir::Opcode;

/// The calls of a module that was raised and bound, replaced by code per device.
class Spread {
 public:
  explicit Spread(ir::Module* module) : module_(module), devices_(module->num_partitions) {}

  void run() {
    // Callers first.
    std::vector<ir::Computation*> all = ir::device_computations(*module_);
    std::map<ir::Computation*, std::vector<std::string>> around;  // manual axes by name
    for (auto c = all.rbegin(); c != all.rend(); ++c) {
      std::vector<Instruction*> calls;
      for (const auto& i : (*c)->instructions()) {
        if (ir::is_manual_computation(*i)) {
          calls.push_back(i.get());
        } else {
          for (ir::Computation* callee : i->called()) around[callee] = around[*c];
        }
      }
      std::unordered_map<Instruction*, Instruction*> replaced;
      for (Instruction* call : calls) {
        mesh_ = module_->mesh;
        for (const Instruction* o : call->operands()) {
          if (o->sharding.at(0).mesh) mesh_ = o->sharding[0].mesh;
        }
        for (const TensorSharding& s : call->sharding) mesh_ = s.mesh ? s.mesh : mesh_;
        IndexList manual;
        const bool partly = ir::is_partly_manual(*call);
        for (int a = 0; a < int(mesh_->axes.size()); ++a) {
          if (!partly) manual.push_back(a);
        }
        if (partly) manual = spmd::manual::axes_of(*call, mesh_);
        for (int a : manual) {
          around[call->called()[0]].push_back(mesh_->axes[std::size_t(a)].to_string());
        }
        replaced[call] = spread(*c, *call, manual, around[*c]);
      }
      (*c)->replace_all_uses(replaced);
      (*c)->sort_topologically();
      (*c)->remove_dead();
    }
  }

 private:
  static TensorSharding only(TensorSharding s, const IndexList& axes) {
    for (DimSharding& d : s.dims) {
      erase_if(d.axes, [&](int a) { return std::find(axes.begin(), axes.end(), a) == axes.end(); });
    }
    return s;
  }

  Instruction* number(ir::Builder& b, const Dims& table) {
    Literal l(Shape(s32, {devices_}));
    for (std::int64_t d = 0; d < devices_; ++d) {
      l.mutable_data<std::int32_t>()[std::size_t(d)] = std::int32_t(table[std::size_t(d)]);
    }
    Instruction* at = b.convert(b.partition_id(), s32);
    return b.reshape(b.dynamic_slice(b.constant(l), {at}, {1}), {});
  }

  std::vector<Instruction*> offsets(ir::Builder& b, const TensorSharding& s, const Dims& local) {
    std::vector<Instruction*> out;
    for (std::size_t k = 0; k < local.size(); ++k) {
      Dims table;
      for (std::int64_t d = 0; d < devices_; ++d) {
        table.push_back(s.mesh ? s.shard_coordinates(d)[k] * local[k] : 0);
      }
      out.push_back(number(b, table));
    }
    return out;
  }

  Instruction* spread(ir::Computation* c, const Instruction& call, const IndexList& manual,
                      const std::vector<std::string>& around) {
    ir::Builder b(c);
    const ir::Computation& body = *call.called()[0];
    std::vector<Instruction*> arguments;
    for (std::size_t k = 0; k < call.operands().size(); ++k) {
      const TensorSharding s = only(call.operand(k)->sharding[0], manual);
      const Dims& local = body.parameter(k)->shape.dims;
      arguments.push_back(b.dynamic_slice(call.operands()[k], offsets(b, s, local), local));
    }
    Instruction* result = b.call(call.called()[0], arguments);
    // Devices that share the manual axes around have one global array among them.
    std::map<Dims, std::vector<std::int64_t>> groups;
    for (std::int64_t d = 0; d < devices_; ++d) {
      Dims key;
      for (int a = 0; a < int(mesh_->axes.size()); ++a) {
        const std::string name = mesh_->axes[std::size_t(a)].to_string();
        if (std::find(around.begin(), around.end(), name) != around.end()) {
          key.push_back(mesh_->coordinate(d, a));
        }
      }
      groups[key].push_back(d);
    }
    ir::DeviceGroups together;
    for (const auto& [key, list] : groups) together.lists.push_back(list);
    std::vector<Instruction*> leaves;
    const std::vector<Shape> shapes = flatten(call.shape);
    for (std::size_t k = 0; k < shapes.size(); ++k) {
      Instruction* x =
          result->shape.is_tuple ? b.get_tuple_element(result, std::int64_t(k)) : result;
      const TensorSharding s = only(call.sharding[k], manual);
      Dims first(std::size_t(devices_), 0);
      for (const auto& [key, list] : groups) {
        std::set<Dims> seen;
        for (std::int64_t d : list) {
          first[std::size_t(d)] = seen.insert(s.mesh ? s.shard_coordinates(d) : Dims{}).second;
        }
      }
      Instruction* zeros = b.splat(b.scalar(shapes[k].dtype, 0), shapes[k].dims);
      Instruction* all = x;
      if (!shapes[k].dims.empty()) {
        all = b.dynamic_update_slice(zeros, x, offsets(b, s, x->shape.dims));
      }
      Instruction* is_first = b.compare(ir::Direction::eq, number(b, first), b.scalar(s32, 1));
      all = b.select(b.splat(is_first, shapes[k].dims), all, zeros);
      all = b.all_reduce(all, ir::scalar_computation(module_, Opcode::add, shapes[k].dtype),
                         together);
      leaves.push_back(all);
    }
    return call.shape.is_tuple ? b.tuple(leaves) : leaves.at(0);
  }

  ir::Module* module_;
  const std::int64_t devices_;
  MeshRef mesh_;
};

}  // namespace

Literal evaluate_manual(const ir::Module& module, const std::vector<Literal>& arguments) {
  std::unique_ptr<ir::Module> spread = module.clone();
  spmd::propagation::normalize_custom_calls(spread.get());
  spmd::manual::raise(spread.get());
  spmd::manual::bind(spread.get());
  Spread(spread.get()).run();
  spread->remove_dead_computations();
  ir::verify(*spread);
  const std::vector<std::vector<Literal>> all(std::size_t(spread->num_partitions), arguments);
  std::vector<Literal> results = evaluator::evaluate_spmd(*spread, all);
  for (std::size_t d = 1; d < results.size(); ++d) {
    EXPECT_EQ(results[0], results[d]) << "device " << d;
  }
  return results[0];
}

PartitionCase check_manual(std::unique_ptr<ir::Module> module, double tolerance,
                           std::vector<Literal> arguments, const spmd::PartitionOptions& options) {
  Dice dice(7);
  if (arguments.empty()) arguments = random_arguments(*module, dice, tolerance == 0);
  const Literal whole = evaluate_manual(*module, arguments);
  return check_against(std::move(module), whole, tolerance, std::move(arguments), options);
}

}  // namespace tessera::testing
