// SPDX-License-Identifier: Apache-2.0
// vmap: the entry computation on a batch.
#include "src/transforms/vmap.h"

#include <algorithm>
#include <string>

#include "src/base/check.h"
#include "src/transforms/batching/batch.h"

namespace tessera::transforms {
namespace {

/// The axes of the leaves of the parameters.
Dims leaf_axes(const ir::Computation& entry, std::span<const std::int64_t> axes) {
  const std::vector<ir::Instruction*>& parameters = entry.parameters();
  if (axes.size() != parameters.size()) {
    throw ValueError("vmap was given axes of " + std::to_string(axes.size()) +
                     " arguments, and the program has " + std::to_string(parameters.size()));
  }
  Dims out;
  for (std::size_t k = 0; k < axes.size(); ++k) {
    for (const Shape& leaf : flatten(parameters[k]->shape)) {
      const std::int64_t greatest = leaf.is_array() ? leaf.rank() : kNotBatched;
      if (axes[k] < kNotBatched || axes[k] > greatest) {
        throw ValueError("vmap can't batch argument " + std::to_string(k) + ", " +
                             leaf.to_string() + " for an entry, on axis " +
                             std::to_string(axes[k]) +
                             (greatest < 0 ? "; it can't be batched"
                                           : "; valid: 0 to " + std::to_string(greatest)),
                         parameters[k]->location());
      }
      out.push_back(axes[k]);
    }
  }
  return out;
}

}  // namespace

std::unique_ptr<ir::Module> vmap(const ir::Module& module, std::span<const std::int64_t> axes,
                                 std::int64_t size) {
  TESSERA_CHECK(module.entry() != nullptr, "vmap of a module without an entry");
  if (size < 0) throw ValueError("vmap of a batch of " + std::to_string(size) + " entries");
  const Dims in_dims = leaf_axes(*module.entry(), axes);
  std::unique_ptr<ir::Module> out = module.clone();
  out->input_output_alias.clear();
  out->buffer_donor.clear();
  // The order of the instructions is a new one.
  out->other.erase(std::remove_if(out->other.begin(), out->other.end(),
                                  [](const auto& item) { return item.first == "is_scheduled"; }),
                   out->other.end());
  const std::string name = out->entry()->name();
  Dims out_dims;
  for (const Shape& leaf : flatten(out->entry()->root()->shape)) {
    out_dims.push_back(leaf.is_array() ? 0 : kAsItComes);
  }
  BatchOptions options;
  options.size = size;
  ir::Computation* entry = batch(*out->entry(), in_dims, options, out_dims).computation;
  out->set_entry(entry);
  out->remove_dead_computations();
  entry->set_name(name);
  return out;
}

}  // namespace tessera::transforms
