// SPDX-License-Identifier: Apache-2.0
// EXPECT-ERROR: tessera: P.*write P.axes.*for one dimension over both axes
#include <tessera/partition_spec.h>

using namespace tessera;

// A list in Python means one dimension over several axes; braces alone can't say so here.
#ifdef TESSERA_OK
P one_dim(axes("x", "y")), two_dims("x", "y"), braced{"x", "y"}, none{}, of_list({}),
    of_names(std::vector<std::string>{"x", "y"});
#else
P spec({"x", "y"});
#endif
