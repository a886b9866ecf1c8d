// SPDX-License-Identifier: Apache-2.0
// What a loop only reads, some rows a step, along a split dim: each step would have to send its
// owner's rows to all devices, which together is more than to gather the array once before the
// loop.
#include <algorithm>
#include <optional>

#include "src/base/contains.h"
#include "src/ir/analysis/device_computations.h"
#include "src/ir/rewrite/while_view.h"
#include "src/spmd/propagation/graph.h"

namespace tessera::spmd::propagation {
namespace {

using ir::Instruction;
using ir::Opcode;

bool splits_by(const Instruction& x, int axis) {
  for (const TensorSharding& s : x.sharding) {
    for (const DimSharding& d : s.dims) {
      if (contains(d.axes, axis)) return true;
    }
  }
  return false;
}

class Loop {
 public:
  explicit Loop(Instruction* loop) : loop_(loop), view_(*loop) {}

  void run() {
    const Instruction* root = view_.body().root();
    const Shape& shape = loop_->shape;
    const auto trips = view_.loop().get<ir::WhileAttrs>().known_trip_count;
    if (!trips || !root->is(Opcode::tuple) || !shape.is_tuple) return;
    for (const Shape& s : shape.elements) {
      if (!s.is_array()) return;
    }
    for (std::size_t k = 0; k < shape.elements.size(); ++k) consider(k, *trips);
  }

 private:
  void consider(std::size_t k, std::int64_t trips) {
    Instruction *in = view_.body().parameter(0), *out = view_.body().root();
    Instruction* test = view_.condition().parameter(0);
    for (const Instruction* i : {in, out, test, loop_}) {
      if (i->sharding.size() != loop_->shape.elements.size()) return;
    }
    for (const Instruction* user : in->users()) {
      if (!user->is(Opcode::get_tuple_element)) return;
    }
    const std::vector<Instruction*> leaves = view_.reads(k);
    if (!view_.is_invariant(k)) return;
    const TensorSharding& s = in->sharding[k];
    const Dims& dims = loop_->shape.elements[k].dims;
    if (s.kind != TensorSharding::Kind::axes || s.dims.size() != dims.size()) return;
    std::vector<char> read(dims.size(), 0);
    double received = 0;
    for (const Instruction* leaf : leaves) {
      if (leaf->sharding.size() != 1) return;
      for (const Instruction* user : leaf->users()) {
        if (user == out) continue;
        if (!user->is(Opcode::dynamic_slice) || user->operand(0) != leaf) return;
        // Twice as much where all devices receive the rows as where each receives its part.
        bool parts = false;
        for (std::size_t d = 0; d < dims.size(); ++d) {
          if (user->shape.dims[d] == dims[d] || s.shards(std::int64_t(d)) == 1) continue;
          read[d] = 1;
          for (int axis : s.dims[d].axes) parts = parts || splits_by(*user, axis);
        }
        received += (parts ? 1 : 2) * double(trips) * double(user->shape.element_count());
      }
    }
    if (std::count(read.begin(), read.end(), 1) == 0 || received <= double(element_count(dims)))
      return;
    auto gather = [&](TensorSharding* t) {
      for (std::size_t d = 0; d < read.size(); ++d) {
        if (read[d]) t->dims[d].axes.clear();
      }
    };
    for (Instruction* i : {in, out, test, loop_}) gather(&i->sharding[k]);
    for (Instruction* leaf : leaves) gather(&leaf->sharding[0]);
  }

  Instruction* loop_;
  ir::WhileView view_;
};

}  // namespace

void gather_before_loops(ir::Module* module) {
  for (ir::Computation* c : ir::device_computations(*module)) {
    for (const auto& i : c->instructions()) {
      if (i->is(Opcode::while_)) Loop(i.get()).run();
    }
  }
}

}  // namespace tessera::spmd::propagation
