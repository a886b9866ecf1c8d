// SPDX-License-Identifier: Apache-2.0
// A file of arrays that several processes have: the first process writes it, and the others send it
// what they have.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "src/frontend/checkpoint/snapshot.h"

namespace tessera::frontend {

/// How the file begins, and the positions of the arrays in the order in which they follow.
struct FileOrder {
  std::string header;
  std::vector<std::size_t> arrays;
};

/// The array whose elements are those of arrays[i].
const SavedArray& value_of(const std::vector<SavedArray>& arrays, std::size_t i);

/// Whether the array is on devices of several processes: then all of these must save it together.
bool of_several_processes(const Array& array);

struct JointFile {
  std::string api;  ///< "save_safetensors"
  std::string path;
  /// Lines that must be the same in all processes, besides the path and what the arrays are.
  std::string same;
  std::function<FileOrder(const std::vector<SavedArray>&)> order;
};
/// All processes call it. ValueError, on all of them, if they save different things; IoError if
/// the file can't be written; RuntimeError if one fails.
void save_together(const JointFile& file, const std::vector<Array>& leaves,
                   const std::vector<std::string>& paths, Location location);

}  // namespace tessera::frontend
