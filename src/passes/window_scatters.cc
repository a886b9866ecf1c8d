// SPDX-License-Identifier: Apache-2.0
// A scatter of one window to a place that the program's text names, as `a.at[1:-1, 1:-1].add(b)`
// is, is an elementwise op with the padded window: computed where the array is, from halos.
#include "src/passes/window_scatters.h"

#include <algorithm>
#include <optional>

#include "src/base/contains.h"
#include "src/base/literal_util.h"
#include "src/ir/rewrite/builder.h"
#include "src/passes/replace_each.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

/// Of the array, what the window covers at least: each element is written, not the window alone.
constexpr std::int64_t kLeastShare = 8;

/// The elements of a small array of integers, if the program's text says them.
std::optional<Dims> integers_of(const Instruction& i, int depth = 0) {
  if (depth > 8 || !i.shape.is_array() || !is_integer(i.shape.dtype) ||
      i.shape.dtype == DType::u64 || i.shape.element_count() > 16) {
    return std::nullopt;
  }
  const auto only_operand = [&]() -> std::optional<Dims> {
    if (i.operand(0)->shape.dtype != i.shape.dtype) return std::nullopt;
    return integers_of(*i.operand(0), depth + 1);
  };
  Dims all;
  switch (i.opcode) {
    case Opcode::constant: {
      const auto& c = i.get<ir::ConstantAttrs>();
      if (c.elided) return std::nullopt;
      for (const std::int64_t n : to_vector<std::int64_t>(c.value)) all.push_back(n);
      return all;
    }
    case Opcode::copy:
    case Opcode::reshape:
    case Opcode::bitcast:
      return only_operand();
    case Opcode::broadcast: {
      const auto one = only_operand();
      if (!one || one->size() != 1) return std::nullopt;
      return Dims(std::size_t(i.shape.element_count()), one->front());
    }
    case Opcode::concatenate:
      if (i.shape.rank() != 1) return std::nullopt;
      for (const Instruction* o : i.operands()) {
        const auto part = integers_of(*o, depth + 1);
        if (!part) return std::nullopt;
        all.insert(all.end(), part->begin(), part->end());
      }
      return all;
    default:
      return std::nullopt;
  }
}

/// Where the window is: around it, to the array's edges.
struct Window {
  Dims sizes;  ///< with the dims that the updates lack
  std::vector<ir::PadDim> around;
};

std::optional<Window> window_of(const Instruction& scatter) {
  const auto& attrs = scatter.get<ir::ScatterAttrs>();
  if (scatter.operands().size() != 3 || !attrs.input_batching_dims.empty()) return std::nullopt;
  const Dims &array = scatter.operand(0)->shape.dims, &update = scatter.operand(2)->shape.dims;
  const std::optional<Dims> starts = integers_of(*scatter.operand(1));
  if (!starts || starts->size() != attrs.scatter_dims_to_operand_dims.size()) return std::nullopt;
  Window w{Dims(array.size(), 1), std::vector<ir::PadDim>(array.size())};
  bool partial = false;
  for (std::size_t d = 0, next = 0; d < array.size(); ++d) {
    const auto dim = std::int64_t(d);
    const Dims& inserted = attrs.inserted_window_dims;
    if (!contains(inserted, dim)) {
      w.sizes[d] = update[std::size_t(attrs.update_window_dims.at(next++))];
      partial = partial || w.sizes[d] < array[d];
    }
    const Dims& named = attrs.scatter_dims_to_operand_dims;
    const auto at = std::find(named.begin(), named.end(), dim);
    const std::int64_t low = at == named.end() ? 0 : (*starts)[std::size_t(at - named.begin())];
    // One that leaves the array is dropped whole: left to who knows that.
    if (low < 0 || low > array[d] - w.sizes[d]) return std::nullopt;
    w.around[d] = {low, array[d] - w.sizes[d] - low, 0};
  }
  const std::int64_t covered = scatter.operand(2)->shape.element_count();
  if (!partial || covered * kLeastShare < scatter.operand(0)->shape.element_count()) {
    return std::nullopt;
  }
  return w;
}

bool overwrites(const ir::Computation& c) { return c.root() == c.parameter(1); }

/// What leaves every element as it is, bit by bit. Null: there is no such number.
Instruction* nothing(ir::Builder& b, Opcode op, DType dtype) {
  if (is_complex(dtype)) return nullptr;
  if (op == Opcode::add && is_floating(dtype)) return b.scalar(dtype, -0.0);
  const std::optional<Literal> identity = ir::identity_of(op, dtype);
  return identity ? b.constant(*identity) : nullptr;
}

Instruction* elementwise(const Instruction& scatter, ir::Builder& b) {
  if (!scatter.control_predecessors().empty()) return nullptr;
  const std::optional<Window> w = window_of(scatter);
  if (!w) return nullptr;
  Instruction* array = scatter.operands()[0];
  const Dims& dims = array->shape.dims;
  const DType dtype = array->shape.dtype;
  if (!ir::identity_of(Opcode::add, dtype)) return nullptr;  // a type without numbers of its own
  const ir::Computation& combiner = *scatter.called().front();
  if (const auto op = ir::as_binary_reducer(combiner)) {
    Instruction* fill = nothing(b, *op, dtype);
    if (fill == nullptr) return nullptr;
    return b.binary(*op, array, b.pad(b.reshape(scatter.operands()[2], w->sizes), fill, w->around));
  }
  if (!overwrites(combiner)) return nullptr;
  Instruction* inside = nullptr;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const ir::PadDim& around = w->around[d];
    if (w->sizes[d] == dims[d]) continue;
    Instruction* place = b.iota(Shape(DType::s32, dims), std::int64_t(d));
    const auto bound = [&](ir::Direction direction, std::int64_t at) {
      Instruction* here =
          b.compare(direction, place, b.splat(b.scalar(DType::s32, double(at)), dims));
      inside = inside ? b.binary(Opcode::and_, inside, here) : here;
    };
    if (around.low > 0) bound(ir::Direction::ge, around.low);
    if (around.high > 0) bound(ir::Direction::lt, dims[d] - around.high);
  }
  Instruction* padded = b.pad(b.reshape(scatter.operands()[2], w->sizes), b.zero(dtype), w->around);
  return b.select(inside, padded, array);
}

}  // namespace

std::size_t expand_window_scatters(ir::Module* module) {
  return replace_each(module, Opcode::scatter, elementwise);
}

}  // namespace tessera::passes
