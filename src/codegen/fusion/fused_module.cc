// SPDX-License-Identifier: Apache-2.0
// Copies a program, with a computation of its own for what each loop computes, or without.
#include "src/codegen/fusion/fused_module.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/codegen/fusion/fusion_body.h"
#include "src/ir/cloner.h"
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
  ComputationFuser(FusedProgram* program, const Computation& source, const UniformityFacts& facts)
      : program_(*program),
        source_{source, facts, program->plan.runs.at(&facts)},
        target_(program->module->add_computation(source.name())),
        copies_(source.instructions().size()) {}

  /// Bodies have constants of their own: those of the program may be of no more use.
  Computation* run() {
    for (const auto& i : source_.computation.instructions()) {
      if (!source_.inlined(*i)) copies_[std::size_t(i->index)] = make(*i);
    }
    target_->set_root(copy_of(*source_.computation.root()));
    target_->remove_dead();
    return target_;
  }

 private:
  Instruction* copy_of(const Instruction& i) const { return copies_[std::size_t(i.index)]; }

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
    for (std::size_t k = 0; k < i.called().size(); ++k) {
      const Computation& of = *i.called(k);
      copy->add_called(called == source_.facts.called.end()
                           ? program_.function(of)
                           : ComputationFuser(&program_, of, called->second.at(k)).run());
    }
    return target_->add(std::move(copy));
  }

  Instruction* fusion(const Instruction& root) {
    FusionBody body(&program_, source_, root.opcode);
    body.add(root);
    Instruction* out = call(&body, root.metadata);
    out->sharding = root.sharding;
    return out;
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
        operands.push_back(call(&body, i.metadata));
      } else {
        operands.push_back(copy_of(o));
        if (all == nullptr || 2 * k >= i.operands().size()) continue;
        order = all;
        operands.back() = add_transpose(operands.back(), *all, i);
      }
      take_transposed(copy.get(), k, *order);
    }
    copy->set_operands(std::move(operands));
    return add_with_called(i, std::move(copy));
  }

  Instruction* call(FusionBody* body, const Cow<ir::Metadata>& metadata) {
    std::vector<Instruction*> operands;
    for (const Instruction* o : body->parameters()) operands.push_back(copy_of(*o));
    return body->call(target_, std::move(operands), metadata);
  }

  FusedProgram& program_;
  const FusionSource source_;
  Computation* target_;
  std::vector<Instruction*> copies_;  ///< by index in the source
};

/// Without computations.
std::unique_ptr<ir::Module> empty_copy(const ir::Module& module) {
  auto out = std::make_unique<ir::Module>(module.name);
  out->num_partitions = module.num_partitions;
  out->replica_count = module.replica_count;
  out->mesh = module.mesh;
  out->last_channel_id = module.last_channel_id;
  out->input_output_alias = module.input_output_alias;
  out->buffer_donor = module.buffer_donor;
  out->frontend_attributes = module.frontend_attributes;
  out->other = module.other;
  return out;
}

/// Writes out what fusions compute where they stand.
class Unfuser {
 public:
  explicit Unfuser(UnfusedModule* out) : out_(*out) {}

  Computation* copy(const Computation& source) {
    Computation*& made = copies_[&source];
    if (made == nullptr) {
      made = out_.module->add_computation(source.name());
      made->set_root(append(source, nullptr, made, &out_.fusions[made]));
    }
    return made;
  }

 private:
  static bool is_fusion(const Instruction* i) { return i->is(ir::Opcode::fusion); }

  /// `arguments`: those of a fusion; null: none called it.
  Instruction* append(const Computation& source, const std::vector<Instruction*>* arguments,
                      Computation* target, Fusion* decided) {
    ir::Cloner cloner(source, target, {.callees = &copies_, .default_metadata = {}});
    if (arguments != nullptr) cloner.map_parameters(*arguments);
    for (const auto& i : source.instructions()) {
      if (cloner.has(i.get())) continue;
      if (is_fusion(i.get())) {
        std::vector<Instruction*> operands = i->operands();
        for (Instruction*& o : operands) o = cloner[o];
        Instruction* root = append(*i->called(0), &operands, target, decided);
        root->sharding = i->sharding;
        decided->inlined[std::size_t(root->index)] = arguments != nullptr;
        cloner.map(i.get(), root);
        continue;
      }
      for (const Computation* c : i->called()) copy(*c);
      cloner.clone(*i);
      decided->inlined.push_back(arguments != nullptr);
      decided->fuses_producers.push_back(
          arguments != nullptr &&
          std::any_of(i->operands().begin(), i->operands().end(), is_fusion));
    }
    return cloner[source.root()];
  }

  UnfusedModule& out_;
  std::unordered_map<const Computation*, Computation*> copies_;
};

}  // namespace

std::unique_ptr<ir::Module> fuse_module(const ir::Module& module, const UniformityFacts& facts,
                                        const FusionPlan& plan) {
  std::unique_ptr<ir::Module> made = empty_copy(module);
  FusedProgram program{made.get(), plan};
  made->set_entry(ComputationFuser(&program, *module.entry(), facts).run());
  made->remove_dead_computations();
  return made;
}

UnfusedModule unfuse_module(const ir::Module& fused) {
  UnfusedModule out;
  out.module = empty_copy(fused);
  out.module->set_entry(Unfuser(&out).copy(*fused.entry()));
  return out;
}

FusionPlan UnfusedModule::plan(const passes::UniformityFacts& facts) const {
  FusionPlan out;
  for_each_run(*module->entry(), facts,
               [&](const Computation& c, const passes::UniformityFacts& run) {
                 out.runs[&run] = fusions.at(&c);
               });
  return out;
}

}  // namespace tessera::codegen
