// SPDX-License-Identifier: Apache-2.0
// The golden suite: tests/golden/<pass>/<case>.{hlo,mlir}, a program and the output of passes for
// it. The README there has the format. With UPDATE_GOLDEN=1 in the environment the expected
// programs are written anew; the tests then only fail if a program changes its results.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "src/compiler/pass_table.h"
#include "src/compiler/read_module.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/text/read/stablehlo.h"
#include "tests/support/against_evaluator.h"
#include "tests/support/random_program.h"
#include "tests/support/shards.h"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;
using compiler::ModulePtr;
using compiler::TextForm;

constexpr const char* kRun = "// RUN: ";
constexpr const char* kOut = "// OUT:";
constexpr const char* kNotEvaluated = "// NOT EVALUATED: ";
constexpr const char* kToHlo = "to-hlo";
constexpr const char* kToStableHlo = "to-stablehlo";

fs::path golden_dir() { return fs::path(TESSERA_SOURCE_DIR) / "tests/golden"; }

bool starts_with(const std::string& text, const std::string& with) {
  return text.compare(0, with.size(), with) == 0;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

/// A file of the suite, taken apart.
struct GoldenFile {
  std::string head;                 ///< all comment lines above the program
  std::vector<std::string> passes;  ///< of the RUN line
  bool says_what_it_shows = false;
  bool evaluated = true;
  std::string input;
  bool has_output = false;
  std::string output;  ///< from the OUT line on
};

GoldenFile read_golden(const fs::path& path) {
  GoldenFile file;
  std::string* part = &file.head;
  for (const std::string& line : lines_of(compiler::read_file(path.string()))) {
    if (starts_with(line, kOut)) {
      file.has_output = true;
      part = &file.output;
    } else if (part == &file.head && !starts_with(line, "//")) {
      part = &file.input;
    }
    *part += line + "\n";
    if (part != &file.head) continue;
    if (starts_with(line, kRun)) {
      std::istringstream names(line.substr(std::string(kRun).size()));
      for (std::string name; std::getline(names >> std::ws, name, ',');) {
        file.passes.push_back(name);
      }
    } else if (starts_with(line, kNotEvaluated)) {
      file.evaluated = false;
    } else if (line.size() > 3) {
      file.says_what_it_shows = true;
    }
  }
  return file;
}

std::string print(const ir::Module& module, TextForm form) {
  if (form == TextForm::stablehlo) return text::to_stablehlo(module);
  ir::PrintOptions options;
  options.metadata = false;
  return ir::to_string(module, options);
}

/// One device's program: it communicates or asks which device it runs on.
bool is_per_device(const ir::Module& module) {
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) {
      if (ir::is_collective(i->opcode) || i->is(ir::Opcode::partition_id)) return true;
    }
  }
  return false;
}

/// Expects that `after` computes what `before` does, bit for bit, on small random integers.
void expect_same_results(const ir::Module& before, const ir::Module& after) {
  Dice dice(7);
  if (is_per_device(before)) {
    std::vector<std::vector<Literal>> arguments;
    for (std::int64_t d = 0; d < before.num_partitions; ++d) {
      arguments.push_back(random_arguments(before, dice));
    }
    const auto wanted = evaluator::evaluate_spmd(before, arguments);
    const auto got = evaluator::evaluate_spmd(after, arguments);
    for (std::size_t d = 0; d < wanted.size(); ++d) {
      EXPECT_TRUE(wanted[d] == got[d]) << "device " << d << " has other results";
    }
    return;
  }
  const std::vector<Literal> arguments = random_arguments(before, dice);
  const auto on_one_device = [&](const ir::Module& module) {
    const ModulePtr single = module.clone();
    single->num_partitions = 1;
    return evaluator::evaluate(*single, arguments);
  };
  const Literal whole = on_one_device(before);
  const bool same_shapes =
      std::equal(before.entry()->parameters().begin(), before.entry()->parameters().end(),
                 after.entry()->parameters().begin(), after.entry()->parameters().end(),
                 [](const auto* a, const auto* b) { return a->shape == b->shape; });
  if (!is_per_device(after) && same_shapes) {
    EXPECT_TRUE(on_one_device(after) == whole) << "the results are others";
    return;
  }
  const auto results = evaluator::evaluate_spmd(after, shard_arguments(after, arguments));
  const auto fault = difference(results, whole, after.entry()->root()->sharding, 0);
  EXPECT_FALSE(fault) << *fault;
}

std::string without_argument(const std::string& pass) { return pass.substr(0, pass.find('<')); }

/// What the file's OUT part should be.
std::string run_passes(const GoldenFile& file, const fs::path& path) {
  const std::string folder = path.parent_path().filename().string();
  const std::string name = path.filename().string();
  ModulePtr module = compiler::read_module(file.input, name);
  const ModulePtr before = module->clone();
  const TextForm form = compiler::text_form(file.input).value();
  TextForm to = form;
  std::optional<std::size_t> changes;
  for (const std::string& pass : file.passes) {
    if (pass == kToHlo || pass == kToStableHlo) {
      to = pass == kToHlo ? TextForm::hlo : TextForm::stablehlo;
      continue;
    }
    const auto count = compiler::run_pass(compiler::parse_pass(pass), module);
    if (count && without_argument(pass) == folder) changes = changes.value_or(0) + *count;
  }
  if (file.evaluated) expect_same_results(*before, *module);
  const std::string text = print(*module, to);
  // What is printed is the program.
  EXPECT_EQ(print(*compiler::read_module(text, name), to), text);
  std::string out = kOut;
  if (changes) out += " " + std::to_string(*changes) + (*changes == 1 ? " change" : " changes");
  if (form == to && text == print(*before, to)) return out + (changes ? "," : "") + " unchanged\n";
  return out + "\n" + text;
}

/// The lines of both, those that only one has with a sign; of long equal parts three lines a side.
std::string line_diff(const std::string& expected, const std::string& got) {
  const std::vector<std::string> a = lines_of(expected), b = lines_of(got);
  // common[i][j]: the longest common subsequence of a from i and b from j.
  std::vector<std::vector<std::size_t>> common(a.size() + 1,
                                               std::vector<std::size_t>(b.size() + 1, 0));
  for (std::size_t i = a.size(); i-- > 0;) {
    for (std::size_t j = b.size(); j-- > 0;) {
      common[i][j] =
          a[i] == b[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
    }
  }
  std::vector<std::string> out;
  std::vector<bool> changed;
  const auto add = [&](char sign, const std::string& line) {
    out.push_back(sign + (" " + line));
    changed.push_back(sign != ' ');
  };
  for (std::size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) {
      add(' ', a[i]);
      ++i, ++j;
    } else if (j == b.size() || (i < a.size() && common[i + 1][j] >= common[i][j + 1])) {
      add('-', a[i++]);
    } else {
      add('+', b[j++]);
    }
  }
  std::string text;
  bool left_out = false;
  for (std::size_t k = 0; k < out.size(); ++k) {
    const auto begin = changed.begin() + std::ptrdiff_t(k < 3 ? 0 : k - 3);
    const auto end = changed.begin() + std::ptrdiff_t(std::min(k + 4, out.size()));
    const bool near_change = std::find(begin, end, true) != end;
    if (near_change) text += out[k] + "\n";
    if (!near_change && !left_out) text += "  ...\n";
    left_out = !near_change;
  }
  return text;
}

std::vector<fs::path> golden_files() {
  std::vector<fs::path> out;
  for (const auto& entry : fs::recursive_directory_iterator(golden_dir())) {
    const fs::path extension = entry.path().extension();
    if (extension == ".hlo" || extension == ".mlir") out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

class Golden : public ::testing::TestWithParam<fs::path> {};

TEST_P(Golden, MatchesTheOutputOfThePasses) {
  const GoldenFile file = read_golden(GetParam());
  ASSERT_TRUE(file.says_what_it_shows) << "no comment says what the case shows";
  ASSERT_FALSE(file.passes.empty()) << "no line begins with " << kRun;
  const std::string folder = GetParam().parent_path().filename().string();
  EXPECT_TRUE(std::any_of(file.passes.begin(), file.passes.end(), [&](const std::string& pass) {
    return without_argument(pass) == folder;
  })) << "the case does not run the pass of its folder";
  const std::string output = run_passes(file, GetParam());
  if (const char* update = std::getenv("UPDATE_GOLDEN"); update && std::string(update) == "1") {
    std::ofstream(GetParam()) << file.head << file.input << output;
    return;
  }
  ASSERT_TRUE(file.has_output) << "no line begins with " << kOut;
  EXPECT_TRUE(output == file.output)
      << GetParam().string() << ": - is expected, + is what the passes give\n"
      << line_diff(file.output, output) << "UPDATE_GOLDEN=1 writes the files anew.";
}

INSTANTIATE_TEST_SUITE_P(Passes, Golden, ::testing::ValuesIn(golden_files()), [](const auto& file) {
  const fs::path path = file.param;
  std::string name = path.parent_path().filename().string() + "_" + path.stem().string();
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
});

TEST(GoldenSuite, HasCasesOfEachPass) {
  std::map<std::string, int> cases, unchanged;
  for (const fs::path& path : golden_files()) {
    const std::string folder = path.parent_path().filename().string();
    ++cases[folder];
    const GoldenFile file = read_golden(path);
    if (file.output.substr(0, file.output.find('\n')).find("unchanged") != std::string::npos) {
      ++unchanged[folder];
    }
  }
  // These change each program: the first two write what they are asked for, down to defaults.
  const std::set<std::string> always_change{kToHlo, kToStableHlo, "propagate", "partition"};
  std::set<std::string> known{kToHlo, kToStableHlo};
  for (const compiler::Pass& pass : compiler::all_passes()) {
    known.insert(without_argument(pass.name));
  }
  for (const std::string& name : known) {
    EXPECT_GE(cases[name], 2) << "tests/golden/" << name << ": too few cases";
    if (always_change.count(name) == 0) {
      EXPECT_GE(unchanged[name], 1)
          << "tests/golden/" << name << ": no case in which the pass does nothing";
    }
  }
  for (const auto& [name, count] : cases) {
    EXPECT_EQ(known.count(name), 1u) << "tests/golden/" << name << ": no pass has that name";
  }
}

TEST(GoldenSuite, ShowsTheLinesThatDiffer) {
  EXPECT_EQ(line_diff("a\nb\nc\nd\ne\nf\n", "a\nb\nc\nd\nx\nf\n"),
            "  ...\n  b\n  c\n  d\n- e\n+ x\n  f\n");
  EXPECT_EQ(line_diff("", "x\n"), "+ x\n");
}

TEST(PassTable, UnknownPassesAreNamed) {
  EXPECT_EQ(compiler::parse_pass("expand-collective-matmuls<64>").argument, 64);
  EXPECT_EQ(compiler::parse_pass("expand-collective-matmuls").argument, std::nullopt);
  for (const char* text : {"", "window", "eliminate-dead<1>", "expand-collective-matmuls<",
                           "expand-collective-matmuls<>", "expand-collective-matmuls<x>",
                           "expand-collective-matmuls<-1>", "expand-collective-matmuls<1>2"}) {
    EXPECT_THROW(compiler::parse_pass(text), ValueError) << text;
  }
}

}  // namespace
}  // namespace tessera::testing
