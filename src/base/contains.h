// SPDX-License-Identifier: Apache-2.0
// Membership in a list.
#pragma once

#include <algorithm>

namespace tessera {

/// Whether an element of `list` equals `value`.
template <class List, class T>
bool contains(const List& list, const T& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace tessera
