// SPDX-License-Identifier: Apache-2.0
// Emits a custom call as one kernel, parallel over its batch units.
#include "src/codegen/custom_calls/call_kernel.h"

#include "src/codegen/custom_calls/call_kernels.h"

namespace tessera::codegen {
namespace {

struct CallAttrs {
  PreparedCall call;
  std::vector<Shape> operands, results;
};

void run_call(const runtime::KernelCall& call) {
  const auto& attrs = *static_cast<const CallAttrs*>(call.attributes);
  std::vector<BufferView> operands;
  std::vector<MutableBufferView> results;
  operands.reserve(attrs.operands.size());
  results.reserve(attrs.results.size());
  for (std::size_t i = 0; i < attrs.operands.size(); ++i) {
    const Shape& s = attrs.operands[i];
    operands.emplace_back(s.dtype, std::span<const std::int64_t>(s.dims), call.inputs[i]);
  }
  for (std::size_t i = 0; i < attrs.results.size(); ++i) {
    const Shape& s = attrs.results[i];
    results.emplace_back(s.dtype, std::span<const std::int64_t>(s.dims), call.outputs[i]);
  }
  attrs.call.run(operands, results, call.begin, call.end);
}

}  // namespace

KernelDescriptor call_kernel(const ir::Instruction& call) {
  CallAttrs attrs;
  attrs.call = prepare_call(call);
  for (const ir::Instruction* o : call.operands()) {
    for (Shape& leaf : flatten(o->shape)) attrs.operands.push_back(std::move(leaf));
  }
  attrs.results = flatten(call.shape);
  KernelDescriptor kernel;
  kernel.units = attrs.call.units;
  kernel.nanoseconds = attrs.call.nanoseconds;
  kernel.make = kernel_maker(run_call, std::move(attrs));
  return kernel;
}

}  // namespace tessera::codegen
