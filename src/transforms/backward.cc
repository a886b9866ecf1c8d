// SPDX-License-Identifier: Apache-2.0
// Reverse mode through one computation.
#include "src/transforms/backward.h"

#include <utility>

#include <tessera/error.h>

#include "src/transforms/transpose/transpose.h"

namespace tessera::transforms {

using ir::Computation;
using ir::Instruction;

namespace {

std::size_t number(const Instruction* parameter) {
  return std::size_t(parameter->get<ir::ParameterAttrs>().number);
}

}  // namespace

std::vector<ir::VaryingAxes> types_of(const Derivative& d, const Residuals& residuals,
                                      const CodePerDevice& source) {
  Computation& whole = *d.computation;
  for (const Instruction* r : residuals.values) {
    if (r->shape.is_array()) continue;
    throw NotImplementedError("the derivative of code per device needs the tuple " + r->name,
                              r->location());
  }
  CodePerDevice types = source;
  types.parameters.assign(whole.parameters().size(), {});
  for (std::size_t k = 0; k < d.arguments.size(); ++k) {
    types.parameters[number(d.arguments[k])] = source.parameters.at(k);
  }
  whole.set_root(ir::Builder(&whole).tuple(residuals.values));
  return varying_in(&whole, types).results();
}

namespace {

/// The derivative of a computation, cut in what gives results and what is transposed.
class Backward {
 public:
  Backward(const Computation& source, const std::vector<bool>& perturbed, Computation* target,
           std::optional<CodePerDevice> per_device);

  /// The leaves of what the source gives for these arguments. To be called first.
  std::vector<Instruction*> results(std::span<Instruction* const> arguments);
  /// One cotangent per leaf of the results, null for zero; gives one per argument, null for zero.
  /// To be called once.
  std::vector<Instruction*> cotangents(std::span<Instruction* const> of_results);

 private:
  std::vector<Instruction*> cotangents_per_device(std::span<Instruction* const> of_results);

  Computation* target_;
  std::optional<CodePerDevice> per_device_;
  Derivative d_;
  ir::Cloner cloner_;
};

Backward::Backward(const Computation& source, const std::vector<bool>& perturbed,
                   Computation* target, std::optional<CodePerDevice> per_device)
    : target_(target),
      per_device_(std::move(per_device)),
      d_(differentiate(source, {source.parameters().size()}, perturbed, JvpMode::split)),
      cloner_(*d_.computation, target) {}

std::vector<Instruction*> Backward::results(std::span<Instruction* const> arguments) {
  for (std::size_t k = 0; k < arguments.size(); ++k) cloner_.map(d_.arguments[k], arguments[k]);
  std::vector<Instruction*> out;
  for (Instruction* r : d_.results) out.push_back(cloner_.clone_with_operands(*r));
  for (Instruction* e : effects_of(d_)) cloner_.clone_with_operands(*e);
  return out;
}

std::vector<Instruction*> Backward::cotangents(std::span<Instruction* const> of_results) {
  if (per_device_) return cotangents_per_device(of_results);
  std::vector<Tangent> known;
  std::vector<Instruction*> root;
  for (std::size_t k = 0; k < d_.tangents.size(); ++k) {
    if (d_.tangents[k] == nullptr) continue;
    root.push_back(d_.tangents[k]);
    known.emplace_back(of_results[k]);
  }
  d_.computation->set_root(ir::Builder(d_.computation).tuple(root));
  std::vector<bool> linear(d_.computation->parameters().size(), false);
  for (const Instruction* t : d_.tangent_arguments) {
    if (t != nullptr) linear[number(t)] = true;
  }
  const std::vector<Tangent> given =
      transpose(*d_.computation, linear, Tangent::tuple(std::move(known)), cloner_, target_);
  std::vector<Instruction*> out;
  for (const Instruction* t : d_.tangent_arguments) {
    out.push_back(t == nullptr ? nullptr : given[number(t)].array);
  }
  return out;
}

/// Types tell where parts of a cotangent are to be added up. They are worked out on what is linear,
/// as a computation of its own whose first parameters are the residuals.
std::vector<Instruction*> Backward::cotangents_per_device(
    std::span<Instruction* const> of_results) {
  Computation& whole = *d_.computation;
  const Residuals residuals =
      choose_residuals(d_, std::vector<std::int64_t>(whole.parameters().size(), 0));
  const std::vector<ir::VaryingAxes> of_residuals = types_of(d_, residuals, *per_device_);
  Computation* linear = whole.module()->add_computation(whole.name() + ".linear");
  ir::Builder b(linear);
  CodePerDevice types{per_device_->mesh, per_device_->axes, {}, {}, per_device_->checked};
  std::vector<bool> is_linear;
  const auto parameter = [&](const Shape& shape, const ir::VaryingAxes& axes, bool tangent) {
    is_linear.push_back(tangent);
    types.parameters.push_back(axes);
    return b.parameter(std::int64_t(is_linear.size()) - 1, shape);
  };
  std::vector<Instruction*> inside, tangents, root;
  for (std::size_t n = 0; n < residuals.values.size(); ++n) {
    inside.push_back(parameter(residuals.values[n]->shape, of_residuals[n], false));
  }
  for (std::size_t k = 0; k < d_.arguments.size(); ++k) {
    const Instruction* t = d_.tangent_arguments[k];
    if (t != nullptr) tangents.push_back(parameter(t->shape, per_device_->parameters[k], true));
  }
  std::vector<Tangent> known;
  const std::vector<Instruction*> out = linear_part(d_, residuals, inside, tangents, linear);
  for (std::size_t k = 0; k < out.size(); ++k) {
    if (out[k] == nullptr) continue;
    root.push_back(out[k]);
    known.emplace_back(of_results[k]);
    types.results.push_back(per_device_->results.at(k));
  }
  linear->set_root(b.tuple(root));

  const Computation* typed = with_explicit_pvary(linear, is_linear, types);
  ir::Cloner cloner(*typed, target_);
  for (std::size_t n = 0; n < residuals.values.size(); ++n) {
    cloner.map(typed->parameter(n), cloner_.clone_with_operands(*residuals.values[n]));
  }
  const std::vector<Tangent> given =
      transpose(*typed, is_linear, Tangent::tuple(std::move(known)), cloner, target_);
  std::vector<Instruction*> gradients;
  std::size_t next = residuals.values.size();
  for (const Instruction* t : d_.tangent_arguments) {
    gradients.push_back(t == nullptr ? nullptr : given[next++].array);
  }
  return gradients;
}

}  // namespace

Reverse reverse_mode(const Computation& source, const std::vector<bool>& perturbed, ir::Builder& b,
                     std::span<Instruction* const> arguments,
                     std::span<Instruction* const> of_results,
                     std::optional<CodePerDevice> per_device) {
  Backward back(source, perturbed, b.computation(), std::move(per_device));
  Reverse out;
  out.results = back.results(arguments);
  out.cotangents = back.cotangents(of_results);
  for (std::size_t k = 0; k < arguments.size(); ++k) {
    Instruction*& c = out.cotangents[k];
    c = perturbed[k] ? materialize(b, c, arguments[k]->shape) : nullptr;
  }
  return out;
}

Reverse value_and_gradient(const Computation& source, const std::vector<bool>& perturbed,
                           ir::Builder& b, std::span<Instruction* const> arguments,
                           std::optional<CodePerDevice> per_device) {
  const std::vector<Shape> shapes = flatten(source.root()->shape);
  std::vector<Instruction*> seeds(shapes.size(), nullptr);
  seeds[0] = full(b, shapes[0], 1);
  return reverse_mode(source, perturbed, b, arguments, seeds, std::move(per_device));
}

}  // namespace tessera::transforms
