// SPDX-License-Identifier: Apache-2.0
// Transfers of values between the host and devices, and between shardings.
#include <algorithm>
#include <map>

#include "src/base/box.h"
#include "src/base/check.h"
#include "src/base/processes/processes.h"
#include "src/compiler/engine.h"
#include "src/frontend/arrays/array_impl.h"
#include "src/frontend/run/execute.h"
#include "src/frontend/run/move_across.h"
#include "src/sharding/api/shard_layout.h"
#include "src/sharding/api/sharding_impl.h"

namespace tessera::frontend {

using internal::ArrayImpl;
using internal::impl_of;

namespace {

Box box_of(const Index& index, const Dims& global) {
  Box box;
  for (std::size_t d = 0; d < global.size(); ++d) {
    const std::int64_t start = index[d].start.value_or(0);
    box.start.push_back(start);
    box.size.push_back(index[d].stop.value_or(global[d]) - start);
  }
  return box;
}

/// Devices grouped by the part that they hold, each with its position in the list.
struct Holders {
  std::vector<std::size_t> places;
  std::vector<Device> devices;
};
std::map<Box, Holders> holders_of_parts(const Sharding& sharding, const std::vector<Device>& list,
                                        const Dims& global) {
  std::map<Box, Holders> out;
  const auto indices = sharding.devices_indices_map(global, {});
  for (std::size_t i = 0; i < list.size(); ++i) {
    Holders& holders = out[box_of(indices.at(list[i]), global)];
    holders.places.push_back(i);
    holders.devices.push_back(list[i]);
  }
  return out;
}

void put(std::vector<DeviceBuffer> made, const Holders& holders, std::vector<DeviceBuffer>* out) {
  TESSERA_CHECK(made.size() == holders.places.size(), "a buffer per device");
  for (std::size_t k = 0; k < made.size(); ++k) (*out)[holders.places[k]] = std::move(made[k]);
}

}  // namespace

std::vector<DeviceBuffer> place_literal(const Literal& literal, const Sharding& sharding,
                                        Location location) {
  const Dims& global = literal.dims();
  (void)sharding.shard_shape(global, location);
  const std::vector<Device> list = sharding.device_list();
  const compiler::Engine& engine = compiler::engine_of(list);
  const Box whole = Box::entire(global);
  const HostLayout held{literal.dtype(), whole};
  const MemoryKind kind = internal::memory_of(sharding);
  if (sharding.is_fully_replicated()) {
    return engine.copy_in(literal.bytes(), held, whole, list, kind);
  }
  std::vector<DeviceBuffer> out(list.size());
  for (const auto& [part, holders] : holders_of_parts(sharding, list, global)) {
    put(engine.copy_in(literal.bytes(), held, part, holders.devices, kind), holders, &out);
  }
  return out;
}

namespace {

bool has_partial_sums(const Sharding& s, const Dims& shape, Location location) {
  if (NamedSharding::is(s)) return !NamedSharding(s).spec().unreduced().empty();
  return !s.is_fully_replicated() && layout_of_parts(s, shape, location)->partial_sums;
}

/// The sharding of the array after its partial sums are added up, or its maxima or minima joined.
Sharding summed(const Sharding& s) {
  if (!NamedSharding::is(s)) {
    return GSPMDSharding::get_replicated(s.device_list()).with_memory_kind(s.memory_kind());
  }
  const NamedSharding named(s);
  return NamedSharding(named.mesh(), PartitionSpec::from_entries(named.spec().entries()),
                       s.memory_kind(), Location{});
}

/// The devices stay the same: reshards by collectives, not through the host.
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

[[noreturn]] void throw_elsewhere(const ArrayImpl& impl, Location location) {
  std::string here;
  for (const Device& d : impl.sharding.device_list()) {
    if (is_local(d)) here += (here.empty() ? "" : ", ") + d.to_string();
  }
  throw RuntimeError(
      "the value of " + impl.shape.to_string() + " can't be read by process " +
          std::to_string(process_index()) + ": it is on devices of other processes as well, " +
          impl.sharding.to_string() + ", and here are the parts of " +
          (here.empty() ? "none" : here) +
          "; valid: process_allgather(x, {.tiled = true}), which every process calls, or "
          "addressable_shards()",
      location);
}

/// Assembles the devices' parts.
Literal joined(const ArrayImpl& impl, const internal::ArrayMemory::Buffers& buffers,
               Location location) {
  Literal out(impl.shape);
  std::byte* bytes = out.mutable_bytes();
  if (out.byte_count() == 0) return out;
  const Box whole = Box::entire(impl.shape.dims);
  const HostLayout all{impl.shape.dtype, whole};
  const auto& list = impl.sharding.impl().devices();
  const compiler::Engine& engine = compiler::engine_of(list.front());
  if (buffers.size() == 1 || impl.sharding.is_fully_replicated()) {
    const auto here =
        std::find_if(buffers.begin(), buffers.end(), [](const DeviceBuffer& b) { return bool(b); });
    if (here == buffers.end()) throw_elsewhere(impl, location);
    engine.copy_out(*here, whole, bytes, all);
    return out;
  }
  const bool all_here =
      std::all_of(buffers.begin(), buffers.end(), [](const DeviceBuffer& b) { return bool(b); });
  const auto layout = layout_of_parts(impl.sharding, impl.shape.dims, location);
  if (layout->partial_sums) {
    if (!all_here) throw_elsewhere(impl, location);
    const Array terms =
        internal::make_device_array(impl.shape, impl.sharding, buffers, true, false);
    const Array sum = resharded(terms, summed(impl.sharding), location);
    return joined(*sum.impl(), internal::shared_buffers(*sum.impl(), location), location);
  }
  TESSERA_CHECK(buffers.size() == layout->devices.size(), "a buffer per device");
  if (all_here) {
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      if (layout->replica_ids[i] != 0) continue;
      engine.copy_out(buffers[i], box_of(layout->indices[i], impl.shape.dims), bytes, all);
    }
    return out;
  }
  // Each part by whichever of its copies is here.
  std::map<Box, std::size_t> parts;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const auto [found, added] = parts.emplace(box_of(layout->indices[i], impl.shape.dims), i);
    if (!added && !buffers[found->second]) found->second = i;
  }
  for (const auto& [box, i] : parts) {
    if (!buffers[i]) throw_elsewhere(impl, location);
    engine.copy_out(buffers[i], box, bytes, all);
  }
  return out;
}

}  // namespace

Array without_partial_sums(const Array& array, Location location) {
  const ArrayImpl& impl = impl_of(array, location);
  if (impl.kind != ArrayImpl::Kind::device ||
      !has_partial_sums(impl.sharding, impl.shape.dims, location)) {
    return array;
  }
  return resharded(array, summed(impl.sharding), location);
}

std::optional<Literal> literal_if_alive(const Array& array, Location location) {
  const ArrayImpl& impl = impl_of(array, location);
  switch (impl.kind) {
    case ArrayImpl::Kind::host_scalar:
      return *impl.literal;
    case ArrayImpl::Kind::tracer:
      throw TracerError(
          "the value of a traced array (" + impl.shape.to_string() +
              (impl.created.known() ? ", made at " + impl.created.to_string() : std::string()) +
              ") was requested: inside jit and other transformations arrays have no values; use "
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
  const SingleDeviceSharding where(default_device());
  return internal::make_device_array(literal.shape(), where, place_literal(literal, where, {}),
                                     committed, weak);
}

namespace {

const std::string& platform_of(const Sharding& s) { return s.impl().devices().front().platform; }

/// Whether the pieces, which are disjoint, hold all of a part.
bool hold(std::span<const compiler::Engine::Piece> pieces, const Box& part) {
  std::int64_t count = 0;
  for (const auto& piece : pieces) count += common(piece.box, part).element_count();
  return count == part.element_count();
}

/// The parts for other devices, made of the existing parts: equal ones are shared, each other part
/// is assembled once.
std::vector<DeviceBuffer> moved_parts(const ArrayImpl& impl,
                                      const internal::ArrayMemory::Buffers& parts,
                                      const Sharding& sharding, Location location) {
  const Dims& global = impl.shape.dims;
  (void)sharding.shard_shape(global, location);
  const DType dtype = impl.shape.dtype;
  const std::vector<Device> from = impl.sharding.device_list(), to = sharding.device_list();
  std::map<Box, DeviceBuffer> sources;
  const auto from_indices = impl.sharding.devices_indices_map(global, {});
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (parts[i]) sources.emplace(box_of(from_indices.at(from[i]), global), parts[i]);
  }
  std::vector<compiler::Engine::Piece> pieces;
  for (const auto& [box, buffer] : sources) pieces.push_back({box, buffer});
  const compiler::Engine& engine = compiler::engine_of(to);
  if (processes() != nullptr && !impl.sharding.is_fully_addressable() &&
      impl.sharding.device_set() == sharding.device_set()) {
    const auto to_indices = sharding.devices_indices_map(global, {});
    PartsOfDevices have, want;
    for (const Device& d : from) have.emplace_back(d, box_of(from_indices.at(d), global));
    for (const Device& d : to) want.emplace_back(d, box_of(to_indices.at(d), global));
    for (auto& piece : pieces_from_others(have, want, sources, dtype, engine, location)) {
      pieces.push_back(std::move(piece));
    }
  }
  const MemoryKind kind = internal::memory_of(sharding);
  const bool stays = internal::memory_of(impl.sharding) == kind;
  std::vector<DeviceBuffer> out(to.size());
  for (const auto& [part, holders] : holders_of_parts(sharding, to, global)) {
    if (std::none_of(holders.devices.begin(), holders.devices.end(), is_local)) continue;
    if (!hold(pieces, part)) throw_elsewhere(impl, location);
    if (const auto same = sources.find(part); same != sources.end()) {
      const DeviceBuffer there = stays ? same->second : engine.copy({&same->second, 1}, kind)[0];
      for (std::size_t k = 0; k < holders.places.size(); ++k) {
        out[holders.places[k]] = engine.on_device(there, holders.devices[k]);
      }
    } else {
      put(engine.assemble(pieces, dtype, part, holders.devices, kind), holders, &out);
    }
  }
  return out;
}

/// The terms of an array: along the unreduced axes one device has the value, the others have zeros.
/// Of maxima and minima all devices have the value, or the elements that they had before.
std::vector<DeviceBuffer> terms_as(const Array& array, const Sharding& sharding,
                                   Location location) {
  const ArrayImpl& impl = impl_of(array, location);
  (void)sharding.shard_shape(impl.shape.dims, location);
  const Sharding whole = summed(sharding);
  const Array value = internal::make_device_array(
      impl.shape, whole, buffers_as(array, whole, location), true, impl.weak);
  return internal::shared_buffers(*resharded(value, sharding, location).impl(), location);
}

}  // namespace

bool are_same_device(const Sharding& left, const Sharding& right) {
  constexpr auto kSingle = internal::ShardingClass::single_device;
  const internal::ShardingImpl &a = left.impl(), &b = right.impl();
  return a.sharding_class() == kSingle && b.sharding_class() == kSingle &&
         (&a == &b || (a.devices()[0] == b.devices()[0] && a.memory_kind() == b.memory_kind()));
}

std::vector<DeviceBuffer> buffers_as(const Array& array, const Sharding& sharding,
                                     Location location) {
  const ArrayImpl& impl = impl_of(array, location);
  if (impl.kind != ArrayImpl::Kind::device) {
    if (has_partial_sums(sharding, impl.shape.dims, location)) {
      return terms_as(array, sharding, location);
    }
    return place_literal(to_literal(array, location), sharding, location);
  }
  auto parts = internal::shared_buffers(impl, location);
  if (&impl.sharding.impl() == &sharding.impl() || are_same_device(impl.sharding, sharding)) {
    return parts;
  }
  const std::int64_t rank = impl.shape.rank();
  if (impl.sharding.device_list() == sharding.device_list()) {
    if (impl.sharding.is_equivalent_to(sharding, rank)) return parts;
    if (impl.sharding.with_memory_kind(sharding.memory_kind()).is_equivalent_to(sharding, rank)) {
      return compiler::engine_of(sharding.impl().devices())
          .copy(parts, internal::memory_of(sharding));
    }
  }
  if (has_partial_sums(sharding, impl.shape.dims, location)) {
    return terms_as(array, sharding, location);
  }
  if (impl.sharding.device_list() == sharding.device_list()) {
    (void)sharding.shard_shape(impl.shape.dims, location);
    return internal::shared_buffers(*resharded(array, sharding, location).impl(), location);
  }
  if (has_partial_sums(impl.sharding, impl.shape.dims, location)) {
    return buffers_as(resharded(array, summed(impl.sharding), location), sharding, location);
  }
  if (platform_of(impl.sharding) != platform_of(sharding)) {
    return place_literal(joined(impl, parts, location), sharding, location);
  }
  return moved_parts(impl, parts, sharding, location);
}

}  // namespace tessera::frontend
