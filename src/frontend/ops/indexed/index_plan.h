// SPDX-License-Identifier: Apache-2.0
// How an index reads or writes: a box of static positions, then a gather or scatter in it.
#pragma once

#include <string>
#include <vector>

#include <tessera/ops/indexing.h>

#include "src/frontend/ops/internal.h"

namespace tessera::frontend {

/// A Python slice of a dim: HLO's start, limit and stride, and whether to reverse the result.
struct Span {
  std::int64_t start = 0, limit = 0, stride = 1;
  bool reversed = false;
};
Span span_of(const Slice& s, std::int64_t size, const std::string& op, Location location);

/// The parts of an index, checked against a shape. Numbers and slices make the box; arrays then
/// pick elements of its remaining dims.
struct IndexPlan {
  Dims starts, limits, strides;  ///< of the box, by dim of the array
  Dims turned;                   ///< dims that are reversed in the box
  Dims box;                      ///< its shape
  Dims inner;                    ///< its shape without the dims of numbers
  std::vector<Array> places;     ///< the arrays, as given or as the positions of a mask
  Dims picked;                   ///< the inner dim of each
  Dims places_shape;             ///< their common shape
  std::int64_t before = 0;       ///< kept dims before those of the places
  Dims gathered;                 ///< the shape of what the arrays pick
  Dims result;  ///< the same with new axes, and the places' dims where numpy has them
};
IndexPlan index_plan(const std::string& op, std::vector<IndexItem> items, const Shape& shape,
                     Location location);
/// The box without the dims of numbers.
Array inner_of(const Array& x, const IndexPlan& plan, Location location, const std::string& name);
/// x with that part replaced.
Array with_inner(const Array& x, const Array& inner, const IndexPlan& plan, Location location,
                 const std::string& name);

}  // namespace tessera::frontend
