// SPDX-License-Identifier: Apache-2.0
// Elements of fewer than 8 bits that have a byte each, as the host has them and as devices do.
#pragma once

#include <cstddef>

#include <tessera/dtype.h>

namespace tessera {

/// Whether devices may use the host's elements where they stand, if they are dense: the other bits
/// of a byte are the host's own where an element has fewer than 8.
bool stands_as_on_devices(DType dtype);

/// Elements of fewer than 8 bits as the host has them become those of devices: signed integers with
/// their sign.
void settle_elements(DType dtype, std::byte* elements, std::size_t count);

}  // namespace tessera
