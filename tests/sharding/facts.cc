// SPDX-License-Identifier: Apache-2.0
#include "tests/sharding/facts.h"

namespace tessera::test {

PartitionSpec spec_from_json(const Json& entries) {
  std::vector<SpecEntry> out;
  for (const Json& e : entries) {
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

Json spec_to_json(const PartitionSpec& spec) {
  Json out = Json::array();
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

namespace {

void facts(const Json& line, Json& out) {
  std::vector<std::int64_t> sizes;
  std::vector<std::string> names;
  for (const auto& [name, size] : line.at("mesh").items()) {
    names.push_back(name);
    sizes.push_back(size.get<std::int64_t>());
  }
  std::vector<Device> devices;
  for (const Json& id : line.at("device_order")) {
    Device d;
    d.id = id.get<std::int64_t>();
    devices.push_back(d);
  }
  const Mesh mesh(devices, sizes, names);
  const auto shape = line.at("shape").get<std::vector<std::int64_t>>();
  const std::int64_t rank = std::int64_t(shape.size());
  const NamedSharding s(mesh, spec_from_json(line.at("spec")));
  out["hlo"] = s.to_hlo_text(rank);
  out["shard_shape"] = s.shard_shape(shape);
  Json map = Json::object(), replicas = Json::object();
  for (const auto& [device, index] : s.devices_indices_map(shape)) {
    Json slices = Json::array();
    for (const IndexSlice& i : index) {
      Json slice = Json::array({nullptr, nullptr});
      if (i.start) slice[0] = *i.start;
      if (i.stop) slice[1] = *i.stop;
      slices.push_back(slice);
    }
    map[std::to_string(device.id)] = slices;
  }
  for (const auto& [device, id] : s.replica_ids(shape)) replicas[std::to_string(device.id)] = id;
  out["index_map"] = map;
  out["replica_ids"] = replicas;
  out["fully_replicated"] = s.is_fully_replicated();
  const GSPMDSharding read(devices, out["hlo"].get<std::string>());
  const auto parsed = to_named_sharding(read, mesh, rank);
  out["parsed_spec"] = parsed ? spec_to_json(parsed->spec()) : Json("refused");
  if (line.contains("equivalent_to")) {
    const Json& other = line.at("equivalent_to").at(0);
    const NamedSharding o(mesh, spec_from_json(other));
    out["equivalent_to"] = Json::array({other, s.is_equivalent_to(o, rank)});
  }
}

}  // namespace

Json sharding_facts(const Json& line) {
  Json out = Json::object();
  try {
    facts(line, out);
  } catch (const DuplicateSpecError& e) {
    out["error"] = "DuplicateSpecError";
    out["message"] = e.what();
  } catch (const IndivisibleError& e) {
    out["error"] = "IndivisibleError";
    out["message"] = e.what();
  } catch (const ValueError& e) {
    out["error"] = "ValueError";
    out["message"] = e.what();
  }
  return out;
}

}  // namespace tessera::test
