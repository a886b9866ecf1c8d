// SPDX-License-Identifier: Apache-2.0
// Register programs of fused loops: their builder, and the interpreter that runs them by blocks.
#include "src/codegen/kernels/fused_loop.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "src/base/literal_util.h"

namespace tessera::codegen {
namespace {

using ir::Opcode;

bool is_half(DType t) { return t == DType::f16 || t == DType::bf16; }

bool has_blocks(DType t) {
  switch (t) {
    case DType::pred:
    case DType::s8:
    case DType::s16:
    case DType::s32:
    case DType::s64:
    case DType::u8:
    case DType::u16:
    case DType::u32:
    case DType::u64:
    case DType::f16:
    case DType::bf16:
    case DType::f32:
    case DType::f64:
    case DType::c64:
    case DType::c128:
      return true;
    default:
      return false;
  }
}

/// About the nanoseconds of one element.
double cost_of(Opcode op, DType t) {
  if (is_integer(t) || t == DType::pred) {
    return op == Opcode::divide || op == Opcode::remainder || op == Opcode::power ? 4 : 0.3;
  }
  switch (ir::info(op).work) {
    case ir::Work::simple:
      return 0.3;
    case ir::Work::moderate:
      return 1;
    case ir::Work::division:
      return 1.5;
    default:
      return is_complex(t) ? 40 : 8;
  }
}

constexpr std::size_t kRegisters = 64;

}  // namespace

void FusedLoop::generate(const Register& r, const std::byte* source, std::int64_t begin,
                         std::int64_t n, std::byte* out) const {
  if (r.kind == Kind::iota) {
    const std::int64_t size = r.dims[1], inner = r.dims[2];
    dispatch_dtype(r.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      T* o = reinterpret_cast<T*>(out);
      std::int64_t value = begin / inner % size, left = inner - begin % inner;
      for (std::int64_t i = 0; i < n;) {
        const std::int64_t run = std::min(left, n - i);
        const T v = convert_element<T>(value);
        for (std::int64_t k = 0; k < run; ++k) o[i + k] = v;
        i += run;
        left = inner;
        value = value + 1 == size ? 0 : value + 1;
      }
    });
    return;
  }
  const std::size_t rank = r.dims.size();
  const std::int64_t inner = r.dims[rank - 1];
  constexpr std::size_t kFew = 8;
  std::int64_t few[kFew];
  Dims many;
  if (rank > kFew) many.resize(rank);
  std::int64_t* at = rank > kFew ? many.data() : few;
  std::int64_t rest = begin, offset = 0;
  for (std::size_t d = rank; d-- > 0;) {
    at[d] = rest % r.dims[d];
    rest /= r.dims[d];
    offset += at[d] * r.strides[d];
  }
  for (std::int64_t i = 0; i < n;) {
    const std::int64_t run = std::min(inner - at[rank - 1], n - i);
    copy_strided(source + offset * r.element_bytes, r.strides[rank - 1], run, r.element_bytes,
                 out + i * r.element_bytes);
    i += run;
    offset -= at[rank - 1] * r.strides[rank - 1];
    at[rank - 1] = 0;
    for (std::size_t d = rank - 1; d-- > 0;) {
      offset += r.strides[d];
      if (++at[d] < r.dims[d]) break;
      offset -= r.dims[d] * r.strides[d];
      at[d] = 0;
    }
  }
}

namespace {

/// A buffer for each scope that is open on this thread.
struct ScratchBuffers {
  std::vector<std::vector<std::byte>> buffers;
  std::size_t open = 0;
};
ScratchBuffers& scratch_buffers() {
  thread_local ScratchBuffers all;
  return all;
}

}  // namespace

ScratchMemory::ScratchMemory(std::size_t bytes) {
  ScratchBuffers& all = scratch_buffers();
  if (all.open == all.buffers.size()) all.buffers.emplace_back();
  std::vector<std::byte>& mine = all.buffers[all.open++];
  if (mine.size() < bytes + 64) mine.resize(bytes + 64);
  data_ = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(mine.data()) + 63) &
                                       ~std::uintptr_t(63));
}
ScratchMemory::~ScratchMemory() { --scratch_buffers().open; }

void FusedLoop::run(const std::byte* const* inputs, std::byte* const* outputs, std::int64_t begin,
                    std::int64_t end, std::int64_t first) const {
  const std::int64_t block = block_ == 0 ? std::max<std::int64_t>(1, end - begin) : block_;
  const ScratchMemory scratch(std::size_t(places_) * std::size_t(place_bytes_));
  std::byte* const places = scratch.data();
  std::byte* few[kRegisters];
  std::vector<std::byte*> many;
  std::byte** pointers = few;
  if (registers_.size() > kRegisters) {
    many.resize(registers_.size());
    pointers = many.data();
  }
  std::vector<ResolvedView> mosaics;
  for (const int g : generated_) {
    const Register& r = registers_[std::size_t(g)];
    if (r.kind != Kind::composed) continue;
    mosaics.emplace_back(views_[std::size_t(r.index)], inputs, r.element_bytes);
  }
  for (std::int64_t at = begin; at < end; at += block) {
    const std::int64_t n = std::min(block, end - at);
    for (std::size_t i = 0; i < registers_.size(); ++i) {
      const Register& r = registers_[i];
      switch (r.kind) {
        case Kind::contiguous:
          pointers[i] = const_cast<std::byte*>(inputs[r.index]) + (at + r.offset) * r.element_bytes;
          break;
        case Kind::scalar:
          pointers[i] = const_cast<std::byte*>(inputs[r.index]) + r.offset * r.element_bytes;
          break;
        case Kind::constant:
          pointers[i] = const_cast<std::byte*>(constants_.data()) + r.constant;
          break;
        case Kind::output:
          pointers[i] = outputs[r.index] + (at - first) * r.element_bytes;
          break;
        default:
          pointers[i] = int(i) == whole_ ? outputs[0] + (at - first) * r.element_bytes
                                         : places + r.constant * place_bytes_;
      }
    }
    for (const int g : generated_) {
      const Register& r = registers_[std::size_t(g)];
      if (r.kind == Kind::composed) {
        mosaics[std::size_t(r.index)].generate(at, n, pointers[g]);
        continue;
      }
      if (r.kind == Kind::source) {
        const auto& [source, first_input] = sources_[std::size_t(r.index)];
        source->generate(inputs + first_input, at, n, pointers[g]);
        continue;
      }
      generate(r, r.kind == Kind::iota ? nullptr : inputs[r.index] + r.offset * r.element_bytes, at,
               n, pointers[g]);
    }
    for (const Op& op : ops_) {
      const std::byte* in[3];
      for (std::size_t k = 0; k < op.operands.size(); ++k) in[k] = pointers[op.operands[k]];
      op.function({op.attributes.get(), pointers[op.out], in, op.scalars, n});
    }
  }
}

FusedLoopBuilder::FusedLoopBuilder() : program_(std::make_shared<FusedLoop>()) {}
FusedLoopBuilder::~FusedLoopBuilder() = default;

FusedLoopBuilder::Value FusedLoopBuilder::add_register(FusedLoop::Register r, DType t,
                                                       bool lifted) {
  r.element_bytes = int(byte_size(lifted ? DType::f32 : t));
  program_->registers_.push_back(std::move(r));
  return {int(program_->registers_.size()) - 1, t, lifted};
}

FusedLoopBuilder::Value FusedLoopBuilder::contiguous(DType t, std::int64_t offset) {
  FusedLoop::Register r;
  r.kind = FusedLoop::Kind::contiguous;
  r.offset = offset;
  r.index = inputs_++;
  return add_register(std::move(r), t);
}

FusedLoopBuilder::Value FusedLoopBuilder::scalar(DType t, std::int64_t offset) {
  FusedLoop::Register r;
  r.kind = FusedLoop::Kind::scalar;
  r.offset = offset;
  r.index = inputs_++;
  return add_register(std::move(r), t);
}

FusedLoopBuilder::Value FusedLoopBuilder::broadcast(DType t, Dims dims, Dims strides,
                                                    std::int64_t offset) {
  FusedLoop::Register r;
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
  if (r.dims.empty() || (r.dims.size() == 1 && r.strides[0] == 0)) {
    return scalar(t, offset);
  }
  if (r.dims.size() == 1 && r.strides[0] == 1) return contiguous(t, offset);
  r.kind = FusedLoop::Kind::broadcast;
  r.index = inputs_++;
  r.offset = offset;
  return add_register(std::move(r), t);
}

FusedLoopBuilder::Value FusedLoopBuilder::composed(DType t, ComposedView m) {
  FusedLoop::Register r;
  r.kind = FusedLoop::Kind::composed;
  r.index = int(program_->views_.size());
  program_->views_.push_back(std::move(m));
  return add_register(std::move(r), t);
}

FusedLoopBuilder::Value FusedLoopBuilder::source(DType t,
                                                 std::shared_ptr<const ElementSource> source,
                                                 int inputs, double nanoseconds) {
  FusedLoop::Register r;
  r.kind = FusedLoop::Kind::source;
  r.index = int(program_->sources_.size());
  program_->sources_.emplace_back(std::move(source), inputs_);
  inputs_ += inputs;
  program_->nanoseconds_ += nanoseconds;
  return add_register(std::move(r), t);
}

FusedLoopBuilder::Value FusedLoopBuilder::constant(const Literal& scalar) {
  FusedLoop::Register r;
  r.kind = FusedLoop::Kind::constant;
  auto& bytes = program_->constants_;
  r.constant = std::int64_t((bytes.size() + 15) / 16 * 16);
  bytes.resize(std::size_t(r.constant) + 16);
  std::memcpy(bytes.data() + r.constant, scalar.bytes(), scalar.byte_count());
  return add_register(std::move(r), scalar.dtype());
}

FusedLoopBuilder::Value FusedLoopBuilder::iota(DType t, const Dims& dims, std::int64_t dim) {
  FusedLoop::Register r;
  r.kind = FusedLoop::Kind::iota;
  r.dtype = t;
  r.dims = {1, dims[std::size_t(dim)], 1};
  for (auto d = dim + 1; d < std::int64_t(dims.size()); ++d) r.dims[2] *= dims[std::size_t(d)];
  return add_register(std::move(r), t);
}

FusedLoopBuilder::Value FusedLoopBuilder::emit(BlockFunction f, const std::vector<Value>& operands,
                                               DType result, bool lifted, double nanoseconds,
                                               std::shared_ptr<const void> attributes) {
  const Value out = add_register({}, result, lifted);
  FusedLoop::Op op;
  op.function = f;
  op.attributes = std::move(attributes);
  op.out = out.reg;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    op.operands.push_back(operands[k].reg);
    if (program_->registers_[std::size_t(operands[k].reg)].scalar()) op.scalars |= 1u << k;
  }
  program_->ops_.push_back(std::move(op));
  program_->nanoseconds_ += nanoseconds;
  return out;
}

FusedLoopBuilder::Value FusedLoopBuilder::lift(Value v) {
  if (!is_half(v.dtype) || v.lifted) return v;
  return emit(lift_block(v.dtype), {v}, v.dtype, true, 1);
}

FusedLoopBuilder::Value FusedLoopBuilder::raw(Value v) {
  if (!v.lifted) return v;
  return emit(convert_block(DType::f32, v.dtype), {v}, v.dtype, false, 1);
}

std::optional<FusedLoopBuilder::Value> FusedLoopBuilder::apply(const ir::Instruction& instruction,
                                                               const std::vector<Value>& operands) {
  const Opcode op = instruction.opcode;
  const DType result = instruction.shape.dtype;
  if (!instruction.shape.is_array() || !has_blocks(result) || operands.empty()) return std::nullopt;
  for (const Value& v : operands) {
    if (!has_blocks(v.dtype)) return std::nullopt;
  }
  const DType type = operands[0].dtype;
  const DType held = is_half(type) ? DType::f32 : type;
  const double cost = cost_of(op, held);
  switch (op) {
    case Opcode::copy:
      return operands[0];
    case Opcode::convert: {
      if (type == result) return operands[0];
      const Value v = lift(operands[0]);
      if (held == result) return Value{v.reg, result, false};
      const BlockFunction f = convert_block(held, result);
      if (f == nullptr) return std::nullopt;
      return emit(f, {v}, result, false, 1);
    }
    case Opcode::bitcast_convert: {
      if (byte_size(type) != byte_size(result)) return std::nullopt;
      return Value{raw(operands[0]).reg, result, false};
    }
    case Opcode::select: {
      Value a = operands[1], b = operands[2];
      if (a.lifted != b.lifted) a = lift(a), b = lift(b);
      const BlockFunction f = select_block(a.lifted ? 4 : byte_size(result));
      if (f == nullptr) return std::nullopt;
      return emit(f, {operands[0], a, b}, result, a.lifted, cost);
    }
    case Opcode::compare: {
      const auto& attrs = instruction.get<ir::CompareAttrs>();
      const BlockFunction f = compare_block(attrs.direction, attrs.type, held);
      if (f == nullptr) return std::nullopt;
      return emit(f, {lift(operands[0]), lift(operands[1])}, result, false, cost);
    }
    case Opcode::clamp: {
      const BlockFunction f = clamp_block(held);
      if (f == nullptr) return std::nullopt;
      return emit(f, {lift(operands[0]), lift(operands[1]), lift(operands[2])}, result,
                  is_half(result), cost);
    }
    default:
      break;
  }
  BlockFunction f = nullptr;
  std::shared_ptr<const void> attributes;
  if (op == Opcode::reduce_precision) {
    f = reduce_precision_block(held);
    attributes =
        std::make_shared<ir::ReducePrecisionAttrs>(instruction.get<ir::ReducePrecisionAttrs>());
  } else if (operands.size() == 1) {
    f = unary_block(op, held);
  } else if (operands.size() == 2 && (op == Opcode::complex || operands[1].dtype == type)) {
    f = binary_block(op, held);
  }
  if (f == nullptr) return std::nullopt;
  std::vector<Value> lifted;
  for (const Value& v : operands) lifted.push_back(lift(v));
  const bool half = is_half(result);
  Value out = emit(f, lifted, result, half, cost, std::move(attributes));
  if (half && !ir::has_trait(op, ir::traits::exact))
    out = emit(round_block(result), {out}, result, true, 1);
  return out;
}

void FusedLoopBuilder::output(Value v) { outputs_.push_back(raw(v)); }

std::shared_ptr<const FusedLoop> FusedLoopBuilder::finish() {
  FusedLoop& p = *program_;
  auto kind = [&](int reg) -> FusedLoop::Kind& { return p.registers_[std::size_t(reg)].kind; };
  // Results are written by the last ops, when no input is read any more: inputs may be overwritten.
  const bool direct =
      outputs_.size() == 1 && !p.ops_.empty() && p.ops_.back().out == outputs_[0].reg;
  if (outputs_.size() == 1 && p.ops_.empty() && kind(outputs_[0].reg) == FusedLoop::Kind::source) {
    p.whole_ = outputs_[0].reg;
    p.block_ = 4096;
  } else if (direct) {
    kind(outputs_[0].reg) = FusedLoop::Kind::output;
  } else {
    if (outputs_.size() > 1) {
      for (Value& v : outputs_) {
        if (kind(v.reg) != FusedLoop::Kind::contiguous) continue;
        v = emit(copy_block(byte_size(v.dtype)), {v}, v.dtype, false, 0.3);
      }
    }
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const Value v = outputs_[i];
      const Value o = emit(copy_block(byte_size(v.dtype)), {v}, v.dtype, false, 0.3);
      kind(o.reg) = FusedLoop::Kind::output;
      p.registers_[std::size_t(o.reg)].index = int(i);
    }
  }
  // Places in scratch memory, given back after the last use.
  std::vector<std::size_t> last(p.registers_.size(), 0);
  for (std::size_t i = 0; i < p.ops_.size(); ++i) {
    for (const int r : p.ops_[i].operands) last[std::size_t(r)] = i;
    last[std::size_t(p.ops_[i].out)] = std::max(last[std::size_t(p.ops_[i].out)], i);
  }
  std::vector<std::int64_t> free;
  int widest = 1;
  const auto take = [&](FusedLoop::Register& r) {
    if (free.empty()) free.push_back(p.places_++);
    r.constant = free.back();
    free.pop_back();
    widest = std::max(widest, r.element_bytes);
  };
  for (std::size_t r = 0; r < p.registers_.size(); ++r) {
    if (!p.registers_[r].generated()) continue;
    p.generated_.push_back(int(r));
    if (int(r) != p.whole_) take(p.registers_[r]);
    p.nanoseconds_ += 0.3;
  }
  for (std::size_t i = 0; i < p.ops_.size(); ++i) {
    auto& out = p.registers_[std::size_t(p.ops_[i].out)];
    if (out.kind == FusedLoop::Kind::temporary) take(out);
    std::vector<int> dying = p.ops_[i].operands;
    dying.push_back(p.ops_[i].out);
    std::sort(dying.begin(), dying.end());
    dying.erase(std::unique(dying.begin(), dying.end()), dying.end());
    for (const int r : dying) {
      const auto& reg = p.registers_[std::size_t(r)];
      const bool placed = reg.kind == FusedLoop::Kind::temporary || reg.generated();
      if (placed && last[std::size_t(r)] == i) free.push_back(reg.constant);
    }
  }
  if (p.places_ > 0) {
    const std::int64_t fitting = (24 << 10) / (std::int64_t(p.places_) * widest);
    p.block_ = std::clamp<std::int64_t>(fitting / 64 * 64, 128, 2048);
    p.place_bytes_ = p.block_ * widest;
  }
  return program_;
}

double operation_cost(const ir::Instruction& instruction) {
  const DType t = instruction.operand(0)->shape.dtype;
  return cost_of(instruction.opcode, is_half(t) ? DType::f32 : t);
}

bool is_loop_op(const ir::Instruction& instruction) {
  if (!instruction.shape.is_array() || instruction.operands().empty() ||
      instruction.operands().size() > 3) {
    return false;
  }
  if (!ir::is_elementwise(instruction.opcode) || instruction.is(Opcode::copy)) return false;
  FusedLoopBuilder probe;
  std::vector<FusedLoopBuilder::Value> operands;
  for (const ir::Instruction* o : instruction.operands()) {
    if (!o->shape.is_array()) return false;
    operands.push_back(probe.contiguous(o->shape.dtype));
  }
  return probe.apply(instruction, operands).has_value();
}

std::shared_ptr<const FusedLoop> program_of(const ir::Computation& computation) {
  FusedLoopBuilder builder;
  std::unordered_map<const ir::Instruction*, FusedLoopBuilder::Value> values;
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
    std::vector<FusedLoopBuilder::Value> operands;
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

KernelSpec loop_kernel(std::shared_ptr<const FusedLoop> program, std::int64_t elements,
                       std::size_t inputs) {
  constexpr double kStart = 20, kPerInput = 0.1;
  KernelSpec spec;
  spec.function = [](const runtime::KernelCall& call) {
    static_cast<const FusedLoop*>(call.attributes)
        ->run(call.inputs, call.outputs, call.begin, call.end);
  };
  spec.units = elements;
  spec.nanoseconds =
      kStart + double(elements) * (program->nanoseconds() + kPerInput * double(inputs));
  spec.attributes = std::move(program);
  return spec;
}

}  // namespace tessera::codegen
