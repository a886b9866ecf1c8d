// SPDX-License-Identifier: Apache-2.0
// What reductions can be compiled, and calls of their code.
#include "src/codegen/kernels/compiled_reduce.h"

#include <memory>
#include <utility>

#include "src/codegen/kernels/kernel_compiler.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/reducer_order.h"

namespace tessera::codegen {
namespace {

struct Code {
  std::shared_ptr<const MachineCode> code;
  int first_input = 0;
};

void run(const runtime::KernelCall& call) {
  const auto& c = *static_cast<const Code*>(call.attributes);
  reinterpret_cast<LoopFunction>(c.code->entry())(call.inputs + c.first_input, call.outputs,
                                                  nullptr, call.begin, call.end, 0, 0);
}

std::optional<runtime::Kernel> kernel_of(std::shared_ptr<const MachineCode> code, int first_input) {
  if (!code) return std::nullopt;
  return runtime::Kernel{run, std::make_shared<const Code>(Code{std::move(code), first_input})};
}

/// Rows that are shorter are reduced side by side, and there have to be columns for a vector.
bool has_code(const ReduceShape& shape) {
  constexpr std::int64_t kLongRow = 33, kFewColumns = 16;
  return shape.b == 1 ? shape.reduced >= kLongRow : shape.b >= kFewColumns;
}

std::uint64_t infinity_of(DType t) {
  switch (t) {
    case DType::f16:
      return 0x7c00;
    case DType::bf16:
      return 0x7f80;
    case DType::f32:
      return 0x7f800000;
    case DType::f64:
      return 0x7ff0000000000000;
    default:
      return 0;
  }
}

/// What makes an operand; of one without a program, a read of the array itself.
std::shared_ptr<const LoopExpr> elements_of(const ReduceOperand& o, DType t) {
  if (o.program) return o.program;
  LoopBuilder builder;
  builder.output(builder.contiguous(t));
  return builder.finish();
}

}  // namespace

std::optional<runtime::Kernel> compiled_reduce(const ReduceShape& shape, std::int64_t columns,
                                               const ReduceOperand& operand, DType dtype,
                                               const BlockOp& combine, int init) {
  if (!has_code(shape)) return std::nullopt;
  const std::shared_ptr<const LoopExpr> elements = elements_of(operand, dtype);
  if (elements->only_source >= 0) return std::nullopt;
  const LoopNest nest = nest_of(*elements);
  if (nest.any_made) return std::nullopt;
  const int own_init = init - operand.first_input;
  const ReduceSource source = {{*elements, nest}, shape.a, shape.reduced, shape.b, columns == 0,
                               columns,           combine, dtype,         own_init};
  return kernel_of(
      code_of(source, kernel_key("compiled-reduce", shape.a, shape.reduced, shape.b, columns,
                                 combine.opcode, combine.type, dtype, own_init, elements->key())),
      operand.first_input);
}

std::optional<runtime::Kernel> compiled_reduce(const ReduceShape& shape, bool by_planes,
                                               const std::vector<ReduceOperand>& operands,
                                               const std::vector<DType>& types,
                                               const LoopExpr& reducer, int init) {
  if (!has_code(shape)) return std::nullopt;
  std::vector<std::shared_ptr<const LoopExpr>> programs;
  std::vector<LoopNest> nests;
  KeyWriter key("compiled-program-reduce");
  key.add_all(shape.a, shape.reduced, shape.b, by_planes, init, reducer.key());
  for (std::size_t k = 0; k < operands.size(); ++k) {
    programs.push_back(elements_of(operands[k], types[k]));
    if (programs[k]->only_source >= 0) return std::nullopt;
    nests.push_back(nest_of(*programs[k]));
    if (nests[k].any_made) return std::nullopt;
    key.add_all(operands[k].first_input, types[k], programs[k]->key());
  }
  const bool any_order = shape.b == 1 && combines_in_any_order(reducer, types);
  ProgramReduceSource source{{},      reducer,   shape.a, shape.reduced,
                             shape.b, by_planes, init,    any_order};
  for (std::size_t k = 0; k < operands.size(); ++k) {
    source.operands.push_back(
        {{*programs[k], nests[k]}, operands[k].first_input, infinity_of(types[k])});
  }
  return kernel_of(code_of(source, key.take()), 0);
}

}  // namespace tessera::codegen
