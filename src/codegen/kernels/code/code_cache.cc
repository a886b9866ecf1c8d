// SPDX-License-Identifier: Apache-2.0
// The on-disk cache of kernels: one file for each.
#include "src/codegen/kernels/code/code_cache.h"

#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>
#include <tuple>
#include <vector>

#include "src/base/env.h"

namespace tessera::codegen {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[8] = {'T', 'E', 'S', 'S', 'C', 'O', 'D', '1'};

struct Header {
  char magic[8];
  std::uint64_t checksum = 0;  ///< of all that follows
  std::uint64_t key_bytes = 0, code_bytes = 0;
};

/// As other programs do: $XDG_CACHE_HOME, or .cache in the home folder.
fs::path default_folder() {
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && *xdg == '/') {
    return fs::path(xdg) / "tessera";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/') {
    return fs::path(home) / ".cache" / "tessera";
  }
  return {};
}

/// What is kept is spread over as many folders, by the first two hex digits of a file's name: one
/// is looked through in a millisecond.
constexpr std::uintmax_t kFolders = 256;

void remove_oldest(const fs::path& folder, std::uintmax_t max_bytes) {
  struct Entry {
    fs::file_time_type used;
    fs::path file;
    std::uintmax_t bytes;
    bool operator<(const Entry& other) const {
      return std::tie(used, file) < std::tie(other.used, other.file);
    }
  };
  std::error_code error;
  std::vector<Entry> all;
  std::uintmax_t total = 0;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code e;
    Entry entry{it->last_write_time(e), it->path(), it->file_size(e)};
    if (e) continue;
    total += entry.bytes;
    all.push_back(std::move(entry));
  }
  if (total <= max_bytes) return;
  std::sort(all.begin(), all.end());
  for (const Entry& e : all) {
    if (total <= max_bytes / 4 * 3) break;
    if (fs::remove(e.file, error)) total -= e.bytes;
  }
}

std::string hex(XXH128_hash_t h) {
  char out[33];
  std::snprintf(out, sizeof out, "%016llx%016llx", static_cast<unsigned long long>(h.high64),
                static_cast<unsigned long long>(h.low64));
  return out;
}

}  // namespace

CodeCache::CodeCache(std::string target, std::uintmax_t max_bytes)
    : target_(std::move(target)), max_bytes_(max_bytes) {
  const std::optional<std::string> named = env_text("TESSERA_CACHE_DIR");
  if (named == "off") return;
  folder_ = named ? fs::path(*named) : default_folder();
  if (!folder_.empty()) folder_ /= "kernels";
}

fs::path CodeCache::file(const std::string& full) const {
  const std::string name = hex(XXH3_128bits(full.data(), full.size()));
  return folder_ / name.substr(0, 2) / name.substr(2);
}

std::optional<std::string> CodeCache::find(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  const std::string full = target_ + '\n' + key;
  std::error_code error;
  if (!fs::is_regular_file(file(full), error)) return std::nullopt;
  std::ifstream in(file(full), std::ios::binary);
  // A read that fails ends this, where iterators of the buffer would throw.
  std::ostringstream text;
  text << in.rdbuf();
  const std::string all = std::move(text).str();
  Header header;
  if (all.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, all.data(), sizeof header);
  const std::string_view body = std::string_view(all).substr(sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.key_bytes > body.size() ||
      header.code_bytes != body.size() - header.key_bytes ||
      header.checksum != XXH3_64bits(body.data(), body.size()) ||
      body.substr(0, header.key_bytes) != full) {
    return std::nullopt;
  }
  // For remove_oldest; a day's delay saves most writes.
  const auto now = fs::file_time_type::clock::now();
  if (now - fs::last_write_time(file(full), error) > std::chrono::hours(24)) {
    fs::last_write_time(file(full), now, error);
  }
  return std::string(body.substr(header.key_bytes));
}

void CodeCache::add(const std::string& key, const std::string& code) const {
  if (folder_.empty()) return;
  const std::string full = target_ + '\n' + key;
  const fs::path to = file(full), folder = to.parent_path();
  std::error_code error;
  // It holds machine code, which is run: nobody else may write there.
  if (fs::create_directories(folder, error)) {
    fs::permissions(folder, fs::perms::owner_all, error);
  }
  if (error) return;
  const std::string body = full + code;
  Header header;
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.checksum = XXH3_64bits(body.data(), body.size());
  header.key_bytes = full.size();
  header.code_bytes = code.size();
  static std::atomic<std::uint64_t> number = 0;
  const fs::path aside =
      to.string() + '.' + std::to_string(getpid()) + '.' + std::to_string(number.fetch_add(1));
  {
    std::ofstream out(aside, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&header), sizeof header);
    out.write(body.data(), std::streamsize(body.size()));
    out.close();
    if (!out) {
      fs::remove(aside, error);
      return;
    }
  }
  fs::rename(aside, to, error);
  if (error) fs::remove(aside, error);
  // After one in eight, whichever process adds it.
  if (header.checksum % 8 == 0) remove_oldest(folder, max_bytes_ / kFolders);
}

}  // namespace tessera::codegen
