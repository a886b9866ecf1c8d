// SPDX-License-Identifier: Apache-2.0
// A kernel that runs one instruction on the reference evaluator.
#include "src/codegen/kernels/evaluator_call.h"

#include <cstring>

#include "src/codegen/kernels/prices.h"
#include "src/evaluator/evaluator.h"

namespace tessera::codegen {
namespace {

Literal read(const Shape& shape, const std::byte* const** next) {
  if (!shape.is_tuple) {
    const std::byte* bytes = *(*next)++;
    return Literal(Shape(shape.dtype, shape.dims), {bytes, std::size_t(shape.byte_count())});
  }
  std::vector<Literal> elements;
  for (const Shape& s : shape.elements) elements.push_back(read(s, next));
  return Literal::tuple(std::move(elements));
}

void write(const Literal& value, std::byte* const** next) {
  if (!value.is_tuple()) {
    std::byte* to = *(*next)++;
    if (value.byte_count() > 0) std::memcpy(to, value.bytes(), value.byte_count());
    return;
  }
  for (const Literal& e : value.elements()) write(e, next);
}

void run_evaluator(const runtime::KernelCall& call) {
  const auto& instruction = *static_cast<const ir::Instruction*>(call.attributes);
  std::vector<Literal> operands;
  const std::byte* const* in = call.inputs;
  for (const ir::Instruction* o : instruction.operands()) operands.push_back(read(o->shape, &in));
  const Literal result = evaluator::evaluate_instruction(instruction, operands);
  std::byte* const* out = call.outputs;
  write(result, &out);
}

}  // namespace

KernelDescriptor evaluator_kernel(std::shared_ptr<const ir::Instruction> instruction) {
  KernelDescriptor kernel;
  kernel.may_throw = true;
  kernel.nanoseconds = prices::call::kEvaluator;
  for (const ir::Instruction* o : instruction->operands()) {
    kernel.nanoseconds += double(o->shape.byte_count()) * prices::byte::kEvaluated;
  }
  kernel.make = [instruction] { return runtime::Kernel{run_evaluator, instruction}; };
  return kernel;
}

}  // namespace tessera::codegen
