// SPDX-License-Identifier: Apache-2.0
// Files and folders: what is done, what is refused, and locks.
#include "src/base/files/file_io.h"

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace tessera {
namespace {

namespace fs = std::filesystem;

class FileIo : public ::testing::Test {
 protected:
  FileIo()
      : folder_(fs::temp_directory_path() / ("tessera_file_io_" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~FileIo() override {
    set_file_faults(nullptr);
    fs::remove_all(folder_);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  template <class F>
  static std::string message_of(F&& f) {
    try {
      f();
    } catch (const IoError& e) {
      return e.message();
    }
    return "no error";
  }

  fs::path folder_;
};

TEST_F(FileIo, FilesAreWrittenAndReadAtAnyPlace) {
  File file = File::create(path("a"));
  file.write(std::string_view("0123456789"));
  file.sync();
  file.close();
  EXPECT_EQ(message_of([&] { File::create(path("a")); }),
            "can't write " + path("a") + ": File exists");
  const File read = File::open(path("a"));
  EXPECT_EQ(read.size(), 10u);
  std::byte bytes[4];
  EXPECT_EQ(read.read_at(3, bytes), 4u);
  EXPECT_EQ(char(bytes[0]), '3');
  EXPECT_EQ(read.read_at(8, bytes), 2u);
  EXPECT_EQ(read.read_at(10, bytes), 0u);
  EXPECT_EQ(read.read_at(~std::uint64_t{0} - 2, bytes), 0u);
  EXPECT_EQ(read_file(path("a"), 10), "0123456789");
  EXPECT_NE(message_of([&] { read_file(path("a"), 9); }).find("at most 9"), std::string::npos);
  EXPECT_NE(message_of([&] { File::open(folder_.string()); }).find("no regular file"),
            std::string::npos);
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_NE(message_of([&] { File::open(path("pipe")); }).find("no regular file"),
            std::string::npos);
}

TEST_F(FileIo, WritesAreFinishedHoweverFewBytesEachTakes) {
  class OneByOne : public FileFaults {
   public:
    int before(std::string_view call, const std::string&, std::size_t* bytes) override {
      if (call != "write" && call != "pread") return 0;
      *bytes = 1;
      return ++calls_ % 3 == 0 ? EINTR : 0;
    }

   private:
    int calls_ = 0;
  } faults;
  set_file_faults(&faults);
  ReplacedFile file(path("a"));
  file.write(std::string_view("some text"));
  file.commit();
  EXPECT_EQ(read_file(path("a"), 100), "some text");
}

TEST_F(FileIo, FoldersAreMadeListedRenamedAndRemoved) {
  make_folders(path("x/y/z/"));
  make_folders(path("x/y/../y"));
  EXPECT_TRUE(make_folder(path("x/b")));
  EXPECT_FALSE(make_folder(path("x/b")));
  File::create(path("x/a"));
  EXPECT_EQ(folder_names(path("x")), (std::vector<std::string>{"a", "b", "y"}));
  EXPECT_EQ(folder_names(path("none")), std::nullopt);
  EXPECT_NE(message_of([&] { folder_names(path("x/a")); }).find("Not a directory"),
            std::string::npos);
  EXPECT_NE(message_of([&] { make_folders(path("x/a/c")); }).find(path("x/a")), std::string::npos);
  EXPECT_FALSE(rename_folder(path("x/b"), path("x/y")));
  EXPECT_FALSE(rename_folder(path("x/b"), path("x/a")));
  EXPECT_TRUE(rename_folder(path("x/b"), path("x/c")));
  exchange_folders(path("x/c"), path("x/y"));
  EXPECT_TRUE(path_exists(path("x/c/z")));
  EXPECT_FALSE(path_exists(path("x/y/z")));
  EXPECT_FALSE(path_exists(path("x/a/z")));
  remove_folder(path("x"));
  remove_folder(path("x"));
  EXPECT_FALSE(path_exists(path("x")));
}

TEST_F(FileIo, AFolderIsLockedOnce) {
  using Outcome = FolderLock::Outcome;
  FolderLock a, b;
  EXPECT_EQ(a.try_lock(path("none")), Outcome::gone);
  EXPECT_EQ(a.try_lock(folder_.string()), Outcome::locked);
  EXPECT_EQ(b.try_lock(folder_.string()), Outcome::held);
  FolderLock moved = std::move(a);
  EXPECT_EQ(b.try_lock(folder_.string()), Outcome::held);
  moved.unlock();
  EXPECT_TRUE(b.lock(folder_.string()));
}

}  // namespace
}  // namespace tessera
