// SPDX-License-Identifier: Apache-2.0
// Flops, by the op table.
#include "src/cost/work.h"

#include <algorithm>
#include <cmath>

#include "src/ir/analysis/dot_kind.h"

namespace tessera::cost {
namespace {

using ir::Instruction;
using ir::Opcode;
using ir::Work;

double window_elements(const std::vector<ir::WindowDim>& window) {
  double n = 1;
  for (const ir::WindowDim& d : window) n *= double(d.size);
  return n;
}

}  // namespace

double total_elements(const Shape& shape) {
  if (shape.is_array()) return double(shape.element_count());
  double n = 0;
  for (const Shape& element : shape.elements) n += total_elements(element);
  return n;
}

double contraction_flops(const Instruction& i) {
  double flops = 2;
  for (const std::int64_t d : i.shape.dims) flops *= double(d);
  if (i.is(Opcode::dot)) {
    for (const std::int64_t d : i.get<ir::DotAttrs>().lhs_contracting) {
      flops *= double(i.operand(0)->shape.dim(d));
    }
    return flops;
  }
  const std::int64_t out = i.get<ir::ConvolutionAttrs>().kernel_output_feature;
  for (std::int64_t d = 0; d < i.operand(1)->shape.rank(); ++d) {
    if (d != out) flops *= double(i.operand(1)->shape.dim(d));
  }
  return flops;
}

double flops(const Instruction& i, std::int64_t devices) {
  const auto size_of_operand = [&](std::size_t k) { return total_elements(i.operand(k)->shape); };
  switch (ir::info(i.opcode).work) {
    case Work::none:
      return 0;
    case Work::simple:
    case Work::moderate:
    case Work::division:
    case Work::function:
      return total_elements(i.shape);
    case Work::contraction:
      return contraction_flops(i);
    case Work::reduction:
      return size_of_operand(0);
    case Work::window: {
      const double window = window_elements(i.get<ir::WindowAttrs>().dims);
      // One comparison or sum less than there are elements; what is scattered adds one each.
      if (i.is(Opcode::select_and_scatter)) return size_of_operand(1) * window;
      return total_elements(i.shape) * (window - 1);
    }
    case Work::all_reduction:
      // All that come from others on the way: a reduce-scatter's operand less the own part.
      return i.is(Opcode::reduce_scatter)
                 ? total_elements(i.shape) *
                       double(i.get<ir::CollectiveAttrs>().groups.group_size(devices) - 1)
                 : total_elements(i.shape);
    case Work::sort: {
      const double n = double(i.operand(0)->shape.dim(i.get<ir::SortAttrs>().dim));
      return size_of_operand(0) * std::ceil(std::log2(std::max<double>(1, n)));
    }
    case Work::transform: {
      double flops = 0;
      for (const std::int64_t length : i.get<ir::FftAttrs>().lengths) {
        flops += 5 * size_of_operand(0) * std::log2(std::max<double>(2, double(length)));
      }
      return flops;
    }
    case Work::factorization: {
      const double n = double(i.operand(0)->shape.dims.back());
      // n³/3 for each matrix, and n² for each right side.
      return i.operands().size() == 1 ? size_of_operand(0) * n / 3 : size_of_operand(1) * n;
    }
  }
  return 0;
}

double dot_flops(const Instruction& i) {
  // Outer products and products of vectors are to be elementwise work.
  if (i.is(Opcode::dot) && ir::kind_of_dot(i) != ir::DotKind::general) return 0;
  return contraction_flops(i);
}

double layout_work(const Instruction& i) {
  if (ir::info(i.opcode).work == ir::Work::contraction) return contraction_flops(i);
  double elements = std::max(total_elements(i.shape), flops(i, 1));
  for (const Instruction* o : i.operands()) {
    if (o->shape.is_array()) elements = std::max(elements, double(o->shape.element_count()));
  }
  return elements;
}

}  // namespace tessera::cost
