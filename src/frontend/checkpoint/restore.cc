// SPDX-License-Identifier: Apache-2.0
// restore_checkpoint, and what else reads checkpoints.
#include <tessera/checkpoint.h>

#include <algorithm>
#include <exception>

#include <fmt/format.h>

#include "src/base/at_location.h"
#include "src/base/task_pool.h"
#include "src/frontend/checkpoint/manifest.h"
#include "src/frontend/checkpoint/placement_of.h"
#include "src/frontend/checkpoint/step_folder.h"
#include "src/frontend/checkpoint/tree_structure.h"
#include "src/frontend/run/sharding_prefix.h"

namespace tessera {

using frontend::ArrayRecord;
using frontend::FileRecord;
using frontend::Manifest;
using frontend::PieceRecord;

namespace {

/// Far beyond what the arrays of any machine take.
constexpr std::uint64_t kMaxManifest = std::uint64_t(1) << 30;

std::string steps_text(const std::vector<std::int64_t>& steps) {
  // The last ones are those of interest.
  const std::size_t shown = std::min<std::size_t>(steps.size(), 10);
  std::string out = steps.size() > shown ? "..., " : "";
  for (std::size_t i = steps.size() - shown; i < steps.size(); ++i) {
    out += std::to_string(steps[i]) + (i + 1 < steps.size() ? ", " : "");
  }
  return out;
}

/// An open checkpoint: once it is open it may be removed from the directory.
class Checkpoint {
 public:
  Checkpoint(const std::string& directory, std::int64_t step)
      : folder_(frontend::step_path(directory, step)) {
    const std::string path = folder_ + "/" + frontend::kManifestName;
    manifest_ = frontend::parse_manifest(read_file(path, kMaxManifest), path);
    if (manifest_.step != step) {
      throw IoError(path + " is that of step " + std::to_string(manifest_.step));
    }
    for (std::size_t i = 0; i < manifest_.files.size(); ++i) files_.push_back(open(i));
  }

  const Manifest& manifest() const { return manifest_; }
  const std::string& folder() const { return folder_; }

  /// IoError if a file isn't as long as it was, or its header isn't what it was.
  void check_file(std::size_t i) const {
    const FileRecord& record = manifest_.files[i];
    const std::uint64_t bytes = files_[i].size();
    if (bytes != record.bytes) {
      throw IoError(fmt::format(
          "{} is damaged: it has {} bytes, and {} were expected{}", files_[i].path(), bytes,
          record.bytes, bytes < record.bytes ? ": it ends within " + part_at(i, bytes) : ""));
    }
    std::vector<std::byte> header(std::size_t(record.header_bytes));
    header.resize(files_[i].read_at(0, header));
    if (const auto found = frontend::hash_bytes(header); found != record.header_hash) {
      throw IoError(
          fmt::format("{} is damaged within its header: bytes 0 to {} of the file have the "
                      "checksum {:016x}, and {:016x} was expected",
                      files_[i].path(), record.header_bytes, found, record.header_hash));
    }
  }
  void check_files() const {
    for (std::size_t i = 0; i < files_.size(); ++i) check_file(i);
  }

  const ArrayRecord& parts_of(const ArrayRecord& array) const {
    return array.same_as ? manifest_.arrays[*array.same_as] : array;
  }
  frontend::PieceSource source(const ArrayRecord& array, const PieceRecord& piece) const {
    return {&files_[piece.file],   piece.offset,  piece.box,
            name_of(array, piece), &piece.hashes, false};
  }
  Array read(const ArrayRecord& array, const std::optional<Sharding>& sharding,
             Location location) const {
    std::vector<frontend::PieceSource> sources;
    const ArrayRecord& parts = parts_of(array);
    for (const PieceRecord& piece : parts.pieces) sources.push_back(source(parts, piece));
    return frontend::read_array(sources, array.shape, sharding, array.weak,
                                folder_ + ": array '" + array.path + "'", location);
  }

 private:
  File open(std::size_t i) const {
    const std::string path = folder_ + "/" + manifest_.files[i].name;
    try {
      return File::open(path);
    } catch (const IoError& e) {
      throw IoError(e.message() + "; it has " + part_at(i, manifest_.files[i].header_bytes));
    }
  }
  static std::string name_of(const ArrayRecord& array, const PieceRecord& piece) {
    return "array '" + array.path + "' (" + array.shape.to_string() + ", saved as '" + piece.name +
           "')";
  }
  /// What byte `at` of a file belongs to.
  std::string part_at(std::size_t file, std::uint64_t at) const {
    for (const ArrayRecord& a : manifest_.arrays) {
      for (const PieceRecord& p : a.pieces) {
        const std::uint64_t bytes = std::uint64_t(p.box.element_count()) * byte_size(a.shape.dtype);
        if (p.file == file && at >= p.offset && at - p.offset < bytes) return name_of(a, p);
      }
    }
    return "its header";
  }

  std::string folder_;
  Manifest manifest_;
  std::vector<File> files_;
};

[[noreturn]] void no_checkpoint(const std::string& directory, std::optional<std::int64_t> step,
                                const std::vector<std::int64_t>& steps) {
  throw IoError("there is no checkpoint " +
                (step ? "of step " + std::to_string(*step) + " " : std::string()) + "in " +
                directory +
                (steps.empty() ? std::string() : "; there are steps " + steps_text(steps)));
}

/// Calls f with the open checkpoint. Errors of files say which other steps there are.
template <class F>
auto with_checkpoint(const std::string& directory, std::optional<std::int64_t> step, F&& f) {
  for (int attempt = 1;; ++attempt) {
    const std::vector<std::int64_t> steps = frontend::steps_in(directory);
    if (steps.empty() || (step && !std::binary_search(steps.begin(), steps.end(), *step))) {
      no_checkpoint(directory, step, steps);
    }
    const std::int64_t chosen = step.value_or(steps.back());
    try {
      const Checkpoint checkpoint(directory, chosen);
      return f(checkpoint);
    } catch (const IoError& e) {
      // A saver may have removed it since it was found.
      const std::vector<std::int64_t> now = frontend::steps_in(directory);
      const bool gone = !std::binary_search(now.begin(), now.end(), chosen);
      if (gone && !step && attempt < 10) continue;
      if (gone) no_checkpoint(directory, chosen, now);
      std::vector<std::int64_t> others;
      std::copy_if(now.begin(), now.end(), std::back_inserter(others),
                   [&](std::int64_t s) { return s != chosen; });
      if (others.empty()) throw;
      throw IoError(e.message() + " (other checkpoints in " + directory + ": steps " +
                    steps_text(others) + ")");
    }
  }
}

std::string array_of(const std::string& path) {
  return "restore_checkpoint: array" + (path.empty() ? std::string() : " '" + path + "'");
}

/// All arrays of a checkpoint, several at once.
std::vector<Array> read_arrays(const Checkpoint& checkpoint,
                               const std::vector<std::optional<Sharding>>& shardings,
                               Location location) {
  const std::vector<ArrayRecord>& arrays = checkpoint.manifest().arrays;
  // Arrays that are one stay one, if they are placed alike.
  const auto is_copy = [&](std::size_t i) {
    return arrays[i].same_as && shardings[*arrays[i].same_as] == shardings[i];
  };
  std::vector<Array> out(arrays.size());
  // Of several errors the first is thrown, whichever thread was faster.
  std::vector<std::exception_ptr> errors(arrays.size());
  parallel_for(std::int64_t(arrays.size()), [&](std::int64_t n) {
    const auto i = std::size_t(n);
    try {
      if (!is_copy(i)) out[i] = checkpoint.read(arrays[i], shardings[i], location);
    } catch (...) {
      errors[i] = std::current_exception();
    }
  });
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (errors[i]) std::rethrow_exception(errors[i]);
    if (is_copy(i)) out[i] = out[*arrays[i].same_as];
  }
  return out;
}

std::vector<Array> restored(const Checkpoint& checkpoint, const std::vector<Array>& like,
                            const std::vector<std::optional<Sharding>>& shardings,
                            Location location) {
  const Manifest& manifest = checkpoint.manifest();
  // All that can be wrong with the request comes first: reading takes long.
  for (std::size_t i = 0; i < like.size(); ++i) {
    const ArrayRecord& saved = manifest.arrays[i];
    const std::string who = array_of(saved.path);
    frontend::check_like(saved.shape, like[i], who, location);
    if (shardings[i]) frontend::check_placement(*shardings[i], saved.shape, who, location);
  }
  checkpoint.check_files();
  return read_arrays(checkpoint, shardings, location);
}

}  // namespace

namespace internal {

void restore_tree(const std::string& directory, const std::function<void(TreeVisitor&)>& walk,
                  const RestoreCheckpointOptions& options, Location location) {
  at_location(location, [&] {
    const std::string who = "restore_checkpoint of " + directory;
    const frontend::TreeStructure wanted = frontend::structure_of(walk);
    const std::vector<Array> like = collect_leaves(walk);
    const auto requested = frontend::broadcast_prefix(options.sharding, walk,
                                                      "restore_checkpoint's sharding", location);
    std::vector<std::optional<Sharding>> shardings;
    for (std::size_t i = 0; i < like.size(); ++i) {
      const std::string mine = array_of(wanted.paths[i]);
      shardings.push_back(frontend::resolve_leaf(requested[i], mine, true, false, location));
      if (!shardings[i]) shardings[i] = frontend::placement_of(like[i], mine, location);
    }
    std::vector<std::string> statics;
    const std::vector<Array> arrays =
        with_checkpoint(directory, options.step, [&](const Checkpoint& checkpoint) {
          const Manifest& manifest = checkpoint.manifest();
          const auto differences =
              frontend::structure_differences(manifest.tree, wanted.root, checkpoint.folder());
          if (!differences.empty()) {
            std::string lines;
            for (const std::string& line : differences) lines += "\n  " + line;
            throw ValueError(who + ": the tree of step " + std::to_string(manifest.step) +
                             " has another structure:" + lines);
          }
          if (manifest.arrays.size() != like.size()) {
            throw IoError(checkpoint.folder() + ": the tree has " + std::to_string(like.size()) +
                          " arrays, and " + std::to_string(manifest.arrays.size()) + " are listed");
          }
          statics = frontend::static_texts(manifest.tree);
          return restored(checkpoint, like, shardings, location);
        });
    try {
      frontend::assign_tree(walk, arrays, statics);
    } catch (const ValueError& e) {
      throw ValueError(who + ": " + e.message());
    }
  });
}

}  // namespace internal

std::map<std::string, Array> restore_checkpoint_arrays(const std::string& directory,
                                                       const RestoreCheckpointOptions& options,
                                                       Location location) {
  return at_location(location, [&] {
    const std::string who = "restore_checkpoint_arrays of " + directory;
    if (!options.sharding.is_leaf()) {
      throw ValueError(who + ": one sharding is for all arrays, and this is a tree of them: " +
                       options.sharding.to_string());
    }
    const auto sharding = frontend::resolve_leaf(options.sharding, who, true, false, location);
    return with_checkpoint(directory, options.step, [&](const Checkpoint& checkpoint) {
      for (const ArrayRecord& a : checkpoint.manifest().arrays) {
        if (sharding) frontend::check_placement(*sharding, a.shape, array_of(a.path), location);
      }
      checkpoint.check_files();
      const std::vector<ArrayRecord>& records = checkpoint.manifest().arrays;
      const std::vector<Array> arrays =
          read_arrays(checkpoint, std::vector(records.size(), sharding), location);
      std::map<std::string, Array> out;
      for (std::size_t i = 0; i < records.size(); ++i) out[records[i].path] = arrays[i];
      return out;
    });
  });
}

std::vector<std::int64_t> all_steps(const std::string& directory, Location location) {
  return at_location(location, [&] { return frontend::steps_in(directory); });
}

std::optional<std::int64_t> latest_step(const std::string& directory, Location location) {
  const std::vector<std::int64_t> steps = all_steps(directory, location);
  return steps.empty() ? std::nullopt : std::optional(steps.back());
}

CheckpointInfo checkpoint_info(const std::string& directory, std::optional<std::int64_t> step,
                               Location location) {
  return at_location(location, [&] {
    return with_checkpoint(directory, step, [&](const Checkpoint& checkpoint) {
      const Manifest& manifest = checkpoint.manifest();
      CheckpointInfo out;
      out.step = manifest.step;
      out.metadata = manifest.metadata;
      for (const FileRecord& f : manifest.files) out.bytes += f.bytes;
      for (const ArrayRecord& a : manifest.arrays) {
        CheckpointArray array{a.path, a.shape.dims, a.shape.dtype, a.weak, {}, {}};
        if (a.sharding && a.sharding->mesh) {
          const frontend::MeshRecord& mesh = manifest.meshes[*a.sharding->mesh];
          if (mesh.axis_names.size() != mesh.axis_sizes.size()) {
            throw IoError(checkpoint.folder() + ": a mesh with a size missing");
          }
          for (std::size_t i = 0; i < mesh.axis_names.size(); ++i) {
            array.mesh.emplace_back(mesh.axis_names[i], mesh.axis_sizes[i]);
          }
          array.spec = PartitionSpec::parse(a.sharding->spec, location);
        }
        out.arrays.push_back(std::move(array));
      }
      return out;
    });
  });
}

std::vector<std::string> verify_checkpoint(const std::string& directory,
                                           std::optional<std::int64_t> step, Location location) {
  return at_location(location, [&] {
    const std::vector<std::int64_t> steps = frontend::steps_in(directory);
    if (steps.empty() || (step && !std::binary_search(steps.begin(), steps.end(), *step))) {
      no_checkpoint(directory, step, steps);
    }
    std::vector<std::string> damages;
    const auto collect = [&](auto&& check) {
      try {
        check();
      } catch (const IoError& e) {
        damages.push_back(e.message());
      }
    };
    collect([&] {
      const Checkpoint checkpoint(directory, step.value_or(steps.back()));
      const Manifest& manifest = checkpoint.manifest();
      for (std::size_t i = 0; i < manifest.files.size(); ++i) {
        collect([&] { checkpoint.check_file(i); });
      }
      for (const ArrayRecord& a : manifest.arrays) {
        for (const PieceRecord& p : a.pieces) {
          collect(
              [&] { frontend::check_piece(checkpoint.source(a, p), byte_size(a.shape.dtype)); });
        }
      }
    });
    return damages;
  });
}

}  // namespace tessera
