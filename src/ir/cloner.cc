// SPDX-License-Identifier: Apache-2.0
// Cloner: copies of instructions in another place, with operands that are copies, too.
#include "src/ir/cloner.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "src/ir/channels.h"

namespace tessera::ir {

Cloner::Cloner(const Computation& source, Computation* target, CloneOptions options)
    : source_(source),
      target_(target),
      options_(std::move(options)),
      copies_(source.instructions().size(), nullptr) {}

void Cloner::map_parameters(std::span<Instruction* const> arguments) {
  for (std::size_t k = 0; k < source_.parameters().size(); ++k) {
    TESSERA_CHECK(k < arguments.size(), "too few arguments for " + source_.name());
    map(source_.parameter(k), arguments[k]);
  }
  parameters_given_ = true;
}

Instruction* Cloner::operator[](const Instruction* from) const {
  Instruction* copy = find(from);
  TESSERA_CHECK(copy != nullptr, "copying " + source_.name() + ": " + from->name +
                                     " is used, and is not in it or stands after its user");
  return copy;
}

Instruction* Cloner::clone(const Instruction& source) {
  auto copy = std::make_unique<Instruction>(source);
  if (!source.operands().empty()) {
    std::vector<Instruction*> operands = source.operands();
    for (Instruction*& operand : operands) operand = (*this)[operand];
    copy->set_operands(std::move(operands));
  }
  if (!source.control_predecessors().empty()) {
    std::vector<Instruction*> before;
    if (options_.control_predecessors) before = source.control_predecessors();
    for (Instruction*& i : before) i = (*this)[i];
    copy->set_control_predecessors(std::move(before));
  }
  for (std::size_t k = 0; options_.callees && k < copy->called().size(); ++k) {
    copy->set_called(k, options_.callees->at(copy->called(k)));
  }
  if (options_.fresh_channels) give_fresh_channel(&copy->attrs, target_->module());
  if (copy->metadata->names_nothing()) {
    const Cow<Metadata> own = copy->metadata;
    copy->metadata = options_.default_metadata;
    if (!own->other.empty()) copy->metadata.edit().other = own->other;
    if (own->communication_record >= 0) {
      copy->metadata.edit().communication_record = own->communication_record;
    }
  }
  Instruction* added = target_->add(std::move(copy));
  map(&source, added);
  return added;
}

Instruction* Cloner::clone_with_operands(const Instruction& source) {
  // Often little is missing: no list of all that the source has.
  std::vector<const Instruction*> needed, work{&source};
  std::unordered_set<const Instruction*> seen;
  while (!work.empty()) {
    const Instruction* i = work.back();
    work.pop_back();
    if (has(i) || !seen.insert(i).second) continue;
    needed.push_back(i);
    work.insert(work.end(), i->operands().begin(), i->operands().end());
  }
  std::sort(needed.begin(), needed.end(),
            [](const Instruction* a, const Instruction* b) { return a->index < b->index; });
  for (const Instruction* i : needed) clone(*i);
  return (*this)[&source];
}

Instruction* Cloner::clone_all() {
  // The source may be the target, and grow; only what was there is copied.
  for (std::size_t n = 0; n < copies_.size(); ++n) {
    const Instruction& i = *source_.instructions()[n];
    const bool given = parameters_given_ && i.is(Opcode::parameter);
    if (copies_[n] == nullptr && !given) clone(i);
  }
  return source_.root() ? (*this)[source_.root()] : nullptr;
}

Computation* clone_computation(const Computation& source) {
  Computation* copy = source.module()->add_computation(source.name());
  copy->set_root(Cloner(source, copy).clone_all());
  return copy;
}

Instruction* inline_computation(Computation* target, const Computation& source,
                                std::span<Instruction* const> arguments, CloneOptions options) {
  Cloner cloner(source, target, std::move(options));
  cloner.map_parameters(arguments);
  return cloner.clone_all();
}

}  // namespace tessera::ir
