// SPDX-License-Identifier: Apache-2.0
// Memory kinds: behaviours 331 to 338 of docs/reference/behaviours.md.
#include <tessera/tessera.h>

#include <cstdlib>
#include <optional>

#include "src/base/log.h"
#include "tests/frontend/frontend_testing.h"

// Compiled apart: includes a private header, whose `internal` others take for testing::internal.
namespace tessera::testing::memory_kinds {
namespace {

const TransferToMemoryKind kToHost{"pinned_host"}, kToDevice{"device"};

/// Bytes in use of the memory of that kind, of all devices.
std::int64_t in_use(const std::string& kind) {
  return memory_stats(devices()[0].memory(kind)).current;
}

std::string kind_of(const Array& a) { return a.sharding().memory_kind(); }

NamedSharding on(const Mesh& mesh, const PartitionSpec& spec, const std::string& kind) {
  return NamedSharding(mesh, spec, kind);
}

TEST(MemoryKinds, Behaviour_331_DevicesSayTheirMemories) {
  const Device d = devices()[3];
  std::vector<std::string> kinds;
  for (const Memory& m : d.addressable_memories()) {
    kinds.push_back(m.kind);
    EXPECT_EQ(m.device, d);
  }
  EXPECT_EQ(kinds, (std::vector<std::string>{"device", "pinned_host", "unpinned_host"}));
  EXPECT_EQ(d.default_memory().kind, "device");
  EXPECT_EQ(d.memory("pinned_host").to_string(), "pinned_host of cpu:3");
  EXPECT_EQ((Device{0, 0, "other"}.addressable_memories().size()), 1u);
}

TEST(MemoryKinds, Behaviour_331_AnUnknownKindIsAnErrorThatListsThem) {
  const std::vector<std::string> parts{"'fast'", "cpu:0", "device, pinned_host, unpinned_host",
                                       kNear};
  const Mesh mesh = mesh_of({{"x", 2}});
  expect_error<ValueError>([&] { (void)devices()[0].memory("fast"); }, parts);
  expect_error<ValueError>([&] { SingleDeviceSharding(devices()[0], "fast"); }, parts);
  expect_error<ValueError>([&] { NamedSharding(mesh, P("x"), "fast"); }, parts);
  expect_error<ValueError>([&] { (void)NamedSharding(mesh, P()).with_memory_kind("fast"); }, parts);
  expect_error<ValueError>(
      [&] {
        NamedSharding(AbstractMesh({{"x", 64}}), P("x"), "fast");
      },
      {"'fast'", "device, pinned_host, unpinned_host", kNear});
  EXPECT_EQ(NamedSharding(AbstractMesh({{"x", 64}}), P("x"), "pinned_host").memory_kind(),
            "pinned_host");
  expect_error<ValueError>([&] { (void)device_put(ones({4}), TransferToMemoryKind{"fast"}); },
                           parts);
  expect_error<ValueError>(
      [&] { (void)jit([](Array x) { return device_put(x, TransferToMemoryKind{"fast"}); })(1.0f); },
      parts);
}

TEST(MemoryKinds, Behaviour_332_PoolsAreCountedApart) {
  const std::int64_t device = in_use("device"), pinned = in_use("pinned_host"),
                     unpinned = in_use("unpinned_host");
  constexpr std::int64_t kBytes = 1024 * 4;
  Array x = ones({1024});
  EXPECT_EQ(in_use("device"), device + kBytes);
  const Array waits = device_put(x, kToHost);
  EXPECT_EQ(kind_of(waits), "pinned_host");
  EXPECT_EQ(in_use("pinned_host"), pinned + kBytes);
  EXPECT_EQ(in_use("device"), device + kBytes);
  x = Array();
  EXPECT_EQ(in_use("device"), device);
  const Array elsewhere = device_put(waits, TransferToMemoryKind{"unpinned_host"});
  EXPECT_EQ(in_use("unpinned_host"), unpinned + kBytes);
  reset_peak_memory(devices()[0]);
  const Array back = device_put(elsewhere, kToDevice);
  EXPECT_EQ(memory_stats(devices()[0]).peak, device + kBytes);
  EXPECT_EQ(memory_stats(devices()[0].memory("pinned_host")).peak, pinned + kBytes);
  expect_close(back, ones({1024}));
}

TEST(MemoryKinds, Behaviour_332_PutsOfAllSorts) {
  const Mesh mesh = mesh_of({{"x", 4}, {"y", 2}});
  const Array x = counting({8, 4});
  const auto check = [&](const Array& a, const Sharding& s) {
    EXPECT_TRUE(a.sharding() == s) << a.sharding().to_string();
    expect_close(a, counting({8, 4}));
  };
  // From the host and from devices, to the same and to other devices, specs and kinds.
  for (const std::string kind : {"device", "pinned_host", "unpinned_host"}) {
    for (const PartitionSpec& spec :
         {P(), P("x"), P("y", "x"), P(std::vector<std::string>{"x", "y"})}) {
      if (spec == P("y", "x")) {
        check(device_put(x, on(mesh, spec, kind)), on(mesh, spec, kind));
        continue;
      }
      const Array a = device_put(x, on(mesh, spec, kind));
      check(a, on(mesh, spec, kind));
      for (const std::string other : {"device", "pinned_host", "unpinned_host"}) {
        check(device_put(a, on(mesh, P("y", "x"), other)), on(mesh, P("y", "x"), other));
        check(device_put(a, on(mesh, spec, other)), on(mesh, spec, other));
        const SingleDeviceSharding one(devices()[7], other);
        check(device_put(a, one), one);
        check(device_put(a, devices()[7].memory(other)), one);
        check(device_put(device_put(a, one), on(mesh, spec, kind)), on(mesh, spec, kind));
      }
    }
  }
  EXPECT_EQ(device_put(Array(3.0f), kToHost).item<float>(), 3.0f);
  EXPECT_EQ(kind_of(device_put(Array(3), kToHost)), "pinned_host");
  EXPECT_EQ(kind_of(device_put(zeros({0, 4}), on(mesh, P(), "pinned_host"))), "pinned_host");
  EXPECT_EQ(device_put(device_put(zeros({0, 4}), kToHost), kToDevice).shape(),
            (std::vector<std::int64_t>{0, 4}));
  EXPECT_EQ(kind_of(copy(device_put(x, kToHost))), "pinned_host");
}

TEST(MemoryKinds, Behaviour_333_AnArgumentInAnotherMemoryThanInShardings) {
  const Mesh mesh = mesh_of({{"x", 4}});
  const auto twice = [](Array x) { return x * 2; };
  const auto device = jit(twice, {.in_shardings = tree(on(mesh, P("x"), "device")), .name = "f"});
  const auto host =
      jit(twice, {.in_shardings = tree(on(mesh, P("x"), "pinned_host")), .name = "f"});
  const Array x = counting({8});
  const Array waits = device_put(x, on(mesh, P("x"), "pinned_host"));
  expect_error<ValueError>([&] { (void)device(waits); },
                           {"argument 0 of 'f'", "f32[8]", "'pinned_host'", "'device'"});
  // Uncommitted, too.
  EXPECT_FALSE(x.committed());
  expect_error<ValueError>([&] { (void)host(x); },
                           {"argument 0 of 'f'", "f32[8]", "'pinned_host'", "'device'"});
  EXPECT_EQ(kind_of(host(waits)), "pinned_host");
  EXPECT_EQ(kind_of(device(x)), "device");
  // The program of one kind doesn't serve the other.
  const auto any = jit(twice);
  EXPECT_EQ(kind_of(any(x)), "device");
  EXPECT_EQ(kind_of(any(jit([](Array a) { return device_put(a, kToHost); })(x))), "pinned_host");
  EXPECT_EQ(kind_of(any(x)), "device");
}

TEST(MemoryKinds, Behaviour_334_ResultsAreWhereTheProgramSays) {
  const Mesh mesh = mesh_of({{"x", 4}});
  const Array x = put(counting({8}), mesh, P("x"));
  const auto out =
      jit([](Array a) { return a * 2; }, {.out_shardings = on(mesh, P("x"), "pinned_host")});
  const std::int64_t before = in_use("pinned_host");
  const Array r = out(x);
  EXPECT_EQ(in_use("pinned_host"), before + 8 * 4);
  EXPECT_TRUE(r.sharding() == on(mesh, P("x"), "pinned_host"));
  expect_close(r, counting({8}, 2));
  const auto inner =
      jit([&](Array a) { return std::pair(device_put(a, on(mesh, P(), "pinned_host")) + 1, a); });
  const auto [h, d] = inner(x);
  EXPECT_EQ(kind_of(h), "pinned_host");
  EXPECT_EQ(kind_of(d), "device");
  EXPECT_TRUE(h.sharding().is_fully_replicated());
  expect_close(h, counting({8}) + 1);
  const auto compiled = inner.lower(x).compile();
  EXPECT_EQ(compiled.memory_analysis().host_output_bytes, 8 * 4);
  // What comes in is passed on where it is; eagerly, too.
  EXPECT_EQ(kind_of(jit([](Array a) { return a; })(r)), "pinned_host");
  EXPECT_EQ(kind_of(r * 2), "pinned_host");
  EXPECT_EQ(kind_of(device_put(r, kToDevice) * 2), "device");
}

TEST(MemoryKinds, Behaviour_335_OperandsInTwoMemories) {
  const Array x = counting({8}), waits = device_put(x, kToHost);
  const std::vector<std::string> parts{"add of arrays in two memories", "f32[8] in device",
                                       "f32[8] in pinned_host", "device_put", kNear};
  expect_error<ValueError>([&] { (void)(waits + x); }, parts);
  expect_error<ValueError>([&] { (void)jit([](Array a, Array b) { return a + b; })(x, waits); },
                           parts);
  expect_error<ValueError>(
      [&] { (void)jit([](Array a) { return a + device_put(a, kToHost); })(x); }, parts);
  // Numbers go with any array.
  expect_close(waits * 2 + Array(1.0f), counting({8}, 2) + 1);
  EXPECT_EQ(kind_of(where(waits > 2.0f, waits, waits * 2)), "pinned_host");
  expect_error<TypeError>(
      [&] {
        (void)scan([](Array c, Array) { return std::pair(device_put(c, kToHost), Array(0.0f)); }, x,
                   x);
      },
      {"carry", "f32[8] in device before", "f32[8] in pinned_host after", kNear});
}

/// Warnings while it lives.
class Warnings {
 public:
  Warnings() {
    set_log_sink([this](LogLevel, const std::string& line) { text += line + "\n"; });
  }
  ~Warnings() { set_log_sink({}); }
  std::string text;
};

TEST(MemoryKinds, Behaviour_338_DonationStaysWithinAMemory) {
  const auto pass = [](const std::string& kind) {
    return jit([=](Array a) { return device_put(a * 2, TransferToMemoryKind{kind}); },
               {.donate_argnums = {0}, .name = "f"});
  };
  for (const std::string from : {"device", "pinned_host"}) {
    for (const std::string to : {"device", "pinned_host"}) {
      const Array x = device_put(counting({64}), TransferToMemoryKind{from});
      Warnings warnings;
      const auto f = pass(to);
      const auto memory = f.lower(x).compile().memory_analysis();
      EXPECT_EQ(memory.alias_bytes, from == to && to == "device" ? 256 : 0);
      EXPECT_EQ(memory.host_alias_bytes, from == to && to == "pinned_host" ? 256 : 0);
      const std::int64_t held = in_use(to);
      const Array y = f(x);
      EXPECT_EQ(x.is_deleted(), from == to) << from << " to " << to;
      EXPECT_EQ(in_use(to), held + (from == to ? 0 : 256));
      EXPECT_EQ(has(warnings.text, "donated argument 0 of 'f' (f32[64]) is not usable"), from != to)
          << warnings.text;
      EXPECT_EQ(has(warnings.text, "in its memory; it stays alive"), from != to);
      expect_close(y, counting({64}, 2));
    }
  }
}

// ---------------------------------------------------------------- compute_on

TEST(ComputeOn, Behaviour_336_ComputesInHostMemory) {
  const auto twice = compute_on("device_host", [](Array x) { return sin(x) * 2; });
  const Array x = counting({1024}, 0.01f);
  EXPECT_EQ(kind_of(twice(x)), "device");
  expect_close(twice(x), sin(x) * 2);
  const auto f = jit([=](Array a) { return twice(a) + a; });
  expect_close(f(x), sin(x) * 2 + x);
  const MemoryAnalysis m = f.lower(x).compile().memory_analysis();
  EXPECT_GE(m.peak_host_bytes_per_device, 4096);
  EXPECT_LE(m.peak_bytes_per_device, 3 * 4096);
  const auto stays =
      compute_on("device_host", [](std::pair<Array, Array> p) { return p.first + p.second; },
                 {.out_memory = "pinned_host"});
  EXPECT_EQ(kind_of(stays(std::pair(x, x))), "pinned_host");
  EXPECT_EQ(kind_of(jit([=](Array a) { return stays(std::pair(a, a)); })(x)), "pinned_host");
}

TEST(ComputeOn, Behaviour_336_AnotherTypeWithinIsAnError) {
  const auto inner = compute_on("device", [](Array x) { return x + 1; });
  const auto same = compute_on("device_host", [](Array x) { return x + 1; });
  const auto outer = [](auto f) {
    return compute_on("device_host", [=](Array x) { return f(x) * 2; });
  };
  expect_error<ValueError>([&] { (void)outer(inner)(ones({4})); },
                           {"compute_on 'device' within a region of 'device_host'", kNear});
  expect_close(outer(compute_on("device_host", [](Array x) { return x + 1; }))(ones({4})),
               full({4}, 4.0f));
  // The failed call left no region behind.
  expect_close(inner(ones({4})), full({4}, 2.0f));
  expect_error<ValueError>(
      [&] { (void)compute_on("gpu_stream:1", [](Array x) { return x; })(ones({4})); },
      {"'gpu_stream:1'", "device_host, device", kNear});
}

TEST(ComputeOn, Behaviour_336_WithinLoopsDerivativesAndRules) {
  const auto wave = [](Array x) { return sin(x) * x; };
  const auto there = compute_on("device_host", wave);
  const Array x = counting({8}, 0.1f);
  const auto use = [&](auto f) {
    return jit(grad([=](Array a) {
      const auto step = remat([=](Array c) { return f(c) + c; });
      const auto [last, all] =
          scan([=](Array c, Array) { return std::pair(step(c), f(c)); }, a, zeros({3}));
      return sum(last) + sum(all);
    }));
  };
  expect_close(use(there)(x), use(wave)(x));
  auto ruled = custom_vjp([=](Array a) { return there(a); });
  ruled.def_vjp([=](Array a) { return std::pair(there(a), a); },
                [=](Array a, Array g) {
                  return std::tuple(compute_on("device_host", [](Array b, Array c) {
                    return c * (cos(b) * b + sin(b));
                  })(a, g));
                });
  expect_close(jit(grad([&](Array a) { return sum(ruled(a)); }))(x),
               jit(grad([&](Array a) { return sum(wave(a)); }))(x));
  const Mesh mesh = mesh_of({{"x", 4}});
  const Array parts = put(x, mesh, P("x"));
  const Array y = jit(there)(parts);
  expect_close(y, wave(x));
  EXPECT_TRUE(y.sharding().is_equivalent_to(parts.sharding(), 1));
}

}  // namespace
}  // namespace tessera::testing::memory_kinds
