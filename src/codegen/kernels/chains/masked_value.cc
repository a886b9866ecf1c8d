// SPDX-License-Identifier: Apache-2.0
// How what is known of values follows from what is known of their operands.
#include "src/codegen/kernels/chains/masked_value.h"

namespace tessera::codegen {

void join(MaskedValue* into, const MaskedValue& v) {
  into->varies = into->varies || v.varies;
  into->not_made.insert(v.not_made.begin(), v.not_made.end());
  into->unless.insert(v.unless.begin(), v.unless.end());
  into->relies.insert(v.relies.begin(), v.relies.end());
}

void of_binary(const BlockOp& op, const MaskedValue& a, const MaskedValue& b, MaskedValue* out) {
  if (op.type == DType::pred && (a.known || b.known)) {
    const bool is_and = op.opcode == ir::Opcode::and_ || op.opcode == ir::Opcode::multiply;
    const bool is_or = op.opcode == ir::Opcode::or_ || op.opcode == ir::Opcode::add;
    if (is_and || is_or) {
      // False of an and, true of an or, whatever the other one is.
      for (const MaskedValue* v : {&a, &b}) {
        if (v->known && *v->known == is_or) {
          *out = MaskedValue();
          out->known = is_or;
          return;
        }
      }
      if (a.known && b.known) out->known = *a.known;
    }
    return;
  }
  if (!is_floating(op.type)) return;
  if (op.opcode == ir::Opcode::divide) {
    out->zero_if = a.zero_if;
    return;
  }
  if (op.opcode != ir::Opcode::multiply) return;
  for (const auto& [zero, other] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
    if (zero->zero_if.empty() || !zero->not_made.empty()) continue;
    out->zero_if = zero->zero_if;
    // Zero times what isn't computed there, and is of moderate size.
    for (const std::size_t product : other->not_made) {
      out->unless.insert({product, *zero->zero_if.begin()});
    }
    out->not_made.clear();
    return;
  }
}

}  // namespace tessera::codegen
