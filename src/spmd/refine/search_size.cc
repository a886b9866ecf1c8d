// SPDX-License-Identifier: Apache-2.0
// The size of a program to its search, in which hashes of random numbers count for less.
#include "src/spmd/refine/search_size.h"

namespace tessera::spmd {
namespace {

bool computes_integers(const ir::Instruction& i) {
  if (i.shape.is_tuple || !is_integer(i.shape.dtype)) return false;
  switch (i.opcode) {
    case ir::Opcode::broadcast:
    case ir::Opcode::constant:
    case ir::Opcode::iota:
      return true;
    default:
      return ir::is_elementwise(i.opcode);
  }
}

}  // namespace

std::int64_t search_size(const ir::Module& module) {
  std::int64_t all = 0, cheap = 0;
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) {
      ++all;
      if (computes_integers(*i)) ++cheap;
    }
  }
  return all - cheap + cheap / 4;
}

}  // namespace tessera::spmd
