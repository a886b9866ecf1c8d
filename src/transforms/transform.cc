// SPDX-License-Identifier: Apache-2.0
// Transformations of whole programs.
#include "src/transforms/transform.h"

#include <algorithm>

#include "src/ir/cloner.h"
#include "src/transforms/backward.h"
#include "src/transforms/raise_scans.h"
#include "src/transforms/utils/leaves.h"

namespace tessera::transforms {

using ir::Computation;
using ir::Instruction;
using ir::Module;
using ir::Opcode;

namespace {

/// A program and the entry that takes its entry's place.
class Program {
 public:
  explicit Program(const Module& original, bool raises_loops) : module_(original.clone()) {
    if (raises_loops) raise_scans(module_.get());
    source_ = module_->entry();
    for (const Instruction* p : source_->parameters()) {
      if (p->shape.is_array()) continue;
      throw NotImplementedError("parameter " + p->name + " of the program is " +
                                    p->shape.to_string() +
                                    "; programs of arrays can be transformed",
                                p->location());
    }
    entry_ = module_->add_computation(source_->name());
    b_.emplace(entry_);
    b_->metadata = source_->root()->metadata;
  }

  const Computation& source() const { return *source_; }
  Computation* entry() const { return entry_; }
  ir::Builder& builder() { return *b_; }
  std::size_t parameter_count() const { return source_->parameters().size(); }
  const Shape& result_shape() const { return source_->root()->shape; }

  /// A parameter like that one, or like what belongs to it; `prefix` of its name.
  Instruction* parameter_like(const Instruction& p, const std::string& prefix = "") {
    Instruction* out = parameter(p.shape, prefix + p.name, p.sharding);
    out->metadata = p.metadata;
    if (prefix.empty()) out->frontend_attributes = p.frontend_attributes;
    return out;
  }
  Instruction* parameter(const Shape& shape, const std::string& name,
                         const std::vector<TensorSharding>& sharding) {
    const auto number = std::int64_t(entry_->parameters().size());
    Instruction* out = b_->parameter(number, Shape(shape.dtype, shape.dims), name);
    out->sharding = sharding;
    return out;
  }

  /// The stated sharding of leaf k of the results.
  std::vector<TensorSharding> result_sharding(std::size_t k) const {
    const auto& all = source_->root()->sharding;
    return k < all.size() ? std::vector<TensorSharding>{all[k]} : std::vector<TensorSharding>{};
  }

  void add_result(Instruction* value, const std::vector<TensorSharding>& sharding) {
    results_.push_back(value);
    shardings_.push_back(sharding);
  }
  void add_results(std::span<Instruction* const> leaves) {
    for (std::size_t k = 0; k < leaves.size(); ++k) add_result(leaves[k], result_sharding(k));
  }

  std::unique_ptr<Module> finish() {
    b_->metadata = source_->root()->metadata;
    Instruction* root = b_->tuple(results_);
    const auto stated = [](const auto& s) { return !s.empty(); };
    if (std::any_of(shardings_.begin(), shardings_.end(), stated)) {
      for (std::size_t k = 0; k < results_.size(); ++k) {
        const std::int64_t rank = results_[k]->shape.rank();
        root->sharding.push_back(stated(shardings_[k])
                                     ? shardings_[k][0]
                                     : TensorSharding::open_on(module_->mesh, rank));
      }
    }
    entry_->set_root(root);
    const std::string name = source_->name();
    module_->set_entry(entry_);
    module_->input_output_alias.clear();
    module_->buffer_donor.clear();
    entry_->remove_dead();
    module_->remove_dead_computations();
    entry_->set_name(name);
    return std::move(module_);
  }

 private:
  std::unique_ptr<Module> module_;
  Computation* source_ = nullptr;
  Computation* entry_ = nullptr;
  std::optional<ir::Builder> b_;
  std::vector<Instruction*> results_;
  std::vector<std::vector<TensorSharding>> shardings_;
};

std::vector<Instruction*> arguments_of(Program& p) {
  std::vector<Instruction*> out;
  for (const Instruction* a : p.source().parameters()) out.push_back(p.parameter_like(*a));
  return out;
}

}  // namespace

std::unique_ptr<Module> jvp(const Module& program) {
  Program p(program, false);
  const std::vector<Instruction*> arguments = arguments_of(p);
  std::vector<Tangent> tangents;
  for (const Instruction* a : p.source().parameters()) {
    tangents.push_back(has_tangent(a->shape) ? Tangent(p.parameter_like(*a, "d_")) : Tangent());
  }
  const Dual d = jvp(p.source(), p.entry(), arguments, tangents, JvpMode::joint);
  const std::vector<Instruction*> results = leaves_of(p.builder(), d.primal);
  const std::vector<Instruction*> derivatives = leaves_of(d.tangent, p.result_shape());
  p.add_results(results);
  for (std::size_t k = 0; k < results.size(); ++k) {
    if (!has_tangent(results[k]->shape)) continue;
    p.add_result(materialize(p.builder(), derivatives[k], results[k]->shape), p.result_sharding(k));
  }
  return p.finish();
}

std::unique_ptr<Module> vjp(const Module& program) {
  Program p(program, true);
  const std::vector<Instruction*> arguments = arguments_of(p);
  std::vector<bool> perturbed;
  for (const Instruction* a : arguments) perturbed.push_back(has_tangent(a->shape));
  const std::vector<Shape> shapes = flatten(p.result_shape());
  std::vector<Instruction*> cotangents;
  for (std::size_t k = 0; k < shapes.size(); ++k) {
    const std::string name = "ct_" + std::to_string(k);
    cotangents.push_back(has_tangent(shapes[k]) ? p.parameter(shapes[k], name, p.result_sharding(k))
                                                : nullptr);
  }
  const Reverse back = reverse_mode(p.source(), perturbed, p.builder(), arguments, cotangents);
  p.add_results(back.results);
  for (std::size_t k = 0; k < arguments.size(); ++k) {
    if (perturbed[k]) p.add_result(back.cotangents[k], arguments[k]->sharding);
  }
  return p.finish();
}

std::unique_ptr<Module> grad(const Module& program, const std::vector<std::size_t>& wanted) {
  Program p(program, true);
  const std::vector<Instruction*> arguments = arguments_of(p);
  std::vector<bool> perturbed(arguments.size(), false);
  for (const std::size_t k : wanted) {
    if (k >= arguments.size()) {
      throw ValueError("gradient with respect to argument " + std::to_string(k) +
                       " of a program of " + std::to_string(arguments.size()) + " arguments");
    }
    if (!has_tangent(arguments[k]->shape)) {
      throw DTypeError("gradient with respect to argument " + std::to_string(k) + ", " +
                       arguments[k]->shape.to_string() +
                       ": only floating-point and complex arguments have gradients");
    }
    perturbed[k] = true;
  }
  const std::vector<Shape> shapes = flatten(p.result_shape());
  if (shapes.empty() || !shapes[0].is_scalar() || !is_floating(shapes[0].dtype)) {
    throw ShapeError("gradient of a program whose first result is " +
                     (shapes.empty() ? std::string("missing") : shapes[0].to_string()) +
                     "; valid: a floating-point scalar (else use vjp)");
  }
  const Reverse back = value_and_gradient(p.source(), perturbed, p.builder(), arguments);
  for (const std::size_t k : wanted) p.add_result(back.cotangents[k], arguments[k]->sharding);
  return p.finish();
}

std::unique_ptr<Module> remat(const Module& program) {
  Program p(program, false);
  const std::vector<Instruction*> arguments = arguments_of(p);
  Computation* body = ir::clone_computation(p.source());
  for (Instruction* a : body->parameters()) a->sharding.clear();
  body->root()->sharding.clear();
  Instruction* result = p.builder().emit(Opcode::remat, arguments, ir::RematAttrs{}, {body});
  p.add_results(leaves_of(p.builder(), result));
  return p.finish();
}

}  // namespace tessera::transforms
