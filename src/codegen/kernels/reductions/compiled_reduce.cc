// SPDX-License-Identifier: Apache-2.0
// What reductions can be compiled, and calls of their code.
#include "src/codegen/kernels/reductions/compiled_reduce.h"

#include <array>
#include <memory>
#include <utility>

#include "src/codegen/kernels/code/kernel_compiler.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/loops/permuted_loop.h"
#include "src/codegen/kernels/reductions/reducer_order.h"

namespace tessera::codegen {
namespace {

struct Code {
  std::shared_ptr<const KernelCode> code;
  int first_input = 0;
};

void run(const runtime::KernelCall& call) {
  const auto& c = *static_cast<const Code*>(call.attributes);
  reinterpret_cast<LoopFunction>(c.code->entry())(call.inputs + c.first_input, call.outputs,
                                                  nullptr, call.begin, call.end, 0, 0);
}

std::optional<runtime::Kernel> kernel_of(std::shared_ptr<const KernelCode> code, int first_input) {
  if (!code) return std::nullopt;
  return runtime::Kernel{run, std::make_shared<const Code>(Code{std::move(code), first_input})};
}

constexpr std::int64_t kLongRow = 33, kFewColumns = 16;
/// Shorter rows leave most of a vector empty.
constexpr std::int64_t kVectorRow = 8;

/// There have to be elements in a row, or columns, for a vector.
bool has_code(const ReduceShape& shape) {
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

/// A reduction, and its units: so many rows each, or columns if those aren't 0.
struct Arrangement {
  ReduceShape shape;
  std::int64_t columns = 0, rows = 1;
  std::shared_ptr<const LoopExpr> elements;
};

/// Rows of a few vectors whose reads all have them as rows: read as they are, and folded. As
/// columns they would be read from as many places as a vector has lanes.
bool are_short_rows(const Arrangement& as, LoopNest* nest) {
  const ReduceShape& s = as.shape;
  if (as.columns != 0 || s.b != 1 || s.reduced < kVectorRow || has_code(s)) return false;
  *nest = nest_of(*as.elements, /*periodic=*/false, s.reduced);
  return nest->by_rows && !nest->any_made;
}

/// Few columns become long rows of their own, and short rows columns. Null elements if they can't.
Arrangement arranged(const Arrangement& from) {
  const ReduceShape& s = from.shape;
  if (has_code(s)) return from;
  if (s.a * s.reduced * s.b == 0) return {};
  const std::array<std::int64_t, 3> dims = {s.a, s.reduced, s.b};
  if (s.reduced >= kLongRow && (from.columns == 0 || s.a == 1)) {
    return {{s.a * s.b, s.reduced, 1},
            0,
            from.columns == 0 ? s.b : from.columns,
            permuted_loop(*from.elements, dims, {0, 2, 1})};
  }
  if (s.reduced < kLongRow && s.a * s.b >= kFewColumns && from.columns == 0) {
    return {{1, s.reduced, s.a * s.b}, s.b, 1, permuted_loop(*from.elements, dims, {1, 0, 2})};
  }
  return {};
}

}  // namespace

std::optional<runtime::Kernel> compiled_reduce(const ReduceShape& shape, std::int64_t columns,
                                               const ReduceOperand& operand, DType dtype,
                                               const BlockOp& combine, int init) {
  Arrangement as = {shape, columns, 1, elements_of(operand, dtype)};
  if (as.elements->only_source >= 0) return std::nullopt;
  LoopNest nest;
  const bool short_rows = are_short_rows(as, &nest);
  if (!short_rows) {
    as = arranged(as);
    if (!as.elements) return std::nullopt;
    nest = nest_of(*as.elements);
  }
  if (nest.any_made) return std::nullopt;
  const int own_init = init - operand.first_input;
  const ReduceShape& s = as.shape;
  const ReduceSource source = {
      {as.elements, nest}, s.a,     s.reduced, s.b,     as.columns == 0, as.columns, as.rows,
      short_rows,          combine, dtype,     own_init};
  return kernel_of(code_of(source, kernel_key("compiled-reduce", s.a, s.reduced, s.b, as.columns,
                                              as.rows, short_rows, combine.opcode, combine.type,
                                              dtype, own_init, as.elements->key())),
                   operand.first_input);
}

std::optional<runtime::Kernel> compiled_reduce(const ReduceShape& shape, bool by_planes,
                                               const std::vector<ReduceOperand>& operands,
                                               const std::vector<DType>& types,
                                               const std::shared_ptr<const LoopExpr>& reducer,
                                               int init) {
  // Short rows become columns.
  const bool transposed =
      !has_code(shape) && shape.b == 1 && shape.reduced < kLongRow && shape.a >= kFewColumns;
  if (transposed) {
    std::vector<ReduceOperand> columns = operands;
    for (std::size_t k = 0; k < operands.size(); ++k) {
      columns[k].program = permuted_loop(*elements_of(operands[k], types[k]),
                                         {shape.a, shape.reduced, 1}, {1, 0, 2});
      if (!columns[k].program) return std::nullopt;
    }
    return compiled_reduce({1, shape.reduced, shape.a}, /*by_planes=*/false, columns, types,
                           reducer, init);
  }
  if (!has_code(shape)) return std::nullopt;
  std::vector<std::shared_ptr<const LoopExpr>> programs;
  std::vector<LoopNest> nests;
  KeyWriter key("compiled-program-reduce");
  key.add_all(shape.a, shape.reduced, shape.b, by_planes, init, reducer->key());
  for (std::size_t k = 0; k < operands.size(); ++k) {
    programs.push_back(elements_of(operands[k], types[k]));
    if (programs[k]->only_source >= 0) return std::nullopt;
    nests.push_back(nest_of(*programs[k]));
    if (nests[k].any_made) return std::nullopt;
    key.add_all(operands[k].first_input, types[k], programs[k]->key());
  }
  const bool any_order = shape.b == 1 && combines_in_any_order(*reducer, types);
  ProgramReduceSource source{{},      reducer,   shape.a, shape.reduced,
                             shape.b, by_planes, init,    any_order};
  for (std::size_t k = 0; k < operands.size(); ++k) {
    source.operands.push_back(
        {{programs[k], nests[k]}, operands[k].first_input, infinity_of(types[k])});
  }
  return kernel_of(code_of(source, key.take()), 0);
}

}  // namespace tessera::codegen
