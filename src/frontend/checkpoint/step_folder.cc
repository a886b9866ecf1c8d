// SPDX-License-Identifier: Apache-2.0
// Steps are written aside, renamed into place, and renamed away before they are removed.
#include "src/frontend/checkpoint/step_folder.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "src/base/log.h"
#include "src/frontend/checkpoint/manifest.h"

namespace tessera::frontend {

namespace {

constexpr std::string_view kStep = "step_";
/// Of folders aside: ".step_00000012.PID-N.part"
constexpr std::string_view kAside = ".step_", kPart = ".part";

std::string step_name(std::int64_t step) { return fmt::format("{}{:08}", kStep, step); }

std::optional<std::int64_t> step_of(const std::string& name) {
  if (name.rfind(kStep, 0) != 0) return std::nullopt;
  std::int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto read = std::from_chars(name.data() + kStep.size(), end, step);
  if (read.ec != std::errc() || read.ptr != end || step < 0 || step_name(step) != name) {
    return std::nullopt;
  }
  return step;
}

bool is_aside(const std::string& name) {
  return name.rfind(kAside, 0) == 0 && name.size() > kPart.size() &&
         name.compare(name.size() - kPart.size(), kPart.size(), kPart) == 0;
}

std::string name_aside(std::int64_t step) {
  static std::atomic<unsigned> next{0};
  return fmt::format(".{}.{}-{}{}", step_name(step), ::getpid(), next++, kPart);
}

struct Listing {
  std::vector<std::int64_t> steps;
  /// False if savers may have removed, or added, one meanwhile.
  bool complete = true;
};
Listing list_steps(const std::string& directory) {
  Listing out;
  const auto names = folder_names(directory);
  if (!names) return out;
  for (const std::string& name : *names) {
    const auto step = step_of(name);
    if (!step) continue;
    const std::string path = directory + "/" + name;
    if (path_exists(path + "/" + kManifestName)) {
      out.steps.push_back(*step);
    } else if (!path_exists(path)) {
      out.complete = false;
    }
  }
  out.complete &= !out.steps.empty();
  std::sort(out.steps.begin(), out.steps.end());
  return out;
}

/// A warning if it fails: what is left there harms nobody, and the next saver tries again.
void remove_leftover(const std::string& path) {
  try {
    remove_folder(path);
  } catch (const IoError& e) {
    log_warning("a checkpoint's leftovers remain: " + e.message());
  }
}

}  // namespace

std::string step_path(const std::string& directory, std::int64_t step) {
  return directory + "/" + step_name(step);
}

std::vector<std::int64_t> steps_in(const std::string& directory) {
  Listing listing = list_steps(directory);
  if (listing.complete) return std::move(listing.steps);
  // Steps came and went while the list was made. Under the lock they don't.
  FolderLock all;
  all.lock(directory);
  return list_steps(directory).steps;
}

StepFolder::StepFolder(std::string directory, std::int64_t step, bool replace)
    : directory_(std::move(directory)),
      target_(step_path(directory_, step)),
      step_(step),
      replace_(replace) {
  make_folders(directory_);
  std::vector<std::pair<std::string, FolderLock>> dead;
  {
    // So that nobody takes a folder for a leftover between its creation and its lock.
    FolderLock all;
    const bool locks = all.lock(directory_);
    if (!replace_ && path_exists(target_)) exists();
    const auto names = locks ? folder_names(directory_) : std::nullopt;
    for (const std::string& name : names.value_or(std::vector<std::string>())) {
      if (!is_aside(name)) continue;
      FolderLock lock;
      const std::string path = directory_ + "/" + name;
      if (lock.try_lock(path) == FolderLock::Outcome::locked) {
        dead.emplace_back(path, std::move(lock));
      }
    }
    std::string aside;
    do {
      aside = directory_ + "/" + name_aside(step_);
    } while (!make_folder(aside));
    aside_ = std::move(aside);
    try {
      lock_.try_lock(aside_);
    } catch (...) {
      remove_leftover(aside_);
      throw;
    }
  }
  for (const auto& [path, lock] : dead) remove_leftover(path);
}

StepFolder::~StepFolder() {
  if (!aside_.empty()) remove_leftover(aside_);
}

void StepFolder::exists() const {
  throw ValueError("there is a checkpoint of step " + std::to_string(step_) + " in " + directory_ +
                   "; valid: another step, or the option replace");
}

void StepFolder::commit(std::optional<std::int64_t> keep) {
  sync_folder(aside_);
  {
    FolderLock all;
    all.lock(directory_);
    if (replace_ && path_exists(target_)) {
      exchange_folders(aside_, target_);
      sync_folder(directory_);
    } else if (rename_folder(aside_, target_)) {
      aside_.clear();
      sync_folder(directory_);
    } else {
      exists();
    }
  }
  if (!aside_.empty()) remove_leftover(std::exchange(aside_, {}));
  if (keep) prune(*keep);
}

void StepFolder::prune(std::int64_t keep) {
  std::vector<std::string> removed;
  try {
    FolderLock all;
    all.lock(directory_);
    std::vector<std::int64_t> others = list_steps(directory_).steps;
    others.erase(std::remove(others.begin(), others.end(), step_), others.end());
    while (std::int64_t(others.size()) >= std::max<std::int64_t>(keep, 1)) {
      const std::int64_t oldest = others.front();
      others.erase(others.begin());
      const std::string aside = directory_ + "/" + name_aside(oldest);
      if (rename_folder(step_path(directory_, oldest), aside)) removed.push_back(aside);
    }
    if (!removed.empty()) sync_folder(directory_);
  } catch (const IoError& e) {
    // The new step is saved.
    log_warning("old checkpoints remain: " + e.message());
  }
  for (const std::string& path : removed) remove_leftover(path);
}

}  // namespace tessera::frontend
