// SPDX-License-Identifier: Apache-2.0
// Parts of arrays in safetensors files: written once each, with checksums, and read in any cut.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/files/file_io.h"
#include "src/base/files/safetensors.h"
#include "src/frontend/checkpoint/snapshot.h"

namespace tessera::frontend {

/// Each block of so many bytes of a part has a checksum of its own (XXH3, 64 bits), so that a
/// reader of a few of them can tell whether they are as they were written.
inline constexpr std::uint64_t kHashedBytes = std::uint64_t(1) << 20;

/// A file of a checkpoint.
struct FileRecord {
  std::string name;  ///< within its folder
  std::uint64_t bytes = 0;
  std::uint64_t header_bytes = 0;
  std::uint64_t header_hash = 0;
};
/// A part of an array within such a file.
struct PieceRecord {
  std::size_t file = 0;  ///< position in the list of files
  std::string name;      ///< in the file's header
  Box box;
  std::uint64_t offset = 0;  ///< in the file
  std::vector<std::uint64_t> hashes;
};
struct WrittenPieces {
  std::vector<FileRecord> files;
  std::vector<std::vector<PieceRecord>> pieces;  ///< per array
};

struct WriteRequest {
  std::string folder;
  std::int64_t process = 0;  ///< whose parts are written
  /// A file is ended when it has so many bytes of data.
  std::uint64_t file_bytes = 0;
  std::map<std::string, std::string> metadata;
  /// Counts the bytes of data that have been written; may be null.
  std::atomic<std::uint64_t>* done = nullptr;
};
/// Writes this process's parts of the arrays to files "arrays-PROCESS-N.safetensors", which are on
/// the disk when it returns. A part that is a whole array has the array's name, another one its
/// place as well: "w[0:4,8:16]".
WrittenPieces write_pieces(const std::vector<SavedArray>& arrays,
                           const std::vector<std::string>& names, const WriteRequest& request);
/// Bytes of data that write_pieces writes.
std::uint64_t piece_bytes(const std::vector<SavedArray>& arrays, std::int64_t process);

std::uint64_t hash_bytes(std::span<const std::byte> bytes);

/// Calls `write` with the elements of `box` in row-major order, a few MB at a time, taken from
/// those of the array's parts that are listed, which must contain all of it.
void stream_box(const SavedArray& array, std::span<const ShardPiece> pieces, const Box& box,
                const std::function<void(std::span<const std::byte>)>& write);

/// Where a part of an array is to be read from.
struct PieceSource {
  const File* file = nullptr;
  std::uint64_t offset = 0;
  Box box;
  /// For messages: "array .w, part [0:4]".
  std::string who;
  /// Null: there are no checksums.
  const std::vector<std::uint64_t>* hashes = nullptr;
  /// As SafetensorsEntry.
  bool packed = false;
};
/// Memory for a part of the array, whatever its relation to those of the sources.
struct PieceTarget {
  Box box;
  std::byte* host = nullptr;
};
/// Fills the targets. Of the files only the blocks are read that hold some of their elements, each
/// once. IoError that names file and part for a file that is cut short and a wrong checksum, and
/// one that begins with `who` if the sources lack elements of the targets.
void read_pieces(const std::vector<PieceSource>& sources, std::size_t element_bytes,
                 const std::vector<PieceTarget>& targets, const std::string& who);

/// Reads all of a part and compares its checksums; IoError as above.
void check_piece(const PieceSource& source, std::size_t element_bytes);

/// Reads an array onto the devices of a sharding, of which it reads what those of this process
/// hold, or with none onto the first device. `committed`: if there is a sharding.
Array read_array(const std::vector<PieceSource>& sources, const Shape& shape,
                 const std::optional<Sharding>& sharding, bool weak, const std::string& who,
                 Location location);

}  // namespace tessera::frontend
