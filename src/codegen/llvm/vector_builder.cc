// SPDX-License-Identifier: Apache-2.0
// Loads, stores and views of vectors.
#include "src/codegen/llvm/vector_builder.h"

#include <numeric>

namespace tessera::codegen {

using llvm::Type;
using llvm::Value;

Type* VectorBuilder::element(DType t) const {
  switch (t) {
    case DType::f32:
    case DType::c64:
      return b.getFloatTy();
    case DType::f64:
    case DType::c128:
      return b.getDoubleTy();
    case DType::f16:
      return b.getHalfTy();
    default:
      return b.getIntNTy(unsigned(byte_size(t)) * 8);
  }
}

Value* VectorBuilder::constant(Type* vector, double v) const {
  return llvm::ConstantFP::get(vector, v);
}
Value* VectorBuilder::integer(Type* vector, std::uint64_t v) const {
  return llvm::ConstantInt::get(vector, v);
}

Value* VectorBuilder::lane_numbers(unsigned bits) const {
  std::vector<llvm::Constant*> lanes;
  for (unsigned k = 0; k < width; ++k) lanes.push_back(b.getIntN(bits, k));
  return llvm::ConstantVector::get(lanes);
}

Value* VectorBuilder::as(DType t, const Lanes& v) const {
  Value* bits = as_bits(v, unsigned(byte_size(t)));
  return b.CreateBitCast(bits, vector(element(t)));
}

Value* VectorBuilder::as_mask(const Lanes& v) const {
  if (v.kind == Lanes::Kind::mask) return v.value;
  return b.CreateICmpNE(v.value, llvm::Constant::getNullValue(v.value->getType()));
}

namespace {

/// Lanes first, first + 2, ... of twice as many.
llvm::SmallVector<int> every_other(unsigned width, int first) {
  llvm::SmallVector<int> out;
  for (unsigned k = 0; k < width; ++k) out.push_back(first + 2 * int(k));
  return out;
}
/// 0, width, 1, width + 1, ...
llvm::SmallVector<int> in_turn(unsigned width) {
  llvm::SmallVector<int> out;
  for (unsigned k = 0; k < width; ++k) {
    out.push_back(int(k));
    out.push_back(int(width + k));
  }
  return out;
}

}  // namespace

Lanes VectorBuilder::as_complex(DType t, const Lanes& v) const {
  if (v.kind == Lanes::Kind::complex) return v;
  Value* pairs = b.CreateBitCast(v.value, llvm::FixedVectorType::get(element(t), 2 * width));
  return complex(b.CreateShuffleVector(pairs, every_other(width, 0)),
                 b.CreateShuffleVector(pairs, every_other(width, 1)));
}

Value* VectorBuilder::as_bits(const Lanes& v, unsigned element_bytes) const {
  if (v.kind == Lanes::Kind::mask) return b.CreateZExt(v.value, integers(8));
  if (v.kind == Lanes::Kind::complex) {
    Value* pairs = b.CreateShuffleVector(v.value, v.imaginary, in_turn(width));
    // Pairs of f64 have no integer of their size that every machine keeps in one register.
    return element_bytes == 8 ? b.CreateBitCast(pairs, integers(64)) : pairs;
  }
  return b.CreateBitCast(v.value, integers(element_bytes * 8));
}

Lanes VectorBuilder::load(Value* pointer, unsigned element_bytes) const {
  if (element_bytes == 16) {
    auto* pairs_type = llvm::FixedVectorType::get(b.getDoubleTy(), 2 * width);
    Value* pairs = b.CreateAlignedLoad(pairs_type, pointer, llvm::Align(8));
    return complex(b.CreateShuffleVector(pairs, every_other(width, 0)),
                   b.CreateShuffleVector(pairs, every_other(width, 1)));
  }
  return bits(
      b.CreateAlignedLoad(integers(element_bytes * 8), pointer, llvm::Align(element_bytes)));
}

void VectorBuilder::store(const Lanes& v, unsigned element_bytes, Value* pointer) const {
  b.CreateAlignedStore(as_bits(v, element_bytes), pointer,
                       llvm::Align(element_bytes == 16 ? 8 : element_bytes));
}

void VectorBuilder::store_past_caches(const Lanes& v, unsigned element_bytes,
                                      Value* pointer) const {
  llvm::StoreInst* store =
      b.CreateAlignedStore(as_bits(v, element_bytes), pointer, llvm::Align(width * element_bytes));
  llvm::LLVMContext& context = b.getContext();
  store->setMetadata(llvm::LLVMContext::MD_nontemporal,
                     llvm::MDNode::get(context, llvm::ConstantAsMetadata::get(b.getInt32(1))));
}

Lanes VectorBuilder::load_splat(Value* pointer, unsigned element_bytes) const {
  if (element_bytes == 16) {
    Value* re = b.CreateAlignedLoad(b.getDoubleTy(), pointer, llvm::Align(8));
    Value* next = b.CreateConstInBoundsGEP1_64(b.getDoubleTy(), pointer, 1);
    Value* im = b.CreateAlignedLoad(b.getDoubleTy(), next, llvm::Align(8));
    return complex(splat(re), splat(im));
  }
  Type* t = b.getIntNTy(element_bytes * 8);
  return bits(splat(b.CreateAlignedLoad(t, pointer, llvm::Align(element_bytes))));
}

Lanes VectorBuilder::gather(Value* pointer, Value* indices, unsigned element_bytes) const {
  const auto from = [&](Type* t, std::uint64_t parts, std::uint64_t part) {
    Value* at = parts == 1 ? indices : b.CreateMul(indices, integer(indices->getType(), parts));
    if (part != 0) at = b.CreateAdd(at, integer(indices->getType(), part));
    const auto size = t->getScalarSizeInBits() / 8;
    if (width == 1) {
      Value* one = b.CreateGEP(t, pointer, b.CreateExtractElement(at, std::uint64_t(0)));
      return splat(b.CreateAlignedLoad(t, one, llvm::Align(size)));
    }
    Value* pointers = b.CreateGEP(t, pointer, at);
    return static_cast<Value*>(b.CreateMaskedGather(vector(t), pointers, llvm::Align(size)));
  };
  if (element_bytes == 16) {
    return complex(from(b.getDoubleTy(), 2, 0), from(b.getDoubleTy(), 2, 1));
  }
  return bits(from(b.getIntNTy(element_bytes * 8), 1, 0));
}

Value* VectorBuilder::multiply_add(Value* x, Value* y, Value* z) const {
  if (!machine.fma) return b.CreateFAdd(b.CreateFMul(x, y), z);
  return b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
}

void emit_if(llvm::IRBuilder<>& b, Value* condition, const std::function<void()>& yes,
             const std::function<void()>& no) {
  llvm::Function* f = b.GetInsertBlock()->getParent();
  const auto block = [&] { return llvm::BasicBlock::Create(b.getContext(), "", f); };
  llvm::BasicBlock *then = block(), *otherwise = no ? block() : nullptr, *after = block();
  b.CreateCondBr(condition, then, no ? otherwise : after);
  b.SetInsertPoint(then);
  yes();
  b.CreateBr(after);
  if (no) {
    b.SetInsertPoint(otherwise);
    no();
    b.CreateBr(after);
  }
  b.SetInsertPoint(after);
}

std::vector<Value*> emit_unless_any(llvm::IRBuilder<>& b, Value* mask,
                                    const std::vector<Value*>& usual,
                                    const std::function<std::vector<Value*>()>& rare) {
  llvm::BasicBlock *before = b.GetInsertBlock(), *last = nullptr;
  std::vector<Value*> made;
  emit_if(b, b.CreateOrReduce(mask), [&] {
    made = rare();
    last = b.GetInsertBlock();
  });
  std::vector<Value*> out;
  for (std::size_t k = 0; k < usual.size(); ++k) {
    llvm::PHINode* phi = b.CreatePHI(usual[k]->getType(), 2);
    phi->addIncoming(usual[k], before);
    phi->addIncoming(made[k], last);
    out.push_back(phi);
  }
  return out;
}

}  // namespace tessera::codegen
