// SPDX-License-Identifier: Apache-2.0
// Follows the batch through a computation without making anything.
#include "src/transforms/batching/dependence.h"

#include <algorithm>
#include <optional>

#include "src/base/check.h"

namespace tessera::transforms::batching {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

namespace {

bool any_of(const Flags& flags) {
  return std::find(flags.begin(), flags.end(), true) != flags.end();
}

Flags joined_flags(const std::vector<const Flags*>& parts, std::size_t first = 0) {
  Flags out;
  for (std::size_t k = first; k < parts.size(); ++k) {
    out.insert(out.end(), parts[k]->begin(), parts[k]->end());
  }
  return out;
}

/// Adds what is in the other; whether that was anything new.
bool add_flags(Flags* to, const Flags& more) {
  TESSERA_CHECK(to->size() == more.size(), "flags of different values");
  bool grew = false;
  for (std::size_t k = 0; k < more.size(); ++k) {
    if (!more[k] || (*to)[k]) continue;
    (*to)[k] = true;
    grew = true;
  }
  return grew;
}

/// The place of the first leaf of an element of a tuple.
std::size_t first_leaf(const Shape& tuple, std::size_t element) {
  std::size_t out = 0;
  for (std::size_t k = 0; k < element; ++k) out += leaf_count(tuple.elements[k]);
  return out;
}

/// The leaf of parameter 0 that this leaf of an instruction is, if it is one.
std::optional<std::size_t> leaf_of_parameter(const Instruction* i, std::size_t leaf) {
  for (;;) {
    if (i->is(Opcode::parameter)) return leaf;
    if (i->is(Opcode::get_tuple_element)) {
      const auto index = std::size_t(i->get<ir::GetTupleElementAttrs>().index);
      i = i->operand(0);
      leaf += first_leaf(i->shape, index);
    } else if (i->is(Opcode::tuple)) {
      std::size_t k = 0;
      for (std::size_t n = leaf_count(i->operand(k)->shape); leaf >= n;
           n = leaf_count(i->operand(k)->shape)) {
        leaf -= n;
        ++k;
      }
      i = i->operand(k);
    } else {
      return std::nullopt;
    }
  }
}

}  // namespace

Flags all_leaves(const Shape& shape, bool flag) {
  Flags out;
  for (const Shape& leaf : flatten(shape)) out.push_back(flag && leaf.is_array());
  return out;
}

const ir::BatchAxis* batch_axis_of(const Instruction& i) {
  const ir::BatchAxis* axis = nullptr;
  if (const auto* a = i.attrs.get_if<ir::CollectiveAttrs>()) axis = &a->groups.batch;
  if (const auto* a = i.attrs.get_if<ir::PermuteAttrs>()) axis = &a->batch;
  return axis != nullptr && *axis ? axis : nullptr;
}

bool Dependence::names_batch(const Instruction& i) {
  if (axis_name_.empty()) return false;
  if (const ir::BatchAxis* axis = batch_axis_of(i)) return axis->name == axis_name_;
  const auto names = [&](const Computation* c) {
    const auto found = naming_.find(c);
    if (found != naming_.end()) return found->second;
    const bool any = std::any_of(c->instructions().begin(), c->instructions().end(),
                                 [&](const auto& inner) { return names_batch(*inner); });
    naming_.emplace(c, any);
    return any;
  };
  return std::any_of(i.called().begin(), i.called().end(), names);
}

Flags Dependence::results(const Computation& computation, const Flags& parameters) {
  const auto found = known_.find({&computation, parameters});
  if (found != known_.end()) return found->second;
  std::vector<Flags> flags(computation.instructions().size());
  std::size_t next = 0;
  for (const Instruction* p : computation.parameters()) {
    const std::size_t n = leaf_count(p->shape);
    TESSERA_CHECK(next + n <= parameters.size(), "too few flags for " + computation.name());
    flags[std::size_t(p->index)] = Flags(parameters.begin() + std::ptrdiff_t(next),
                                         parameters.begin() + std::ptrdiff_t(next + n));
    next += n;
  }
  TESSERA_CHECK(next == parameters.size(), "too many flags for " + computation.name());
  for (const auto& i : computation.instructions()) {
    if (i->is(Opcode::parameter)) continue;
    std::vector<const Flags*> operands;
    for (const Instruction* o : i->operands()) operands.push_back(&flags[std::size_t(o->index)]);
    flags[std::size_t(i->index)] = of(*i, operands);
  }
  const Flags out = flags[std::size_t(computation.root()->index)];
  known_.emplace(std::make_pair(&computation, parameters), out);
  return out;
}

Flags Dependence::of(const Instruction& i, const std::vector<const Flags*>& operands) {
  const auto any = [&] {
    return std::any_of(operands.begin(), operands.end(), [](const Flags* f) { return any_of(*f); });
  };
  if (batch_axis_of(i) != nullptr && names_batch(i)) {
    // All entries get the same of some; of others each gets its part even of what they share.
    const bool same = i.is(Opcode::all_reduce) || i.is(Opcode::all_gather);
    return all_leaves(i.shape, !same && (any() || !i.is(Opcode::collective_permute)));
  }
  switch (i.opcode) {
    case Opcode::tuple:
      return joined_flags(operands);
    case Opcode::get_tuple_element: {
      const Shape& tuple = i.operand(0)->shape;
      const auto first =
          operands[0]->begin() +
          std::ptrdiff_t(first_leaf(tuple, std::size_t(i.get<ir::GetTupleElementAttrs>().index)));
      return Flags(first, first + std::ptrdiff_t(leaf_count(i.shape)));
    }
    case Opcode::opt_barrier:
    case Opcode::copy:
    case Opcode::domain:
    case Opcode::add_dependency:
      return *operands[0];
    case Opcode::get_dimension_size:
      return {false};
    case Opcode::call:
    case Opcode::fusion:
    case Opcode::remat:
    case Opcode::manual_computation:
      return any() || names_batch(i) ? results(*i.called(0), joined_flags(operands))
                                     : all_leaves(i.shape, false);
    case Opcode::conditional:
      return of_conditional(i, operands);
    case Opcode::while_:
      return carries(i, *operands[0]);
    case Opcode::scan: {
      Flags carried;
      return of_scan(i, joined_flags(operands), &carried);
    }
    default:
      return all_leaves(i.shape, any() || names_batch(i));
  }
}

Flags Dependence::of_conditional(const Instruction& i, const std::vector<const Flags*>& operands) {
  if (any_of(*operands[0])) return all_leaves(i.shape, true);
  Flags out = all_leaves(i.shape, false);
  for (std::size_t b = 0; b < i.called().size(); ++b) {
    add_flags(&out, results(*i.called(b), *operands[b + 1]));
  }
  return out;
}

Flags Dependence::carries(const Instruction& loop, const Flags& init) {
  Flags out = init;
  const Computation &condition = *loop.called(0), &body = *loop.called(1);
  for (bool grows = true; grows;) {
    grows = add_flags(&out, results(body, out));
    if (grows || !any_of(results(condition, out))) continue;
    // Entries that are done keep what they have, so that whatever changes differs.
    const std::vector<Shape> shapes = flatten(loop.shape);
    Flags changes(shapes.size(), false);
    for (std::size_t k = 0; k < shapes.size(); ++k) {
      changes[k] = shapes[k].is_array() && leaf_of_parameter(body.root(), k) != k;
    }
    grows = add_flags(&out, changes);
  }
  return out;
}

Flags Dependence::of_scan(const Instruction& i, const Flags& operands, Flags* carries) {
  const auto& attrs = i.get<ir::ScanAttrs>();
  const auto count = std::size_t(attrs.carries);
  const std::size_t inputs = operands.size() - count - std::size_t(attrs.constants);
  Flags in = operands, out;
  for (bool grows = true; grows;) {
    out = results(*i.called(0), in);
    Flags next(in.size(), false);
    std::copy(out.end() - std::ptrdiff_t(count), out.end(), next.begin() + std::ptrdiff_t(inputs));
    grows = add_flags(&in, next);
  }
  const auto first = in.begin() + std::ptrdiff_t(inputs);
  carries->assign(first, first + std::ptrdiff_t(count));
  std::copy(carries->begin(), carries->end(), out.end() - std::ptrdiff_t(count));
  return out;
}

Flags Dependence::scan_carries(const Instruction& scan, const Flags& operands) {
  Flags out;
  of_scan(scan, operands, &out);
  return out;
}

}  // namespace tessera::transforms::batching
