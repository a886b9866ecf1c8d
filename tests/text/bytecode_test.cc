// SPDX-License-Identifier: Apache-2.0
// Bytecode that jaxlib wrote gives the module that its text gives; damaged bytes give errors.
#include "src/text/bytecode/bytecode.h"

#include <algorithm>
#include <filesystem>
#include <random>

#include "src/ir/hlo/hlo_text.h"
#include "src/ir/post_order.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/text/bytecode/bytes.h"
#include "tests/text/programs.h"

namespace tessera::text {
namespace {

namespace fs = std::filesystem;

const std::string kFolder = std::string(TESSERA_SOURCE_DIR) + "/tests/fixtures/bytecode/";

/// `layer.1.17.0` of each file.
std::vector<std::string> bytecode_files() {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".mlirbc") out.push_back(entry.path().stem().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string bytes_of(const std::string& name) { return read_file(kFolder + name + ".mlirbc"); }

/// What an error says; empty if there is none.
std::string bytecode_error(const std::string& bytes, std::string* location = nullptr) {
  try {
    ir::verify(*parse_bytecode(bytes, "f.mlirbc"));
  } catch (const InternalError& e) {
    return std::string("internal: ") + e.what();
  } catch (const Error& e) {
    if (location != nullptr) *location = e.location().to_string();
    return e.message();
  }
  return "";
}

void replace(std::string* bytes, const std::string& from, const std::string& to) {
  const std::size_t at = bytes->find(from);
  ASSERT_NE(at, std::string::npos) << from;
  bytes->replace(at, from.size(), to);
}

class Bytecode : public testing::TestWithParam<std::string> {};

TEST_P(Bytecode, GivesTheModuleOfItsText) {
  const std::string program = GetParam().substr(0, GetParam().find('.'));
  const std::string file = program + ".mlir";
  const auto of_text = parse_stablehlo(read_file(kFolder + file), file);
  const auto of_bytes = parse_bytecode(bytes_of(GetParam()), GetParam());
  ir::PrintOptions options;
  options.canonical = true;
  options.axis_names = true;
  EXPECT_EQ(ir::to_string(*of_bytes, options), ir::to_string(*of_text, options));
  EXPECT_EQ(of_bytes->name, of_text->name);

  // Lines and paths of the user's program. The text has none where it is short, as in reducers.
  const auto want = ir::post_order({of_text->entry()}), got = ir::post_order({of_bytes->entry()});
  ASSERT_EQ(got.size(), want.size());
  int located = 0;
  for (std::size_t c = 0; c < want.size(); ++c) {
    ASSERT_EQ(got[c]->instructions().size(), want[c]->instructions().size());
    for (std::size_t n = 0; n < want[c]->instructions().size(); ++n) {
      const ir::Metadata& w = *want[c]->instructions()[n]->metadata;
      const ir::Metadata& g = *got[c]->instructions()[n]->metadata;
      if (!w.op_name.empty()) {
        EXPECT_EQ(g.op_name, w.op_name);
      }
      if (w.source_file.empty() || w.source_file == file) continue;
      ++located;
      EXPECT_EQ(g.source_file, w.source_file);
      EXPECT_EQ(g.source_line, w.source_line);
    }
  }
  EXPECT_EQ(located > 0, program != "quantized");
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string out = info.param;
  std::replace(out.begin(), out.end(), '.', '_');
  return out;
}

INSTANTIATE_TEST_SUITE_P(Files, Bytecode, testing::ValuesIn(bytecode_files()), test_name);

TEST(BytecodeErrors, EveryCutIsAnError) {
  for (const char* name : {"control.1.17.0", "control.0.9.0", "sharded.native"}) {
    const std::string bytes = bytes_of(name);
    for (std::size_t n = 0; n < bytes.size(); ++n) {
      const std::string error = bytecode_error(bytes.substr(0, n));
      EXPECT_NE(error, "") << name << " " << n;
      EXPECT_EQ(error.find("internal"), std::string::npos) << error;
    }
  }
}

// Each change of a byte is refused or gives a module that verifies.
TEST(BytecodeErrors, ChangedBytesAreNeverMisread) {
  std::mt19937 random(7);
  int refused = 0, with_line = 0;
  for (const std::string& name : bytecode_files()) {
    const std::string whole = bytes_of(name);
    for (int trial = 0; trial < 60; ++trial) {
      std::string bytes = whole;
      // The second half holds the operations.
      const std::size_t half = trial % 2 == 0 ? 0 : bytes.size() / 2;
      bytes[half + random() % (bytes.size() - half)] = char(random());
      std::string location;
      const std::string error = bytecode_error(bytes, &location);
      EXPECT_EQ(error.find("internal"), std::string::npos) << name << ": " << error;
      refused += error.empty() ? 0 : 1;
      with_line += location.find("make_bytecode.py:") == std::string::npos ? 0 : 1;
    }
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(with_line, 100);
}

TEST(BytecodeErrors, NameTheOperationAndTheLine) {
  std::string bytes = bytes_of("layer.1.17.0"), location;
  replace(&bytes, "tanh_v2", "tanx_v2");
  std::string error = bytecode_error(bytes, &location);
  EXPECT_NE(error.find("in vhlo.tanx_v2"), std::string::npos) << error;
  EXPECT_NE(error.find("byte "), std::string::npos) << error;
  EXPECT_NE(error.find("of f.mlirbc"), std::string::npos) << error;
  EXPECT_EQ(location.substr(0, 17), "make_bytecode.py:") << location;

  bytes = bytes_of("layer.1.17.0");
  replace(&bytes, "dot_general_v2", "dot_general_v9");
  error = bytecode_error(bytes, &location);
  EXPECT_NE(error.find("the properties of operation 'vhlo.dot_general_v9' aren't known"),
            std::string::npos)
      << error;
  EXPECT_EQ(location.substr(0, 17), "make_bytecode.py:") << location;

  // Operands that don't fit: add of what was a product.
  bytes = bytes_of("layer.1.17.0");
  replace(&bytes, "reshape_v1", "reverse_v1");
  error = bytecode_error(bytes, &location);
  EXPECT_NE(error.find("stablehlo.reverse"), std::string::npos) << error;
}

TEST(BytecodeErrors, OtherVersionsOfTheFormat) {
  std::string bytes = bytes_of("layer.1.17.0");
  bytes[4] = 15;  // 7
  EXPECT_EQ(bytecode_error(bytes),
            "byte 4 of f.mlirbc: version 7 of MLIR's bytecode isn't supported; valid: 0 to 6");
  EXPECT_NE(bytecode_error("ML\xefR").find("cut off or damaged"), std::string::npos);
  EXPECT_NE(bytecode_error("module {}").find("doesn't begin with"), std::string::npos);
}

TEST(ByteReader, Numbers) {
  const std::string bytes("\x03\x06\x01\xfe\xff\x00\xff\xff\xff\xff\xff\xff\xff\x7f\x07", 15);
  const BytecodeSource source{bytes, "f"};
  ByteReader in(source, bytes);
  EXPECT_EQ(in.varint(), 1u);
  EXPECT_EQ(in.varint(), 0x41u);
  EXPECT_EQ(in.varint(), 0x3fffu);
  EXPECT_EQ(in.varint(), 0x7fffffffffffffffu);
  EXPECT_EQ(in.signed_varint(), -2);
  EXPECT_TRUE(in.empty());
  EXPECT_THROW(in.varint(), ParseError);
}

}  // namespace
}  // namespace tessera::text
