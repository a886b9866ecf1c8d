// SPDX-License-Identifier: Apache-2.0
// The loops of block functions, written so that compilers vectorise them.
#pragma once

#include <cstdint>

#include "src/codegen/kernels/elementwise/block_ops.h"

namespace tessera::codegen {

/// F is a stateless functor.
template <class In, class Out, class F>
void unary_loop(const BlockCall& c) {
  const In* a = reinterpret_cast<const In*>(c.in[0]);
  Out* out = reinterpret_cast<Out*>(c.out);
  const F f{};
  if (c.scalars & 1u) {
    const Out v = f(a[0]);
    for (std::int64_t i = 0; i < c.n; ++i) out[i] = v;
  } else {
    for (std::int64_t i = 0; i < c.n; ++i) out[i] = f(a[i]);
  }
}

template <class In, class Out, class F>
void binary_loop(const BlockCall& c) {
  const In* a = reinterpret_cast<const In*>(c.in[0]);
  const In* b = reinterpret_cast<const In*>(c.in[1]);
  Out* out = reinterpret_cast<Out*>(c.out);
  const F f{};
  switch (c.scalars & 3u) {
    case 0:
      for (std::int64_t i = 0; i < c.n; ++i) out[i] = f(a[i], b[i]);
      break;
    case 1: {
      const In x = a[0];
      for (std::int64_t i = 0; i < c.n; ++i) out[i] = f(x, b[i]);
      break;
    }
    case 2: {
      const In y = b[0];
      for (std::int64_t i = 0; i < c.n; ++i) out[i] = f(a[i], y);
      break;
    }
    default: {
      const Out v = f(a[0], b[0]);
      for (std::int64_t i = 0; i < c.n; ++i) out[i] = v;
    }
  }
}

// Of a switch by opcode, in a template on the type T of operands and results.
#define TESSERA_UNARY_CASE(opcode, F) \
  case ir::Opcode::opcode:            \
    return unary_loop<T, T, F>;
#define TESSERA_BINARY_CASE(opcode, F) \
  case ir::Opcode::opcode:             \
    return binary_loop<T, T, F>;

}  // namespace tessera::codegen
