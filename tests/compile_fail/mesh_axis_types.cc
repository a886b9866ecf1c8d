// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: no matching function for call to .*make_mesh
#include <tessera/mesh.h>

using namespace tessera;

#ifdef TESSERA_OK
const Mesh mesh = make_mesh({8}, {"x"}, {AxisType::Auto});
#else
const Mesh mesh = make_mesh({8}, {"x"}, {"Auto"});
#endif
