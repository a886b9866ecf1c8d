// SPDX-License-Identifier: Apache-2.0
// In which kind of memory a program's values are.
#include "src/ir/analysis/memory_kinds.h"

#include "src/base/check.h"

namespace tessera::ir {
namespace {

using Operands = std::span<const MemoryLeaves* const>;

MemoryLeaves anywhere(const Instruction& i) { return MemoryLeaves(flatten(i.shape).size()); }

/// What is known of `more` is added to what isn't known; true if that is something new.
bool add(MemoryLeaves* to, const MemoryLeaves& more) {
  TESSERA_CHECK(to->size() == more.size(), "leaves of one shape");
  bool fresh = false;
  for (std::size_t k = 0; k < more.size(); ++k) {
    if ((*to)[k] || !more[k]) continue;
    (*to)[k] = more[k];
    fresh = true;
  }
  return fresh;
}

MemoryLeaves joined(Operands operands) {
  MemoryLeaves out;
  for (const MemoryLeaves* leaves : operands) out.insert(out.end(), leaves->begin(), leaves->end());
  return out;
}

std::vector<MemoryLeaves> copies(Operands operands) {
  std::vector<MemoryLeaves> out;
  for (const MemoryLeaves* leaves : operands) out.push_back(*leaves);
  return out;
}

MemoryLeaves of_element(const Instruction& i, const MemoryLeaves& tuple) {
  const auto& elements = i.operand(0)->shape.elements;
  std::size_t first = 0;
  for (std::int64_t e = 0; e < i.get<GetTupleElementAttrs>().index; ++e) {
    first += flatten(elements[std::size_t(e)]).size();
  }
  const auto begin = tuple.begin() + std::ptrdiff_t(first);
  return MemoryLeaves(begin, begin + std::ptrdiff_t(flatten(i.shape).size()));
}

MemoryLeaves of_loop(const Instruction& i, MemoryLeaves carried) {
  while (add(&carried, memory_of_root(*i.called(1), {carried}))) {
  }
  return carried;
}

MemoryLeaves of_scan(const Instruction& i, std::vector<MemoryLeaves> arguments) {
  const auto carries = std::size_t(i.get<ScanAttrs>().carries);
  const std::size_t inputs = arguments.size() - carries - std::size_t(i.get<ScanAttrs>().constants);
  for (;;) {
    // Its results: slices of outputs, then the next carries.
    MemoryLeaves results = memory_of_root(*i.called(0), arguments);
    const std::size_t outputs = results.size() - carries;
    bool fresh = false;
    for (std::size_t k = 0; k < carries; ++k) {
      MemoryLeaves& carry = arguments[inputs + k];
      fresh |= add(&carry, {results[outputs + k]});
      results[outputs + k] = carry[0];
    }
    if (!fresh) return results;
  }
}

/// The first that is known: of arrays, or for a scalar of scalars.
std::optional<MemoryKind> of_operands(const Instruction& i, Operands operands) {
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const Shape& shape = i.operand(k)->shape;
    if (shape.is_array() && shape.is_scalar() && !i.shape.is_scalar()) continue;
    for (const std::optional<MemoryKind>& kind : *operands[k]) {
      if (kind) return kind;
    }
  }
  return std::nullopt;
}

}  // namespace

MemoryKind memory_of_parameter(const Instruction& parameter) {
  const auto found = parameter.frontend_attributes->find(kMemoryKindAttribute);
  if (found == parameter.frontend_attributes->end()) return MemoryKind::device;
  return memory_kind_named(found->second).value_or(MemoryKind::device);
}

void set_memory_of_parameter(Instruction* parameter, MemoryKind kind) {
  if (memory_of_parameter(*parameter) == kind) return;
  parameter->frontend_attributes.edit()[kMemoryKindAttribute] = name(kind);
}

MemoryLeaves memory_kinds(const Instruction& i, Operands operands) {
  switch (i.opcode) {
    case Opcode::device_placement:
      return {i.get<DevicePlacementAttrs>().memory};
    case Opcode::tuple:
    case Opcode::opt_barrier:
      return joined(operands);
    case Opcode::get_tuple_element:
      return of_element(i, *operands[0]);
    case Opcode::call:
    case Opcode::custom_derivative:
    case Opcode::fusion:
    case Opcode::remat:
    case Opcode::custom_partitioning:
    case Opcode::manual_computation:
      if (i.called().empty()) break;
      return memory_of_root(*i.called(0), copies(operands));
    case Opcode::while_:
      return of_loop(i, *operands[0]);
    case Opcode::scan:
      return of_scan(i, copies(operands));
    case Opcode::conditional: {
      MemoryLeaves out = anywhere(i);
      for (std::size_t b = 0; b < i.called().size(); ++b) {
        add(&out, memory_of_root(*i.called(b), {*operands[b + 1]}));
      }
      return out;
    }
    case Opcode::dynamic_update_slice:
    case Opcode::scatter:
      // What is updated stays where it is.
      if (i.shape.is_array() && (*operands[0])[0]) return *operands[0];
      break;
    default:
      break;
  }
  return MemoryLeaves(flatten(i.shape).size(), of_operands(i, operands));
}

MemoryLeaves memory_of_root(const Computation& c, const std::vector<MemoryLeaves>& parameters) {
  std::vector<MemoryLeaves> values(c.instructions().size());
  for (const auto& i : c.instructions()) {
    MemoryLeaves& mine = values[std::size_t(i->index)];
    if (i->is(Opcode::parameter)) {
      mine = parameters.at(std::size_t(i->get<ParameterAttrs>().number));
      continue;
    }
    std::vector<const MemoryLeaves*> operands;
    for (const Instruction* o : i->operands()) operands.push_back(&values[std::size_t(o->index)]);
    mine = memory_kinds(*i, operands);
  }
  return values[std::size_t(c.root()->index)];
}

std::optional<std::pair<std::size_t, std::size_t>> in_two_memories(const Instruction& i,
                                                                   Operands operands) {
  if (runs_program(i.opcode) || i.is(Opcode::tuple) || i.is(Opcode::opt_barrier) ||
      i.is(Opcode::after_all) || i.is(Opcode::scatter) || i.is(Opcode::get_tuple_element)) {
    return std::nullopt;
  }
  std::optional<std::size_t> first;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const Shape& shape = i.operand(k)->shape;
    if (!shape.is_array() || shape.is_scalar() || !(*operands[k])[0]) continue;
    if (!first) first = k;
    if ((*operands[*first])[0] != (*operands[k])[0]) return std::pair(*first, k);
  }
  return std::nullopt;
}

}  // namespace tessera::ir
