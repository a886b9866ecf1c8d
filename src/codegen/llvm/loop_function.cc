// SPDX-License-Identifier: Apache-2.0
// Emits loops over elements, by vectors.
#include "src/codegen/llvm/loop_function.h"

#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>

#include "src/base/arrays/small_floats.h"
#include "src/codegen/llvm/conversions.h"
#include "src/codegen/llvm/elementwise_ops.h"

namespace tessera::codegen {

using llvm::BasicBlock;
using llvm::Function;
using llvm::Value;
using Kind = LoopExpr::Kind;

void emit_for(llvm::IRBuilder<>& b, Value* begin, Value* end, Value* step,
              const std::function<void(Value*)>& body) {
  Function* f = b.GetInsertBlock()->getParent();
  BasicBlock* before = b.GetInsertBlock();
  BasicBlock* loop = BasicBlock::Create(b.getContext(), "loop", f);
  BasicBlock* after = BasicBlock::Create(b.getContext(), "after", f);
  b.CreateCondBr(b.CreateICmpSLT(begin, end), loop, after);
  b.SetInsertPoint(loop);
  llvm::PHINode* at = b.CreatePHI(b.getInt64Ty(), 2);
  at->addIncoming(begin, before);
  body(at);
  Value* next = b.CreateAdd(at, step);
  at->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpSLT(next, end), loop, after);
  b.SetInsertPoint(after);
}

namespace {

Lanes constant_of(const VectorBuilder& v, const LoopExpr& program, const LoopExpr::Register& r) {
  const std::byte* from = program.constants.data() + r.constant;
  const auto bytes = std::size_t(r.element_bytes);
  if (bytes == 16) {
    double parts[2];
    std::copy_n(from, 16, reinterpret_cast<std::byte*>(parts));
    llvm::Type* t = v.vector(v.b.getDoubleTy());
    return VectorBuilder::complex(v.constant(t, parts[0]), v.constant(t, parts[1]));
  }
  std::uint64_t bits = 0;
  std::copy_n(from, bytes, reinterpret_cast<std::byte*>(&bits));
  return VectorBuilder::bits(v.integer(v.integers(unsigned(bytes) * 8), bits));
}

}  // namespace

LoopBody::LoopBody(llvm::IRBuilder<>& b, const Machine& machine, const LoopSource& source,
                   unsigned width, const Arguments& arguments)
    : b_(b), machine_(machine), program_(*source.program), nest_(source.nest), width_(width) {
  const std::size_t n = program_.registers.size();
  bases_.resize(n);
  row_.resize(n);
  first_in_window_.resize(n);
  fixed_.resize(n);
  values_.resize(n);
  const VectorBuilder v(b, machine, width);
  for (std::size_t k = 0; k < n; ++k) {
    const Register& r = program_.registers[k];
    const auto bytes = unsigned(r.element_bytes);
    if (nest_.made[k]) {
      // Its block begins with element `begin`.
      bases_[k] = offset(pointer(arguments.made, k), b.CreateNeg(arguments.begin), bytes);
      continue;
    }
    switch (r.kind) {
      case Kind::contiguous:
      case Kind::broadcast:
      case Kind::scalar:
        bases_[k] = offset(pointer(arguments.inputs, std::size_t(r.index)),
                           first_element(r, arguments), bytes);
        if (r.kind == Kind::scalar) fixed_[k] = v.load_splat(bases_[k], bytes);
        break;
      case Kind::array:
        bases_[k] = pointer(arguments.inputs, std::size_t(r.index));
        break;
      case Kind::constant:
        fixed_[k] = constant_of(v, program_, r);
        break;
      case Kind::output:
        if (outputs_.size() <= std::size_t(r.index)) outputs_.resize(std::size_t(r.index) + 1);
        outputs_[std::size_t(r.index)] = k;
        if (arguments.outputs != nullptr) {
          bases_[k] = offset(pointer(arguments.outputs, std::size_t(r.index)),
                             b.CreateSub(first_element(r, arguments), arguments.first), bytes);
        }
        break;
      default:
        break;
    }
  }
}

Value* LoopBody::pointer(Value* list, std::size_t k) const {
  return b_.CreateLoad(b_.getPtrTy(), b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), list, k));
}

/// Of what is read or written, from where its array begins.
Value* LoopBody::first_element(const Register& r, const Arguments& arguments) const {
  Value* out = b_.getInt64(std::uint64_t(r.offset));
  for (const LoopExpr::Start& s : r.starts) {
    Value* at = b_.CreateLoad(b_.getIntNTy(unsigned(byte_size(s.dtype)) * 8),
                              pointer(arguments.inputs, std::size_t(s.input)));
    if (is_signed_integer(s.dtype))
      at = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, at,
                                    llvm::ConstantInt::get(at->getType(), 0));
    // It is not negative any more: a limit that the type can't reach doesn't matter.
    at = b_.CreateZExt(at, b_.getInt64Ty());
    at = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, at, b_.getInt64(std::uint64_t(s.limit)));
    out = b_.CreateAdd(out, b_.CreateMul(at, b_.getInt64(std::uint64_t(s.scale))));
  }
  return out;
}

unsigned LoopBody::output_bytes(std::size_t k) const {
  return unsigned(program_.registers[outputs_[k]].element_bytes);
}

Value* LoopBody::offset(Value* base, Value* elements, unsigned bytes) const {
  return b_.CreateGEP(b_.getInt8Ty(), base, b_.CreateMul(elements, b_.getInt64(bytes)));
}

/// The number of an iota, from its index.
Lanes LoopBody::number(const VectorBuilder& v, std::size_t k, Value* index) {
  const DType t = program_.registers[k].dtype;
  if (t == DType::f16 || t == DType::bf16 || is_small_float(t)) {
    Value* single = v.b.CreateSIToFP(index, v.vector(v.b.getFloatTy()));
    const auto small = emit_convert(v, DType::f32, t, VectorBuilder::bits(single));
    if (small) return *small;
    complete_ = false;
    return VectorBuilder::bits(
        llvm::Constant::getNullValue(v.integers(unsigned(byte_size(t)) * 8)));
  }
  if (is_complex(t)) {
    llvm::Type* part = v.vector(v.element(t));
    return VectorBuilder::complex(v.b.CreateSIToFP(index, part),
                                  llvm::Constant::getNullValue(part));
  }
  llvm::Type* type = v.vector(v.element(t));
  if (type->isFPOrFPVectorTy()) return VectorBuilder::bits(v.b.CreateSIToFP(index, type));
  return VectorBuilder::bits(v.b.CreateSExtOrTrunc(index, type));
}

void LoopBody::enter_row(Value* row) {
  // Coordinates in all dims but the last.
  const std::size_t rank = nest_.steps.size();
  std::vector<Value*> at(rank - 1);
  for (std::size_t d = 0; d + 1 < rank; ++d) {
    const std::int64_t step = nest_.steps[d] / nest_.row();
    at[d] = b_.CreateUDiv(row, b_.getInt64(std::uint64_t(step)));
    if (d > 0) {
      const std::int64_t extent = nest_.steps[d - 1] / nest_.steps[d];
      at[d] = b_.CreateURem(at[d], b_.getInt64(std::uint64_t(extent)));
    }
  }
  const VectorBuilder v(b_, machine_, width_);
  for (std::size_t k = 0; k < program_.registers.size(); ++k) {
    const auto& strides = nest_.strides[k];
    if (strides.empty()) continue;
    const Register& r = program_.registers[k];
    Value* first = b_.getInt64(0);
    for (std::size_t d = 0; d + 1 < rank; ++d) {
      if (strides[d] == 0) continue;
      first = b_.CreateAdd(first, b_.CreateMul(at[d], b_.getInt64(std::uint64_t(strides[d]))));
    }
    if (r.window) first = b_.CreateAdd(first, moved_by_window(k, row));
    row_[k] = r.kind == Kind::iota ? first : offset(bases_[k], first, unsigned(r.element_bytes));
    if (strides.back() != 0) continue;
    fixed_[k] = r.kind == Kind::iota ? number(v, k, v.splat(first))
                                     : v.load_splat(row_[k], unsigned(r.element_bytes));
  }
}

/// In a row.
Lanes LoopBody::strided(const VectorBuilder& v, std::size_t k, Value* column) {
  const Register& r = program_.registers[k];
  const auto bytes = unsigned(r.element_bytes);
  const std::int64_t stride = nest_.strides[k].back();
  if (r.window && window_step(r) == 1) return windowed(v, k, column);
  if (r.kind == Kind::iota) {
    Value* first = b_.CreateAdd(row_[k], column);
    // Numbers beyond 32 bits are rare: they wrap as the type does.
    const unsigned bits = r.element_bytes < 8 ? 32 : 64;
    Value* start = v.splat(b_.CreateTrunc(first, b_.getIntNTy(bits)));
    return number(v, k, b_.CreateAdd(start, lanes(v, bits)));
  }
  if (stride == 1 && lane_step_ == 1) return v.load(offset(row_[k], column, bytes), bytes);
  Value* first = offset(row_[k], b_.CreateMul(column, b_.getInt64(std::uint64_t(stride))), bytes);
  std::vector<std::int64_t> places;
  for (unsigned lane = 0; lane < v.width; ++lane) places.push_back(lane * lane_step_ * stride);
  return scattered(v, first, places, bytes);
}

/// Elements that are so far from the one at `first`. Neighbours are read together, and then put in
/// their places.
Lanes LoopBody::scattered(const VectorBuilder& v, Value* first,
                          const std::vector<std::int64_t>& from_first, unsigned bytes) const {
  constexpr std::int64_t kMostApart = 16;
  const auto [lowest, highest] = std::minmax_element(from_first.begin(), from_first.end());
  first = offset(first, b_.getInt64(std::uint64_t(*lowest)), bytes);
  const std::int64_t span = *highest - *lowest + 1;
  if (span == 1) return v.load_splat(first, bytes);
  llvm::SmallVector<int> places;
  llvm::SmallVector<llvm::Constant*> apart;
  for (const std::int64_t n : from_first) {
    places.push_back(int(n - *lowest));
    apart.push_back(b_.getInt64(std::uint64_t(n - *lowest)));
  }
  if (bytes == 16 || span > kMostApart * std::int64_t(v.width)) {
    return v.gather(first, llvm::ConstantVector::get(apart), bytes);
  }
  return VectorBuilder::bits(b_.CreateShuffleVector(neighbours(first, span, bytes), places));
}

/// At least so many elements; those behind are anything. Of odd numbers of elements LLVM would make
/// loads of one each at the end, and nothing may be read behind.
Value* LoopBody::neighbours(Value* first, std::int64_t span, unsigned bytes) const {
  llvm::Type* element = b_.getIntNTy(bytes * 8);
  const std::int64_t most = machine_.vector_bytes / bytes, rest = span % most;
  const bool has_masks = machine_.vector_bytes == 64 || (machine_.vector_bytes == 32 && bytes >= 4);
  if (!has_masks || (rest & (rest - 1)) == 0) {
    auto* type = llvm::FixedVectorType::get(element, unsigned(span));
    return b_.CreateAlignedLoad(type, first, llvm::Align(bytes));
  }
  auto* type = llvm::FixedVectorType::get(element, unsigned(most));
  llvm::SmallVector<llvm::Constant*> mask;
  for (std::int64_t k = 0; k < most; ++k) mask.push_back(b_.getInt1(k < rest));
  std::vector<Value*> parts;
  for (std::int64_t n = 0; n < span; n += most) {
    Value* from = offset(first, b_.getInt64(std::uint64_t(n)), bytes);
    const llvm::Align align(bytes);
    if (n + most <= span) {
      parts.push_back(b_.CreateAlignedLoad(type, from, align));
    } else {
      parts.push_back(b_.CreateMaskedLoad(type, from, align, llvm::ConstantVector::get(mask)));
    }
  }
  while (parts.size() > 1) {
    if (parts.size() % 2 == 1) parts.push_back(llvm::PoisonValue::get(parts[0]->getType()));
    const auto lanes = llvm::cast<llvm::FixedVectorType>(parts[0]->getType())->getNumElements();
    llvm::SmallVector<int> all;
    for (unsigned k = 0; k < 2 * lanes; ++k) all.push_back(int(k));
    std::vector<Value*> joined;
    for (std::size_t k = 0; k < parts.size(); k += 2) {
      joined.push_back(b_.CreateShuffleVector(parts[k], parts[k + 1], all));
    }
    parts = std::move(joined);
  }
  return parts[0];
}

/// How far each lane's element is from the first one's.
Value* LoopBody::lanes(const VectorBuilder& v, unsigned bits) const {
  return b_.CreateMul(v.lane_numbers(bits), v.integer(v.integers(bits), std::uint64_t(lane_step_)));
}

/// Anywhere: the coordinates are found from the elements' numbers.
Lanes LoopBody::indexed(const VectorBuilder& v, std::size_t k, Value* at) {
  const Register& r = program_.registers[k];
  // By periods there may be more elements, and other types.
  const unsigned bits = nest_.periodic ? 64 : 32;
  llvm::Type* type = v.integers(bits);
  Value* element = b_.CreateAdd(v.splat(b_.CreateTrunc(at, b_.getIntNTy(bits))), lanes(v, bits));
  Value* index = v.integer(type, 0);
  if (r.window) {
    std::int64_t step = 1;
    for (std::size_t d = r.dims.size(); d-- > 0; step *= r.dims[d]) {
      Value* c = b_.CreateUDiv(element, v.integer(type, std::uint64_t(step)));
      if (d > 0) c = b_.CreateURem(c, v.integer(type, std::uint64_t(r.dims[d])));
      if (int(d) == r.window.dim) {
        c = b_.CreateSub(in_window(r.window, c), v.integer(type, std::uint64_t(r.window.low)));
      }
      index = b_.CreateAdd(index, b_.CreateMul(c, v.integer(type, std::uint64_t(r.strides[d]))));
    }
    return v.gather(bases_[k], index, unsigned(r.element_bytes));
  }
  for (std::size_t d = 0; d < nest_.steps.size(); ++d) {
    const std::int64_t stride = nest_.strides[k][d];
    if (stride == 0) continue;
    Value* c = b_.CreateUDiv(element, v.integer(type, std::uint64_t(nest_.steps[d])));
    if (d > 0) {
      c = b_.CreateURem(c, v.integer(type, std::uint64_t(nest_.steps[d - 1] / nest_.steps[d])));
    }
    index = b_.CreateAdd(index, b_.CreateMul(c, v.integer(type, std::uint64_t(stride))));
  }
  if (r.kind == Kind::iota) {
    if (r.element_bytes < 8 && bits == 64) index = b_.CreateTrunc(index, v.integers(32));
    return number(v, k, index);
  }
  return v.gather(bases_[k], index, unsigned(r.element_bytes));
}

void LoopBody::open_periods(const LoopPeriod& period) {
  period_ = period;
  const VectorBuilder v(b_, machine_, width_);
  same_.assign(program_.registers.size(), {});
  for (std::size_t k = 0; k < program_.registers.size(); ++k) {
    const auto& strides = nest_.strides[k];
    const auto moving = strides.begin() + std::ptrdiff_t(period.dim) + 1;
    if (strides.empty() || std::any_of(strides.begin(), moving, [](auto s) { return s != 0; })) {
      continue;
    }
    row_[k] = program_.registers[k].kind == Kind::iota ? b_.getInt64(0) : bases_[k];
    for (std::int64_t n = 0; n * width_ < period.elements; ++n) {
      same_[k].push_back(of_period(v, k, n));
    }
  }
}

void LoopBody::enter_period(Value* number) {
  std::vector<Value*> at;
  for (std::size_t d = 0; d <= period_.dim; ++d) {
    // In the last of these dims a period may have several places.
    const std::int64_t step = nest_.steps[d], all = period_.elements;
    Value* place = step >= all ? b_.CreateUDiv(number, b_.getInt64(std::uint64_t(step / all)))
                               : b_.CreateMul(number, b_.getInt64(std::uint64_t(all / step)));
    if (d > 0) {
      const std::int64_t extent = nest_.steps[d - 1] / step;
      place = b_.CreateURem(place, b_.getInt64(std::uint64_t(extent)));
    }
    at.push_back(place);
  }
  for (std::size_t k = 0; k < program_.registers.size(); ++k) {
    const auto& strides = nest_.strides[k];
    if (strides.empty() || !same_[k].empty()) continue;
    const Register& r = program_.registers[k];
    Value* first = b_.getInt64(0);
    for (std::size_t d = 0; d < at.size(); ++d) {
      if (strides[d] == 0) continue;
      first = b_.CreateAdd(first, b_.CreateMul(at[d], b_.getInt64(std::uint64_t(strides[d]))));
    }
    row_[k] = r.kind == Kind::iota ? first : offset(bases_[k], first, unsigned(r.element_bytes));
  }
}

/// A vector of a period: from its first element lanes are known numbers of elements away.
Lanes LoopBody::of_period(const VectorBuilder& v, std::size_t k, std::int64_t vector) {
  const Register& r = program_.registers[k];
  const auto bytes = unsigned(r.element_bytes);
  std::vector<std::int64_t> from_first;
  for (unsigned lane = 0; lane < v.width; ++lane) {
    std::int64_t rest = vector * v.width + lane, out = 0;
    if (r.window) {
      // Its dims from the window's on are whole in a period; those before are the nest's.
      std::int64_t inner = rest, step = 1;
      for (auto d = r.dims.size(); d-- > std::size_t(r.window.dim); step *= r.dims[d]) {
        const std::int64_t c = inner % r.dims[d];
        out += (int(d) == r.window.dim ? r.window.of(c) : c) * r.strides[d];
        inner /= r.dims[d];
      }
      rest = rest / step * step;
    }
    for (std::size_t d = period_.dim; d < nest_.steps.size(); ++d) {
      out += rest / nest_.steps[d] * nest_.strides[k][d];
      rest %= nest_.steps[d];
    }
    from_first.push_back(out);
  }
  if (r.kind == Kind::iota) {
    const unsigned bits = bytes < 8 ? 32 : 64;
    Value* first = v.splat(b_.CreateTrunc(row_[k], b_.getIntNTy(bits)));
    llvm::SmallVector<llvm::Constant*> numbers;
    for (const std::int64_t n : from_first) {
      numbers.push_back(llvm::ConstantInt::get(b_.getIntNTy(bits), std::uint64_t(n)));
    }
    return number(v, k, b_.CreateAdd(first, llvm::ConstantVector::get(numbers)));
  }
  return scattered(v, row_[k], from_first, bytes);
}

Lanes LoopBody::read(const VectorBuilder& v, std::size_t k, Value* at, Value* column) {
  const Register& r = program_.registers[k];
  const auto bytes = unsigned(r.element_bytes);
  if (nest_.made[k] || r.kind == Kind::contiguous) {
    Value* first = offset(bases_[k], at, bytes);
    return lane_step_ == 1 ? v.load(first, bytes) : v.gather(first, lanes(v, 64), bytes);
  }
  if (vector_ >= 0 && !nest_.strides[k].empty()) {
    return same_[k].empty() ? of_period(v, k, vector_) : same_[k][std::size_t(vector_)];
  }
  const bool fixed = r.scalar() || (nest_.by_rows && nest_.strides[k].back() == 0);
  if (!fixed) return nest_.by_rows ? strided(v, k, column) : indexed(v, k, at);
  if (v.width == width_) return fixed_[k];
  const auto first = [&](Value* of) {
    return of == nullptr ? nullptr : v.splat(b_.CreateExtractElement(of, std::uint64_t(0)));
  };
  return {fixed_[k].kind, first(fixed_[k].value), first(fixed_[k].imaginary)};
}

Lanes LoopBody::taken(const VectorBuilder& v, const LoopExpr::Op& op) const {
  llvm::Type* type = v.integers(32);
  Value* at = v.as(DType::s32, values_[std::size_t(op.operands[1])]);
  at = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, at, v.integer(type, 0));
  at = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, at,
                                v.integer(type, std::uint64_t(op.op.last)));
  return v.gather(bases_[std::size_t(op.operands[0])], at, unsigned(op.op.element_bytes));
}

bool LoopBody::run(unsigned width, Value* at, Value* column) {
  const VectorBuilder v(b_, machine_, width);
  // All is read before anything is stored: an output may lie where an input did.
  for (std::size_t k = 0; k < program_.registers.size(); ++k) {
    const Kind kind = program_.registers[k].kind;
    if (kind == Kind::temporary || kind == Kind::output || kind == Kind::array) continue;
    values_[k] = read(v, k, at, column);
  }
  for (const LoopExpr::Op& op : program_.ops) {
    if (op.op.kind == BlockOp::Kind::take) {
      values_[std::size_t(op.out)] = taken(v, op);
      continue;
    }
    std::vector<Lanes> operands;
    for (const int r : op.operands) operands.push_back(values_[std::size_t(r)]);
    const std::optional<Lanes> made = emit_operation(v, op.op, operands);
    if (!made) return false;
    values_[std::size_t(op.out)] = *made;
  }
  return complete_;
}

void LoopBody::store(unsigned width, Value* at) {
  const VectorBuilder v(b_, machine_, width);
  for (std::size_t k = 0; k < outputs_.size(); ++k) {
    const unsigned bytes = output_bytes(k);
    Value* to = offset(bases_[outputs_[k]], at, bytes);
    // Lines of the cache are written as a whole: half a line at least, and where one begins.
    if (streams_ == nullptr || width != width_ || width * bytes < 32) {
      v.store(output(k), bytes, to);
      continue;
    }
    Function* f = b_.GetInsertBlock()->getParent();
    BasicBlock* past = BasicBlock::Create(b_.getContext(), "past_caches", f);
    BasicBlock* plain = BasicBlock::Create(b_.getContext(), "plain", f);
    BasicBlock* stored = BasicBlock::Create(b_.getContext(), "stored", f);
    Value* into = b_.CreateAnd(b_.CreatePtrToInt(to, b_.getInt64Ty()),
                               b_.getInt64(std::uint64_t(width * bytes - 1)));
    b_.CreateCondBr(b_.CreateAnd(streams_, b_.CreateIsNull(into)), past, plain);
    b_.SetInsertPoint(past);
    v.store_past_caches(output(k), bytes, to);
    b_.CreateBr(stored);
    b_.SetInsertPoint(plain);
    v.store(output(k), bytes, to);
    b_.CreateBr(stored);
    b_.SetInsertPoint(stored);
  }
}

void LoopBody::may_stream(Value* condition) {
#if defined(__x86_64__)
  streams_ = condition;
#else
  (void)condition;
#endif
}

/// Such stores come in no order: others may read them behind a fence.
void LoopBody::finish_streams() {
#if defined(__x86_64__)
  Function* f = b_.GetInsertBlock()->getParent();
  BasicBlock* fence = BasicBlock::Create(b_.getContext(), "fence", f);
  BasicBlock* end = BasicBlock::Create(b_.getContext(), "end", f);
  b_.CreateCondBr(streams_, fence, end);
  b_.SetInsertPoint(fence);
  b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
  b_.CreateBr(end);
  b_.SetInsertPoint(end);
#endif
}

void emit_counts(llvm::IRBuilder<>& b, Value* n, llvm::ArrayRef<unsigned> widths,
                 const std::function<void(unsigned, Value*)>& each) {
  Value* first = b.getInt64(0);
  for (std::size_t k = 0; k < widths.size(); ++k) {
    const unsigned width = widths[k];
    if (k > 0 && width == widths[k - 1]) continue;
    Value* left = b.CreateSub(n, first);
    Value* last = width == 1 ? n : b.CreateSub(n, b.CreateURem(left, b.getInt64(width)));
    emit_for(b, first, last, b.getInt64(width), [&](Value* at) { each(width, at); });
    first = last;
  }
}

void emit_range(llvm::IRBuilder<>& b, LoopBody* body, const LoopNest& nest,
                llvm::ArrayRef<unsigned> widths, Value* begin, Value* end,
                const std::function<void(unsigned, Value*, Value*)>& each) {
  const auto stretch = [&](Value* from, Value* to, Value* column_of_from) {
    emit_counts(b, b.CreateSub(to, from), widths, [&](unsigned width, Value* k) {
      each(width, b.CreateAdd(from, k),
           column_of_from == nullptr ? nullptr : b.CreateAdd(column_of_from, k));
    });
  };
  if (nest.periodic) {
    const unsigned width = widths.front();
    const LoopPeriod period = period_of(nest, width);
    Value* all = b.getInt64(std::uint64_t(period.elements));
    const auto one_by_one = [&](Value* from, Value* to) {
      emit_for(b, from, to, b.getInt64(1), [&](Value* at) { each(1, at, nullptr); });
    };
    // The first period that begins here, and the first that doesn't end here.
    Value* first =
        b.CreateUDiv(b.CreateAdd(begin, b.getInt64(std::uint64_t(period.elements - 1))), all);
    Value* last = b.CreateUDiv(end, all);
    Value* from = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b.CreateMul(first, all), end);
    one_by_one(begin, from);
    body->open_periods(period);
    emit_for(b, first, last, b.getInt64(1), [&](Value* number) {
      body->enter_period(number);
      Value* start = b.CreateMul(number, all);
      for (std::int64_t n = 0; n * width < period.elements; ++n) {
        body->set_vector(n);
        each(width, b.CreateAdd(start, b.getInt64(std::uint64_t(n * width))), nullptr);
      }
    });
    body->set_vector(-1);
    one_by_one(b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, from, b.CreateMul(last, all)), end);
    return;
  }
  if (!nest.by_rows) return stretch(begin, end, nullptr);
  Value* length = b.getInt64(std::uint64_t(nest.row()));
  Value* first_row = b.CreateUDiv(begin, length);
  Value* last_row =
      b.CreateUDiv(b.CreateAdd(end, b.getInt64(std::uint64_t(nest.row() - 1))), length);
  // An empty range may begin within a row.
  last_row = b.CreateSelect(b.CreateICmpSLT(begin, end), last_row, first_row);
  emit_for(b, first_row, last_row, b.getInt64(1), [&](Value* row) {
    Value* start = b.CreateMul(row, length);
    Value* stop = b.CreateAdd(start, length);
    Value* from = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, start, begin);
    Value* to = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, stop, end);
    body->enter_row(row);
    stretch(from, to, b.CreateSub(from, start));
  });
}

unsigned vector_width(const LoopExpr& program, const Machine& machine) {
  unsigned widest = 1;
  for (const LoopExpr::Register& r : program.registers) {
    widest = std::max(widest, unsigned(r.element_bytes));
  }
  // Complex numbers are two vectors.
  return std::max(2U, machine.vector_bytes / std::min(widest, 8U));
}

std::optional<std::vector<Lanes>> emit_program(const VectorBuilder& v, const LoopExpr& program,
                                               const std::vector<Lanes>& inputs) {
  std::vector<Lanes> values(program.registers.size());
  std::vector<Lanes> out;
  for (std::size_t k = 0; k < values.size(); ++k) {
    const LoopExpr::Register& r = program.registers[k];
    if (r.kind == Kind::contiguous || r.kind == Kind::scalar) {
      values[k] = inputs.at(std::size_t(r.index));
    } else if (r.kind == Kind::constant) {
      values[k] = constant_of(v, program, r);
    } else if (r.generated() || r.kind == Kind::array) {
      return std::nullopt;
    } else if (r.kind == Kind::output && out.size() <= std::size_t(r.index)) {
      out.resize(std::size_t(r.index) + 1);
    }
  }
  for (const LoopExpr::Op& op : program.ops) {
    std::vector<Lanes> operands;
    for (const int r : op.operands) operands.push_back(values[std::size_t(r)]);
    const std::optional<Lanes> made = emit_operation(v, op.op, operands);
    if (!made) return std::nullopt;
    values[std::size_t(op.out)] = *made;
    const LoopExpr::Register& r = program.registers[std::size_t(op.out)];
    if (r.kind == Kind::output) out[std::size_t(r.index)] = *made;
  }
  return out;
}

Function* add_loop_function(llvm::Module* module, const char* name) {
  llvm::LLVMContext& context = module->getContext();
  llvm::Type* pointer = llvm::PointerType::getUnqual(context);
  llvm::Type* number = llvm::Type::getInt64Ty(context);
  auto* type =
      llvm::FunctionType::get(llvm::Type::getVoidTy(context),
                              {pointer, pointer, pointer, number, number, number, number}, false);
  Function* f = Function::Create(type, Function::ExternalLinkage, name, module);
  BasicBlock::Create(context, "entry", f);
  return f;
}

bool emit_loop_function(llvm::Module* module, const Machine& machine, const LoopSource& source,
                        const char* name) {
  Function* f = add_loop_function(module, name);
  llvm::IRBuilder<> b(&f->getEntryBlock());
  const unsigned width = vector_width(*source.program, machine);
  Value* begin = f->getArg(3);
  LoopBody body(b, machine, source, width,
                {f->getArg(0), f->getArg(1), f->getArg(2), begin, f->getArg(5)});
  body.may_stream(b.CreateIsNotNull(f->getArg(6)));
  bool complete = true;
  emit_range(b, &body, source.nest, {width, 1}, begin, f->getArg(4),
             [&](unsigned w, Value* at, Value* column) {
               complete = complete && body.run(w, at, column);
               if (complete) body.store(w, at);
             });
  body.finish_streams();
  b.CreateRetVoid();
  return complete;
}

}  // namespace tessera::codegen
