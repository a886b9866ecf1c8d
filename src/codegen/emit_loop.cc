// SPDX-License-Identifier: Apache-2.0
// Loops over elements: fused elementwise ops, broadcasts, iotas.
#include <algorithm>
#include <map>

#include "src/codegen/emitter.h"
#include "src/codegen/loop_program.h"

namespace tessera::codegen {
namespace {

using ir::Opcode;
using Value = LoopBuilder::Value;

class Loop {
 public:
  Loop(Emitter& e, const Dims& dims) : e_(e), dims_(dims) {}

  Value value(const ir::Instruction& i, std::int64_t root) {
    const auto it = values_.find(&i);
    if (it != values_.end()) return it->second;
    const Value v = make(i, root);
    values_.emplace(&i, v);
    return v;
  }

  /// Element i of a broadcast, wherever its operand lies.
  Value broadcast(const ir::Instruction& i) {
    const ir::Instruction& source = *i.operand(0);
    if (is_uniform_scalar(source)) return constant(source);
    const Dims& at = i.get<ir::DimensionsAttrs>().dims;
    const Dims own = row_major_strides(source.shape.dims);
    Dims strides(i.shape.dims.size(), 0);
    for (std::size_t d = 0; d < at.size(); ++d) {
      if (source.shape.dim(std::int64_t(d)) > 1) strides[std::size_t(at[d])] = own[d];
    }
    const int before = builder_.input_count();
    const SlotId s = e_.slot(source);
    const Value v = builder_.broadcast(i.shape.dtype, i.shape.dims, strides);
    if (builder_.input_count() != before) inputs_.push_back(s);
    return v;
  }
  Value iota(const ir::Instruction& i) {
    return builder_.iota(i.shape.dtype, i.shape.dims, i.get<ir::IotaAttrs>().dim);
  }

  void finish(const ir::Instruction& root, Value v) {
    builder_.output(v);
    auto program = builder_.finish();
    KernelSpec spec;
    spec.function = run_loop;
    spec.units = root.shape.element_count();
    spec.nanoseconds =
        20 + double(spec.units) * (program->nanoseconds() + 0.1 * double(inputs_.size()));
    spec.attributes = std::move(program);
    std::vector<runtime::KernelTask::Reuse> reuse;
    for (const int k : contiguous_) reuse.push_back({k, 0, false, false});
    auto inputs = inputs_;
    e_.task(root, std::move(spec), std::move(inputs), {e_.result(root)}, std::move(reuse));
  }

 private:
  bool is_uniform_scalar(const ir::Instruction& i) const {
    const auto& known = e_.facts(i).known;
    return i.shape.is_array() && i.shape.element_count() == 1 && known && known->size() == 1;
  }
  Value constant(const ir::Instruction& i) { return builder_.constant((*e_.facts(i).known)[0]); }

  Value make(const ir::Instruction& i, std::int64_t root) {
    if (is_uniform_scalar(i)) return constant(i);
    if (i.is(Opcode::broadcast) && is_uniform_scalar(*i.operand(0))) return constant(*i.operand(0));
    if (!e_.facts(i).known) {
      if (e_.on_the_fly(i)) return i.is(Opcode::iota) ? iota(i) : broadcast(i);
      if (e_.loop_of(i) == root) {
        std::vector<Value> operands;
        for (const ir::Instruction* o : i.operands) operands.push_back(value(*o, root));
        const auto v = builder_.apply(i, operands);
        TESSERA_CHECK(v.has_value(), "no block function for " + i.name);
        return *v;
      }
    }
    // Reshapes of one value are one input.
    const SlotId s = e_.slot(i);
    const auto it = by_slot_.find({s, i.shape.dtype});
    if (it != by_slot_.end()) return it->second;
    inputs_.push_back(s);
    Value v;
    if (i.shape.element_count() == 1 && element_count(dims_) != 1) {
      v = builder_.scalar(i.shape.dtype);
    } else {
      contiguous_.push_back(int(inputs_.size()) - 1);
      v = builder_.contiguous(i.shape.dtype);
    }
    by_slot_.emplace(std::pair{s, i.shape.dtype}, v);
    return v;
  }

  Emitter& e_;
  Dims dims_;
  LoopBuilder builder_;
  std::map<const ir::Instruction*, Value> values_;  // looked up, never walked
  std::map<std::pair<SlotId, DType>, Value> by_slot_;
  std::vector<SlotId> inputs_;
  std::vector<int> contiguous_;
};

}  // namespace

void emit_loop(Emitter& e, const ir::Instruction& root) {
  Loop loop(e, root.shape.dims);
  const Value v = loop.value(root, root.index);
  loop.finish(root, v);
}

bool emit_broadcast(Emitter& e, const ir::Instruction& i) {
  if (i.operand(0)->shape.element_count() == i.shape.element_count()) {
    const Dims& at = i.get<ir::DimensionsAttrs>().dims;
    if (std::is_sorted(at.begin(), at.end())) {
      e.alias(i, e.slots(*i.operand(0)));
      return true;
    }
  }
  Loop loop(e, i.shape.dims);
  loop.finish(i, loop.broadcast(i));
  return true;
}

bool emit_iota(Emitter& e, const ir::Instruction& i) {
  Loop loop(e, i.shape.dims);
  loop.finish(i, loop.iota(i));
  return true;
}

}  // namespace tessera::codegen
