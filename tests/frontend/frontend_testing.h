// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of the front end.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <typeinfo>
#include <vector>

#include <tessera/error.h>
#include <tessera/mesh.h>
#include <tessera/ops/creation.h>
#include <tessera/ops/shape_ops.h>
#include <tessera/placement.h>

#include "tests/support/error_table.h"

namespace tessera::testing {

inline std::vector<float> floats(const Array& a) { return a.to_vector<float>(); }

/// 0, 1, 2, ... under a shape.
inline Array counting(std::vector<std::int64_t> shape, float scale = 1) {
  std::int64_t n = 1;
  for (std::int64_t d : shape) n *= d;
  std::vector<float> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(scale * float(i));
  return array(values, std::move(shape));
}

inline void expect_close(const std::vector<float>& have, const std::vector<float>& want,
                         float tolerance = 1e-5f) {
  ASSERT_EQ(have.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(have[i], want[i], tolerance * (1 + std::abs(want[i]))) << "element " << i;
  }
}
inline void expect_close(const Array& have, const Array& want, float tolerance = 1e-5f) {
  EXPECT_EQ(have.shape(), want.shape());
  expect_close(floats(have), floats(want), tolerance);
}

/// Among the parts of expect_error: the error's place is this file, within 15 lines of the check.
inline constexpr const char* kNear = "\nnear";

/// Checks the text and the place of an error.
inline std::string check_error(const Error& e, const std::vector<std::string>& parts,
                               const char* file, int line) {
  note_error(e);
  const std::string text = e.what();
  for (const std::string& part : parts) {
    if (part == kNear) {
      EXPECT_EQ(std::string(e.location().known() ? e.location().file : "unknown"), file) << text;
      EXPECT_LE(std::abs(int(e.location().line) - line), 15) << text << " checked at " << line;
      continue;
    }
    EXPECT_NE(text.find(part), std::string::npos) << "lacks \"" << part << "\" in:\n  " << text;
  }
  return text;
}
inline std::string other_error(const char* what) {
  ADD_FAILURE() << "another exception: " << what;
  return what;
}

/// Runs f, which must throw exactly an E whose text has all parts; returns the text. In a test of a
/// behaviour the table of errors must have it.
template <class E, class F>
std::string expect_error(F&& f, const std::vector<std::string>& parts,
                         const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  try {
    f();
  } catch (const E& e) {
    if (typeid(e) != typeid(E)) return other_error(e.what());
    return check_error(e, parts, file, line);
  } catch (const std::exception& e) {
    return other_error(e.what());
  }
  ADD_FAILURE() << "no exception";
  return "";
}

/// "file.cc:12" for the line of the call, or those around it.
inline std::string here(int offset = 0, const char* file = __builtin_FILE(),
                        int line = __builtin_LINE()) {
  const std::string name = file;
  return name.substr(name.rfind('/') + 1) + ":" + std::to_string(line + offset);
}

inline std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}
inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline Mesh mesh_of(const Mesh::Shape& shape) { return make_mesh(shape); }
inline Array put(const Array& x, const Mesh& mesh, const PartitionSpec& spec) {
  return device_put(x, NamedSharding(mesh, spec));
}

}  // namespace tessera::testing
