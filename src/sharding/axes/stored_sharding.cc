// SPDX-License-Identifier: Apache-2.0
// Writes and reads shapes and shardings, with checks of all that is read.
#include "src/sharding/axes/stored_sharding.h"

#include <limits>
#include <vector>

namespace tessera {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMostDevices = std::int64_t(1) << 31;

void write_mesh(ByteWriter* out, const MeshRef& mesh) {
  out->number(mesh != nullptr);
  if (!mesh) return;
  out->text(mesh->name);
  out->list(mesh->axes, [&](const MeshAxis& a) {
    out->text(a.name);
    out->number(a.size);
    out->number(a.pre);
    out->number(a.full);
  });
  out->numbers(mesh->device_ids);
}

MeshRef read_mesh(ByteReader* in) {
  if (!in->flag()) return nullptr;
  auto mesh = std::make_shared<LogicalMesh>();
  mesh->name = in->text();
  std::int64_t devices = 1;
  in->list([&] {
    MeshAxis a;
    a.name = in->text();
    a.size = in->number(1, kMostDevices / devices, "an axis of the size");
    a.pre = in->number(1, kMostDevices, "an axis that begins at");
    a.full = in->number(1, kMostDevices, "an axis of the full size");
    if (a.full % a.size != 0 || (a.full / a.size) % a.pre != 0) {
      in->fail("has an axis " + a.to_string() + " of one of the size " + std::to_string(a.full));
    }
    devices *= a.size;
    mesh->axes.push_back(std::move(a));
  });
  std::vector<std::int64_t> ids =
      in->numbers<std::vector<std::int64_t>>(0, devices - 1, "a mesh with device");
  std::vector<bool> seen(ids.size(), false);
  if (!ids.empty() && std::int64_t(ids.size()) != devices) {
    in->fail("has a mesh with " + std::to_string(ids.size()) + " devices of " +
             std::to_string(devices));
  }
  for (const std::int64_t id : ids) {
    if (seen[std::size_t(id)]) in->fail("has a mesh with device " + std::to_string(id) + " twice");
    seen[std::size_t(id)] = true;
  }
  if (!ids.empty()) mesh->device_ids = DeviceIds(std::move(ids));
  return mesh;
}

}  // namespace

void write_shape(ByteWriter* out, const Shape& shape) {
  out->number(int(shape.dtype));
  out->numbers(shape.dims);
}

Shape read_shape(ByteReader* in) {
  Shape out;
  out.dtype = DType(in->number(0, int(DType::token), "an element type"));
  out.dims = in->numbers<Dims>(0, kMost, "a dim of the size");
  if (out.is_array()) (void)out.byte_count();
  return out;
}

void write_sharding(ByteWriter* out, const TensorSharding& s) {
  out->number(int(s.kind));
  write_mesh(out, s.mesh);
  out->list(s.dims, [&](const DimSharding& d) {
    out->numbers(d.axes);
    out->number(d.open);
    out->number(d.priority);
  });
  for (const IndexList* axes : {&s.replicated, &s.unreduced, &s.manual}) out->numbers(*axes);
  out->number(s.device);
  out->number(int(s.reduction));
  out->number(s.shard_group);
  out->number(s.shard_like);
}

TensorSharding read_sharding(ByteReader* in) {
  TensorSharding out;
  out.kind = TensorSharding::Kind(in->number(0, 2, "a kind of sharding"));
  out.mesh = read_mesh(in);
  std::vector<bool> used(out.mesh ? out.mesh->axes.size() : 0, false);
  const auto axes = [&] {
    auto list = in->numbers<IndexList>(0, std::int64_t(used.size()) - 1, "a sharding by axis");
    for (const auto a : list) {
      if (used[std::size_t(a)]) in->fail("has a sharding with an axis twice");
      used[std::size_t(a)] = true;
    }
    return list;
  };
  in->list([&] {
    DimSharding d;
    d.axes = axes();
    d.open = in->flag();
    d.priority = int(in->number(0, 1 << 20, "a priority"));
    out.dims.push_back(std::move(d));
  });
  for (IndexList* list : {&out.replicated, &out.unreduced, &out.manual}) *list = axes();
  out.device = in->number(0, kMostDevices, "a sharding on device");
  out.reduction = Reduction(in->number(0, 3, "a kind of reduction"));
  out.shard_group = int(in->number(-1, 1 << 30, "a shard group"));
  out.shard_like = in->flag();
  return out;
}

}  // namespace tessera
