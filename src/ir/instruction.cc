// SPDX-License-Identifier: Apache-2.0
// Instruction: operands, and the use lists that follow them.
#include "src/ir/instruction.h"

#include <algorithm>

#include "src/ir/module.h"

namespace tessera::ir {

Location Metadata::location() const {
  if (source_file.empty() || source_line <= 0) return {};
  return make_location(source_file, unsigned(source_line));
}

std::string Instruction::describe() const {
  std::string out = name;
  if (!metadata->source_file.empty()) {
    out += " (" + metadata->source_file;
    if (metadata->source_line > 0) out += ":" + std::to_string(metadata->source_line);
    out += ")";
  }
  return out;
}

void Instruction::lacks_attributes() const {
  throw InternalError("instruction " + name + " lacks the attributes asked for");
}

const std::vector<Instruction*> Instruction::kNoInstructions;

void Instruction::link_operand(std::size_t i) {
  Instruction* operand = operands_[i];
  use_positions_[i] = int(operand->uses_.size());
  operand->uses_.push_back({this, int(i)});
}

void Instruction::unlink_operand(std::size_t i) {
  Instruction* operand = operands_[i];
  SmallVector<Use, 2>& uses = operand->uses_;
  const auto at = std::size_t(use_positions_[i]);
  if (at + 1 == uses.size()) {
    uses.pop_back();
    return;
  }
  uses[at].user = nullptr;
  // Each place is moved once for each that was vacated.
  if (2 * ++operand->vacant_uses_ > uses.size()) operand->compact_uses();
}

void Instruction::compact_uses() {
  std::size_t kept = 0;
  for (std::size_t n = 0; n < uses_.size(); ++n) {
    const Use use = uses_[n];
    if (use.user == nullptr) continue;
    use.user->use_positions_[std::size_t(use.operand_number)] = int(kept);
    uses_[kept++] = use;
  }
  uses_.resize(kept);
  vacant_uses_ = 0;
}

void Instruction::link_control_predecessors() {
  if (!control_) return;
  for (Instruction* before : control_->predecessors) before->control().successors.push_back(this);
}

void Instruction::unlink_control_predecessors() {
  if (!control_) return;
  for (Instruction* before : control_->predecessors) {
    auto& after = before->control().successors;
    if (auto it = std::find(after.begin(), after.end(), this); it != after.end()) after.erase(it);
  }
}

void Instruction::link() {
  use_positions_.resize(operands_.size());
  for (std::size_t i = 0; i < operands_.size(); ++i) link_operand(i);
  link_control_predecessors();
}

void Instruction::unlink() {
  for (std::size_t i = 0; i < operands_.size(); ++i) unlink_operand(i);
  use_positions_.clear();
  unlink_control_predecessors();
}

void Instruction::set_operands(std::vector<Instruction*> operands) {
  if (parent == nullptr) {
    operands_ = std::move(operands);
    return;
  }
  for (std::size_t i = 0; i < operands_.size(); ++i) unlink_operand(i);
  operands_ = std::move(operands);
  use_positions_.resize(operands_.size());
  for (std::size_t i = 0; i < operands_.size(); ++i) link_operand(i);
}

void Instruction::set_operand(std::size_t i, Instruction* operand) {
  if (operands_[i] == operand) return;
  if (parent != nullptr) unlink_operand(i);
  operands_[i] = operand;
  if (parent != nullptr) link_operand(i);
}

void Instruction::add_operand(Instruction* operand) {
  operands_.push_back(operand);
  if (parent == nullptr) return;
  use_positions_.resize(operands_.size());
  link_operand(operands_.size() - 1);
}

void Instruction::set_control_predecessors(std::vector<Instruction*> predecessors) {
  if (!control_ && predecessors.empty()) return;
  if (parent != nullptr) unlink_control_predecessors();
  control().predecessors = std::move(predecessors);
  if (parent != nullptr) link_control_predecessors();
}

void Instruction::add_control_predecessor(Instruction* predecessor) {
  control().predecessors.push_back(predecessor);
  if (parent != nullptr) predecessor->control().successors.push_back(this);
}

UserList Instruction::users() const {
  UserList out;
  out.reserve(use_count());
  bool ordered = true;
  for (const Use& use : uses_) {
    if (use.user == nullptr || (!out.empty() && out.back() == use.user)) continue;
    ordered = ordered && (out.empty() || out.back()->index < use.user->index);
    out.push_back(use.user);
  }
  if (ordered) return out;
  std::sort(out.begin(), out.end(),
            [](const Instruction* a, const Instruction* b) { return a->index < b->index; });
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::optional<Use> Instruction::only_use() const {
  if (use_count() != 1) return std::nullopt;
  return *std::find_if(uses_.begin(), uses_.end(), [](const Use& u) { return u.user != nullptr; });
}

void Instruction::replace_all_uses_with(Instruction* to) {
  if (to == this) return;
  for (const Use& use : uses_) {
    if (use.user == nullptr) continue;
    const auto i = std::size_t(use.operand_number);
    use.user->operands_[i] = to;
    use.user->link_operand(i);
  }
  uses_.clear();
  vacant_uses_ = 0;
  if (control_) {
    for (Instruction* after : control_->successors) {
      auto& before = after->control().predecessors;
      std::replace(before.begin(), before.end(), this, to);
      to->control().successors.push_back(after);
    }
    control_->successors.clear();
  }
  if (parent != nullptr && parent->root() == this) parent->set_root(to);
}

}  // namespace tessera::ir
