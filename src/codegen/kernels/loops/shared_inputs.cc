// SPDX-License-Identifier: Apache-2.0
// Which inputs of a loop are read as the loop goes on.
#include "src/codegen/kernels/loops/shared_inputs.h"

#include <cstddef>

namespace tessera::codegen {
namespace {

/// How many elements it has of which element i reads element i / q, where q elements stand for each
/// row; 0 if it reads others.
std::int64_t rows_read(const LoopExpr::Register& r, std::int64_t elements) {
  std::int64_t all = 1, step = 1;
  bool row = true;
  for (std::size_t d = r.dims.size(); d-- > 0;) {
    all *= r.dims[d];
    if (row && r.strides[d] == 0) continue;
    row = false;
    if (r.dims[d] != 1 && r.strides[d] != step) return 0;
    step *= r.dims[d];
  }
  return r.offset == 0 && all == elements ? step : 0;
}

}  // namespace

std::vector<bool> shared_inputs(const LoopExpr& program, std::int64_t elements,
                                const std::vector<std::int64_t>& bytes) {
  using Kind = LoopExpr::Kind;
  const std::size_t inputs = bytes.size();
  std::vector<bool> out(inputs, false), read_otherwise(inputs, false);
  for (const LoopExpr::Register& r : program.registers) {
    // Views and sources number their inputs themselves: none of those is marked.
    if (r.kind != Kind::contiguous && r.kind != Kind::scalar && r.kind != Kind::broadcast) continue;
    const auto k = std::size_t(r.index);
    for (const LoopExpr::Start& s : r.starts) {
      if (std::size_t(s.input) < inputs) read_otherwise[std::size_t(s.input)] = true;
    }
    if (k >= inputs) continue;
    std::int64_t read = 0;
    if (r.starts.empty() && !r.window) {
      if (r.kind == Kind::contiguous && r.offset == 0) read = elements;
      if (r.kind == Kind::broadcast) read = rows_read(r, elements);
    }
    // Of the first rows of a longer array the shares are others.
    const bool shared = read > 0 && read * r.element_bytes == bytes[k];
    (shared ? out : read_otherwise)[k] = true;
  }
  for (std::size_t k = 0; k < inputs; ++k) out[k] = out[k] && !read_otherwise[k];
  return out;
}

}  // namespace tessera::codegen
