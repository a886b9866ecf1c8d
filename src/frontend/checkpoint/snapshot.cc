// SPDX-License-Identifier: Apache-2.0
// Handles on the memory of arrays, and the distinct parts of them.
#include "src/frontend/checkpoint/snapshot.h"

#include <map>

#include "src/base/check.h"
#include "src/compiler/engine.h"
#include "src/frontend/run/execute.h"
#include "src/sharding/api/shard_layout.h"

namespace tessera::frontend {

using internal::ArrayImpl;

std::vector<ShardPiece> shard_pieces(const Sharding& sharding, const Dims& dims,
                                     Location location) {
  const auto layout = shard_layout(sharding, dims, location);
  std::vector<ShardPiece> out;
  for (std::size_t i = 0; i < layout->devices.size(); ++i) {
    if (layout->replica_ids[i] != 0) continue;
    out.push_back({{layout->offsets[i], layout->shard_shape}, i, layout->devices[i].process_index});
  }
  return out;
}

void SavedArray::read(const ShardPiece& piece, const Box& requested, std::byte* host) const {
  if (value) {
    return copy_common(value->bytes(), piece.box, host, requested, byte_size(shape.dtype));
  }
  TESSERA_CHECK(piece.place < buffers.size(), "a buffer per device");
  compiler::engine_of(sharding.impl().devices().front())
      .copy_out(buffers[piece.place], piece.box, host, {shape.dtype, requested});
}

namespace {

void check_has_value(const Array& array, const std::string& who, Location location) {
  const ArrayImpl& impl = internal::impl_of(array, location);
  switch (impl.kind) {
    case ArrayImpl::Kind::tracer:
      throw TracerError(
          who + " is traced (" + impl.shape.to_string() + "): save outside of the traced function",
          location);
    case ArrayImpl::Kind::abstract:
      throw TypeError(
          who + " is a shape_dtype_struct (" + impl.shape.to_string() + "), which has no value",
          location);
    case ArrayImpl::Kind::host_scalar:
      return;
    case ArrayImpl::Kind::device:
      break;
  }
  if (!impl.memory.given_up()) return;
  const std::string by = impl.memory.given_up_by();
  throw RuntimeError(who + " (" + impl.shape.to_string() + ") has been deleted" +
                         (by.empty() ? "" : ": it was " + by),
                     location);
}

SavedArray saved(const Array& array, Location location) {
  const ArrayImpl& impl = internal::impl_of(array, location);
  SavedArray out;
  out.shape = Shape(impl.shape.dtype, impl.shape.dims);
  out.weak = impl.weak;
  if (impl.kind == ArrayImpl::Kind::host_scalar) {
    out.value = *impl.literal;
    out.pieces = {{Box::entire(impl.shape.dims), 0, 0}};
    return out;
  }
  out.committed = impl.committed;
  const Array whole = without_partial_sums(array, location);
  out.buffers = internal::shared_buffers(*whole.impl(), location);
  out.sharding = whole.impl()->sharding;
  out.pieces = shard_pieces(out.sharding, out.shape.dims, location);
  if (!out.committed) {
    for (ShardPiece& piece : out.pieces) piece.process = 0;
  }
  return out;
}

std::string name_of(const std::string& who, const std::string& path) {
  return who + ": the array" + (path.empty() ? "" : " " + path);
}

}  // namespace

void check_saved(const std::vector<Array>& arrays, const std::vector<std::string>& paths,
                 const std::string& who, Location location) {
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const std::string mine = name_of(who, paths[i]);
    if (!arrays[i].valid()) throw ValueError(mine + " is empty: it was never assigned", location);
    check_has_value(arrays[i], mine, location);
  }
}

std::vector<SavedArray> snapshot(const std::vector<Array>& arrays,
                                 const std::vector<std::string>& paths, const std::string& who,
                                 Location location) {
  check_saved(arrays, paths, who, location);
  std::vector<SavedArray> out;
  std::map<std::uint64_t, std::size_t> first;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const auto [same, is_first] = first.emplace(arrays[i].impl()->value_id, i);
    out.push_back(saved(arrays[i], location));
    if (is_first || !(out[same->second].sharding == out[i].sharding)) continue;
    out[i].same_as = same->second;
    out[i].pieces.clear();
    out[i].buffers.clear();
    out[i].value.reset();
  }
  return out;
}

}  // namespace tessera::frontend
