// SPDX-License-Identifier: Apache-2.0
// Limits on the nesting and size of programs, checked when they are read and verified.
#include "src/ir/limits.h"

#include <algorithm>

namespace tessera::ir {
namespace {

/// Instructions that a program with all calls written out may have, or this many times those that
/// stand in it.
constexpr std::int64_t kMaxWrittenOut = std::int64_t(1) << 19;
constexpr std::int64_t kMaxGrowth = 64;

struct Extent {
  std::int64_t instructions = 0;
  std::int64_t depth = 0;
};

}  // namespace

std::int64_t shape_parts(const Shape& shape, std::int64_t most) {
  std::int64_t n = 1;
  for (const Shape& element : shape.elements) {
    if (n > most) break;
    n += shape_parts(element, most - n);
  }
  return n;
}

std::int64_t tuple_depth(const Shape& shape) {
  std::int64_t deepest = 0;
  for (const Shape& element : shape.elements) deepest = std::max(deepest, tuple_depth(element));
  return shape.is_tuple ? deepest + 1 : 0;
}

void check_limits(const std::vector<Computation*>& callees_first) {
  std::int64_t standing = 0;
  for (const Computation* c : callees_first) standing += std::int64_t(c->instructions().size());
  const std::int64_t most = std::max(kMaxWrittenOut, kMaxGrowth * standing);
  std::unordered_map<const Computation*, Extent> extents;
  for (const Computation* c : callees_first) {
    Extent& extent = extents[c];
    extent.instructions = std::int64_t(c->instructions().size());
    for (const auto& i : c->instructions()) {
      for (const Computation* callee : i->called()) {
        const Extent inner = extents.at(callee);
        // Each is at most `most`, and the sum is looked at after each: no overflow.
        extent.instructions += inner.instructions;
        extent.depth = std::max(extent.depth, inner.depth + 1);
        if (extent.instructions > most) {
          throw ValueError("computation " + c->name() + ", with the computations that it calls " +
                           "written out, has more than " + std::to_string(most) +
                           " instructions; " + std::to_string(standing) + " stand in the module");
        }
      }
    }
    if (extent.depth > kMaxCallDepth) {
      throw ValueError("computation " + c->name() + " calls others more than " +
                       std::to_string(kMaxCallDepth) + " deep");
    }
  }
}

}  // namespace tessera::ir
