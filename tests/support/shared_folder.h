// SPDX-License-Identifier: Apache-2.0
// A folder that the processes of a test share.
#pragma once

#include <tessera/tessera.h>

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>

namespace tessera::testing {

/// The same folder in all processes, which isn't there at first, and goes in the end.
class SharedFolder {
 public:
  explicit SharedFolder(const std::string& name) {
    namespace fs = std::filesystem;
    static std::atomic<int> count{0};
    const int mine = int(getpid()) * 16 + count++ % 16;
    const int id = broadcast_one_to_all(astype(Array(mine), DType::s32)).item<int>();
    path_ = (fs::temp_directory_path() / ("tessera_" + name + "_" + std::to_string(id))).string();
    if (process_index() == 0) fs::remove_all(path_);
    sync_processes("the folder");
  }
  ~SharedFolder() {
    try {
      sync_processes("the end of the folder");
    } catch (const std::exception&) {  // others have failed
    }
    if (process_index() == 0) std::filesystem::remove_all(path_);
  }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace tessera::testing
