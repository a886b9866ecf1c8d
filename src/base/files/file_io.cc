// SPDX-License-Identifier: Apache-2.0
// System calls on files and folders, behind one place at which tests make them fail.
#include "src/base/files/file_io.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <system_error>
#include <thread>
#include <utility>

namespace tessera {

namespace fs = std::filesystem;

namespace {

std::atomic<FileFaults*> injected{nullptr};

/// Whether the call may be made; otherwise errno is set.
bool allowed(std::string_view call, const std::string& path, std::size_t* bytes = nullptr) {
  FileFaults* faults = injected.load(std::memory_order_relaxed);
  if (faults == nullptr) return true;
  std::size_t none = 0;
  const int error = faults->before(call, path, bytes ? bytes : &none);
  if (error == 0) return true;
  errno = error;
  return false;
}

std::string system_says(int error) {
  return std::error_code(error, std::generic_category()).message();
}
[[noreturn]] void cannot(const char* what, const std::string& path, int error = errno) {
  throw IoError(std::string("can't ") + what + " " + path + ": " + system_says(error));
}

int open_file(const std::string& path, int flags) {
  while (true) {
    const int fd = allowed("open", path) ? ::open(path.c_str(), flags | O_CLOEXEC, 0666) : -1;
    if (fd >= 0 || errno != EINTR) return fd;
  }
}

/// Nothing, or the error.
int write_all(int fd, const std::string& path, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    // Linux writes at most 2 GiB at once.
    std::size_t count = std::min(bytes.size(), std::size_t(1) << 30);
    const ssize_t written =
        allowed("write", path, &count) ? ::write(fd, bytes.data(), count) : ssize_t(-1);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes = bytes.subspan(std::size_t(written));
  }
  return 0;
}

/// Pipes and the like can't be synchronised.
bool sync_fd(int fd, const std::string& path) {
  while (true) {
    if (allowed("fsync", path) && ::fsync(fd) == 0) return true;
    if (errno == EINTR) continue;
    return errno == EINVAL || errno == EROFS;
  }
}

bool close_fd(int fd, const std::string& path) {
  if (!allowed("close", path)) {
    const int error = errno;
    ::close(fd);
    errno = error;
    return false;
  }
  return ::close(fd) == 0 || errno == EINTR;
}

void close_quietly(int* fd) {
  if (*fd >= 0) ::close(*fd);
  *fd = -1;
}

bool remove_file(const std::string& path) {
  return allowed("unlink", path) && ::unlink(path.c_str()) == 0;
}

}  // namespace

void set_file_faults(FileFaults* faults) { injected.store(faults); }

File File::open(const std::string& path) {
  // Without O_NONBLOCK the open of a pipe waits for its writer.
  const int fd = open_file(path, O_RDONLY | O_NONBLOCK);
  if (fd < 0) cannot("read", path);
  File file(path, fd);
  struct stat status {};
  if (!allowed("fstat", path) || ::fstat(fd, &status) != 0) cannot("read", path);
  if (!S_ISREG(status.st_mode)) throw IoError("can't read " + path + ": it is no regular file");
  return file;
}

File File::create(const std::string& path) {
  const int fd = open_file(path, O_WRONLY | O_CREAT | O_EXCL);
  if (fd < 0) cannot("write", path);
  return File(path, fd);
}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
File& File::operator=(File&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}
File::~File() { close_quietly(&fd_); }

std::uint64_t File::size() const {
  struct stat status {};
  if (!allowed("fstat", path_) || ::fstat(fd_, &status) != 0) cannot("read", path_);
  return std::uint64_t(status.st_size);
}

std::size_t File::read_at(std::uint64_t offset, std::span<std::byte> to) const {
  std::size_t done = 0;
  while (done < to.size()) {
    if (offset + done > std::uint64_t(std::numeric_limits<off_t>::max())) break;
    std::size_t count = std::min(to.size() - done, std::size_t(1) << 30);
    const ssize_t got = allowed("pread", path_, &count)
                            ? ::pread(fd_, to.data() + done, count, off_t(offset + done))
                            : ssize_t(-1);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) cannot("read", path_);
    if (got == 0) break;
    done += std::size_t(got);
  }
  return done;
}

void File::write(std::span<const std::byte> bytes) {
  if (const int error = write_all(fd_, path_, bytes)) cannot("write", path_, error);
}

void File::sync() {
  if (!sync_fd(fd_, path_)) cannot("write", path_);
}

void File::close() {
  if (!close_fd(std::exchange(fd_, -1), path_)) cannot("write", path_);
}

std::string read_file(const std::string& path, std::uint64_t most) {
  const File file = File::open(path);
  const std::uint64_t bytes = file.size();
  if (bytes > most) {
    throw IoError("can't read " + path + ": it has " + std::to_string(bytes) +
                  " bytes, and at most " + std::to_string(most) + " are read");
  }
  std::string out(std::size_t(bytes), '\0');
  out.resize(file.read_at(0, std::as_writable_bytes(std::span(out))));
  return out;
}

ReplacedFile::ReplacedFile(const std::string& path) : path_(path) {
  std::error_code ignored;
  fs::path target(path);
  if (fs::is_symlink(target, ignored)) {
    const fs::path resolved = fs::canonical(path, ignored);
    if (!ignored) target = resolved;
  }
  target_ = target.string();
  const fs::file_status there = fs::status(target, ignored);
  if (fs::exists(there) && !fs::is_regular_file(there)) {
    fd_ = open_file(target_, O_WRONLY);
    if (fd_ < 0) fail();
    return;
  }
  static std::atomic<unsigned> next{0};
  aside_ = target_ + "." + std::to_string(::getpid()) + "-" + std::to_string(next++) + ".part";
  fd_ = open_file(aside_, O_WRONLY | O_CREAT | O_EXCL);
  if (fd_ < 0) {
    aside_.clear();
    fail();
  }
}

ReplacedFile::~ReplacedFile() {
  close_quietly(&fd_);
  if (!aside_.empty()) remove_file(aside_);
}

void ReplacedFile::fail() { cannot("write", path_); }

void ReplacedFile::write(std::span<const std::byte> bytes) {
  if (const int error = write_all(fd_, target_, bytes)) {
    errno = error;
    fail();
  }
}

void ReplacedFile::commit() {
  if (!sync_fd(fd_, target_)) fail();
  if (!close_fd(std::exchange(fd_, -1), target_)) fail();
  if (aside_.empty()) return;
  if (!allowed("rename", target_) || ::rename(aside_.c_str(), target_.c_str()) != 0) fail();
  aside_.clear();
}

bool make_folder(const std::string& path) {
  if (allowed("mkdir", path) && ::mkdir(path.c_str(), 0777) == 0) return true;
  if (errno == EEXIST) return false;
  cannot("make the folder", path);
}

void make_folders(const std::string& path) {
  if (path.empty()) throw IoError("can't make a folder: its path is empty");
  fs::path whole = fs::path(path).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();
  std::error_code unknown;
  if (fs::is_directory(whole, unknown)) return;
  const fs::path parent = whole.parent_path();
  if (!parent.empty() && parent != whole) make_folders(parent.string());
  if (!make_folder(whole.string())) {
    // Another process may have been faster.
    if (!fs::is_directory(whole, unknown)) {
      throw IoError("can't make the folder " + path + ": " + whole.string() + " is no folder");
    }
  }
  sync_folder(parent.empty() ? "." : parent.string());
}

void sync_folder(const std::string& path) {
  int fd = open_file(path, O_RDONLY | O_DIRECTORY);
  if (fd < 0) cannot("write", path);
  const bool synchronised = sync_fd(fd, path);
  const int error = errno;
  close_quietly(&fd);
  if (!synchronised) cannot("write", path, error);
}

std::optional<std::vector<std::string>> folder_names(const std::string& path) {
  DIR* folder = allowed("opendir", path) ? ::opendir(path.c_str()) : nullptr;
  if (folder == nullptr) {
    if (errno == ENOENT) return std::nullopt;
    cannot("read the folder", path);
  }
  std::vector<std::string> out;
  while (true) {
    errno = 0;
    const dirent* entry = allowed("readdir", path) ? ::readdir(folder) : nullptr;
    if (entry == nullptr) break;
    const std::string name = entry->d_name;
    if (name != "." && name != "..") out.push_back(name);
  }
  const int error = errno;
  ::closedir(folder);
  if (error != 0) cannot("read the folder", path, error);
  std::sort(out.begin(), out.end());
  return out;
}

bool path_exists(const std::string& path) {
  struct stat status {};
  if (allowed("stat", path) && ::stat(path.c_str(), &status) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  cannot("read", path);
}

bool rename_folder(const std::string& from, const std::string& to) {
  if (allowed("rename", to) && ::rename(from.c_str(), to.c_str()) == 0) return true;
  if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR) return false;
  cannot("rename a folder to", to);
}

void exchange_folders(const std::string& a, const std::string& b) {
  if (allowed("exchange", b) &&
      ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) {
    return;
  }
  if (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP) {
    throw IoError("can't replace " + b +
                  " in one step: this file system can't exchange folders; remove it first, or save "
                  "under another number");
  }
  cannot("replace", b);
}

void remove_folder(const std::string& path) {
  const auto names = folder_names(path);
  if (!names) return;
  for (const std::string& name : *names) {
    const std::string inner = path + "/" + name;
    if (remove_file(inner) || errno == ENOENT) continue;
    // Linux says EISDIR of folders, POSIX EPERM.
    if (errno != EISDIR && errno != EPERM) cannot("remove", inner);
    remove_folder(inner);
  }
  if ((allowed("rmdir", path) && ::rmdir(path.c_str()) == 0) || errno == ENOENT) return;
  cannot("remove the folder", path);
}

FolderLock::FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}
FolderLock::~FolderLock() { unlock(); }

FolderLock::Outcome FolderLock::try_lock(const std::string& path) {
  unlock();
  int fd = open_file(path, O_RDONLY | O_DIRECTORY);
  if (fd < 0) {
    if (errno == ENOENT) return Outcome::gone;
    cannot("lock the folder", path);
  }
  while (!allowed("flock", path) || ::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    const int error = errno;
    close_quietly(&fd);
    if (error == EWOULDBLOCK) return Outcome::held;
    if (error == ENOLCK || error == ENOTSUP || error == ENOSYS || error == EINVAL) {
      return Outcome::unsupported;
    }
    cannot("lock the folder", path, error);
  }
  fd_ = fd;
  return Outcome::locked;
}

bool FolderLock::lock(const std::string& path) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (true) {
    switch (try_lock(path)) {
      case Outcome::locked:
        return true;
      case Outcome::unsupported:
        return false;
      case Outcome::gone:
        cannot("lock the folder", path, ENOENT);
      case Outcome::held:
        break;
    }
    if (std::chrono::steady_clock::now() > until) {
      throw IoError("can't lock the folder " + path + ": another process has held it for a minute");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void FolderLock::unlock() { close_quietly(&fd_); }

}  // namespace tessera
