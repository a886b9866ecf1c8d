// SPDX-License-Identifier: Apache-2.0
// Which inputs of a loop are read as the loop goes on.
#include "src/codegen/kernels/shared_inputs.h"

#include <cstddef>

namespace tessera::codegen {
namespace {

/// Element i reads element i / q, where q elements stand for each row.
bool is_by_rows(const LoopExpr::Register& r, std::int64_t elements) {
  std::int64_t all = 1, step = 1;
  bool row = true;
  for (std::size_t d = r.dims.size(); d-- > 0;) {
    all *= r.dims[d];
    if (row && r.strides[d] == 0) continue;
    row = false;
    if (r.dims[d] != 1 && r.strides[d] != step) return false;
    step *= r.dims[d];
  }
  return r.offset == 0 && all == elements;
}

}  // namespace

std::vector<bool> shared_inputs(const LoopExpr& program, std::int64_t elements,
                                std::size_t inputs) {
  using Kind = LoopExpr::Kind;
  std::vector<bool> out(inputs, false), read_otherwise(inputs, false);
  for (const LoopExpr::Register& r : program.registers) {
    // Views and sources number their inputs themselves: none of those is marked.
    if (r.kind != Kind::contiguous && r.kind != Kind::scalar && r.kind != Kind::broadcast) continue;
    const auto k = std::size_t(r.index);
    for (const LoopExpr::Start& s : r.starts) {
      if (std::size_t(s.input) < inputs) read_otherwise[std::size_t(s.input)] = true;
    }
    if (k >= inputs) continue;
    const bool shared = !r.starts.empty() || r.window ? false
                        : r.kind == Kind::contiguous
                            ? r.offset == 0
                            : r.kind == Kind::broadcast && is_by_rows(r, elements);
    (shared ? out : read_otherwise)[k] = true;
  }
  for (std::size_t k = 0; k < inputs; ++k) out[k] = out[k] && !read_otherwise[k];
  return out;
}

}  // namespace tessera::codegen
