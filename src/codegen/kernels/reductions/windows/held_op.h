// SPDX-License-Identifier: Apache-2.0
// Ops of windows on elements that are held in a wider type while they are combined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/arrays/literal_util.h"
#include "src/codegen/kernels/elementwise/block_ops.h"
#include "src/codegen/kernels/elementwise/half_conversions.h"
#include "src/codegen/kernels/expressions/composed_view.h"
#include "src/ir/module.h"

namespace tessera::codegen {

inline bool rounds(ir::Opcode op) { return op == ir::Opcode::add || op == ir::Opcode::multiply; }

/// Sums and products are held wider than their elements, and rounded at the end only.
inline DType accumulator_type(ir::Opcode op, DType t) {
  const bool is_half = t == DType::f16 || t == DType::bf16;
  return rounds(op) && (is_half || t == DType::f32) ? DType::f64 : is_half ? DType::f32 : t;
}

/// An op on elements between their own type and the held one.
struct HeldOp {
  ir::Opcode op;
  DType element = DType::f32, held = DType::f64;
  BlockFunction function = nullptr;  ///< null if there is none
  BlockFunction widen = nullptr, lift = nullptr, narrow = nullptr;

  HeldOp(ir::Opcode o, DType t)
      : op(o), element(t), held(accumulator_type(o, t)), function(binary_block(o, held)) {
    if (held == element) return;
    lift = lift_block(element);  // null for f32
    widen = convert_block(DType::f32, held);
    narrow = convert_block(lift != nullptr && held == DType::f64 ? DType::f32 : held, element);
  }
  std::size_t element_bytes() const { return byte_size(element); }
  std::size_t held_bytes() const { return byte_size(held); }

  void load(const std::byte* from, std::byte* to, std::int64_t n) const {
    const std::byte* in[] = {from};
    if (held == element) {
      copy_block(element_bytes())({nullptr, to, in, 0, n});
      return;
    }
    std::vector<float> floats;
    if (lift != nullptr) {
      floats.resize(std::size_t(n));
      lift({nullptr, reinterpret_cast<std::byte*>(floats.data()), in, 0, n});
      in[0] = reinterpret_cast<const std::byte*>(floats.data());
    }
    widen({nullptr, to, in, 0, n});
  }
  void store(const std::byte* held_values, std::byte* to, std::int64_t n) const {
    const std::byte* in[] = {held_values};
    std::vector<float> floats;
    if (lift != nullptr && held == DType::f64) {
      // By way of f32, as there are instructions for these two.
      floats.resize(std::size_t(n));
      auto* single = reinterpret_cast<std::byte*>(floats.data());
      convert_block(held, DType::f32)({nullptr, single, in, 0, n});
      in[0] = single;
    }
    (held == element ? copy_block(element_bytes()) : narrow)({nullptr, to, in, 0, n});
  }
  /// The element at `from`, held, n times; `one`: room for it.
  void fill(const std::byte* from, std::byte* one, std::byte* to, std::int64_t n) const {
    load(from, one, 1);
    copy_strided(one, 0, n, int(held_bytes()), to);
  }
  void combine(std::byte* acc, const std::byte* value, std::int64_t n) const {
    const std::byte* in[] = {acc, value};
    function({nullptr, acc, in, 0, n});
  }
};

}  // namespace tessera::codegen
