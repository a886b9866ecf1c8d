// SPDX-License-Identifier: Apache-2.0
// Optimisers for any tree of arrays, with the numbers of optax.
#pragma once

#include <tessera/ops.h>
#include <tessera/tree.h>

#include <array>
#include <cmath>
#include <functional>
#include <numbers>
#include <string_view>
#include <tuple>
#include <utility>

/// An optimiser is a struct of plain numbers with two functions: `init(params)` makes its state,
/// and `update(params, gradients, state)` returns the next parameters and state. Both are functions
/// of arrays, so they are traced into the program of a training step, and state that belongs to a
/// parameter gets that parameter's sharding.
/// @code
/// const AdamW optimizer{.rate = warmup_cosine(3e-3f, 20, 200)};
/// auto step = jit([=](Params p, AdamState<Params> s, Array x) {
///   auto [loss, g] = value_and_grad(loss_of)(p, x);
///   auto [next, state] = optimizer.update(p, clip_by_global_norm(g, 1.0f), s);
///   return std::tuple(next, state, loss);
/// });
/// @endcode
namespace optim {

using tessera::Array;

/// A learning rate for each step, the first of which is 0 (an s32 scalar).
using Schedule = std::function<Array(Array)>;

/// One rate for all steps.
inline Schedule constant(float rate) {
  return [=](Array) { return Array(rate); };
}
/// From `from` to `to` in a straight line, then `to`.
inline Schedule linear(float from, float to, int steps) {
  return [=](Array step) {
    return from + (to - from) * tessera::clip(step.astype(tessera::f32) / float(steps), 0.f, 1.f);
  };
}
/// Half a cosine from `rate` to `end * rate`, then that.
inline Schedule cosine(float rate, int steps, float end = 0) {
  return [=](Array step) {
    const Array part = tessera::minimum(step.astype(tessera::f32), float(steps)) / float(steps);
    const Array wave = 0.5f * (1 + tessera::cos(float(std::numbers::pi) * part));
    return rate * ((1 - end) * wave + end);
  };
}
/// From 0 to `rate` in a line during `warmup` steps, then half a cosine to `end * rate` at `steps`.
inline Schedule warmup_cosine(float rate, int warmup, int steps, float end = 0) {
  return [rise = linear(0, rate, warmup), fall = cosine(rate, steps - warmup, end), warmup](
             Array step) { return tessera::where(step < warmup, rise(step), fall(step - warmup)); };
}

/// The norm of all elements of a tree.
template <tessera::TreeLike T>
Array global_norm(const T& tree) {
  Array total = 0.f;
  for (const Array& leaf : tessera::tree_leaves(tree)) {
    total = total + tessera::sum(tessera::square(leaf));
  }
  return tessera::sqrt(total);
}
/// The gradients, scaled down to a global norm of `limit` if theirs is larger.
template <tessera::TreeLike T>
T clip_by_global_norm(const T& gradients, float limit) {
  const Array norm = global_norm(gradients);
  return tessera::tree_map(
      [&](Array g) { return tessera::where(norm < limit, g, g / norm * limit); }, gradients);
}

/// What Sgd remembers: the number of steps, and a running sum of gradients.
template <class P>
struct SgdState {
  Array step;
  P velocity;
};
/// What Adam remembers: the number of steps, and running means of gradients and of their squares.
template <class P>
struct AdamState {
  Array step;
  P mean, square;
};

/// Gradient descent with momentum (optax.sgd).
struct Sgd {
  Schedule rate = constant(0.01f);
  float momentum = 0.9f;
  bool nesterov = false;

  template <tessera::TreeLike P>
  SgdState<P> init(const P& params) const {
    return {Array(0), tessera::tree_map([](Array p) { return tessera::zeros_like(p); }, params)};
  }
  template <tessera::TreeLike P>
  std::pair<P, SgdState<P>> update(const P& params, const P& gradients,
                                   const SgdState<P>& state) const {
    const auto follow = [&](Array g, Array v) { return g + momentum * v; };
    const P velocity = tessera::tree_map(follow, gradients, state.velocity);
    const P direction = nesterov ? tessera::tree_map(follow, gradients, velocity) : velocity;
    const Array r = rate(state.step);
    const P next =
        tessera::tree_map([&](Array p, Array d) { return p - r * d; }, params, direction);
    return {next, {state.step + 1, velocity}};
  }
};

/// Adam with decoupled weight decay (optax.adamw; without decay, optax.adam).
struct AdamW {
  Schedule rate = constant(1e-3f);
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
  float decay = 0;
  /// Which parameters decay; biases and scales are usually left out.
  std::function<bool(const Array&)> decays = [](const Array&) { return true; };

  template <tessera::TreeLike P>
  AdamState<P> init(const P& params) const {
    const auto zeros = [](Array p) { return tessera::zeros_like(p); };
    return {Array(0), tessera::tree_map(zeros, params), tessera::tree_map(zeros, params)};
  }
  template <tessera::TreeLike P>
  std::pair<P, AdamState<P>> update(const P& params, const P& gradients,
                                    const AdamState<P>& state) const {
    const P mean = tessera::tree_map([&](Array g, Array m) { return beta1 * m + (1 - beta1) * g; },
                                     gradients, state.mean);
    const P square = tessera::tree_map(
        [&](Array g, Array s) { return beta2 * s + (1 - beta2) * tessera::square(g); }, gradients,
        state.square);
    // The means begin at 0: divided by these, they are means of the steps taken so far.
    const Array count = (state.step + 1).astype(tessera::f32);
    const Array seen1 = 1 - tessera::power(beta1, count), seen2 = 1 - tessera::power(beta2, count);
    const Array r = rate(state.step);
    const P next = tessera::tree_map(
        [&](Array p, Array m, Array s) {
          Array d = (m / seen1) / (tessera::sqrt(s / seen2) + epsilon);
          if (decay != 0 && decays(p)) d = d + decay * p;
          return p - r * d;
        },
        params, mean, square);
    return {next, {state.step + 1, mean, square}};
  }
};

// Names of the states' fields, in messages and checkpoints.
template <class P>
auto tessera_tree_tie(SgdState<P>& s) {
  return std::tie(s.step, s.velocity);
}
template <class P>
auto tessera_tree_names(const SgdState<P>*) {
  return std::array<std::string_view, 2>{"step", "velocity"};
}
template <class P>
auto tessera_tree_tie(AdamState<P>& s) {
  return std::tie(s.step, s.mean, s.square);
}
template <class P>
auto tessera_tree_names(const AdamState<P>*) {
  return std::array<std::string_view, 3>{"step", "mean", "square"};
}

}  // namespace optim
