// SPDX-License-Identifier: Apache-2.0
// save_safetensors and load_safetensors: trees and files of other programs.
#include <tessera/safetensors.h>

#include <tessera/jit.h>
#include <tessera/ops.h>

#include "src/base/safetensors.h"
#include "tests/frontend/checkpoint_testing.h"

namespace tessera::testing {
namespace safetensors_files_test {

class SafetensorsFiles : public FolderTest {};

struct Layer {
  Array w, b;
};
TESSERA_TREE(Layer, w, b)
struct Model {
  std::vector<Layer> layers;
  std::map<std::string, Array> tables;
  int width = 0;
};
TESSERA_TREE(Model, layers, tables, width)

TEST_F(SafetensorsFiles, TreesComeBackByName) {
  const Mesh mesh = make_mesh({{"x", 2}, {"y", 4}});
  const std::string file = path("model.safetensors");
  const Model model{{{put(counting({8, 4}), mesh, P("y", "x")), counting({4}, 2)},
                     {astype(counting({4, 2}), bf16), ones({2})}},
                    {{"wte.weight", counting({3, 2}, 3)}},
                    7};
  save_safetensors(file, model, {.metadata = {{"format", "pt"}}});
  const Model back = load_safetensors(file, model);
  const auto have = tree_leaves(back), want = tree_leaves(model);
  for (std::size_t i = 0; i < want.size(); ++i) expect_same(have[i], want[i]);
  EXPECT_EQ(back.layers[0].w.sharding(), model.layers[0].w.sharding());
  EXPECT_EQ(back.width, 7);
  const auto all = load_safetensors_arrays(file);
  std::vector<std::string> keys;
  for (const auto& [key, array] : all) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"layers.0.b", "layers.0.w", "layers.1.b", "layers.1.w",
                                            "tables.wte.weight"}));
  expect_same(all.at("layers.0.w"), counting({8, 4}));
  EXPECT_FALSE(all.at("layers.0.w").committed());
  EXPECT_EQ(safetensors_metadata(file), (std::map<std::string, std::string>{{"format", "pt"}}));
  // A file is the same whatever the sharding.
  const std::string before = contents(file);
  save_safetensors(file, device_put(model, NamedSharding(mesh, P())),
                   {.metadata = {{"format", "pt"}}});
  EXPECT_EQ(contents(file), before);
  // One array, and none.
  save_safetensors(file, ones({2}));
  expect_same(load_safetensors_arrays(file).at("array"), ones({2}));
  expect_same(load_safetensors(file, zeros({2})), ones({2}));
  save_safetensors(file, std::vector<Array>{});
  EXPECT_TRUE(load_safetensors_arrays(file).empty());
}

TEST_F(SafetensorsFiles, AllDtypesComeBack) {
  std::map<std::string, Array> tree;
  for (int t = 0; t < int(DType::token); ++t) {
    Literal bits(Shape(DType(t), {3, 5}));
    for (std::size_t i = 0; i < bits.byte_count(); ++i) bits.mutable_bytes()[i] = std::byte(i % 2);
    canonicalise(DType(t), bits.mutable_bytes(), std::size_t(bits.element_count()));
    tree[std::string(name(DType(t)))] = frontend::from_literal(bits);
  }
  save_safetensors(path("all.safetensors"), tree);
  const auto back = load_safetensors_arrays(path("all.safetensors"));
  ASSERT_EQ(back.size(), tree.size());
  for (const auto& [key, want] : tree) {
    SCOPED_TRACE(key);
    expect_same(back.at(key), want);
  }
}

TEST_F(SafetensorsFiles, ReadsWhatPythonWrote) {
  const std::string fixtures = std::string(TESSERA_SOURCE_DIR) + "/tests/fixtures/safetensors/";
  const auto all = load_safetensors_arrays(fixtures + "counting.safetensors");
  const std::map<std::string, DType> types{
      {"BOOL", pred},
      {"U8", u8},
      {"I8", s8},
      {"I16", s16},
      {"U16", u16},
      {"I32", s32},
      {"U32", u32},
      {"I64", s64},
      {"U64", u64},
      {"F16", f16},
      {"F32", f32},
      {"F64", f64},
      {"C64", c64},
      {"BF16", bf16},
      {"F8_E4M3", DType::f8e4m3fn},
      {"F8_E5M2", DType::f8e5m2},
      {"F8_E8M0", DType::f8e8m0fnu},
      {"F8_E4M3FNUZ", DType::f8e4m3fnuz},
      {"F8_E5M2FNUZ", DType::f8e5m2fnuz},
  };
  EXPECT_EQ(all.size(), types.size() + 2);
  for (const auto& [key, dtype] : types) {
    SCOPED_TRACE(key);
    const Array& x = all.at(key);
    EXPECT_EQ(x.dtype(), dtype);
    EXPECT_EQ(x.shape(), (std::vector<std::int64_t>{2, 3}));
    const std::vector<float> values = floats(astype(dtype == c64 ? real(x) : x, f32));
    EXPECT_EQ(values, dtype == pred ? std::vector<float>(6, 1.f)
                                    : (std::vector<float>{1, 2, 4, 8, 16, 32}));
  }
  EXPECT_EQ(all.at("model.scalar").item<float>(), 7);
  EXPECT_EQ(all.at("model.empty").shape(), (std::vector<std::int64_t>{0, 4}));
  EXPECT_EQ(safetensors_metadata(fixtures + "counting.safetensors").at("note"), "a \"note\"");
  // Two elements a byte.
  const Mesh mesh = make_mesh({{"x", 2}});
  for (const ShardingTree& to :
       {ShardingTree(), ShardingTree(NamedSharding(mesh, P(nullptr, "x")))}) {
    const Array f4 =
        load_safetensors_arrays(fixtures + "f4.safetensors", {.sharding = to}).at("f4");
    EXPECT_EQ(f4.dtype(), DType::f4e2m1fn);
    EXPECT_EQ(f4.shape(), (std::vector<std::int64_t>{2, 4}));
    EXPECT_EQ(floats(astype(f4, f32)), (std::vector<float>{0.5, 1, 1.5, 2, 3, 4, 6, -6}));
  }
}

/// The other way round, where there is that package.
TEST_F(SafetensorsFiles, PythonReadsWhatIsWritten) {
  if (std::system("python3 -c 'import numpy, safetensors.numpy' >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "python3 has no safetensors";
  }
  const Mesh mesh = make_mesh({{"x", 2}, {"y", 4}});
  const std::map<std::string, Array> tree{{"w", put(counting({4, 8}), mesh, P("x", "y"))},
                                          {"odd", ones({3}, s8)},
                                          {"flag", array({1, 0, 1}, pred)},
                                          {"big", counting({2}, 0.5f)},
                                          {"empty", zeros({0, 2}, f16)}};
  save_safetensors(path("w.safetensors"), tree, {.metadata = {{"format", "np"}}});
  save_checkpoint(path("run"), tree, 1);
  write(path("check.py"), R"(import sys
import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file
want = {'w': np.arange(32, dtype=np.float32).reshape(4, 8), 'odd': np.ones(3, np.int8),
        'flag': np.array([True, False, True]), 'big': np.array([0, 0.5], np.float32),
        'empty': np.zeros((0, 2), np.float16)}
have = load_file(sys.argv[1] + '/w.safetensors')
assert have.keys() == want.keys()
for name, array in want.items():
    assert have[name].dtype == array.dtype and np.array_equal(have[name], array), name
assert safe_open(sys.argv[1] + '/w.safetensors', 'np').metadata() == {'format': 'np'}
parts = load_file(sys.argv[1] + '/run/step_00000001/arrays-0-0.safetensors')
assert np.array_equal(parts['odd'], want['odd'])
w = np.full((4, 8), -1, np.float32)
for name, part in parts.items():
    if name.startswith('w['):
        rows, columns = (slice(*map(int, p.split(':'))) for p in name[2:-1].split(','))
        w[rows, columns] = part
assert np.array_equal(w, want['w'])
)");
  EXPECT_EQ(std::system(("python3 " + path("check.py") + " " + folder_.string()).c_str()), 0);
}

TEST_F(SafetensorsFiles, BooleansOfOthersAreBrought0Or1) {
  const std::string json = R"({"b":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})";
  write(path("b.safetensors"), std::string(1, char(json.size())) + std::string(7, '\0') + json +
                                   std::string("\x02\x00\xff", 3));
  const Array b = load_safetensors_arrays(path("b.safetensors")).at("b");
  EXPECT_EQ(b.to_vector<bool>(), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(sum(astype(b, s32)).item<int>(), 2);
}

TEST_F(SafetensorsFiles, WhatDoesNotFitIsAnErrorThatNamesIt) {
  using Tree = std::map<std::string, Array>;
  const std::string file = path("x.safetensors");
  save_safetensors(file, Tree{{"a", ones({6})}, {"b", ones({2})}});
  expect_error<ValueError>(
      [&] {
        load_safetensors(file, Tree{{"a", ones({6})}});
      },
      {file, "no places for the arrays 'b'", "strict = false", kNear});
  expect_same(load_safetensors(file, Tree{{"a", zeros({6})}}, {.strict = false}).at("a"),
              ones({6}));
  expect_error<ValueError>(
      [&] {
        load_safetensors(file, Tree{{"a", ones({6})}, {"c", ones({6})}}, {.strict = false});
      },
      {"lacks the arrays 'c'", "its arrays 'b'", kNear});
  expect_error<ShapeError>(
      [&] {
        load_safetensors(file, Tree{{"a", ones({3, 2})}, {"b", ones({2})}});
      },
      {"'a'", "f32[6]", "f32[3,2]", kNear});
  expect_error<DTypeError>(
      [&] {
        load_safetensors(file, Tree{{"a", ones({6}, s32)}, {"b", ones({2})}});
      },
      {"'a'", "f32[6]", "s32[6]", kNear});
  const NamedSharding eight(make_mesh({{"x", 8}}), P("x"));
  expect_error<IndivisibleError>([&] { load_safetensors_arrays(file, {.sharding = eight}); },
                                 {"'a'", "6", kNear});
  expect_error<ValueError>(
      [&] {
        load_safetensors_arrays(file, {.sharding = dict({{"a", eight}})});
      },
      {"one sharding", kNear});
  struct Ambiguous {
    Tree a;
    std::map<std::string, Tree> b;
  };
  expect_error<ValueError>(
      [&] {
        save_safetensors(file, std::map<std::string, std::variant<Array, Tree>>{
                                   {"a.b", ones({1})}, {"a", Tree{{"b", ones({1})}}}});
      },
      {"the same name, 'a.b'", "['a']['b']", "['a.b']", kNear});
  expect_error<ValueError>(
      [&] {
        save_safetensors(file, Tree{{"__metadata__", ones({1})}});
      },
      {"__metadata__", kNear});
  expect_error<ValueError>(
      [&] {
        save_safetensors(file, Tree{{"\xff", ones({1})}});
      },
      {"UTF-8", kNear});
  Array gone = ones({1});
  gone.delete_();
  expect_error<RuntimeError>(
      [&] {
        save_safetensors(file, Tree{{"gone", gone}});
      },
      {"['gone']", "deleted", kNear});
  jit([&](Array x) {
    expect_error<TracerError>([&] { save_safetensors(file, x); }, {"traced", kNear});
    return x;
  })(ones({1}));
  // None of these touched the file.
  EXPECT_EQ(load_safetensors_arrays(file).size(), 2u);
  EXPECT_EQ(names(folder_.string()), std::vector<std::string>{"x.safetensors"});
  expect_error<IoError>([&] { save_safetensors("/dev/full", ones({100})); },
                        {"/dev/full", "No space left", kNear});
  expect_error<IoError>([&] { save_safetensors(path("no/x"), ones({1})); },
                        {path("no/x"), "No such file", kNear});
  expect_error<IoError>([&] { load_safetensors_arrays(path("none")); },
                        {path("none"), "No such file", kNear});
  expect_error<IoError>([&] { load_safetensors_arrays(folder_.string()); },
                        {folder_.string(), kNear});
  const std::string whole = contents(file);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    write(file, whole.substr(0, at));
    expect_error<IoError>([&] { load_safetensors_arrays(file); }, {file, kNear});
  }
}

}  // namespace safetensors_files_test
}  // namespace tessera::testing
