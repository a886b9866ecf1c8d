// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: could not convert|no viable conversion|invalid initialization
#include <tessera/placement.h>

using namespace tessera;

Array joined(const Sharding& sharding, const Array& part) {
#ifdef TESSERA_OK
  return make_array_from_single_device_arrays({8}, sharding, std::vector<Array>{part});
#else
  return make_array_from_single_device_arrays({8}, sharding, part);
#endif
}
