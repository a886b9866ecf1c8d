// SPDX-License-Identifier: Apache-2.0
// save_checkpoint, at once and on a thread of its own.
#include <tessera/checkpoint.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#include "src/base/at_location.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/progress.h"
#include "src/frontend/checkpoint/collective_io.h"
#include "src/frontend/checkpoint/consistency.h"
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
      : options_(options),
        step_(step),
        who_("save_checkpoint to " + directory),
        together_("save_checkpoint", location) {
    std::vector<Array> leaves;
    const auto requests = together_.all([&] {
      check_options();
      tree_ = structure_of(walk);
      leaves = internal::collect_leaves(walk);
      check_saved(leaves, tree_.paths, who_, location);
      if (together_.alone()) return std::string();
      std::string out = "step " + std::to_string(step) +
                        "\nkeep = " + std::to_string(options.keep.value_or(0)) +
                        "\nreplace = " + (options.replace ? "true\n" : "false\n");
      return out + described(leaves, tree_.paths, location) + "the tree " +
             json_text(tree_.root, who_);
    });
    check_same(requests, who_);
    arrays_ = snapshot(leaves, tree_.paths, who_, location);
    total_ = piece_bytes(arrays_, together_.index());
    auto said = together_.all([&] {
      if (together_.index() == 0) folder_.emplace(directory, step, options.replace);
      return (folder_ ? folder_->name() : "") + '\n' +
             (together_.alone() ? std::string() : fingerprints(arrays_));
    });
    path_ = directory + "/" + said[0].substr(0, said[0].find('\n'));
    for (std::string& text : said) text.erase(0, text.find('\n') + 1);
    check_values(said, arrays_, tree_.paths, who_);
  }

  void run() {
    const auto written = together_.all([&] {
      if (!path_exists(path_)) {
        throw IoError(who_ + ": there is no folder " + path_ +
                      ", which process 0 has made; the directory must be on a file system that all "
                      "processes have");
      }
      WriteRequest request;
      request.folder = path_;
      request.process = together_.index();
      request.file_bytes = std::uint64_t(options_.file_bytes);
      request.metadata = options_.metadata;
      request.done = &done_;
      mine_ = manifest_of(write_pieces(arrays_, tree_.names, request));
      return together_.index() == 0 ? "" : manifest_text(mine_, who_);
    });
    together_.first([&] {
      for (std::size_t p = 1; p < written.size(); ++p) {
        add_pieces(parse_manifest(written[p], who_ + ", from process " + std::to_string(p)));
      }
      write_manifest();
      folder_->commit(options_.keep);
      return std::string();
    });
  }

  /// Lets go of the memory, and of a folder that isn't committed.
  void release() {
    arrays_.clear();
    folder_.reset();
  }

  std::uint64_t total() const { return total_; }
  std::uint64_t done() const { return done_.load(std::memory_order_relaxed); }

 private:
  void check_options() const {
    if (step_ < 0) {
      throw ValueError(who_ + ": step " + std::to_string(step_) + "; steps count from 0 on");
    }
    if (options_.keep && *options_.keep < 1) {
      throw ValueError(who_ + ": keep is " + std::to_string(*options_.keep) +
                       "; the new checkpoint is kept, so valid is 1 and more");
    }
    if (options_.file_bytes < 1) {
      throw ValueError(who_ + ": file_bytes is " + std::to_string(options_.file_bytes) +
                       "; valid is 1 and more");
    }
  }

  /// With the parts that this process has written.
  Manifest manifest_of(WrittenPieces written) const {
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
    return manifest;
  }

  /// Those that another process has written.
  void add_pieces(const Manifest& other) {
    const std::size_t before = mine_.files.size();
    mine_.files.insert(mine_.files.end(), other.files.begin(), other.files.end());
    TESSERA_CHECK(other.arrays.size() == mine_.arrays.size(), "processes save the same arrays");
    for (std::size_t i = 0; i < mine_.arrays.size(); ++i) {
      for (PieceRecord piece : other.arrays[i].pieces) {
        piece.file += before;
        mine_.arrays[i].pieces.push_back(std::move(piece));
      }
    }
  }

  void write_manifest() const {
    File file = File::create(path_ + "/" + kManifestName);
    file.write(manifest_text(mine_, who_));
    file.sync();
    file.close();
  }

  SaveCheckpointOptions options_;
  std::int64_t step_;
  std::string who_;
  CollectiveIo together_;
  TreeStructure tree_;
  std::vector<SavedArray> arrays_;
  std::uint64_t total_ = 0;
  std::atomic<std::uint64_t> done_{0};
  std::optional<StepFolder> folder_;  ///< of the first process
  std::string path_;                  ///< where all write
  Manifest mine_;
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
  at_location(location, [&] {
    frontend::CheckpointWriter save(directory, walk, step, options, location);
    const Progress progress("saving step " + std::to_string(step) + " to " + directory, [&] {
      constexpr std::uint64_t kMega = 1000000;
      return std::to_string(save.done() / kMega) + " of " + std::to_string(save.total() / kMega) +
             " MB";
    });
    save.run();
  });
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
