// SPDX-License-Identifier: Apache-2.0
// Reverse mode through one computation.
#include "src/transforms/backward.h"

#include "src/transforms/transpose/transpose.h"

namespace tessera::transforms {

using ir::Computation;
using ir::Instruction;

Backward::Backward(const Computation& source, const std::vector<bool>& perturbed,
                   Computation* target)
    : target_(target),
      d_(differentiate(source, {source.parameters().size()}, perturbed, JvpMode::split)),
      cloner_(*d_.computation, target) {}

std::vector<Instruction*> Backward::results(std::span<Instruction* const> arguments) {
  for (std::size_t k = 0; k < arguments.size(); ++k) cloner_.map(d_.arguments[k], arguments[k]);
  std::vector<Instruction*> out;
  for (Instruction* r : d_.results) out.push_back(cloner_.clone_with_operands(*r));
  return out;
}

std::vector<Instruction*> Backward::cotangents(std::span<Instruction* const> of_results) {
  std::vector<Tangent> known;
  std::vector<Instruction*> root;
  for (std::size_t k = 0; k < d_.tangents.size(); ++k) {
    if (d_.tangents[k] == nullptr) continue;
    root.push_back(d_.tangents[k]);
    known.emplace_back(of_results[k]);
  }
  d_.computation->set_root(ir::Builder(d_.computation).tuple(root));
  std::vector<bool> linear(d_.computation->parameters().size(), false);
  const auto number = [](const Instruction* parameter) {
    return std::size_t(parameter->get<ir::ParameterAttrs>().number);
  };
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

}  // namespace tessera::transforms
