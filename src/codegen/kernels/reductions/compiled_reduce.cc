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

/// A reduction, its units, and what makes its operands' elements.
struct Arrangement {
  ReduceShape shape;
  ReduceUnits units;
  std::vector<std::shared_ptr<const LoopExpr>> elements;
};

/// Rows of a few vectors whose reads all have them as rows: read as they are, and folded. As
/// columns they would be read from as many places as a vector has lanes.
bool are_short_rows(const Arrangement& as) {
  const ReduceShape& s = as.shape;
  if (as.units.are != ReduceUnits::planes || s.b != 1 || s.reduced < kVectorRow || has_code(s)) {
    return false;
  }
  const LoopNest nest = nest_of(*as.elements[0], /*periodic=*/false, s.reduced);
  return nest.by_rows && !nest.any_made;
}

/// How elements are read. What is the same for a row, or stands in rows that lie apart, is found
/// once for each row of about a vector, rather than for each vector by its elements' numbers.
LoopNest nest_of_elements(const LoopExpr& elements, const ReduceSource& source) {
  constexpr std::int64_t kShortestRow = 16;
  if (source.short_rows) return nest_of(elements, /*periodic=*/false, source.reduced);
  LoopNest nest = nest_of(elements);
  if (nest.by_rows || source.operands.size() > 1 || source.order != ReduceSource::Order::any) {
    return nest;
  }
  LoopNest rows = nest_of_rows(elements, kShortestRow);
  // Sums of rows are made lane by lane from end to end.
  const bool fits = rows.by_rows && (source.b > 1 || rows.row() == source.reduced);
  return fits ? rows : nest;
}

/// With the dims of elements in another order; without elements if they can't be.
Arrangement permuted(const Arrangement& from, const ReduceShape& shape, const ReduceUnits& units,
                     const std::array<int, 3>& order) {
  Arrangement out = {shape, units, {}};
  for (const auto& e : from.elements) {
    auto moved = permuted_loop(*e, {from.shape.a, from.shape.reduced, from.shape.b}, order);
    if (!moved) return {};
    out.elements.push_back(std::move(moved));
  }
  return out;
}

/// Few columns become long rows of their own, and short rows columns. No elements if they can't.
Arrangement arranged(const Arrangement& from, bool any_order) {
  const ReduceShape& s = from.shape;
  if (has_code(s)) return from;
  if (s.a * s.reduced * s.b == 0) return {};
  const bool by_planes = from.units.are == ReduceUnits::planes;
  if (any_order && s.reduced >= kLongRow && (by_planes || s.a == 1)) {
    const std::int64_t rows = by_planes ? s.b : from.units.size;
    return permuted(from, {s.a * s.b, s.reduced, 1}, {ReduceUnits::planes, rows}, {0, 2, 1});
  }
  const bool by_rows = any_order ? by_planes : s.b == 1;
  if (by_rows && s.reduced < kLongRow && s.a * s.b >= kFewColumns) {
    return permuted(from, {1, s.reduced, s.a * s.b}, {ReduceUnits::columns, s.b}, {1, 0, 2});
  }
  return {};
}

/// One op as a program.
std::shared_ptr<const LoopExpr> program_of_op(const BlockOp& op) {
  auto out = std::make_shared<LoopExpr>();
  for (const int n : {0, 1, 2}) {
    LoopExpr::Register r;
    r.kind = n < 2 ? LoopExpr::Kind::contiguous : LoopExpr::Kind::output;
    r.index = n % 2;
    r.element_bytes = int(byte_size(op.type));
    out->registers.push_back(r);
  }
  out->ops.push_back({op, {0, 1}, 2});
  return out;
}

/// `source` has the operands' types, the reducer and its order.
std::optional<runtime::Kernel> kernel_of(ReduceSource source, Arrangement as,
                                         const std::vector<ReduceOperand>& operands, int init) {
  const bool any_order = source.order == ReduceSource::Order::any;
  for (const auto& e : as.elements) {
    if (e->only_source >= 0) return std::nullopt;
  }
  source.short_rows = any_order && are_short_rows(as);
  if (!source.short_rows) as = arranged(as, any_order);
  if (as.elements.empty()) return std::nullopt;
  const ReduceShape& s = as.shape;
  const int first_input = operands[0].first_input;
  source.a = s.a;
  source.reduced = s.reduced;
  source.b = s.b;
  source.units = as.units;
  source.init = init - first_input;
  KeyWriter key("compiled-reduce");
  key.add_all(s.a, s.reduced, s.b, as.units.are, as.units.size, source.short_rows, source.order,
              source.init, source.reducer->key());
  for (std::size_t k = 0; k < operands.size(); ++k) {
    ReduceSource::Operand& o = source.operands[k];
    o.elements = {as.elements[k], nest_of_elements(*as.elements[k], source)};
    if (o.elements.nest.any_made) return std::nullopt;
    o.first_input = operands[k].first_input - first_input;
    key.add_all(o.first_input, o.dtype, o.held, as.elements[k]->key());
  }
  auto code = code_of(source, key.take());
  if (!code) return std::nullopt;
  return runtime::Kernel{run, std::make_shared<const Code>(Code{std::move(code), first_input})};
}

}  // namespace

std::optional<runtime::Kernel> compiled_reduce(const ReduceShape& shape, const ReduceUnits& units,
                                               const ReduceOperand& operand, DType dtype,
                                               const BlockOp& combine, int init) {
  ReduceSource source;
  source.order = ReduceSource::Order::any;
  source.reducer = program_of_op(combine);
  source.operands.push_back({{}, 0, dtype, combine.type});
  return kernel_of(std::move(source), {shape, units, {elements_of(operand, dtype)}}, {operand},
                   init);
}

std::optional<runtime::Kernel> compiled_reduce(const ReduceShape& shape, const ReduceUnits& units,
                                               const std::vector<ReduceOperand>& operands,
                                               const std::vector<DType>& types,
                                               const std::shared_ptr<const LoopExpr>& reducer,
                                               int init) {
  ReduceSource source;
  source.reducer = reducer;
  if (shape.b == 1 && combines_in_any_order(*reducer, types)) {
    source.order = ReduceSource::Order::any_but_nans;
  }
  Arrangement as = {shape, units, {}};
  for (std::size_t k = 0; k < operands.size(); ++k) {
    as.elements.push_back(elements_of(operands[k], types[k]));
    source.operands.push_back({{}, 0, types[k], types[k], infinity_of(types[k])});
  }
  return kernel_of(std::move(source), std::move(as), operands, init);
}

}  // namespace tessera::codegen
