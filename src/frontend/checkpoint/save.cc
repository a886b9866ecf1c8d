// SPDX-License-Identifier: Apache-2.0
// save_checkpoint, at once and on a thread of its own.
#include <tessera/checkpoint.h>

#include <atomic>
#include <exception>
#include <thread>

#include "src/base/at_location.h"
#include "src/base/log.h"
#include "src/frontend/checkpoint/manifest.h"
#include "src/frontend/checkpoint/step_folder.h"
#include "src/frontend/checkpoint/tree_structure.h"

namespace tessera {

namespace frontend {

/// All that a save needs, taken when it begins.
class CheckpointWriter {
 public:
  CheckpointWriter(const std::string& directory, const TreeWalk& walk, std::int64_t step,
                   const SaveCheckpointOptions& options, Location location)
      : options_(options), step_(step), who_("save_checkpoint to " + directory) {
    if (step < 0) {
      throw ValueError(who_ + ": step " + std::to_string(step) + "; steps count from 0 on");
    }
    if (options.keep && *options.keep < 1) {
      throw ValueError(who_ + ": keep is " + std::to_string(*options.keep) +
                       "; the new checkpoint is kept, so valid is 1 and more");
    }
    if (options.file_bytes < 1) {
      throw ValueError(who_ + ": file_bytes is " + std::to_string(options.file_bytes) +
                       "; valid is 1 and more");
    }
    tree_ = structure_of(walk);
    arrays_ = snapshot(internal::collect_leaves(walk), tree_.paths, who_, location);
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
      for (const ShardPiece& piece : arrays_[i].pieces) {
        if (piece.process == kProcess) continue;
        throw NotImplementedError(who_ + ": the array " + tree_.paths[i] + " is on process " +
                                  std::to_string(piece.process) +
                                  "; checkpoints of several processes aren't written yet");
      }
    }
    total_ = piece_bytes(arrays_, kProcess);
    folder_.emplace(directory, step, options.replace);
  }

  void run() {
    WriteRequest request;
    request.folder = folder_->path();
    request.process = kProcess;
    request.file_bytes = std::uint64_t(options_.file_bytes);
    request.metadata = options_.metadata;
    request.done = &done_;
    write_manifest(write_pieces(arrays_, tree_.names, request));
    folder_->commit(options_.keep);
  }

  /// Lets go of the memory, and of a folder that isn't committed.
  void release() {
    arrays_.clear();
    folder_.reset();
  }

  std::uint64_t total() const { return total_; }
  std::uint64_t done() const { return done_.load(std::memory_order_relaxed); }

 private:
  /// With several processes each writes its parts, and the first one the manifest, of the records
  /// of all.
  static constexpr std::int64_t kProcess = 0;

  void write_manifest(WrittenPieces written) const {
    Manifest manifest;
    manifest.step = step_;
    manifest.metadata = options_.metadata;
    manifest.tree = tree_.root;
    manifest.files = std::move(written.files);
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
      const SavedArray& a = arrays_[i];
      ArrayRecord record;
      record.path = tree_.paths[i];
      record.shape = a.shape;
      record.weak = a.weak;
      if (a.sharding.valid()) {
        record.sharding = record_sharding(a.sharding, &manifest.meshes);
      }
      record.same_as = a.same_as;
      record.pieces = std::move(written.pieces[i]);
      manifest.arrays.push_back(std::move(record));
    }
    File file = File::create(folder_->path() + "/" + kManifestName);
    file.write(manifest_text(manifest, who_));
    file.sync();
    file.close();
  }

  SaveCheckpointOptions options_;
  std::int64_t step_;
  std::string who_;
  TreeStructure tree_;
  std::vector<SavedArray> arrays_;
  std::uint64_t total_ = 0;
  std::atomic<std::uint64_t> done_{0};
  std::optional<StepFolder> folder_;
};

}  // namespace frontend

struct CheckpointSave::State {
  State(const std::string& directory, const frontend::TreeWalk& walk, std::int64_t step,
        const SaveCheckpointOptions& options, Location location)
      : save(directory, walk, step, options, location), thread([this, location] {
          try {
            at_location(location, [&] { save.run(); });
          } catch (const std::exception& e) {
            error = std::current_exception();
            message = e.what();
          }
          save.release();
          ended.store(true);
          ended.notify_all();
        }) {}

  frontend::CheckpointWriter save;
  std::exception_ptr error;
  std::string message;  ///< of the error
  std::atomic<bool> ended{false};
  std::atomic<bool> told{false};  ///< the error has been thrown
  std::jthread thread;            ///< the last member: it uses the others
};

CheckpointSave::CheckpointSave() = default;
CheckpointSave::CheckpointSave(std::unique_ptr<State> state) : state_(std::move(state)) {}
CheckpointSave::CheckpointSave(CheckpointSave&& other) noexcept = default;
CheckpointSave& CheckpointSave::operator=(CheckpointSave&& other) noexcept {
  if (this != &other) {
    end();
    state_ = std::move(other.state_);
  }
  return *this;
}
CheckpointSave::~CheckpointSave() { end(); }

void CheckpointSave::end() noexcept {
  if (!state_) return;
  state_->ended.wait(false);
  if (state_->error && !state_->told) {
    log(LogLevel::error, "a checkpoint wasn't saved: " + state_->message);
  }
  state_.reset();
}

CheckpointProgress CheckpointSave::progress() const {
  if (!state_) return {0, 0, true};
  return {state_->save.done(), state_->save.total(), state_->ended.load()};
}

void CheckpointSave::wait() const {
  if (!state_) return;
  state_->ended.wait(false);
  if (!state_->error) return;
  state_->told = true;
  std::rethrow_exception(state_->error);
}

namespace internal {

void save_tree(const std::string& directory, const std::function<void(TreeVisitor&)>& walk,
               std::int64_t step, const SaveCheckpointOptions& options, Location location) {
  at_location(location,
              [&] { frontend::CheckpointWriter(directory, walk, step, options, location).run(); });
}

CheckpointSave save_tree_async(const std::string& directory,
                               const std::function<void(TreeVisitor&)>& walk, std::int64_t step,
                               const SaveCheckpointOptions& options, Location location) {
  return at_location(location, [&] {
    return CheckpointSave(
        std::make_unique<CheckpointSave::State>(directory, walk, step, options, location));
  });
}

}  // namespace internal
}  // namespace tessera
