// SPDX-License-Identifier: Apache-2.0
// Moving elements: what several families of operations build on. No checks of the user's arguments
// here; weak types are kept.
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
/// One dim moved, the order of the others kept.
Array moved_dim(const Array& x, std::int64_t from, std::int64_t to, Location location,
                const std::string& name = "moveaxis");
/// Of one dtype; a single array is returned itself.
Array concatenated(const std::vector<Array>& xs, std::int64_t dim, Location location,
                   const std::string& name = "concatenate");
Array reversed(const Array& x, const Dims& dims, Location location,
               const std::string& name = "flip");
/// Widths may be negative: that cuts.
Array padded(const Array& x, const Array& value, const std::vector<ir::PadDim>& dims,
             Location location, const std::string& name = "pad");
/// HLO's broadcast: result dim mapping[i] is dim i of x.
Array spread(const Array& x, const Dims& dims, const Dims& mapping, Location location,
             const std::string& name = "broadcast_to");
/// The elements x[..., i, ...] with i from a vector of positions known now, as slices and one
/// concatenation: runs of neighbours, in either direction, and repeats.
Array picked(const Array& x, std::int64_t dim, const Dims& positions, Location location,
             const std::string& name);
/// The elements where position along dim `a` plus `offset` is position along dim `b`, dim `a`
/// summed away: by a mask and a sum, so that split arrays stay where they are.
Array masked_diagonal(const Array& x, std::int64_t a, std::int64_t b, std::int64_t offset,
                      Location location, const std::string& name);

}  // namespace tessera::frontend
