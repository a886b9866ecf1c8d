// SPDX-License-Identifier: Apache-2.0
// Register programs of loops: their builder, and their keys.
#include "src/codegen/kernels/expressions/loop_expr.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <unordered_map>

#include "src/base/arrays/bit_width.h"
#include "src/base/arrays/literal_util.h"
#include "src/base/arrays/small_floats.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/prices.h"
#include "src/codegen/kernels/type_dispatch.h"
#include "src/ir/analysis/element_source.h"

namespace tessera::codegen {
namespace {

using ir::Opcode;

/// Types that are computed with in f32.
bool is_lifted(DType t) { return t == DType::f16 || t == DType::bf16 || is_small_float(t); }

bool has_blocks(DType t) { return is_one_of(kWholeBytes, t); }
/// Of these there are no reducers, nor arrays that are indexed in loops.
bool has_operations(DType t) { return has_blocks(t) || is_small_float(t); }

/// About the nanoseconds of one element.
double cost_of(Opcode op, DType t) {
  if (is_integer(t) || t == DType::pred) {
    return op == Opcode::divide || op == Opcode::remainder || op == Opcode::power
               ? prices::element::kIntegerDivision
               : prices::element::kSimple;
  }
  switch (ir::info(op).work) {
    case ir::Work::simple:
      return prices::element::kSimple;
    case ir::Work::moderate:
      return prices::element::kModerate;
    case ir::Work::division:
      return prices::element::kDivision;
    default:
      return is_complex(t) ? prices::element::kComplexFunction : prices::element::kFunction;
  }
}

BlockOp copy_of(DType t) {
  return {.kind = BlockOp::Kind::copy, .element_bytes = std::int32_t(byte_size(t))};
}

}  // namespace

LoopBuilder::LoopBuilder() : program_(std::make_shared<LoopExpr>()) {}
LoopBuilder::~LoopBuilder() = default;

LoopBuilder::Value LoopBuilder::add_register(LoopExpr::Register r, DType t, bool lifted) {
  r.element_bytes = int(byte_size(lifted ? DType::f32 : t));
  program_->registers.push_back(std::move(r));
  return {int(program_->registers.size()) - 1, t, lifted};
}

LoopBuilder::Value LoopBuilder::contiguous(DType t, std::int64_t offset) {
  LoopExpr::Register r;
  r.kind = LoopExpr::Kind::contiguous;
  r.offset = offset;
  r.index = inputs_++;
  return add_register(std::move(r), t);
}

LoopBuilder::Value LoopBuilder::scalar(DType t, std::int64_t offset) {
  LoopExpr::Register r;
  r.kind = LoopExpr::Kind::scalar;
  r.offset = offset;
  r.index = inputs_++;
  return add_register(std::move(r), t);
}

LoopBuilder::Value LoopBuilder::broadcast(DType t, Dims dims, Dims strides, std::int64_t offset,
                                          std::vector<LoopExpr::Start> starts) {
  LoopExpr::Register r;
  // Fewer and longer dims make longer runs.
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    if (!r.dims.empty() && r.strides.back() == strides[d] * dims[d]) {
      r.dims.back() *= dims[d];
      r.strides.back() = strides[d];
    } else {
      r.dims.push_back(dims[d]);
      r.strides.push_back(strides[d]);
    }
  }
  r.kind = LoopExpr::Kind::broadcast;
  if (r.dims.empty() || (r.dims.size() == 1 && r.strides[0] == 0)) {
    r.kind = LoopExpr::Kind::scalar;
  } else if (r.dims.size() == 1 && r.strides[0] == 1) {
    r.kind = LoopExpr::Kind::contiguous;
  }
  if (r.kind != LoopExpr::Kind::broadcast) r.dims.clear(), r.strides.clear();
  r.index = inputs_++;
  r.offset = offset;
  r.starts = std::move(starts);
  return add_register(std::move(r), t);
}

LoopBuilder::Value LoopBuilder::windowed(DType t, const Dims& dims, const Dims& strides,
                                         std::int64_t offset, const LoopExpr::Window& window) {
  LoopExpr::Register r;
  r.kind = LoopExpr::Kind::broadcast;
  r.index = inputs_++;
  r.offset = offset;
  r.dims = dims;
  r.strides = strides;
  r.window = window;
  return add_register(std::move(r), t);
}

LoopBuilder::Value LoopBuilder::composed(DType t, ComposedView m) {
  LoopExpr::Register r;
  r.kind = LoopExpr::Kind::composed;
  r.index = int(program_->views.size());
  program_->views.push_back(std::move(m));
  return add_register(std::move(r), t);
}

LoopBuilder::Value LoopBuilder::source(DType t, SourceDescriptor source, int inputs,
                                       double nanoseconds) {
  LoopExpr::Register r;
  r.kind = LoopExpr::Kind::source;
  r.index = int(program_->sources.size());
  program_->sources.emplace_back(std::move(source), inputs_);
  inputs_ += inputs;
  program_->nanoseconds += nanoseconds;
  return add_register(std::move(r), t);
}

LoopBuilder::Value LoopBuilder::take(DType t, Value index, std::int64_t elements) {
  LoopExpr::Register r;
  r.kind = LoopExpr::Kind::array;
  r.index = inputs_++;
  const Value array = add_register(std::move(r), t);
  // Vectors of indices don't help where memory is waited for.
  constexpr std::int64_t kInCache = std::int64_t(1) << 20;
  const auto bytes = std::int32_t(byte_size(t));
  return emit(
      {.kind = BlockOp::Kind::take, .element_bytes = bytes, .last = std::int32_t(elements - 1)},
      {array, index}, t, false, elements * bytes <= kInCache ? 3 : 10);
}

LoopBuilder::Value LoopBuilder::constant(const Literal& scalar) {
  LoopExpr::Register r;
  r.kind = LoopExpr::Kind::constant;
  auto& bytes = program_->constants;
  r.constant = std::int64_t((bytes.size() + 15) / 16 * 16);
  bytes.resize(std::size_t(r.constant) + 16);
  std::memcpy(bytes.data() + r.constant, scalar.bytes(), scalar.byte_count());
  return add_register(std::move(r), scalar.dtype());
}

LoopBuilder::Value LoopBuilder::iota(DType t, const Dims& dims, std::int64_t dim) {
  LoopExpr::Register r;
  r.kind = LoopExpr::Kind::iota;
  r.dtype = t;
  r.dims = {1, dims[std::size_t(dim)], 1};
  for (auto d = dim + 1; d < std::int64_t(dims.size()); ++d) r.dims[2] *= dims[std::size_t(d)];
  return add_register(std::move(r), t);
}

bool LoopBuilder::has_affine_iotas(const Shape& shape) {
  const DType t = shape.dtype;
  if (t == DType::f32) return shape.element_count() < std::int64_t(1) << 24;
  return t == DType::f64 || (is_integer(t) && byte_size(t) >= 4);
}

LoopBuilder::Value LoopBuilder::affine(DType t, const Dims& dims, std::int64_t base,
                                       const Dims& strides) {
  const auto number = [&](std::int64_t n) {
    Literal out(Shape(t, {}));
    dispatch_dtype(t, [&](auto tag) {
      using T = typename decltype(tag)::type;
      out.mutable_data<T>()[0] = convert_element<T>(n);
    });
    return constant(out);
  };
  const auto op = [&](Opcode opcode, Value a, Value b) {
    return emit({.kind = BlockOp::Kind::binary, .opcode = opcode, .type = t}, {a, b}, t, false,
                prices::element::kSimple);
  };
  std::optional<Value> out;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (strides[d] == 0 || dims[d] == 1) continue;
    Value term = iota(t, dims, std::int64_t(d));
    if (strides[d] != 1) term = op(Opcode::multiply, term, number(strides[d]));
    out = out ? op(Opcode::add, *out, term) : term;
  }
  if (!out) return number(base);
  return base == 0 ? *out : op(Opcode::add, *out, number(base));
}

LoopBuilder::Value LoopBuilder::emit(const BlockOp& op, const std::vector<Value>& operands,
                                     DType result, bool lifted, double nanoseconds) {
  const Value out = add_register({}, result, lifted);
  LoopExpr::Op added;
  added.op = op;
  added.out = out.reg;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    added.operands.push_back(operands[k].reg);
    if (program_->registers[std::size_t(operands[k].reg)].scalar()) added.scalars |= 1u << k;
  }
  program_->ops.push_back(std::move(added));
  program_->nanoseconds += nanoseconds;
  return out;
}

std::optional<LoopBuilder::Value> LoopBuilder::emit_if_known(const BlockOp& op,
                                                             const std::vector<Value>& operands,
                                                             DType result, bool lifted,
                                                             double nanoseconds) {
  if (block_function(op) == nullptr) return std::nullopt;
  return emit(op, operands, result, lifted, nanoseconds);
}

LoopBuilder::Value LoopBuilder::lift(Value v) {
  if (!is_lifted(v.dtype) || v.lifted) return v;
  return emit({.kind = BlockOp::Kind::lift, .type = v.dtype}, {v}, v.dtype, true, 1);
}

LoopBuilder::Value LoopBuilder::raw(Value v) {
  if (!v.lifted) return v;
  return emit({.kind = BlockOp::Kind::convert, .type = DType::f32, .to = v.dtype}, {v}, v.dtype,
              false, 1);
}

std::optional<LoopBuilder::Value> LoopBuilder::apply(const ir::Instruction& instruction,
                                                     const std::vector<Value>& operands) {
  if (!instruction.shape.is_array()) return std::nullopt;
  return apply(instruction.opcode, instruction.attrs, operands, instruction.shape.dtype);
}

std::optional<LoopBuilder::Value> LoopBuilder::convert(Value v, DType to) {
  return apply(Opcode::convert, {}, {v}, to);
}

std::optional<LoopBuilder::Value> LoopBuilder::apply(Opcode op, const ir::Attributes& attrs,
                                                     const std::vector<Value>& operands,
                                                     DType result) {
  const auto has_few_bits = [](const Value& v) { return few_bits(v.dtype) > 0; };
  if (few_bits(result) > 0 || std::any_of(operands.begin(), operands.end(), has_few_bits)) {
    return apply_to_bits(op, attrs, operands, result);
  }
  return apply_to_bytes(op, attrs, operands, result);
}

LoopBuilder::Value LoopBuilder::with_number(Opcode op, Value v, int number) {
  Literal n(Shape(v.dtype, {}));
  *n.mutable_bytes() = std::byte(number);
  return emit({.kind = BlockOp::Kind::binary, .opcode = op, .type = v.dtype}, {v, constant(n)},
              v.dtype, false, prices::element::kSimple);
}

LoopBuilder::Value LoopBuilder::wrapped(Value v, DType t) {
  const int bits = few_bits(t);
  v.dtype = byte_of(t);
  if (is_signed_integer(t)) {
    v = with_number(Opcode::shift_left, v, 8 - bits);
    v = with_number(Opcode::shift_right_arithmetic, v, 8 - bits);
  } else {
    v = with_number(Opcode::and_, v, (1 << bits) - 1);
  }
  return {v.reg, t, false};
}

/// Of a byte that is as near to the number as bytes are.
LoopBuilder::Value LoopBuilder::saturated(Value v, DType t) {
  const int bits = few_bits(t);
  const bool is_signed = is_signed_integer(t);
  const auto number = [&](int n) {
    Literal out(Shape(byte_of(t), {}));
    *out.mutable_bytes() = std::byte(n);
    return constant(out);
  };
  const int most = (1 << (is_signed ? bits - 1 : bits)) - 1;
  const BlockOp op = {.kind = BlockOp::Kind::clamp, .opcode = Opcode::clamp, .type = byte_of(t)};
  v = emit(op, {number(is_signed ? -most - 1 : 0), v, number(most)}, byte_of(t), false,
           prices::element::kSimple);
  return {v.reg, t, false};
}

std::optional<LoopBuilder::Value> LoopBuilder::apply_to_bits(Opcode op, const ir::Attributes& attrs,
                                                             const std::vector<Value>& operands,
                                                             DType result) {
  const int bits = few_bits(operands.empty() ? result : operands[0].dtype);
  std::vector<Value> bytes = operands;
  for (Value& v : bytes) v.dtype = byte_of(v.dtype);
  switch (op) {
    case Opcode::bitcast_convert:
      if (bits != few_bits(result)) return std::nullopt;
      return wrapped(bytes[0], result);
    case Opcode::shift_right_logical:
    case Opcode::popcnt:
    case Opcode::count_leading_zeros:
      // Without the bits of the sign.
      bytes[0] = with_number(Opcode::and_, bytes[0], (1 << bits) - 1);
      break;
    case Opcode::shift_right_arithmetic:
      if (!is_signed_integer(result))
        bytes[0] = with_number(Opcode::shift_left, bytes[0], 8 - bits);
      break;
    default:
      break;
  }
  std::optional<Value> out = apply_to_bytes(op, attrs, bytes, byte_of(result));
  if (!out) return out;
  if (op == Opcode::convert && few_bits(result) > 0 && is_floating(operands[0].dtype)) {
    return saturated(*out, result);
  }
  if (op == Opcode::count_leading_zeros) *out = with_number(Opcode::subtract, *out, 8 - bits);
  if (op == Opcode::shift_right_arithmetic && !is_signed_integer(result)) {
    *out = with_number(Opcode::shift_right_logical, *out, 8 - bits);
  }
  return few_bits(result) > 0 ? wrapped(*out, result) : *out;
}

std::optional<LoopBuilder::Value> LoopBuilder::apply_to_bytes(Opcode op,
                                                              const ir::Attributes& attrs,
                                                              const std::vector<Value>& operands,
                                                              DType result) {
  if (!has_operations(result) || operands.empty()) return std::nullopt;
  for (const Value& v : operands) {
    if (!has_operations(v.dtype)) return std::nullopt;
  }
  const DType type = operands[0].dtype;
  const DType held = is_lifted(type) ? DType::f32 : type;
  const double cost = cost_of(op, held);
  BlockOp block = {.opcode = op, .type = held};
  // Operands are lifted only for a function that exists.
  const auto known = [&] { return block_function(block) != nullptr; };
  switch (op) {
    case Opcode::copy:
      return operands[0];
    case Opcode::convert: {
      if (type == result) return operands[0];
      const Value v = lift(operands[0]);
      if (held == result) return Value{v.reg, result, false};
      return emit_if_known({.kind = BlockOp::Kind::convert, .type = held, .to = result}, {v},
                           result, false, 1);
    }
    case Opcode::bitcast_convert: {
      if (byte_size(type) != byte_size(result)) return std::nullopt;
      return Value{raw(operands[0]).reg, result, false};
    }
    case Opcode::select: {
      Value a = operands[1], b = operands[2];
      if (a.lifted != b.lifted) a = lift(a), b = lift(b);
      return emit_if_known({.kind = BlockOp::Kind::select,
                            .element_bytes = std::int32_t(a.lifted ? 4 : byte_size(result))},
                           {operands[0], a, b}, result, a.lifted, cost);
    }
    case Opcode::compare: {
      const auto& compare = *attrs.get_if<ir::CompareAttrs>();
      block.kind = BlockOp::Kind::compare;
      block.direction = compare.direction;
      block.comparison = compare.type;
      if (!known()) return std::nullopt;
      return emit(block, {lift(operands[0]), lift(operands[1])}, result, false, cost);
    }
    case Opcode::clamp: {
      block.kind = BlockOp::Kind::clamp;
      if (!known()) return std::nullopt;
      return emit(block, {lift(operands[0]), lift(operands[1]), lift(operands[2])}, result,
                  is_lifted(result), cost);
    }
    default:
      break;
  }
  if (op == Opcode::reduce_precision) {
    block.kind = BlockOp::Kind::reduce_precision;
    block.precision = *attrs.get_if<ir::ReducePrecisionAttrs>();
  } else if (operands.size() == 1) {
    block.kind = BlockOp::Kind::unary;
  } else if (operands.size() == 2 && (op == Opcode::complex || operands[1].dtype == type)) {
    block.kind = BlockOp::Kind::binary;
  } else {
    return std::nullopt;
  }
  if (!known()) return std::nullopt;
  std::vector<Value> lifted;
  for (const Value& v : operands) lifted.push_back(lift(v));
  const bool half = is_lifted(result);
  Value out = emit(block, lifted, result, half, cost);
  // Not all of them have the negative of each number, as f16 and bf16 do.
  if (half && (is_small_float(result) || !ir::has_trait(op, ir::traits::exact))) {
    out = emit({.kind = BlockOp::Kind::round, .type = result}, {out}, result, true, 1);
  }
  return out;
}

LoopBuilder::Value LoopBuilder::below(Value v, std::int64_t n) {
  const BlockOp op = {.kind = BlockOp::Kind::compare,
                      .opcode = Opcode::compare,
                      .type = DType::s32,
                      .direction = ir::Direction::lt,
                      .comparison = ir::ComparisonType::by_dtype};
  return emit(op, {v, constant(Literal::scalar(DType::s32, std::int32_t(n)))}, DType::pred, false,
              prices::element::kSimple);
}

LoopBuilder::Value LoopBuilder::select(Value pred, Value yes, Value no) {
  if (yes.lifted != no.lifted) yes = lift(yes), no = lift(no);
  const std::size_t bytes = yes.lifted ? 4 : byte_size(yes.dtype);
  return emit({.kind = BlockOp::Kind::select, .element_bytes = std::int32_t(bytes)},
              {pred, yes, no}, yes.dtype, yes.lifted, prices::element::kSimple);
}

void LoopBuilder::output(Value v, std::vector<LoopExpr::Start> starts) {
  outputs_.push_back(raw(v));
  output_starts_.push_back(std::move(starts));
}

std::shared_ptr<const LoopExpr> LoopBuilder::finish() {
  LoopExpr& p = *program_;
  auto kind = [&](int reg) -> LoopExpr::Kind& { return p.registers[std::size_t(reg)].kind; };
  // Results are written by the last ops, when no input is read any more: inputs may be overwritten.
  const bool direct = outputs_.size() == 1 && !p.ops.empty() && p.ops.back().out == outputs_[0].reg;
  if (outputs_.size() == 1 && p.ops.empty() && kind(outputs_[0].reg) == LoopExpr::Kind::source) {
    p.only_source = outputs_[0].reg;
  } else if (direct) {
    kind(outputs_[0].reg) = LoopExpr::Kind::output;
    p.registers[std::size_t(outputs_[0].reg)].starts = std::move(output_starts_[0]);
  } else {
    if (outputs_.size() > 1) {
      for (Value& v : outputs_) {
        if (kind(v.reg) != LoopExpr::Kind::contiguous) continue;
        v = emit(copy_of(v.dtype), {v}, v.dtype, false, prices::element::kStored);
      }
    }
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const Value v = outputs_[i];
      const Value o = emit(copy_of(v.dtype), {v}, v.dtype, false, prices::element::kStored);
      kind(o.reg) = LoopExpr::Kind::output;
      p.registers[std::size_t(o.reg)].index = int(i);
      p.registers[std::size_t(o.reg)].starts = std::move(output_starts_[i]);
    }
  }
  for (const LoopExpr::Register& r : p.registers) {
    if (r.generated()) p.nanoseconds += prices::element::kComposed;
  }
  return program_;
}

double operation_cost(const ir::Instruction& instruction) {
  if (instruction.is(Opcode::gather)) return prices::element::kTaken;
  const DType t = instruction.operand(0)->shape.dtype;
  return cost_of(instruction.opcode, is_lifted(t) ? DType::f32 : t);
}

bool is_element_gather(const ir::Instruction& i) {
  if (!i.is(Opcode::gather)) return false;
  const auto& g = i.get<ir::GatherAttrs>();
  const Shape &array = i.operand(0)->shape, &indices = i.operand(1)->shape;
  return array.rank() == 1 && array.element_count() > 0 &&
         array.element_count() <= std::numeric_limits<std::int32_t>::max() / 2 &&
         has_blocks(array.dtype) && indices.dtype == DType::s32 && indices.dims == i.shape.dims &&
         g.slice_sizes == Dims{1} && g.collapsed_slice_dims == Dims{0} &&
         g.start_index_map == Dims{0} && g.index_vector_dim == indices.rank();
}

std::optional<ir::AffineNumbers> counted_places(const ir::Instruction& element_gather) {
  auto out = ir::affine_numbers(*element_gather.operand(1));
  const std::int64_t count = element_gather.operand(0)->shape.element_count();
  return out && out->least >= 0 && out->greatest < count ? out : std::nullopt;
}

bool is_loop_op(const ir::Instruction& instruction) {
  if (!instruction.shape.is_array() || instruction.operands().empty() ||
      instruction.operands().size() > 3) {
    return false;
  }
  if (is_element_gather(instruction)) return true;
  if (ir::element_source(instruction.opcode) != ir::ElementSource::computed) return false;
  LoopBuilder probe;
  std::vector<LoopBuilder::Value> operands;
  for (const ir::Instruction* o : instruction.operands()) {
    if (!o->shape.is_array()) return false;
    operands.push_back(probe.contiguous(o->shape.dtype));
  }
  return probe.apply(instruction, operands).has_value();
}

std::shared_ptr<const LoopExpr> program_of(const ir::Computation& computation) {
  LoopBuilder builder;
  std::unordered_map<const ir::Instruction*, LoopBuilder::Value> values;
  for (const ir::Instruction* p : computation.parameters()) {
    if (!p->shape.is_scalar() || !has_blocks(p->shape.dtype)) return nullptr;
    values[p] = builder.contiguous(p->shape.dtype);
  }
  for (const auto& i : computation.instructions()) {
    if (i->is(Opcode::parameter) || (i.get() == computation.root() && i->is(Opcode::tuple))) {
      continue;
    }
    if (!i->shape.is_scalar()) return nullptr;
    if (i->is(Opcode::constant)) {
      if (!has_blocks(i->shape.dtype)) return nullptr;
      values[i.get()] = builder.constant(i->get<ir::ConstantAttrs>().value);
      continue;
    }
    if (i->is(Opcode::reshape) || i->is(Opcode::broadcast) || i->is(Opcode::bitcast)) {
      values[i.get()] = values.at(i->operand(0));
      continue;
    }
    std::vector<LoopBuilder::Value> operands;
    for (const ir::Instruction* o : i->operands()) operands.push_back(values.at(o));
    const auto v = builder.apply(*i, operands);
    if (!v) return nullptr;
    values[i.get()] = *v;
  }
  const ir::Instruction* root = computation.root();
  if (root->is(Opcode::tuple)) {
    for (const ir::Instruction* o : root->operands()) builder.output(values.at(o));
  } else {
    builder.output(values.at(root));
  }
  return builder.finish();
}

void add_to_key(const ComposedView& view, KeyWriter* key) {
  key->add_all(view.fill, view.dims, view.pieces.size());
  for (const ComposedView::Piece& p : view.pieces) {
    key->add_all(p.input, p.base, p.sides.size(), p.starts.size());
    for (const ComposedView::Side& s : p.sides) {
      key->add_all(s.low, s.high, s.origin, s.size, s.stride);
    }
    for (const ComposedView::Start& s : p.starts) {
      key->add_all(s.dim, s.input, s.dtype, s.limit, s.scale, s.window);
    }
  }
}

bool LoopExpr::has_functions() const {
  return std::any_of(ops.begin(), ops.end(), [](const Op& o) {
    const bool may_be = o.op.kind == BlockOp::Kind::unary || o.op.kind == BlockOp::Kind::binary;
    const bool exact = o.op.opcode == ir::Opcode::sqrt || o.op.opcode == ir::Opcode::rsqrt;
    return may_be && !exact && is_floating(o.op.type) &&
           ir::has_trait(o.op.opcode, ir::traits::transcendental);
  });
}

std::string LoopExpr::key() const {
  KeyWriter key("expr");
  key.add(registers.size());
  for (const Register& r : registers) {
    key.add_all(r.kind, r.index, r.element_bytes, r.offset, r.constant, r.dims, r.strides, r.dtype,
                r.window.dim, r.window.low, r.window.high, r.starts.size());
    for (const Start& s : r.starts) key.add_all(s.input, s.dtype, s.limit, s.scale);
  }
  key.add(ops.size());
  for (const Op& o : ops) {
    key.add_all(o.op.kind, o.op.opcode, o.op.type, o.op.to, o.op.direction, o.op.comparison,
                o.op.element_bytes, o.op.last, o.op.precision.exponent_bits,
                o.op.precision.mantissa_bits, o.operands, o.out, o.scalars);
  }
  key.add(views.size());
  for (const ComposedView& view : views) add_to_key(view, &key);
  key.add(sources.size());
  for (const auto& [source, first_input] : sources) key.add_all(source.key, first_input);
  key.add_all(constants, only_source);
  return key.take();
}

}  // namespace tessera::codegen
