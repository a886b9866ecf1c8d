// SPDX-License-Identifier: Apache-2.0
// A table of sums for each block of rows, and the sum of these.
#include "src/codegen/kernels/reductions/segment_sums.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "src/base/contains.h"
#include "src/base/threads/thread_scratch.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/prices.h"
#include "src/codegen/kernels/products/row_sums.h"
#include "src/ir/analysis/indexed_dims.h"
#include "src/ir/rewrite/builder.h"

namespace tessera::codegen {
namespace {

using runtime::KernelCall;

struct TableAttrs {
  std::int64_t entries = 1, rows = 1, columns = 1;
};

/// Adds rows [begin, end) of all tables' rows, which are of one, to its sums. Many numbers go to a
/// few entries: they are summed in f64 first.
void add_rows(const TableAttrs& a, const KernelCall& call, std::int64_t begin, std::int64_t end,
              float* sums) {
  struct Wide {
    std::vector<double> sums;
  };
  std::vector<double>& wide = thread_scratch<Wide>().sums;
  wide.assign(std::size_t(a.entries), 0);
  const auto* updates = reinterpret_cast<const float*>(call.inputs[0]);
  const auto* indices = reinterpret_cast<const std::int32_t*>(call.inputs[1]);
  for (std::int64_t r = begin; r < end; ++r) {
    const float* row = updates + r * a.columns;
    const std::int32_t* at = indices + r % a.rows * a.columns;
    for (std::int64_t k = 0; k < a.columns; ++k) {
      // What is outside is dropped, negative numbers among it.
      const auto entry = std::uint32_t(at[k]);
      if (std::int64_t(entry) < a.entries) wide[entry] += double(row[k]);
    }
  }
  for (std::int64_t k = 0; k < a.entries; ++k)
    sums[k] = float(double(sums[k]) + wide[std::size_t(k)]);
}

void run_rows(const KernelCall& call) {
  const auto& a = *static_cast<const TableAttrs*>(call.attributes);
  add_rows(a, call, call.begin, call.end, reinterpret_cast<float*>(call.outputs[0]));
}

/// Units are tables.
void run_tables(const KernelCall& call) {
  const auto& a = *static_cast<const TableAttrs*>(call.attributes);
  auto* tables = reinterpret_cast<float*>(call.outputs[0]);
  for (std::int64_t t = call.begin; t < call.end; ++t) {
    std::fill_n(tables + t * a.entries, a.entries, 0.f);
    add_rows(a, call, t * a.rows, (t + 1) * a.rows, tables + t * a.entries);
  }
}

bool is_zero(const ir::Instruction& x) {
  const ir::Instruction* c = &x;
  while (c->is(ir::Opcode::broadcast) || c->is(ir::Opcode::reshape)) c = c->operand(0);
  if (!c->is(ir::Opcode::constant) || !c->shape.is_scalar()) return false;
  const auto& attrs = c->get<ir::ConstantAttrs>();
  return !attrs.elided && attrs.value.data<float>()[0] == 0;
}

}  // namespace

KernelDescriptor segment_sums_kernel(const ir::Instruction& scatter) {
  if (scatter.operands().size() != 3 || scatter.shape.dtype != DType::f32 ||
      scatter.shape.rank() < 2 || scatter.shape.element_count() == 0) {
    return {};
  }
  const ir::IndexedDims dims = ir::indexed_dims(scatter);
  const Shape &indices = scatter.operand(1)->shape, &updates = scatter.operand(2)->shape;
  // Tables are the array's first dims, and the updates'; entries its last one.
  const std::int64_t outer = scatter.shape.rank() - 1;
  if (dims.mapped != Dims{outer} || !dims.batching.empty() ||
      std::int64_t(dims.window.size()) != outer || contains(dims.window, outer) ||
      dims.batch.size() < 2 || dims.batch.front() != outer ||
      dims.vector_dim != std::int64_t(dims.batch.size()) || indices.dtype != DType::s32 ||
      updates.element_count() == 0 ||
      ir::as_binary_reducer(*scatter.called().front()) != ir::Opcode::add ||
      !is_zero(*scatter.operand(0))) {
    return {};
  }
  for (std::int64_t d = 0; d < outer; ++d) {
    if (dims.sizes[std::size_t(d)] != scatter.shape.dim(d)) return {};
  }
  const std::int64_t tables = scatter.shape.element_count() / scatter.shape.dim(outer),
                     columns = dims.batch_sizes.back();
  const TableAttrs a{scatter.shape.dim(outer), element_count(dims.batch_sizes) / columns, columns};
  KernelDescriptor kernel;
  kernel.units = tables;
  kernel.nanoseconds =
      prices::call::kSums + prices::index::kTableUpdate * double(updates.element_count());
  kernel.access = Accesses::by_units({false, false});
  kernel.key = kernel_key("segment-sums", a.entries, a.rows, a.columns);
  kernel.make = kernel_maker(run_tables, a);
  auto sums = std::make_shared<RowSums>();
  sums->sizes = {tables, a.rows, a.entries, 1, {true, false}};
  sums->key = kernel_key("table-row-sums", a.entries, a.rows, a.columns);
  sums->make = kernel_maker(run_rows, a);
  kernel.row_sums = std::move(sums);
  return kernel;
}

}  // namespace tessera::codegen
