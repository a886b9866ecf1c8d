// SPDX-License-Identifier: Apache-2.0
// Operations that move elements.
#include <algorithm>
#include <numeric>
#include <optional>

#include "src/base/contains.h"
#include "src/text/read/conversions.h"

namespace tessera::text {

using ir::Instruction;
using ir::Opcode;

void Conversions::iota(Operation& op) {
  need_results(op, 1);
  // dynamic_iota's operand is its shape, which the result says too.
  need_operands(op, 0, 1);
  set(op, Opcode::iota, {}, ir::IotaAttrs{integer(op, "iota_dimension")});
}

void Conversions::broadcast(Operation& op) {
  need_operands(op, 1, 1);
  need_results(op, 1);
  Dims dims(op.operands[0]->shape.dims.size());
  auto added = integers(op, "broadcast_sizes").size();
  std::iota(dims.begin(), dims.end(), std::int64_t(added));
  op.values.push_back(broadcast_to(op, op.operands[0], *op.results[0], dims));
}

void Conversions::broadcast_in_dim(Operation& op) {
  need_operands(op, 1, 2);
  need_results(op, 1);
  if (op.operands[0]->shape.dtype != op.results[0]->dtype) {
    fail(op, "makes " + mlir_type(*op.results[0]) + " of " + mlir_type(op.operands[0]->shape));
  }
  Instruction* x =
      broadcast_to(op, op.operands[0], *op.results[0], integers(op, "broadcast_dimensions"));
  op.operands[0] = x;
  if (x->parent == current() && !op.attributes.empty()) {
    op.operands.resize(1);
    identity(op);
  } else {
    op.values.push_back(x);
  }
}

void Conversions::transpose(Operation& op) {
  need_operands(op, 1, 1);
  set(op, Opcode::transpose, op.operands, ir::DimensionsAttrs{integers(op, "permutation")});
}

void Conversions::reverse(Operation& op) {
  need_operands(op, 1, 1);
  set(op, Opcode::reverse, op.operands, ir::DimensionsAttrs{integers(op, "dimensions")});
}

void Conversions::reshape(Operation& op) {
  need_operands(op, 1, 2);  // dynamic_reshape has the shape as an operand too
  set(op, Opcode::reshape, {op.operands[0]});
}

void Conversions::slice(Operation& op) {
  need_operands(op, 1, 1);
  ir::SliceAttrs a;
  if (const Attribute* ranges = op.find("ranges")) {
    const char* back = in_.position();
    in_.seek(ranges->value.data());
    in_.expect('[', "before the ranges");
    if (!in_.accept(']')) {
      do {
        a.starts.push_back(in_.integer("the start of a range"));
        in_.expect(':', "after the start of a range");
        a.limits.push_back(in_.integer("the limit of a range"));
        a.strides.push_back(in_.accept(':') ? in_.integer("the stride of a range") : 1);
      } while (in_.accept(','));
      in_.expect(']', "after the ranges");
    }
    in_.seek(back);
  } else {
    a.starts = integers(op, "start_indices");
    a.limits = integers(op, "limit_indices");
    a.strides = integers_or(op, "strides", Dims(a.starts.size(), 1));
  }
  set(op, Opcode::slice, op.operands, std::move(a));
}

namespace {

// A slice that leads out of the array is taken beside its end, as that of dynamic_slice.
void move_inside(const Shape& x, Dims* starts, Dims* limits) {
  for (std::size_t d = 0; d < x.dims.size() && d < starts->size() && d < limits->size(); ++d) {
    const std::int64_t size = (*limits)[d] - (*starts)[d];
    if (size < 0 || size > x.dims[d]) continue;  // shape inference refuses it
    (*starts)[d] = std::clamp<std::int64_t>((*starts)[d], 0, x.dims[d] - size);
    (*limits)[d] = (*starts)[d] + size;
  }
}

}  // namespace

void Conversions::real_dynamic_slice(Operation& op) {
  need_operands(op, 4, 4);
  need_results(op, 1);
  Dims strides = constant_integers(op, 3);
  std::optional<Dims> starts = known_.of(*op.operands[1]);
  if (starts) {
    if (std::optional<Dims> limits = known_.of(*op.operands[2])) {
      move_inside(op.operands[0]->shape, &*starts, &*limits);
      ir::SliceAttrs a{*std::move(starts), *std::move(limits), std::move(strides)};
      set(op, Opcode::slice, {op.operands[0]}, std::move(a));
      return;
    }
  }
  // From starts that are known at run time, as many elements as the result has.
  const Shape& x = op.operands[0]->shape;
  Instruction* from = op.operands[1];
  const Dims& sizes = op.results[0]->dims;
  if (from->shape.dims != Dims{x.rank()} || sizes.size() != x.dims.size() ||
      strides.size() != x.dims.size()) {
    fail(op, "takes " + mlir_type(*op.results[0]) + " of " + mlir_type(x) +
                 " from starts and by strides that don't have one number for each dim");
  }
  Dims window;
  std::vector<Instruction*> operands{op.operands[0]};
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const std::int64_t n = std::int64_t(d);
    if (strides[d] < 1) fail(op, "has the stride " + std::to_string(strides[d]));
    window.push_back(sizes[d] == 0 ? 0 : (sizes[d] - 1) * strides[d] + 1);
    if (window[d] > x.dims[d]) {
      fail(op, "takes " + std::to_string(window[d]) + " elements of dim " + std::to_string(d) +
                   " of " + mlir_type(x));
    }
    Instruction* start = add(op, Opcode::slice, Shape(from->shape.dtype, {1}), {from},
                             ir::SliceAttrs{{n}, {n + 1}, {1}});
    operands.push_back(add(op, Opcode::reshape, Shape(from->shape.dtype, {}), {start}));
  }
  const bool strided = window != sizes;
  if (!strided) {
    set(op, Opcode::dynamic_slice, std::move(operands), ir::DynamicSliceAttrs{std::move(window)});
    return;
  }
  Instruction* part = add(op, Opcode::dynamic_slice, Shape(x.dtype, window), std::move(operands),
                          ir::DynamicSliceAttrs{window});
  set(op, Opcode::slice, {part},
      ir::SliceAttrs{Dims(window.size(), 0), std::move(window), std::move(strides)});
}

void Conversions::dynamic_slice(Operation& op) {
  need_operands(op, 1, 1 << 10);
  set(op, Opcode::dynamic_slice, op.operands, ir::DynamicSliceAttrs{integers(op, "slice_sizes")});
}

void Conversions::dynamic_update_slice(Operation& op) {
  need_operands(op, 2, 1 << 10);
  set(op, Opcode::dynamic_update_slice, op.operands);
}

void Conversions::concatenate(Operation& op) {
  need_operands(op, 1, std::size_t(1) << 30);
  set(op, Opcode::concatenate, op.operands, ir::DimensionsAttrs{{integer(op, "dimension")}});
}

void Conversions::pad(Operation& op) {
  need_operands(op, 2, 2);
  Dims low = integers(op, "edge_padding_low"), high = integers(op, "edge_padding_high"),
       interior = integers_or(op, "interior_padding", Dims(low.size(), 0));
  if (high.size() != low.size() || interior.size() != low.size()) {
    fail(op, "has low, high and interior paddings of different lengths");
  }
  ir::PadAttrs a;
  for (std::size_t n = 0; n < low.size(); ++n) a.dims.push_back({low[n], high[n], interior[n]});
  set(op, Opcode::pad, op.operands, std::move(a));
}

void Conversions::dynamic_pad(Operation& op) {
  need_operands(op, 5, 5);
  Dims low = constant_integers(op, 2), high = constant_integers(op, 3),
       interior = constant_integers(op, 4);
  if (high.size() != low.size() || interior.size() != low.size()) {
    fail(op, "has low, high and interior paddings of different lengths");
  }
  ir::PadAttrs a;
  for (std::size_t n = 0; n < low.size(); ++n) a.dims.push_back({low[n], high[n], interior[n]});
  set(op, Opcode::pad, {op.operands[0], op.operands[1]}, std::move(a));
}

/// Of a gather whose slice sizes are known only at run time: the result says them all.
Dims Conversions::slice_sizes_of_result(Operation& op, const ir::GatherAttrs& a) {
  need_results(op, 1);
  const std::int64_t rank = op.operands[0]->shape.rank();
  if (op.operands[2]->shape.dims != Dims{rank}) {
    fail(op, "has slice sizes of " + mlir_type(op.operands[2]->shape) +
                 "; valid: one for each dim of " + mlir_type(op.operands[0]->shape));
  }
  Dims sizes;
  std::size_t next = 0;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (contains(a.collapsed_slice_dims, d) || contains(a.operand_batching_dims, d)) {
      sizes.push_back(1);
      continue;
    }
    const std::int64_t at = next < a.offset_dims.size() ? a.offset_dims[next++] : -1;
    if (at < 0 || at >= op.results[0]->rank()) {
      fail(op, "has offset_dims that don't name a dim of the result for each dim of a slice");
    }
    sizes.push_back(op.results[0]->dim(at));
  }
  return sizes;
}

void Conversions::gather(Operation& op) {
  need_operands(op, 2, 3);
  ir::GatherAttrs a;
  const Operation numbers = fields_or_own(op, "dimension_numbers");
  a.offset_dims = integers_or(numbers, "offset_dims", {});
  a.collapsed_slice_dims = integers_or(numbers, "collapsed_slice_dims", {});
  a.start_index_map = integers_or(numbers, "start_index_map", {});
  a.operand_batching_dims = integers_or(numbers, "operand_batching_dims", {});
  a.start_indices_batching_dims = integers_or(numbers, "start_indices_batching_dims", {});
  a.index_vector_dim = integer_or(numbers, "index_vector_dim", 0);
  if (op.operands.size() == 3) {
    const std::optional<Dims> sizes = known_.of(*op.operands[2]);
    a.slice_sizes = sizes ? *sizes : slice_sizes_of_result(op, a);
  } else {
    a.slice_sizes = integers(op, "slice_sizes");
  }
  a.indices_are_sorted = flag(op, "indices_are_sorted", false);
  set(op, Opcode::gather, {op.operands[0], op.operands[1]}, std::move(a));
}

void Conversions::scatter(Operation& op) {
  need_regions(op, 1);
  ir::ScatterAttrs a;
  const Operation numbers = fields_or_own(op, "scatter_dimension_numbers");
  a.update_window_dims = integers_or(numbers, "update_window_dims", {});
  a.inserted_window_dims = integers_or(numbers, "inserted_window_dims", {});
  a.scatter_dims_to_operand_dims = integers_or(numbers, "scatter_dims_to_operand_dims", {});
  a.input_batching_dims = integers_or(numbers, "input_batching_dims", {});
  a.scatter_indices_batching_dims = integers_or(numbers, "scatter_indices_batching_dims", {});
  a.index_vector_dim = integer_or(numbers, "index_vector_dim", 0);
  a.indices_are_sorted = flag(op, "indices_are_sorted", false);
  a.unique_indices = flag(op, "unique_indices", false);
  scatter_with(op, std::move(a));
}

void Conversions::dimension_size(Operation& op) {
  need_operands(op, 1, 2);
  std::int64_t dim = integer(op, "dimension");
  if (op.info->opcode == Opcode::set_dimension_size && cut_dimension(op, dim)) return;
  set(op, op.info->opcode, op.operands, ir::DimensionsAttrs{{dim}});
}

// Sets a size that is known: what is left is a slice. False if it is the size that the dim has, or
// may be.
bool Conversions::cut_dimension(Operation& op, std::int64_t dim) {
  if (op.operands.size() != 2 || op.results.size() != 1) return false;
  Instruction* x = op.operands[0];
  const std::optional<Dims> size = known_.of(*op.operands[1]);
  if (dim < 0 || dim >= x->shape.rank()) return false;
  if (!size || size->size() != 1) {
    if (!is_open(*op.results[0])) return false;
    not_supported(op,
                  "sets dim " + std::to_string(dim) + " of " + mlir_type(x->shape) +
                      " to a size that only the running program knows; valid: sizes that follow "
                      "from the arguments', as those of masks in place of what gives a size "
                      "that depends on elements (nonzero, where, unique, boolean_mask)");
  }
  const std::int64_t present = x->shape.dim(dim), next = size->front();
  if (next == present) return false;
  if (next < 0 || next > present) {
    fail(op, "sets dim " + std::to_string(dim) + " of " + mlir_type(x->shape) + " to size " +
                 std::to_string(next) + "; valid: sizes up to " + std::to_string(present));
  }
  ir::SliceAttrs a;
  a.starts.assign(x->shape.dims.size(), 0);
  a.strides.assign(x->shape.dims.size(), 1);
  a.limits = x->shape.dims;
  a.limits[std::size_t(dim)] = next;
  const Shape cut(x->shape.dtype, a.limits);
  if (!fits(*op.results[0], cut)) return false;
  op.results[0] = types_.closed(op.results[0], cut);
  set(op, Opcode::slice, {x}, std::move(a));
  return true;
}

void Conversions::torch_index_select(Operation& op) {
  // Rows of one dim by index: a gather.
  need_operands(op, 2, 2);
  need_results(op, 1);
  std::int64_t dim = integer(op, "dim"), batch = integer_or(op, "batch_dims", 0);
  const Shape& x = op.operands[0]->shape;
  const Shape& index = op.operands[1]->shape;
  if (dim < 0 || dim >= x.rank() || batch < 0 || batch > std::min(dim, index.rank())) {
    fail(op, "has dim " + std::to_string(dim) + " and " + std::to_string(batch) +
                 " batch dims on " + mlir_type(x));
  }
  ir::GatherAttrs a;
  a.slice_sizes = x.dims;
  a.slice_sizes[std::size_t(dim)] = 1;
  a.collapsed_slice_dims = {dim};
  a.start_index_map = {dim};
  a.index_vector_dim = index.rank();
  for (std::int64_t d = 0; d < batch; ++d) {
    a.slice_sizes[std::size_t(d)] = 1;
    a.operand_batching_dims.push_back(d);
    a.start_indices_batching_dims.push_back(d);
  }
  for (std::int64_t d = 0; d < op.results[0]->rank(); ++d) {
    // Result: dims of x before `dim`, the other dims of the index, dims of x behind.
    bool of_index = d < batch || (d >= dim && d < dim + index.rank() - batch);
    if (!of_index) a.offset_dims.push_back(d);
  }
  set(op, Opcode::gather, op.operands, std::move(a));
}

}  // namespace tessera::text
