// SPDX-License-Identifier: Apache-2.0
// Arrays and programs on devices of an engine whose memory the host can't read, and that share
// none.
#include "src/compiler/engine.h"

#include <gtest/gtest.h>
#include <tessera/tessera.h>

#include "src/frontend/arrays/array_impl.h"
#include "tests/frontend/frontend_testing.h"

// Compiled apart: includes private headers, whose `internal` others take for testing::internal.
namespace tessera {
namespace {

using namespace tessera::testing;
using compiler::DeviceArrays;

constexpr std::byte kSeal{0x5a};

/// Bytes as no host would read them.
class SealedMemory final : public DeviceMemory {
 public:
  explicit SealedMemory(std::vector<std::byte> plain)
      : DeviceMemory(plain.size()), sealed_(std::move(plain)) {
    for (std::byte& b : sealed_) b ^= kSeal;
  }
  std::vector<std::byte> plain() const {
    std::vector<std::byte> out = sealed_;
    for (std::byte& b : out) b ^= kSeal;
    return out;
  }

 private:
  std::vector<std::byte> sealed_;
};

DeviceBuffer seal(std::vector<std::byte> plain) {
  return {std::make_shared<SealedMemory>(std::move(plain))};
}
std::vector<std::byte> plain(const DeviceBuffer& buffer) {
  return dynamic_cast<const SealedMemory&>(*buffer.memory).plain();
}

/// Runs where the host's engine does, on copies.
class SealedExecutable final : public compiler::Executable {
 public:
  explicit SealedExecutable(std::shared_ptr<const Executable> inner) : inner_(std::move(inner)) {}
  const ir::Module& input() const override { return inner_->input(); }
  const ir::Module& propagated() const override { return inner_->propagated(); }
  const ir::Module& partitioned() const override { return inner_->partitioned(); }
  const spmd::PartitionReport& report() const override { return inner_->report(); }
  std::int64_t num_devices() const override { return inner_->num_devices(); }
  Layouts layouts() const override { return inner_->layouts(); }
  const std::vector<TensorSharding>& parameter_shardings() const override {
    return inner_->parameter_shardings();
  }
  const std::vector<TensorSharding>& result_shardings() const override {
    return inner_->result_shardings();
  }
  const std::vector<Shape>& parameter_shapes() const override { return inner_->parameter_shapes(); }
  const std::vector<Shape>& result_shapes() const override { return inner_->result_shapes(); }
  MemoryAnalysis memory_analysis() const override { return inner_->memory_analysis(); }
  CostAnalysis cost_analysis(const Network& n) const override { return inner_->cost_analysis(n); }
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> last_run_collectives()
      const override {
    return inner_->last_run_collectives();
  }
  std::vector<std::string> evaluator_ops() const override { return inner_->evaluator_ops(); }

  DeviceArrays run(DeviceArrays args, const std::vector<bool>& donated) const override {
    const compiler::Engine& host = *compiler::find_engine("cpu");
    const Device device = host.devices()[0];
    for (auto& argument : args) {
      for (DeviceBuffer& b : argument) {
        const std::vector<std::byte> bytes = plain(b);
        const Box box = Box::entire({std::int64_t(bytes.size())});
        b = host.copy_in(bytes.data(), box, box, 1, {&device, 1}, MemoryKind::device)[0];
      }
    }
    DeviceArrays results = inner_->run(std::move(args), donated);
    for (auto& result : results) {
      for (DeviceBuffer& b : result) {
        std::vector<std::byte> bytes(b.bytes());
        const Box box = Box::entire({std::int64_t(bytes.size())});
        host.copy_out(b, box, bytes.data(), box, 1);
        b = seal(std::move(bytes));
      }
    }
    return results;
  }

 private:
  std::shared_ptr<const Executable> inner_;
};

class SealedEngine final : public compiler::Engine {
 public:
  SealedEngine() {
    for (std::int64_t id = 0; id < 4; ++id) devices_.push_back(Device{id, 0, "sealed"});
  }
  std::string platform() const override { return "sealed"; }
  const std::vector<Device>& devices() const override { return devices_; }
  std::shared_ptr<const compiler::Executable> compile(
      std::unique_ptr<ir::Module> module, const compiler::Options& options) const override {
    return std::make_shared<SealedExecutable>(
        compiler::find_engine("cpu")->compile(std::move(module), options));
  }
  std::vector<DeviceBuffer> copy_in(const std::byte* host, const Box& held, const Box& part,
                                    std::size_t element_bytes, std::span<const Device> devices,
                                    MemoryKind) const override {
    std::vector<DeviceBuffer> out;
    for (std::size_t i = 0; i < devices.size(); ++i) {
      std::vector<std::byte> bytes(std::size_t(part.element_count()) * element_bytes);
      copy_common(host, held, bytes.data(), part, element_bytes);
      out.push_back(seal(std::move(bytes)));
    }
    return out;
  }
  void copy_out(const DeviceBuffer& buffer, const Box& part, std::byte* host, const Box& wanted,
                std::size_t element_bytes) const override {
    copy_common(plain(buffer).data(), part, host, wanted, element_bytes);
  }
  std::vector<DeviceBuffer> assemble(std::span<const Piece> pieces, const Box& part,
                                     std::size_t element_bytes, std::span<const Device> devices,
                                     MemoryKind kind) const override {
    std::vector<std::byte> bytes(std::size_t(part.element_count()) * element_bytes);
    for (const Piece& p : pieces) {
      copy_common(plain(p.buffer).data(), p.box, bytes.data(), part, element_bytes);
    }
    return copy_in(bytes.data(), part, part, element_bytes, devices, kind);
  }
  DeviceBuffer on_device(const DeviceBuffer& buffer, const Device&) const override {
    return seal(plain(buffer));
  }
  std::vector<DeviceBuffer> copy(std::span<const DeviceBuffer> buffers, MemoryKind) const override {
    std::vector<DeviceBuffer> out;
    for (const DeviceBuffer& b : buffers) out.push_back(seal(plain(b)));
    return out;
  }

 private:
  std::vector<Device> devices_;
};

std::vector<Device> sealed_devices() {
  static const bool registered = [] {
    compiler::register_engine(std::make_shared<SealedEngine>());
    return true;
  }();
  (void)registered;
  return compiler::find_engine("sealed")->devices();
}

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
      host->copy_out(buffers[0], box, reinterpret_cast<std::byte*>(out.data()), box, sizeof(float)),
      RuntimeError);
  EXPECT_FLOAT_EQ(floats(f(x))[3], 4);
}

TEST(Engine, PlatformsWithoutAnEngineAreNamed) {
  (void)sealed_devices();
  try {
    (void)compiler::engine_of(Device{0, 0, "abacus"});
    FAIL() << "found";
  } catch (const ValueError& e) {
    EXPECT_NE(std::string(e.what()).find("'abacus'"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("'cpu', 'sealed'"), std::string::npos) << e.what();
  }
  const std::vector<Device> mixed{devices()[0], sealed_devices()[0]};
  EXPECT_THROW((void)compiler::engine_of(mixed), ValueError);
  EXPECT_THROW(compiler::register_engine(std::make_shared<SealedEngine>()), ValueError);
  EXPECT_THROW((void)compiler::find_engine("sealed")->memory_stats(), NotImplementedError);
}

}  // namespace
}  // namespace tessera
