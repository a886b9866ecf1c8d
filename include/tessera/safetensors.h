// SPDX-License-Identifier: Apache-2.0
// Safetensors files: named arrays, exchanged with other programs.
#pragma once

#include <functional>
#include <map>
#include <string>

#include <tessera/array.h>
#include <tessera/sharding/sharding_tree.h>
#include <tessera/tree.h>

namespace tessera {

/// Options of `save_safetensors`.
struct SaveSafetensorsOptions {
  /// Texts for the file's "__metadata__".
  std::map<std::string, std::string> metadata{};
};

/// Options of `load_safetensors`.
struct LoadSafetensorsOptions {
  /// Where to place the arrays: a prefix of the tree, or one for all. By default as those of
  /// `like`, or uncommitted on the default device.
  ShardingTree sharding{};
  /// Whether arrays of the file that `like` lacks are an error.
  bool strict = true;
};

namespace internal {
void save_safetensors_tree(const std::string& path, const std::function<void(TreeVisitor&)>& walk,
                           const SaveSafetensorsOptions& options, Location location);
void load_safetensors_tree(const std::string& path, const std::function<void(TreeVisitor&)>& walk,
                           const LoadSafetensorsOptions& options, Location location);
}  // namespace internal

/// Writes a tree of arrays to a safetensors file, which Python's `safetensors` and other programs
/// read.
///
/// The name of an array is its place in the tree, joined by dots: names of fields, keys of maps and
/// positions, for example "layers.0.w"; that of a tree that is one array is "array". A map of
/// arrays has its keys as names. Sharded arrays are gathered, a few MB at a time. Static values of
/// the tree aren't written; `save_checkpoint` does that.
///
/// Types that the format lacks are written as integers of as many bytes (c128 as F64 with a last
/// dimension of 2), and the metadata tell what they are. The file is written aside and then
/// renamed, so that at all times `path` is the old file or the whole new one.
///
/// If an array of the tree is on devices of several processes, all processes must call it, with the
/// same tree: the first one writes the file, and the others send it their parts. Otherwise each
/// process that calls it writes a file.
/// @code
/// save_safetensors("model.safetensors", params);
/// save_safetensors("more.safetensors", std::map<std::string, Array>{{"wte.weight", table}});
/// @endcode
/// @throws IoError, naming the file, if it can't be written.
/// @throws ValueError if two arrays have the same name, a name isn't UTF-8, processes save
/// different
///   trees, or an array is on devices of another process alone.
/// @throws TracerError while a function is traced; TypeError for a shape_dtype_struct; RuntimeError
///   for an array that has been deleted.
template <TreeLike T>
void save_safetensors(const std::string& path, const T& tree,
                      const SaveSafetensorsOptions& options = {},
                      Location location = Location::current()) {
  internal::save_safetensors_tree(
      path, [&](internal::TreeVisitor& v) { internal::visit_tree(const_cast<T&>(tree), v); },
      options, location);
}

/// Reads a tree of arrays from a safetensors file, by their names as `save_safetensors` makes them.
///
/// Arrays are placed as the options say; else as the array of `like`, if that is committed, or a
/// shape_dtype_struct with a sharding; else they are uncommitted on the default device. Of the file
/// only blocks are read that hold elements of this process's devices.
/// @code
/// Params params = load_safetensors("model.safetensors", like, {.sharding = P("model")});
/// @endcode
/// @param path  The file.
/// @param like  A tree of arrays or shape_dtype_structs; their values aren't read.
/// @param options  See there.
/// @param location  The line named in messages.
/// @throws IoError, naming the file and what is wrong with it, if it can't be read, isn't in this
///   format, or has an array of a type that arrays here lack.
/// @throws ValueError if an array of `like` isn't in the file, or, if strict, the other way round;
///   the message lists them.
/// @throws ShapeError or DTypeError if an array has another shape or dtype than that of `like`.
/// @throws IndivisibleError or ShardingError if a sharding doesn't fit.
template <TreeLike T>
T load_safetensors(const std::string& path, const T& like,
                   const LoadSafetensorsOptions& options = {},
                   Location location = Location::current()) {
  T out = like;
  internal::load_safetensors_tree(
      path, [&](internal::TreeVisitor& v) { internal::visit_tree(out, v); }, options, location);
  return out;
}

/// Reads all arrays of a safetensors file, by their names.
/// @param path  The file.
/// @param options  The sharding is one for all arrays.
/// @param location  The line named in messages.
/// @throws as above; ValueError for a tree of shardings.
std::map<std::string, Array> load_safetensors_arrays(const std::string& path,
                                                     const LoadSafetensorsOptions& options = {},
                                                     Location location = Location::current());

/// Returns the texts of a safetensors file's "__metadata__".
/// @throws IoError as `load_safetensors`.
std::map<std::string, std::string> safetensors_metadata(const std::string& path,
                                                        Location location = Location::current());

}  // namespace tessera
