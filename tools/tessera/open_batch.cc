// SPDX-License-Identifier: Apache-2.0
// Programs for a batch whose size is not known yet.
#include "tools/tessera/open_batch.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "src/base/files/npy.h"
#include "src/transforms/batching/batch.h"
#include "src/transforms/vmap.h"
#include "tools/tessera/command.h"

namespace tessera::tool {
namespace {

/// Attribute of a module: the axes of its batch.
constexpr const char* kOpenBatch = "tessera.vmap";

}  // namespace

Dims parse_batch_axes(const std::string& step, const std::string& text, const ir::Module& program) {
  Dims out;
  std::istringstream in(text);
  const auto& parameters = program.entry()->parameters();
  for (std::string item; std::getline(in, item, ',');) {
    std::size_t used = 0;
    std::int64_t axis = transforms::kNotBatched;
    if (item != "-") {
      try {
        axis = std::stoll(item, &used);
      } catch (const std::logic_error&) {
        used = 0;
      }
      const bool number = used > 0 && used == item.size() && axis >= 0;
      if (!number) throw UsageError("step " + step + ": '" + item + "' is no axis; valid: 0, 1, -");
      const std::size_t k = out.size();
      if (k < parameters.size() && axis > parameters[k]->shape.rank()) {
        throw UsageError("step " + step + ": axis " + item + " of argument " + std::to_string(k) +
                         ", whose entries are " + parameters[k]->shape.to_string() +
                         "; valid: 0 to " + std::to_string(parameters[k]->shape.rank()));
      }
    }
    out.push_back(axis);
  }
  if (out.size() != parameters.size()) {
    throw UsageError("step " + step + ": " + std::to_string(out.size()) + " axes for " +
                     std::to_string(parameters.size()) + " arguments");
  }
  if (std::all_of(out.begin(), out.end(), [](std::int64_t d) { return d < 0; })) {
    throw UsageError("step " + step + ": at least one argument must be batched");
  }
  return out;
}

void open_batch(ir::Module* program, const std::string& axes) {
  program->frontend_attributes[kOpenBatch] = axes;
}

bool has_open_batch(const ir::Module& program) {
  return program.frontend_attributes.count(kOpenBatch) > 0;
}

namespace {

Dims axes_of(const ir::Module& program) {
  const std::string& text = program.frontend_attributes.at(kOpenBatch);
  return parse_batch_axes("vmap:" + text, text, program);
}

}  // namespace

std::unique_ptr<ir::Module> with_batch(const ir::Module& program, std::int64_t size) {
  std::unique_ptr<ir::Module> out = transforms::vmap(program, axes_of(program), size);
  out->frontend_attributes.erase(kOpenBatch);
  return out;
}

std::int64_t batch_size_of(const ir::Module& program, const std::string& folder) {
  const Dims axes = axes_of(program);
  std::optional<std::int64_t> size;
  std::string known;
  for (std::size_t k = 0; k < axes.size(); ++k) {
    if (axes[k] < 0) continue;
    const std::string path =
        (std::filesystem::path(folder) / ("arg" + std::to_string(k) + ".npy")).string();
    const Shape& entry = program.entry()->parameter(k)->shape;
    const Shape found = read_npy(path, entry.dtype).shape();
    if (found.rank() != entry.rank() + 1) {
      throw ShapeError(path + " is " + found.to_string() + "; a batch of " + entry.to_string() +
                       " along axis " + std::to_string(axes[k]) + " has one more dim");
    }
    const std::int64_t here = found.dim(axes[k]);
    if (size && *size != here) {
      throw ShapeError(path + " is " + found.to_string() + ", a batch of " + std::to_string(here) +
                       " along axis " + std::to_string(axes[k]) + "; " + known + " has " +
                       std::to_string(*size));
    }
    size = here;
    known = path;
  }
  return *size;
}

void refuse_open_batch(const ir::Module& program) {
  if (!has_open_batch(program)) return;
  throw UsageError(program.name +
                   " is for a batch whose size is not known; give it to transform "
                   "(--batch-size), or run it with --inputs");
}

}  // namespace tessera::tool
