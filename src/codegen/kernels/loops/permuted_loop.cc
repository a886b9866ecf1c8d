// SPDX-License-Identifier: Apache-2.0
// Splits the dims of each read at the borders of the three, and reorders the pieces.
#include "src/codegen/kernels/loops/permuted_loop.h"

#include <cstddef>
#include <vector>

namespace tessera::codegen {
namespace {

using ReadKind = LoopExpr::Kind;
using ReadRegister = LoopExpr::Register;

struct StridedPiece {
  std::int64_t extent = 1, stride = 0;
};

/// The pieces, outermost first, that make up each of the dims; false if one lies across a border.
bool split(std::vector<StridedPiece> pieces, const std::array<std::int64_t, 3>& dims,
           std::array<std::vector<StridedPiece>, 3>* out) {
  for (std::size_t d = 3; d-- > 0;) {
    std::int64_t left = dims[d];
    while (left > 1) {
      if (pieces.empty()) return false;
      StridedPiece& last = pieces.back();
      std::vector<StridedPiece>& to = (*out)[d];
      if (left % last.extent == 0) {
        to.insert(to.begin(), last);
        left /= last.extent;
        pieces.pop_back();
      } else if (last.extent % left == 0) {
        to.insert(to.begin(), {left, last.stride});
        last = {last.extent / left, last.stride * left};
        left = 1;
      } else {
        return false;
      }
    }
  }
  return true;
}

bool permute_strided(ReadRegister* r, const std::array<std::int64_t, 3>& dims,
                     const std::array<int, 3>& order) {
  std::vector<StridedPiece> pieces;
  if (r->kind == ReadKind::contiguous) {
    pieces.push_back({dims[0] * dims[1] * dims[2], 1});
  } else {
    for (std::size_t d = 0; d < r->dims.size(); ++d) pieces.push_back({r->dims[d], r->strides[d]});
  }
  std::array<std::vector<StridedPiece>, 3> parts;
  if (!split(std::move(pieces), dims, &parts)) return false;
  r->kind = ReadKind::broadcast;
  r->dims.clear();
  r->strides.clear();
  for (const int d : order) {
    for (const StridedPiece& p : parts[std::size_t(d)]) {
      // What goes on at the same pace is one dim.
      if (!r->dims.empty() && r->strides.back() == p.stride * p.extent) {
        r->dims.back() *= p.extent;
        r->strides.back() = p.stride;
      } else {
        r->dims.push_back(p.extent);
        r->strides.push_back(p.stride);
      }
    }
  }
  return true;
}

/// Its numbers have to lie within one of the dims.
bool permute_iota(ReadRegister* r, const std::array<std::int64_t, 3>& dims,
                  const std::array<int, 3>& order) {
  const std::int64_t size = r->dims[1], inner = r->dims[2];
  if (size == 1) return true;
  std::int64_t below = 1;
  for (std::size_t d = 3; d-- > 0; below *= dims[d]) {
    const bool inside = inner >= below && inner % below == 0 &&
                        (below * dims[d]) % (inner * size) == 0 && inner * size <= below * dims[d];
    if (!inside) continue;
    std::int64_t behind = 1;
    for (std::size_t k = 3; k-- > 0 && order[k] != int(d);) behind *= dims[std::size_t(order[k])];
    const std::int64_t now = inner / below * behind;
    r->dims = {dims[0] * dims[1] * dims[2] / (size * now), size, now};
    return true;
  }
  return false;
}

}  // namespace

std::shared_ptr<const LoopExpr> permuted_loop(const LoopExpr& program,
                                              const std::array<std::int64_t, 3>& dims,
                                              const std::array<int, 3>& order) {
  if (program.only_source >= 0) return nullptr;
  auto out = std::make_shared<LoopExpr>(program);
  for (ReadRegister& r : out->registers) {
    switch (r.kind) {
      case ReadKind::contiguous:
      case ReadKind::broadcast:
        if (r.window || !permute_strided(&r, dims, order)) return nullptr;
        break;
      case ReadKind::iota:
        if (!permute_iota(&r, dims, order)) return nullptr;
        break;
      case ReadKind::composed:
      case ReadKind::source:
        return nullptr;
      case ReadKind::array:
      case ReadKind::scalar:
      case ReadKind::constant:
      case ReadKind::temporary:
      case ReadKind::output:
        break;
    }
  }
  return out;
}

}  // namespace tessera::codegen
