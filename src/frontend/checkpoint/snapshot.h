// SPDX-License-Identifier: Apache-2.0
// What is saved of arrays: handles on their memory, and which process writes which part of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/base/box.h"
#include "src/frontend/arrays/array_impl.h"

namespace tessera::frontend {

/// A part of an array, which one process writes.
struct ShardPiece {
  Box box;
  std::size_t place = 0;     ///< of the device that holds it, among those of the sharding
  std::int64_t process = 0;  ///< the one that writes it
};
/// The distinct parts of an array in the order of their devices, each to be written by the process
/// of the first device that holds it.
/// NotImplementedError for partial sums and shardings that don't say what devices hold.
std::vector<ShardPiece> shard_pieces(const Sharding& sharding, const Dims& dims, Location location);

/// An array as it was when this was made: its memory isn't written into while there are handles
/// on it, whatever happens to the array.
struct SavedArray {
  Shape shape;
  bool weak = false;
  bool committed = false;
  /// Empty for plain scalars.
  Sharding sharding;
  std::vector<ShardPiece> pieces;
  /// One for each device of the sharding; of plain scalars `value`.
  internal::ArrayMemory::Buffers buffers;
  std::optional<Literal> value;
  /// The position of an array before it in the list that is the same one.
  std::optional<std::size_t> same_as;

  /// The elements of `requested`, a part of `piece.box`.
  void read(const ShardPiece& piece, const Box& requested, std::byte* host) const;
};

/// TracerError, TypeError (no value) or RuntimeError (deleted) that begins with `who` and names the
/// array's path.
void check_saved(const std::vector<Array>& arrays, const std::vector<std::string>& paths,
                 const std::string& who, Location location);
/// The same errors. Of arrays that several processes have, all of these must call it: partial sums
/// are added up. Values of each process (plain scalars, uncommitted arrays) are written by the
/// first one.
std::vector<SavedArray> snapshot(const std::vector<Array>& arrays,
                                 const std::vector<std::string>& paths, const std::string& who,
                                 Location location);

}  // namespace tessera::frontend
