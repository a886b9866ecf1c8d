// SPDX-License-Identifier: Apache-2.0
// Replaces asynchronous start/done pairs by synchronous collectives.
#include "src/passes/control/join_async.h"

#include <memory>
#include <optional>
#include <utility>

#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {

using ir::Instruction;
using ir::Opcode;

namespace {

std::optional<Opcode> plain(Opcode start) {
  switch (start) {
    case Opcode::all_gather_start:
      return Opcode::all_gather;
    case Opcode::all_reduce_start:
      return Opcode::all_reduce;
    case Opcode::collective_permute_start:
      return Opcode::collective_permute;
    case Opcode::copy_start:
      return Opcode::copy;
    default:
      return std::nullopt;
  }
}

/// The synchronous collective in place of the end of an asynchronous one.
Instruction* joined(const Instruction& done, ir::Builder& b) {
  const Instruction& start = *done.operand(0);
  const std::optional<Opcode> opcode = plain(start.opcode);
  if (!opcode) return nullptr;
  auto made = std::make_unique<Instruction>(start);
  made->opcode = *opcode;
  made->shape = done.shape;
  made->sharding = done.sharding;
  if (made->is(Opcode::copy)) made->attrs = {};
  return b.computation()->add(std::move(made));
}

}  // namespace

std::size_t join_async(ir::Module* module) {
  static const auto& patterns =
      ir::keep(ir::PatternSet("join-async")
                   .add({Opcode::all_gather_done, Opcode::all_reduce_done,
                         Opcode::collective_permute_done, Opcode::copy_done},
                        joined));
  return ir::apply_patterns_greedily(module, patterns);
}

}  // namespace tessera::passes
