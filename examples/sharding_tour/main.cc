// SPDX-License-Identifier: Apache-2.0
// A tour of the classes of shardings.
#include <tessera/tessera.h>

#include <iostream>

using namespace tessera;

namespace {

void expect(bool condition, const char* what) {
  if (!condition) {
    std::cerr << "sharding_tour: not so: " << what << "\n";
    std::exit(1);
  }
}

void describe(const Sharding& s, const std::vector<std::int64_t>& shape) {
  std::cout << s.to_string() << "\n  " << s.num_devices() << " devices, "
            << (s.is_fully_replicated() ? "fully replicated" : "split") << ", memory "
            << s.memory_kind() << ", HLO " << s.to_hlo_text(std::int64_t(shape.size())) << "\n";
  const auto shard = s.shard_shape(shape);
  std::cout << "  each device holds (";
  for (std::size_t d = 0; d < shard.size(); ++d) std::cout << (d ? ", " : "") << shard[d];
  std::cout << ")\n";
  for (const auto& [device, index] : s.devices_indices_map(shape)) {
    std::cout << "    " << device.to_string() << ":";
    for (const IndexSlice& slice : index) std::cout << " " << slice.to_string();
    std::cout << "\n";
  }
}

}  // namespace

int main() {
  // One device.
  const SingleDeviceSharding single(local_devices()[0]);
  describe(single, {4, 2});
  expect(single.device_set() == std::set<Device>{local_devices()[0]}, "one device in the set");
  expect(single.is_fully_addressable(), "the device is this process's");

  // A mesh with named axes, and a spec that uses them.
  const Mesh mesh(devices(), {2, 4}, {"x", "y"});
  const NamedSharding named(mesh, P("x", "y"));
  describe(named, {8, 4});
  expect(named.mesh() == mesh && named.spec() == P("x", "y"), "mesh and spec are kept");
  expect(named.with_memory_kind("device") == named, "device memory is the default");
  expect(P("x", nullptr, axes("y", "z")).index("x") == 0, "position in a spec");

  // Placing an array, computing with it: computation follows data.
  const Mesh mesh42(devices(), {4, 2}, {"x", "y"});
  const Array input = reshape(arange(16), {8, 2});
  const Array array = device_put(input, {mesh42, P("x", "y")});
  const Array out = jit([](const Array& v) { return v * 2; })(array);
  expect(out.sharding() == NamedSharding(mesh42, P("x", "y")),
         "the result is sharded as the argument");
  visualize_array_sharding(out);
  for (const Shard& shard : out.addressable_shards()) {
    std::cout << shard.device.to_string() << " replica " << shard.replica_id << " holds";
    for (const std::int32_t v : shard.data.to_vector<std::int32_t>()) std::cout << " " << v;
    std::cout << "\n";
  }

  // By position: an arrangement of devices without axis names.
  const PositionalSharding positional = PositionalSharding(devices()).reshape({2, 4});
  describe(positional, {8, 4});
  expect(positional.is_equivalent_to(named, 2), "the same parts on the same devices");
  describe(positional.replicate(0), {8, 4});

  // One slice per device, as pmap places arrays.
  const PmapSharding pmap = PmapSharding::make_default({8, 2});
  describe(pmap, {8, 2});
  std::cout << "  " << pmap.sharding_spec().to_string() << "\n";

  // HLO's own form.
  const GSPMDSharding tiled(devices(), "{devices=[2,4]<=[8]}");
  describe(tiled, {8, 4});
  expect(tiled.is_equivalent_to(named, 2), "a tiling and a spec can say the same");
  expect(GSPMDSharding::get_replicated(devices()).is_fully_replicated(), "replicated");

  // Dimensions that can't be split evenly are an error that states the sizes.
  try {
    (void)named.shard_shape({8, 3});
    expect(false, "3 columns over 4 devices");
  } catch (const IndivisibleError& e) {
    std::cout << "refused: " << e.what() << "\n";
  }
  std::cout << "all shardings are as expected\n";
  return 0;
}
