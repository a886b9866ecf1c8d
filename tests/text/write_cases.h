// SPDX-License-Identifier: Apache-2.0
// The cases of tests/text/data/write_ops.txt: HLO and the StableHLO that is written for it.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "src/ir/hlo/hlo_text.h"
#include "src/text/read/stablehlo.h"

namespace tessera::text::testing {

struct WriteCase {
  std::string name, hlo, stablehlo;
};

inline std::vector<WriteCase> write_cases() {
  std::ifstream file(std::string(TESSERA_SOURCE_DIR) + "/tests/text/data/write_ops.txt");
  std::vector<WriteCase> cases;
  bool written = false;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("== ", 0) == 0) {
      cases.push_back({line.substr(3), "", ""});
      written = false;
    } else if (line == "--") {
      written = true;
    } else if (!cases.empty()) {
      (written ? cases.back().stablehlo : cases.back().hlo) += line + "\n";
    }
  }
  return cases;
}

inline std::unique_ptr<ir::Module> module_of(const std::string& hlo) {
  return ir::parse_hlo(hlo, "t.hlo");
}

/// The StableHLO of a module whose entry has these lines.
inline std::string written(const std::string& body, const std::string& before = "",
                           const std::string& header = "HloModule t") {
  return to_stablehlo(*module_of(header + "\n" + before + "\nENTRY e {\n" + body + "\n}\n"));
}

inline void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}

}  // namespace tessera::text::testing
