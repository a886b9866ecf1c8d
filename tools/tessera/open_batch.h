// SPDX-License-Identifier: Apache-2.0
// Programs for a batch whose size is not known yet: `tessera transform m.mlir vmap:0,-,1`. The text
// holds the program for one entry, and says in an attribute which arguments hold a batch; whoever
// runs it on arguments knows the size.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "src/ir/module.h"

namespace tessera::tool {

/// The axis of the batch in each parameter of the entry, or kNotBatched, as steps write it:
/// "0,-,1".
Dims parse_batch_axes(const std::string& step, const std::string& text, const ir::Module& program);

/// Marks a program for one entry as one for a batch along these axes.
void open_batch(ir::Module* program, const std::string& axes);
bool has_open_batch(const ir::Module& program);
/// The program for a batch of that size.
std::unique_ptr<ir::Module> with_batch(const ir::Module& program, std::int64_t size);
/// The size that the files arg0.npy, ... of a folder have.
std::int64_t batch_size_of(const ir::Module& program, const std::string& folder);
/// UsageError if the size of the program's batch is not known.
void refuse_open_batch(const ir::Module& program);

}  // namespace tessera::tool
