// SPDX-License-Identifier: Apache-2.0
// Bytecode that is written gives the module whose text it stands for.
#include <filesystem>

#include "src/ir/hlo/hlo_text.h"
#include "src/ir/post_order.h"
#include "src/text/bytecode/byte_writer.h"
#include "src/text/bytecode/bytecode.h"
#include "src/text/bytecode/bytes.h"
#include "src/text/write/stablehlo.h"
#include "tests/support/random_program.h"
#include "tests/support/random_sdy.h"
#include "tests/text/programs.h"
#include "tests/text/write_cases.h"

namespace tessera::text::testing {
namespace {

namespace fs = std::filesystem;

std::string bytecode_of(const ir::Module& module, bool locations = false) {
  WriteOptions options;
  options.locations = locations;
  return to_bytecode(module, options);
}

/// Through bytecode and through text the same comes back, and equal modules give equal bytes.
void expect_same_as_text(const ir::Module& module, const std::string& who) {
  SCOPED_TRACE(who);
  std::string text;
  try {
    text = to_stablehlo(module);
  } catch (const NotImplementedError&) {
    EXPECT_THROW(bytecode_of(module), NotImplementedError);
    return;
  }
  const std::string bytes = bytecode_of(module);
  ASSERT_TRUE(is_bytecode(bytes));
  EXPECT_EQ(bytecode_of(module), bytes);
  const auto of_text = parse_stablehlo(text, "t.mlir");
  const auto of_bytes = parse_bytecode(bytes, "t.mlirbc");
  EXPECT_EQ(to_stablehlo(*of_bytes), to_stablehlo(*of_text));
  ir::PrintOptions options;
  options.canonical = true;
  options.axis_names = true;
  // vhlo can't tell an empty configuration from none.
  std::string want = ir::to_string(*of_text, options);
  for (const std::string empty : {", backend_config={}", ", outfeed_config=\"\""}) {
    for (std::size_t at; (at = want.find(empty)) != std::string::npos;)
      want.erase(at, empty.size());
  }
  EXPECT_EQ(ir::to_string(*of_bytes, options), want);
  EXPECT_EQ(of_bytes->name, of_text->name);
}

TEST(WriteBytecode, CasesOfText) {
  for (const WriteCase& c : write_cases()) {
    expect_same_as_text(*module_of(c.hlo), c.name);
  }
}

TEST(WriteBytecode, EveryTextOfTheTests) {
  int read = 0;
  for (const auto& entry :
       fs::recursive_directory_iterator(std::string(TESSERA_SOURCE_DIR) + "/tests")) {
    if (entry.path().extension() != ".mlir") continue;
    std::unique_ptr<ir::Module> module;
    try {
      module = parse_stablehlo(read_file(entry.path().string()), "t.mlir");
    } catch (const ParseError&) {
      continue;  // a text that is to be refused
    } catch (const NotImplementedError&) {
      continue;
    }
    ++read;
    expect_same_as_text(*module, entry.path().string());
  }
  EXPECT_GT(read, 100);
}

TEST(WriteBytecode, RandomModules) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    const std::string who = "seed " + std::to_string(seed);
    expect_same_as_text(*tessera::testing::random_program(seed).module, who);
    expect_same_as_text(*parse_stablehlo(tessera::testing::random_sdy(seed).annotated), who);
  }
}

// Each instruction keeps its line; values that only carry others have none.
TEST(WriteBytecode, Lines) {
  const auto module = module_of(R"(HloModule t
ENTRY e {
  p = f32[4] parameter(0), metadata={op_name="weights" source_file="g.py" source_line=3}
  ROOT n = f32[4] negate(p), metadata={op_name="jit(f)/neg" source_file="f.py" source_line=12}
}
)");
  const auto root = [](const std::string& bytes) {
    return parse_bytecode(bytes)->entry()->root()->metadata;
  };
  EXPECT_EQ(root(bytecode_of(*module, true))->op_name, "jit(f)/neg");
  EXPECT_EQ(root(bytecode_of(*module, true))->source_file, "f.py");
  EXPECT_EQ(root(bytecode_of(*module, true))->source_line, 12);
  EXPECT_EQ(root(bytecode_of(*module))->op_name, "");
  const auto argument = parse_bytecode(bytecode_of(*module, true))->entry()->parameter(0)->metadata;
  EXPECT_EQ(argument->op_name, "weights");
  EXPECT_EQ(argument->source_line, 3);
}

TEST(WriteBytecode, WhatHasNoFormIsNamed) {
  const auto module = module_of(R"(HloModule t
ENTRY e {
  p = f32[4] parameter(0)
  ROOT c = f32[4] custom-call(p), custom_call_target="f", api_version=API_VERSION_TYPED_FFI, backend_config="{a = #other.attribute<1>, b = c d}"
}
)");
  try {
    bytecode_of(*module);
    ADD_FAILURE();
  } catch (const NotImplementedError& e) {
    EXPECT_NE(e.message().find("an attribute of stablehlo.custom_call has no form in bytecode"),
              std::string::npos)
        << e.message();
  }
}

TEST(ByteWriter, Numbers) {
  ByteWriter out;
  std::vector<std::uint64_t> numbers{0, 1};
  for (int bit = 1; bit < 64; ++bit) {
    for (int more : {-1, 0, 1}) numbers.push_back((std::uint64_t(1) << bit) + std::uint64_t(more));
  }
  for (std::uint64_t n : numbers) {
    out.varint(n);
    out.signed_varint(std::int64_t(n));
  }
  const BytecodeSource source{out.bytes(), "f"};
  ByteReader in(source, out.bytes());
  for (std::uint64_t n : numbers) {
    EXPECT_EQ(in.varint(), n);
    EXPECT_EQ(in.signed_varint(), std::int64_t(n));
  }
  EXPECT_TRUE(in.empty());
}

}  // namespace
}  // namespace tessera::text::testing
