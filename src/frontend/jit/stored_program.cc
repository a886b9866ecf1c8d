// SPDX-License-Identifier: Apache-2.0
// What is stored of a compiled function next to its executable: names, trees, devices, shardings,
// and the arrays that it captured.
#include "src/frontend/jit/stored_program.h"

#include <algorithm>
#include <limits>
#include <span>

#include "src/base/files/byte_stream.h"
#include "src/base/files/file_io.h"
#include "src/base/processes/processes.h"
#include "src/compiler/stored_executable.h"
#include "src/frontend/arrays/array_impl.h"
#include "src/frontend/run/choose_devices.h"
#include "src/frontend/run/shardings.h"
#include "src/sharding/api/lowering.h"
#include "src/sharding/api/sharding_impl.h"
#include "src/sharding/axes/stored_sharding.h"

namespace tessera {
namespace frontend {
namespace {

using internal::CompiledState;

constexpr std::int64_t kMostDevices = std::int64_t(1) << 31;
constexpr const char* kWho = "a stored program";

[[noreturn]] void fail_by_count(const ByteReader& in) {
  in.fail("has another number of arguments or results than its program");
}

/// The public mesh of a sharding, if it has one: axes and the places of its devices in the list.
void write_mesh(ByteWriter* out, const Sharding& s, const std::vector<Device>& devices) {
  const bool named = NamedSharding::is(s);
  out->number(named);
  if (!named) return;
  const Mesh mesh = NamedSharding(s).mesh();
  out->list(mesh.axis_names(), [&](const std::string& n) { out->text(n); });
  out->numbers(mesh.axis_sizes());
  out->list(mesh.axis_types(), [&](AxisType t) { out->number(int(t)); });
  out->list(mesh.devices(), [&](const Device& d) {
    out->number(std::find(devices.begin(), devices.end(), d) - devices.begin());
  });
}

Mesh read_mesh(ByteReader* in, const std::vector<Device>& devices) {
  if (!in->flag()) return {};
  std::vector<std::string> names;
  in->list([&] { names.push_back(in->text()); });
  auto sizes = in->numbers<std::vector<std::int64_t>>(1, kMostDevices, "an axis of the size");
  std::vector<AxisType> types;
  in->list([&] { types.push_back(AxisType(in->number(0, 2, "a type of axis"))); });
  std::vector<Device> its;
  in->list([&] {
    const auto most = std::int64_t(devices.size()) - 1;
    its.push_back(devices[std::size_t(in->number(0, most, "a mesh with device"))]);
  });
  return Mesh(std::move(its), std::move(sizes), std::move(names), std::move(types), Location{});
}

template <class Value>
void write_placements(ByteWriter* out, const std::vector<Value>& values,
                      const std::vector<Device>& devices) {
  out->list(values, [&](const Value& v) {
    write_shape(out, v.shape);
    out->number(int(internal::memory_of(v.sharding)));
    write_mesh(out, v.sharding, devices);
    write_sharding(out, to_tensor_sharding(v.sharding, v.shape.rank(), devices));
  });
}

template <class Value>
void read_placements(ByteReader* in, const std::vector<Device>& devices,
                     std::vector<Value>* values) {
  in->list([&] {
    Shape shape = read_shape(in);
    const auto memory = MemoryKind(in->number(0, kMemoryKinds - 1, "a kind of memory"));
    const Mesh mesh = read_mesh(in, devices);
    const TensorSharding s = read_sharding(in);
    const bool fits = s.kind == TensorSharding::Kind::axes && s.rank() == shape.rank() &&
                      (!s.mesh || s.mesh->num_devices() == std::int64_t(devices.size()));
    if (!fits) in->fail("has a sharding that doesn't fit " + shape.to_string());
    const Sharding placed =
        mesh.empty() ? sharding_of_result(s, devices, mesh) : to_public_sharding(s, mesh, devices);
    Value& v = values->emplace_back();
    v.sharding = internal::in_memory(placed, memory);
    v.shape = std::move(shape);
  });
}

/// A list with what `write` writes of each value; an empty one if it is left out.
template <class Value, class F>
void write_each(ByteWriter* out, const std::vector<Value>& values, bool any, F&& write) {
  out->list(any ? std::span<const Value>(values) : std::span<const Value>(), write);
}

/// What `read` reads for each value, of which there are as many. Whether it was there, which it
/// must be unless it may be left out.
template <class Value, class F>
bool read_each(ByteReader* in, std::vector<Value>* values, bool may_be_left_out, F&& read) {
  std::size_t i = 0;
  in->list([&] {
    if (i == values->size()) fail_by_count(*in);
    read(&(*values)[i++]);
  });
  if (i != values->size() && !(i == 0 && may_be_left_out)) fail_by_count(*in);
  return i > 0;
}

template <class Value>
void write_layouts(ByteWriter* out, const std::vector<Value>& values, bool any) {
  write_each(out, values, any, [&](const Value& v) {
    const bool stated = v.layout && !v.layout->is_auto();
    out->numbers(stated ? v.layout->major_to_minor() : std::vector<std::int64_t>());
    out->number(stated);
  });
}

template <class Value>
bool read_layouts(ByteReader* in, std::vector<Value>* values) {
  return read_each(in, values, true, [&](Value* v) {
    auto order = in->numbers<std::vector<std::int64_t>>(0, 1 << 20, "a layout with dim");
    if (in->flag()) v->layout = Layout(std::move(order), Location{});
  });
}

void write_texts(ByteWriter* out, const std::vector<std::string>& texts) {
  out->list(texts, [&](const std::string& t) { out->text(t); });
}
std::vector<std::string> read_texts(ByteReader* in) {
  std::vector<std::string> out;
  in->list([&] { out.push_back(in->text()); });
  return out;
}

void write_captures(ByteWriter* out, const CompiledState& state, Location location) {
  out->list(state.captures, [&](const Array& a) {
    const Sharding& where = internal::impl_of(a).sharding;
    if (where.valid() && !where.is_fully_addressable()) {
      throw NotImplementedError(
          "serialize: '" + state.bound.name + "' captured " + a.type_string() +
              ", which is on devices of several processes; valid: pass it as an argument",
          location);
    }
    const Literal value = to_literal(a, location);
    write_shape(out, value.shape());
    out->number(a.weak_type());
    out->text({reinterpret_cast<const char*>(value.bytes()), value.byte_count()});
  });
}

void read_captures(ByteReader* in, CompiledState* state, Location location) {
  const std::size_t before = state->avals.size();
  in->list([&] {
    const Shape shape = read_shape(in);
    const bool weak = in->flag();
    const std::string_view bytes = in->view();
    const std::size_t i = before + state->captures.size();
    if (!shape.is_array() || std::size_t(shape.byte_count()) != bytes.size() ||
        i >= state->bound.parameters.size() || !(state->bound.parameters[i].shape == shape)) {
      in->fail("has a captured array that isn't that of its program");
    }
    const Sharding& where = state->bound.parameters[i].sharding;
    state->captures.push_back(internal::make_device_array(
        shape, where,
        place_literal(Literal(shape, std::as_bytes(std::span(bytes))), where, location),
        /*committed=*/true, weak));
  });
}

void write_values(ByteWriter* out, const CompiledState& state) {
  const BoundProgram& bound = state.bound;
  out->list(state.avals, [&](const AbstractValue& v) {
    write_shape(out, v.shape);
    out->number(v.weak);
    out->number(int(v.memory));
  });
  for (const auto* texts : {&state.names, &state.paths, &state.result_paths}) {
    write_texts(out, *texts);
  }
  out->text(state.tree);
  out->text(state.result_tree);
  write_placements(out, bound.parameters, bound.devices);
  write_placements(out, bound.results, bound.devices);
  write_layouts(out, bound.parameters, bound.states_layouts);
  write_layouts(out, bound.results,
                std::any_of(bound.results.begin(), bound.results.end(),
                            [](const BoundResult& v) { return v.layout.has_value(); }));
  write_each(out, bound.parameters, bound.states_layouts,
             [&](const BoundParameter& p) { out->text(p.name); });
  write_each(out, bound.results, true, [&](const BoundResult& v) { out->number(v.weak); });
  write_each(out, bound.parameters, true, [&](const BoundParameter& p) { out->number(p.donated); });
  write_each(out, bound.parameters, true,
             [&](const BoundParameter& p) { out->number(p.donation_usable); });
  out->numbers(bound.kept);
  out->number(bound.committed);
}

void read_values(ByteReader* in, CompiledState* state) {
  BoundProgram& bound = state->bound;
  in->list([&] {
    AbstractValue v;
    v.shape = read_shape(in);
    v.weak = in->flag();
    v.memory = MemoryKind(in->number(0, kMemoryKinds - 1, "a kind of memory"));
    state->avals.push_back(std::move(v));
  });
  for (auto* texts : {&state->names, &state->paths, &state->result_paths}) {
    *texts = read_texts(in);
  }
  state->tree = in->text();
  state->result_tree = in->text();
  read_placements(in, bound.devices, &bound.parameters);
  read_placements(in, bound.devices, &bound.results);
  bound.states_layouts = read_layouts(in, &bound.parameters);
  (void)read_layouts(in, &bound.results);
  const bool named = read_each(in, &bound.parameters, !bound.states_layouts,
                               [&](BoundParameter* p) { p->name = in->text(); });
  if (named && !bound.states_layouts) fail_by_count(*in);
  (void)read_each(in, &bound.results, false, [&](BoundResult* v) { v->weak = in->flag(); });
  (void)read_each(in, &bound.parameters, false,
                  [&](BoundParameter* p) { p->donated = in->flag(); });
  (void)read_each(in, &bound.parameters, false,
                  [&](BoundParameter* p) { p->donation_usable = in->flag(); });
  const auto most = std::int64_t(bound.parameters.size()) - 1;
  bound.kept = in->numbers<std::vector<std::size_t>>(0, most, "an argument");
  bound.committed = in->flag();
}

/// What was read fits together: it is used without further checks.
void check_state(const CompiledState& state, const ByteReader& in) {
  const BoundProgram& bound = state.bound;
  const std::size_t parameters = bound.parameters.size(), results = bound.results.size();
  const bool fits = state.avals.size() + state.captures.size() == parameters &&
                    state.names.size() == state.avals.size() &&
                    state.paths.size() == state.avals.size() &&
                    state.result_paths.size() == results &&
                    std::is_sorted(bound.kept.begin(), bound.kept.end()) &&
                    bound.executable->parameter_shapes().size() == bound.kept.size() &&
                    bound.executable->result_shapes().size() == results &&
                    bound.executable->num_devices() == std::int64_t(bound.devices.size());
  if (!fits) fail_by_count(in);
  for (std::size_t k = 0; k < bound.kept.size(); ++k) {
    if (!(bound.executable->parameter_shapes()[k] == bound.parameters[bound.kept[k]].shape)) {
      in.fail("has arguments of other shapes than its program");
    }
  }
  for (std::size_t i = 0; i < state.avals.size(); ++i) {
    if (!(state.avals[i].shape == bound.parameters[i].shape)) in.fail("describes other arguments");
  }
}

/// Those of this process with these numbers, or the caller's.
std::vector<Device> devices_for(const std::vector<std::int64_t>& ids,
                                const std::vector<Device>& given, Location location,
                                bool virtually) {
  if (virtually) {
    std::vector<Device> out;
    for (const std::int64_t id : ids) out.push_back(Device{.id = id});
    return out;
  }
  if (!given.empty()) {
    if (given.size() == ids.size()) return given;
    throw ValueError("a stored program is for " + std::to_string(ids.size()) + " devices, and " +
                         std::to_string(given.size()) + " are given",
                     location);
  }
  const std::vector<Device> all = tessera::devices();
  std::vector<Device> out;
  for (const std::int64_t id : ids) {
    const auto at =
        std::find_if(all.begin(), all.end(), [&](const Device& d) { return d.id == id; });
    if (at == all.end()) {
      throw ValueError(
          "a stored program is for device " + std::to_string(id) + " of " +
              std::to_string(ids.size()) + ", and there are " + std::to_string(all.size()) +
              "; valid: more devices (TESSERA_NUM_DEVICES), or a list of others to run on",
          location);
    }
    out.push_back(*at);
  }
  return out;
}

}  // namespace

std::string store_program(const CompiledState& state, const std::string& cpu, Location location) {
  const BoundProgram& bound = state.bound;
  if (!bound.lacks_devices.empty()) throw ValueError(bound.lacks_devices, location);
  ByteWriter out;
  out.text("function");
  out.text(bound.name);
  out.list(bound.devices, [&](const Device& d) { out.number(d.id); });
  write_values(&out, state);
  write_captures(&out, state, location);
  try {
    out.text(compiler::store_executable(*bound.executable, {.cpu = cpu}));
  } catch (const ValueError& e) {
    throw ValueError("serialize: " + e.message(), location);
  }
  return compiler::seal(out.take());
}

std::shared_ptr<CompiledState> load_program(std::string_view bytes,
                                            const std::vector<Device>& devices, Location location,
                                            bool virtually) {
  ByteReader in(compiler::unseal(bytes, kWho), kWho);
  if (in.view() != "function") in.fail("isn't that of a function, but one of another kind");
  auto state = std::make_shared<CompiledState>();
  BoundProgram& bound = state->bound;
  bound.name = in.text();
  const auto ids = in.numbers<std::vector<std::int64_t>>(0, kMostDevices, "a device");
  if (ids.empty()) in.fail("has no devices");
  bound.devices = devices_for(ids, devices, location, virtually);
  read_values(&in, state.get());
  read_captures(&in, state.get(), location);
  std::vector<std::int32_t> process_of;
  if (!std::all_of(bound.devices.begin(), bound.devices.end(), is_local)) {
    for (const Device& d : bound.devices) process_of.push_back(std::int32_t(d.process_index));
  }
  bound.executable = compiler::load_executable(in.view(), std::move(process_of));
  if (!in.at_end()) in.fail("goes on behind its end");
  check_state(*state, in);
  return state;
}

std::shared_ptr<CompiledState> state_of_module(
    std::shared_ptr<const compiler::Executable> executable, MeshRef mesh) {
  auto state = std::make_shared<CompiledState>();
  BoundProgram& bound = state->bound;
  bound.name = executable->partitioned().name;
  if (executable->num_replicas() > 1) {
    throw NotImplementedError("'" + bound.name + "' has " +
                              std::to_string(executable->num_replicas()) +
                              " replicas; valid: programs of partitions alone");
  }
  const auto n = std::size_t(executable->num_devices());
  for (std::size_t d = 0; d < n; ++d) bound.devices.push_back(Device{.id = std::int64_t(d)});
  Mesh named;
  if (mesh && n > 1) {
    std::vector<std::int64_t> sizes;
    std::vector<std::string> names;
    std::vector<Device> order;
    for (const MeshAxis& a : mesh->axes) {
      sizes.push_back(a.size);
      names.push_back(a.name);
    }
    for (std::size_t p = 0; p < n; ++p) {
      order.push_back(bound.devices.at(std::size_t(mesh->device_at(std::int64_t(p)))));
    }
    const bool plain = std::all_of(mesh->axes.begin(), mesh->axes.end(),
                                   [](const MeshAxis& a) { return a.is_full(); });
    if (plain && !sizes.empty()) named = Mesh(order, sizes, names, {}, Location{});
  }
  const auto bind = [&](const std::vector<Shape>& shapes, const auto& shardings, auto* values) {
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      auto& v = values->emplace_back();
      v.shape = shapes[i];
      v.sharding = sharding_of_result(shardings[i], bound.devices, named);
    }
  };
  bind(executable->parameter_shapes(), executable->parameter_shardings(), &bound.parameters);
  bind(executable->result_shapes(), executable->result_shardings(), &bound.results);
  for (std::size_t i = 0; i < bound.parameters.size(); ++i) {
    const std::string number = std::to_string(i);
    state->avals.push_back({bound.parameters[i].shape});
    state->names.push_back("argument " + number + " of '" + bound.name + "'");
    state->paths.push_back("argument " + number);
    bound.kept.push_back(i);
  }
  const std::size_t results = bound.results.size();
  for (std::size_t i = 0; i < results; ++i) {
    state->result_paths.push_back(results == 1 ? "" : "[" + std::to_string(i) + "]");
  }
  bound.committed = n > 1;
  bound.executable = std::move(executable);
  return state;
}

}  // namespace frontend

std::string Compiled::serialize(const SerializeOptions& options, Location location) const {
  return frontend::store_program(*state_, options.cpu, location);
}

void Compiled::save(const std::string& path, const SerializeOptions& options,
                    Location location) const {
  const std::string bytes = serialize(options, location);
  ReplacedFile file(path);
  file.write(bytes);
  file.commit();
}

Compiled deserialize(std::string_view bytes, const std::vector<Device>& devices,
                     Location location) {
  return Compiled(frontend::load_program(bytes, devices, location));
}

Compiled load_compiled(const std::string& path, const std::vector<Device>& devices,
                       Location location) {
  const std::string bytes = read_file(path, std::numeric_limits<std::uint64_t>::max());
  try {
    return deserialize(bytes, devices, location);
  } catch (const IoError& e) {
    throw IoError(path + ": " + e.message());
  } catch (const ValueError& e) {
    throw ValueError(path + ": " + e.message(), location);
  } catch (const RuntimeError& e) {
    throw RuntimeError(path + ": " + e.message(), location);
  }
}

namespace internal {

void give_types(const Compiled& compiled, TypeKey types, const std::string& result_tree,
                Prototype prototype, Location location) {
  CompiledState& state = *compiled.state();
  // A module has no tree: its arrays are those of any.
  const bool any = state.result_tree.empty() && state.result_paths.size() > 0;
  const auto leaves = std::size_t(std::count(result_tree.begin(), result_tree.end(), '*'));
  if (any ? leaves != state.result_paths.size() : result_tree != state.result_tree) {
    throw TypeError("'" + state.bound.name + "' returns " +
                        (any ? std::to_string(state.result_paths.size()) + " arrays"
                             : "the tree " + state.result_tree) +
                        ", and is loaded as " + types.name() + ", whose result is " + result_tree +
                        " (* is an array); valid: that type, or a value of it that has as many "
                        "elements, as the result's prototype",
                    location);
  }
  state.types = types;
  state.prototype = std::move(prototype);
}

}  // namespace internal
}  // namespace tessera
