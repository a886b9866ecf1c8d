// SPDX-License-Identifier: Apache-2.0
// Finds the dims that the reads of a loop have in common.
#include "src/codegen/kernels/expressions/loop_nest.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <set>

namespace tessera::codegen {
namespace {

using RegisterKind = LoopExpr::Kind;

/// Shorter rows aren't worth finding where each begins.
constexpr std::int64_t kShortRow = 64;
/// Unless they have no period, and more than a vector's elements.
constexpr std::int64_t kShortRowWithoutPeriod = 17;

/// The elements after which each dim but the first one takes its next step.
std::set<std::int64_t> steps_of(const LoopExpr::Register& r) {
  std::set<std::int64_t> out;
  std::int64_t inner = 1;
  for (std::size_t d = r.dims.size(); d-- > 0;) {
    if (inner > 1) out.insert(inner);
    inner *= r.dims[d];
  }
  if (r.kind == RegisterKind::iota && r.dims[1] * r.dims[2] > 1) out.insert(r.dims[1] * r.dims[2]);
  return out;
}

/// Whether each divides the next.
bool is_chain(const std::set<std::int64_t>& steps) {
  std::int64_t before = 1;
  for (const std::int64_t s : steps) {
    if (s % before != 0) return false;
    before = s;
  }
  return true;
}

std::vector<std::int64_t> strides_in(const LoopExpr::Register& r,
                                     const std::vector<std::int64_t>& steps) {
  std::vector<std::int64_t> out(steps.size(), 0);
  const std::int64_t iota[] = {0, 1, 0};
  std::int64_t inner = 1;
  for (std::size_t d = r.dims.size(); d-- > 0;) {
    const std::int64_t outer = inner * r.dims[d];
    const std::int64_t stride = r.kind == RegisterKind::iota ? iota[d] : r.strides[d];
    for (std::size_t k = 0; k < steps.size(); ++k) {
      const bool inside =
          steps[k] >= inner && (steps[k] < outer || (d == 0 && r.kind != RegisterKind::iota));
      if (inside) out[k] = stride * (steps[k] / inner);
    }
    inner = outer;
  }
  return out;
}

/// Whether a window is one of whole rows, or of columns that are read one after another.
bool has_window_by_rows(const LoopExpr::Register& r, std::int64_t row) {
  const std::int64_t step = window_step(r);
  if (step > 1) return step % row == 0;
  const auto dim = std::size_t(r.window.dim);
  return r.strides[dim] == 1 && r.dims[dim] < std::numeric_limits<std::int32_t>::max() &&
         (r.element_bytes == 4 || r.element_bytes == 8);
}

std::int64_t elements(const LoopExpr::Register& r) {
  std::int64_t n = 1;
  for (const std::int64_t d : r.dims) n *= d;
  return n;
}

/// `shortest`: of the rows that are walked one by one.
LoopNest nest_with(const LoopExpr& program, bool periodic, std::int64_t row,
                   std::int64_t shortest) {
  LoopNest nest;
  const std::size_t n = program.registers.size();
  nest.strides.resize(n);
  nest.made.assign(n, false);
  std::set<std::int64_t> steps;
  if (row > 1) steps.insert(row);
  bool small = true, gathers = true, any_strided = false;
  for (std::size_t k = 0; k < n; ++k) {
    const LoopExpr::Register& r = program.registers[k];
    nest.made[k] = r.kind == RegisterKind::composed || r.kind == RegisterKind::source;
    if (r.kind != RegisterKind::broadcast && r.kind != RegisterKind::iota) continue;
    std::set<std::int64_t> joined = steps_of(r);
    joined.insert(steps.begin(), steps.end());
    if (is_chain(joined)) {
      steps = std::move(joined);
    } else {
      nest.made[k] = true;
    }
  }
  nest.steps.assign(steps.rbegin(), steps.rend());
  nest.steps.push_back(1);
  nest.by_rows = row > 1 ? nest.row() == row : nest.row() >= shortest;
  for (const LoopExpr::Register& r : program.registers) {
    if (!r.window) continue;
    std::int64_t whole = 1;
    for (std::size_t d = std::size_t(r.window.dim); d < r.dims.size(); ++d) whole *= r.dims[d];
    nest.whole = std::lcm(nest.whole, whole);
  }
  for (std::size_t k = 0; k < n; ++k) {
    const LoopExpr::Register& r = program.registers[k];
    if ((r.kind != RegisterKind::broadcast && r.kind != RegisterKind::iota) || nest.made[k])
      continue;
    any_strided = true;
    nest.strides[k] = strides_in(r, nest.steps);
    // Indices of 32 bits; an iota alone doesn't say how many there are.
    small = small && r.kind == RegisterKind::broadcast &&
            elements(r) < std::numeric_limits<std::int32_t>::max();
    gathers = gathers && (r.element_bytes == 4 || r.element_bytes == 8);
  }
  // What vectors the machine has isn't known here: they have at most so many bytes.
  constexpr unsigned kMostBytes = 64;
  unsigned widest = 1;
  for (const LoopExpr::Register& r : program.registers) {
    widest = std::max(widest, unsigned(std::min(r.element_bytes, 8)));
  }
  nest.periodic = periodic && !nest.by_rows && any_strided;
  for (unsigned width = 2; width <= kMostBytes / widest && nest.periodic; width *= 2) {
    nest.periodic = period_of(nest, width).elements != 0;
  }
  nest.by_rows = nest.by_rows || (periodic && !nest.periodic && any_strided &&
                                  nest.row() >= kShortRowWithoutPeriod);
  if (!nest.by_rows && !nest.periodic && !(small && gathers && nest.whole == 1)) {
    for (std::size_t k = 0; k < n; ++k) {
      if (!nest.strides[k].empty()) nest.made[k] = true, nest.strides[k].clear();
    }
    nest.steps = {1};
  }
  for (std::size_t k = 0; k < n && !nest.periodic; ++k) {
    const LoopExpr::Register& r = program.registers[k];
    if (!r.window || (nest.by_rows && !nest.made[k] && has_window_by_rows(r, nest.row()))) continue;
    nest.made[k] = true;
    nest.strides[k].clear();
  }
  nest.any_made = std::find(nest.made.begin(), nest.made.end(), true) != nest.made.end();
  return nest;
}

}  // namespace

LoopNest nest_of(const LoopExpr& program, bool periodic, std::int64_t row) {
  return nest_with(program, periodic, row, kShortRow);
}

LoopNest nest_of_rows(const LoopExpr& program, std::int64_t shortest) {
  return nest_with(program, /*periodic=*/false, 0, shortest);
}

}  // namespace tessera::codegen
