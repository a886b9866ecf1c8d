// SPDX-License-Identifier: Apache-2.0
// Trees of arrays in a folder of .npy files, which NumPy and JAX read, too.
#pragma once

#include <tessera/npy.h>
#include <tessera/processes.h>
#include <tessera/tree.h>

#include <filesystem>
#include <string>
#include <vector>

namespace checkpoint {

/// The file of an array: ".layers.up" is in "layers.up.npy".
inline std::string file_of(const std::string& path) {
  std::string name = path.empty() ? "value" : path;
  if (name[0] == '.') name.erase(0, 1);
  for (char& c : name) {
    if (c == '/' || c == '\'') c = '_';
  }
  return name + ".npy";
}

/// Writes each array of the tree to a file of the folder. The folder is written aside and then
/// renamed: whoever stops the program, there is a whole checkpoint. Of several processes all call
/// it, and the first one writes.
template <tessera::TreeLike T>
void save(const std::filesystem::path& folder, const T& tree) {
  namespace fs = std::filesystem;
  const bool writes = tessera::process_index() == 0;
  const fs::path aside = folder.string() + ".part", old = folder.string() + ".old";
  if (writes) {
    fs::remove_all(aside);
    fs::create_directories(aside);
  }
  const std::vector<std::string> paths = tessera::tree_paths(tree);
  const std::vector<tessera::Array> leaves = tessera::tree_leaves(tree);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const tessera::Array whole = leaves[i].is_fully_addressable()
                                     ? leaves[i]
                                     : tessera::process_allgather(leaves[i], {.tiled = true});
    if (writes) tessera::save_npy((aside / file_of(paths[i])).string(), whole);
  }
  if (writes) {
    // A folder can't be renamed onto a full one. Between the two renames the last checkpoint is in
    // FOLDER.old.
    fs::remove_all(old);
    if (fs::exists(folder)) fs::rename(folder, old);
    fs::rename(aside, folder);
    fs::remove_all(old);
  }
  tessera::sync_processes("checkpoint");
}

/// Reads a tree like `like`, each array with the shape, dtype and sharding of the one there.
/// @throws tessera::Error naming the file that is missing or has another shape or dtype.
template <tessera::TreeLike T>
T load(const std::filesystem::path& folder, const T& like) {
  const std::vector<std::string> paths = tessera::tree_paths(like);
  std::vector<tessera::Array> leaves = tessera::tree_leaves(like);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const std::string file = (folder / file_of(paths[i])).string();
    tessera::LoadNpyOptions options;
    if (leaves[i].committed()) options.sharding = leaves[i].sharding();
    const tessera::Array read = tessera::load_npy(file, options);
    if (read.type_string() != leaves[i].type_string()) {
      throw tessera::ValueError(file + " holds " + read.type_string() + ", and " +
                                leaves[i].type_string() + " is needed: another model's?");
    }
    leaves[i] = read;
  }
  return tessera::tree_unflatten(like, leaves);
}

}  // namespace checkpoint
