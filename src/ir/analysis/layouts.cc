// SPDX-License-Identifier: Apache-2.0
// Normalises layouts: bitcasts that depend on one become transposes.
#include "src/ir/analysis/layouts.h"

#include <algorithm>
#include <numeric>

#include "src/ir/rewrite/rewriter.h"

namespace tessera::ir {
namespace {

bool clear_layout(Shape* shape) {
  bool changed = !shape->layout.empty();
  shape->layout.clear();
  for (Shape& element : shape->elements) changed = clear_layout(&element) || changed;
  return changed;
}

std::unique_ptr<Instruction> transpose(const Instruction& like, Instruction* x, Dims order,
                                       Dims dims) {
  auto t = std::make_unique<Instruction>();
  t->opcode = Opcode::transpose;
  t->shape = Shape(x->shape.dtype, std::move(dims));
  t->set_operands({x});
  t->attrs = DimensionsAttrs{std::move(order)};
  t->metadata = like.metadata;
  return t;
}

}  // namespace

Dims memory_order(const Shape& array) {
  Dims order(array.layout.rbegin(), array.layout.rend());
  if (order.empty()) {
    order.resize(array.dims.size());
    std::iota(order.begin(), order.end(), std::int64_t(0));
  }
  return order;
}

Dims permute_dims(const Dims& dims, const Dims& order) {
  Dims out;
  out.reserve(order.size());
  for (std::int64_t d : order) out.push_back(dims[std::size_t(d)]);
  return out;
}

Dims inverse_order(const Dims& order) {
  Dims out(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) out[std::size_t(order[i])] = std::int64_t(i);
  return out;
}

Dims consecutive_dims(std::int64_t begin, std::int64_t end) {
  Dims out(std::size_t(end - begin));
  std::iota(out.begin(), out.end(), begin);
  return out;
}

bool depends_on_layout(const Instruction& i) {
  return i.is(Opcode::bitcast) && i.shape.is_array() && i.operands()[0]->shape.is_array() &&
         !(i.shape.layout.empty() && i.operands()[0]->shape.layout.empty());
}

namespace {

/// Transposes around a bitcast of plain layouts, in place of one that depends on them.
Instruction* plain_bitcast(Computation* c, const Instruction& i) {
  Instruction* x = i.operands()[0];
  const Dims from = memory_order(x->shape), to = memory_order(i.shape);
  if (!is_identity_order(from)) {
    x = c->add(transpose(i, x, from, permute_dims(x->shape.dims, from)));
  }
  auto plain = std::make_unique<Instruction>();
  plain->opcode = Opcode::bitcast;
  plain->shape = Shape(i.shape.dtype, permute_dims(i.shape.dims, to));
  plain->set_operands({x});
  plain->metadata = i.metadata;
  x = c->add(std::move(plain));
  if (!is_identity_order(to)) x = c->add(transpose(i, x, inverse_order(to), i.shape.dims));
  x->sharding = i.sharding;
  return x;
}

}  // namespace

std::size_t normalize_layouts(Module* module) {
  std::size_t changed = 0;
  for (const auto& c : module->computations()) {
    // A bitcast of a bitcast has to see the layout that this had.
    Rewriter rewriter(c.get());
    for (std::size_t n = 0; n < rewriter.size(); ++n) {
      Instruction* i = rewriter.at(n);
      if (depends_on_layout(*i)) rewriter.replace(i, plain_bitcast(c.get(), *i));
    }
    changed += rewriter.finish();
    for (const auto& i : c->instructions()) {
      const bool boundary =
          c.get() == module->entry() && (i->is(Opcode::parameter) || i.get() == c->root());
      const bool call = i->is(Opcode::custom_call) || is_printed_as_custom_call(i->opcode);
      if (!boundary && !call) changed += clear_layout(&i->shape) ? 1 : 0;
    }
  }
  return changed;
}

}  // namespace tessera::ir
