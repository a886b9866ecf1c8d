// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of explicit mode.
#pragma once

#include <string>

#include <tessera/tessera.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing {

inline Mesh explicit_mesh(std::vector<std::int64_t> sizes, std::vector<std::string> names) {
  std::vector<AxisType> types(sizes.size(), AxisType::Explicit);
  return make_mesh(sizes, names, types);
}
/// f32[8@x,4]
inline std::string type_text(const Array& x) { return type_of(x).to_string(); }
/// The text of the type within a traced function, of its result, and of the result itself, which
/// must agree.
template <class F, class... A>
std::string type_through_jit(F f, const A&... args) {
  std::string inside;
  const Array out = jit([&](A... in) {
    const Array y = f(in...);
    inside = type_text(y);
    return y;
  })(args...);
  EXPECT_EQ(type_text(out), inside);
  return inside;
}

}  // namespace tessera::testing
