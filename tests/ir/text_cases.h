// SPDX-License-Identifier: Apache-2.0
// Small modules from a few lines, and checks of their error messages.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>

#include "src/ir/hlo/hlo_text.h"

namespace tessera::ir::testing {

/// Computations that bodies may call: add (f32), ge (f32), branch (f32[4] -> f32[4]),
/// step (f32, f32 -> both).
inline constexpr const char* kCallees = R"(
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}

ge {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=GE
}

branch {
  ROOT a = f32[4]{0} parameter(0)
} step { x = f32[] parameter(0) c = f32[] parameter(1) ROOT t = (f32[], f32[]) tuple(c, x) }
)";

/// A module with these lines as its entry's body.
inline std::string with_body(const std::string& body) {
  return "HloModule t\n" + std::string(kCallees) + "\nENTRY e {\n" + body + "\n}\n";
}

inline std::unique_ptr<Module> parse_body(const std::string& body) {
  return parse_hlo(with_body(body), "t.hlo");
}

/// The last instruction's line as it is printed.
inline std::string last_line(const Module& m, const PrintOptions& options = {}) {
  return to_string(*m.entry()->instructions().back(), options);
}

/// The text must be refused with an E whose what() has each of `parts`, separated by '|'.
template <class E>
void expect_error(const std::string& text, const std::string& parts) {
  SCOPED_TRACE(text);
  try {
    parse_hlo(text, "t.hlo");
    ADD_FAILURE() << "it was accepted";
  } catch (const E& e) {
    std::string what = e.what();
    EXPECT_EQ(what.substr(0, 6), "t.hlo:") << what;
    EXPECT_TRUE(e.location().known()) << what;
    std::istringstream in(parts);
    for (std::string part; std::getline(in, part, '|');) {
      EXPECT_NE(what.find(part), std::string::npos) << "no \"" << part << "\" in: " << what;
    }
  } catch (const std::exception& e) {
    ADD_FAILURE() << "another error: " << e.what();
  }
}

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

}  // namespace tessera::ir::testing
