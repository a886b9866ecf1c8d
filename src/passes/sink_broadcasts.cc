// SPDX-License-Identifier: Apache-2.0
// op(broadcast(x), broadcast(y)) is broadcast(op(x, y)).
#include "src/passes/sink_broadcasts.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "src/base/contains.h"
#include "src/ir/analysis/equivalence.h"
#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

/// For fewer elements a step of its own takes longer than they do.
constexpr std::int64_t kFewestElements = 1024;

const Dims& made_of_dims(const Instruction& broadcast) {
  return broadcast.get<ir::DimensionsAttrs>().dims;
}

Dims sizes_along(const Shape& shape, const Dims& dims) {
  Dims out;
  for (const std::int64_t d : dims) out.push_back(shape.dim(d));
  return out;
}

/// Where each of `dims` is among `kept`, or -1.
Dims places_among(const Dims& dims, const Dims& kept) {
  Dims out;
  for (const std::int64_t d : dims) {
    const auto at = std::find(kept.begin(), kept.end(), d);
    out.push_back(at == kept.end() ? -1 : at - kept.begin());
  }
  return out;
}

/// The broadcast with the dims `kept` alone, which are in order and of which those are that it
/// is made of.
Instruction* with_dims(const Instruction& broadcast, const Dims& kept, ir::Builder& b) {
  Instruction* x = broadcast.operand(0);
  const Dims sizes = sizes_along(broadcast.shape, kept);
  const Dims places = places_among(made_of_dims(broadcast), kept);
  return x->shape.dims == sizes && std::is_sorted(places.begin(), places.end())
             ? x
             : b.broadcast(x, sizes, places);
}

/// Dims along which fewer elements are than in all.
bool has_fewer(const Shape& shape, const Dims& kept) {
  std::int64_t count = 1;
  for (const std::int64_t d : kept) count *= shape.dim(d);
  return count < shape.element_count();
}

bool sinks_behind(const Instruction& i) {
  switch (i.opcode) {
    case Opcode::copy:
    case Opcode::domain:
    case Opcode::bitcast_convert:
    case Opcode::bitcast:
    case Opcode::sharding_constraint:
    case Opcode::pvary:
      return false;
    default:
      return i.shape.is_array() && i.called().empty() && i.control_predecessors().empty() &&
             ir::is_pure(i);
  }
}

Instruction* behind_elementwise(const Instruction& i, ir::Builder& b) {
  if (!sinks_behind(i) || i.operands().empty()) return nullptr;
  if (i.shape.element_count() < kFewestElements) return nullptr;
  Dims kept;
  for (const Instruction* o : i.operands()) {
    if (o->shape.is_scalar()) continue;
    if (!o->is(Opcode::broadcast) || o->shape.dims != i.shape.dims) return nullptr;
    for (const std::int64_t d : made_of_dims(*o)) {
      if (!contains(kept, d)) kept.push_back(d);
    }
  }
  // What is the same in all elements is left to simplify.
  if (kept.empty() || !has_fewer(i.shape, kept)) return nullptr;
  std::sort(kept.begin(), kept.end());
  std::vector<Instruction*> operands;
  for (Instruction* o : i.operands()) {
    operands.push_back(o->shape.is_scalar() ? o : with_dims(*o, kept, b));
  }
  const Shape shape(i.shape.dtype, sizes_along(i.shape, kept));
  return b.broadcast(ir::emit_like(b, i, std::move(operands), &shape), i.shape.dims, kept);
}

/// Of another broadcast.
Instruction* behind_broadcast(const Instruction& i, ir::Builder& b) {
  const Instruction& x = *i.operand(0);
  if (!x.is(Opcode::broadcast)) return nullptr;
  Dims dims;
  for (const std::int64_t d : made_of_dims(x)) dims.push_back(made_of_dims(i)[std::size_t(d)]);
  return b.broadcast(x.operand(0), i.shape.dims, std::move(dims));
}

/// Along dims that aren't reduced.
Instruction* behind_reduce(const Instruction& i, ir::Builder& b) {
  const Instruction& x = *i.operand(0);
  if (!i.shape.is_array() || i.operands().size() != 2 || !i.control_predecessors().empty() ||
      !x.is(Opcode::broadcast)) {
    return nullptr;
  }
  const Dims& reduced = i.get<ir::DimensionsAttrs>().dims;
  Dims kept, places;  // of the operand; where those of them that stay are in the result
  std::int64_t place = 0;
  for (std::int64_t d = 0; d < x.shape.rank(); ++d) {
    const bool stays = !contains(reduced, d);
    if (!stays || contains(made_of_dims(x), d)) {
      kept.push_back(d);
      if (stays) places.push_back(place);
    }
    place += stays ? 1 : 0;
  }
  if (!has_fewer(x.shape, kept)) return nullptr;
  Instruction* y =
      b.reduce(with_dims(x, kept, b), i.operand(1), places_among(reduced, kept), i.called().at(0));
  return b.broadcast(y, i.shape.dims, places);
}

/// Where dims of one element are added or dropped.
Instruction* behind_reshape(const Instruction& i, ir::Builder& b) {
  const Instruction& x = *i.operand(0);
  if (!x.is(Opcode::broadcast) || x.operand(0)->shape.is_scalar()) return nullptr;
  Dims number(std::size_t(x.shape.rank()), -1);  // the result's dims, by the operand's
  std::int64_t at = 0;
  const auto skip_ones = [&] {
    while (at < i.shape.rank() && i.shape.dim(at) == 1) ++at;
  };
  for (std::int64_t d = 0; d < x.shape.rank(); ++d) {
    if (x.shape.dim(d) == 1) continue;
    skip_ones();
    if (at == i.shape.rank() || i.shape.dim(at) != x.shape.dim(d)) return nullptr;
    number[std::size_t(d)] = at++;
  }
  skip_ones();
  if (at != i.shape.rank()) return nullptr;
  Instruction* y = x.operand(0);
  Dims sizes, dims;
  for (std::size_t k = 0; k < made_of_dims(x).size(); ++k) {
    const std::int64_t d = number[std::size_t(made_of_dims(x)[k])];
    if (d < 0) continue;
    sizes.push_back(y->shape.dims[k]);
    dims.push_back(d);
  }
  if (sizes != y->shape.dims) y = b.reshape(y, sizes);
  return b.broadcast(y, i.shape.dims, dims);
}

Instruction* behind_transpose(const Instruction& i, ir::Builder& b) {
  const Instruction& x = *i.operand(0);
  if (!x.is(Opcode::broadcast)) return nullptr;
  const Dims& perm = i.get<ir::DimensionsAttrs>().dims;
  return b.broadcast(x.operand(0), i.shape.dims, places_among(made_of_dims(x), perm));
}

Instruction* behind_slice(const Instruction& i, ir::Builder& b) {
  Instruction* x = i.operand(0);
  if (!x->is(Opcode::broadcast)) return nullptr;
  const auto& a = i.get<ir::SliceAttrs>();
  Instruction* y = x->operand(0);
  Dims starts, limits, strides;
  for (const std::int64_t d : made_of_dims(*x)) {
    starts.push_back(a.starts[std::size_t(d)]);
    limits.push_back(a.limits[std::size_t(d)]);
    strides.push_back(a.strides.empty() ? 1 : a.strides[std::size_t(d)]);
  }
  const bool all = sizes_along(i.shape, made_of_dims(*x)) == y->shape.dims;
  return b.broadcast(all ? y : b.slice(y, starts, limits, strides), i.shape.dims, made_of_dims(*x));
}

ir::PatternSet sinking_patterns() {
  ir::PatternSet out("sink-broadcasts");
  out.add_if(ir::is_elementwise, behind_elementwise);
  out.add(Opcode::broadcast, behind_broadcast);
  out.add(Opcode::reduce, behind_reduce);
  out.add(Opcode::reshape, behind_reshape);
  out.add(Opcode::transpose, behind_transpose);
  out.add(Opcode::slice, behind_slice);
  return out;
}

}  // namespace

std::size_t sink_broadcasts(ir::Module* module) {
  static const ir::PatternSet& patterns = ir::keep(sinking_patterns());
  return ir::walk_and_apply_patterns(module, patterns);
}

}  // namespace tessera::passes
