// SPDX-License-Identifier: Apache-2.0
// Vectors of elements in LLVM IR: as many lanes as the loop has, of any type that loops know.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <tessera/dtype.h>

namespace tessera::codegen {

/// What code for this machine may use.
struct Machine {
  std::string cpu, features;
  unsigned vector_bytes = 16;
  bool fma = false, half = false;
  char vector_abi = 'b';     ///< of libmvec: b, d or e, for vectors of 16, 32 or 64 bytes
  bool vector_math = false;  ///< libmvec is there
};

/// Lanes of one value: as the bits of elements, as a mask, or as two vectors of floats.
struct Lanes {
  enum class Kind { bits, mask, complex };
  Kind kind = Kind::bits;
  llvm::Value* value = nullptr;      ///< the real parts of complex numbers
  llvm::Value* imaginary = nullptr;  ///< of complex
};

/// Floats that have arithmetic of their own.
inline bool is_float(DType t) { return t == DType::f32 || t == DType::f64; }

/// An IRBuilder for vectors of one width.
class VectorBuilder {
 public:
  VectorBuilder(llvm::IRBuilder<>& b, const Machine& machine, unsigned width)
      : b(b), machine(machine), width(width) {}

  llvm::IRBuilder<>& b;
  const Machine& machine;
  const unsigned width;

  llvm::Type* element(DType t) const;  ///< i8 for pred, the parts' type for complex
  llvm::FixedVectorType* vector(llvm::Type* of) const {
    return llvm::FixedVectorType::get(of, width);
  }
  llvm::FixedVectorType* integers(unsigned bits) const { return vector(b.getIntNTy(bits)); }

  llvm::Value* splat(llvm::Value* scalar) const { return b.CreateVectorSplat(width, scalar); }
  llvm::Value* constant(llvm::Type* vector, double v) const;
  llvm::Value* integer(llvm::Type* vector, std::uint64_t v) const;
  /// 0, 1, 2, ... in integers of so many bits.
  llvm::Value* lane_numbers(unsigned bits) const;

  /// The lanes as vectors of the dtype's element; not for complex ones.
  llvm::Value* as(DType t, const Lanes& v) const;
  llvm::Value* as_mask(const Lanes& v) const;
  Lanes as_complex(DType t, const Lanes& v) const;
  /// As it is in memory, in integers.
  llvm::Value* as_bits(const Lanes& v, unsigned element_bytes) const;
  static Lanes bits(llvm::Value* v) { return {Lanes::Kind::bits, v, nullptr}; }
  static Lanes mask(llvm::Value* v) { return {Lanes::Kind::mask, v, nullptr}; }
  static Lanes complex(llvm::Value* re, llvm::Value* im) { return {Lanes::Kind::complex, re, im}; }

  /// `width` elements from there on. 16-byte elements are complex.
  Lanes load(llvm::Value* pointer, unsigned element_bytes) const;
  void store(const Lanes& v, unsigned element_bytes, llvm::Value* pointer) const;
  /// The same to an address that is a multiple of the vector's bytes, past the caches.
  void store_past_caches(const Lanes& v, unsigned element_bytes, llvm::Value* pointer) const;
  /// One element for all lanes.
  Lanes load_splat(llvm::Value* pointer, unsigned element_bytes) const;
  /// Elements at pointer + index * element_bytes, an index per lane.
  Lanes gather(llvm::Value* pointer, llvm::Value* indices, unsigned element_bytes) const;

  llvm::Value* intrinsic(llvm::Intrinsic::ID id, llvm::Value* v) const {
    return b.CreateUnaryIntrinsic(id, v);
  }
  /// a * b + c, rounded once where the machine can.
  llvm::Value* multiply_add(llvm::Value* x, llvm::Value* y, llvm::Value* z) const;
  llvm::Value* select(llvm::Value* mask, llvm::Value* yes, llvm::Value* no) const {
    return b.CreateSelect(mask, yes, no);
  }
};

/// Emits what is done if a condition holds, and else, if that is given. Leaves the builder behind
/// both.
void emit_if(llvm::IRBuilder<>& b, llvm::Value* condition, const std::function<void()>& yes,
             const std::function<void()>& no = nullptr);
/// The usual values, or those that `rare` makes if any lane of the mask is set.
std::vector<llvm::Value*> emit_unless_any(llvm::IRBuilder<>& b, llvm::Value* mask,
                                          const std::vector<llvm::Value*>& usual,
                                          const std::function<std::vector<llvm::Value*>()>& rare);

}  // namespace tessera::codegen
