// SPDX-License-Identifier: Apache-2.0
// How the body of a loop reads what its ops take: neighbours, elements some stride apart, columns
// of a window, periods that are alike, and, where none of that holds, elements anywhere.
#include <algorithm>

#include "src/base/arrays/small_floats.h"
#include "src/codegen/llvm/conversions.h"
#include "src/codegen/llvm/loop_function.h"

namespace tessera::codegen {

using llvm::BasicBlock;
using llvm::Function;
using llvm::Value;
using Kind = LoopExpr::Kind;

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
  if (pitch_ != 0) {
    between_rows_ = b_.CreateMul(row, b_.getInt64(std::uint64_t(pitch_ - nest_.row())));
  }
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

/// The nearest coordinate that is inside.
Value* LoopBody::in_window(const LoopExpr::Window& w, Value* coordinate) {
  const auto number = [&](std::int64_t n) {
    return llvm::ConstantInt::get(coordinate->getType(), std::uint64_t(n));
  };
  coordinate = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, coordinate, number(w.low));
  return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, coordinate, number(w.high - 1));
}

/// By how many elements a row is read elsewhere than without the window.
Value* LoopBody::moved_by_window(std::size_t k, Value* row) {
  const Register& r = program_.registers[k];
  const auto dim = std::size_t(r.window.dim);
  const std::int64_t step = window_step(r), extent = r.dims[dim];
  const auto number = [&](std::int64_t n) { return b_.getInt64(std::uint64_t(n)); };
  if (step == 1) {
    Value* first = b_.CreateMul(row, number(nest_.row()));
    if (dim > 0) first = b_.CreateURem(first, number(extent));
    first_in_window_[k] = first;
    return number(-r.window.low);
  }
  Value* at = b_.CreateUDiv(row, number(step / nest_.row()));
  if (dim > 0) at = b_.CreateURem(at, number(extent));
  Value* inside = b_.CreateSub(in_window(r.window, at), number(r.window.low));
  return b_.CreateMul(b_.CreateSub(inside, at), number(r.strides[dim]));
}

/// Columns of a window, in a row: of those outside the nearest is read.
Lanes LoopBody::windowed(const VectorBuilder& v, std::size_t k, Value* column) {
  const Register& r = program_.registers[k];
  const auto bytes = unsigned(r.element_bytes);
  Value* at = b_.CreateAdd(first_in_window_[k], column);
  const auto clamped = [&] {
    Value* coordinates = b_.CreateAdd(v.splat(at), lanes(v, 64));
    coordinates = in_window(r.window, coordinates);
    return v.gather(row_[k], b_.CreateSub(coordinates, v.splat(first_in_window_[k])), bytes);
  };
  if (v.width == 1 || lane_step_ != 1) return clamped();
  // Nearly all vectors are inside, or outside, where nothing is used of what is read.
  Function* f = b_.GetInsertBlock()->getParent();
  BasicBlock* inside = BasicBlock::Create(b_.getContext(), "inside", f);
  BasicBlock* beside = BasicBlock::Create(b_.getContext(), "beside", f);
  BasicBlock* across = BasicBlock::Create(b_.getContext(), "across", f);
  BasicBlock* done = BasicBlock::Create(b_.getContext(), "read", f);
  const std::int64_t size = r.window.high - r.window.low, more = std::int64_t(v.width) - 1;
  const auto number = [&](std::int64_t n) { return b_.getInt64(std::uint64_t(n)); };
  Value* from_low = b_.CreateSub(at, number(r.window.low));
  Value* is_inside = b_.CreateICmpULT(from_low, number(std::max<std::int64_t>(size - more, 0)));
  b_.CreateCondBr(is_inside, inside, beside);
  b_.SetInsertPoint(inside);
  const Lanes whole = v.load(offset(row_[k], column, bytes), bytes);
  b_.CreateBr(done);
  b_.SetInsertPoint(beside);
  Value* is_across = b_.CreateICmpULT(b_.CreateAdd(from_low, number(more)), number(size + more));
  b_.CreateCondBr(is_across, across, done);
  b_.SetInsertPoint(across);
  const Lanes part = clamped();
  across = b_.GetInsertBlock();
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
  llvm::Type* type = whole.value->getType();
  llvm::PHINode* out = b_.CreatePHI(type, 3);
  out->addIncoming(whole.value, inside);
  out->addIncoming(part.value, across);
  out->addIncoming(llvm::Constant::getNullValue(type), beside);
  return VectorBuilder::bits(out);
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
      same_[k].push_back(of_period(v, k, n * width_));
    }
  }
}

void LoopBody::enter_period(Value* row, Value* number) {
  std::vector<Value*> at;
  const auto place = [&](Value* count, std::int64_t step, std::size_t d) {
    Value* out = step == 1 ? count : b_.CreateUDiv(count, b_.getInt64(std::uint64_t(step)));
    if (d == 0) return out;
    const std::int64_t extent = nest_.steps[d - 1] / nest_.steps[d];
    return b_.CreateURem(out, b_.getInt64(std::uint64_t(extent)));
  };
  const std::int64_t all = period_.elements;
  for (std::size_t d = 0; d <= period_.dim; ++d) {
    const std::int64_t step = nest_.steps[d];
    if (period_.row != 0 && d < period_.dim) {
      at.push_back(place(row, step / period_.row, d));
    } else if (step >= all) {
      at.push_back(place(number, step / all, d));
    } else {
      // A period has several places in this dim, the last of them.
      Value* first = b_.CreateMul(number, b_.getInt64(std::uint64_t(all / step)));
      at.push_back(period_.row != 0 ? first : place(first, 1, d));
    }
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

/// A vector of a period, from its element `place` on: lanes are known numbers of elements away from
/// its first.
Lanes LoopBody::of_period(const VectorBuilder& v, std::size_t k, std::int64_t place) {
  const Register& r = program_.registers[k];
  const auto bytes = unsigned(r.element_bytes);
  std::vector<std::int64_t> from_first;
  for (unsigned lane = 0; lane < v.width; ++lane) {
    std::int64_t rest = place + lane, out = 0;
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
  if (place_ >= 0 && !nest_.strides[k].empty()) {
    const bool same = !same_[k].empty() && v.width == width_;
    return same ? same_[k][std::size_t(place_ / width_)] : of_period(v, k, place_);
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

}  // namespace tessera::codegen
