// SPDX-License-Identifier: Apache-2.0
// Reading attributes that are carried as text (TextAttrs).
#pragma once

#include <optional>
#include <string_view>

#include "src/ir/attributes.h"

namespace tessera::ir {

/// The text behind `key=`; empty if the key does not stand there.
std::optional<std::string_view> text_attribute(const Attributes& attrs, std::string_view key);
/// `{0,2}`; none if the key does not stand there.
Dims text_dims(const Attributes& attrs, std::string_view key);
std::int64_t text_integer(const Attributes& attrs, std::string_view key, std::int64_t otherwise);

/// The dims of the left operand of a ragged dot along which groups may have sizes of their own: its
/// batches, and what stands before the ragged dim among its like. Sizes have these dims, then the
/// groups; or the groups alone, for all.
Dims ragged_prefix_dims(const Attributes& attrs, std::int64_t lhs_rank);

}  // namespace tessera::ir
