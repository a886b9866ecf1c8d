// SPDX-License-Identifier: Apache-2.0
// What derivatives of deep networks keep: with remat, one layer's activations at a time.
#include <tessera/tessera.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing::remat_memory {
namespace {

constexpr std::int64_t kRows = 256, kWidth = 16, kHidden = 128;
/// Of what one layer passes on, of its weights, and of what it computes in between.
constexpr std::int64_t kCarry = kRows * kWidth * 4, kWeights = 2 * kWidth * kHidden * 4,
                       kActivations = kRows * kHidden * 4;

Array layer(const Array& x, const Array& up, const Array& down) {
  return x + matmul(gelu(matmul(x, up)), down);
}

/// Peak bytes of a step of that many layers, looped or one after the other.
template <class Layer>
std::int64_t peak(Layer f, std::int64_t layers, bool looped) {
  const auto loss = [=](std::pair<Array, Array> w, Array x) {
    if (looped) {
      return sum(scan(
                     [&](Array c, std::pair<Array, Array> k) {
                       return std::pair(f(c, k.first, k.second), Array(0.0f));
                     },
                     x, w)
                     .first);
    }
    for (std::int64_t k = 0; k < layers; ++k) {
      x = f(x, index(w.first, {k}), index(w.second, {k}));
    }
    return sum(x);
  };
  const std::pair w{ones({layers, kWidth, kHidden}), ones({layers, kHidden, kWidth})};
  const auto step = jit([=](std::pair<Array, Array> w, Array x) { return grad(loss)(w, x); });
  return step.lower(w, ones({kRows, kWidth})).compile().memory_analysis().peak_bytes_per_device;
}

class RematMemory : public ::testing::TestWithParam<bool> {};

TEST_P(RematMemory, GrowsWithWhatIsPassedOn) {
  const bool looped = GetParam();
  const auto plain = [](Array x, Array up, Array down) { return layer(x, up, down); };
  const auto again = remat(plain);
  const std::int64_t small = peak(again, 4, looped), large = peak(again, 12, looped);
  // Weights, their gradients and the layer's argument; a bit for tables of the loop.
  EXPECT_LE((large - small) / 8, kCarry + 2 * kWeights + 1024) << small << " and " << large;
  // One layer's activations are there.
  EXPECT_GE(small, kActivations);
  const std::int64_t kept = peak(plain, 12, looped) - peak(plain, 4, looped);
  EXPECT_GE(kept / 8, kActivations);
  // The residuals that jax.vjp keeps per layer of this function.
  constexpr std::int64_t kResidualsOfJax = 819208;
  EXPECT_LE(kept / 8, kResidualsOfJax);
}

INSTANTIATE_TEST_SUITE_P(Forms, RematMemory, ::testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Looped" : "Unrolled"; });

}  // namespace
}  // namespace tessera::testing::remat_memory
