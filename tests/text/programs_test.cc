// SPDX-License-Identifier: Apache-2.0
// What JAX printed is read, and computes what JAX computed.
#include <algorithm>
#include <filesystem>

#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/text/read/stablehlo.h"
#include "tests/text/programs.h"

namespace tessera::text {
namespace {

namespace fs = std::filesystem;

const std::string kCorpus = std::string(TESSERA_SOURCE_DIR) + "/tests/corpus/";
const std::string kFixtures = std::string(TESSERA_SOURCE_DIR) + "/tests/fixtures/text/";

std::vector<std::string> corpus() {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(kCorpus)) {
    if (entry.is_directory()) out.push_back(entry.path().filename().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> fixtures() {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(kFixtures)) {
    if (entry.path().extension() == ".mlir") out.push_back(entry.path().stem().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string name_of(const testing::TestParamInfo<std::string>& info) { return info.param; }

// The number behind a key of a small JSON file.
double number_in(const std::string& json, const std::string& key) {
  std::size_t at = json.find("\"" + key + "\"");
  EXPECT_NE(at, std::string::npos);
  return std::stod(json.substr(json.find(':', at) + 1));
}

bool calls_lapack(const ir::Module& module) {
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) {
      if (i->is(ir::Opcode::custom_call) &&
          i->get<ir::CustomCallAttrs>().target.find("lapack_") == 0) {
        return true;
      }
    }
  }
  return false;
}

class Corpus : public testing::TestWithParam<std::string> {};

TEST_P(Corpus, PlainProgramGivesItsOutputs) {
  const std::string folder = kCorpus + GetParam() + "/";
  auto module = parse_stablehlo(read_file(folder + "plain.mlir"), "plain.mlir");
  ir::verify(*module);
  // The evaluator alone has no LAPACK: the command's tests run such a program.
  if (!calls_lapack(*module)) {
    expect_outputs(*module, folder, number_in(read_file(folder + "plain.json"), "tol"));
  }
}

TEST_P(Corpus, ShardedVariantsHaveTheirMeshAndShardings) {
  for (const char* variant : {"s0", "s1", "s2"}) {
    const std::string file = kCorpus + GetParam() + "/" + variant;
    if (!fs::exists(file + ".mlir")) continue;
    auto module = parse_stablehlo(read_file(file + ".mlir"), file + ".mlir");
    ir::verify(*module);
    auto hlo = ir::parse_hlo(read_file(file + ".hlo"), file + ".hlo");
    EXPECT_EQ(module->num_partitions, 8);
    ASSERT_TRUE(module->mesh);
    EXPECT_EQ(module->mesh->num_devices(), 8);
    const auto& ours = module->entry()->parameters();
    const auto& theirs = hlo->entry()->parameters();
    ASSERT_EQ(ours.size(), theirs.size());
    for (std::size_t n = 0; n < ours.size(); ++n) {
      EXPECT_EQ(ours[n]->shape, theirs[n]->shape);
      ASSERT_EQ(ours[n]->sharding.size(), 1u) << file << " argument " << n;
      ASSERT_EQ(theirs[n]->sharding.size(), 1u);
      EXPECT_EQ(ours[n]->sharding[0].to_spec_string(), theirs[n]->sharding[0].to_spec_string())
          << file << " argument " << n;
    }
    const ir::Instruction* root = module->entry()->root();
    const ir::Instruction* other = hlo->entry()->root();
    ASSERT_EQ(root->shape, other->shape) << file;
    ASSERT_EQ(root->sharding.size(), other->sharding.size()) << file;
    for (std::size_t n = 0; n < root->sharding.size(); ++n) {
      EXPECT_EQ(root->sharding[n].shards(), other->sharding[n].shards()) << file;
    }
    // As HLO text it can be read again.
    const std::string text = ir::to_string(*module);
    EXPECT_EQ(ir::to_string(*ir::parse_hlo(text)), text) << file;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Corpus, testing::ValuesIn(corpus()), name_of);

class Fixture : public testing::TestWithParam<std::string> {};

TEST_P(Fixture, GivesItsOutputs) {
  const std::string prefix = kFixtures + GetParam();
  auto module = parse_stablehlo(read_file(prefix + ".mlir"), GetParam() + ".mlir");
  ir::verify(*module);
  if (fs::exists(prefix + ".out0.npy")) expect_outputs(*module, prefix + ".", 2e-5);
  const std::string text = ir::to_string(*module);
  EXPECT_EQ(ir::to_string(*ir::parse_hlo(text)), text);
}

INSTANTIATE_TEST_SUITE_P(All, Fixture, testing::ValuesIn(fixtures()), name_of);

}  // namespace
}  // namespace tessera::text
