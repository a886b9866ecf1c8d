// SPDX-License-Identifier: Apache-2.0
// Moves divisions of exponentials by numbers of rows past the dots that read them. Of floats of 32
// bits and more: narrower quotients keep more of small numbers than narrower exponentials.
#include "src/passes/products/sink_divisions.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/contains.h"
#include "src/ir/rewrite/rewriter.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

/// A dot whose operand is the quotient: what is divided in its place.
struct Reader {
  Instruction* dot = nullptr;
  std::size_t operand = 0;
  bool result = false;  ///< the dot's result, else its other operand
  Dims dims;            ///< where that has the divisor's dims
};

/// The dims of the dot's result, or of its other operand, that are these of operand `k`; nothing if
/// it lacks one.
std::optional<Dims> dims_elsewhere(const Instruction& dot, std::size_t k, const Dims& dims,
                                   bool result) {
  const auto& attrs = dot.get<ir::DotAttrs>();
  const Dims& batch = k == 0 ? attrs.lhs_batch : attrs.rhs_batch;
  const Dims& other_batch = k == 0 ? attrs.rhs_batch : attrs.lhs_batch;
  const Dims& contracting = k == 0 ? attrs.lhs_contracting : attrs.rhs_contracting;
  const Dims& other_contracting = k == 0 ? attrs.rhs_contracting : attrs.lhs_contracting;
  const std::int64_t rank = dot.operand(k)->shape.rank();
  const auto place = [](const Dims& list, std::int64_t d) {
    return std::find(list.begin(), list.end(), d) - list.begin();
  };
  // Free dims of the first operand stand in front of those of the second.
  const std::int64_t own = rank - std::int64_t(batch.size() + contracting.size());
  const std::int64_t first_free = k == 0 ? std::int64_t(batch.size()) : dot.shape.rank() - own;
  Dims out;
  for (const std::int64_t d : dims) {
    if (contains(batch, d)) {
      const auto n = place(batch, d);
      out.push_back(result ? std::int64_t(n) : other_batch[std::size_t(n)]);
    } else if (contains(contracting, d)) {
      if (result) return std::nullopt;
      out.push_back(other_contracting[std::size_t(place(contracting, d))]);
    } else {
      if (!result) return std::nullopt;
      std::int64_t before = 0;
      for (std::int64_t f = 0; f < d; ++f) {
        before += !contains(batch, f) && !contains(contracting, f);
      }
      out.push_back(first_free + before);
    }
  }
  return out;
}

std::optional<Reader> reader_of(Instruction* quotient, Instruction* user, const Dims& dims) {
  if (!user->is(Opcode::dot) || user->shape.dtype != quotient->shape.dtype ||
      !user->control_predecessors().empty() || user->operand(0) == user->operand(1)) {
    return std::nullopt;
  }
  Reader out;
  out.dot = user;
  out.operand = user->operand(0) == quotient ? 0 : 1;
  for (const bool result : {true, false}) {
    const Instruction& divided = result ? *user : *user->operand(1 - out.operand);
    if (divided.shape.dtype != quotient->shape.dtype) continue;
    if (divided.shape.element_count() >= quotient->shape.element_count()) continue;
    auto there = dims_elsewhere(*user, out.operand, dims, result);
    // Broadcasts keep the order of dims.
    if (!there || !std::is_sorted(there->begin(), there->end())) continue;
    out.result = result;
    out.dims = *std::move(there);
    return out;
  }
  return std::nullopt;
}

std::size_t divide_late_in(ir::Computation* c) {
  std::vector<std::pair<Instruction*, std::vector<Reader>>> found;
  for (const auto& i : c->instructions()) {
    const DType t = i->shape.is_array() ? i->shape.dtype : DType::pred;
    if (!i->is(Opcode::divide) || (t != DType::f32 && t != DType::f64) || c->root() == i.get() ||
        i->use_count() == 0 || !i->control_predecessors().empty()) {
      continue;
    }
    const Instruction* by = i->operand(1);
    if (!i->operand(0)->is(Opcode::exponential) || !by->is(Opcode::broadcast)) continue;
    std::vector<Reader> readers;
    for (Instruction* user : i->users()) {
      auto reader = reader_of(i.get(), user, by->get<ir::DimensionsAttrs>().dims);
      if (!reader) break;
      readers.push_back(*std::move(reader));
    }
    if (readers.size() == i->users().size()) found.push_back({i.get(), std::move(readers)});
  }
  ir::Rewriter rewriter(c);
  std::map<std::pair<std::int64_t, Dims>, Instruction*>
      divided;  // by operand and the divisor's dims
  std::size_t count = 0;
  for (const auto& [of, readers] : found) {
    Instruction* const quotient = of;  // a copy, as clang 14 captures no bindings
    // A dot of two quotients: one of them, as the other one's reader is about to go.
    const bool again = std::any_of(readers.begin(), readers.end(), [&](const Reader& r) {
      const Instruction* other = r.dot->operand(1 - r.operand);
      return !rewriter.untouched(r.dot) ||
             (other->is(Opcode::divide) && other->operand(0)->is(Opcode::exponential));
    });
    if (again) continue;
    Instruction* divisor = quotient->operand(1)->operand(0);
    divided.clear();
    for (const Reader& r : readers) {
      Instruction* operands[2] = {r.dot->operand(0), r.dot->operand(1)};
      operands[r.operand] = quotient->operand(0);
      const auto over = [&](Instruction* x) {
        ir::Builder& b = rewriter.builder(quotient);
        return b.binary(Opcode::divide, x, b.broadcast(divisor, x->shape.dims, r.dims));
      };
      if (!r.result) {
        Instruction*& other = operands[1 - r.operand];
        Instruction*& made = divided[{other->index, r.dims}];
        if (made == nullptr) made = over(other);
        other = made;
      }
      Instruction* dot = rewriter.builder(r.dot).emit_shaped(
          Opcode::dot, r.dot->shape, {operands[0], operands[1]}, r.dot->get<ir::DotAttrs>());
      rewriter.replace(r.dot, r.result ? over(dot) : dot);
    }
    ++count;
  }
  rewriter.finish();
  return count;
}

}  // namespace

std::size_t sink_divisions(ir::Module* module) {
  std::size_t n = 0;
  for (const auto& c : module->computations()) n += divide_late_in(c.get());
  return n;
}

}  // namespace tessera::passes
