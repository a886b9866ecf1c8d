// SPDX-License-Identifier: Apache-2.0
// Structural equality: which instructions and computations compute the same.
#include "src/ir/analysis/equivalence.h"

#include <xxhash.h>

#include <algorithm>

namespace tessera::ir {
namespace {

/// Computes a function of its parameters.
bool is_function(const Computation& c) {
  return std::all_of(c.instructions().begin(), c.instructions().end(), [](const auto& i) {
    return i->is(Opcode::parameter) || i->is(Opcode::opt_barrier) || is_pure(*i);
  });
}

std::uint64_t hash_shape(std::uint64_t hash, const Shape& shape) {
  hash = mix_hash(hash, shape.is_tuple ? shape.elements.size() + 256 : std::uint64_t(shape.dtype));
  for (const std::int64_t d : shape.dims) hash = mix_hash(hash, std::uint64_t(d));
  for (const Shape& element : shape.elements) hash = hash_shape(hash, element);
  return hash;
}

}  // namespace

std::uint64_t mix_hash(std::uint64_t hash, std::uint64_t more) {
  const std::uint64_t both[2] = {hash, more};
  return XXH3_64bits(both, sizeof both);
}

bool is_pure(const Instruction& i) {
  if (!has_trait(i.opcode, traits::pure) || !i.control_predecessors().empty()) return false;
  return !runs_program(i.opcode) ||
         std::all_of(i.called().begin(), i.called().end(),
                     [](const Computation* c) { return is_function(*c); });
}

bool same_attributes(const Attributes& a, const Attributes& b) {
  if (const auto* x = a.get_if<CollectiveAttrs>()) {
    const auto* y = b.get_if<CollectiveAttrs>();
    // Whether there is a channel says whose ids the groups name.
    return y != nullptr && x->channel_id.has_value() == y->channel_id.has_value() &&
           x->groups == y->groups && x->dims == y->dims &&
           x->use_global_device_ids == y->use_global_device_ids &&
           x->constrain_layout == y->constrain_layout;
  }
  if (const auto* x = a.get_if<PermuteAttrs>()) {
    const auto* y = b.get_if<PermuteAttrs>();
    return y != nullptr && x->channel_id.has_value() == y->channel_id.has_value() &&
           x->source_target_pairs == y->source_target_pairs && x->batch == y->batch;
  }
  return a == b;
}

bool same_computation(const Computation& a, const Computation& b) {
  if (&a == &b) return true;
  const auto &x = a.instructions(), &y = b.instructions();
  if (x.size() != y.size() || a.root()->index != b.root()->index) return false;
  for (std::size_t k = 0; k < x.size(); ++k) {
    const Instruction &i = *x[k], &j = *y[k];
    if (i.operands().size() != j.operands().size()) return false;
    for (std::size_t o = 0; o < i.operands().size(); ++o) {
      if (i.operand(o)->index != j.operand(o)->index) return false;
    }
    if (!same_operation(i, j)) return false;
  }
  return true;
}

bool same_operation(const Instruction& a, const Instruction& b) {
  return a.opcode == b.opcode && a.shape == b.shape && same_attributes(a.attrs, b.attrs) &&
         a.sharding == b.sharding &&
         std::equal(
             a.called().begin(), a.called().end(), b.called().begin(), b.called().end(),
             [](const Computation* x, const Computation* y) { return same_computation(*x, *y); });
}

std::uint64_t operation_hash(const Instruction& i) {
  std::uint64_t hash = hash_shape(std::uint64_t(i.opcode), i.shape);
  for (const Computation* c : i.called()) hash = mix_hash(hash, c->instructions().size());
  if (const auto* constant = i.attrs.get_if<ConstantAttrs>();
      constant != nullptr && !constant->value.is_tuple()) {
    constexpr std::size_t kBeginning = 64;
    const std::size_t n = std::min<std::size_t>(constant->value.byte_count(), kBeginning);
    hash = mix_hash(hash, XXH3_64bits(constant->value.bytes(), n));
  }
  return hash;
}

}  // namespace tessera::ir
