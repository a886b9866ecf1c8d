// SPDX-License-Identifier: Apache-2.0
#include "src/compiler/cost_analysis.h"

#include <algorithm>
#include <cmath>

#include "src/spmd/collectives/count.h"

namespace tessera::compiler {
namespace {

using ir::Opcode;

double elements(const Shape& s) {
  double n = 0;
  for (const Shape& leaf : flatten(s)) n += leaf.is_array() ? double(leaf.element_count()) : 0;
  return n;
}

double flops_of(const ir::Computation& c, std::int64_t devices);

double flops_of(const ir::Instruction& i, std::int64_t devices) {
  switch (i.opcode) {
    case Opcode::dot: {
      double k = 1;
      for (const std::int64_t d : i.get<ir::DotAttrs>().lhs_contracting) {
        k *= double(i.operand(0)->shape.dim(d));
      }
      return 2 * elements(i.shape) * k;
    }
    case Opcode::convolution: {
      const Shape& kernel = i.operand(1)->shape;
      const auto& a = i.get<ir::ConvolutionAttrs>();
      return 2 * elements(i.shape) * elements(kernel) /
             std::max<double>(1, double(kernel.dim(a.kernel_output_feature)));
    }
    case Opcode::reduce:
      return elements(i.operand(0)->shape);
    case Opcode::fft: {
      const double n = elements(i.operand(0)->shape);
      double flops = 0;
      for (const std::int64_t length : i.get<ir::FftAttrs>().lengths) {
        flops += 5 * n * std::log2(std::max<double>(2, double(length)));
      }
      return flops;
    }
    case Opcode::all_reduce:
      return elements(i.shape);
    case Opcode::reduce_scatter:
      return elements(i.shape) *
             double(i.get<ir::CollectiveAttrs>().groups.group_size(devices) - 1);
    case Opcode::while_: {
      const double trips = double(i.get<ir::WhileAttrs>().known_trip_count.value_or(1));
      return trips * (flops_of(*i.called[0], devices) + flops_of(*i.called[1], devices));
    }
    case Opcode::conditional: {
      double most = 0;
      for (const ir::Computation* branch : i.called) {
        most = std::max(most, flops_of(*branch, devices));
      }
      return most;
    }
    case Opcode::call:
    case Opcode::fusion:
      return flops_of(*i.called[0], devices);
    default:
      return ir::is_elementwise(i.opcode) ? elements(i.shape) : 0;
  }
}

double flops_of(const ir::Computation& c, std::int64_t devices) {
  double flops = 0;
  for (const auto& i : c.instructions()) flops += flops_of(*i, devices);
  return flops;
}

}  // namespace

CostAnalysis analyze_cost(const ir::Module& module) {
  return {flops_of(*module.entry(), module.num_partitions),
          spmd::count_communication(module).total_bytes};
}

}  // namespace tessera::compiler
