// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: use of deleted function|implicitly.deleted|attempt to use a deleted function
#include <unordered_set>
#include <vector>

#include <tessera/array.h>

using namespace tessera;

#ifdef TESSERA_OK
std::vector<Array> arrays;
#else
std::unordered_set<Array> arrays;
#endif
