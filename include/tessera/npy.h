// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy files.
#pragma once

#include <optional>
#include <string>

#include <tessera/array.h>
#include <tessera/sharding/sharding_tree.h>

namespace tessera {

/// Writes an array to a file in NumPy's .npy format, which `numpy.load` and `load_npy` read.
///
/// A sharded array is gathered first. One that is split over several processes is saved by all of
/// them together: the first process writes the file, and the others send it what they have, a few
/// MB at a time. Of one that is replicated over them each process that calls writes the file. bf16,
/// f8 types and integers of less than 8 bits, which NumPy lacks, are written as JAX's arrays of
/// these types are: as raw bytes. The file is written aside and then renamed, so that at all times
/// `path` is the old file or the whole new one.
/// @code
/// save_npy("weights.npy", w);
/// @endcode
/// @throws IoError, naming the file, if it can't be written.
/// @throws TracerError while a function is traced; TypeError for a shape_dtype_struct;
///   RuntimeError if the array has been deleted.
/// @throws ValueError, in all processes, if they don't save the same array to the same file;
///   RuntimeError in those that wait for one that fails.
void save_npy(const std::string& path, const Array& x, Location location = Location::current());

/// Options of `load_npy`.
struct LoadNpyOptions {
  /// Where to place the array: a sharding, or a spec on the mesh in scope. By default it is an
  /// uncommitted array on the default device.
  ShardingTree sharding{};
  /// The dtype of elements that the file holds as raw bytes: an f8 type, or an integer of less than
  /// 8 bits. Files of bf16 that JAX or `save_npy` wrote don't need it. No other file's dtype is
  /// changed by it; `astype` does that.
  std::optional<DType> raw_dtype{};
};

/// Reads an array from a file in NumPy's .npy format, versions 1 to 3, in C or Fortran order.
///
/// The dtype is the file's: float64 is f64, and bool is pred. Each device gets its part alone.
/// @code
/// Array w = load_npy("weights.npy", {.sharding = NamedSharding(mesh, P(nullptr, "model"))});
/// @endcode
/// @throws IoError, naming the file and what is wrong with it, if it can't be read, isn't in this
///   format, is cut short, or holds records, text, dates or another type that arrays here lack.
/// @throws IndivisibleError or ShardingError if the sharding doesn't fit the shape.
/// @throws ValueError if the sharding names devices that this process lacks.
/// @throws RuntimeError for a spec without a mesh in scope.
Array load_npy(const std::string& path, const LoadNpyOptions& options = {},
               Location location = Location::current());

}  // namespace tessera
