// SPDX-License-Identifier: Apache-2.0
// Computation: a list of instructions that keeps names unique and operands first.
#include <algorithm>
#include <limits>

#include "src/ir/module.h"
#include "src/ir/names.h"

namespace tessera::ir {
namespace {

// Text may ask for any parameter number; memory for the list of parameters is bounded by this.
constexpr std::int64_t kMaxParameters = 1 << 17;

bool computation_has_side_effect(const Computation& c,
                                 std::unordered_map<const Computation*, bool>& memo);

bool instruction_has_side_effect(const Instruction& i,
                                 std::unordered_map<const Computation*, bool>& memo) {
  if (i.has_side_effect()) return true;
  return std::any_of(i.called().begin(), i.called().end(),
                     [&](const Computation* c) { return computation_has_side_effect(*c, memo); });
}

bool computation_has_side_effect(const Computation& c,
                                 std::unordered_map<const Computation*, bool>& memo) {
  auto [it, fresh] = memo.emplace(&c, false);
  if (!fresh) return it->second;
  bool result = std::any_of(c.instructions().begin(), c.instructions().end(),
                            [&](const auto& i) { return instruction_has_side_effect(*i, memo); });
  memo[&c] = result;
  return result;
}

// The name of an instruction that has none of its own.
const std::string& own_name(Opcode op) {
  static const std::vector<std::string>* names = [] {
    auto* all = new std::vector<std::string>;
    for (int i = 0; i < opcode_count(); ++i)
      all->push_back(sanitize_name(std::string(text_name(Opcode(i)))));
    return all;
  }();
  return (*names)[std::size_t(op)];
}

// The number of a name `stem.7`; empty if it has none or could be written otherwise.
std::optional<int> number_of(std::string_view name, std::size_t stem) {
  constexpr std::size_t kMaxDigits = 9;
  if (stem + 1 >= name.size()) return std::nullopt;
  std::string_view digits = name.substr(stem + 1);
  if (digits.size() > kMaxDigits || (digits[0] == '0' && digits.size() > 1)) return std::nullopt;
  int n = 0;
  for (char c : digits) {
    if (!is_digit(c)) return std::nullopt;
    n = n * 10 + (c - '0');
  }
  return n;
}

}  // namespace

// Notes the number of a name; true if it is greater than all before.
bool Computation::note_number(std::string_view name) {
  const std::size_t stem_end = name.rfind('.');
  if (stem_end == std::string_view::npos) return false;
  const std::optional<int> n = number_of(name, stem_end);
  if (!n) return false;
  const std::string_view stem = name.substr(0, stem_end);
  auto it = greatest_numbers_.find(stem);
  if (it == greatest_numbers_.end()) {
    greatest_numbers_.emplace(stem, *n);
    return true;
  }
  if (*n <= it->second) return false;
  it->second = *n;
  return true;
}

void Computation::enter_all_names() {
  std::size_t n = entered_.value_or(0);
  for (; n < instructions_.size(); ++n) name_counts_.try_emplace(instructions_[n]->name, 0);
  entered_ = n;
}

std::string Computation::unique_name(std::string requested) {
  if (note_number(requested)) return requested;
  // Names without a number are all entered when they come, unless the list was changed since.
  const std::size_t stem_end = requested.rfind('.');
  const bool numbered = stem_end != std::string::npos && number_of(requested, stem_end);
  if (numbered || !entered_) enter_all_names();
  if (name_counts_.try_emplace(requested, 0).second) return requested;
  const std::string stem(name_stem(requested));
  int& count = name_counts_[stem];
  for (;;) {
    requested = stem + ".";
    requested += std::to_string(++count);
    if (note_number(requested)) return requested;
    enter_all_names();
    if (name_counts_.try_emplace(requested, 0).second) return requested;
  }
}

Instruction* Computation::add(std::unique_ptr<Instruction> instruction) {
  Instruction* i = instruction.get();
  if (i->opcode == Opcode::parameter) {
    std::int64_t number = i->get<ParameterAttrs>().number;
    if (number < 0 || number >= kMaxParameters) {
      throw ValueError("parameter number " + std::to_string(number) + " of " + name_ +
                           " is not in [0, " + std::to_string(kMaxParameters) + ")",
                       i->location());
    }
    if (std::size_t(number) >= parameters_.size()) parameters_.resize(std::size_t(number) + 1);
    if (parameters_[std::size_t(number)] != nullptr) {
      throw ValueError("computation " + name_ + " has parameter " + std::to_string(number) +
                           " twice: " + parameters_[std::size_t(number)]->name + " and " +
                           (i->name.empty() ? "a new one" : i->name),
                       i->location());
    }
    parameters_[std::size_t(number)] = i;
  }
  i->name = unique_name(i->name.empty() ? own_name(i->opcode) : sanitize_name(std::move(i->name)));
  std::optional<std::int64_t> channel;
  if (const auto* a = i->attrs.get_if<CollectiveAttrs>()) channel = a->channel_id;
  if (const auto* a = i->attrs.get_if<PermuteAttrs>()) channel = a->channel_id;
  if (channel) module_->last_channel_id = std::max(module_->last_channel_id, *channel);
  i->parent = this;
  i->index = std::int64_t(instructions_.size());
  i->link();
  instructions_.push_back(std::move(instruction));
  return i;
}

void Computation::replace_all_uses(const std::unordered_map<Instruction*, Instruction*>& map) {
  std::vector<Instruction*> replaced;
  replaced.reserve(map.size());
  for (const auto& [from, to] : map) {
    if (from != to) replaced.push_back(from);
  }
  // The order of use lists must not depend on addresses.
  std::sort(replaced.begin(), replaced.end(),
            [](const Instruction* a, const Instruction* b) { return a->index < b->index; });
  for (Instruction* from : replaced) {
    Instruction* to = from;
    std::size_t steps = 0;
    for (auto it = map.find(to); it != map.end() && it->second != to; it = map.find(to)) {
      to = it->second;
      TESSERA_CHECK(++steps <= map.size(), "replacements form a cycle at " + to->name);
    }
    from->replace_all_uses_with(to);
  }
}

std::size_t Computation::remove_dead(std::vector<const Instruction*>* removed) {
  std::unordered_map<const Computation*, bool> memo;
  std::vector<bool> live(instructions_.size(), false);
  std::vector<Instruction*> work;
  auto mark = [&](Instruction* i) {
    if (!live[std::size_t(i->index)]) {
      live[std::size_t(i->index)] = true;
      work.push_back(i);
    }
  };
  if (root_ != nullptr) mark(root_);
  for (const auto& i : instructions_) {
    if (i->opcode == Opcode::parameter || instruction_has_side_effect(*i, memo)) mark(i.get());
  }
  while (!work.empty()) {
    Instruction* i = work.back();
    work.pop_back();
    for (Instruction* operand : i->operands()) mark(operand);
    for (Instruction* before : i->control_predecessors()) mark(before);
  }
  for (std::size_t n = 0; n < instructions_.size(); ++n) {
    if (live[n]) continue;
    instructions_[n]->unlink();
    if (removed != nullptr) removed->push_back(instructions_[n].get());
  }
  return keep(live);
}

void Computation::erase(const std::vector<Instruction*>& instructions) {
  if (instructions.empty()) return;
  std::vector<bool> kept(instructions_.size(), true);
  for (Instruction* i : instructions) {
    TESSERA_CHECK(i->parent == this && i != root_ && !i->is(Opcode::parameter),
                  i->name + " of " + name_ + " is no instruction that can be erased");
    if (!kept[std::size_t(i->index)]) continue;
    kept[std::size_t(i->index)] = false;
    i->unlink();
  }
  for (const Instruction* i : instructions) {
    TESSERA_CHECK(i->use_count() == 0 && i->control_successors().empty(),
                  i->name + " of " + name_ + " is erased, and others use it");
  }
  keep(kept);
}

std::size_t Computation::keep(const std::vector<bool>& kept) {
  std::size_t count = 0;
  for (std::size_t n = 0; n < instructions_.size(); ++n) {
    if (!kept[n]) continue;
    if (count != n) instructions_[count] = std::move(instructions_[n]);
    instructions_[count]->index = std::int64_t(count);
    ++count;
  }
  const std::size_t gone = instructions_.size() - count;
  if (gone > 0) entered_.reset();
  instructions_.resize(count);
  return gone;
}

void Computation::move_before(
    const std::vector<std::pair<Instruction*, Instruction*>>& positions_and_moved) {
  constexpr std::size_t kStays = std::numeric_limits<std::size_t>::max();
  std::vector<std::vector<std::size_t>> before(instructions_.size());
  std::vector<std::size_t> anchor(instructions_.size(), kStays);
  for (const auto& [position, moved] : positions_and_moved) {
    TESSERA_CHECK(position->parent == this && moved->parent == this && position != moved,
                  moved->name + " can't stand before " + position->name);
    before[std::size_t(position->index)].push_back(std::size_t(moved->index));
    anchor[std::size_t(moved->index)] = std::size_t(position->index);
  }
  std::vector<std::size_t> order, work;
  order.reserve(instructions_.size());
  for (std::size_t n = 0; n < instructions_.size(); ++n) {
    if (anchor[n] != kStays) continue;
    // What stands before what was moved comes first.
    work = {n};
    while (!work.empty()) {
      const std::size_t at = work.back();
      if (before[at].empty()) {
        order.push_back(at);
        work.pop_back();
        continue;
      }
      work.insert(work.end(), before[at].rbegin(), before[at].rend());
      before[at].clear();
    }
  }
  TESSERA_CHECK(order.size() == instructions_.size(),
                "instructions of " + name_ + " are to stand before each other");
  take_order(order);
  sort_topologically();
}

void Computation::sort_topologically() {
  // Depth first in the order that stands; only what an earlier instruction uses moves forward.
  enum : char { kNew, kOpen, kDone };
  std::vector<char> state(instructions_.size(), kNew);
  std::vector<std::size_t> order;
  order.reserve(instructions_.size());
  struct Frame {
    Instruction* i;
    std::size_t next;
  };
  std::vector<Frame> stack;
  for (const auto& start : instructions_) {
    if (state[std::size_t(start->index)] != kNew) continue;
    stack.push_back({start.get(), 0});
    state[std::size_t(start->index)] = kOpen;
    while (!stack.empty()) {
      Frame& frame = stack.back();
      Instruction* i = frame.i;
      std::size_t operands = i->operands().size();
      if (frame.next == operands + i->control_predecessors().size()) {
        state[std::size_t(i->index)] = kDone;
        order.push_back(std::size_t(i->index));
        stack.pop_back();
        continue;
      }
      Instruction* before = frame.next < operands
                                ? i->operands()[frame.next]
                                : i->control_predecessors()[frame.next - operands];
      ++frame.next;
      TESSERA_CHECK(before->parent == this, i->name + " uses " + before->name + " of " +
                                                (before->parent ? before->parent->name() : "no") +
                                                " computation");
      char& s = state[std::size_t(before->index)];
      TESSERA_CHECK(s != kOpen, "instructions of " + name_ + " form a cycle at " + before->name);
      if (s == kNew) {
        s = kOpen;
        stack.push_back({before, 0});
      }
    }
  }
  take_order(order);
}

void Computation::set_order(const std::vector<Instruction*>& order) {
  TESSERA_CHECK(order.size() == instructions_.size(),
                "an order that lacks instructions of " + name_);
  std::vector<char> placed(order.size(), 0);
  std::vector<std::size_t> positions;
  positions.reserve(order.size());
  for (const Instruction* i : order) {
    const auto fits = [&](const Instruction* before) {
      return placed[std::size_t(before->index)] != 0;
    };
    TESSERA_CHECK(
        i->parent == this && !fits(i) &&
            std::all_of(i->operands().begin(), i->operands().end(), fits) &&
            std::all_of(i->control_predecessors().begin(), i->control_predecessors().end(), fits),
        "an order of " + name_ + " in which " + i->name + " does not fit");
    placed[std::size_t(i->index)] = 1;
    positions.push_back(std::size_t(i->index));
  }
  take_order(positions);
}

void Computation::take_order(const std::vector<std::size_t>& order) {
  std::vector<std::unique_ptr<Instruction>> sorted;
  sorted.reserve(order.size());
  for (std::size_t n : order) sorted.push_back(std::move(instructions_[n]));
  instructions_ = std::move(sorted);
  entered_.reset();
  for (std::size_t n = 0; n < instructions_.size(); ++n) instructions_[n]->index = std::int64_t(n);
}

}  // namespace tessera::ir
