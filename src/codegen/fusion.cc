// SPDX-License-Identifier: Apache-2.0
#include "src/codegen/fusion.h"

#include <map>

#include "src/codegen/loop_program.h"

namespace tessera::codegen {
namespace {

using ir::Opcode;

constexpr int kMostOps = 64;

bool is_generator(const ir::Instruction& i) {
  return (i.is(Opcode::broadcast) || i.is(Opcode::iota)) && i.shape.is_array();
}

}  // namespace

Fusion fuse(const ir::Computation& computation, const passes::UniformityFacts& facts) {
  const auto& list = computation.instructions();
  const auto users = ir::users_of(computation);
  Fusion out;
  out.root.assign(list.size(), -1);
  out.on_the_fly.assign(list.size(), false);
  std::map<std::int64_t, int> sizes;  // root → ops in its loop
  for (std::size_t n = list.size(); n-- > 0;) {
    const ir::Instruction& i = *list[n];
    const auto& leaves = facts.leaves[n];
    if (leaves.size() == 1 && leaves[0].known) continue;
    const bool is_root = computation.root() == &i;
    if (is_generator(i)) {
      bool all = !users[n].empty() && !is_root;
      for (const ir::Instruction* u : users[n]) {
        all = all && out.root[std::size_t(u->index)] >= 0 && u->shape.dims == i.shape.dims;
      }
      out.on_the_fly[n] = all;
      continue;
    }
    if (!is_loop_op(i)) continue;
    std::int64_t root = -1;
    bool one = !is_root && !users[n].empty();
    for (const ir::Instruction* u : users[n]) {
      const std::int64_t r = out.root[std::size_t(u->index)];
      one = one && r >= 0 && (root < 0 || r == root);
      root = r;
    }
    if (one) {
      const ir::Instruction& last = *list[std::size_t(root)];
      one = last.shape.dims == i.shape.dims && sizes[root] < kMostOps &&
            facts.leaves[std::size_t(root)][0].classes == leaves[0].classes;
    }
    out.root[n] = one ? root : std::int64_t(n);
    ++sizes[out.root[n]];
  }
  return out;
}

}  // namespace tessera::codegen
