// SPDX-License-Identifier: Apache-2.0
// Checkpoints: what is saved comes back, on any mesh, and what doesn't fit is an error.
#include <tessera/checkpoint.h>

#include <tessera/jit.h>
#include <tessera/ops.h>
#include <tessera/random.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <random>

#include "src/frontend/checkpoint/tensor_files.h"
#include "tests/frontend/checkpoint/checkpoint_testing.h"

namespace tessera::testing {
namespace checkpoint_test {

class Checkpoints : public FolderTest {};

/// All values of a dtype that are stored as they are, in some order.
Literal some_bits(DType dtype, Dims dims) {
  Literal out(Shape(dtype, std::move(dims)));
  std::mt19937 random(7);
  std::byte* bytes = out.mutable_bytes();
  for (std::size_t i = 0; i < out.byte_count(); ++i) bytes[i] = std::byte(random() & 0xff);
  canonicalise(dtype, bytes, std::size_t(out.element_count()));
  return out;
}

TEST_F(Checkpoints, AllDtypesComeBackBitForBit) {
  const Mesh mesh = make_mesh({{"x", 2}, {"y", 4}});
  std::map<std::string, Array> tree;
  for (int t = 0; t < int(DType::token); ++t) {
    const std::string type(name(DType(t)));
    tree[type] = frontend::from_literal(some_bits(DType(t), {4, 8}));
    tree[type + " in parts"] = put(tree[type], mesh, P("y", "x"));
    tree[type + " scalar"] = frontend::from_literal(some_bits(DType(t), {}));
    tree[type + " empty"] = frontend::from_literal(some_bits(DType(t), {0, 3}));
  }
  save_checkpoint(path("run"), tree, 3);
  const auto back = restore_checkpoint(path("run"), tree);
  ASSERT_EQ(back.size(), tree.size());
  for (const auto& [key, want] : tree) {
    SCOPED_TRACE(key);
    expect_same(back.at(key), want);
    EXPECT_EQ(back.at(key).sharding(), want.sharding());
    EXPECT_EQ(back.at(key).committed(), want.committed());
  }
  EXPECT_EQ(verify_checkpoint(path("run")), std::vector<std::string>());
}

TEST_F(Checkpoints, AnyShardingIsRestoredAsAnyOther) {
  const Mesh two = make_mesh({{"x", 2}, {"y", 4}}),
             three = make_mesh({{"a", 2}, {"b", 2}, {"c", 2}}),
             four(std::vector<Device>(devices().begin() + 2, devices().begin() + 6), {4}, {"z"});
  const Array x = counting({8, 16, 2});
  const std::vector<Sharding> shardings{
      NamedSharding(two, P()),
      NamedSharding(two, P("x")),
      NamedSharding(two, P("y", "x")),
      NamedSharding(two, P(nullptr, axes("x", "y"))),
      NamedSharding(three, P("a", "c", "b")),
      NamedSharding(three, P(axes("c", "a"), nullptr, "b")),
      NamedSharding(four, P(nullptr, "z")),
      NamedSharding(two, P("x"), "pinned_host"),
      SingleDeviceSharding(devices()[5]),
      PositionalSharding(devices(), {4, 2, 1}),
  };
  for (std::size_t i = 0; i < shardings.size(); ++i) {
    save_checkpoint(path("run"), device_put(x, shardings[i]), std::int64_t(i));
    for (const Sharding& to : shardings) {
      const Array back = restore_checkpoint(path("run"), shape_dtype_struct({8, 16, 2}, f32, to));
      expect_same(back, x);
      EXPECT_EQ(back.sharding(), to);
      EXPECT_TRUE(back.committed());
    }
    const Array back = restore_checkpoint(path("run"), shape_dtype_struct({8, 16, 2}, f32));
    expect_same(back, x);
    EXPECT_FALSE(back.committed());
  }
}

TEST_F(Checkpoints, EachPartIsWrittenOnce) {
  const Mesh mesh = make_mesh({{"x", 2}, {"y", 4}});
  const Array x = counting({64, 64});
  const auto bytes = [&](const auto& tree) {
    save_checkpoint(path("run"), tree, 0, {.replace = true});
    return checkpoint_info(path("run")).bytes;
  };
  // Replicas once, and an array that occurs twice as well.
  const std::uint64_t once = 64 * 64 * 4;
  EXPECT_LE(bytes(put(x, mesh, P())), once + 512);
  EXPECT_LE(bytes(put(x, mesh, P("x"))), once + 1024);
  EXPECT_LE(bytes(std::vector<Array>{x, x, x}), once + 512);
  const auto back = restore_checkpoint(path("run"), std::vector<Array>{x, x, put(x, mesh, P("x"))});
  for (const Array& a : back) expect_same(a, x);
  EXPECT_TRUE(NamedSharding::is(back[2].sharding()));
}

enum class Mode { fresh, warm };
struct Layer {
  Array w;
  std::optional<Array> b;
  int width = 0;
};
struct State {
  std::vector<Layer> layers;
  std::map<std::string, std::variant<Array, std::vector<Array>>> moments;
  std::pair<Array, Array> key_and_step;
  std::string name;
  Mode mode = Mode::fresh;
  double rate = 0;
  bool done = false;
  std::uint64_t seen = 0;
  std::map<int, Array> by_number;
};

State some_state(const Mesh& mesh, float scale) {
  State s;
  s.layers = {{put(counting({8, 4}, scale), mesh, P("x")), counting({4}, scale), 4},
              {counting({4, 2}, scale), std::nullopt, 2}};
  s.moments["it's"] = counting({3}, scale);
  s.moments["many"] = std::vector<Array>{ones({2}) * scale, full({}, scale)};
  s.key_and_step = {random::key(std::int64_t(scale)), Array(int(scale))};
  s.by_number[3] = ones({1}) * scale;
  return s;
}

TEST_F(Checkpoints, TreesComeBackWithTheirStaticValues) {
  const Mesh mesh = make_mesh({{"x", 8}});
  State saved = some_state(mesh, 5);
  saved.name = "run '7'\\";
  saved.mode = Mode::warm;
  saved.rate = 0.1;
  saved.done = true;
  saved.seen = ~std::uint64_t{0};
  saved.layers[0].width = -17;
  save_checkpoint(path("run"), saved, 12, {.metadata = {{"commit", "abc"}}});
  const State back = restore_checkpoint(path("run"), some_state(mesh, 0));
  EXPECT_EQ(back.name, saved.name);
  EXPECT_EQ(back.mode, Mode::warm);
  EXPECT_EQ(back.rate, 0.1);
  EXPECT_TRUE(back.done);
  EXPECT_EQ(back.seen, saved.seen);
  EXPECT_EQ(back.layers[0].width, -17);
  const auto have = tree_leaves(back), want = tree_leaves(saved);
  ASSERT_EQ(have.size(), want.size());
  for (std::size_t i = 0; i < have.size(); ++i) expect_same(have[i], want[i]);
  // The key makes the same numbers, the step is still a plain number, and the sharding is that of
  // `like`.
  expect_same(random::normal(back.key_and_step.first, {4}),
              random::normal(saved.key_and_step.first, {4}));
  EXPECT_TRUE(back.key_and_step.second.weak_type());
  EXPECT_FALSE(back.layers[0].w.weak_type());
  EXPECT_EQ(back.layers[0].w.sharding(), saved.layers[0].w.sharding());

  const CheckpointInfo info = checkpoint_info(path("run"));
  EXPECT_EQ(info.step, 12);
  EXPECT_EQ(info.metadata, (std::map<std::string, std::string>{{"commit", "abc"}}));
  ASSERT_EQ(info.arrays.size(), want.size());
  EXPECT_EQ(info.arrays[0].path, tree_paths(saved)[0]);
  EXPECT_EQ(info.arrays[0].shape, (std::vector<std::int64_t>{8, 4}));
  EXPECT_EQ(info.arrays[0].spec, P("x"));
  EXPECT_EQ(info.arrays[0].mesh, (Mesh::Shape{{"x", 8}}));
  EXPECT_EQ(info.arrays[1].spec, std::nullopt);
  // All arrays by their paths, and placed by one spec.
  const auto all = restore_checkpoint_arrays(
      path("run"), {.sharding = NamedSharding(make_mesh({{"y", 4}}), P())});
  ASSERT_EQ(all.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) expect_same(all.at(info.arrays[i].path), want[i]);
  EXPECT_EQ(all.begin()->second.sharding().num_devices(), 4);
}

TEST_F(Checkpoints, StaticValuesOfEachTypeComeBackExactly) {
  struct Values {
    Array x;
    std::int8_t small;
    char letter;
    float f;
    long double wide;
    double nan;
    double infinite;
    std::string_view view;
    const char* text;
    const char* null;
  };
  const Values zero{ones({1}), 0, 'a', 0, 0, 0, 0, "", "", ""};
  const Values saved{ones({1}),          -128,      'z',        0x1.fffffep-120f, 0.1L,
                     -std::nan("0x123"), -HUGE_VAL, "a\\'view", "text",           nullptr};
  save_checkpoint(path("run"), saved, 0);
  const Values back = restore_checkpoint(path("run"), zero);
  EXPECT_EQ(back.small, -128);
  EXPECT_EQ(back.letter, 'z');
  EXPECT_EQ(back.f, saved.f);
  EXPECT_EQ(back.wide, saved.wide);
  EXPECT_EQ(std::memcmp(&back.nan, &saved.nan, 8), 0);
  EXPECT_EQ(back.infinite, -HUGE_VAL);
  EXPECT_EQ(back.view, saved.view);
  EXPECT_STREQ(back.text, "text");
  EXPECT_EQ(back.null, nullptr);
  // A value that the other type lacks.
  save_checkpoint(path("other"), std::pair<Array, int>(ones({1}), 1000), 0);
  expect_error<ValueError>(
      [&] { restore_checkpoint(path("other"), std::pair<Array, std::int8_t>(ones({1}), 0)); },
      {"1000", "no integer of this type", kNear});
  expect_error<ValueError>(
      [&] { restore_checkpoint(path("other"), std::pair<Array, std::string>(ones({1}), "")); },
      {"1000", "no quoted text", kNear});
}

TEST_F(Checkpoints, ShardingsAreRequestedByTheTreeOrTheOptions) {
  const Mesh mesh = make_mesh({{"x", 8}});
  const std::map<std::string, Array> tree{{"a", counting({8, 2})}, {"b", counting({16})}};
  save_checkpoint(path("run"), tree, 1);
  const NamedSharding rows(mesh, P("x"));
  const auto all = restore_checkpoint(path("run"), tree, {.sharding = rows});
  EXPECT_EQ(all.at("a").sharding(), rows);
  EXPECT_EQ(all.at("b").sharding(), rows);
  const auto one =
      restore_checkpoint(path("run"), tree, {.sharding = dict({{"a", rows}, {"b", UNSPECIFIED}})});
  EXPECT_EQ(one.at("a").sharding(), rows);
  EXPECT_FALSE(one.at("b").committed());
  {
    const MeshScope scope(mesh);
    const std::map<std::string, Array> like{
        {"a", shape_dtype_struct({8, 2}, f32, P("x"))},
        {"b", shape_dtype_struct({16}, f32)},
    };
    const auto back = restore_checkpoint(path("run"), like);
    EXPECT_EQ(back.at("a").sharding(), rows);
    expect_same(back.at("a"), tree.at("a"));
    EXPECT_EQ(restore_checkpoint(path("run"), like, {.sharding = P("x")}).at("b").sharding(), rows);
  }
}

TEST_F(Checkpoints, PartialSumsAreSavedAsTheirSum) {
  const Mesh mesh = make_mesh({{"x", 8}});
  std::vector<Array> terms;
  for (const Device& d : devices()) terms.push_back(device_put(counting({2}) + float(d.id), d));
  const Array sum = make_array_from_single_device_arrays(
      {2}, NamedSharding(mesh, P().with_unreduced({"x"})), terms);
  save_checkpoint(path("run"), sum, 1);
  const Array back = restore_checkpoint(path("run"), shape_dtype_struct({2}, f32));
  EXPECT_EQ(floats(back), (std::vector<float>{28, 36}));
}

TEST_F(Checkpoints, PartialExtremaAreSavedAsWhatTheyArePartsOf) {
  const Mesh mesh = make_mesh({{"x", 8}});
  std::vector<Array> terms;
  for (const Device& d : devices()) terms.push_back(device_put(counting({2}) + float(d.id), d));
  for (const UnreducedKind kind : {UnreducedKind::max, UnreducedKind::min}) {
    const std::string run = path(to_string(kind));
    const NamedSharding parts(mesh, P().with_unreduced({"x"}, kind));
    save_checkpoint(run, make_array_from_single_device_arrays({2}, parts, terms), 1);
    const Array back = restore_checkpoint(run, shape_dtype_struct({2}, f32));
    EXPECT_EQ(floats(back),
              kind == UnreducedKind::max ? (std::vector<float>{7, 8}) : (std::vector<float>{0, 1}));
  }
}

TEST_F(Checkpoints, LargeArraysSpanBlocksAndFiles) {
  // 2.5 MB parts: blocks of checksums end within rows.
  const Mesh mesh = make_mesh({{"x", 2}, {"y", 4}});
  std::vector<float> values(2 * 1310 * 1000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = float(i % 8191);
  const Array x = array(values, {2, 1310, 1000});
  const std::vector<Array> tree{put(x, mesh, P("x")), counting({3}), x,
                                put(x, mesh, P(nullptr, nullptr, "y"))};
  save_checkpoint(path("run"), tree, 1, {.file_bytes = 3'000'000});
  EXPECT_GE(names(path("run/step_00000001")).size(), 6u);
  EXPECT_EQ(verify_checkpoint(path("run")), std::vector<std::string>());
  for (const Array& like :
       {tree[0],
        shape_dtype_struct({2, 1310, 1000}, f32, NamedSharding(mesh, P(nullptr, "x", "y"))), x}) {
    for (const Array& back :
         restore_checkpoint(path("run"), std::vector<Array>{like, counting({3}), like, like})) {
      if (back.ndim() == 3) expect_same(back, x);
    }
  }
}

TEST_F(Checkpoints, OnlyTheBlocksThatAreNeededAreRead) {
  // 8 MiB in rows of 4 KiB.
  const Array x = counting({2048, 1024});
  const auto saved = frontend::snapshot({x}, {"x"}, "test", {});
  frontend::WriteRequest request;
  request.folder = path("");
  request.file_bytes = 1 << 30;
  const auto written = frontend::write_pieces(saved, {"x"}, request);
  ASSERT_EQ(written.pieces[0].size(), 1u);
  const frontend::PieceRecord& piece = written.pieces[0][0];
  const File file = File::open(path(written.files[0].name));
  const auto read = [&](Box box) {
    std::size_t bytes = 0;
    const Faults faults([&](std::string_view call, const std::string&, std::size_t* n) {
      if (call == "pread") bytes += *n;
      return 0;
    });
    std::vector<float> out(std::size_t(box.element_count()));
    frontend::read_pieces({{&file, piece.offset, piece.box, "x", &piece.hashes, false}}, 4,
                          {{box, reinterpret_cast<std::byte*>(out.data())}}, "x");
    std::size_t i = 0;
    for (std::int64_t r = 0; r < box.size[0]; ++r) {
      for (std::int64_t c = 0; c < box.size[1]; ++c) {
        EXPECT_EQ(out[i++], float((box.start[0] + r) * 1024 + box.start[1] + c));
      }
    }
    return bytes >> 20;
  };
  EXPECT_EQ(read({{0, 0}, {256, 1024}}), 1u);
  EXPECT_EQ(read({{300, 5}, {3, 7}}), 1u);
  EXPECT_EQ(read({{255, 0}, {2, 1024}}), 2u);
  EXPECT_EQ(read({{0, 0}, {2048, 1024}}), 8u);
  EXPECT_EQ(read({{0, 100}, {2048, 1}}), 8u);
}

TEST_F(Checkpoints, OldOnesAreRemovedAndOthersLeftAlone) {
  const Array x = ones({2});
  EXPECT_EQ(latest_step(path("none")), std::nullopt);
  EXPECT_EQ(all_steps(path("none")), std::vector<std::int64_t>());
  for (const std::int64_t step : std::vector<std::int64_t>{1, 10, 5, 123456789012})
    save_checkpoint(path("run"), x, step);
  EXPECT_EQ(all_steps(path("run")), (std::vector<std::int64_t>{1, 5, 10, 123456789012}));
  fs::create_directories(path("run/step_00000077"));  // no manifest
  fs::create_directories(path("run/step_7"));         // not our name
  write(path("run/step_00000078"), "");               // no folder
  write(path("run/notes.txt"), "mine");
  EXPECT_EQ(latest_step(path("run")), 123456789012);
  save_checkpoint(path("run"), x, 11, {.keep = 3});
  EXPECT_EQ(all_steps(path("run")), (std::vector<std::int64_t>{10, 11, 123456789012}));
  // The new one stays, whatever its number.
  save_checkpoint(path("run"), x, 0, {.keep = 1});
  EXPECT_EQ(all_steps(path("run")), (std::vector<std::int64_t>{0}));
  EXPECT_EQ(contents(path("run/notes.txt")), "mine");
  EXPECT_TRUE(fs::exists(path("run/step_00000078")));
}

TEST_F(Checkpoints, AStepIsReplacedOnRequestOnly) {
  save_checkpoint(path("run"), ones({2}), 4);
  expect_error<ValueError>([&] { save_checkpoint(path("run"), zeros({2}), 4); },
                           {"there is a checkpoint of step 4", "replace", kNear});
  expect_same(restore_checkpoint(path("run"), zeros({2})), ones({2}));
  save_checkpoint(path("run"), zeros({2}), 4, {.replace = true});
  save_checkpoint(path("run"), zeros({2}), 5, {.replace = true});
  expect_same(restore_checkpoint(path("run"), ones({2}), {.step = 4}), zeros({2}));
  EXPECT_EQ(names(path("run")), (std::vector<std::string>{"step_00000004", "step_00000005"}));
}

TEST_F(Checkpoints, WhatDoesNotFitIsAnErrorThatNamesIt) {
  const Mesh mesh = make_mesh({{"x", 8}});
  expect_error<IoError>([&] { restore_checkpoint(path("run"), ones({2})); },
                        {"no checkpoint in " + path("run"), kNear});
  using Tree = std::map<std::string, Array>;
  const Tree tree{{"a", counting({6, 2})}, {"b", ones({3})}};
  save_checkpoint(path("run"), tree, 2);
  save_checkpoint(path("run"), tree, 3);
  expect_error<IoError>([&] { restore_checkpoint(path("run"), tree, {.step = 7}); },
                        {"no checkpoint of step 7", "there are steps 2, 3", kNear});
  expect_error<ValueError>(
      [&] {
        restore_checkpoint(path("run"), Tree{{"a", ones({6, 2})}, {"c", ones({3})}});
      },
      {"another structure", "'b' was saved, and 'c' is requested", kNear});
  expect_error<ValueError>(
      [&] {
        restore_checkpoint(path("run"), Tree{{"a", ones({6, 2})}});
      },
      {"a map of 2 was saved, and a map of 1 is requested", kNear});
  expect_error<ValueError>([&] { restore_checkpoint(path("run"), ones({2})); },
                           {"a map of 2 was saved, and an array is requested", kNear});
  expect_error<ValueError>(
      [&] {
        restore_checkpoint(path("run"), std::map<std::string, std::optional<Array>>{
                                            {"a", ones({6, 2})}, {"b", std::nullopt}});
      },
      {"at 'b': an array was saved, and nothing is requested", kNear});
  expect_error<ShapeError>(
      [&] {
        restore_checkpoint(path("run"), Tree{{"a", ones({2, 6})}, {"b", ones({3})}});
      },
      {"['a']", "f32[6,2]", "f32[2,6]", kNear});
  expect_error<DTypeError>(
      [&] {
        restore_checkpoint(path("run"), Tree{{"a", ones({6, 2})}, {"b", astype(ones({3}), bf16)}});
      },
      {"['b']", "f32[3]", "bf16[3]", "astype", kNear});
  expect_error<IndivisibleError>(
      [&] { restore_checkpoint(path("run"), tree, {.sharding = NamedSharding(mesh, P("x"))}); },
      {"['a']", "6", kNear});
  expect_error<ValueError>(
      [&] {
        restore_checkpoint_arrays(path("run"), {.sharding = dict({{"a", P("x")}})});
      },
      {"one sharding", kNear});
  const Mesh elsewhere({Device{99, 0, "cpu"}}, "x");
  expect_error<ValueError>(
      [&] { restore_checkpoint(path("run"), tree, {.sharding = NamedSharding(elsewhere, P())}); },
      {"99", kNear});

  expect_error<ValueError>([&] { save_checkpoint(path("run"), tree, -1); }, {"step -1", kNear});
  expect_error<ValueError>([&] { save_checkpoint(path("run"), tree, 9, {.keep = 0}); },
                           {"keep is 0", kNear});
  expect_error<ValueError>([&] { save_checkpoint(path("run"), tree, 9, {.file_bytes = 0}); },
                           {"file_bytes is 0", kNear});
  expect_error<TypeError>(
      [&] {
        save_checkpoint(path("run"), Tree{{"a", shape_dtype_struct({2}, f32)}}, 9);
      },
      {"['a']", "no value", kNear});
  Array gone = ones({2});
  gone.delete_();
  expect_error<RuntimeError>(
      [&] {
        save_checkpoint(path("run"), Tree{{"g", gone}}, 9);
      },
      {"['g']", "deleted", kNear});
  expect_error<ValueError>(
      [&] {
        save_checkpoint(path("run"), Tree{{"e", Array()}}, 9);
      },
      {"['e']", "empty", kNear});
  expect_error<ValueError>(
      [&] {
        save_checkpoint(path("run"), Tree{{"\xff", ones({1})}}, 9);
      },
      {"UTF-8", kNear});
  jit([&](Array x) {
    expect_error<TracerError>([&] { save_checkpoint(path("run"), x, 9); }, {"traced", kNear});
    expect_error<TracerError>(
        [&] {
          restore_checkpoint(path("run"), Tree{{"a", x}, {"b", x}});
        },
        {"traced", kNear});
    return x;
  })(ones({2}));
  EXPECT_EQ(all_steps(path("run")), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(names(path("run")).size(), 2u);
  // A donated array still says what to restore.
  Tree like = tree;
  like["a"].delete_();
  expect_same(restore_checkpoint(path("run"), like).at("a"),
              tree.at("b").shape().empty() ? Array() : counting({6, 2}));
}

TEST_F(Checkpoints, PlacesThatCantBeUsedAreErrors) {
  write(path("file"), "");
  expect_error<IoError>([&] { save_checkpoint(path("file"), ones({1}), 0); },
                        {path("file"), kNear});
  expect_error<IoError>([&] { save_checkpoint(path("file/inner"), ones({1}), 0); },
                        {path("file"), kNear});
  expect_error<IoError>([&] { (void)all_steps(path("file")); }, {path("file"), kNear});
  expect_error<IoError>([&] { save_checkpoint("", ones({1}), 0); }, {"empty", kNear});
  save_checkpoint(path("deep/er/run"), ones({1}), 0);
  save_checkpoint(path("deep/er/run/"), ones({1}), 1);
  EXPECT_EQ(latest_step(path("deep/er/run")), 1);
  // Not readable, if one isn't root.
  fs::permissions(path("deep/er/run"), fs::perms::none);
  if (geteuid() != 0) {
    expect_error<IoError>([&] { (void)latest_step(path("deep/er/run")); },
                          {path("deep/er/run"), "ermission", kNear});
  }
  fs::permissions(path("deep/er/run"), fs::perms::owner_all);
  const Faults faults([&](std::string_view call, const std::string&, std::size_t*) {
    return call == "opendir" ? EACCES : 0;
  });
  expect_error<IoError>([&] { (void)latest_step(path("deep/er/run")); },
                        {path("deep/er/run"), "Permission denied", kNear});
  expect_error<IoError>([&] { restore_checkpoint(path("deep/er/run"), ones({1})); },
                        {path("deep/er/run"), "Permission denied", kNear});
}

/// Holds the threads that write until it is opened.
class Gate {
 public:
  void wait() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  void wait_for_visitor() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ > 0; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int waiting_ = 0;
};

TEST_F(Checkpoints, AsynchronousSavesKeepTheValuesOfTheirCall) {
  const Mesh mesh = make_mesh({{"x", 8}});
  std::vector<Array> tree{put(counting({16, 4}), mesh, P("x")), counting({100}), counting({5})};
  const std::vector<Array> want{put(counting({16, 4}), mesh, P("x")), counting({100}),
                                counting({5})};
  Gate gate;
  const Faults faults([&](std::string_view call, const std::string& p, std::size_t*) {
    if (call == "write" && has(p, "step_00000001.")) gate.wait();
    return 0;
  });
  const CheckpointSave saving = save_checkpoint_async(path("run"), tree, 1);
  gate.wait_for_visitor();
  EXPECT_FALSE(saving.progress().done);
  EXPECT_EQ(saving.progress().bytes_done, 0u);
  EXPECT_EQ(saving.progress().bytes_total, (16 * 4 + 100 + 5) * 4u);
  EXPECT_EQ(latest_step(path("run")), std::nullopt);
  // Donated, deleted, and replaced meanwhile.
  const auto update = jit([](Array a) { return a + 1; }, {.donate_argnums = {0}});
  tree[0] = update(tree[0]);
  tree[1].delete_();
  tree[2] = update(tree[2]);
  // Another saver neither waits nor takes the folder of the first for a leftover.
  save_checkpoint(path("run"), want, 2);
  EXPECT_EQ(all_steps(path("run")), (std::vector<std::int64_t>{2}));
  gate.open();
  saving.wait();
  saving.wait();
  EXPECT_TRUE(saving.progress().done);
  EXPECT_EQ(saving.progress().bytes_done, saving.progress().bytes_total);
  EXPECT_EQ(all_steps(path("run")), (std::vector<std::int64_t>{1, 2}));
  const auto back = restore_checkpoint(path("run"), want, {.step = 1});
  for (std::size_t i = 0; i < want.size(); ++i) expect_same(back[i], want[i]);
}

TEST_F(Checkpoints, AsynchronousSavesTellTheirErrors) {
  EXPECT_FALSE(CheckpointSave().valid());
  EXPECT_TRUE(CheckpointSave().progress().done);
  CheckpointSave().wait();
  // At once what is wrong with the arguments.
  expect_error<ValueError>([&] { (void)save_checkpoint_async(path("run"), ones({1}), -1); },
                           {"step -1", kNear});
  std::atomic<int> fail{1};
  const Faults faults([&](std::string_view call, const std::string&, std::size_t*) {
    return fail && call == "write" ? ENOSPC : 0;
  });
  {
    CheckpointSave saving = save_checkpoint_async(path("run"), ones({1}), 1);
    for (int i = 0; i < 2; ++i) {
      expect_error<IoError>([&] { saving.wait(); }, {path("run"), "No space left", kNear});
    }
  }
  std::string logged;
  set_log_sink([&](LogLevel, const std::string& line) { logged += line; });
  { const CheckpointSave saving = save_checkpoint_async(path("run"), ones({1}), 1); }
  set_log_sink({});
  EXPECT_TRUE(has(logged, "No space left")) << logged;
  fail = 0;
  // A loop keeps one handle: assigning waits for the save before.
  CheckpointSave saving;
  for (int step = 0; step < 5; ++step) {
    saving = save_checkpoint_async(path("run"), full({3}, float(step)), step, {.keep = 2});
  }
  saving.wait();
  EXPECT_EQ(all_steps(path("run")), (std::vector<std::int64_t>{3, 4}));
  expect_same(restore_checkpoint(path("run"), ones({3})), full({3}, 4.f));
  EXPECT_EQ(names(path("run")).size(), 2u);
}

}  // namespace checkpoint_test
}  // namespace tessera::testing
