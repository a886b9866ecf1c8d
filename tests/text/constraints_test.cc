// SPDX-License-Identifier: Apache-2.0
// Each numbered constraint of the StableHLO specification: what breaks it is refused, at its line,
// in words. Tables: tests/text/data/constraints_*.txt.
//
// A block is `== OPERATIONS`, a legal program, `--`, and rows:
//
//     C2 | old => new | old => new :: words of the message
//     C6 - why no text can break it
//
// A program is arguments in parentheses and a body, or `module` and a whole text; `$op` stands for
// the operation, `$q` and `$p` for quantized types with one scale and with one per row, `\n` in a
// row for the end of a line.
#include <map>
#include <set>

#include "src/text/read/stablehlo.h"
#include "tests/text/programs.h"

namespace tessera::text {
namespace {

std::string data(const std::string& name) {
  return read_file(std::string(TESSERA_SOURCE_DIR) + "/tests/text/data/" + name + ".txt");
}

void replace_all(std::string* text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text->find(from, at)) != std::string::npos; at += to.size()) {
    text->replace(at, from.size(), to);
  }
}

std::vector<std::string> split(const std::string& text, const std::string& mark) {
  std::vector<std::string> out;
  std::size_t at = 0;
  for (std::size_t next; (next = text.find(mark, at)) != std::string::npos;) {
    out.push_back(text.substr(at, next - at));
    at = next + mark.size();
  }
  out.push_back(text.substr(at));
  return out;
}

std::string whole(std::string program, const std::string& op) {
  replace_all(&program, "$op", op);
  replace_all(&program, "$q", "!quant.uniform<i8:f32, 0.5>");
  replace_all(&program, "$p", "!quant.uniform<i8:f32:0, {0.5, 0.25}>");
  if (program.rfind("module\n", 0) == 0) return program.substr(7);
  const std::size_t end = program.find('\n');
  return "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\nreturn %x : tensor<4xf32>\n}\n"
         "func.func @main" +
         program.substr(0, end) + " {\n" + program.substr(end + 1) + "return\n}\n";
}

struct Row {
  std::string constraint, program, words, reason;
};

Row row_of(const std::string& line, const std::string& program) {
  Row out;
  out.program = program;
  if (const std::size_t dash = line.find(" - "); dash < 5) {
    out.constraint = line.substr(0, dash);
    out.reason = line.substr(dash + 3);
    return out;
  }
  const std::vector<std::string> halves = split(line, " :: ");
  EXPECT_EQ(halves.size(), 2U) << line;
  out.words = halves.back();
  std::vector<std::string> parts = split(halves[0], " | ");
  out.constraint = parts[0];
  for (std::size_t n = 1; n < parts.size(); ++n) {
    std::vector<std::string> change = split(parts[n], " => ");
    EXPECT_EQ(change.size(), 2U) << parts[n];
    for (std::string& side : change) replace_all(&side, "\\n", "\n");
    const std::size_t at = out.program.find(change[0]);
    EXPECT_NE(at, std::string::npos) << line << "\nchanges what isn't there: " << change[0];
    if (at != std::string::npos) out.program.replace(at, change[0].size(), change.back());
  }
  return out;
}

// Which constraints the tables name, by operation.
using Named = std::map<std::string, std::set<std::string>>;

void check_table(const std::string& table, Named* named) {
  std::vector<std::string> blocks = split("\n" + data(table), "\n== ");
  for (std::size_t n = 1; n < blocks.size(); ++n) {
    const std::size_t first = blocks[n].find('\n'), dashes = blocks[n].find("\n--\n");
    ASSERT_NE(dashes, std::string::npos) << blocks[n];
    const std::string program = blocks[n].substr(first + 1, dashes - first);
    for (const std::string& op : split(blocks[n].substr(0, first), " ")) {
      EXPECT_EQ(error_of(whole(program, op)), "") << whole(program, op);
      for (const std::string& line : split(blocks[n].substr(dashes + 4), "\n")) {
        if (line.empty()) continue;
        const Row row = row_of(line, program);
        (*named)[op].insert(row.constraint);
        if (!row.reason.empty()) continue;
        const std::string text = whole(row.program, op), error = error_of(text);
        EXPECT_NE(error.find(row.words), std::string::npos)
            << op << " " << line << "\n"
            << text << (error.empty() ? "is accepted" : error);
        EXPECT_NE(error.find("t.mlir:"), std::string::npos) << op << " " << line << "\n" << error;
        EXPECT_EQ(error.find("internal"), std::string::npos) << op << " " << line << "\n" << error;
      }
    }
  }
}

TEST(Constraints, WhatBreaksOneIsRefused) {
  Named named;
  for (const char* table :
       {"constraints_plain", "constraints_devices", "constraints_windows", "constraints_types"}) {
    check_table(table, &named);
  }
  // A line for each section with constraints: its name, and how many there are.
  for (const std::string& line : split(data("constraint_counts"), "\n")) {
    if (line.empty()) continue;
    const std::size_t space = line.find(' ');
    const std::string op = line.substr(0, space);
    for (int n = 1; n <= std::stoi(line.substr(space)); ++n) {
      EXPECT_EQ(named[op].count("C" + std::to_string(n)), 1U) << op << " C" << n << " has no row";
    }
  }
}

}  // namespace
}  // namespace tessera::text
