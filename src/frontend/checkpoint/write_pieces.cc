// SPDX-License-Identifier: Apache-2.0
// Writes the parts of arrays to files, a few MB at a time, and computes their checksums.
#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <set>

#include "src/base/check.h"
#include "src/frontend/checkpoint/runs_of_box.h"
#include "src/frontend/checkpoint/tensor_files.h"

namespace tessera::frontend {

namespace {

/// A checksum for every kHashedBytes of what is added.
class BlockHasher {
 public:
  BlockHasher() : state_(XXH3_createState(), &XXH3_freeState) {
    if (!state_) throw std::bad_alloc();
    XXH3_64bits_reset(state_.get());
  }
  void add(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const std::size_t n = std::min(bytes.size(), std::size_t(kHashedBytes) - in_block_);
      XXH3_64bits_update(state_.get(), bytes.data(), n);
      in_block_ += n;
      bytes = bytes.subspan(n);
      if (in_block_ == kHashedBytes) end_block();
    }
  }
  std::vector<std::uint64_t> finish() {
    if (in_block_ > 0) end_block();
    return std::move(hashes_);
  }

 private:
  void end_block() {
    hashes_.push_back(XXH3_64bits_digest(state_.get()));
    XXH3_64bits_reset(state_.get());
    in_block_ = 0;
  }
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state_;
  std::size_t in_block_ = 0;
  std::vector<std::uint64_t> hashes_;
};

/// "[0:4,8:16]"
std::string place_in(const Box& box) {
  std::string out = "[";
  for (std::size_t d = 0; d < box.start.size(); ++d) {
    out += (d ? "," : "") + std::to_string(box.start[d]) + ":" +
           std::to_string(box.start[d] + box.size[d]);
  }
  return out + "]";
}

struct Part {
  std::size_t array = 0;
  const ShardPiece* piece = nullptr;
};

std::uint64_t bytes_of(const SavedArray& array, const ShardPiece& piece) {
  return std::uint64_t(piece.box.element_count()) * byte_size(array.shape.dtype);
}

}  // namespace

std::uint64_t hash_bytes(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

void stream_box(const SavedArray& array, std::span<const ShardPiece> pieces, const Box& box,
                const std::function<void(std::span<const std::byte>)>& write) {
  const std::size_t element = byte_size(array.shape.dtype);
  std::vector<std::byte> buffer;
  for_each_run(box, std::int64_t(kStreamed / element), [&](const Box& run) {
    buffer.resize(std::size_t(run.element_count()) * element);
    for (const ShardPiece& piece : pieces) array.read(piece, run, buffer.data());
    write(buffer);
  });
}

std::uint64_t piece_bytes(const std::vector<SavedArray>& arrays, std::int64_t process) {
  std::uint64_t out = 0;
  for (const SavedArray& a : arrays) {
    for (const ShardPiece& p : a.pieces) {
      if (p.process == process) out += bytes_of(a, p);
    }
  }
  return out;
}

WrittenPieces write_pieces(const std::vector<SavedArray>& arrays,
                           const std::vector<std::string>& names, const WriteRequest& request) {
  std::vector<std::vector<Part>> files;
  std::uint64_t in_file = 0;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    for (const ShardPiece& piece : arrays[i].pieces) {
      if (piece.process != request.process) continue;
      if (files.empty() || in_file >= request.file_bytes) {
        files.emplace_back();
        in_file = 0;
      }
      files.back().push_back({i, &piece});
      in_file += bytes_of(arrays[i], piece);
    }
  }
  WrittenPieces out;
  out.pieces.resize(arrays.size());
  for (const std::vector<Part>& parts : files) {
    const std::size_t number = out.files.size();
    FileRecord record;
    record.name =
        "arrays-" + std::to_string(request.process) + "-" + std::to_string(number) + ".safetensors";
    const std::string path = request.folder + "/" + record.name;
    std::vector<SafetensorsEntry> entries;
    std::set<std::string> taken{"__metadata__"};
    for (const Part& part : parts) {
      const SavedArray& array = arrays[part.array];
      const bool whole = part.piece->box == Box::entire(array.shape.dims);
      SafetensorsEntry entry;
      entry.name = names[part.array] + (whole ? "" : place_in(part.piece->box));
      // Maps may have keys that read as a path, or as a part.
      while (!taken.insert(entry.name).second) entry.name += '#';
      entry.shape = Shape(array.shape.dtype, part.piece->box.size);
      entries.push_back(std::move(entry));
    }
    const std::string header = safetensors_header(&entries, request.metadata, path);
    File file = File::create(path);
    file.write(header);
    record.header_bytes = header.size();
    record.header_hash = hash_bytes(std::as_bytes(std::span(header)));
    record.bytes = header.size();
    std::vector<std::size_t> order(parts.size());
    for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return entries[a].begin < entries[b].begin;
    });
    std::vector<PieceRecord> written(parts.size());
    for (const std::size_t k : order) {
      const SavedArray& array = arrays[parts[k].array];
      const ShardPiece& piece = *parts[k].piece;
      TESSERA_CHECK(entries[k].begin == record.bytes || entries[k].bytes == 0,
                    "arrays follow each other");
      BlockHasher hasher;
      stream_box(array, {&piece, 1}, piece.box, [&](std::span<const std::byte> bytes) {
        hasher.add(bytes);
        file.write(bytes);
        if (request.done) request.done->fetch_add(bytes.size(), std::memory_order_relaxed);
      });
      record.bytes += entries[k].bytes;
      written[k] = {number, entries[k].name, piece.box, entries[k].begin, hasher.finish()};
    }
    file.sync();
    file.close();
    out.files.push_back(std::move(record));
    for (std::size_t k = 0; k < parts.size(); ++k) {
      out.pieces[parts[k].array].push_back(std::move(written[k]));
    }
  }
  return out;
}

}  // namespace tessera::frontend
