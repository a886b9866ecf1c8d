// SPDX-License-Identifier: Apache-2.0
// The layouts that a program states for its parameters and results.
#pragma once

#include <vector>

#include "src/ir/module.h"

namespace tessera::pjrt {

/// Minor to major; empty: row-major.
struct EntryLayouts {
  std::vector<Dims> parameters, results;
};

/// Takes the layout modes out of a program: afterwards its parameters and results are the arrays as
/// they are stored, and it transposes them itself. To be called when shardings have been given to
/// all of them. Where the program leaves a layout open, a parameter is row-major; a result stands
/// in the order in which it comes about, so that a transposed array needs no transpose. A Failure
/// for layouts that arrays can't have. `by_shapes`: without modes the shapes of parameters and
/// results say it, as in HLO text.
EntryLayouts settle_layouts(ir::Module* module, bool by_shapes);

}  // namespace tessera::pjrt
