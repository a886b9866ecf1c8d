// SPDX-License-Identifier: Apache-2.0
// save_npy and load_npy, with shardings and with files that are no such files.
#include <tessera/npy.h>

#include <tessera/jit.h>
#include <tessera/ops.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/frontend/checkpoint/folder_test.h"
#include "tests/frontend/frontend_testing.h"

namespace tessera::testing {
namespace npy_files_test {

class NpyFiles : public FolderTest {};

TEST_F(NpyFiles, AllDtypesAndShardingsComeBack) {
  const Mesh mesh = make_mesh({{"x", 2}, {"y", 4}});
  for (DType t : {DType::pred, DType::s8, DType::s16, DType::s32, DType::s64, DType::u8, DType::u16,
                  DType::u32, DType::u64, DType::f16, DType::bf16, DType::f32, DType::f64,
                  DType::c64, DType::c128}) {
    SCOPED_TRACE(std::string(name(t)));
    const Array x = astype(remainder(counting({4, 8}), 7) - (t == DType::f32 ? 0.5f : 0.f), t);
    save_npy(path("x.npy"), put(x, mesh, P("y", "x")));
    const NamedSharding wanted(mesh, P(nullptr, axes("y", "x")));
    const Array y = load_npy(path("x.npy"), {.sharding = wanted}), z = load_npy(path("x.npy"));
    EXPECT_EQ(y.dtype(), t);
    EXPECT_EQ(y.sharding(), wanted);
    EXPECT_TRUE(y.committed());
    EXPECT_FALSE(z.committed());
    EXPECT_TRUE(all(y == x).item<bool>());
    EXPECT_TRUE(all(z == x).item<bool>());
  }
  // Types that only their name tells apart.
  const Array small = astype(counting({2, 3}), DType::f8e4m3fn);
  save_npy(path("f8.npy"), small);
  const Array back = load_npy(path("f8.npy"), {.raw_dtype = DType::f8e4m3fn});
  EXPECT_EQ(back.dtype(), DType::f8e4m3fn);
  expect_close(astype(back, f32), counting({2, 3}));
  for (const DType t : {DType::f4e2m1fn, DType::f6e2m3fn, DType::f6e3m2fn}) {
    save_npy(path("small.npy"), astype(counting({2, 2}), t));
    expect_close(astype(load_npy(path("small.npy"), {.raw_dtype = t}), f32), counting({2, 2}));
  }
  expect_error<IoError>([&] { load_npy(path("f8.npy")); },
                        {path("f8.npy"), "raw bytes of 1", "no type is requested", kNear});
}

TEST_F(NpyFiles, ReadsWhatNumpyWrote) {
  const std::string fixtures = std::string(TESSERA_SOURCE_DIR) + "/tests/fixtures/npy/";
  for (const char* name : {"f32_2x3_fortran", "f32_2x3_swapped", "f32_2x3_version2",
                           "f32_2x3_version3", "bf16_2x3_plain"}) {
    SCOPED_TRACE(name);
    const Array x = load_npy(fixtures + name + ".npy");
    EXPECT_EQ(x.dtype(), name[0] == 'b' ? DType::bf16 : DType::f32);
    expect_close(astype(x, f32), counting({2, 3}) + 1);
  }
  // Sharded, a Fortran array's parts are still those of its rows.
  const Array x = load_npy(fixtures + "s16_2x3x4_fortran.npy",
                           {.sharding = NamedSharding(make_mesh({{"x", 2}}), P("x"))});
  EXPECT_TRUE(all(x == astype(counting({2, 3, 4}) + 1, DType::s16)).item<bool>());
  EXPECT_EQ(x.addressable_data(1).shape(), (std::vector<std::int64_t>{1, 3, 4}));
}

TEST_F(NpyFiles, FilesAreReplacedWholeOrNotAtAll) {
  const std::string file = path("x.npy");
  save_npy(file, ones({4}));
  const std::string before = contents(file);
  Array gone = ones({2});
  gone.delete_();
  expect_error<RuntimeError>([&] { save_npy(file, gone); }, {"deleted", kNear});
  EXPECT_EQ(contents(file), before);
  fs::create_symlink("x.npy", path("link.npy"));
  save_npy(path("link.npy"), zeros({3}));
  EXPECT_TRUE(fs::is_symlink(path("link.npy")));
  expect_close(load_npy(file), zeros({3}));
  // No file that was written aside is left.
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 2);
  expect_error<IoError>([&] { save_npy(path("no/x.npy"), ones({2})); },
                        {"can't write", path("no/x.npy"), "No such file", kNear});
  fs::create_directory(path("folder"));
  expect_error<IoError>([&] { save_npy(path("folder"), ones({2})); },
                        {path("folder"), "directory", kNear});
}

TEST_F(NpyFiles, BadFilesAreErrorsThatNameThem) {
  const std::string file = path("x.npy");
  save_npy(file, counting({5, 2}));
  const std::string whole = contents(file);
  const auto refused = [&](const std::string& bytes, const std::string& why) {
    write(file, bytes);
    expect_error<IoError>([&] { load_npy(file); }, {file, why, kNear});
  };
  refused(whole.substr(0, whole.size() - 1), "f32[5,2] takes 40 bytes and 39 are there");
  refused(whole.substr(0, 60), "cut short");
  refused("", "no .npy file");
  refused("PK\x03\x04 an archive", "no .npy file");
  // A header of 100 MB, in a file that has as many bytes, most of them a hole.
  std::string huge("\x93NUMPY\x02\x00", 8);
  for (int byte : {0x00, 0xe1, 0xf5, 0x05}) huge += char(byte);
  write(file, huge);
  fs::resize_file(file, 100'000'012);
  expect_error<IoError>([&] { load_npy(file); }, {file, "100000000 bytes", kNear});
  fs::remove(file);
  expect_error<IoError>([&] { load_npy(file); }, {file, "No such file", kNear});
  expect_error<IoError>([&] { load_npy(folder_.string()); }, {folder_.string(), kNear});

  // Every byte of the header changed: an array that isn't larger than the file, or an error that
  // names it.
  for (std::size_t at = 0; at < 128; ++at) {
    for (const char c : {'\0', '\xff', '9', '(', '\'', '-'}) {
      std::string bytes = whole;
      bytes[at] = c;
      write(file, bytes);
      try {
        EXPECT_LE(load_npy(file).size(), std::int64_t(whole.size()));
      } catch (const IoError& e) {
        EXPECT_TRUE(has(e.what(), file)) << e.what();
      }
    }
  }
}

TEST_F(NpyFiles, ShardingsMustFit) {
  const Mesh mesh = make_mesh({{"x", 8}});
  save_npy(path("x.npy"), ones({6, 8}));
  expect_error<IndivisibleError>(
      [&] { load_npy(path("x.npy"), {.sharding = NamedSharding(mesh, P("x"))}); },
      {path("x.npy"), kNear});
  expect_error<ValueError>([&] { load_npy(path("x.npy"), {.sharding = tree(P("x"), P())}); },
                           {"one sharding", kNear});
  expect_error<TracerError>(
      [&] {
        jit([&](Array x) {
          save_npy(path("y.npy"), x);
          return x;
        })(ones({2}));
      },
      {kNear});
  EXPECT_FALSE(fs::exists(path("y.npy")));
}

}  // namespace npy_files_test
}  // namespace tessera::testing
