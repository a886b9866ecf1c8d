// SPDX-License-Identifier: Apache-2.0
// Operations that only move elements.
#include <algorithm>
#include <span>

#include "src/base/contains.h"
#include "src/codegen/emit/emitter.h"
#include "src/codegen/kernels/expressions/composed_view.h"
#include "src/codegen/kernels/moves/copy.h"

namespace tessera::codegen {
namespace {

using ir::Opcode;

bool emit_dynamic(Emitter& e, const ir::Instruction& i) {
  const bool update = i.is(Opcode::dynamic_update_slice);
  const Shape& array = i.operand(0)->shape;
  const std::size_t first = update ? 2 : 1;
  DynamicStarts starts;
  starts.first = int(first);
  starts.dims = array.dims;
  starts.sizes = update ? i.operand(1)->shape.dims : i.shape.dims;
  if (i.operands().size() != first + array.dims.size()) return false;
  if (i.operands().size() > first) starts.dtype = i.operand(first)->shape.dtype;
  std::vector<SlotId> inputs;
  for (std::size_t k = 0; k < i.operands().size(); ++k) {
    if (k >= first && i.operand(k)->shape.dtype != starts.dtype) return false;
    inputs.push_back(e.slot(*i.operand(k)));
  }
  const auto element = byte_size(array.dtype);
  if (update) {
    e.task(i, dynamic_update_slice_kernel(starts, element), std::move(inputs), {e.result(i)},
           {{0, 0, true, false}});
  } else {
    e.task(i, dynamic_slice_kernel(starts, element), std::move(inputs), {e.result(i)});
  }
  return true;
}

}  // namespace

bool emit_placement(Emitter& e, const ir::Instruction& i) {
  const MemoryKind to = i.get<ir::DevicePlacementAttrs>().memory;
  const auto bytes = std::int64_t(byte_size(i.shape.dtype));
  Box box;
  box.dims = {i.shape.element_count()};
  box.from_strides = box.to_strides = {bytes};
  e.transfer(i, copy_kernel({std::move(box)}, std::size_t(bytes)), {e.slot(*i.operand(0))}, to);
  return true;
}

bool emit_movement(Emitter& e, const ir::Instruction& i) {
  for (std::size_t k = 0; k < i.operands().size(); ++k) {
    if (!is_data_operand(i, k) || !e.inlined(*i.operand(k))) continue;
    emit_view(e, i);
    return true;
  }
  if (i.is(Opcode::dynamic_slice) || i.is(Opcode::dynamic_update_slice)) return emit_dynamic(e, i);
  const Shape& operand = i.operand(0)->shape;
  const auto element = byte_size(operand.dtype);
  const Dims from = byte_strides(operand.dims, byte_size(operand.dtype)),
             to = byte_strides(i.shape.dims, byte_size(i.shape.dtype));
  std::vector<SlotId> inputs = e.operand_slots(i);
  if (i.is(Opcode::pad)) {
    e.task(i, pad_kernel(operand.dims, i.get<ir::PadAttrs>().dims, element), std::move(inputs),
           {e.result(i)});
    return true;
  }
  std::vector<Box> boxes;
  if (i.is(Opcode::concatenate)) {
    const auto dim = std::size_t(i.get<ir::DimensionsAttrs>().dims.at(0));
    const std::int64_t rows = element_count(std::span(i.shape.dims).first(dim));
    if (rows > 1) {
      std::vector<std::int64_t> bytes;
      for (const ir::Instruction* o : i.operands()) bytes.push_back(o->shape.byte_count() / rows);
      e.task(i, parts_kernel(rows, std::move(bytes)), std::move(inputs), {e.result(i)});
      return true;
    }
    std::int64_t at = 0;
    for (std::size_t k = 0; k < i.operands().size(); ++k) {
      const Shape& part = i.operand(k)->shape;
      boxes.push_back(
          {int(k), 0, at * to[dim], part.dims, byte_strides(part.dims, byte_size(part.dtype)), to});
      at += part.dims[dim];
    }
  } else {
    Box box;
    box.dims = i.shape.dims;
    box.to_strides = to;
    for (std::size_t d = 0; d < to.size(); ++d) {
      if (i.is(Opcode::transpose)) {
        box.from_strides.push_back(from[std::size_t(i.get<ir::DimensionsAttrs>().dims[d])]);
      } else if (i.is(Opcode::slice)) {
        const auto& a = i.get<ir::SliceAttrs>();
        const std::int64_t stride = a.strides.empty() ? 1 : a.strides[d];
        box.from += a.starts[d] * from[d];
        box.from_strides.push_back(from[d] * stride);
      } else {
        const Dims& reversed = i.get<ir::DimensionsAttrs>().dims;
        const bool turn = contains(reversed, std::int64_t(d));
        if (turn) box.from += std::max<std::int64_t>(0, i.shape.dims[d] - 1) * from[d];
        box.from_strides.push_back(turn ? -from[d] : from[d]);
      }
    }
    boxes.push_back(std::move(box));
  }
  e.task(i, copy_kernel(std::move(boxes), element), std::move(inputs), {e.result(i)});
  return true;
}

}  // namespace tessera::codegen
