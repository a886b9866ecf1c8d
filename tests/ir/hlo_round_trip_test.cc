// SPDX-License-Identifier: Apache-2.0
// parse∘print is the identity, on real texts of both JAX versions and on random programs.
#include <algorithm>
#include <filesystem>
#include <set>

#include "src/ir/shapes/shape_inference.h"
#include "tests/ir/first_difference.h"
#include "tests/ir/text_cases.h"
#include "tests/support/random_program.h"

namespace tessera::ir::testing {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> data_files() {
  std::vector<std::string> out;
  fs::path root = fs::path(TESSERA_SOURCE_DIR) / "tests/ir/data";
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().extension() == ".hlo") {
      out.push_back(fs::relative(entry.path(), root).string());
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string text_of(const std::string& file) {
  return read_file(std::string(TESSERA_SOURCE_DIR) + "/tests/ir/data/" + file);
}

// For tests/peers/check_hlo_parses.py.
void keep_printed(const std::string& name, const std::string& text) {
  std::string flat = name;
  std::replace(flat.begin(), flat.end(), '/', '_');
  fs::create_directories("ir_printed");
  std::ofstream("ir_printed/" + flat, std::ios::binary) << text;
}

void check_round_trip(const Module& m, const std::string& name) {
  std::string printed = to_string(m);
  auto again = parse_hlo(printed, name + ".printed");
  EXPECT_EQ(first_difference(m, *again, false), "");
  EXPECT_EQ(to_string(*again), printed) << "the text is not stable";

  PrintOptions named;
  named.axis_names = true;
  std::string with_names = to_string(m, named);
  auto third = parse_hlo(with_names, name + ".named");
  // Where nothing is split the text doesn't say on which mesh.
  const bool says_mesh = with_names.find("{replicated}") == std::string::npos ||
                         with_names.find("devices=") != std::string::npos;
  if (says_mesh) {
    EXPECT_EQ(first_difference(m, *third, true), "");
  }
  EXPECT_EQ(to_string(*third, named), with_names);

  PrintOptions shapes;
  shapes.operand_shapes = true;
  EXPECT_EQ(to_string(*parse_hlo(to_string(m, shapes))), printed);

  auto copy = m.clone();
  verify(*copy);
  EXPECT_EQ(to_string(*copy, named), with_names);
  EXPECT_EQ(first_difference(*copy, m), "");
  keep_printed(name, printed);
  keep_printed("named_" + name, with_names);
}

class HloFile : public ::testing::TestWithParam<std::string> {};

TEST_P(HloFile, RoundTrip) {
  auto m = parse_hlo(text_of(GetParam()), GetParam());
  verify(*m);
  check_round_trip(*m, GetParam());
}

INSTANTIATE_TEST_SUITE_P(All, HloFile, ::testing::ValuesIn(data_files()), [](const auto& info) {
  std::string name = info.param;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
});

TEST(HloFiles, AreThere) { EXPECT_GE(data_files().size(), 30u); }

// The file is in the printed form: each attribute of each opcode is printed as XLA writes it.
TEST(HloFiles, AllOpsPrintAsTheyStand) {
  std::string text = text_of("all_ops.hlo");
  auto m = parse_hlo(text);
  EXPECT_EQ(to_string(*m), text);
  std::set<Opcode> seen;
  for (const auto& c : m->computations()) {
    for (const auto& i : c->instructions()) seen.insert(i->opcode);
  }
  for (int op = 0; op < opcode_count(); ++op) {
    // scan has no text that XLA accepts without its own verifier's rules; see the forms' test.
    if (Opcode(op) == Opcode::scan) continue;
    EXPECT_EQ(seen.count(Opcode(op)), 1u) << name(Opcode(op));
  }
}

TEST(HloFiles, JaxTextsPrintAsTheyStand) {
  for (const char* version : {"jax_0.4.30/", "jax_0.10.2/"}) {
    for (const char* file : {"while", "cond", "switch", "scatter", "sort", "topk"}) {
      std::string name = version + std::string(file) + ".hlo";
      std::string text = text_of(name);
      EXPECT_EQ(to_string(*parse_hlo(text, name)), text) << name;
    }
  }
}

TEST(RandomModules, RoundTrip) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto program = tessera::testing::random_program(seed);
    verify(*program.module);
    if (seed % 3 == 0) {
      tessera::testing::Dice dice(seed);
      tessera::testing::shard_randomly(dice, program.module.get());
    }
    check_round_trip(*program.module, "random_" + std::to_string(seed) + ".hlo");
    if (HasFailure()) {
      ADD_FAILURE() << to_string(*program.module);
      return;
    }
  }
}

}  // namespace
}  // namespace tessera::ir::testing
