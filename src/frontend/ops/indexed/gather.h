// SPDX-License-Identifier: Apache-2.0
// Gathers of elements at computed positions.
#pragma once

#include <string>
#include <vector>

#include <tessera/ops/gather_scatter.h>
#include <tessera/sharding/explicit_sharding.h>

#include "src/frontend/ops/indexed/index_plan.h"
#include "src/frontend/ops/internal.h"

namespace tessera::frontend {

/// Integer arrays broadcast together, in one dtype of 32 or 64 bits.
std::vector<Array> index_arrays(const std::string& op, const std::vector<Array>& arrays,
                                Location location);
/// The positions, with negative ones counted from the end of a dim of size `size`.
Array from_the_end(const Array& positions, std::int64_t size, Location location);
/// x at positions[i] along dims[i] (one shape, ascending dims). The indexed dims are removed; the
/// dims of the positions follow the first `before` remaining dims. Positions are clamped.
Array gathered(const Array& x, const std::vector<Array>& positions, const Dims& dims,
               std::int64_t before, Location location, const std::string& name);

/// What reads out of range give by default: NaN, the smallest signed or the largest unsigned
/// number, true.
Literal fill_literal(DType t);
/// The scalar of a fill value, or of the default one.
Array fill_scalar(const std::string& op, const std::optional<Array>& value, DType t,
                  Location location);
/// Whether 0 <= positions < size.
Array in_range(const Array& positions, std::int64_t size, Location location);
/// x where valid, elsewhere a scalar; `mapping` maps the dims of `valid` to those of x.
Array filled(const Array& x, const Array& valid, const Dims& mapping, const Array& fill,
             Location location, const std::string& name);
/// Positions ready for a gather or scatter with windows of size 1, in these modes; negative ones
/// count from the end. Those out of range stay so in modes other than clip and wrap.
Array positions_in_mode(const Array& positions, std::int64_t size, IndexMode mode,
                        Location location);
/// What an index's arrays pick from the inner part; itself if there are none.
Array picked(const Array& inner, const IndexPlan& plan, const IndexOptions& options,
             Location location, const std::string& name);
/// What `make` makes with the options but `out_sharding`, sharded as that says.
template <class Make>
Array sharded_as_requested(const IndexOptions& options, Location location, const Make& make) {
  IndexOptions plain = options;
  plain.out_sharding.reset();
  return with_out_sharding(
      *options.out_sharding, [&] { return make(plain); }, location);
}
/// DTypeError if indices aren't integers.
void need_integers(const std::string& op, const Array& indices, Location location);

}  // namespace tessera::frontend
