// SPDX-License-Identifier: Apache-2.0
// Values between the host and devices, and between shardings.
#include <cstring>
#include <map>

#include "src/frontend/array_impl.h"
#include "src/frontend/execute.h"

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

/// Copies a box of a row-major array to or from a dense buffer.
void copy_box(const std::byte* whole, std::byte* whole_out, const std::byte* part,
              std::byte* part_out, const Dims& global, const Box& box, std::size_t element) {
  const std::size_t rank = global.size();
  std::int64_t rows = 1;
  for (std::size_t d = 0; d + 1 < rank; ++d) rows *= box.size[d];
  const std::int64_t run = rank == 0 ? 1 : box.size[rank - 1];
  if (run == 0 || rows == 0) return;
  const Dims strides = row_major_strides(global);
  Dims at(rank, 0);
  const std::size_t bytes = std::size_t(run) * element;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t offset = rank == 0 ? 0 : box.start[rank - 1];
    for (std::size_t d = 0; d + 1 < rank; ++d) offset += (box.start[d] + at[d]) * strides[d];
    const std::size_t whole_at = std::size_t(offset) * element;
    const std::size_t part_at = std::size_t(row) * bytes;
    if (part_out) {
      std::memcpy(part_out + part_at, whole + whole_at, bytes);
    } else {
      std::memcpy(whole_out + whole_at, part + part_at, bytes);
    }
    for (std::size_t d = rank; d-- > 1;) {
      if (++at[d - 1] < box.size[d - 1]) break;
      at[d - 1] = 0;
    }
  }
}

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
      copy_box(literal.bytes(), nullptr, nullptr, part.storage->data(), global, box, element);
    }
    out[i] = part;
  }
  return out;
}

Literal to_literal(const Array& array, Location location) {
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
  internal::check_alive(impl, location);
  Literal out(impl.shape);
  std::byte* bytes = out.mutable_bytes();
  if (out.byte_count() == 0) return out;
  if (impl.buffers.size() == 1 || impl.sharding.is_fully_replicated()) {
    std::memcpy(bytes, impl.buffers.front().data(), out.byte_count());
    return out;
  }
  const auto indices = impl.sharding.devices_indices_map(impl.shape.dims);
  const auto replicas = impl.sharding.replica_ids(impl.shape.dims);
  const std::vector<Device> list = impl.sharding.device_list();
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (replicas.at(list[i]) != 0) continue;
    copy_box(nullptr, bytes, impl.buffers[i].data(), nullptr, impl.shape.dims,
             box_of(indices.at(list[i]), impl.shape.dims), byte_size(impl.shape.dtype));
  }
  return out;
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

std::vector<runtime::Buffer> buffers_as(const Array& array, const Sharding& sharding,
                                        Location location) {
  const ArrayImpl& impl = impl_of(array, location);
  if (impl.kind != ArrayImpl::Kind::device) {
    return place_literal(to_literal(array, location), sharding, location);
  }
  internal::check_alive(impl, location);
  if (&impl.sharding.impl() == &sharding.impl()) return impl.buffers;
  const std::int64_t rank = impl.shape.rank();
  const std::vector<Device> from = impl.sharding.device_list();
  const std::vector<Device> to = sharding.device_list();
  if (from == to) {
    if (impl.sharding.is_equivalent_to(sharding, rank)) return impl.buffers;
    (void)sharding.shard_shape(impl.shape.dims, location);
    // Devices alike: the planner's collectives, not a detour through the host.
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
    const Array moved = run_program(bind_program(std::move(program), args), args, location)[0];
    return moved.impl()->buffers;
  }
  if (impl.sharding.is_fully_replicated() && sharding.is_fully_replicated()) {
    return std::vector<runtime::Buffer>(to.size(), impl.buffers.front());
  }
  return place_literal(to_literal(array, location), sharding, location);
}

}  // namespace tessera::frontend
