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
bool text_flag(const Attributes& attrs, std::string_view key);

}  // namespace tessera::ir
