// SPDX-License-Identifier: Apache-2.0
// Loops, branches and collectives.
#include <algorithm>

#include "src/codegen/emit/emitter.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/owned.h"
#include "src/codegen/kernels/reductions/combine.h"
#include "src/evaluator/evaluator.h"

namespace tessera::codegen {

using ir::Opcode;
using runtime::DeviceLists;
using runtime::Exchange;

bool emit_while(Emitter& e, const ir::Instruction& i) {
  const std::vector<SlotId> init = e.slots(*i.operand(0));
  const std::vector<SlotId> carried = e.results(i);
  runtime::While loop;
  for (std::size_t k = 0; k < init.size(); ++k) loop.init.push_back({init[k], carried[k], false});
  Emitter condition(&e.state(), *i.called().at(0), e.called_facts(i, 0), &loop.condition);
  loop.predicate = condition.run({carried}).at(0);
  Emitter body(&e.state(), *i.called().at(1), e.called_facts(i, 1), &loop.body);
  const std::vector<SlotId> next = body.run({carried});
  for (std::size_t k = 0; k < next.size(); ++k) loop.next.push_back({next[k], carried[k], false});
  loop.trips = i.get<ir::WhileAttrs>().known_trip_count.value_or(0);
  e.step(i, std::move(loop));
  return true;
}

bool emit_conditional(Emitter& e, const ir::Instruction& i) {
  runtime::Conditional conditional;
  conditional.selector = e.slot(*i.operand(0));
  conditional.boolean = i.operand(0)->shape.dtype == DType::pred;
  const std::vector<SlotId> results = e.results(i);
  for (std::size_t b = 0; b < i.called().size(); ++b) {
    runtime::Branch branch;
    std::vector<SlotId> own;
    for (const SlotId s : e.slots(*i.operand(b + 1))) {
      const runtime::Slot slot = e.state().plan().slots[std::size_t(s)];
      own.push_back(e.temporary(slot.bytes, slot.classes));
      branch.parameters.push_back({s, own.back(), false});
    }
    Emitter inner(&e.state(), *i.called()[b], e.called_facts(i, b), &branch.block);
    const std::vector<SlotId> given = inner.run({own});
    for (std::size_t k = 0; k < given.size(); ++k) {
      branch.results.push_back({given[k], results[k], false});
    }
    conditional.branches.push_back(std::move(branch));
  }
  e.step(i, std::move(conditional));
  return true;
}

namespace {

Exchange::Kind kind_of(const ir::Instruction& i) {
  switch (i.opcode) {
    case Opcode::all_gather:
      return Exchange::Kind::all_gather;
    case Opcode::all_reduce:
      return Exchange::Kind::all_reduce;
    case Opcode::reduce_scatter:
      return Exchange::Kind::reduce_scatter;
    case Opcode::all_to_all:
      return i.shape.is_tuple ? Exchange::Kind::all_to_all_tuple : Exchange::Kind::all_to_all;
    case Opcode::collective_permute:
      return Exchange::Kind::collective_permute;
    default:
      return Exchange::Kind::collective_broadcast;
  }
}

void run_slowly(const void* attributes, std::byte* into, const std::byte* value,
                std::int64_t count) {
  const auto& reducer = *static_cast<const ir::Computation*>(attributes);
  const Shape shape(reducer.parameters().at(0)->shape.dtype, {});
  const auto bytes = byte_size(shape.dtype);
  for (std::int64_t k = 0; k < count; ++k, into += bytes, value += bytes) {
    const Literal operands[] = {Literal(shape, {into, bytes}), Literal(shape, {value, bytes})};
    const Literal result = evaluator::evaluate(reducer, operands);
    std::copy_n(result.bytes(), bytes, into);
  }
}

/// A reducer that has no block functions, element by element on the evaluator.
CombineDescriptor combine_slowly(const ir::Computation& reducer) {
  auto copy = owned_copy(reducer);
  std::string key = kernel_key("evaluator-combine", canonical_text(*copy));
  return {std::move(key), [copy] { return runtime::Combiner{run_slowly, copy}; }};
}

}  // namespace

bool emit_collective(Emitter& e, const ir::Instruction& i) {
  Exchange x;
  x.kind = kind_of(i);
  const std::int64_t n = e.state().module->num_partitions;
  const bool one_view = e.state().plan().num_devices < n;
  std::int64_t dim = -1;
  auto group_size = std::int64_t(1);
  if (one_view) {
    // One device's view: only the size of its group counts.
    x.groups = DeviceLists(i.is(Opcode::collective_permute) ? DeviceLists::Lists{{0, 0}}
                                                            : DeviceLists::Lists{{0}});
    if (const auto* attrs = i.attrs.get_if<ir::CollectiveAttrs>()) {
      group_size = attrs->groups.group_size(n);
      if (!attrs->dims.empty()) dim = attrs->dims[0];
    }
  } else if (i.is(Opcode::collective_permute)) {
    const auto& pairs = i.get<ir::PermuteAttrs>().source_target_pairs;
    auto [it, fresh] = e.state().permutes.try_emplace(pairs);
    if (fresh) {
      DeviceLists::Lists lists;
      for (const auto& [source, target] : pairs) {
        lists.push_back({std::int32_t(source), std::int32_t(target)});
      }
      it->second = DeviceLists(std::move(lists));
    }
    x.groups = it->second;
  } else {
    const auto& attrs = i.get<ir::CollectiveAttrs>();
    const auto expanded = [&] {
      DeviceLists::Lists lists;
      for (const auto& group : attrs.groups.expand(n)) {
        lists.emplace_back(group.begin(), group.end());
      }
      return DeviceLists(std::move(lists));
    };
    if (attrs.groups.symbolic()) {
      auto [it, fresh] = e.state().groups.try_emplace({attrs.groups.mesh.get(), attrs.groups.axes});
      if (fresh) it->second = expanded();
      x.groups = it->second;
    } else {
      x.groups = expanded();
    }
    if (!attrs.dims.empty()) dim = attrs.dims[0];
  }
  if (x.kind == Exchange::Kind::all_reduce || x.kind == Exchange::Kind::reduce_scatter) {
    CombineDescriptor combine = combine_function(*i.called().at(0));
    if (!combine) {
      combine = combine_slowly(*i.called()[0]);
      e.state().built->evaluator_ops.push_back(i.describe() + ", its reducer");
    }
    x.combiner = e.state().kernels->add(combine);
  }
  if (!one_view && !x.groups.empty()) group_size = std::int64_t(x.groups[0].size());
  const std::vector<Shape> leaves = flatten(i.shape);
  for (std::size_t k = 0; k < i.operands().size(); ++k) {
    const Shape& operand = i.operand(k)->shape;
    Exchange::Part part;
    part.input = e.slot(*i.operand(k));
    part.output = e.result(i, k);
    x.element_bytes = std::int64_t(byte_size(operand.dtype));
    // The shape of which one device's part is cut: see Exchange::Part.
    const Shape& cut = x.kind == Exchange::Kind::reduce_scatter ? leaves[k] : operand;
    part.chunk = cut.byte_count();
    if (dim >= 0 &&
        (x.kind == Exchange::Kind::all_gather || x.kind == Exchange::Kind::reduce_scatter ||
         x.kind == Exchange::Kind::all_to_all)) {
      for (std::int64_t d = 0; d < dim; ++d) part.outer *= cut.dim(d);
      part.chunk = part.outer == 0 ? 0 : part.chunk / part.outer;
      if (x.kind == Exchange::Kind::all_to_all) part.chunk /= group_size;
    }
    x.parts.push_back(part);
  }
  e.step(i, std::move(x));
  return true;
}

}  // namespace tessera::codegen
