// SPDX-License-Identifier: Apache-2.0
// save_safetensors and load_safetensors: trees and files of other programs.
#include <tessera/safetensors.h>

#include <tessera/jit.h>
#include <tessera/ops.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "src/base/files/safetensors.h"
#include "tests/frontend/checkpoint/checkpoint_testing.h"

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

/// A file as the format's description has it, read without the library.
struct PlainFile {
  explicit PlainFile(const std::string& bytes) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    EXPECT_EQ(length % 8, 0u);
    header = nlohmann::json::parse(bytes.substr(8, length));
    data = bytes.substr(8 + length);
  }
  std::string of(const std::string& name) const {
    const auto& at = header.at(name).at("data_offsets");
    return data.substr(at[0], at[1].get<std::size_t>() - at[0].get<std::size_t>());
  }
  nlohmann::json header;
  std::string data;
};

/// The other way round: what is written has what Python writes of the same arrays.
TEST_F(SafetensorsFiles, AreThoseThatPythonWrites) {
  const std::string file =
      std::string(TESSERA_SOURCE_DIR) + "/tests/fixtures/safetensors/counting.safetensors";
  save_safetensors(path("again.safetensors"), load_safetensors_arrays(file),
                   {.metadata = safetensors_metadata(file)});
  const PlainFile want(contents(file)), have(contents(path("again.safetensors")));
  EXPECT_EQ(have.header.size(), want.header.size());
  EXPECT_EQ(have.data.size(), want.data.size());
  for (const auto& [name, entry] : want.header.items()) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(have.header.contains(name));
    if (name == "__metadata__") {
      EXPECT_EQ(have.header.at(name), entry);
      continue;
    }
    EXPECT_EQ(have.header.at(name).at("dtype"), entry.at("dtype"));
    EXPECT_EQ(have.header.at(name).at("shape"), entry.at("shape"));
    EXPECT_EQ(have.of(name), want.of(name));
  }
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
