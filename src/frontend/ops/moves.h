// SPDX-License-Identifier: Apache-2.0
// Ops that move elements, shared by several groups of operations. They don't check the user's
// arguments; weak types are kept.
#pragma once

#include <vector>

#include "src/frontend/ops/internal.h"

namespace tessera::frontend {

Array sliced(const Array& x, const Dims& starts, const Dims& limits, const Dims& strides,
             Location location, const std::string& name = "slice");
/// [start, limit) of one dim.
Array sliced_dim(const Array& x, std::int64_t dim, std::int64_t start, std::int64_t limit,
                 Location location, const std::string& name = "slice");
Array transposed(const Array& x, const Dims& perm, Location location,
                 const std::string& name = "transpose");
/// x with one dim moved; the other dims keep their order.
Array moved_dim(const Array& x, std::int64_t from, std::int64_t to, Location location,
                const std::string& name = "moveaxis");
/// Concatenates arrays of one dtype; a single array is returned unchanged.
Array concatenated(const std::vector<Array>& xs, std::int64_t dim, Location location,
                   const std::string& name = "concatenate");
Array reversed(const Array& x, const Dims& dims, Location location,
               const std::string& name = "flip");
/// Negative widths remove elements.
Array padded(const Array& x, const Array& value, const std::vector<ir::PadDim>& dims,
             Location location, const std::string& name = "pad");
/// HLO's broadcast: result dim mapping[i] is dim i of x.
Array broadcast_in_dim(const Array& x, const Dims& dims, const Dims& mapping, Location location,
                       const std::string& name = "broadcast_to");
/// The elements x[..., i, ...] for each static position i of a list, as slices (of runs in either
/// direction, and of repeated positions) and one concatenation.
Array gather_static(const Array& x, std::int64_t dim, const Dims& positions, Location location,
                    const std::string& name);
/// The elements whose position along dim `a` plus `offset` is their position along dim `b`, without
/// dim `a`. Computed by a mask and a sum over `a`, so that arrays can stay split.
Array masked_diagonal(const Array& x, std::int64_t a, std::int64_t b, std::int64_t offset,
                      Location location, const std::string& name);

}  // namespace tessera::frontend
