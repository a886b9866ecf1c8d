// SPDX-License-Identifier: Apache-2.0
// Copies a program, with a computation of its own for what each loop computes.
#include "src/codegen/fusion/fused_module.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/codegen/fusion/fusion_body.h"
#include "src/ir/opcode.h"

namespace tessera::codegen {
namespace {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;
using passes::UniformityFacts;

/// Has an instruction take operand `k` transposed.
void take_transposed(Instruction* user, std::size_t k, const Dims& order) {
  Dims place(order.size());
  for (std::size_t d = 0; d < order.size(); ++d) place[std::size_t(order[d])] = std::int64_t(d);
  const auto move = [&](std::int64_t* dim) { *dim = place[std::size_t(*dim)]; };
  const auto move_all = [&](Dims* dims) {
    for (std::int64_t& d : *dims) move(&d);
  };
  if (user->is(Opcode::dot)) {
    auto& a = user->edit<ir::DotAttrs>();
    move_all(k == 0 ? &a.lhs_batch : &a.rhs_batch);
    move_all(k == 0 ? &a.lhs_contracting : &a.rhs_contracting);
  } else if (user->is(Opcode::convolution)) {
    auto& a = user->edit<ir::ConvolutionAttrs>();
    move(k == 0 ? &a.input_batch : &a.kernel_input_feature);
    move(k == 0 ? &a.input_feature : &a.kernel_output_feature);
    move_all(k == 0 ? &a.input_spatial : &a.kernel_spatial);
  } else {
    TESSERA_CHECK(user->is(Opcode::reduce), user->name + " takes no transposes");
    // All arrays of it are transposed.
    if (k == 0) move_all(&user->edit<ir::DimensionsAttrs>().dims);
  }
}

/// One computation, as it is run from one place.
class ComputationFuser {
 public:
  ComputationFuser(FusedProgram* program, const Computation& source, const UniformityFacts& facts,
                   UniformityFacts* made)
      : program_(*program),
        source_{source, facts, program->plan.runs.at(&facts)},
        builder_(program->module->add_computation(source.name()), made),
        copies_(source.instructions().size()) {}

  Computation* run() {
    for (const auto& i : source_.computation.instructions()) {
      if (source_.inlined(*i)) continue;
      if (!i->is(Opcode::parameter) && is_compile_time_constant(*i, source_.leaves(*i))) continue;
      copy_of(*i);
    }
    builder_.target()->set_root(copy_of(*source_.computation.root()));
    return builder_.target();
  }

 private:
  static std::size_t at(const Instruction& i) { return std::size_t(i.index); }

  Instruction* copy_of(const Instruction& i) {
    Instruction*& copy = copies_[at(i)];
    if (copy == nullptr) {
      for (const std::int64_t n : missing(i)) {
        copies_[std::size_t(n)] = make(*source_.computation.instructions()[std::size_t(n)]);
      }
      copy = make(i);
    }
    return copy;
  }
  /// What is made when used and now is, in order: chains of it may be long. Bodies have constants
  /// of their own.
  std::set<std::int64_t> missing(const Instruction& i) const {
    std::set<std::int64_t> seen, out;
    const bool fuses = std::any_of(i.operands().begin(), i.operands().end(),
                                   [&](const Instruction* o) { return source_.inlined(*o); });
    std::vector<const Instruction*> pending = {&i};
    while (!pending.empty()) {
      const Instruction& user = *pending.back();
      pending.pop_back();
      for (const Instruction* o : user.operands()) {
        if (copies_[at(*o)] != nullptr) continue;
        if ((fuses || &user != &i) && o->shape.is_array() && splat_element(source_.leaves(*o)[0])) {
          continue;
        }
        if (!seen.insert(o->index).second) continue;
        if (!source_.inlined(*o)) out.insert(o->index);
        pending.push_back(o);
      }
    }
    return out;
  }

  Instruction* make(const Instruction& i) {
    bool fuses = false, reorders = false;
    for (std::size_t k = 0; k < i.operands().size(); ++k) {
      if (!source_.inlined(*i.operand(k))) continue;
      fuses = true;
      reorders = reorders || operand_order(i, k) != nullptr;
    }
    if (reorders) return with_operands_in_order(i);
    return fuses ? fusion(i) : plain(i);
  }

  /// The order in which an operand is computed for its user; null: as it is.
  const Dims* operand_order(const Instruction& user, std::size_t k) const {
    const auto it = source_.fusion.operand_orders.find({user.index, k});
    return it == source_.fusion.operand_orders.end() ? nullptr : &it->second;
  }

  Instruction* plain(const Instruction& i) {
    std::vector<Instruction*> operands;
    for (const Instruction* o : i.operands()) operands.push_back(copy_of(*o));
    auto copy = bare_copy(i);
    // What is called `fusion` here is what this made.
    if (i.is(Opcode::fusion)) {
      copy->opcode = Opcode::call;
      copy->attrs = {};
    }
    copy->set_operands(std::move(operands));
    return add_with_called(i, std::move(copy));
  }

  Instruction* add_with_called(const Instruction& i, std::unique_ptr<Instruction> copy) {
    const auto called = source_.facts.called.find(i.index);
    std::vector<UniformityFacts> made;
    for (std::size_t k = 0; k < i.called().size(); ++k) {
      if (called == source_.facts.called.end()) {
        copy->add_called(program_.function(*i.called()[k]));
        continue;
      }
      made.emplace_back();
      ComputationFuser inner(&program_, *i.called()[k], called->second.at(k), &made.back());
      copy->add_called(inner.run());
    }
    Instruction* out = builder_.add(std::move(copy), source_.leaves(i));
    if (!made.empty()) builder_.facts().called[out->index] = std::move(made);
    return out;
  }

  Instruction* fusion(const Instruction& root) {
    FusionBody body(&program_, source_, root.opcode);
    body.add(root);
    return call(&body, root);
  }

  Instruction* with_operands_in_order(const Instruction& i) {
    auto copy = bare_copy(i);
    const Dims* all = nullptr;  // the order in which a reduction takes all of its arrays
    for (std::size_t k = 0; i.is(Opcode::reduce) && all == nullptr && k < i.operands().size();
         ++k) {
      all = operand_order(i, k);
    }
    std::vector<Instruction*> operands;
    for (std::size_t k = 0; k < i.operands().size(); ++k) {
      const Instruction& o = *i.operand(k);
      const Dims* order = operand_order(i, k);
      if (order != nullptr) {
        FusionBody body(&program_, source_, Opcode::transpose);
        body.add(o);
        body.transpose(*order, i);
        ir::InstructionData as;
        as.metadata = i.metadata;
        operands.push_back(call(&body, as));
      } else {
        operands.push_back(copy_of(o));
        if (all == nullptr || 2 * k >= i.operands().size()) continue;
        order = all;
        operands.back() = builder_.add(transpose_of(operands.back(), *all, *i.metadata),
                                       {{source_.leaves(o).at(0).classes, nullptr}});
      }
      take_transposed(copy.get(), k, *order);
    }
    copy->set_operands(std::move(operands));
    return add_with_called(i, std::move(copy));
  }

  Instruction* call(FusionBody* body, const ir::InstructionData& as) {
    std::vector<Instruction*> operands;
    for (const Instruction* o : body->parameters()) operands.push_back(copy_of(*o));
    return body->call(&builder_, std::move(operands), as);
  }

  FusedProgram& program_;
  const FusionSource source_;
  FactsBuilder builder_;
  std::vector<Instruction*> copies_;  ///< by index in the source
};

}  // namespace

FusedModule fuse_module(const ir::Module& module, const UniformityFacts& facts,
                        const FusionPlan& plan) {
  FusedModule out;
  out.module = std::make_unique<ir::Module>(module.name);
  ir::Module& made = *out.module;
  made.num_partitions = module.num_partitions;
  made.replica_count = module.replica_count;
  made.mesh = module.mesh;
  made.last_channel_id = module.last_channel_id;
  made.input_output_alias = module.input_output_alias;
  made.buffer_donor = module.buffer_donor;
  made.frontend_attributes = module.frontend_attributes;
  made.other = module.other;
  FusedProgram program{&made, plan};
  made.set_entry(ComputationFuser(&program, *module.entry(), facts, &out.facts).run());
  made.remove_dead_computations();
  return out;
}

}  // namespace tessera::codegen
