// SPDX-License-Identifier: Apache-2.0
// Reads of a part of a dim, in loops by rows: rows or columns that are shifted, with something else
// at the ends.
#include <algorithm>

#include "src/codegen/llvm/loop_function.h"

namespace tessera::codegen {

using llvm::BasicBlock;
using llvm::Function;
using llvm::Value;

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

}  // namespace tessera::codegen
