// SPDX-License-Identifier: Apache-2.0
// The rule of each op: the switch over opcodes, and what is said of those without one.
#include "src/transforms/batching/site.h"

namespace tessera::transforms::batching {

using ir::Opcode;

Batched batch_none(BatchSite& site) { site.not_implemented("there is no rule for it"); }

/// Its value depends on no operand.
Batched batch_generated(BatchSite& site) {
  TESSERA_CHECK(false, site.op.describe() + " has no operands, so the batch can't reach it");
  return {};
}

Batched batch_op(BatchSite& site) {
  switch (site.op.opcode) {
#define OP(enumerator, text, operands, attributes, types, shape, factors, evaluate, traits, \
           linear, work, calls, dialect, jvp, transpose, batch)                             \
  case Opcode::enumerator:                                                                  \
    return batch(site);
#include "src/ir/opcode_list.inc"
  }
  TESSERA_CHECK(false, "opcode number " + std::to_string(int(site.op.opcode)));
  return {};
}

}  // namespace tessera::transforms::batching
