// SPDX-License-Identifier: Apache-2.0
// Answers questions about a sharding, JSON in and JSON out.
#include "tools/tessera/sharding_facts.h"

#include <limits>

namespace tessera::tool {

PartitionSpec spec_from_json(const OrderedJson& entries) {
  std::vector<SpecEntry> out;
  for (const OrderedJson& e : entries) {
    if (e.is_null()) {
      out.emplace_back(nullptr);
    } else if (e.is_string()) {
      out.emplace_back(e.get<std::string>());
    } else {
      out.emplace_back(e.get<std::vector<std::string>>());
    }
  }
  return PartitionSpec::from_entries(out);
}

namespace {

OrderedJson spec_to_json(const PartitionSpec& spec) {
  OrderedJson out = OrderedJson::array();
  for (const SpecEntry& e : spec) {
    if (e.is_none()) {
      out.push_back(nullptr);
    } else if (e.axes().size() == 1) {
      out.push_back(e.axes()[0]);
    } else {
      out.push_back(e.axes());
    }
  }
  return out;
}

/// JSON's numbers are of any size, with or without a point.
std::int64_t integer(const OrderedJson& value, const char* what) {
  const bool fits =
      value.is_number_integer() &&
      (!value.is_number_unsigned() ||
       value.get<std::uint64_t>() <= std::uint64_t(std::numeric_limits<std::int64_t>::max()));
  if (!fits) {
    throw ValueError(std::string(what) + " must be integers of 64 bits, not " + value.dump());
  }
  return value.get<std::int64_t>();
}

void add_facts(const OrderedJson& line, OrderedJson& out) {
  std::vector<std::int64_t> sizes;
  std::vector<std::string> names;
  for (const auto& [name, size] : line.at("mesh").items()) {
    names.push_back(name);
    sizes.push_back(integer(size, "the sizes of the mesh"));
  }
  std::vector<Device> devices;
  for (const OrderedJson& id : line.at("device_order")) {
    Device d;
    d.id = integer(id, "device_order's numbers");
    devices.push_back(d);
  }
  // Errors are about the line that was read, not about one of this program.
  const Location nowhere;
  const Mesh mesh(devices, sizes, names, {}, nowhere);
  std::vector<std::int64_t> shape;
  for (const OrderedJson& size : line.at("shape")) {
    shape.push_back(integer(size, "the sizes of the shape"));
  }
  const std::int64_t rank = std::int64_t(shape.size());
  const NamedSharding s(mesh, spec_from_json(line.at("spec")), nowhere);
  out["hlo"] = s.to_hlo_text(rank, {});
  out["shard_shape"] = s.shard_shape(shape, nowhere);
  const auto indices = s.devices_indices_map(shape, {});
  const auto replicas = s.replica_ids(shape, {});
  OrderedJson map = OrderedJson::object(), ids = OrderedJson::object();
  for (const Device& device : devices) {
    OrderedJson slices = OrderedJson::array();
    for (const IndexSlice& i : indices.at(device)) {
      OrderedJson slice = OrderedJson::array({nullptr, nullptr});
      if (i.start) slice[0] = *i.start;
      if (i.stop) slice[1] = *i.stop;
      slices.push_back(slice);
    }
    map[std::to_string(device.id)] = slices;
    ids[std::to_string(device.id)] = replicas.at(device);
  }
  out["index_map"] = map;
  out["replica_ids"] = ids;
  out["fully_replicated"] = s.is_fully_replicated();
  const GSPMDSharding read(devices, out["hlo"].get<std::string>(), "device", nowhere);
  const auto parsed = to_named_sharding(read, mesh, rank);
  out["parsed_spec"] = parsed ? spec_to_json(parsed->spec()) : OrderedJson("refused");
  if (line.contains("equivalent_to")) {
    // Both [spec, answer] of a line of facts and [spec] of a question.
    const OrderedJson& other = line.at("equivalent_to").at(0);
    const NamedSharding o(mesh, spec_from_json(other), nowhere);
    out["equivalent_to"] = OrderedJson::array({other, s.is_equivalent_to(o, rank)});
  }
}

}  // namespace

OrderedJson sharding_facts(const OrderedJson& line) {
  OrderedJson out = OrderedJson::object();
  for (const char* key : {"mesh", "device_order", "spec", "shape"}) {
    if (!line.is_object() || !line.contains(key)) {
      throw ValueError(std::string("a line must be an object with mesh, device_order, spec and "
                                   "shape; it lacks ") +
                       key);
    }
    out[key] = line.at(key);
  }
  auto refuse = [&](const char* kind, const Error& e) {
    out["error"] = kind;
    out["message"] = e.message();
  };
  try {
    add_facts(line, out);
  } catch (const OrderedJson::exception& e) {
    throw ValueError(std::string("a line with a value of a wrong kind: ") + e.what());
  } catch (const DuplicateSpecError& e) {
    refuse("DuplicateSpecError", e);
  } catch (const IndivisibleError& e) {
    refuse("IndivisibleError", e);
  } catch (const ValueError& e) {
    refuse("ValueError", e);
  }
  return out;
}

}  // namespace tessera::tool
