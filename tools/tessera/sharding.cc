// SPDX-License-Identifier: Apache-2.0
// tessera sharding: shows the effect of a spec.
#include <tessera/sharding/visualize.h>

#include <iostream>
#include <memory>
#include <sstream>
#include <stdexcept>

#include "tools/tessera/command.h"
#include "tools/tessera/placement.h"
#include "tools/tessera/sharding_facts.h"

namespace tessera::tool {

namespace {

struct ShardingArguments {
  std::string mesh, spec = "P()", shape;
  bool jsonl = false;
};

std::vector<std::int64_t> parse_shape(const std::string& text) {
  std::vector<std::int64_t> out;
  std::istringstream items(text);
  std::string item;
  while (std::getline(items, item, ',')) {
    try {
      std::size_t used = 0;
      out.push_back(std::stoll(item, &used));
      if (used != item.size()) throw std::invalid_argument(item);
    } catch (const std::logic_error&) {
      throw UsageError("--shape '" + text + "': expected numbers, got '" + item + "'");
    }
  }
  return out;
}

int lines_of_json() {
  std::string line;
  for (int number = 1; std::getline(std::cin, line); ++number) {
    if (line.empty()) continue;
    OrderedJson in;
    try {
      in = OrderedJson::parse(line);
    } catch (const OrderedJson::exception& e) {
      throw ParseError("line " + std::to_string(number) + " is no JSON: " + e.what());
    }
    std::cout << sharding_facts(in).dump() << "\n";
  }
  return 0;
}

int describe(const ShardingArguments& options) {
  const auto [sizes, names, count] = mesh_parts(parse_mesh(options.mesh));
  std::vector<Device> devices;
  for (std::int64_t id = 0; id < count; ++id) {
    Device device;
    device.id = id;
    devices.push_back(device);
  }
  // Errors are about the flags, not about a line of this program.
  const Location nowhere;
  const NamedSharding s(Mesh(devices, sizes, names, {}, nowhere), parse_spec(options.spec),
                        nowhere);
  const std::vector<std::int64_t> shape = parse_shape(options.shape);
  // All or nothing: an error leaves stdout empty.
  std::ostringstream out;
  out << s.to_string() << "\n" << s.to_hlo_text(std::int64_t(shape.size()), nowhere) << "\nshard (";
  const auto shard = s.shard_shape(shape, nowhere);
  for (std::size_t d = 0; d < shard.size(); ++d) out << (d ? ", " : "") << shard[d];
  out << ")\n";
  for (const auto& [device, index] : s.devices_indices_map(shape, nowhere)) {
    out << device.to_string() << ":";
    for (const IndexSlice& slice : index) out << " " << slice.to_string();
    out << "\n";
  }
  std::cout << out.str();
  if (shape.size() == 1 || shape.size() == 2) visualize_sharding(shape, s, nowhere);
  return 0;
}

}  // namespace

void add_sharding(CLI::App& app, std::function<int()>& run) {
  auto options = std::make_shared<ShardingArguments>();
  CLI::App* command = app.add_subcommand("sharding", "Show how a spec places an array on a mesh");
  command->add_option("--mesh", options->mesh, "Axes and sizes: data=2,model=4");
  command->add_option("--spec", options->spec, "P(\"data\", None, (\"x\", \"y\"))");
  command->add_option("--shape", options->shape, "Sizes of the array: 8,16");
  command->add_flag("--jsonl", options->jsonl,
                    "Read lines of JSON (mesh, device_order, spec, shape, equivalent_to) from "
                    "stdin, write a line of facts for each");
  command->callback([&run, options, command] {
    if (!options->jsonl && (options->mesh.empty() || command->count("--shape") == 0)) {
      throw CLI::RequiredError("--mesh and --shape, or --jsonl");
    }
    run = [options] { return options->jsonl ? lines_of_json() : describe(*options); };
  });
}

}  // namespace tessera::tool
