// SPDX-License-Identifier: Apache-2.0
// Draws how an array is sharded.
#include <tessera/sharding/visualize.h>
#include <tessera/sharding/visualize_array.h>

#include <iostream>

namespace tessera {

void visualize_array_sharding(const Array& array, std::ostream& out, Location location) {
  visualize_sharding(array.shape(), array.sharding(location), out, location);
}
void visualize_array_sharding(const Array& array, Location location) {
  visualize_array_sharding(array, std::cout, location);
}

}  // namespace tessera
