// SPDX-License-Identifier: Apache-2.0
// Arrays and programs on devices of an engine whose memory the host can't read, and that share
// none.
#include "src/compiler/engine.h"

#include <gtest/gtest.h>
#include <tessera/tessera.h>

#include "src/frontend/arrays/array_impl.h"
#include "src/ir/hlo/hlo_text.h"
#include "tests/frontend/frontend_testing.h"
#include "tests/frontend/opaque_engine.h"

// Compiled apart: includes private headers, whose `internal` others take for testing::internal.
namespace tessera {
namespace {

using namespace tessera::testing;
Mesh sealed_mesh() { return Mesh(sealed_devices(), {2, 2}, {"x", "y"}); }

/// Blocks that an array's devices hold between them.
std::size_t blocks(const Array& a) {
  std::set<const DeviceMemory*> out;
  for (const DeviceBuffer& b : internal::shared_buffers(internal::impl_of(a), {})) {
    out.insert(b.memory.get());
  }
  return out.size();
}

TEST(Engine, ArraysAreOnDevicesThatTheHostCantRead) {
  const Mesh mesh = sealed_mesh();
  const Array whole = counting({4, 6});
  for (const PartitionSpec& spec : {P(), P("x"), P("x", "y"), P(nullptr, "y")}) {
    const Array there = device_put(whole, NamedSharding(mesh, spec));
    EXPECT_EQ(floats(there), floats(whole)) << spec.to_string();
    EXPECT_EQ(blocks(there), 4u);
    EXPECT_EQ(floats(copy(there)), floats(whole));
    EXPECT_EQ(floats(device_put(there, devices()[3])), floats(whole));
    // Other devices of the same engine, other parts.
    const Mesh fewer(std::vector<Device>(mesh.devices().begin(), mesh.devices().begin() + 2), {2},
                     {"z"});
    const Array moved = device_put(there, NamedSharding(fewer, P("z")));
    EXPECT_EQ(floats(moved), floats(whole));
    EXPECT_EQ(moved.addressable_shards()[1].data.shape(), (std::vector<std::int64_t>{2, 6}));
    EXPECT_EQ(floats(moved.addressable_shards()[1].data),
              (std::vector<float>{12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}));
  }
}

TEST(Engine, ProgramsRunOnTheDevicesOfTheirArguments) {
  const Mesh mesh = sealed_mesh();
  const Array x = device_put(counting({4, 6}), NamedSharding(mesh, P("x")));
  const auto f = jit([](Array a) { return sum(a * 2.0f, 0); });
  const Array there = f(x);
  EXPECT_EQ(there.sharding().device_list()[0].platform, "sealed");
  const Array here = f(counting({4, 6}));
  EXPECT_EQ(floats(there), floats(here));
  // The same program on as many devices of the host: another executable.
  const Mesh host = make_mesh({{"x", 2}, {"y", 2}});
  EXPECT_EQ(floats(f(device_put(counting({4, 6}), NamedSharding(host, P("x"))))), floats(here));
  EXPECT_EQ(floats(f(x)), floats(here));
}

TEST(Engine, DonatedArraysAreGone) {
  const Mesh mesh = sealed_mesh();
  const Array x = device_put(counting({4, 4}), NamedSharding(mesh, P("x", "y")));
  const auto f = jit([](Array a) { return a + 1.0f; }, {.donate_argnums = {0}});
  EXPECT_FLOAT_EQ(floats(f(x))[5], 6);
  expect_error<RuntimeError>([&] { (void)floats(x); }, {"donated to"});
}

TEST(Engine, PartsOfCallbacksAreCopiedToEachDevice) {
  const Mesh mesh = sealed_mesh();
  int calls = 0;
  const Array a =
      make_array_from_callback({4, 2}, NamedSharding(mesh, P("x")), [&](const Index& index) {
        ++calls;
        return full({2, 2}, float(*index[0].start));
      });
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(blocks(a), 4u);
  EXPECT_EQ(floats(a), (std::vector<float>{0, 0, 0, 0, 2, 2, 2, 2}));
}

TEST(Engine, TheHostsDevicesShareEqualParts) {
  const Mesh mesh = make_mesh({{"x", 2}, {"y", 2}});
  EXPECT_EQ(blocks(device_put(counting({4, 6}), NamedSharding(mesh, P()))), 1u);
  const Array rows = device_put(counting({4, 6}), NamedSharding(mesh, P("x")));
  EXPECT_EQ(blocks(rows), 2u);
  EXPECT_EQ(blocks(copy(rows)), 2u);
}

TEST(Engine, ItsMemoryIsRefusedByOtherEngines) {
  const auto f = jit([](Array a) { return a + 1.0f; });
  const auto host = compiler::find_engine("cpu");
  const Array x = device_put(counting({4}), sealed_devices()[1]);
  const auto buffers = internal::shared_buffers(internal::impl_of(x), {});
  std::vector<float> out(4);
  const Box box = Box::entire({4});
  EXPECT_THROW(
      host->copy_out(buffers[0], box, reinterpret_cast<std::byte*>(out.data()), {DType::f32, box}),
      RuntimeError);
  EXPECT_FLOAT_EQ(floats(f(x))[3], 4);
}

TEST(Engine, WhatComesLateIsWaitedFor) {
  const Mesh mesh(late_devices(), {8}, {"x"});
  const auto f = jit([](Array a) { return sum(a * a, 1); });
  const Array here = f(counting({16, 4}, 0.25f));
  Array there;
  {
    const HoldLateWork hold;
    const Array x = device_put(counting({16, 4}, 0.25f), NamedSharding(mesh, P("x")));
    EXPECT_FALSE(x.is_ready());
    there = f(x);
    EXPECT_FALSE(there.is_ready());
  }
  EXPECT_EQ(&there.block_until_ready(), &there);
  EXPECT_TRUE(there.is_ready());
  EXPECT_EQ(floats(there), floats(here));
  EXPECT_TRUE(here.is_ready());
  const std::vector<Array> both = block_until_ready(std::vector<Array>{here, there});
  EXPECT_EQ(floats(both[1]), floats(here));
}

TEST(Engine, LongChainsOfLateWorkAreRight) {
  const Mesh mesh(late_devices(), {4, 2}, {"x", "y"});
  const auto step = jit([](Array a, Array b) { return dot(a, b) * 0.25f + a; });
  Array a = device_put(counting({8, 8}, 0.01f), NamedSharding(mesh, P("x", "y")));
  Array b = device_put(counting({8, 8}, 0.02f), NamedSharding(mesh, P("y", "x")));
  Array c = counting({8, 8}, 0.01f), d = counting({8, 8}, 0.02f);
  for (int k = 0; k < 8; ++k) {
    a = step(a, b);
    c = step(c, d);
    // Other shardings on the way, and copies.
    b = device_put(a, NamedSharding(mesh, k % 2 == 0 ? P() : P(nullptr, "x")));
    d = c;
    if (k % 3 == 0) b = copy(b);
    a = device_put(device_put(a, late_devices()[3]), NamedSharding(mesh, P("y")));
    a = a * 0.1f;
    b = b * 0.1f;
    c = c * 0.1f;
    d = d * 0.1f;
  }
  expect_close(floats(a), floats(c), 1e-5f);
}

TEST(Engine, ErrorsThatComeLateAreThrownWhereTheResultIsRead) {
  const Mesh mesh(late_devices(), {8}, {"x"});
  const auto fails = jit([](Array a) {
    return pure_callback([](const Array&) -> Array { throw ValueError("the sensor is gone"); },
                         shape_dtype_struct({4}, f32), a);
  });
  const Array bad = fails(device_put(counting({4}), late_devices()[2]));
  const Array after = bad + 1.0f;
  EXPECT_THROW(bad.block_until_ready(), Error);
  EXPECT_TRUE(bad.is_ready());
  for (const Array& a : {bad, after}) {
    try {
      (void)floats(a);
      ADD_FAILURE() << "no error";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("the sensor is gone"), std::string::npos) << e.what();
    }
  }
}

TEST(Engine, MemoryOfTheHostIsAdoptedWhereItIs) {
  const compiler::Engine& host = *compiler::find_engine("cpu");
  const Device device = host.devices()[0];
  alignas(64) static float values[16];
  for (int k = 0; k < 16; ++k) values[k] = float(k);
  int let_go = 0;
  const auto owner = [&] {
    return std::shared_ptr<const void>(values, [&](const void*) { ++let_go; });
  };
  const Shape shape(DType::f32, {16});
  auto* bytes = reinterpret_cast<std::byte*>(values);
  {
    DeviceBuffer b = host.adopt({bytes, 64, owner(), false}, shape, device, MemoryKind::device);
    ASSERT_TRUE(bool(b));
    const Array x =
        internal::make_device_array(shape, SingleDeviceSharding(device), {b}, true, false);
    b = {};
    const auto f = jit([](Array a) { return a + 1.0f; }, {.donate_argnums = {0}});
    EXPECT_EQ(floats(x)[7], 7);
    // What only may be read isn't written, though it is given away.
    EXPECT_EQ(floats(f(x))[7], 8);
    EXPECT_EQ(values[7], 7);
  }
  EXPECT_EQ(let_go, 1);
  {
    DeviceBuffer b = host.adopt({bytes, 64, owner(), true}, shape, device, MemoryKind::device);
    const Array x =
        internal::make_device_array(shape, SingleDeviceSharding(device), {b}, true, false);
    b = {};
    const auto f = jit([](Array a) { return a + 1.0f; }, {.donate_argnums = {0}});
    EXPECT_EQ(floats(f(x))[7], 8);
    EXPECT_EQ(values[7], 8);
  }
  EXPECT_EQ(let_go, 2);
  // Not where vectors can't be read.
  const Shape rest(DType::f32, {15});
  EXPECT_FALSE(bool(host.adopt({bytes + 4, 60, owner(), false}, rest, device, MemoryKind::device)));
  EXPECT_FALSE(bool(
      compiler::engine_of(sealed_devices()[0])
          .adopt({bytes, 64, owner(), false}, shape, sealed_devices()[0], MemoryKind::device)));
}

TEST(Engine, StridesAndPackedElementsAtTheBorder) {
  for (const Device& device : {devices()[0], sealed_devices()[1], late_devices()[2]}) {
    const compiler::Engine& engine = compiler::engine_of(device);
    const std::vector<float> columns{1, 4, 2, 5, 3, 6};
    const Box all = Box::entire({2, 3});
    const DeviceBuffer b =
        engine.copy_in(reinterpret_cast<const std::byte*>(columns.data()),
                       {DType::f32, all, {4, 8}}, all, {&device, 1}, MemoryKind::device)[0];
    std::vector<float> rows(6);
    engine.copy_out(b, all, reinterpret_cast<std::byte*>(rows.data()), {DType::f32, all});
    EXPECT_EQ(rows, (std::vector<float>{1, 2, 3, 4, 5, 6}));
    const Box five = Box::entire({5});
    const std::vector<std::byte> packed{std::byte(0xe1), std::byte(0x87), std::byte(0x03)};
    const DeviceBuffer n = engine.copy_in(packed.data(), {DType::s4, five, {}, true}, five,
                                          {&device, 1}, MemoryKind::device)[0];
    EXPECT_EQ(n.bytes(), 5u);
    std::vector<std::byte> back(3);
    engine.copy_out(n, five, back.data(), {DType::s4, five, {}, true});
    EXPECT_EQ(back, packed);
  }
}

TEST(Engine, AMemoryThatAResultMustHaveIsTakenOrRefused) {
  const char* text = R"(HloModule m, input_output_alias={ {}: (0, {}, must-alias) }
ENTRY main {
  p = f32[4] parameter(0)
  ROOT r = f32[4] add(p, p)
}
)";
  const compiler::Engine& host = *compiler::find_engine("cpu");
  const auto program = host.compile(ir::parse_hlo(text), {});
  const Device device = host.devices()[0];
  const std::vector<float> values{1, 2, 3, 4};
  const Box box = Box::entire({4});
  const auto made = [&] {
    return host.copy_in(reinterpret_cast<const std::byte*>(values.data()), {DType::f32, box}, box,
                        {&device, 1}, MemoryKind::device)[0];
  };
  DeviceBuffer mine = made();
  const DeviceMemory* memory = mine.memory.get();
  compiler::DeviceArrays args{{mine}};
  try {
    (void)program->run(args, {true});
    ADD_FAILURE() << "copied";
  } catch (const RuntimeError& e) {
    EXPECT_NE(std::string(e.what()).find("'m' says that result 0 must have the memory of argument "
                                         "0, f32[4]"),
              std::string::npos)
        << e.what();
  }
  mine = {};
  const auto results = program->run(std::move(args), {true});
  EXPECT_EQ(results[0][0].memory.get(), memory);
}

TEST(Engine, PlatformsWithoutAnEngineAreNamed) {
  (void)sealed_devices();
  (void)late_devices();
  EXPECT_EQ(devices("late").size(), 8u);
  expect_error<ValueError>([] { (void)devices("abacus"); },
                           {"devices(\"abacus\")", "'cpu', 'late', 'sealed'", kNear});
  try {
    (void)compiler::engine_of(Device{0, 0, "abacus"});
    FAIL() << "found";
  } catch (const ValueError& e) {
    EXPECT_NE(std::string(e.what()).find("'abacus'"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("'cpu', 'late', 'sealed'"), std::string::npos) << e.what();
  }
  const std::vector<Device> mixed{devices()[0], sealed_devices()[0]};
  EXPECT_THROW((void)compiler::engine_of(mixed), ValueError);
  EXPECT_THROW(compiler::register_engine(opaque_engine({"sealed"})), ValueError);
  EXPECT_THROW((void)compiler::find_engine("sealed")->memory_stats(), NotImplementedError);
}

}  // namespace
}  // namespace tessera
