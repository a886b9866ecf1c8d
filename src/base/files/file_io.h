// SPDX-License-Identifier: Apache-2.0
// Files and folders by system calls, with errors that name them: what must survive crashes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tessera/error.h>

namespace tessera {

/// Stands before the system calls of this file, for tests of what happens when one fails.
class FileFaults {
 public:
  virtual ~FileFaults() = default;
  /// `call` is "open", "write", "rename", ... Anything but 0 is the error with which it fails
  /// instead of being made. A write writes at most `*bytes`.
  virtual int before(std::string_view call, const std::string& path, std::size_t* bytes) = 0;
};
/// For the whole process; null: none. The caller keeps it alive.
void set_file_faults(FileFaults* faults);

/// An open file. Errors are IoErrors that begin "can't read PATH" or "can't write PATH".
class File {
 public:
  /// A regular file; IoError also for anything else.
  static File open(const std::string& path);
  /// A file that doesn't exist yet.
  static File create(const std::string& path);
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  const std::string& path() const { return path_; }
  std::uint64_t size() const;
  /// Fewer bytes than requested only at the end of the file.
  std::size_t read_at(std::uint64_t offset, std::span<std::byte> to) const;
  void write(std::span<const std::byte> bytes);
  void write(std::string_view bytes) { write(std::as_bytes(std::span(bytes))); }
  /// To the disk.
  void sync();
  /// Reports what a write could not.
  void close();

 private:
  File(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_ = -1;
};

/// The contents of a regular file; IoError if it has more bytes than `most`.
std::string read_file(const std::string& path, std::uint64_t most);
/// Writes `path` aside and then renames it, so that at all times it is the old file or the whole
/// new one; a link's target is replaced, and what isn't a regular file (a pipe) is written to.
class ReplacedFile {
 public:
  explicit ReplacedFile(const std::string& path);
  ReplacedFile(const ReplacedFile&) = delete;
  ReplacedFile& operator=(const ReplacedFile&) = delete;
  ~ReplacedFile();

  void write(std::span<const std::byte> bytes);
  void write(std::string_view bytes) { write(std::as_bytes(std::span(bytes))); }
  /// Puts the file in its place. Without it the old one stays.
  void commit();

 private:
  [[noreturn]] void fail();
  std::string path_, target_, aside_;  ///< `aside_` is empty if it is written in place
  int fd_ = -1;
};

/// Makes the folder, and those that it lies in, durably. IoError if something else is there.
void make_folders(const std::string& path);
/// False if the name is taken.
bool make_folder(const std::string& path);
/// To the disk: which files are in it.
void sync_folder(const std::string& path);
/// The names in a folder, in order, without "." and ".."; nothing if there is no such folder.
std::optional<std::vector<std::string>> folder_names(const std::string& path);
bool path_exists(const std::string& path);
/// False, and nothing happens, if `to` is a file or a folder with something in it.
bool rename_folder(const std::string& from, const std::string& to);
/// Exchanges two folders in one step. IoError if the file system can't.
void exchange_folders(const std::string& a, const std::string& b);
/// With all that is in it. What another process removes meanwhile is no error.
void remove_folder(const std::string& path);

/// A lock on a folder, which the system drops when its holder ends, however it ends.
class FolderLock {
 public:
  enum class Outcome : unsigned char {
    locked,
    held,         ///< by another holder, in this process or another
    gone,         ///< there is no such folder
    unsupported,  ///< the file system has no locks
  };
  FolderLock() = default;
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;
  ~FolderLock();

  Outcome try_lock(const std::string& path);
  /// Waits for other holders; IoError after a minute. False if the file system has no locks.
  bool lock(const std::string& path);
  void unlock();

 private:
  int fd_ = -1;
};

}  // namespace tessera
