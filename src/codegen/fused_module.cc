// SPDX-License-Identifier: Apache-2.0
// Copies a program, with a computation of its own for what each loop computes.
#include "src/codegen/fused_module.h"

#include <cstring>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/ir/opcode.h"

namespace tessera::codegen {
namespace {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;
using passes::LeafFacts;
using passes::UniformityFacts;

/// A computation in the making, with what is known of each of its values.
class FactsBuilder {
 public:
  FactsBuilder(Computation* target, UniformityFacts* facts) : target_(target), facts_(facts) {}

  Instruction* add(std::unique_ptr<Instruction> i, std::vector<LeafFacts> leaves) {
    facts_->leaves.push_back(std::move(leaves));
    return target_->add(std::move(i));
  }
  Computation* target() const { return target_; }
  UniformityFacts& facts() { return *facts_; }

 private:
  Computation* target_;
  UniformityFacts* facts_;
};

std::unique_ptr<Instruction> bare_copy(const Instruction& i) {
  return std::make_unique<Instruction>(static_cast<const ir::InstructionData&>(i));
}

/// The body of a fusion.
class FusionBody {
 public:
  FusionBody(ir::Module* module, const std::string& name, UniformityFacts* facts)
      : builder_(module->add_computation(name), facts) {}

  Computation* computation() const { return builder_.target(); }
  /// What the fusion's operands are copies of, by parameter.
  const std::vector<const Instruction*>& parameters() const { return parameters_; }
  Instruction* copy_of(const Instruction& i) const { return copies_.at(&i); }

  Instruction* add(std::unique_ptr<Instruction> made, std::vector<LeafFacts> leaves) {
    made->sharding.clear();
    return builder_.add(std::move(made), std::move(leaves));
  }
  void add_copy(const Instruction& i, std::unique_ptr<Instruction> copy,
                const std::vector<LeafFacts>& leaves, const UniformityFacts& outer) {
    std::vector<Instruction*> operands;
    for (const Instruction* o : i.operands()) operands.push_back(operand(i, *o, outer));
    copy->set_operands(std::move(operands));
    copies_[&i] = add(std::move(copy), leaves);
  }

 private:
  /// A value that is computed here, a scalar that is known, or a parameter.
  Instruction* operand(const Instruction& user, const Instruction& o,
                       const UniformityFacts& outer) {
    if (const auto it = copies_.find(&o); it != copies_.end()) return it->second;
    const std::vector<LeafFacts>& leaves = outer.leaves[std::size_t(o.index)];
    TESSERA_CHECK(leaves.size() == 1 && o.shape.is_array(), o.name + " is read in a loop");
    if (ir::is_elementwise(user.opcode)) {
      if (const auto element = splat_element(leaves[0])) return splat(o, *element, leaves[0]);
    }
    auto [it, added] = read_.try_emplace(&o, nullptr);
    if (added) {
      auto p = std::make_unique<Instruction>();
      p->opcode = Opcode::parameter;
      p->name = "param_" + std::to_string(parameters_.size());
      p->shape = o.shape;
      p->attrs = ir::ParameterAttrs{std::int64_t(parameters_.size())};
      parameters_.push_back(&o);
      it->second = add(std::move(p), leaves);
    }
    return it->second;
  }

  Instruction* splat(const Instruction& of, const Literal& element, const LeafFacts& facts) {
    auto [it, added] = splats_.try_emplace(&of, nullptr);
    if (!added) return it->second;
    auto constant = std::make_unique<Instruction>();
    constant->opcode = Opcode::constant;
    constant->shape = element.shape();
    constant->attrs = ir::ConstantAttrs{element};
    LeafFacts of_element = facts;
    of_element.known = std::make_shared<const std::vector<Literal>>(std::vector<Literal>{element});
    it->second = add(std::move(constant), {of_element});
    if (!of.shape.is_scalar()) {
      auto broadcast = std::make_unique<Instruction>();
      broadcast->opcode = Opcode::broadcast;
      broadcast->shape = of.shape;
      broadcast->attrs = ir::DimensionsAttrs{};
      broadcast->set_operands({it->second});
      it->second = add(std::move(broadcast), {facts});
    }
    return it->second;
  }

  FactsBuilder builder_;
  // Looked up, never walked.
  std::unordered_map<const Instruction*, Instruction*> copies_, read_, splats_;
  std::vector<const Instruction*> parameters_;
};

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

std::unique_ptr<Instruction> transpose_of(Instruction* operand, const Shape& shape,
                                          const Dims& order, const Instruction& user) {
  auto out = std::make_unique<Instruction>();
  out->opcode = Opcode::transpose;
  out->metadata = user.metadata;
  Dims dims;
  for (const std::int64_t d : order) dims.push_back(shape.dim(d));
  out->shape = Shape(shape.dtype, dims);
  out->attrs = ir::DimensionsAttrs{order};
  out->set_operands({operand});
  return out;
}

/// What all computations of one module share.
struct Outline {
  ir::Module* module;
  const FusionOptions& options;
  FusionOptions mattered = FusionOptions::none();
  /// Copies of reducers, comparators and the like; looked up, never walked.
  std::unordered_map<const Computation*, Computation*> functions;

  Computation* function(const Computation& of) {
    auto [it, added] = functions.try_emplace(&of, nullptr);
    if (added) it->second = module->import(of);
    return it->second;
  }
};

/// One computation, as it is run from one place.
class ComputationOutliner {
 public:
  ComputationOutliner(Outline* outline, const Computation& source, const UniformityFacts& facts,
                      UniformityFacts* made)
      : outline_(*outline),
        source_(source),
        facts_(facts),
        decision_(fuse(source, facts, outline->options)),
        builder_(outline->module->add_computation(source.name()), made),
        copies_(source.instructions().size()) {
    outline->mattered.add(decision_.mattered);
  }

  Computation* run() {
    for (const auto& i : source_.instructions()) {
      if (decision_.inlined[at(*i)]) continue;
      if (!i->is(Opcode::parameter) && is_made_when_used(*i, leaves(*i))) continue;
      copy_of(*i);
    }
    builder_.target()->set_root(copy_of(*source_.root()));
    return builder_.target();
  }

 private:
  static std::size_t at(const Instruction& i) { return std::size_t(i.index); }
  const std::vector<LeafFacts>& leaves(const Instruction& i) const { return facts_.leaves[at(i)]; }
  bool inlined(const Instruction& i) const { return decision_.inlined[at(i)]; }

  Instruction* copy_of(const Instruction& i) {
    Instruction*& copy = copies_[at(i)];
    if (copy == nullptr) {
      for (const std::int64_t n : missing(i)) {
        copies_[std::size_t(n)] = make(*source_.instructions()[std::size_t(n)]);
      }
      copy = make(i);
    }
    return copy;
  }
  /// What is made when used and now is, in order: chains of it may be long.
  std::set<std::int64_t> missing(const Instruction& i) const {
    std::set<std::int64_t> seen, out;
    std::vector<const Instruction*> pending = {&i};
    while (!pending.empty()) {
      const Instruction& user = *pending.back();
      pending.pop_back();
      for (const Instruction* o : user.operands()) {
        if (copies_[at(*o)] != nullptr || !seen.insert(o->index).second) continue;
        if (!inlined(*o)) out.insert(o->index);
        pending.push_back(o);
      }
    }
    return out;
  }

  Instruction* make(const Instruction& i) {
    bool fuses = i.is(Opcode::gather) && decision_.fuses_producers[at(i)], transposes = false;
    for (std::size_t k = 0; k < i.operands().size(); ++k) {
      if (!inlined(*i.operand(k))) continue;
      fuses = true;
      transposes = transposes || transpose(i, k) != nullptr;
    }
    if (transposes) return with_transposed_operands(i);
    return fuses ? fusion(i) : plain(i);
  }

  /// The transpose through which an operand that is computed for it is read.
  const Instruction* transpose(const Instruction& user, std::size_t k) const {
    const auto it = decision_.operand_transposes.find({user.index, k});
    return it == decision_.operand_transposes.end() ? nullptr : it->second.get();
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
    const auto called = facts_.called.find(i.index);
    std::vector<UniformityFacts> made;
    for (std::size_t k = 0; k < i.called().size(); ++k) {
      if (called == facts_.called.end()) {
        copy->add_called(outline_.function(*i.called()[k]));
        continue;
      }
      made.emplace_back();
      ComputationOutliner inner(&outline_, *i.called()[k], called->second.at(k), &made.back());
      copy->add_called(inner.run());
    }
    Instruction* out = builder_.add(std::move(copy), leaves(i));
    if (!made.empty()) builder_.facts().called[out->index] = std::move(made);
    return out;
  }

  /// What is computed in the loop of `user` for its operand `o`, in order.
  void collect(const Instruction& o, std::set<std::int64_t>* members) const {
    if (!inlined(o) || !members->insert(o.index).second) return;
    for (const Instruction* next : o.operands()) collect(*next, members);
  }
  void add_members(const std::set<std::int64_t>& members, FusionBody* body) {
    for (const std::int64_t n : members) {
      const Instruction& i = *source_.instructions()[std::size_t(n)];
      body->add_copy(i, body_copy(i), leaves(i), facts_);
    }
  }
  std::unique_ptr<Instruction> body_copy(const Instruction& i) {
    auto copy = bare_copy(i);
    for (const Computation* c : i.called()) copy->add_called(outline_.function(*c));
    return copy;
  }

  Instruction* fusion(const Instruction& root) {
    std::set<std::int64_t> members;
    for (const Instruction* o : root.operands()) collect(*o, &members);
    UniformityFacts facts;
    FusionBody body(outline_.module, body_name(root.opcode), &facts);
    add_members(members, &body);
    body.add_copy(root, body_copy(root), leaves(root), facts_);
    body.computation()->set_root(body.copy_of(root));
    const bool folds = root.is(Opcode::reduce) || root.is(Opcode::reduce_window);
    auto made = call(body, folds ? "kInput" : "kLoop", root);
    made->sharding = root.sharding;
    made->shape = root.shape;
    return add_fusion(std::move(made), leaves(root), std::move(facts));
  }

  /// An operand that is computed in the order in which its user takes it.
  Instruction* transposed_fusion(const Instruction& user, std::size_t k, const Dims& order) {
    const Instruction& operand = *user.operand(k);
    std::set<std::int64_t> members;
    collect(operand, &members);
    UniformityFacts facts;
    FusionBody body(outline_.module, body_name(Opcode::transpose), &facts);
    add_members(members, &body);
    std::vector<LeafFacts> of_transpose = {{leaves(operand).at(0).classes, nullptr}};
    Instruction* root =
        body.add(transpose_of(body.copy_of(operand), operand.shape, order, user), of_transpose);
    body.computation()->set_root(root);
    auto made = call(body, "kLoop", user);
    made->shape = root->shape;
    return add_fusion(std::move(made), std::move(of_transpose), std::move(facts));
  }

  Instruction* with_transposed_operands(const Instruction& i) {
    auto copy = bare_copy(i);
    const bool reduces = i.is(Opcode::reduce);
    const std::size_t arrays = reduces ? i.operands().size() / 2 : i.operands().size();
    const Dims* all = nullptr;  // the order in which a reduction takes all of its arrays
    for (std::size_t k = 0; reduces && k < arrays; ++k) {
      if (inlined(*i.operand(k))) all = &transpose(i, k)->get<ir::DimensionsAttrs>().dims;
    }
    std::vector<Instruction*> operands;
    for (std::size_t k = 0; k < i.operands().size(); ++k) {
      const Instruction& o = *i.operand(k);
      if (inlined(o)) {
        const Dims& order = transpose(i, k)->get<ir::DimensionsAttrs>().dims;
        operands.push_back(transposed_fusion(i, k, order));
        take_transposed(copy.get(), k, order);
        continue;
      }
      operands.push_back(copy_of(o));
      if (all == nullptr || k >= arrays) continue;
      operands.back() = builder_.add(transpose_of(operands.back(), o.shape, *all, i),
                                     {{leaves(o).at(0).classes, nullptr}});
      take_transposed(copy.get(), k, *all);
    }
    copy->set_operands(std::move(operands));
    return add_with_called(i, std::move(copy));
  }

  static std::string body_name(Opcode root) { return "fused_" + std::string(ir::name(root)); }

  std::unique_ptr<Instruction> call(const FusionBody& body, const char* kind,
                                    const Instruction& of) {
    auto out = std::make_unique<Instruction>();
    out->opcode = Opcode::fusion;
    out->metadata = of.metadata;
    out->attrs = ir::TextAttrs{{{"kind", kind}}};
    out->add_called(body.computation());
    std::vector<Instruction*> operands;
    for (const Instruction* o : body.parameters()) operands.push_back(copy_of(*o));
    out->set_operands(std::move(operands));
    return out;
  }
  Instruction* add_fusion(std::unique_ptr<Instruction> fusion, std::vector<LeafFacts> leaves,
                          UniformityFacts body) {
    Instruction* out = builder_.add(std::move(fusion), std::move(leaves));
    builder_.facts().called[out->index].push_back(std::move(body));
    return out;
  }

  Outline& outline_;
  const Computation& source_;
  const UniformityFacts& facts_;
  const Fusion decision_;
  FactsBuilder builder_;
  std::vector<Instruction*> copies_;  ///< by index in the source
};

}  // namespace

bool is_made_when_used(const Instruction& i, const std::vector<LeafFacts>& leaves) {
  if (leaves.empty() || ir::has_side_effect(i.opcode)) return false;
  for (const LeafFacts& leaf : leaves) {
    if (!leaf.known) return false;
  }
  return true;
}

std::optional<Literal> splat_element(const LeafFacts& facts) {
  const auto& known = facts.known;
  if (!known || known->size() != 1 || (*known)[0].element_count() == 0) return std::nullopt;
  const Literal& all = (*known)[0];
  const std::size_t size = byte_size(all.dtype());
  if (all.byte_count() > size &&
      std::memcmp(all.bytes(), all.bytes() + size, all.byte_count() - size) != 0) {
    return std::nullopt;
  }
  return Literal(Shape(all.dtype(), {}), {all.bytes(), size});
}

FusedModule fuse_module(const ir::Module& module, const UniformityFacts& facts,
                        const FusionOptions& options) {
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
  Outline outline{&made, options, FusionOptions::none(), {}};
  made.set_entry(ComputationOutliner(&outline, *module.entry(), facts, &out.facts).run());
  made.remove_dead_computations();
  out.mattered = outline.mattered;
  return out;
}

}  // namespace tessera::codegen
