// SPDX-License-Identifier: Apache-2.0
// Checkpoints: trees of arrays in files, restored on any mesh.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tessera/array.h>
#include <tessera/sharding/sharding_tree.h>
#include <tessera/tree.h>

/// @file
/// A checkpoint is a folder "step_00000012" of a directory: safetensors files with each distinct
/// part of each array once, and a manifest. It appears in one step when all of it is on the disk,
/// so that a process that ends while it saves, however it ends, leaves the checkpoints that were
/// there. The next save removes what it left. Any number of processes and threads may save to a
/// directory, and read it meanwhile.
///
/// If several processes run the program, they call these functions together, but for
/// checkpoint_info and verify_checkpoint. Each writes and reads the parts of its own devices, and
/// if one fails all do. The directory must be on a file system that all have.

namespace tessera {

/// Options of `save_checkpoint`.
struct SaveCheckpointOptions {
  /// How many checkpoints are to be left in the directory: after the new one is there, those of the
  /// lowest steps are removed, never the new one. By default all are kept.
  std::optional<std::int64_t> keep{};
  /// Replaces a checkpoint of the same step, which otherwise is an error. At all times it is the
  /// old one or the whole new one.
  bool replace = false;
  /// Texts to be kept with the checkpoint; see `checkpoint_info`.
  std::map<std::string, std::string> metadata{};
  /// A file is ended, and another one begun, when it has so many bytes.
  std::int64_t file_bytes = std::int64_t(4) << 30;
};

/// Options of `restore_checkpoint`.
struct RestoreCheckpointOptions {
  /// The step; by default the latest one.
  std::optional<std::int64_t> step{};
  /// Where to place the arrays, as a prefix of the tree. Arrays for which it says nothing are
  /// placed as those of `like`.
  ShardingTree sharding{};
};

/// How far a save is.
struct CheckpointProgress {
  /// Bytes of arrays that have been written.
  std::uint64_t bytes_done = 0;
  /// Bytes of arrays that will be written.
  std::uint64_t bytes_total = 0;
  /// True if the save has ended, well or with an error.
  bool done = false;
};

/// A save that goes on while the program does: the result of `save_checkpoint_async`.
class CheckpointSave {
 public:
  /// No save.
  CheckpointSave();
  /// Takes over another one's save, after waiting for its own.
  CheckpointSave(CheckpointSave&&) noexcept;
  /// Takes over another one's save, after waiting for its own.
  CheckpointSave& operator=(CheckpointSave&&) noexcept;
  /// Waits for the end of the save. An error that `wait` hasn't thrown is logged.
  ~CheckpointSave();

  /// False if there is no save.
  bool valid() const { return state_ != nullptr; }
  /// Returns how far the save is; nothing is done and all is done of no save.
  CheckpointProgress progress() const;
  /// Waits for the end of the save, and throws its error, if any, each time it is called.
  void wait() const;

  /// The representation; for internal use.
  struct State;
  /// For internal use.
  explicit CheckpointSave(std::unique_ptr<State> state);

 private:
  void end() noexcept;
  std::unique_ptr<State> state_;
};

/// What a checkpoint has of one array.
struct CheckpointArray {
  /// Its place in the tree, as `tree_paths` has it.
  std::string path;
  /// Shape of the entire array.
  std::vector<std::int64_t> shape;
  /// Dtype of the elements.
  DType dtype = DType::f32;
  /// True for plain scalars and what came from them.
  bool weak_type = false;
  /// The spec that it had, if it had a NamedSharding.
  std::optional<PartitionSpec> spec{};
  /// The axes and sizes of the mesh that it had, if it had one.
  std::vector<std::pair<std::string, std::int64_t>> mesh{};
};
/// What a checkpoint has.
struct CheckpointInfo {
  /// Its step.
  std::int64_t step = 0;
  /// The texts that were saved with it.
  std::map<std::string, std::string> metadata;
  /// The arrays, in the order of the tree.
  std::vector<CheckpointArray> arrays;
  /// Bytes of all its files of arrays.
  std::uint64_t bytes = 0;
};

namespace internal {
void save_tree(const std::string& directory, const std::function<void(TreeVisitor&)>& walk,
               std::int64_t step, const SaveCheckpointOptions& options, Location location);
CheckpointSave save_tree_async(const std::string& directory,
                               const std::function<void(TreeVisitor&)>& walk, std::int64_t step,
                               const SaveCheckpointOptions& options, Location location);
void restore_tree(const std::string& directory, const std::function<void(TreeVisitor&)>& walk,
                  const RestoreCheckpointOptions& options, Location location);
}  // namespace internal

/// Saves a tree of arrays as a checkpoint, and returns when it is on the disk.
///
/// Numbers, enums and texts within the tree are saved with it. Of copies that devices hold one is
/// written, and of arrays that occur twice in the tree as well; arrays that are unreduced are
/// summed up first.
/// @code
/// save_checkpoint("run7", state, step, {.keep = 3});
/// @endcode
/// @param directory  Folder of the checkpoints; made if it isn't there.
/// @param tree  The tree.
/// @param step  Number of the checkpoint, from 0 on.
/// @param options  See there.
/// @param location  The line named in messages.
/// @throws IoError, naming the file, if something can't be written. What was there before remains.
/// @throws ValueError for a step that is there already, a negative one, and `keep` below 1.
/// @throws TracerError while a function is traced; TypeError for a shape_dtype_struct; RuntimeError
///   for an array that has been deleted.
/// @throws ValueError, of several processes, if they save different things; RuntimeError if one of
///   them fails or ends.
template <TreeLike T>
void save_checkpoint(const std::string& directory, const T& tree, std::int64_t step,
                     const SaveCheckpointOptions& options = {},
                     Location location = Location::current()) {
  internal::save_tree(
      directory, [&](internal::TreeVisitor& v) { internal::visit_tree(const_cast<T&>(tree), v); },
      step, options, location);
}

/// The same on another thread: returns as soon as it is known what is saved.
///
/// The values are those at the time of the call, whatever happens to the arrays afterwards: a
/// program to which they are donated meanwhile takes memory of its own.
/// @code
/// CheckpointSave saving;
/// for (std::int64_t step = 0; step < 1000; ++step) {
///   state = train(state);
///   if (step % 100 == 0) saving = save_checkpoint_async("run7", state, step);
/// }
/// saving.wait();
/// @endcode
/// @throws as `save_checkpoint`: what is wrong with the arguments at once, and what can't be
/// written
///   from CheckpointSave::wait.
template <TreeLike T>
[[nodiscard]] CheckpointSave save_checkpoint_async(const std::string& directory, const T& tree,
                                                   std::int64_t step,
                                                   const SaveCheckpointOptions& options = {},
                                                   Location location = Location::current()) {
  return internal::save_tree_async(
      directory, [&](internal::TreeVisitor& v) { internal::visit_tree(const_cast<T&>(tree), v); },
      step, options, location);
}

/// Restores a tree of arrays from a checkpoint, with any sharding on any mesh.
///
/// The result has the structure of `like`, the arrays of the checkpoint, and its numbers, enums and
/// texts. An array is placed as the options say; else as the array of `like`, if that is committed,
/// or a shape_dtype_struct with a sharding; else it is uncommitted on the default device. Of the
/// files only the blocks of 1 MiB are read that hold elements of this process's devices, and their
/// checksums are compared.
/// @code
/// State fresh = initial_state(mesh);
/// State state = latest_step("run7") ? restore_checkpoint("run7", fresh) : fresh;
/// @endcode
/// @param directory  Folder of the checkpoints.
/// @param like  A tree of arrays or shape_dtype_structs. Their values aren't read, so that they may
///   have been deleted.
/// @param options  See there.
/// @param location  The line named in messages.
/// @throws IoError if there is no such checkpoint, or it is damaged: the message names the file,
/// the
///   array, what was expected, and which other checkpoints there are.
/// @throws ValueError if the structure of `like` is another one; the message lists the differences.
/// @throws ShapeError or DTypeError if an array of `like` has another shape or dtype.
/// @throws IndivisibleError or ShardingError if a sharding doesn't fit.
template <TreeLike T>
T restore_checkpoint(const std::string& directory, const T& like,
                     const RestoreCheckpointOptions& options = {},
                     Location location = Location::current()) {
  T out = like;
  internal::restore_tree(
      directory, [&](internal::TreeVisitor& v) { internal::visit_tree(out, v); }, options,
      location);
  return out;
}

/// Restores the arrays of a checkpoint whose tree isn't known, by their places in it.
/// @param directory  Folder of the checkpoints.
/// @param options  The sharding is one for all arrays.
/// @param location  The line named in messages.
/// @throws as above; ValueError for a tree of shardings.
std::map<std::string, Array> restore_checkpoint_arrays(const std::string& directory,
                                                       const RestoreCheckpointOptions& options = {},
                                                       Location location = Location::current());

/// Returns the steps of the checkpoints in a directory, in order; none if there is no such
/// directory. Of several processes all call it, and get what the first one sees.
/// @throws IoError if it can't be read.
std::vector<std::int64_t> all_steps(const std::string& directory,
                                    Location location = Location::current());
/// Returns the last of them, if there is any.
/// @throws IoError if the directory can't be read.
std::optional<std::int64_t> latest_step(const std::string& directory,
                                        Location location = Location::current());
/// Returns what a checkpoint has, without reading its arrays.
/// @param directory  Folder of the checkpoints.
/// @param step  The step; by default the latest one.
/// @param location  The line named in messages.
/// @throws IoError if there is no such checkpoint, or its manifest is damaged.
CheckpointInfo checkpoint_info(const std::string& directory, std::optional<std::int64_t> step = {},
                               Location location = Location::current());
/// Reads all of a checkpoint and returns what is wrong with it, a line for each damaged part of an
/// array or file; nothing if it is as it was written.
/// @throws IoError if there is no such checkpoint.
std::vector<std::string> verify_checkpoint(const std::string& directory,
                                           std::optional<std::int64_t> step = {},
                                           Location location = Location::current());

}  // namespace tessera
