// SPDX-License-Identifier: Apache-2.0
// Keys of kernels: bytes that say what a kernel computes, field by field.
#pragma once

#include <string>
#include <string_view>

#include "src/base/key_writer.h"
#include "src/ir/attributes.h"

namespace tessera {

inline void add_to_key(KeyWriter& key, const ir::WindowDim& w) {
  key.add_all(w.size, w.stride, w.pad_low, w.pad_high, w.lhs_dilation, w.rhs_dilation, w.reversal);
}

}  // namespace tessera

namespace tessera::codegen {

template <class... T>
std::string kernel_key(std::string_view family, const T&... fields) {
  KeyWriter key(family);
  key.add_all(fields...);
  return key.take();
}

}  // namespace tessera::codegen
