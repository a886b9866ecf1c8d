// SPDX-License-Identifier: Apache-2.0
// Values of a program that wait in host memory: behaviours 334 and 337 of
// docs/reference/behaviours.md.
#include <tessera/tessera.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing::host_offload {
namespace {

const TransferToMemoryKind kToHost{"pinned_host"}, kToDevice{"device"};

constexpr std::int64_t kRows = 256, kWidth = 16, kHidden = 128, kLayers = 12;
constexpr std::int64_t kKept = kRows * kHidden * 4;  ///< of one layer

using Weights = std::pair<Array, Array>;

Array layer(const Array& x, const Array& up, const Array& down) {
  const Array h = checkpoint_name(tanh(matmul(x, up)), "h");
  return x + matmul(sin(h), down);
}

Weights weights(std::int64_t layers = kLayers) {
  const Array k = random::key(7);
  return {random::normal(random::fold_in(k, 0), {layers, kWidth, kHidden}) * 0.1f,
          random::normal(random::fold_in(k, 1), {layers, kHidden, kWidth}) * 0.1f};
}
Array input() { return random::normal(random::key(8), {kRows, kWidth}); }

/// The gradients of a network by its weights, layers looped or one after the other.
auto step(const CheckpointPolicy& policy, bool looped, bool prevent_cse = true) {
  const auto one = remat([](Array x, Array up, Array down) { return layer(x, up, down); },
                         {.policy = policy, .prevent_cse = prevent_cse});
  const auto loss = [=](Weights w, Array x) {
    if (looped) {
      return sum(scan([&](Array c,
                          Weights k) { return std::pair(one(c, k.first, k.second), Array(0.0f)); },
                      x, w)
                     .first);
    }
    for (std::int64_t k = 0; k < w.first.shape()[0]; ++k) {
      x = one(x, index(w.first, {k}), index(w.second, {k}));
    }
    return sum(x);
  };
  return jit([=](Weights w, Array x) { return grad(loss)(w, x); });
}

CheckpointPolicy saved() { return CheckpointPolicy::save_only_these_names({"h"}); }
CheckpointPolicy offloaded() {
  return CheckpointPolicy::save_and_offload_only_these_names({}, {"h"}, "device", "pinned_host");
}

struct Peaks {
  std::int64_t device = 0, host = 0;
};
/// Of the memory that a run takes, besides what is there before.
template <class F>
Peaks measured(const F& run) {
  const Device d = devices()[0];
  const Memory host = d.memory("pinned_host");
  (void)run();  // compiles
  const std::int64_t device_before = memory_stats(d).current,
                     host_before = memory_stats(host).current;
  reset_peak_memory(d);
  (void)run();
  EXPECT_EQ(memory_stats(host).current, host_before);
  return {memory_stats(d).peak - device_before, memory_stats(host).peak - host_before};
}

class Offload : public ::testing::TestWithParam<bool> {};

TEST_P(Offload, Behaviour_337_ResidualsWaitInHostMemory) {
  const bool looped = GetParam();
  const Weights w = weights();
  const Array x = input();
  const auto keeps = step(saved(), looped), offloads = step(offloaded(), looped);
  const Weights want = keeps(w, x), have = offloads(w, x);
  // The same operations on the same numbers; what is fused differs, and with it the last bits on
  // some processors.
  expect_close(have.first, want.first);
  expect_close(have.second, want.second);

  const auto on_device = measured([&] { return keeps(w, x); });
  const auto apart = measured([&] { return offloads(w, x); });
  EXPECT_EQ(on_device.host, 0);
  EXPECT_GE(apart.host, kLayers * kKept);
  EXPECT_LE(apart.host, (kLayers + 1) * kKept);
  EXPECT_LE(apart.device, on_device.device - (kLayers - 3) * kKept)
      << on_device.device << " and " << apart.device;
  // What is planned is what is seen.
  const MemoryAnalysis planned = offloads.lower(w, x).compile().memory_analysis();
  EXPECT_LE(apart.host, planned.peak_host_bytes_per_device);
  EXPECT_EQ(planned.host_argument_bytes + planned.host_output_bytes, 0);
  EXPECT_EQ(planned.host_temp_bytes, planned.peak_host_bytes_per_device);
  EXPECT_LE(apart.device, planned.peak_bytes_per_device - planned.argument_bytes);
}

TEST_P(Offload, DotsMayBeOffloaded) {
  const bool looped = GetParam();
  const Weights w = weights(4);
  const Array x = input();
  const auto keeps = step(CheckpointPolicy::dots_with_no_batch_dims_saveable(), looped);
  const auto offloads =
      step(CheckpointPolicy::offload_dot_with_no_batch_dims("device", "unpinned_host"), looped);
  const Weights want = keeps(w, x), have = offloads(w, x);
  expect_close(have.first, want.first);
  expect_close(have.second, want.second);
  const MemoryAnalysis kept = keeps.lower(w, x).compile().memory_analysis(),
                       apart = offloads.lower(w, x).compile().memory_analysis();
  EXPECT_EQ(kept.peak_host_bytes_per_device, 0);
  EXPECT_GE(apart.peak_host_bytes_per_device, 4 * kKept);
  EXPECT_LT(apart.peak_bytes_per_device, kept.peak_bytes_per_device);
}

INSTANTIATE_TEST_SUITE_P(Forms, Offload, ::testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Looped" : "Unrolled"; });

TEST(HostMemory, Behaviour_337_PartitionedResidualsWait) {
  const Mesh mesh = make_mesh({{"data", 4}, {"model", 2}});
  const Weights w = weights();
  const Array x = input();
  const Weights placed{put(w.first, mesh, P(nullptr, nullptr, "model")),
                       put(w.second, mesh, P(nullptr, "model"))};
  const Array rows = put(x, mesh, P("data"));
  const Weights want = step(saved(), true)(w, x);
  const auto keeps = step(saved(), true), offloads = step(offloaded(), true);
  const Weights have = offloads(placed, rows);
  expect_close(have.first, want.first, 2e-4f);
  expect_close(have.second, want.second, 2e-4f);
  const MemoryAnalysis kept = keeps.lower(placed, rows).compile().memory_analysis(),
                       apart = offloads.lower(placed, rows).compile().memory_analysis();
  // Each device's part of the activations.
  EXPECT_GE(apart.peak_host_bytes_per_device, kLayers * kKept / 8);
  EXPECT_LE(apart.peak_host_bytes_per_device, (kLayers + 1) * kKept / 8);
  EXPECT_LE(apart.peak_bytes_per_device, kept.peak_bytes_per_device - (kLayers - 3) * kKept / 8);
}

TEST(HostMemory, Behaviour_337_WeightsComeLayerByLayer) {
  const Weights w = weights();
  const Array x = input();
  const Weights waiting = device_put(w, kToHost);
  const auto forward = jit([](Weights all, Array v) {
    return scan(
               [](Array c, Weights k) {
                 const Weights here = device_put(k, kToDevice);
                 return std::pair(layer(c, here.first, here.second), Array(0.0f));
               },
               v, all)
        .first;
  });
  EXPECT_EQ(floats(forward(waiting, x)), floats(forward(w, x)));
  const MemoryAnalysis all = forward.lower(w, x).compile().memory_analysis(),
                       one = forward.lower(waiting, x).compile().memory_analysis();
  constexpr std::int64_t kWeights = 2 * kWidth * kHidden * 4;
  EXPECT_EQ(one.host_argument_bytes, kLayers * kWeights);
  EXPECT_EQ(one.argument_bytes, kRows * kWidth * 4);
  EXPECT_LE(one.peak_bytes_per_device, all.peak_bytes_per_device - (kLayers - 2) * kWeights);

  // Gradients by weights on the host are there, as the weights are.
  const auto gradients = jit([=](Weights all, Array v) {
    return grad([=](Weights a) { return sum(forward(a, v)); })(all);
  });
  const Weights there = gradients(waiting, x), here = gradients(w, x);
  EXPECT_EQ(there.first.sharding().memory_kind(), "pinned_host");
  EXPECT_EQ(there.second.sharding().memory_kind(), "pinned_host");
  EXPECT_EQ(floats(there.first), floats(here.first));
  EXPECT_EQ(floats(there.second), floats(here.second));
}

TEST(HostMemory, OutputsOfAScanWait) {
  const auto f = jit([](Array x) {
    return scan([](Array c, Array) { return std::pair(c + 1, device_put(c * 2, kToHost)); }, x,
                zeros({6}));
  });
  const Array x = counting({1024});
  const auto [last, all] = f(x);
  EXPECT_EQ(last.sharding().memory_kind(), "device");
  EXPECT_EQ(all.sharding().memory_kind(), "pinned_host");
  expect_close(index(all, {5}), counting({1024}, 2) + 10);
  const MemoryAnalysis m = f.lower(x).compile().memory_analysis();
  EXPECT_EQ(m.host_output_bytes, 6 * 4096);
  EXPECT_LT(m.peak_bytes_per_device, 4 * 4096);
}

TEST(HostMemory, TransfersAreInTheTexts) {
  const auto f = jit([](Array x) { return device_put(device_put(x * 2, kToHost), kToDevice) + 1; });
  const Array waits = device_put(counting({8}), kToHost);
  const std::string there = f.lower(counting({8})).as_text(), from = f.lower(waits).as_text();
  EXPECT_EQ(count(there, "annotate_device_placement"), 2u) << there;
  EXPECT_EQ(count(there, "_xla_buffer_placement=\"pinned_host\""), 1u) << there;
  EXPECT_EQ(count(there, "_xla_buffer_placement=\"device\""), 1u) << there;
  EXPECT_TRUE(has(from, "mhlo.memory_kind=\"pinned_host\"")) << from;
  const std::string stablehlo = f.lower(waits).as_text("stablehlo");
  EXPECT_TRUE(has(stablehlo, "mhlo.memory_kind = \"pinned_host\"")) << stablehlo;
  EXPECT_TRUE(has(stablehlo, "stablehlo.custom_call @annotate_device_placement")) << stablehlo;
}

// What JAX 0.10.2 exports of a scan over weights in host memory, whose outputs go there, too.
constexpr const char* kExported = R"(module @jit_f {
  func.func public @main(%arg0: tensor<3x4xf32> {mhlo.memory_kind = "pinned_host"}, %arg1: tensor<4xf32>) -> (tensor<4xf32> {jax.result_info = "result[0]", mhlo.memory_kind = "device"}, tensor<3x4xf32> {jax.result_info = "result[1]", mhlo.memory_kind = "pinned_host"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x4xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1:4 = stablehlo.while(%iterArg = %arg0, %iterArg_0 = %c, %iterArg_1 = %arg1, %iterArg_2 = %0) : tensor<3x4xf32>, tensor<i32>, tensor<4xf32>, tensor<3x4xf32>
    cond {
      %c_3 = stablehlo.constant dense<3> : tensor<i32>
      %2 = stablehlo.compare LT, %iterArg_0, %c_3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    } do {
      %c_4 = stablehlo.constant dense<0> : tensor<i32>
      %10 = stablehlo.dynamic_slice %iterArg, %iterArg_0, %c_4, sizes = [1, 4] : (tensor<3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
      %2 = stablehlo.reshape %10 : (tensor<1x4xf32>) -> tensor<4xf32>
      %11 = stablehlo.custom_call @annotate_device_placement(%2) {backend_config = "", has_side_effect = true, mhlo.frontend_attributes = {_xla_buffer_placement = "device"}} : (tensor<4xf32>) -> tensor<4xf32>
      %12 = stablehlo.multiply %iterArg_1, %11 : tensor<4xf32>
      %3 = stablehlo.tanh %12 : tensor<4xf32>
      %13 = stablehlo.custom_call @annotate_device_placement(%3) {backend_config = "", has_side_effect = true, mhlo.frontend_attributes = {_xla_buffer_placement = "pinned_host"}} : (tensor<4xf32>) -> tensor<4xf32>
      %14 = stablehlo.broadcast_in_dim %13, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
      %4 = stablehlo.dynamic_update_slice %iterArg_2, %14, %iterArg_0, %c_4 : (tensor<3x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<3x4xf32>
      %c_3 = stablehlo.constant dense<1> : tensor<i32>
      %5 = stablehlo.add %iterArg_0, %c_3 : tensor<i32>
      stablehlo.return %iterArg, %5, %3, %4 : tensor<3x4xf32>, tensor<i32>, tensor<4xf32>, tensor<3x4xf32>
    }
    return %1#2, %1#3 : tensor<4xf32>, tensor<3x4xf32>
  }
}
)";

TEST(HostMemory, TextsSayWhereArraysAre) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("tessera_host_" + std::to_string(getpid())))
          .string();
  std::ofstream(path) << kExported;
  const LoadedFunction f = load_stablehlo(path);
  std::filesystem::remove(path);
  const Array w = counting({3, 4}, 0.25f), x = counting({4}) + 1;
  const std::vector<float> last{0, 0.8249581456184387f, 0.9752424955368042f, 0.9887187480926514f},
      all{0, 0.46211716532707214f, 0.9051482081413269f, 0.9950547218322754f,
          0, 0.5209527015686035f,  0.875863790512085f,  0.9403824806213379f,
          0, 0.8249581456184387f,  0.9752424955368042f, 0.9887187480926514f};
  const Memory host = devices()[0].memory("pinned_host");
  for (const Array& given : {w, device_put(w, kToHost)}) {
    const std::int64_t before = memory_stats(host).current;
    const std::vector<Array> out = f(given, x);
    EXPECT_EQ(out[0].sharding().memory_kind(), "device");
    EXPECT_EQ(out[1].sharding().memory_kind(), "pinned_host");
    EXPECT_EQ(memory_stats(host).current, before + 48);
    expect_close(floats(out[0]), last);
    expect_close(floats(out[1]), all);
  }
}

TEST(HostMemory, ReshardsHappenOnDevices) {
  const Mesh mesh = make_mesh({{"x", 4}});
  const auto f = jit(
      [&](Array a) {
        const Array waits = device_put(a * 2, NamedSharding(mesh, P(), "pinned_host"));
        return device_put(waits, NamedSharding(mesh, P(nullptr, "x")));
      },
      {.out_shardings = NamedSharding(mesh, P(nullptr, "x"))});
  const Array x = put(counting({8, 8}), mesh, P("x"));
  expect_close(f(x), counting({8, 8}, 2));
  const std::string text = f.lower(x).compile().as_text();
  // Brought to where it is used before it leaves; gathered and cut it would be for nothing.
  const std::size_t exchange = text.find("all-to-all"), out = text.find("pinned_host"),
                    back = text.find("_xla_buffer_placement=\"device\"");
  ASSERT_NE(exchange, std::string::npos) << text;
  ASSERT_NE(back, std::string::npos) << text;
  EXPECT_LT(exchange, out) << text;
  EXPECT_LT(out, back) << text;
}

TEST(HostMemory, DerivativesAndBatchesGoThrough) {
  const auto through = [](Array x) {
    return sin(device_put(device_put(x * x, kToHost), kToDevice));
  };
  const auto plain = [](Array x) { return sin(x * x); };
  const Array x = counting({4, 8}, 0.1f);
  const auto loss = [](auto f) { return jit(grad([=](Array a) { return sum(f(a) * f(a)); })); };
  expect_close(loss(through)(x), loss(plain)(x));
  expect_close(jit(vmap(through))(x), plain(x));
  const auto [y, t] = jvp(through, std::tuple(x), std::tuple(ones({4, 8})));
  const auto [y2, t2] = jvp(plain, std::tuple(x), std::tuple(ones({4, 8})));
  expect_close(t, t2);
  const auto second = [](auto f) {
    return jit(
        vmap(grad([=](Array a) { return sum(grad([=](Array b) { return sum(f(b)); })(a)); })));
  };
  expect_close(second(through)(x), second(plain)(x), 1e-4f);
  // What is made of cotangents on the host stays there, and comes back.
  const std::string text = loss(through).lower(x).as_text();
  EXPECT_GE(count(text, "_xla_buffer_placement=\"pinned_host\""), 2u) << text;
}

}  // namespace
}  // namespace tessera::testing::host_offload
