// SPDX-License-Identifier: Apache-2.0
// Which of a block of indices are in a range.
#pragma once

#include <cstdint>

namespace tessera::codegen {

/// A list of them may be written to so far beyond its end.
constexpr std::int64_t kPlacesBeyond = 16;

/// Lists the places k of the `count` indices at[k * step] that are at least `first` and less than
/// `last`, in order, and returns how many there are. Whether one is can't be predicted: there is
/// no branch.
template <class Index>
using IndicesInRange = std::uint32_t (*)(const Index* at, std::int64_t step, std::uint32_t count,
                                         std::int64_t first, std::int64_t last,
                                         std::uint32_t* places);

/// The version for this machine; `Index`: std::int32_t or std::int64_t.
template <class Index>
IndicesInRange<Index> indices_in_range(std::int64_t step);

/// Whether that takes a tenth of a nanosecond for an index, so that several workers may each look
/// through all of them.
bool lists_places_fast(std::int64_t step);

}  // namespace tessera::codegen
