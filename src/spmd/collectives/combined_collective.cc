// SPDX-License-Identifier: Apache-2.0
// Packs several arrays into one for a single collective.
#include "src/spmd/collectives/combined_collective.h"

#include "src/spmd/collectives/collective_ops.h"

namespace tessera::spmd {
namespace {

using ir::Instruction;
using ir::Opcode;

/// An array as [outer][parts][inner], with the dim that is cut or exchanged in the middle.
struct View {
  std::int64_t outer = 1, parts = 1, inner = 1;

  View(const Shape& shape, std::int64_t dim, std::int64_t group) {
    parts = group;
    for (std::int64_t d = 0; d < shape.rank(); ++d) {
      (d < dim ? outer : inner) *= shape.dim(d);
    }
    inner /= group;
  }
};

/// [parts][outer * inner]
Instruction* parts_first(ir::Builder& b, Instruction* x, const View& v) {
  if (v.outer > 1) {
    x = b.transpose(b.reshape(x, {v.outer, v.parts, v.inner}), {1, 0, 2});
  }
  return b.reshape(x, {v.parts, v.outer * v.inner});
}

Instruction* columns(ir::Builder& b, Instruction* x, std::int64_t from, std::int64_t to) {
  Dims starts(x->shape.dims.size(), 0), limits = x->shape.dims;
  starts.back() = from;
  limits.back() = to;
  return b.slice(x, starts, limits);
}

}  // namespace

std::vector<Instruction*> combined_collective(ir::Builder& b,
                                              const std::vector<Instruction*>& members,
                                              std::int64_t group_size) {
  const Instruction& like = *members[0];
  const bool permutes = like.is(Opcode::collective_permute);
  std::vector<Instruction*> parts, out;
  std::vector<View> views;
  for (const Instruction* m : members) {
    Instruction* x = m->operand(0);
    if (permutes) {
      parts.push_back(b.reshape(x, {x->shape.element_count()}));
      continue;
    }
    views.emplace_back(x->shape, m->get<ir::CollectiveAttrs>().dims[0], group_size);
    parts.push_back(parts_first(b, x, views.back()));
  }
  const std::int64_t dim = permutes ? 0 : 1;
  Instruction* all = b.concatenate(parts, dim);
  Shape shape = all->shape;
  if (like.is(Opcode::reduce_scatter)) shape.dims[0] = 1;
  if (permutes) {
    all = same_collective(b, like, {all}, shape);
  } else {
    ir::CollectiveAttrs attrs = like.get<ir::CollectiveAttrs>();
    attrs.dims = {0};
    if (attrs.channel_id) attrs.channel_id = ir::next_channel_id(b.module());
    all = b.emit_shaped(like.opcode, shape, {all}, std::move(attrs), like.called());
  }
  std::int64_t at = 0;
  for (std::size_t k = 0; k < members.size(); ++k) {
    b.metadata = members[k]->metadata;
    const std::int64_t size = parts[k]->shape.dim(dim);
    Instruction* x = columns(b, all, at, at + size);
    at += size;
    if (like.is(Opcode::all_to_all) && views[k].outer > 1) {
      const View& v = views[k];
      x = b.transpose(b.reshape(x, {v.parts, v.outer, v.inner}), {1, 0, 2});
    }
    out.push_back(b.reshape(x, members[k]->shape.dims));
  }
  return out;
}

}  // namespace tessera::spmd
