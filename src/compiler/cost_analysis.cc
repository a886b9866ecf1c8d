// SPDX-License-Identifier: Apache-2.0
#include "src/compiler/cost_analysis.h"

#include <algorithm>
#include <cmath>

namespace tessera::compiler {
namespace {

using ir::Opcode;

double elements(const Shape& s) {
  double n = 0;
  for (const Shape& leaf : flatten(s)) n += leaf.is_array() ? double(leaf.element_count()) : 0;
  return n;
}

CostAnalysis cost_of(const ir::Computation& c, std::int64_t devices);

void add(CostAnalysis* to, const CostAnalysis& what, double times = 1) {
  to->flops += times * what.flops;
  to->bytes_received += times * what.bytes_received;
}

CostAnalysis cost_of(const ir::Instruction& i, std::int64_t devices) {
  CostAnalysis out;
  const auto group = [&] {
    return double(i.get<ir::CollectiveAttrs>().groups.group_size(devices));
  };
  double in = 0;
  for (const ir::Instruction* o : i.operands) in += double(o->shape.byte_count());
  const auto bytes = double(i.shape.byte_count());
  switch (i.opcode) {
    case Opcode::dot: {
      double k = 1;
      for (const std::int64_t d : i.get<ir::DotAttrs>().lhs_contracting) {
        k *= double(i.operand(0)->shape.dim(d));
      }
      out.flops = 2 * elements(i.shape) * k;
      break;
    }
    case Opcode::convolution: {
      const Shape& kernel = i.operand(1)->shape;
      const auto& a = i.get<ir::ConvolutionAttrs>();
      out.flops = 2 * elements(i.shape) * elements(kernel) /
                  std::max<double>(1, double(kernel.dim(a.kernel_output_feature)));
      break;
    }
    case Opcode::reduce:
      out.flops = elements(i.operand(0)->shape);
      break;
    case Opcode::fft: {
      const double n = elements(i.operand(0)->shape);
      for (const std::int64_t length : i.get<ir::FftAttrs>().lengths) {
        out.flops += 5 * n * std::log2(std::max<double>(2, double(length)));
      }
      break;
    }
    case Opcode::all_gather:
      out.bytes_received = bytes * (group() - 1) / group();
      break;
    case Opcode::all_reduce:
      out.bytes_received = 2 * bytes * (group() - 1) / group();
      out.flops = elements(i.shape);
      break;
    case Opcode::reduce_scatter:
      out.bytes_received = bytes * (group() - 1);
      out.flops = elements(i.shape) * (group() - 1);
      break;
    case Opcode::all_to_all:
      out.bytes_received = in * (group() - 1) / group();
      break;
    case Opcode::collective_permute:
    case Opcode::collective_broadcast:
      out.bytes_received = in;
      break;
    case Opcode::while_: {
      const auto trips = i.get<ir::WhileAttrs>().known_trip_count;
      add(&out, cost_of(*i.called[0], devices), double(trips.value_or(1)));
      add(&out, cost_of(*i.called[1], devices), double(trips.value_or(1)));
      break;
    }
    case Opcode::conditional:
      for (const ir::Computation* branch : i.called) {
        const CostAnalysis c = cost_of(*branch, devices);
        out.flops = std::max(out.flops, c.flops);
        out.bytes_received = std::max(out.bytes_received, c.bytes_received);
      }
      break;
    case Opcode::call:
    case Opcode::fusion:
      add(&out, cost_of(*i.called[0], devices));
      break;
    default:
      if (ir::is_elementwise(i.opcode)) out.flops = elements(i.shape);
  }
  return out;
}

CostAnalysis cost_of(const ir::Computation& c, std::int64_t devices) {
  CostAnalysis out;
  for (const auto& i : c.instructions()) add(&out, cost_of(*i, devices));
  return out;
}

}  // namespace

CostAnalysis analyze_cost(const ir::Module& module) {
  return cost_of(*module.entry(), module.num_partitions);
}

}  // namespace tessera::compiler
