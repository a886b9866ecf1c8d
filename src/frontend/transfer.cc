// SPDX-License-Identifier: Apache-2.0
// Values between the host and devices, and between shardings.
#include <algorithm>
#include <cstring>
#include <map>

#include "src/base/check.h"
#include "src/frontend/array_impl.h"
#include "src/frontend/execute.h"
#include "src/sharding/shard_layout.h"

namespace tessera::frontend {

using internal::ArrayImpl;
using internal::impl_of;

namespace {

/// Start and size of a slice per dim.
struct Box {
  Dims start, size;
  friend bool operator<(const Box& a, const Box& b) {
    return a.start != b.start ? a.start < b.start : a.size < b.size;
  }
};

Box box_of(const Index& index, const Dims& global) {
  Box box;
  for (std::size_t d = 0; d < global.size(); ++d) {
    const std::int64_t start = index[d].start.value_or(0);
    box.start.push_back(start);
    box.size.push_back(index[d].stop.value_or(global[d]) - start);
  }
  return box;
}

/// Copies what two boxes of the same array have in common, from one dense part to another.
void copy_common(const std::byte* from, const Box& source, std::byte* to, const Box& target,
                 std::size_t element) {
  const std::size_t rank = source.start.size();
  Dims start(rank), size(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    start[d] = std::max(source.start[d], target.start[d]);
    size[d] =
        std::min(source.start[d] + source.size[d], target.start[d] + target.size[d]) - start[d];
    if (size[d] <= 0) return;
  }
  const Dims from_strides = row_major_strides(source.size),
             to_strides = row_major_strides(target.size);
  // Trailing dims that both parts hold whole are one run of memory.
  std::size_t inner = rank;
  std::int64_t run = 1;
  while (inner > 0) {
    const std::size_t d = inner - 1;
    run *= size[d];
    --inner;
    if (size[d] != source.size[d] || size[d] != target.size[d]) break;
  }
  const std::size_t bytes = std::size_t(run) * element;
  Dims at(rank, 0);
  while (true) {
    std::int64_t from_at = 0, to_at = 0;
    for (std::size_t d = 0; d < rank; ++d) {
      from_at += (start[d] + at[d] - source.start[d]) * from_strides[d];
      to_at += (start[d] + at[d] - target.start[d]) * to_strides[d];
    }
    std::memcpy(to + std::size_t(to_at) * element, from + std::size_t(from_at) * element, bytes);
    std::size_t d = inner;
    while (d > 0 && ++at[d - 1] == size[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

Box whole_box(const Dims& global) { return {Dims(global.size(), 0), global}; }

runtime::Buffer buffer_from_bytes(const std::byte* bytes, std::size_t count) {
  runtime::Buffer buffer{runtime::Storage::allocate(count)};
  if (count > 0) std::memcpy(buffer.storage->data(), bytes, count);
  return buffer;
}

}  // namespace

std::vector<runtime::Buffer> place_literal(const Literal& literal, const Sharding& sharding,
                                           Location location) {
  const Dims& global = literal.dims();
  (void)sharding.shard_shape(global, location);
  const std::vector<Device> list = sharding.device_list();
  std::vector<runtime::Buffer> out(list.size());
  if (sharding.is_fully_replicated()) {
    const runtime::Buffer one = buffer_from_bytes(literal.bytes(), literal.byte_count());
    for (runtime::Buffer& b : out) b = one;
    return out;
  }
  const auto indices = sharding.devices_indices_map(global);
  const std::size_t element = byte_size(literal.dtype());
  std::map<Box, runtime::Buffer> parts;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Box box = box_of(indices.at(list[i]), global);
    runtime::Buffer& part = parts[box];
    if (!part) {
      part.storage = runtime::Storage::allocate(std::size_t(element_count(box.size)) * element);
      copy_common(literal.bytes(), whole_box(global), part.storage->data(), box, element);
    }
    out[i] = part;
  }
  return out;
}

namespace {

/// A sharding with partial sums as it is once they are added up.
Sharding summed(const Sharding& s) {
  if (!NamedSharding::is(s)) return GSPMDSharding::get_replicated(s.device_list());
  const NamedSharding named(s);
  return NamedSharding(named.mesh(), PartitionSpec::from_entries(named.spec().entries()),
                       s.memory_kind(), Location{});
}

/// The devices stay: the planner's collectives, not a detour through the host.
Array resharded(const Array& array, const Sharding& sharding, Location location) {
  const ArrayImpl& impl = impl_of(array, location);
  Program program;
  program.name = "reshard";
  program.location = location;
  {
    Trace trace("reshard", static_cast<Trace*>(nullptr));
    const ActiveTrace active(&trace);
    const Array x = trace.add_parameter(abstract_value(array));
    trace.finish(std::vector<Array>{x}, location);
    program.module = trace.take_module();
  }
  program.parameters = {{impl.sharding, "array"}};
  program.results = {{sharding, "array"}};
  program.result_weak = {impl.weak};
  program.donated = {false};
  const std::vector<Array> args{array};
  return run_program(bind_program(std::move(program), args), args, location)[0];
}

/// The devices' parts put together.
Literal joined(const ArrayImpl& impl, const internal::ArrayMemory::Buffers& buffers,
               Location location) {
  Literal out(impl.shape);
  std::byte* bytes = out.mutable_bytes();
  if (out.byte_count() == 0) return out;
  if (buffers.size() == 1 || impl.sharding.is_fully_replicated()) {
    std::memcpy(bytes, buffers.front().data(), out.byte_count());
    return out;
  }
  const auto layout = layout_of_parts(impl.sharding, impl.shape.dims, location);
  if (layout->partial_sums) {
    const Array terms =
        internal::make_device_array(impl.shape, impl.sharding, buffers, true, false);
    const Array sum = resharded(terms, summed(impl.sharding), location);
    return joined(*sum.impl(), internal::shared_buffers(*sum.impl(), location), location);
  }
  TESSERA_CHECK(buffers.size() == layout->devices.size(), "a buffer per device");
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (layout->replica_ids[i] != 0) continue;
    copy_common(buffers[i].data(), box_of(layout->indices[i], impl.shape.dims), bytes,
                whole_box(impl.shape.dims), byte_size(impl.shape.dtype));
  }
  return out;
}

}  // namespace

std::optional<Literal> literal_if_alive(const Array& array, Location location) {
  const ArrayImpl& impl = impl_of(array, location);
  switch (impl.kind) {
    case ArrayImpl::Kind::host_scalar:
      return *impl.literal;
    case ArrayImpl::Kind::tracer:
      throw TracerError(
          "the value of a traced array (" + impl.shape.to_string() +
              (impl.created.known() ? ", made at " + impl.created.to_string() : std::string()) +
              ") was asked for: inside jit and other transformations arrays have no values; use "
              "where, cond or while_loop, or pass the value as a static argument",
          location);
    case ArrayImpl::Kind::abstract:
      throw TypeError("a shape_dtype_struct (" + impl.shape.to_string() + ") has no value",
                      location);
    case ArrayImpl::Kind::device:
      break;
  }
  const auto buffers = impl.memory.share();
  if (!buffers) return std::nullopt;
  return joined(impl, *buffers, location);
}

Literal to_literal(const Array& array, Location location) {
  std::optional<Literal> out = literal_if_alive(array, location);
  if (!out) {
    internal::check_alive(impl_of(array), location);
    throw InternalError("a deleted array is alive", location);
  }
  return *std::move(out);
}

Array from_literal(const Literal& literal, bool weak, bool committed) {
  if (weak && literal.dims().empty()) {
    auto impl = std::make_shared<ArrayImpl>();
    impl->kind = ArrayImpl::Kind::host_scalar;
    impl->shape = literal.shape();
    impl->literal = literal;
    impl->weak = true;
    return Array(std::move(impl));
  }
  const SingleDeviceSharding where(devices().front());
  return internal::make_device_array(literal.shape(), where, place_literal(literal, where, {}),
                                     committed, weak);
}

namespace {

/// Parts for other devices, taken from the parts that there are: equal ones are shared, others put
/// together once each.
std::vector<runtime::Buffer> moved_parts(const ArrayImpl& impl,
                                         const internal::ArrayMemory::Buffers& parts,
                                         const Sharding& sharding, Location location) {
  const Dims& global = impl.shape.dims;
  (void)sharding.shard_shape(global, location);
  const std::size_t element = byte_size(impl.shape.dtype);
  std::map<Box, runtime::Buffer> sources, made;
  const std::vector<Device> from = impl.sharding.device_list();
  const auto from_indices = impl.sharding.devices_indices_map(global);
  for (std::size_t i = 0; i < from.size(); ++i) {
    sources.emplace(box_of(from_indices.at(from[i]), global), parts[i]);
  }
  const auto to_indices = sharding.devices_indices_map(global);
  std::vector<runtime::Buffer> out;
  for (const Device& device : sharding.device_list()) {
    const Box box = box_of(to_indices.at(device), global);
    if (auto same = sources.find(box); same != sources.end()) {
      out.push_back(same->second);
      continue;
    }
    runtime::Buffer& part = made[box];
    if (!part) {
      part.storage = runtime::Storage::allocate(std::size_t(element_count(box.size)) * element);
      for (const auto& [source, buffer] : sources) {
        copy_common(buffer.data(), source, part.storage->data(), box, element);
      }
    }
    out.push_back(part);
  }
  return out;
}

}  // namespace

std::vector<runtime::Buffer> buffers_as(const Array& array, const Sharding& sharding,
                                        Location location) {
  const ArrayImpl& impl = impl_of(array, location);
  if (impl.kind != ArrayImpl::Kind::device) {
    return place_literal(to_literal(array, location), sharding, location);
  }
  auto parts = internal::shared_buffers(impl, location);
  if (&impl.sharding.impl() == &sharding.impl()) return parts;
  const std::int64_t rank = impl.shape.rank();
  if (impl.sharding.device_list() == sharding.device_list()) {
    if (impl.sharding.is_equivalent_to(sharding, rank)) return parts;
    (void)sharding.shard_shape(impl.shape.dims, location);
    return internal::shared_buffers(*resharded(array, sharding, location).impl(), location);
  }
  if (!impl.sharding.is_fully_replicated() &&
      layout_of_parts(impl.sharding, impl.shape.dims, location)->partial_sums) {
    return buffers_as(resharded(array, summed(impl.sharding), location), sharding, location);
  }
  return moved_parts(impl, parts, sharding, location);
}

}  // namespace tessera::frontend
