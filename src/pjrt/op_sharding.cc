// SPDX-License-Identifier: Apache-2.0
// Shapes and shardings as bytes.
#include "src/pjrt/op_sharding.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "src/base/env.h"
#include "src/pjrt/dtypes.h"
#include "src/pjrt/proto.h"
#include "src/pjrt/status.h"

namespace tessera::pjrt {
namespace {

// As in xla/xla_data.proto.
enum Type : std::int64_t {
  kReplicated = 0,
  kMaximal = 1,
  kTuple = 2,
  kOther = 3,
  kManual = 4,
  kUnknown = 5,
  kUnreduced = 6,
};
enum Field : std::uint32_t {
  kType = 1,
  kTile = 3,
  kDevices = 4,
  kTupleParts = 5,
  kReplicateOnLast = 6,
  kLastTileDims = 8,
  kIotaDims = 9,
  kIotaPerm = 10,
};

std::int64_t type_of_subgroup(Tiling::Subgroup s) {
  switch (s) {
    case Tiling::Subgroup::manual:
      return kManual;
    case Tiling::Subgroup::unreduced:
      return kUnreduced;
    case Tiling::Subgroup::replicated:
      break;
  }
  return kReplicated;
}

Tiling::Subgroup subgroup_of_type(std::int64_t type) {
  if (type == kReplicated) return Tiling::Subgroup::replicated;
  if (type == kManual) return Tiling::Subgroup::manual;
  if (type == kUnreduced) return Tiling::Subgroup::unreduced;
  throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                "OpSharding: dims of a tile of type " + std::to_string(type));
}

std::int64_t type_of_kind(Tiling::Kind kind) {
  switch (kind) {
    case Tiling::Kind::maximal:
      return kMaximal;
    case Tiling::Kind::manual:
      return kManual;
    case Tiling::Kind::unknown:
      return kUnknown;
    case Tiling::Kind::unreduced:
      return kUnreduced;
    case Tiling::Kind::tiled:
      return kOther;
    case Tiling::Kind::replicated:
      break;
  }
  return kReplicated;
}

Tiling::Kind kind_of_type(std::int64_t type) {
  for (const Tiling::Kind k :
       {Tiling::Kind::replicated, Tiling::Kind::maximal, Tiling::Kind::manual,
        Tiling::Kind::unknown, Tiling::Kind::unreduced, Tiling::Kind::tiled}) {
    if (type_of_kind(k) == type) return k;
  }
  throw Failure(PJRT_Error_Code_INVALID_ARGUMENT, "OpSharding of type " + std::to_string(type));
}

Tiling read_part(std::string_view bytes, std::vector<Tiling>* parts) {
  Tiling out;
  std::int64_t type = kReplicated;
  std::vector<std::int64_t> tile, devices, last, iota, perm;
  bool replicate_on_last = false;
  ProtoReader in(bytes, "OpSharding");
  while (const std::uint32_t field = in.next()) {
    if (field == kType) type = in.number();
    if (field == kTupleParts) {
      if (parts == nullptr) {
        throw Failure(PJRT_Error_Code_INVALID_ARGUMENT, "OpSharding: a tuple within a tuple");
      }
      parts->push_back(read_part(in.text(), nullptr));
    }
    if (field == kTile) in.numbers(&tile);
    if (field == kDevices) in.numbers(&devices);
    if (field == kReplicateOnLast) replicate_on_last = in.number() != 0;
    if (field == kLastTileDims) in.numbers(&last);
    if (field == kIotaDims) in.numbers(&iota);
    if (field == kIotaPerm) in.numbers(&perm);
  }
  if (type == kTuple) return out;
  out.kind = kind_of_type(type);
  if (out.kind == Tiling::Kind::maximal) out.device = devices.empty() ? 0 : devices[0];
  if (out.kind != Tiling::Kind::tiled) return out;
  out.tile = Dims(tile.begin(), tile.end());
  out.reshape = Dims(iota.begin(), iota.end());
  for (const std::int64_t p : perm)
    out.perm.push_back(int(std::clamp<std::int64_t>(p, -1, kMaxDevices)));
  out.devices = devices;
  if (replicate_on_last) out.subgroups = {Tiling::Subgroup::replicated};
  for (const std::int64_t t : last) out.subgroups.push_back(subgroup_of_type(t));
  if (out.subgroups.size() > out.tile.size()) {
    throw Failure(PJRT_Error_Code_INVALID_ARGUMENT, "OpSharding: fewer dims than kinds of them");
  }
  std::int64_t count = 1;
  for (const std::int64_t size : out.tile) {
    if (size < 1 || size > kMaxDevices / count) {
      throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                    "OpSharding: a tile of " + std::to_string(size) + " devices");
    }
    count *= size;
  }
  check_tiling(out, count);
  return out;
}

}  // namespace

std::string write_shape(const Shape& shape) {
  // As in xla/xla_data.proto.
  constexpr std::uint32_t kElementType = 2, kDims = 3, kParts = 4, kLayout = 5, kIsDynamic = 6;
  constexpr std::uint32_t kMinorToMajor = 1;
  constexpr std::int64_t kTupleType = 13;
  ProtoWriter out;
  if (shape.is_tuple) {
    out.number(kElementType, kTupleType);
    for (const Shape& leaf : flatten(shape)) out.message(kParts, write_shape(leaf));
    return out.bytes();
  }
  out.number(kElementType, primitive_type(shape.dtype));
  out.numbers(kDims, {shape.dims.begin(), shape.dims.end()});
  std::vector<std::int64_t> order;
  for (auto d = std::int64_t(shape.dims.size()); d-- > 0;) order.push_back(d);
  ProtoWriter layout;
  layout.numbers(kMinorToMajor, order);
  out.message(kLayout, layout.bytes());
  out.numbers(kIsDynamic, std::vector<std::int64_t>(shape.dims.size(), 0));
  return out.bytes();
}

std::string write_op_sharding(const std::vector<Tiling>& parts) {
  ProtoWriter out;
  out.number(kType, kTuple);
  for (const Tiling& t : parts) out.message(kTupleParts, write_op_sharding(t));
  return out.bytes();
}

std::string write_op_sharding(const Tiling& given) {
  const Tiling t = given.canonical();
  ProtoWriter out;
  out.number(kType, type_of_kind(t.kind));
  if (t.kind == Tiling::Kind::maximal) {
    out.numbers(kTile, {1});
    out.numbers(kDevices, {t.device});
  }
  if (t.kind != Tiling::Kind::tiled) return out.bytes();
  out.numbers(kTile, {t.tile.begin(), t.tile.end()});
  const bool one_copy_dim =
      t.subgroups.size() == 1 && t.subgroups[0] == Tiling::Subgroup::replicated;
  if (t.devices.empty()) {
    std::vector<std::int64_t> perm(t.perm.begin(), t.perm.end());
    if (perm.empty()) {
      perm.resize(t.reshape.size());
      std::iota(perm.begin(), perm.end(), std::int64_t{0});
    }
    if (one_copy_dim) out.number(kReplicateOnLast, 1);
    out.numbers(kIotaDims, {t.reshape.begin(), t.reshape.end()});
    out.numbers(kIotaPerm, perm);
  } else {
    out.numbers(kDevices, t.devices);
    if (one_copy_dim) out.number(kReplicateOnLast, 1);
  }
  if (!one_copy_dim && !t.subgroups.empty()) {
    std::vector<std::int64_t> types;
    for (const Tiling::Subgroup s : t.subgroups) types.push_back(type_of_subgroup(s));
    out.numbers(kLastTileDims, types);
  }
  return out.bytes();
}

std::vector<Tiling> read_op_sharding(std::string_view bytes) {
  std::vector<Tiling> parts;
  Tiling one = read_part(bytes, &parts);
  if (parts.empty()) parts.push_back(std::move(one));
  return parts;
}

}  // namespace tessera::pjrt
