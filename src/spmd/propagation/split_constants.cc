// SPDX-License-Identifier: Apache-2.0
// Duplicates constant expressions per user, as Shardy's constant splitter does.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "src/ir/analysis/device_computations.h"
#include "src/spmd/propagation/graph.h"

namespace tessera::spmd::propagation {
namespace {

// Larger expressions stay shared: what they would gain is not worth their copies.
constexpr int kMaxExpression = 16;

/// Size of the constant expression that an instruction is the root of, per instruction; 0: none.
std::vector<int> expression_sizes(const ir::Computation& computation) {
  std::vector<int> sizes(computation.instructions().size(), 0);
  for (const auto& i : computation.instructions()) {
    bool candidate = i->shape.is_array() && !i->has_sharding() &&
                     i->control_predecessors().empty() && i->called().empty();
    if (!candidate) continue;
    switch (i->opcode) {
      case ir::Opcode::constant:
      case ir::Opcode::iota:
        sizes[std::size_t(i->index)] = 1;
        continue;
      case ir::Opcode::broadcast:
        // Of a scalar, whatever that is; the scalar itself stays shared.
        if (i->operand(0)->shape.is_scalar()) {
          sizes[std::size_t(i->index)] = 1;
          continue;
        }
        break;
      case ir::Opcode::reshape:
        break;
      default:
        if (!ir::is_elementwise(i->opcode) || ir::has_side_effect(i->opcode)) continue;
    }
    int size = 1;
    bool constant = !i->operands().empty();
    for (const ir::Instruction* o : i->operands()) {
      if (o->shape.is_scalar()) continue;
      int part = sizes[std::size_t(o->index)];
      constant = constant && part > 0;
      size += part;
    }
    if (constant && size <= kMaxExpression) sizes[std::size_t(i->index)] = size;
  }
  return sizes;
}

class Splitter {
 public:
  explicit Splitter(ir::Computation* computation)
      : computation_(computation), sizes_(expression_sizes(*computation)) {}

  void run() {
    if (std::all_of(sizes_.begin(), sizes_.end(), [](int n) { return n == 0; })) return;
    std::vector<ir::Instruction*> users;
    for (const auto& i : computation_->instructions()) users.push_back(i.get());
    for (ir::Instruction* user : users) {
      // Members of an expression get theirs with the whole.
      if (sizes_[std::size_t(user->index)] > 0) continue;
      Copies copies;
      give_own_operands(user, &copies);
    }
    if (added_) computation_->sort_topologically();
  }

 private:
  using Copies = std::unordered_map<const ir::Instruction*, ir::Instruction*>;

  void give_own_operands(ir::Instruction* x, Copies* copies) {
    for (std::size_t k = 0; k < x->operands().size(); ++k) {
      x->set_operand(k, own(x->operand(k), copies));
    }
  }

  ir::Instruction* own(ir::Instruction* x, Copies* copies) {
    auto at = std::size_t(x->index);
    if (at >= sizes_.size() || sizes_[at] == 0 || x->shape.is_scalar()) return x;
    if (auto it = copies->find(x); it != copies->end()) return it->second;
    // The first user keeps the original.
    if (x != computation_->root() && taken_.insert(x).second) {
      give_own_operands(x, copies);
      return (*copies)[x] = x;
    }
    std::vector<ir::Instruction*> operands = x->operands();
    for (ir::Instruction*& operand : operands) operand = own(operand, copies);
    auto copy = std::make_unique<ir::Instruction>(*x);
    copy->set_operands(std::move(operands));
    copy->sharding.clear();
    added_ = true;
    return (*copies)[x] = computation_->add(std::move(copy));
  }

  ir::Computation* computation_;
  std::vector<int> sizes_;
  std::unordered_set<const ir::Instruction*> taken_;
  bool added_ = false;
};

}  // namespace

void split_constants(ir::Module* module) {
  for (ir::Computation* c : ir::device_computations(*module)) Splitter(c).run();
}

}  // namespace tessera::spmd::propagation
