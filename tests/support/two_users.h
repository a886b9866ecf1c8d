// SPDX-License-Identifier: Apache-2.0
// A program in which two dots need the same operand gathered.
#pragma once

namespace tessera::testing {

/// The entry's instructions: a network's hidden layer, and its gradient, which needs the same input
/// in full. One gather can serve both.
inline constexpr const char* kTwoUsers = R"(
    x = f32[32,64] parameter(0), sharding={devices=[1,8]<=[8]}
    w = f32[64,128] parameter(1), sharding={replicated}
    dy = f32[32,128] parameter(2), sharding={devices=[1,8]<=[8]}
    h = f32[32,128] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    t = f32[32,128] tanh(h)
    dh = f32[32,128] multiply(dy, t)
    g = f32[64,128] dot(x, dh), lhs_contracting_dims={0}, rhs_contracting_dims={0}
    ROOT r = (f32[32,128], f32[64,128]) tuple(t, g),
      sharding={{devices=[1,8]<=[8]}, {devices=[1,8]<=[8]}})";

}  // namespace tessera::testing
