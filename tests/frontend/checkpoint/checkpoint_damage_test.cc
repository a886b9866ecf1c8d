// SPDX-License-Identifier: Apache-2.0
// Checkpoints whose files are cut, changed or forged: the damage is named, and others still load.
#include <tessera/checkpoint.h>

#include <tessera/ops.h>

#include <random>

#include "src/frontend/checkpoint/manifest.h"
#include "src/frontend/checkpoint/tree_structure.h"
#include "tests/frontend/checkpoint/checkpoint_testing.h"

namespace tessera::testing {
namespace checkpoint_damage_test {

using Tree = std::map<std::string, Array>;

class DamagedCheckpoints : public FolderTest {
 protected:
  DamagedCheckpoints() {
    const Mesh mesh = make_mesh({{"x", 2}, {"y", 4}});
    tree_ = {{"w", put(counting({8, 16}), mesh, P("x", "y"))},
             {"b", put(astype(counting({40}), bf16), mesh, P())},
             {"scale", ones({})}};
    save_checkpoint(run(), tree_map([](Array a) { return a + 1; }, tree_), 1);
    save_checkpoint(run(), tree_, 2);
    whole_ = contents(arrays());
    whole_manifest_ = contents(manifest());
  }

  std::string run() const { return path("run"); }
  std::string arrays() const { return path("run/step_00000002/arrays-0-0.safetensors"); }
  std::string manifest() const { return path("run/step_00000002/manifest.json"); }
  Tree restore(std::int64_t step) const { return restore_checkpoint(run(), tree_, {.step = step}); }
  void expect_previous_loads() const {
    const Tree back = restore(1);
    for (const auto& [key, want] : tree_) expect_same(back.at(key), want + 1);
  }
  /// The message of the error with which step 2 is refused.
  std::string refusal() const {
    try {
      (void)restore_checkpoint(run(), tree_);
    } catch (const IoError& e) {
      return e.message();
    }
    return "restored";
  }

  Tree tree_;
  std::string whole_, whole_manifest_;
};

TEST_F(DamagedCheckpoints, AFileCutAnywhereIsRefusedByName) {
  std::mt19937 random(3);
  for (int i = 0; i < 1000; ++i) {
    const std::size_t at = i == 0 ? whole_.size() - 1 : random() % whole_.size();
    fs::resize_file(arrays(), at);
    const std::string message = refusal();
    ASSERT_TRUE(has(message, arrays())) << at << ": " << message;
    ASSERT_TRUE(has(message, "has " + std::to_string(at) + " bytes, and " +
                                 std::to_string(whole_.size()) + " were expected"))
        << message;
    ASSERT_TRUE(has(message, "within array '") || has(message, "within its header")) << message;
    ASSERT_TRUE(has(message, "other checkpoints in " + run() + ": steps 1")) << message;
    if (i % 50 == 0) {
      expect_previous_loads();
      EXPECT_FALSE(verify_checkpoint(run()).empty());
    }
    write(arrays(), whole_);
  }
  for (int i = 0; i < 1000; ++i) {
    const std::size_t at = i == 0 ? whole_manifest_.size() - 1 : random() % whole_manifest_.size();
    fs::resize_file(manifest(), at);
    const std::string message = refusal();
    ASSERT_TRUE(has(message, manifest())) << at << ": " << message;
    ASSERT_TRUE(has(message, "damaged")) << message;
    if (i % 50 == 0) expect_previous_loads();
    write(manifest(), whole_manifest_);
  }
  write(arrays(), whole_ + "x");
  EXPECT_TRUE(has(refusal(), "were expected")) << refusal();
  write(arrays(), whole_);
  for (const auto& [key, want] : restore(2)) expect_same(want, tree_.at(key));
  EXPECT_TRUE(verify_checkpoint(run()).empty());
}

TEST_F(DamagedCheckpoints, EveryChangedByteIsFound) {
  std::mt19937 random(4);
  bool in_w = false, in_b = false, in_header = false;
  for (int i = 0; i < 1000; ++i) {
    const std::size_t at = random() % whole_.size();
    std::string bytes = whole_;
    bytes[at] ^= char(1 << random() % 8);
    write(arrays(), bytes);
    const std::string message = refusal();
    ASSERT_TRUE(has(message, arrays() + " is damaged within ")) << at << ": " << message;
    ASSERT_TRUE(has(message, "checksum") && has(message, "expected")) << message;
    in_w |= has(message, "array '['w']' (f32[8,16], saved as 'w[0:4,");
    in_b |= has(message, "array '['b']' (bf16[40], saved as 'b')");
    in_header |= has(message, "within its header");
    if (i % 50 == 0) {
      expect_previous_loads();
      EXPECT_EQ(verify_checkpoint(run()).size(), 1u);
    }
  }
  write(arrays(), whole_);
  EXPECT_TRUE(in_w && in_b && in_header);
  for (int i = 0; i < 1000; ++i) {
    std::string bytes = whole_manifest_;
    bytes[random() % bytes.size()] ^= char(1 << random() % 8);
    write(manifest(), bytes);
    const std::string message = refusal();
    ASSERT_TRUE(has(message, manifest())) << message;
  }
  expect_previous_loads();
}

TEST_F(DamagedCheckpoints, ManyDamagesAreAllListed) {
  std::string bytes = whole_;
  bytes[9] ^= 1;
  bytes.back() ^= 1;
  bytes[bytes.size() - 100] ^= 1;
  write(arrays(), bytes);
  const auto damages = verify_checkpoint(run(), 2);
  EXPECT_EQ(damages.size(), 3u);
  EXPECT_TRUE(verify_checkpoint(run(), 1).empty());
  fs::remove(arrays());
  EXPECT_TRUE(has(refusal(), arrays() + ": No such file")) << refusal();
  EXPECT_TRUE(has(refusal(), "it has array '")) << refusal();
  expect_error<IoError>([&] { (void)verify_checkpoint(run(), 9); }, {"no checkpoint of step 9"});
  fs::remove(manifest());
  EXPECT_EQ(latest_step(run()), 1);
  expect_previous_loads();
}

TEST_F(DamagedCheckpoints, ReadErrorsOfTheDiskAreNamed) {
  const Faults faults([&](std::string_view call, const std::string& p, std::size_t*) {
    return call == "pread" && p == arrays() ? EIO : 0;
  });
  EXPECT_TRUE(has(refusal(), arrays() + ": Input/output error")) << refusal();
  expect_previous_loads();
}

/// Manifests that no save writes, with right checksums.
TEST_F(DamagedCheckpoints, ForgedManifestsAreRefused) {
  using namespace frontend;
  const Manifest good = parse_manifest(whole_manifest_, "m");
  const auto refused = [&](const std::function<void(Manifest&)>& change, const std::string& why) {
    Manifest m = good;
    change(m);
    write(manifest(), manifest_text(m, "m"));
    const std::string message = refusal();
    EXPECT_TRUE(has(message, "step_00000002") && has(message, why)) << message << "\nlacks " << why;
  };
  const std::size_t b = 0, w = 2;
  ASSERT_EQ(good.arrays[w].path, "['w']");
  refused([](Manifest& m) { m.step = 3; }, "that of step 3");
  refused([](Manifest& m) { m.files[0].name = "../../secret"; }, "no name of a file");
  refused([](Manifest& m) { m.files[0].name = ".."; }, "no name of a file");
  refused([](Manifest& m) { m.files[0].bytes += 10; }, "were expected");
  refused([](Manifest& m) { m.files[0].header_bytes = m.files[0].bytes + 1; }, "the record of");
  refused([](Manifest& m) { m.files.clear(); }, "contradicts itself");
  refused([&](Manifest& m) { m.arrays[b].pieces[0].offset = std::uint64_t(1) << 62; },
          "contradicts itself");
  refused([&](Manifest& m) { m.arrays[b].pieces[0].offset = 0; }, "contradicts itself");
  refused([&](Manifest& m) { m.arrays[b].pieces[0].hashes.push_back(1); }, "contradicts itself");
  refused([&](Manifest& m) { m.arrays[b].pieces[0].hashes.clear(); }, "contradicts itself");
  refused([&](Manifest& m) { m.arrays[b].pieces[0].file = 5; }, "contradicts itself");
  refused([&](Manifest& m) { m.arrays[b].pieces[0].box.start = {1}; }, "contradicts itself");
  refused([&](Manifest& m) { m.arrays[b].pieces[0].box = {{}, {}}; }, "contradicts itself");
  refused(
      [&](Manifest& m) {
        m.arrays[b].shape.dims = {std::int64_t(1) << 62, 8};
      },
      "manifest.json");
  refused([&](Manifest& m) { m.arrays[w].pieces.pop_back(); }, "of the 64 bytes");
  refused([&](Manifest& m) { m.arrays[w].pieces[1] = m.arrays[w].pieces[0]; }, "bytes of the part");
  refused([&](Manifest& m) { m.arrays[b].same_as = 0; }, "isn't there");
  refused([&](Manifest& m) { m.arrays[w].same_as = 0; }, "isn't there");
  refused([](Manifest& m) { m.arrays.pop_back(); }, "are listed");
  refused([](Manifest& m) { m.tree = Json::array(); }, "no object");
  refused([](Manifest& m) { m.tree["keys"].erase(0); }, "a key for each child");
  refused([](Manifest& m) { m.tree["keys"][0] = 3; }, "no string");
  refused(
      [](Manifest& m) {
        for (int i = 0; i < 1000; ++i) m.tree = {{"alternative", 0}, {"of", std::move(m.tree)}};
      },
      "deep in each other");
  // Other versions, and no manifest at all.
  std::string text = whole_manifest_;
  text.replace(text.find("\"version\":1"), 11, "\"version\":2");
  write(manifest(), text);
  EXPECT_TRUE(has(refusal(), "version 2 of the format")) << refusal();
  write(manifest(), "");
  EXPECT_TRUE(has(refusal(), "no manifest")) << refusal();
  write(manifest(), "{}");
  EXPECT_TRUE(has(refusal(), "no manifest")) << refusal();
  fs::resize_file(manifest(), std::uintmax_t(2) << 30);  // a hole
  EXPECT_TRUE(has(refusal(), "at most")) << refusal();
  fs::remove(manifest());
  fs::create_directory(manifest());
  EXPECT_TRUE(has(refusal(), "no regular file")) << refusal();
  expect_previous_loads();
}

}  // namespace checkpoint_damage_test
}  // namespace tessera::testing
